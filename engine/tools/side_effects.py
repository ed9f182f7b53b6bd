"""Decides from a function's bytecode whether it may have side effects.

A tool of kind `question` is called only for the text of its question; the user answers after the run has paused. A body
that asks the user itself, or already does what it asks about, is a mistake that would only be noticed afterwards. So
the bytecode is checked when the tool is created. Code that cannot be checked (C functions, methods of unknown objects)
counts as having side effects; `reads=True` overrides that.
"""

from __future__ import annotations

import builtins
import dis
import inspect
from collections.abc import Iterator
from dataclasses import is_dataclass
from enum import Enum
from functools import partial
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from msgspec import Struct

_ACTING = frozenset({"__import__", "breakpoint", "delattr", "eval", "exec", "input", "open", "print", "setattr"})
"""Built-in functions with side effects."""
_PURE_MODULES = frozenset({"html", "json", "math", "msgspec", "operator", "re", "string", "textwrap", "typing"})
_CHANGES = frozenset(
    {"add", "append", "clear", "discard", "extend", "insert", "pop", "popitem", "remove", "setdefault", "update"}
)
"""Methods that change lists, sets and dicts, which matters for those from outside the function."""
_WRITES = frozenset({"STORE_GLOBAL", "DELETE_GLOBAL", "STORE_ATTR", "DELETE_ATTR", "YIELD_VALUE", "GET_AWAITABLE"})
_LOADS = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "LOAD_CLASSDEREF"})
_ATTRIBUTES = frozenset({"LOAD_ATTR", "LOAD_METHOD"})


def has_side_effects(function: Any) -> bool:
    """Return whether a call may do more than compute a value."""
    return _acts(function, set())


def _acts(function: Any, seen: set[CodeType]) -> bool:
    while isinstance(function, partial):
        function = function.func
    function = inspect.unwrap(function)
    if isinstance(function, type):
        return not _is_data(function)
    if isinstance(function, MethodType) or not isinstance(function, FunctionType):
        return True
    names = {**builtins.__dict__, **function.__globals__, **inspect.getclosurevars(function).nonlocals}
    return any(_code_acts(code, function.__code__, names, seen) for code in _nested_codes(function.__code__))


def _nested_codes(code: CodeType) -> Iterator[CodeType]:
    """Yield the code of a function and of all functions defined in it."""
    yield code
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from _nested_codes(one)


def _code_acts(code: CodeType, whole: CodeType, names: dict[str, Any], seen: set[CodeType]) -> bool:
    if code in seen:
        return False
    seen.add(code)
    generated = code is not whole and bool(code.co_flags & inspect.CO_GENERATOR)  # the yield of a comprehension itself
    instructions = list(dis.get_instructions(code))
    puts = any(one.opname in ("STORE_SUBSCR", "DELETE_SUBSCR") for one in instructions)
    for number, one in enumerate(instructions):
        if one.opname in _WRITES and not (generated and one.opname == "YIELD_VALUE"):
            return True
        if one.opname == "IMPORT_NAME" and str(one.argval).partition(".")[0] not in _PURE_MODULES:
            return True
        if one.opname == "STORE_DEREF" and one.argval in whole.co_freevars:
            return True
        if one.opname in _LOADS and one.argval in names:
            if puts and isinstance(names[one.argval], dict | list | bytearray):
                return True
            after = instructions[number + 1] if number + 1 < len(instructions) else one
            attribute = str(after.argval) if after.opname in _ATTRIBUTES else None
            if _may_change(one.argval, names[one.argval], attribute, seen):
                return True
    return False


def _may_change(name: str, value: Any, attribute: str | None, seen: set[CodeType]) -> bool:
    """Return whether using this outer value may have a side effect."""
    if getattr(builtins, name, None) is value and (callable(value) and not isinstance(value, type)):
        return name in _ACTING
    if isinstance(value, ModuleType):
        return value.__name__.partition(".")[0] not in _PURE_MODULES
    if isinstance(value, type):
        return attribute is None and not _is_data(value)
    if isinstance(value, dict | list | set | bytearray):
        return attribute in _CHANGES
    if value is None or isinstance(value, str | bytes | int | float | complex | tuple | frozenset | Enum):
        return False
    if isinstance(value, FunctionType):
        return attribute is None and _acts(value, seen)
    return True


def _is_data(kind: type) -> bool:
    """Return whether instances of this class only hold data."""
    plain = (str, bytes, int, float, tuple, list, dict, set, frozenset, BaseException, Enum, Struct)
    return is_dataclass(kind) or issubclass(kind, plain) or kind.__module__ == "builtins" or _is_model(kind)


def _is_model(kind: type) -> bool:
    return any(base.__module__.startswith("pydantic") for base in kind.__mro__)
