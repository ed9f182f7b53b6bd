"""What the decision can say: GoOn, Pause or Stop, each with the trace that explains it."""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from .outcome import STATUS_OF, Status


class TraceEntry(Struct, frozen=True, omit_defaults=True):
    """One line of a trace: a rule or guard that was asked, the facts it saw, and what it said."""

    rule: str
    saw: dict[str, Any] = {}
    said: str = ""
    """Empty if the rule did not fire."""


class _BaseDecision(Struct, frozen=True, kw_only=True, tag_field="do", omit_defaults=True):
    rule: str
    """The name of the rule or guard that spoke."""
    trace: tuple[TraceEntry, ...] = ()


class GoOn(_BaseDecision, frozen=True, tag="go_on", kw_only=True, omit_defaults=True):
    """Make another step. `say` is put to the model first, in the user's role."""

    say: str = ""
    why: str = ""
    compact: bool = False
    hand_back: bool = False
    """True if the outer loop must look before the next step, though there is nothing to say."""
    remind: str = ""
    """Shown to the model with the next request, and never again."""
    topics: tuple[str, ...] = ()
    """The limits that `remind` is about."""

    @property
    def bare(self) -> bool:
        """True if the inner loop may go on by itself."""
        return not (self.say or self.compact or self.hand_back or self.remind)

    def __str__(self) -> str:
        return "go on" + (f" ({self.why})" if self.why else "")

    def combine(self, other: GoOn) -> GoOn:
        """Both go-ons in one: what either would say, and do first."""
        return replace(
            self,
            say="\n".join(part for part in (self.say, other.say) if part),
            remind="\n".join(part for part in (self.remind, other.remind) if part),
            topics=self.topics + other.topics,
            compact=self.compact or other.compact,
            hand_back=self.hand_back or other.hand_back,
        )


class Pause(_BaseDecision, frozen=True, tag="pause", kw_only=True, omit_defaults=True):
    """Wait for the user's answer to the questions of these call ids."""

    questions: tuple[str, ...]

    def __str__(self) -> str:
        return "pause(awaiting_input)"


class Stop(_BaseDecision, frozen=True, tag="stop", kw_only=True, omit_defaults=True):
    """End the run. `status` follows from `reason`, but for `custom:<name>`, which brings its own."""

    reason: str
    detail: str = ""
    status: Status | None = None

    def __post_init__(self) -> None:
        known = STATUS_OF.get(self.reason)
        if known is None and not (self.reason.startswith("custom:") and self.status):
            raise ValueError(
                f"unknown stop reason {self.reason!r}: use one of {', '.join(STATUS_OF)}, "
                "or 'custom:<name>' together with a status"
            )

    @property
    def final_status(self) -> Status:
        """The status of a run that this decision ends."""
        return self.status or STATUS_OF[self.reason]

    def __str__(self) -> str:
        return f"stop({self.reason})"


Decision = GoOn | Pause | Stop
