"""Write values of a record without the fields that have their defaults, which a reader fills in.

Programs expect each field over HTTP and in exports, so the types themselves write all of them.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec
from msgspec import NODEFAULT, Struct
from msgspec.structs import asdict, replace

from ..decision.events import ResponseFinished, RunFinished, RunStarted


def without_defaults(value: Struct) -> Any:
    """Return the value as it is written. Reading it as its own type gives an equal value."""
    return _short_type(type(value))(**asdict(value))


@cache
def _short_type(kind: type[Struct]) -> Any:
    """Return a type with the same fields that does not write those with their defaults."""
    fields: list[Any] = []
    for field in msgspec.structs.fields(kind):
        if field.default_factory is not NODEFAULT:
            fields.append((field.name, Any, msgspec.field(default_factory=field.default_factory)))
        else:
            fields.append((field.name, Any) if field.required else (field.name, Any, field.default))
    tag = kind.__struct_config__.tag
    return msgspec.defstruct(kind.__name__, fields, tag=tag, kw_only=True, omit_defaults=True, gc=False)


def short_form(line: Any) -> Any:
    """Return a line with usage, outcome, tools and earlier usage without defaults; every other line unchanged."""
    kind = type(line)
    if kind is ResponseFinished:
        return replace(line, usage=without_defaults(line.usage))
    if kind is RunFinished:
        return replace(line, outcome=_with_short_usage(line.outcome))
    if kind is RunStarted:
        if line.carried is None and line.before is None:
            return line
        return replace(line, carried=_with_short_usage(line.carried), before=_with_short_usage(line.before))
    return line


def with_short_tools(line: Any) -> Any:
    """Return a line with its tools without defaults, if it has tools."""
    return replace(line, tools=tuple(map(without_defaults, line.tools))) if type(line) is RunStarted else line


def _with_short_usage(value: Any) -> Any:
    return value and without_defaults(replace(value, usage=without_defaults(value.usage)))
