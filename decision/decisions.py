"""The three decisions, `GoOn`, `Pause` and `Stop`, each with the trace that explains it."""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from .outcome import STATUS_OF, Status


class TraceEntry(Struct, frozen=True, omit_defaults=True):
    """One line of a trace: a rule or guard that was evaluated, the facts it saw, and its result."""

    rule: str
    saw: dict[str, Any] = {}
    said: str = ""
    """Empty if the rule did not fire."""


class _BaseDecision(Struct, frozen=True, kw_only=True, tag_field="do", omit_defaults=True):
    rule: str
    """Name of the rule or guard that decided."""
    trace: tuple[TraceEntry, ...] = ()


class GoOn(_BaseDecision, frozen=True, tag="go_on", kw_only=True, omit_defaults=True):
    """Make another step, after sending `say` to the model in the user's role."""

    say: str = ""
    why: str = ""
    compact: bool = False
    hand_back: bool = False
    """True if the outer loop must decide before the next step, though there is nothing to say."""
    remind: str = ""
    """A reminder for the next request only; it never becomes part of the transcript."""
    topics: tuple[str, ...] = ()
    """Names of the limits that `remind` is about."""

    @property
    def bare(self) -> bool:
        """True if the inner loop may continue without the outer one: nothing to say, remind, compact or hand back."""
        return not (self.say or self.compact or self.hand_back or self.remind)

    def __str__(self) -> str:
        return "go on" + (f" ({self.why})" if self.why else "")

    def combine(self, other: GoOn) -> GoOn:
        """Both decisions in one: everything that either would say or do first."""
        return replace(
            self,
            say="\n".join(part for part in (self.say, other.say) if part),
            remind="\n".join(part for part in (self.remind, other.remind) if part),
            topics=self.topics + other.topics,
            compact=self.compact or other.compact,
            hand_back=self.hand_back or other.hand_back,
        )


class Pause(_BaseDecision, frozen=True, tag="pause", kw_only=True, omit_defaults=True):
    """Wait for the user's answers to the questions with these call ids."""

    questions: tuple[str, ...]

    def __str__(self) -> str:
        return "pause(awaiting_input)"


class Stop(_BaseDecision, frozen=True, tag="stop", kw_only=True, omit_defaults=True):
    """End the run. `status` follows from `reason`; only a reason `custom:<name>` must bring its own.

    Raises ValueError for an unknown reason, or for a custom one without a status.
    """

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
        """The run's status after this stop."""
        return self.status or STATUS_OF[self.reason]

    def __str__(self) -> str:
        return f"stop({self.reason})"


Decision = GoOn | Pause | Stop
