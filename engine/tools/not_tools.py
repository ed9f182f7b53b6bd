"""What to say of an object that is given as a tool and is none: what it is, and what to write instead."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from functools import partial
from types import ModuleType
from typing import Any

from ..decision import ToolSpec

_FUNCTIONS_WITHIN = ("function", "func", "coroutine", "fn")
"""Attributes in which tools of other libraries keep their function."""


def not_a_tool(value: Any) -> str:
    """Return the text for an object that is not a tool, to follow the name of what it was given for."""
    return f"{_shown(value)} is not a tool{_advice(value)}"


def _advice(value: Any) -> str:
    if value is None:
        return ": leave it out, or see that the function which makes your tools returns them"
    if isinstance(value, str | bytes):
        return ", but a text: give the tool itself, without quotes and without calling it: tools=[look], not look(...)"
    if callable(getattr(value, "as_tool", None)):
        return ", but can be made one: write it.as_tool(...), as in engine.as_tool(name, description)"
    if inspect.isawaitable(value):
        return ", but the result of a call: give the tool itself, which the model calls: tools=[look], not look(...)"
    if isinstance(value, Mapping):
        return (
            ", but a mapping, as for the API of a vendor: give the function that does the work, as in "
            "Tool(function, name=..., description=..., parameters={...})"
        )
    if isinstance(value, ModuleType):
        return f", but a module: give its tools one by one, as in tools=[{value.__name__}.look]"
    if isinstance(value, type):
        return f", but a class: make tools of the methods of an object, as in tool({value.__name__}(...).look)"
    if isinstance(value, ToolSpec):
        return ", but the description of one: give the tool itself, as made by @tool"
    if inspect.isroutine(value) or isinstance(value, partial):
        return _advice_on_function(value)
    for name in _FUNCTIONS_WITHIN:
        if callable(getattr(value, name, None)):
            return f", but an object of {_class_of(value)}: make one of its function, as in tool(other.{name})"
    if isinstance(value, Iterable):
        return ", but several values: unpack them: tools=[*these, other]"
    if callable(value):
        return ": put @tool on the function"
    return f", but an object of {_class_of(value)}: put @tool on a function, which may call it"


def _advice_on_function(function: Any) -> str:
    if getattr(function, "__module__", "") == "endstop.tools.tool":
        return ", but the decorator: put @tool, or @tool(...), on a function, and give that"
    return ": put @tool on the function"


def _class_of(value: Any) -> str:
    kind = type(value)
    library = kind.__module__.partition(".")[0]
    return f"class {kind.__name__}" if library in ("builtins", "__main__") else f"class {kind.__name__} of {library}"


def _shown(value: Any) -> str:
    try:
        text = repr(value)
    except Exception:
        text = f"a {type(value).__name__} without a repr"
    return text if len(text) <= 80 else f"{text[:77]}..."
