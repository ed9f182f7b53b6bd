"""When the checks in recorded sessions passed, what came after, and where `until` would have ended each session.

Two points of a session are told apart:

- met: the first check that passed after the last change of the work. What follows it did not change the work any more.
- stop: the first check that passed after the first change: there `until` with that command as its check would have
  ended the session. The work may have changed after it, since a check need not cover all of the task; that is counted.

The record's check may be another command each time, and only some of the tests, while `until` has one check.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from .policy_simulation import BacktestResult
from .recorded_checks import RecordedCheck, Said
from .statistics import Interval, RatioEstimator, clamp_share
from .summary import ResourceUse


class SessionChecks(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The checks of one session. Its steps are counted over all of its runs, from 1."""

    checks: tuple[RecordedCheck, ...] = ()
    changed: int | None = None
    """The step with the last change of the work; None if nothing was changed."""
    met: RecordedCheck | None = None
    """The first check that passed after the last change; None if there is none, or nothing was changed."""
    after_met: ResourceUse | None = None
    stop: RecordedCheck | None = None
    """The first check that passed after the first change: where `until` would have ended the session."""
    after_stop: ResourceUse | None = None
    last: Said | Literal["none"] = "none"
    """What the last check said of those that said anything; `unknown` if none did, `none` without a check."""
    said_done: bool = False
    """Whether the session said at its end that it was done."""

    @property
    def changed_after_stop(self) -> bool:
        """Whether the work was changed after `until` would have ended the session."""
        return self.stop is not None and self.changed is not None and self.changed > self.stop.step

    @property
    def failing_but_done(self) -> bool:
        """Whether the session said that it was done although its last check failed."""
        return self.said_done and self.last == "failed"


class CheckTotals(Struct, frozen=True, kw_only=True):
    """The checks of several sessions."""

    sessions: int
    steps: int
    changed: int
    """Number of sessions that changed something."""
    checked: int
    """Number of sessions with a check."""
    met: int
    """Number of sessions with a check that passed after the last change of the work."""
    steps_after_met: int
    steps_after_met_share: Interval | None
    """`steps_after_met` as a share of the steps of all sessions. None for fewer than two sessions, or without steps."""
    output_tokens_after_met: int
    cost_usd_after_met: float | None
    """US dollars spent after it, in sessions whose cost is known; None if it is known of none."""
    stopped: int
    """Number of sessions that `until` would have ended a step or more before they did."""
    changed_after_stop: int
    """Number of sessions whose work was changed after that."""
    saved_steps: int
    saved_steps_share: Interval | None
    """`saved_steps` as a share of the steps of all sessions. None for fewer than two sessions, or without steps."""
    failing_but_done: int
    """Number of sessions that said that they were done although their last check failed."""


def session_checks(runs: Sequence[BacktestResult]) -> SessionChecks:
    """Return the checks of the runs of one session, for which `backtest` was told to find them."""
    own = [run for run in runs if not run.digest.is_copy]
    checks: list[RecordedCheck] = []
    changes: list[int] = []
    rests: dict[int, ResourceUse] = {}
    before = 0
    later = [_total(own[number + 1 :]) for number in range(len(own))]
    for run, rest in zip(own, later, strict=True):
        offset = before - run.digest.start.steps
        for check in run.checks.checks:
            if check.step > run.digest.start.steps:  # not one that a fork copied
                placed = replace(check, step=check.step + offset)
                checks.append(placed)
                rests[id(placed)] = run.digest.used_after(check.used) + rest
        changes += (max(0, step + offset) for step in run.checks.changes)
        before += run.digest.used.steps
    first, last = min(changes, default=None), max(changes, default=None)
    met, stop = _first_passed(checks, last), _first_passed(checks, first)
    answers = [check.said for check in checks if check.said != "unknown"]
    return SessionChecks(
        checks=tuple(checks),
        changed=last,
        met=met,
        after_met=None if met is None else rests[id(met)],
        stop=stop,
        after_stop=None if stop is None else rests[id(stop)],
        last=answers[-1] if answers else "unknown" if checks else "none",
        said_done=bool(own) and own[-1].digest.said is not None,
    )


def _total(runs: Sequence[BacktestResult]) -> ResourceUse:
    return sum((run.digest.used for run in runs), ResourceUse())


def _first_passed(checks: Sequence[RecordedCheck], changed: int | None) -> RecordedCheck | None:
    if changed is None:
        return None
    return next((check for check in checks if check.said == "passed" and check.step >= changed), None)


class CheckAggregator:
    """Adds up the checks of sessions, one at a time."""

    def __init__(self) -> None:
        self._count = dict.fromkeys(
            ("changed", "checked", "met", "stopped", "changed_after_stop", "failing_but_done"), 0
        )
        self._after_met, self._saved = RatioEstimator(), RatioEstimator()
        self._output_tokens = 0
        self._cost: float | None = None

    def add(self, steps: int, session: SessionChecks) -> None:
        """Add a session. steps: the number of steps of its runs."""
        after = session.after_met or ResourceUse()
        saved = 0 if session.after_stop is None else session.after_stop.steps
        self._count["changed"] += session.changed is not None
        self._count["checked"] += bool(session.checks)
        self._count["met"] += session.met is not None
        self._count["stopped"] += saved > 0
        self._count["changed_after_stop"] += session.changed_after_stop
        self._count["failing_but_done"] += session.failing_but_done
        self._after_met.add(after.steps, steps)
        self._saved.add(saved, steps)
        self._output_tokens += after.usage.output_tokens
        if session.met is not None and after.usage.cost_usd is not None:
            self._cost = (self._cost or 0.0) + after.usage.cost_usd

    def totals(self) -> CheckTotals:
        """Return the totals of all sessions so far."""
        return CheckTotals(
            sessions=self._saved.n,
            steps=int(self._saved.denominator),
            steps_after_met=int(self._after_met.numerator),
            steps_after_met_share=_share(self._after_met),
            output_tokens_after_met=self._output_tokens,
            cost_usd_after_met=self._cost,
            saved_steps=int(self._saved.numerator),
            saved_steps_share=_share(self._saved),
            **self._count,
        )


def _share(steps: RatioEstimator) -> Interval | None:
    return clamp_share(steps.interval()) if steps.denominator else None
