"""What a policy makes of many sessions, added up one session at a time."""

from __future__ import annotations

import heapq
from collections import Counter
from typing import get_args

from msgspec import Struct

from ..decision.finding import Parting
from ..decision.summary import Point
from .intervals import Interval, Ratio, share
from .sessions import SessionFinding, SessionTested

NOTABLE = 5
"""Sessions of each kind that are named."""


class Case(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One session under one policy, with what tells it from the others."""

    record: str
    """The file."""
    session_id: str
    model: str = ""
    used: Point = Point()
    stop_reason: str = ""
    """Of the record."""
    verdict: str = "not_run"
    finding: SessionFinding


class Saved(Struct, frozen=True, kw_only=True):
    """What a policy would have saved, over the sessions of which all is known."""

    steps: int
    requests: int
    tool_calls: int
    input_tokens: int
    output_tokens: int
    cost_usd: float | None
    seconds: float
    estimated: bool
    """Whether any of the tokens are estimated."""


class PolicyTotals(Struct, frozen=True, kw_only=True):
    """One policy over all sessions."""

    policy: str
    value: float | str | None = None
    """Of the setting that was swept."""
    sessions: int
    partings: dict[str, int]
    """How many sessions are same, earlier, later, diverge and are refused."""
    known: int
    """Sessions of which all is known under this policy."""
    saved: Saved
    saved_output_tokens_share: Interval | None
    """Of the known sessions' output tokens."""
    least_saved_steps: int
    """Over all sessions, the unknown ones too: what was beyond the policy's stop or its hard limit, so saved for
    certain."""
    least_saved_steps_share: Interval | None
    """Of the steps of all sessions."""
    supposed_saved_steps: int
    """Over all sessions, if nothing that the policy says changed what the model does: a supposition."""
    cut: int
    """Sessions that would have ended before their work was reported as done."""
    passed: int
    """Sessions that passed their evaluation."""
    false_positives: int
    """Of these, the ones that would have been cut."""
    cut_share: Interval | None
    false_positive_share: Interval | None
    """Of those that passed."""
    false_negatives: int
    """Sessions in which the policy would have gone on after the work was reported as done."""
    false_negative_share: Interval | None
    against: Interval | None = None
    """Share of the steps saved beyond what the policy that it is compared with saves."""
    most_saved: tuple[Case, ...] = ()
    good_runs_cut: tuple[Case, ...] = ()
    unknown: tuple[Case, ...] = ()


class Tally:
    """Adds up one policy's findings."""

    def __init__(self, policy: str, value: float | str | None = None) -> None:
        self._policy, self._value = policy, value
        self._sessions = self._known = self._cut = self._passed = self._wrongly = self._on = 0
        self._least = self._supposed = 0
        self._partings: Counter[str] = Counter(dict.fromkeys(get_args(Parting), 0))
        self._saved = Point()
        self._steps, self._output, self._against = Ratio(), Ratio(), Ratio()
        self._most: list[tuple[int, int, Case]] = []
        self._good_cut: list[Case] = []
        self._unknown: list[Case] = []

    def add(self, case: Case, other: SessionFinding | None = None) -> None:
        """One more session; `other`: what the policy that it is compared with makes of it."""
        finding = case.finding
        self._sessions += 1
        self._partings[finding.parting] += 1
        self._least += finding.least_saved_steps
        self._steps.add(finding.least_saved_steps, case.used.steps)
        self._supposed += finding.supposed_steps
        self._passed += case.verdict == "passed"
        self._cut += finding.cut
        self._on += finding.goes_on
        if finding.cut and case.verdict == "passed":
            self._wrongly += 1
            _keep(self._good_cut, case)
        if finding.saved is None or finding.unknown_from is not None:
            _keep(self._unknown, case)
            return
        self._add_known(case, finding.saved, other)

    def _add_known(self, case: Case, saved: Point, other: SessionFinding | None) -> None:
        self._known += 1
        self._saved = self._saved + saved
        self._output.add(saved.usage.output_tokens, case.used.usage.output_tokens)
        if other is not None and other.saved is not None and other.unknown_from is None:
            self._against.add(saved.steps - other.saved.steps, case.used.steps)
        if saved.steps > 0:
            entry = (saved.steps, -self._sessions, case)  # of equal ones the first
            (heapq.heappushpop if len(self._most) == NOTABLE else heapq.heappush)(self._most, entry)

    def totals(self) -> PolicyTotals:
        """All sessions so far."""
        saved = self._saved
        return PolicyTotals(
            policy=self._policy,
            value=self._value,
            sessions=self._sessions,
            partings=dict(self._partings),
            known=self._known,
            saved=Saved(
                steps=saved.steps,
                requests=saved.requests,
                tool_calls=saved.calls,
                input_tokens=saved.usage.input_tokens,
                output_tokens=saved.usage.output_tokens,
                cost_usd=saved.usage.cost_usd,
                seconds=saved.ms / 1000,
                estimated=saved.usage.estimated,
            ),
            saved_output_tokens_share=_at_least_nothing(self._output.interval()),
            least_saved_steps=self._least,
            least_saved_steps_share=_at_least_nothing(self._steps.interval()),
            supposed_saved_steps=self._supposed,
            cut=self._cut,
            cut_share=share(self._cut, self._sessions),
            passed=self._passed,
            false_positives=self._wrongly,
            false_positive_share=share(self._wrongly, self._passed),
            false_negatives=self._on,
            false_negative_share=share(self._on, self._sessions),
            against=self._against.interval(),
            most_saved=tuple(case for _, _, case in sorted(self._most, reverse=True)),
            good_runs_cut=tuple(self._good_cut),
            unknown=tuple(self._unknown),
        )


def case_of(record: str, tested: SessionTested, number: int) -> Case:
    """One session under the policy of this number."""
    return Case(
        record=record,
        session_id=tested.session_id,
        model=tested.model,
        used=tested.used,
        stop_reason=tested.stop_reason,
        verdict=tested.verdict,
        finding=tested.findings[number],
    )


def _keep(cases: list[Case], case: Case) -> None:
    if len(cases) < NOTABLE:
        cases.append(case)


def _at_least_nothing(interval: Interval | None) -> Interval | None:
    """Nobody saves less than nothing, or more than all, though the normal distribution would."""
    return interval and Interval(interval.value, max(0.0, interval.low), min(1.0, interval.high))
