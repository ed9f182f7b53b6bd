"""Log to the loggers `endstop.<part>` of the standard library, with named fields.

A library prints nothing: levels, handlers and formats are the user's, and there are none of ours. The fields stand in
the message as `key=value` and on the record, for formatters that write them apart; its `event` is the message without
them. `docs/guides/logging.md` shows both.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from types import TracebackType
from typing import NamedTuple

ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None]
_RESERVED = frozenset({*logging.makeLogRecord({}).__dict__, "message", "asctime", "event"})
"""Attributes of a record, which no field can replace. A field of such a name gets a `_` after it."""


class CodeLine(NamedTuple):
    """A line of code that a record points at."""

    file: str
    line: int
    function: str


def log_warning(what: str, /, **fields: object) -> None:
    """Log a warning that points at the caller, in the name of its package."""
    log(logging.WARNING, what, fields, frames=2)


def log(
    level: int,
    what: str,
    fields: Mapping[str, object],
    *,
    exc_info: ExcInfo | None = None,
    exc_text: str | None = None,
    place: CodeLine | None = None,
    frames: int = 1,
) -> None:
    """Log an event to the logger of the caller's package, if that takes this level.

    exc_text: the text of the traceback, where that of `exc_info` must not be shown. place: what the record points at;
    None for the caller. frames: the number of frames from here to the caller.
    """
    caller = sys._getframe(frames)
    logger = logging.getLogger(_logger_name(caller.f_globals["__package__"]))
    if not logger.isEnabledFor(level):
        return
    file, line, function = place or (caller.f_code.co_filename, caller.f_lineno, caller.f_code.co_name)
    message = " ".join([what, *(f"{name}={_field_text(value)}" for name, value in fields.items())])
    extra = {f"{name}_" if name in _RESERVED else name: value for name, value in fields.items()}
    extra["event"] = what
    record = logger.makeRecord(logger.name, level, file, line, message, (), exc_info, function, extra)
    record.exc_text = exc_text
    logger.handle(record)


def _logger_name(package: str) -> str:
    """Return `endstop.tools` for a package of that name or within it, and `endstop.engine` for `endstop` itself."""
    root, *parts = package.split(".")
    return f"{root}.{parts[0] if parts else 'engine'}"


def _field_text(value: object) -> str:
    """Return a value in one word, so that no text of a model or a provider looks like a field or a line of its own."""
    text = str(value)
    return text if text.isprintable() and not any(sign in text for sign in " =\"'") else repr(text)
