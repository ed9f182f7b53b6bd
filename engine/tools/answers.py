"""What a tool's function may return when a plain value does not say enough.

Any tool may return text, anything that can be turned into JSON, an `Image`, or a list of texts and images. A completion
tool may return a `Completion`, a `Phase` (a part of the work is done) or `Continue` (it is not done); plain text is the
run's answer, but for the one word "continue". It may also say so with a mapping, an object or JSON text:
`{"success": false, "error": ...}`, `{"task_completed": false}`, `{"shouldContinue": true}` and False hand it back,
`{"success": true, "summary": ...}` ends the run with the summary (or `message`, `result`) as its answer, None and True
with the text that the model called it with, `{"completion_percentage": 60, "next_phase": ...}` is a phase, and
`"requires_user_confirmation": true` asks the user first.

A tool's `check` says what became of a call that had begun when its process died: `Happened`, `NotHappened` or
`Unclear`.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import cache
from typing import Any, get_type_hints

import msgspec

from ..decision import Image, WrongUse
from ..decision.messages import ResultStatus
from ..decision.settings import wanted


class _Checked:
    """Refuses a value of another type where it is made: it would stand in a record that nobody could read again."""

    __slots__ = ()

    def __post_init__(self) -> None:
        answer: type = type(self)
        for name, kind in _kinds(answer).items():
            value = getattr(self, name)
            try:
                msgspec.convert(value, kind)
            except msgspec.ValidationError:
                what = f"{type(value).__name__}: use {wanted(kind)}"
                raise WrongUse(f"{answer.__name__}({name}=...) is given a value of type {what}") from None


@cache
def _kinds(answer: Hashable) -> dict[str, Any]:
    return get_type_hints(answer)


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion(_Checked):
    """The work is done. `answer` is what the user gets, `content` what the transcript shows as the tool's result."""

    answer: str
    content: str | None = None
    success: bool = True
    error: str | None = None
    """Why it is no success; the completion is then handed back with it."""
    pending_issues: tuple[str, ...] = field(default=())
    confirm: str | None = None
    """A question to the user that must be answered with yes before the work counts as done; the run pauses."""
    percentage: int | None = None
    """100 for a tool that reports phases: the last one is then among the phases of the outcome."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase(_Checked):
    """A part of the work is done: `percentage` of it, 0 to 99. The run goes on."""

    percentage: int
    summary: str = ""
    next_phase: str | None = None
    content: str | None = None
    """What else the transcript shows as the result of a tool that `completes`."""


@dataclass(frozen=True, slots=True)
class Continue(_Checked):
    """The work is not done, for this reason. The run goes on."""

    reason: str = "The task is not complete yet. Go on."
    content: str | None = None
    """What else the transcript shows as the result of a tool that `completes`."""


@dataclass(frozen=True, slots=True)
class Happened:
    """A check says: the call took effect. `result` is what the tool's function would have returned."""

    result: Any = None


@dataclass(frozen=True, slots=True)
class NotHappened:
    """A check says: the call has had no effect, and none is to come of it. It is run now."""


@dataclass(frozen=True, slots=True)
class Unclear(_Checked):
    """A check says: it cannot be found out."""

    why: str = ""


@dataclass(frozen=True, slots=True)
class Asked(_Checked):
    """Only the user can say what became of the call: it stays open until the answer to this question, its result."""

    question: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled(_Checked):
    """A result that was settled elsewhere, with its own status: replay uses it, and tools that wrap tools."""

    content: str
    status: ResultStatus = "ok"
    images: tuple[Image, ...] = ()
