"""Whether a value is of the type that a parameter is annotated with, and how to say which values are.

Only what an annotation says of a value's own kind is looked at: the elements of lists and tuples, but not what a
function takes, nor the values of a mapping. What cannot be known without a guess fits.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import IO, Annotated, Any, BinaryIO, Literal, TextIO, TypeVar, Union, get_args, get_origin, get_type_hints

NOTHING = "None"
IN_A_FILE = 'None ("off" in a file)'
"""What `describe_type` says of None: for a value in Python, and for one that may stand in a file."""


@cache
def annotations_of(function: Any) -> Mapping[str, Any]:
    """Return the types of a function's parameters, or of a struct's fields. One that cannot be read here is Any."""
    if isinstance(function, type):
        return get_type_hints(function)
    namespace, written_types = getattr(function, "__globals__", {}), getattr(function, "__annotations__", {})
    return {name: _read(written, namespace) for name, written in written_types.items() if name != "return"}


def _read(written: Any, namespace: dict[str, Any]) -> Any:
    if not isinstance(written, str):
        return written
    try:
        return eval(written, namespace)
    except Exception:  # a name that only type checkers import
        return Any


def fits(value: Any, kind: Any) -> bool:
    """Return whether a value is of this type."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return fits(value, parts[0])
    if origin in (Union, types.UnionType):
        return any(fits(value, part) for part in parts)
    if origin is Literal:
        return any(value == part and type(value) is type(part) for part in parts)
    if origin is type:
        return is_type(value)
    if origin is not None:
        return _is_a(value, origin) and _elements_fit(value, origin, parts)
    if kind is None:
        return value is None
    return kind in (Any, object) or not isinstance(kind, type) or _is_a(value, kind)


def is_type(value: Any) -> bool:
    """Return whether a value is a type as it may stand in an annotation: a class, `list[int]`, `A | B`, a `Literal`."""
    return isinstance(value, type) or get_origin(value) is not None or type(value).__module__ in _TYPING


_TYPING = ("typing", "typing_extensions")
"""Modules of the classes of `NewType`, `TypeAliasType` and other types without an origin."""


def _is_a(value: Any, kind: type) -> bool:
    if kind in (int, float):
        return isinstance(value, int | kind) and not isinstance(value, bool)
    if kind in (IO, TextIO, BinaryIO):
        return hasattr(value, "read") or hasattr(value, "write")
    if kind.__name__ == "Callable":
        return callable(value)
    if getattr(kind, "_is_protocol", False) and kind not in _RUNTIME:
        return all(hasattr(value, name) for name in _members(kind))
    if isinstance(kind, type) and issubclass(kind, Collection) and kind.__module__ in _CONTAINERS:
        if issubclass(kind, Mapping):
            return isinstance(value, Mapping)
        if not issubclass(kind, str | bytes):
            has_no_order = issubclass(kind, Sequence) and isinstance(value, Mapping)
            return isinstance(value, Iterable) and not isinstance(value, str | bytes) and not has_no_order
    if kind is Iterable:
        return isinstance(value, Iterable) and not isinstance(value, str | bytes)
    try:
        return isinstance(value, kind)
    except TypeError:  # a TypedDict, or a protocol that is not for `isinstance`
        return True


_CONTAINERS = ("builtins", "collections", "collections.abc")
_RUNTIME = (Iterable, Iterator)


def _elements_fit(value: Any, origin: type, parts: tuple[Any, ...]) -> bool:
    if not isinstance(value, list | tuple) or not parts:
        return True
    if origin is tuple and Ellipsis not in parts:
        return len(value) == len(parts) and all(map(fits, value, parts))
    return all(fits(element, parts[0]) for element in value)


@cache
def _members(protocol: type) -> frozenset[str]:
    """Return the public members of a protocol, with `__call__` and the like where it has them."""
    names: set[str] = set()
    for base in protocol.__mro__:
        if getattr(base, "_is_protocol", False) and base.__module__ != "typing":
            names |= {name for name in (*vars(base), *inspect.get_annotations(base)) if not name.startswith("_")}
            names |= {name for name in ("__call__", "__enter__", "__aenter__") if name in vars(base)}
    return frozenset(names)


def describe_type(kind: Any, none: str = NOTHING) -> str:
    """Describe a type's values for an error message: `a whole number, or None`. none: what it says of None."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return describe_type(parts[0], none)
    if origin in (Union, types.UnionType):
        words = " or ".join(dict.fromkeys(describe_type(part, none) for part in parts if part is not type(None)))
        return f"{words}, or {none}" if type(None) in parts else words
    if origin is Literal:
        return " or ".join(repr(part) for part in parts)
    if kind in _ONE:
        return _ONE[kind]
    if origin is Callable or kind is Callable:
        return "a function"
    if origin is type or kind is types.UnionType:
        return "a type, as in list[int] or A | B"
    if isinstance(origin or kind, type):
        return _describe_class(origin or kind, parts, none)
    return str(kind)


def _describe_class(kind: type, parts: tuple[Any, ...], none: str) -> str:
    if kind is type:
        return "a class"
    if kind is types.UnionType:
        return "a union, as in A | B"
    if kind in (IO, TextIO, BinaryIO):
        return "an open file"
    if issubclass(kind, Mapping):
        return "a mapping, as in {...}"
    if kind.__module__ in _CONTAINERS and issubclass(kind, Iterable):
        element = parts[0] if parts and not isinstance(parts[0], TypeVar) else Any
        return f"a list of {_MANY.get(element) or describe_type(element, none)}"
    if getattr(kind, "_is_protocol", False) or kind.__module__ == "os":
        return f"a {kind.__name__}" if kind.__module__ != "os" else "a path"
    return f"{kind.__name__}(...)" if none == NOTHING else f"{kind.__name__}(...), in a file a separate section"


_ONE: dict[Any, str] = {
    int: "a whole number",
    float: "a number",
    str: "a text",
    bytes: "bytes",
    bool: "true or false",
    Any: "any value",
}
_MANY: dict[Any, str] = {int: "whole numbers", float: "numbers", str: "texts", Any: "values"}
