"""Log what the functions of users raise: a bug of theirs must not be known to the model alone.

Each is a warning with its traceback, once for a run, a function and a line; how often it was raised again is logged
when the run ends. The traceback begins at the user's function, and secrets are masked in all of its text.
"""

from __future__ import annotations

import logging
import os
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from inspect import unwrap
from types import CodeType, TracebackType
from typing import Any

from .hooks import qualified_name
from .providers._logging import CodeLine, ExcInfo, log
from .providers.surrogate_pairs import whole_characters
from .tools.user_functions import describe_error

_CALLS_FOR_US = frozenset({"endstop", "anyio", "asyncio", "concurrent", "contextlib", "threading", "pydantic"})
"""Packages with frames between the loop and a user's function."""


@dataclass(slots=True)
class _RunErrors:
    """What was logged in one run, and how often it happened."""

    redact: Callable[[str], str] | None = None
    about: Mapping[str, object] = field(default_factory=dict)
    times: Counter[tuple[str, str, CodeLine | None]] = field(default_factory=Counter)


_current: ContextVar[_RunErrors | None] = ContextVar("endstop_user_errors", default=None)


@contextmanager
def once_a_run(redact: Callable[[str], str] | None, **about: object) -> Iterator[None]:
    """Inside the block, log each error of a user's function only once, and at the end how often it came again.

    redact: applied to all texts, after the masking of the secrets in the environment. about: fields of each line.
    """
    errors = _RunErrors(redact, about)
    before = _current.set(errors)
    try:
        yield
    finally:
        _current.reset(before)
        for (what, name, place), times in errors.times.items():
            if times > 1:
                again = f"{what} again {times - 1} time{'s' if times > 2 else ''}"
                log(logging.WARNING, again, {"function": name, "times": times - 1, **about}, place=place)


def log_user_error(role: str, function: Any, error: BaseException, **about: object) -> None:
    """Log what a function of the user raised. role: what the function is, in words. about: more fields."""
    inner, raised = _raised_by_user(error)
    place = _place_of(function) if raised is None else _last_place(raised)
    _log_once(f"{role} raised", function, describe_error(error), place, about, (type(inner), inner, raised))


def log_unusable_answer(role: str, function: Any, why: str, **about: object) -> None:
    """Log that a function of the user gave no answer, or one that cannot be used."""
    _log_once(f"{role} gave no usable answer", function, why, _place_of(function), about)


def log_change_in_place(role: str, function: Any, why: str) -> None:
    """Log that a function of the user changed what it was given, although that has no effect."""
    _log_once(f"{role} changed what it was given", function, why, _place_of(function), {})


def log_failure(what: str, error: BaseException, level: int = logging.WARNING, **about: object) -> None:
    """Log an error that may be a user's or ours. If a user's function is in its traceback, that begins there."""
    inner, raised = _raised_by_user(error)
    if raised is None:
        inner, raised = error, error.__traceback__
    function = "" if raised is None else raised.tb_frame.f_code.co_qualname
    place = None if raised is None else _last_place(raised)
    _log_once(what, function, describe_error(error), place, about, (type(inner), inner, raised), level)


def _log_once(
    what: str,
    function: Any,
    said: str,
    place: CodeLine | None,
    about: dict[str, object],
    exc_info: ExcInfo | None = None,
    level: int = logging.WARNING,
) -> None:
    """Log this, unless the run has had the same. The logger is that of whoever called the function that called this."""
    name = function if isinstance(function, str) else qualified_name(unwrap(function))
    errors = _current.get() or _RunErrors()  # outside of a run, each is the first one
    errors.times[what, name, place] += 1
    if errors.times[what, name, place] > 1:
        return
    text = None if exc_info is None else "".join(traceback.format_exception(*exc_info)).rstrip()
    masked = None if text is None else _masked(text, errors.redact)
    if masked == text:
        masked = None
    else:
        exc_info = None  # a formatter would show what is masked
    fields = {"function": name, "error": _masked(said, errors.redact), **errors.about, **about}
    log(level, what, fields, exc_info=exc_info, exc_text=masked, place=place, frames=3)


def _masked(text: str, redact: Callable[[str], str] | None) -> str:
    """Return the text without the secrets of the environment, what the user's redaction finds, and half characters."""
    from .records.known_secrets import KnownSecrets, environment_secrets

    text = KnownSecrets(environment_secrets(os.environ))(whole_characters(text))
    try:
        return text if redact is None else redact(text)
    except Exception as error:
        return f"(not shown: the redaction raised {type(error).__name__})"


def _raised_by_user(error: BaseException) -> tuple[BaseException, TracebackType | None]:
    """Return the error that a user's code raised, maybe as the cause of one of ours, and its part of the traceback."""
    cause: BaseException | None = error
    while cause is not None:
        if (raised := _users_part(cause.__traceback__)) is not None:
            return cause, raised
        cause = cause.__cause__
    return error, None


def _users_part(frames: TracebackType | None) -> TracebackType | None:
    """Return a traceback without our frames at its beginning and its end; None if nothing is left."""
    kept: list[TracebackType] = []
    while frames is not None:
        if kept or _package_of(frames) not in _CALLS_FOR_US:
            kept.append(frames)
        frames = frames.tb_next
    while kept and _package_of(kept[-1]) == "endstop":
        kept.pop()
    rest: TracebackType | None = None
    for one in reversed(kept):
        rest = TracebackType(rest, one.tb_frame, one.tb_lasti, one.tb_lineno)
    return rest


def _package_of(frame: TracebackType) -> str:
    return str(frame.tb_frame.f_globals.get("__name__")).partition(".")[0]


def _last_place(frames: TracebackType) -> CodeLine:
    """Return the line that raised."""
    while frames.tb_next is not None:
        frames = frames.tb_next
    code = frames.tb_frame.f_code
    return CodeLine(code.co_filename, frames.tb_lineno, code.co_name)


def _place_of(function: Any) -> CodeLine | None:
    """Return where a function is defined; None if that is not known."""
    function = unwrap(function)
    code = getattr(function if hasattr(function, "__code__") else type(function).__call__, "__code__", None)
    return CodeLine(code.co_filename, code.co_firstlineno, code.co_name) if isinstance(code, CodeType) else None
