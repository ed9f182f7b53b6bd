"""One run, and what is known of the work itself: whether it was good, and when it was done."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from ..decision.summary import Point, RunDigest

GOOD = 0.5
"""A reward or rating of this or more is good."""

By = Literal["rating", "evaluation", "reward", ""]
"""Who says whether a run was good."""
Known = Literal["checked", "said", "said_after_failures", "wrong", "not_said"]
"""What is known of a run's work, in the words of a report.

checked, wrong: somebody has judged it. said: it was reported as done, and nobody has looked. said_after_failures: the
same, although calls had failed before it and nothing made up for that. not_said: nobody said that it was done.
"""
Ended = Literal["completion", "text", "limit", "other", "unfinished"]
"""How a run ended, in the words of a report.

completion: an accepted one. text: a plain answer. limit: of steps, calls, tokens, cost or time. other: all other stop
reasons. unfinished: the record ends before the run does.
"""


class Assessed(Struct, frozen=True, kw_only=True):
    """A run with what is said of it."""

    digest: RunDigest
    kind: str = ""
    """Of its task, where given."""
    good: bool | None = None
    """None if nobody says."""
    by: By = ""
    done: Point | None = None
    """What was used when the work was reported as done, as far as anybody can tell; None if it never was."""

    @property
    def ended(self) -> Ended:
        """How it ended."""
        match self.digest.stop_reason:
            case "":
                return "unfinished"
            case "completed":
                return "completion"
            case "text_final":
                return "text"
            case reason:
                return "limit" if reason in LIMITS else "other"

    @property
    def known(self) -> Known:
        """What is known of its work, a user's rating and a bare reward included."""
        if self.good is not None:
            return "checked" if self.good else "wrong"
        if not self.ended_as_done:
            return "not_said"
        return "said_after_failures" if self.digest.failed_calls else "said"

    @property
    def ended_as_done(self) -> bool:
        """Whether it ended as reported as done."""
        return self.digest.status == "completed"

    @property
    def waste(self) -> Point | None:
        """What was used after the work was reported as done; None where it never was."""
        return None if self.done is None else self.digest.end.since(self.done)

    @property
    def imported(self) -> bool:
        """Whether another loop made it: its limits are then not known."""
        return self.digest.engine.startswith("import:")


LIMITS = frozenset({"step_limit", "tool_call_limit", "token_limit", "cost_limit", "time_limit"})


def assess(digest: RunDigest, kind: str = "", rating: float | None = None) -> Assessed:
    """What is known of a run. The user's own rating counts before the evaluation, and that before a bare reward."""
    good, by = _judged(digest, rating)
    return Assessed(digest=digest, kind=kind, good=good, by=by, done=_done(digest, good))


def _judged(digest: RunDigest, rating: float | None) -> tuple[bool | None, By]:
    if rating is not None:
        return rating >= GOOD, "rating"
    if digest.verdict != "not_run":
        return digest.verdict == "passed", "evaluation"
    if digest.reward is not None:
        return digest.reward >= GOOD, "reward"
    return None, ""


def _done(digest: RunDigest, good: bool | None) -> Point | None:
    """When the work was reported as done.

    That is at the accepted completion or the text that ended the run; and if the end is good, at the model's first
    word that it is done if it did nothing after it but say so again.
    """
    done, claimed = digest.done, digest.claimed
    ends_well = good is True or (digest.status == "completed" and good is None)
    if claimed is None or not ends_well:
        return done
    return claimed if done is None or claimed.steps < done.steps else done
