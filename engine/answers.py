"""What a tool's function may return when a plain value does not say enough.

Any tool may return text, anything that can be turned into JSON, an `Image`, or a list of texts and images. A completion
tool may return a `Completion`, a `Phase` (a part of the work is done) or `Continue` (it is not done); plain text is the
run's answer, but for the one word "continue".
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ..decision import Image


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
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
class Phase:
    """A part of the work is done: `percentage` of it, 0 to 99. The run goes on."""

    percentage: int
    summary: str = ""
    next_phase: str | None = None


@dataclass(frozen=True, slots=True)
class Continue:
    """The work is not done, for this reason. The run goes on."""

    reason: str = "The task is not complete yet. Go on."


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """A result that was settled elsewhere, with its own status: replay uses it, and tools that wrap tools."""

    content: str
    status: str = "ok"
    images: tuple[Image, ...] = ()
