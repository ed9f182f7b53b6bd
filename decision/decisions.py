"""The three decisions, `GoOn`, `Pause` and `Stop`, each with the trace that explains it."""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from .messages import Name, Text
from .outcome import STATUS_OF, Status
from .wrong_attributes import explained_attributes


@explained_attributes
class TraceEntry(Struct, frozen=True, omit_defaults=True):
    """One line of a trace: a rule or guard that was evaluated, the facts it saw, and its result."""

    rule: str
    saw: dict[str, Any] = {}
    said: Text = ""
    """The result as text, such as `stop(completed)`; empty if the rule did not apply."""


@explained_attributes
class _BaseDecision(Struct, frozen=True, kw_only=True, tag_field="do", omit_defaults=True):
    rule: str
    """Name of the rule or guard that decided."""
    trace: tuple[TraceEntry, ...] = ()


class GoOn(_BaseDecision, frozen=True, tag="go_on", kw_only=True, omit_defaults=True):
    """Make another step, after sending `say` to the model in the user's role."""

    say: Text = ""
    why: Text = ""
    compact: bool = False
    hand_back: bool = False
    """If true, the inner loop returns to the outer one after this step, which then decides and records its decision,
    even if nothing is sent to the model: for example after a rejected completion, or when a limit cut the step off."""
    remind: Text = ""
    """A reminder for the next request only; it never becomes part of the transcript."""
    topics: tuple[str, ...] = ()
    """Names of the limits that `remind` is about."""
    extend: int = 0
    """Number of additional steps that the run gets beyond its limit; 0 if none."""

    @property
    def bare(self) -> bool:
        """True if the inner loop may make the next step itself: nothing to send, compact or grant, no `hand_back`."""
        return not (self.say or self.compact or self.hand_back or self.remind or self.extend)

    def __str__(self) -> str:
        return "go on" + (f" ({self.why})" if self.why else "")

    def combine(self, other: GoOn) -> GoOn:
        """Return one decision with the messages and reminders of both, which compacts or hands back if either does."""
        return replace(
            self,
            say="\n".join(part for part in (self.say, other.say) if part),
            remind="\n".join(part for part in (self.remind, other.remind) if part),
            topics=self.topics + other.topics,
            compact=self.compact or other.compact,
            hand_back=self.hand_back or other.hand_back,
            extend=self.extend or other.extend,
        )


class Pause(_BaseDecision, frozen=True, tag="pause", kw_only=True, omit_defaults=True):
    """Wait for the user's answers to the questions with these call ids."""

    questions: tuple[Name, ...]
    extend: int = 0
    """Number of steps that the user is asked for, under the id in `questions`. 0: the questions were asked already."""
    say: Text = ""
    """With `extend`: text that the model is told before the next step."""

    def __str__(self) -> str:
        return "pause(awaiting_input)"


class Stop(_BaseDecision, frozen=True, tag="stop", kw_only=True, omit_defaults=True):
    """End the run. `status` follows from `reason` (`STATUS_OF`); it must be given only for a reason `custom:<name>`.

    Raises ValueError for an unknown reason, or for a custom one without a status.
    """

    reason: str
    detail: Text = ""
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
"""What a run does after a step."""


FOLLOWED, IMPORTED = "followed", "imported"
"""`rule` of a decision that a foreign loop (one not run by endstop) made itself: followed live, or imported."""


def made_by_other_loop(decision: Decision) -> bool:
    """Return whether a foreign loop made this decision by itself, so that no policy can make it again."""
    return decision.rule in (FOLLOWED, IMPORTED)


def made_by_policy(decision: Decision) -> bool:
    """Return whether `decide` made this decision. A cancellation and an internal error end a run without calling it."""
    return not (isinstance(decision, Stop) and decision.reason in ("cancelled", "internal_error"))
