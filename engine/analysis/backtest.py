"""Backtest of many records: several policies in one pass over all of them."""

from __future__ import annotations

import heapq
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal, InvalidOperation
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, get_args

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from .._version import __version__
from ..decision import Event, Policy, Verdict, WrongUse
from ..decision.backtest import BacktestResult, Finding, Parting, backtest
from ..decision.policy_files import with_setting
from ..decision.summary import ResourceUse, RunSummary
from ..records.index import Index, map_files_cached
from ..records.parallel import FileFailure, ProgressCallback
from ..records.scan import scan
from .sampling import BadRecord, partly_read
from .statistics import Interval, RatioEstimator, wilson_interval

INDEX_VERSION = 1
"""Goes up whenever the same record is tested otherwise than before: what an index holds is then made anew."""
MAX_EXAMPLES = 5
"""Sessions of each kind that are named."""
MAX_SWEEP_VALUES = 200
"""Values of a sweep."""


class NamedPolicy(Struct, frozen=True):
    """A policy under the name that it has in a table: its own, or the setting that was swept."""

    name: str
    policy: Policy
    value: float | str | None = None
    """Of the swept setting."""


class BacktestReport(Struct, frozen=True, kw_only=True):
    """What the policies make of all records."""

    sessions: int
    runs: int
    used: ResourceUse
    recorded_policies: dict[str, int]
    """Sessions by the name of the policy that they were recorded under."""
    verdicts: dict[str, int]
    against: str | None = None
    """The policy that the others are compared with, beside the record."""
    swept: str | None = None
    """The setting that was swept."""
    policies: tuple[PolicyTotals, ...]
    bad: tuple[BadRecord, ...] = ()
    damaged: tuple[BadRecord, ...] = ()
    """Records that were read, but for some of their lines."""


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
    saved: SavedUsage
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
    most_saved: tuple[SessionCase, ...] = ()
    good_runs_cut: tuple[SessionCase, ...] = ()
    unknown: tuple[SessionCase, ...] = ()


class SavedUsage(Struct, frozen=True, kw_only=True):
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


