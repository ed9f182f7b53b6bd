"""The user's check of the work (`until`): what it has said so far, and the decision that follows from it.

The engine runs the check beside the run and writes what it said into the run's events. A rule at the head of the order
decides by the newest answer; a guard ends a run whose changes no longer bring the work nearer to passing.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from .outcome import EvaluationVerdict

CheckSaid = Literal["met", "not_met", "impossible", "unknown"]
"""Answer of a check. `unknown`: it could not tell, which counts as no answer."""
CheckPlace = Literal["start", "step", "response", "write", "claim", "stop"]
"""Where the loop looks at a check. `start`: before the first request. `step`: before a step begins. `response`: while
and after a response streams. `write`: before a call that may write, which waits for a running check. `claim`: before a
completion, a final text or a report that the task is impossible is answered. `stop`: before any other end."""
UNTIL = "until"
"""`CompletionRejected.by` if the user's check of the work is not met."""
CUT_FOR_CHECK = "check"
"""Value of `ResponseFinished.cut_for` if the engine stopped reading a response because the user's check is met."""
REMEMBERED_FAILURES = 64
"""Maximum number of marks in `CheckFacts.failures`; the oldest are dropped."""


class CheckFacts(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the check of a run has said so far."""

    name: str = ""
    """Name of the check: its commands, or the name of its function."""
    said: CheckSaid | None = None
    """The newest answer; None before the first one."""
    detail: str = ""
    """Why it is not met, or cannot be."""
    score: float | None = None
    """How much of the check passes, such as the number of passing tests; None if it has no number."""
    of: float | None = None
    """The most that the score can be; None if that is not known."""
    best: float | None = None
    """The highest score so far."""
    failures: tuple[int, ...] = ()
    """Marks of the failures seen so far, for a check without a score; a mark that is not among them is progress."""
    answers: int = 0
    """Number of answers, without those that could not tell."""
    in_vain: int = 0
    """Answers in a row about changed work that were no better than before."""
    told: int = 0
    """The value of `in_vain` when the model was last told something between two requests."""
    guard_changed: tuple[str, ...] = ()
    """Files that the check stands on and that were changed, where only the changed ones let it pass."""
    judged_by: str = ""
    """The model that judged, for a check that asks one."""
    unchanged_since: Literal["", "the start", "the last check"] = ""
    """Since when no check of other work has begun, if the model has been told what this one says: at the start of the
    run, or when a completion or a report was handed back. Empty if one has."""
    blocked: str | None = None
    """The model's reason why the task cannot be done, once that is accepted."""
    reports: int = 0
    """Number of times that the model reported to be blocked."""

    @property
    def shown_score(self) -> str:
        """The score for people: `41 of 44`; empty without a score."""
        if self.score is None:
            return ""
        return f"{self.score:g}" if self.of is None else f"{self.score:g} of {self.of:g}"

    @property
    def told_detail(self) -> str:
        """What the model is told when a completion or a report is handed back: `detail`, and if nothing has changed."""
        if not self.unchanged_since:
            return self.detail
        return f"Nothing has changed since {self.unchanged_since}.\n{self.detail}".rstrip()

    @property
    def verdict(self) -> EvaluationVerdict:
        """What the newest answer says of the work.

        `not_run` without an answer, if a model judged, and if it passes only with changed files that it stands on.
        """
        if self.said is None or self.judged_by or (self.said == "met" and self.guard_changed):
            return "not_run"
        return "passed" if self.said == "met" else "failed"

    def with_answer(
        self, said: CheckSaid, detail: str, score: float | None, of: float | None, failure: int
    ) -> CheckFacts:
        """Return the facts after one more answer. failure: mark of what failed, for a check without a score."""
        if said == "unknown":
            return self
        better = self._is_better(said, score, failure)
        if said == "met":
            score, of = (self.of, self.of) if score is None else (score, score if of is None else of)
        known = failure in self.failures or score is not None or said != "not_met"
        return replace(
            self,
            said=said,
            detail=detail,
            score=score,
            of=of,
            best=score if self.best is None or (score is not None and score > self.best) else self.best,
            failures=self.failures if known else (*self.failures[1 - REMEMBERED_FAILURES :], failure),
            answers=self.answers + 1,
            in_vain=0 if better else self.in_vain + 1,
            told=0 if better else self.told,
        )

    def _is_better(self, said: CheckSaid, score: float | None, failure: int) -> bool:
        if said == "met" or self.said is None:
            return True
        if score is not None:
            return self.best is None or score > self.best
        return failure not in self.failures