class SessionCase(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One session under one policy, with what tells it from the others."""

    record: str
    """The file."""
    session_id: str
    model: str = ""
    used: ResourceUse = ResourceUse()
    stop_reason: str = ""
    """Of the record."""
    verdict: str = "not_run"
    finding: SessionFinding


class SessionBacktest(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One session, and what each policy makes of it."""

    session_id: str
    model: str = ""
    policy: str = ""
    """The name of the recorded one; of the last run, if it changed."""
    runs: int = 0
    used: ResourceUse = ResourceUse()
    """By all its runs."""
    stop_reason: str = ""
    """Of its last run; empty if that has no end."""
    verdict: Verdict = "not_run"
    """Of the last run that was evaluated."""
    prompt: str = ""
    findings: tuple[SessionFinding, ...] = ()
    """In the order of the policies."""
    damaged: int = 0
    """Lines of the record that could not be read."""
    lost: int = 0
    """Events that are missing in the middle of runs."""


class SessionFinding(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What one policy makes of one session."""

    parting: Parting
    """How the first run compares with the record that does not end the same."""
    run: int = 0
    """That run's number, from 1; 0 if all are the same."""
    step: int | None = None
    """Its step after which the two part."""
    why: str = ""
    """What the policy says there."""
    rule: str = ""
    stop_reason: str = ""
    """Why it would stop; if it diverges, supposing that the model goes on as recorded."""
    saved: ResourceUse | None = None
    """What the record used beyond this policy's stops, up to where nothing is known; None if nothing is known."""
    unknown_from: int | None = None
    """The run from which on all is unknown; None if all is known."""
    least_saved_steps: int = 0
    """Steps beyond the policy's hard limit, and those of `saved`: saved whatever the model would have done."""
    supposed_steps: int = 0
    """Steps that it would save if nothing that it says changed what the model does: a supposition."""
    cut: bool = False
    """A run would have ended before its work was reported as done."""
    goes_on: bool = False
    """A run would have gone on after its work was reported as done."""


_decode = msgspec.msgpack.Decoder(SessionBacktest).decode


def backtest_records(
    paths: Sequence[Path],
    policies: Sequence[NamedPolicy],
    *,
    against: NamedPolicy | None = None,
    swept: str | None = None,
    index: Index | None = None,
    processes: int | None = None,
    progress: ProgressCallback | None = None,
    on_case: Callable[[str, SessionCase], None] | None = None,
) -> BacktestReport:
    """Test every record under each policy. Files that cannot be read are listed in the report.

    against: one more policy, with which the others are compared. index: of `backtest_index` of these policies, that one
    included. on_case: gets each policy's name and each case.
    """
    every = [*policies, *([against] if against is not None else [])]
    work = partial(backtest_record, [named.policy for named in every])
    aggregators = [PolicyAggregator(named.name, named.value) for named in every]
    sessions = runs = 0
    used = ResourceUse()
    recorded: Counter[str] = Counter()
    verdicts: Counter[str] = Counter()
    bad, damaged = [], []
    for path, result in map_files_cached(index, work, paths, processes=processes, progress=progress):
        if isinstance(result, FileFailure):
            bad.append(BadRecord(str(path), result.message))
            continue
        tested = _decode(result)
        if (partly := partly_read(str(path), tested.damaged, tested.lost, "tested")) is not None:
            damaged.append(partly)
        sessions, runs, used = sessions + 1, runs + tested.runs, used + tested.used
        recorded[tested.policy] += 1
        verdicts[tested.verdict] += 1
        other = tested.findings[-1] if against is not None else None
        for number, aggregator in enumerate(aggregators):
            case = session_case(str(path), tested, number)
            aggregator.add(case, other)
            if on_case is not None:
                on_case(every[number].name, case)
    return BacktestReport(
        sessions=sessions,
        runs=runs,
        used=used,
        recorded_policies=dict(recorded),
        verdicts=dict(verdicts),
        against=against.name if against is not None else None,
        swept=swept,
        policies=tuple(aggregator.totals() for aggregator in aggregators),
        bad=tuple(bad),
        damaged=tuple(damaged),
    )


def backtest_index(policies: Sequence[NamedPolicy], place: str | None = None) -> Index:
    """The index of what these policies make of records."""
    plain = msgspec.json.encode([named.policy for named in policies])
    return Index(f"backtest {sha256(plain).hexdigest()[:16]}", f"{__version__}.{INDEX_VERSION}", place)


def backtest_record(policies: Sequence[Policy], path: Path) -> bytes:
    """One record under each policy, encoded. Raises WrongUse for what is none."""
    events = scan(path)
    tested = backtest_session(events, policies)
    return msgspec.msgpack.encode(replace(tested, damaged=events.damaged_lines, lost=events.lost))


# ---- one session


def backtest_session(events: Iterable[Event], policies: Sequence[Policy]) -> SessionBacktest:
    """Test a session's runs. Raises WrongUse if a policy names a rule that nobody brought."""
    runs = list(backtest(events, policies))
    digests = [run.digest for run in runs]
    used = sum((digest.used for digest in digests), ResourceUse())
    return SessionBacktest(
        session_id=digests[0].session_id if digests else "",
        model=digests[-1].model if digests else "",
        policy=digests[-1].policy if digests else "",
        runs=len(runs),
        used=used,
        stop_reason=digests[-1].stop_reason if digests else "",
        verdict=_last_verdict(digests),
        prompt=digests[0].prompt if digests else "",
        findings=tuple(_session_finding(runs, number) for number in range(len(policies))),
    )


def _last_verdict(digests: Sequence[RunSummary]) -> Verdict:
    return next((digest.verdict for digest in reversed(digests) if digest.verdict != "not_run"), "not_run")


def _session_finding(runs: Sequence[BacktestResult], policy: int) -> SessionFinding:
    """The runs' findings as one.

    After a run that would have ended before its work was reported as done the user would have read something else, so
    what comes after it is unknown, as it is after a run that diverges.
    """
    first: tuple[int, Finding] | None = None
    saved, least, unknown_from = ResourceUse(), 0, None
    cut = goes_on = False
    for number, run in enumerate(runs, 1):
        finding = run.findings[policy]
        if first is None and finding.parting != "same":
            first = number, finding
        least += finding.least_saved_steps
        if finding.saved is None:
            unknown_from = number
            break
        saved = saved + finding.saved
        cut, goes_on = cut or finding.cut, goes_on or finding.goes_on
        if finding.cut:
            unknown_from = number + 1 if number < len(runs) else None
            break
    number, finding = first or (0, Finding(parting="same"))
    return SessionFinding(
        parting=finding.parting,
        run=number,
        step=finding.step,
        why=finding.why,
        rule=finding.rule,
        stop_reason=finding.stop_reason,
        saved=None if unknown_from == 1 else saved,
        unknown_from=unknown_from,
        least_saved_steps=least,
        supposed_steps=sum(_supposed_steps(run, policy) for run in runs),
        cut=cut,
        goes_on=goes_on,
    )


def _supposed_steps(run: BacktestResult, policy: int) -> int:
    stops = run.findings[policy].stops
    return 0 if stops is None else run.digest.end.steps - stops.steps


def session_case(record: str, tested: SessionBacktest, number: int) -> SessionCase:
    """One session under the policy of this number."""
    return SessionCase(
        record=record,
        session_id=tested.session_id,
        model=tested.model,
        used=tested.used,
        stop_reason=tested.stop_reason,
        verdict=tested.verdict,
        finding=tested.findings[number],
    )


# ---- one policy over all sessions


class PolicyAggregator:
    """Adds up one policy's findings."""

    def __init__(self, policy: str, value: float | str | None = None) -> None:
        self._policy, self._value = policy, value
        self._sessions = self._known = self._cut = self._passed = self._wrongly = self._on = 0
        self._least = self._supposed = 0
        self._partings: Counter[str] = Counter(dict.fromkeys(get_args(Parting), 0))
        self._saved = ResourceUse()
        self._steps, self._output, self._against = RatioEstimator(), RatioEstimator(), RatioEstimator()
        self._most: list[tuple[int, int, SessionCase]] = []
        self._good_cut: list[SessionCase] = []
        self._unknown: list[SessionCase] = []

    def add(self, case: SessionCase, other: SessionFinding | None = None) -> None:
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
            _add_example(self._good_cut, case)
        if finding.saved is None or finding.unknown_from is not None:
            _add_example(self._unknown, case)
            return
        self._add_known(case, finding.saved, other)

    def _add_known(self, case: SessionCase, saved: ResourceUse, other: SessionFinding | None) -> None:
        self._known += 1
        self._saved = self._saved + saved
        self._output.add(saved.usage.output_tokens, case.used.usage.output_tokens)
        if other is not None and other.saved is not None and other.unknown_from is None:
            self._against.add(saved.steps - other.saved.steps, case.used.steps)
        if saved.steps > 0:
            entry = (saved.steps, -self._sessions, case)  # of equal ones the first
            (heapq.heappushpop if len(self._most) == MAX_EXAMPLES else heapq.heappush)(self._most, entry)

    def totals(self) -> PolicyTotals:
        """All sessions so far."""
        saved = self._saved
        return PolicyTotals(
            policy=self._policy,
            value=self._value,
            sessions=self._sessions,
            partings=dict(self._partings),
            known=self._known,
            saved=SavedUsage(
                steps=saved.steps,
                requests=saved.requests,
                tool_calls=saved.calls,
                input_tokens=saved.usage.input_tokens,
                output_tokens=saved.usage.output_tokens,
                cost_usd=saved.usage.cost_usd,
                seconds=saved.ms / 1000,
                estimated=saved.usage.estimated,
            ),
            saved_output_tokens_share=_clamp_share(self._output.interval()),
            least_saved_steps=self._least,
            least_saved_steps_share=_clamp_share(self._steps.interval()),
            supposed_saved_steps=self._supposed,
            cut=self._cut,
            cut_share=wilson_interval(self._cut, self._sessions),
            passed=self._passed,
            false_positives=self._wrongly,
            false_positive_share=wilson_interval(self._wrongly, self._passed),
            false_negatives=self._on,
            false_negative_share=wilson_interval(self._on, self._sessions),
            against=self._against.interval(),
            most_saved=tuple(case for _, _, case in sorted(self._most, reverse=True)),
            good_runs_cut=tuple(self._good_cut),
            unknown=tuple(self._unknown),
        )


def _add_example(cases: list[SessionCase], case: SessionCase) -> None:
    if len(cases) < MAX_EXAMPLES:
        cases.append(case)


def _clamp_share(interval: Interval | None) -> Interval | None:
    """Nobody saves less than nothing, or more than all, though the normal distribution would."""
    return interval and Interval(interval.value, max(0.0, interval.low), min(1.0, interval.high))


# ---- sweeps


def parse_sweep(policy: Policy, given: str) -> tuple[str, list[NamedPolicy]]:
    """The setting and the policies for `SETTING=FROM:TO:STEP` (both ends included) or `SETTING=VALUE,VALUE,...`.

    Raises WrongUse for what is none, for a setting that does not exist and for values that it does not take.
    """
    setting, equals, text = given.partition("=")
    setting = setting.strip()
    if not equals or not setting or not text.strip():
        raise WrongUse(f"--sweep {given}: write SETTING=FROM:TO:STEP, as limits.steps=5:40:5, or SETTING=VALUE,VALUE")
    values = _parse_range(given, text) if ":" in text else [_parse_value(given, word) for word in text.split(",")]
    named = []
    for value in values:
        try:
            changed = with_setting(policy, setting, value)
        except WrongUse as error:
            raise WrongUse(f"--sweep {given}: {error}") from None
        shown = _format_value(value)
        named.append(NamedPolicy(shown, changed, shown if isinstance(value, str | bool) else value))
    return setting, named


def _parse_range(given: str, text: str) -> list[int | float]:
    try:
        first, last, step = (Decimal(word) for word in text.split(":"))
    except (ValueError, InvalidOperation):
        raise WrongUse(f"--sweep {given}: write FROM:TO:STEP in numbers, as 5:40:5") from None
    if not (first.is_finite() and last.is_finite() and step.is_finite()) or step <= 0 or last < first:
        raise WrongUse(f"--sweep {given}: from {first} to {last} no step of {step} leads; use a step above 0")
    if (last - first) / step >= MAX_SWEEP_VALUES:
        raise WrongUse(f"--sweep {given}: these are more than {MAX_SWEEP_VALUES} values; use a larger step")
    count = int((last - first) / step) + 1
    values = [first + step * number for number in range(count)]
    whole = all(value == value.to_integral_value() for value in (first, step))
    return [int(value) if whole else float(value) for value in values]


def _parse_value(given: str, word: str) -> Any:
    """One value as it would stand in a policy file; a bare word is a text."""
    word = word.strip()
    if not word:
        raise WrongUse(f"--sweep {given}: a value is empty")
    try:
        return tomllib.loads(f"value = {word}")["value"]
    except tomllib.TOMLDecodeError:
        return word


def _format_value(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value).lower() if isinstance(value, bool) else str(value)
