"""Backtest: what other policies would have done with recorded sessions, several policies in one pass.

A sweep is a backtest of one policy with one of its settings at many values.
"""

from __future__ import annotations

import heapq
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal, InvalidOperation
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, Self, get_args

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ..base.version import __version__
from ..decision import EvaluationVerdict, Event, Policy, WrongUse
from ..decision.policy_files import Fitted, with_setting
from ..records.index import Index, map_files_cached
from ..records.parallel import FileFailure, ProgressCallback
from ..records.scan import scan
from .false_stops import StoppedSessions, StoppedSessionsAggregator
from .labels import Labels, LabelStatistics, RunNames
from .policy_simulation import BacktestResult, Finding, Parting, backtest
from .published_policies import BY_NAME, PublishedPolicy, rules_of
from .sampling import BadRecord, partly_read
from .statistics import Interval, RatioEstimator, clamp_share, wilson_interval
from .step_mix import MixComparison, add_counts, compare_mix
from .summary import ResourceUse, RunSummary
from .until_totals import CheckAggregator, CheckTotals, SessionChecks, session_checks

INDEX_VERSION = 9
"""Incremented whenever the result for the same record changes, so that cached results are computed again."""
MAX_EXAMPLES = 5
"""Maximum number of example sessions that are kept per category."""
MAX_SWEEP_VALUES = 200
"""Maximum number of values in a sweep."""


class NamedPolicy(Struct, frozen=True):
    """A policy with the name it has in tables: the policy's name, or the swept value."""

    name: str
    policy: Policy
    value: float | str | None = None
    """Value of the swept setting; None without a sweep."""
    fitted: Fitted | None = None
    """What `endstop fit` guaranteed of it; None if it did not choose it."""


class BacktestReport(Struct, frozen=True, kw_only=True):
    """Results of all policies over all records."""

    sessions: int
    runs: int
    used: ResourceUse
    priced: int
    """Number of sessions whose cost is known."""
    recorded_policies: dict[str, int]
    """Sessions by the name of the policy they were recorded under."""
    verdicts: dict[str, int]
    fitted: tuple[MixComparison, ...] = ()
    """For each policy that `endstop fit` chose, how these sessions compare with those that it was fitted on."""
    labels: LabelStatistics | None = None
    """How many labels found a session; None without labels."""
    against: str | None = None
    """Name of the policy that the others are compared with, in addition to the record."""
    swept: str | None = None
    """Name of the swept setting."""
    policies: tuple[PolicyTotals, ...]
    checks: dict[str, CheckTotals] = {}
    """The checks in the records, if they were asked for: of `all` sessions, and by their verdicts."""
    failing_but_done: tuple[CheckedSession, ...] = ()
    """Examples of sessions that said that they were done although their last check failed."""
    published: tuple[PublishedPolicy, ...] = ()
    """How the rules of other projects were read as policies; empty unless they were asked for."""
    bad: tuple[BadRecord, ...] = ()
    damaged: tuple[BadRecord, ...] = ()
    """Records with lines that could not be read."""


class PolicyTotals(Struct, frozen=True, kw_only=True):
    """Results of one policy over all sessions."""

    policy: str
    value: float | str | None = None
    """Value of the swept setting; None without a sweep."""
    sessions: int
    partings: dict[str, int]
    """Sessions by how they compare with the record: same, earlier, later, diverges, refused."""
    known: int
    """Sessions whose whole course under this policy is known."""
    saved: SavedUsage
    saved_output_tokens_share: Interval | None
    """Share of the output tokens of the `known` sessions that the policy saves. None for fewer than two sessions."""
    least_saved_steps: int
    """Steps after the policy's stop or beyond its hard limit, which are certainly saved, over all sessions."""
    least_saved_steps_share: Interval | None
    """`least_saved_steps` as a share of the steps of all sessions. None for fewer than two sessions."""
    supposed_saved_steps: int
    """Steps saved over all sessions if the policy's messages did not change what the model does: an assumption."""
    supposed_saved_steps_share: Interval | None
    """`supposed_saved_steps` as a share of the steps of all sessions. None for fewer than two sessions."""
    supposed_stopped: int
    """Number of sessions that would then end a step or more before the record does."""
    supposed_good_cut: int
    """Number of sessions among those that passed their evaluation and would lose two steps or more."""
    cut: int
    """Number of sessions that would have ended before their work was reported as done."""
    passed: int
    """Number of sessions that passed their evaluation."""
    false_positives: int
    """Number of sessions that passed their evaluation but would have ended before their work was reported as done."""
    cut_share: Interval | None
    false_positive_share: Interval | None
    """`false_positives` as a share of `passed`; None if no session passed."""
    before_change: int
    """Number of sessions that would certainly have ended before the last change of the work."""
    harmed: int
    """Number of these sessions that passed their evaluation."""
    harmed_share: Interval | None
    """`harmed` as a share of `passed`; None if no session passed."""
    supposed_before_change: int
    """Like `before_change`, under the assumption that the policy's messages do not change what the model does."""
    supposed_harmed: int
    """Number of these sessions that passed their evaluation."""
    supposed_harmed_share: Interval | None
    by_verdict: dict[EvaluationVerdict, StoppedSessions]
    """What the policy stops, by the verdict on a session, under the same assumption. Only verdicts that occur."""
    false_stops: tuple[SessionCase, ...] = ()
    """Examples of sessions that passed and would have been stopped before their work was done."""
    false_negatives: int
    """Number of sessions that would have continued after their work was reported as done."""
    false_negative_share: Interval | None
    against: Interval | None = None
    """Share of the steps saved beyond those that the compared policy saves."""
    most_saved: tuple[SessionCase, ...] = ()
    good_runs_cut: tuple[SessionCase, ...] = ()
    unknown: tuple[SessionCase, ...] = ()


class SavedUsage(Struct, frozen=True, kw_only=True):
    """The tokens and steps that a policy would have saved, in sessions whose whole course is known."""

    steps: int
    requests: int
    tool_calls: int
    input_tokens: int
    output_tokens: int
    cost_usd: float | None
    seconds: float
    estimated: bool
    """Whether some token counts are estimates."""


class IdentifiedSession(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What identifies a session in the results of a backtest."""

    record: str
    """Path of the record."""
    session_id: str
    model: str = ""
    used: ResourceUse = ResourceUse()
    stop_reason: str = ""
    """Stop reason in the record."""
    verdict: EvaluationVerdict = "not_run"

    @classmethod
    def of(cls, record: str, session: SessionBacktest, **own: Any) -> Self:
        """Return the session in the record at this path. own: the fields that identify nothing."""
        return cls(
            record=record,
            session_id=session.session_id,
            model=session.model,
            used=session.used,
            stop_reason=session.stop_reason,
            verdict=session.verdict,
            **own,
        )


class SessionCase(IdentifiedSession, frozen=True, kw_only=True, omit_defaults=True):
    """One session under one policy, with its identification."""

    finding: SessionFinding


class CheckedSession(IdentifiedSession, frozen=True, kw_only=True, omit_defaults=True):
    """The checks of one session, with its identification."""

    until: SessionChecks


class SessionBacktest(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Results of each policy for one session."""

    session_id: str
    model: str = ""
    policy: str = ""
    """Name of the recorded policy; that of the last run, if it changed."""
    runs: int = 0
    used: ResourceUse = ResourceUse()
    """The tokens and steps of all runs of the session."""
    stop_reason: str = ""
    """Stop reason of the last run; empty if its end was not recorded."""
    verdict: EvaluationVerdict = "not_run"
    """Verdict on the last run that was evaluated; `not_run` if none was."""
    names: tuple[RunNames, ...] = ()
    """The keys by which labels find each run; runs that a fork copied have none."""
    prompt: str = ""
    steps: dict[str, int] = {}
    """Number of steps by what they brought."""
    findings: tuple[SessionFinding, ...] = ()
    """One per policy, in their order."""
    checks: SessionChecks | None = None
    """None if they were not asked for."""
    damaged: int = 0
    """Number of lines of the record that could not be read."""
    lost: int = 0
    """Number of events missing in the middle of runs."""


class SessionFinding(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Result of one policy for one session."""

    parting: Parting
    """How the first run that does not end as recorded compares with the record."""
    run: int = 0
    """Number of that run, from 1; 0 if all runs end as recorded."""
    step: int | None = None
    """The last step of that run that is the same in both."""
    why: str = ""
    """How the policy's run differs from the recorded one there, in words."""
    rule: str = ""
    stop_reason: str = ""
    """Stop reason of the policy in that run; if it diverges, assuming that the model continues as recorded."""
    saved: ResourceUse | None = None
    """What the record used after the policy would have stopped it; None if that is unknown."""
    unknown_from: int | None = None
    """Number of the first run whose course is unknown; None if all is known."""
    least_saved_steps: int = 0
    """The steps of `saved` and those beyond the policy's hard limit: saved whatever the model would have done."""
    supposed_steps: int = 0
    """Steps saved if the policy's messages did not change what the model does: an assumption."""
    cut: bool = False
    """Whether a run would have ended before its work was reported as done."""
    before_change: bool = False
    """Whether a run would certainly have ended before the last change of its work."""
    supposed_before_change: bool = False
    """Like the field before, under the assumption that the policy's messages do not change what the model does."""
    supposed_premature: bool = False
    """Whether a run would have ended before its work was done (`Finding.premature`), under the same assumption."""
    goes_on: bool = False
    """Whether a run would have continued after its work was reported as done."""
    at: int | None = None
    """For `diverges` and `later`: the decision of run `run` from which a fork under the policy would continue; None if
    there is none."""
    in_last_run: bool = True
    """Whether that run is the last one of the session."""


_decode = msgspec.msgpack.Decoder(SessionBacktest).decode


def backtest_records(
    paths: Sequence[Path],
    policies: Sequence[NamedPolicy],
    *,
    against: NamedPolicy | None = None,
    swept: str | None = None,
    labels: Labels | None = None,
    index: Index | None = None,
    processes: int | None = None,
    progress: ProgressCallback | None = None,
    on_case: Callable[[str, SessionCase], None] | None = None,
    beside_published: bool = False,
    find_checks: bool = False,
    on_checked: Callable[[CheckedSession], None] | None = None,
) -> BacktestReport:
    """Backtest every record under each policy. Files that cannot be read are listed in the report.

    against: another policy, with which the others are compared. labels: verdicts that the records lack. index: cached
    results, from `backtest_index` of all policies including `against`. on_case: called with a policy's name and the
    result of one session. beside_published: include how the rules of other projects were read, for policies that are
    such rules. find_checks: find the checks in the records, too. on_checked: called with those of one session. Raises
    WrongUse as `Labels.verdicts_of` and `Labels.check_used` do.
    """
    every = [*policies, *([against] if against is not None else [])]
    work = partial(backtest_record, [named.policy for named in every], find_checks=find_checks)
    checked = CheckedSessions()
    aggregators = [PolicyAggregator(named.name, named.value) for named in every]
    sessions = runs = priced = 0
    used = ResourceUse()
    steps: Counter[str] = Counter()
    recorded: Counter[str] = Counter()
    verdicts: Counter[str] = Counter()
    bad, damaged = [], []
    for path, result in map_files_cached(index, work, paths, processes=processes, progress=progress):
        if isinstance(result, FileFailure):
            bad.append(BadRecord(str(path), result.message))
            continue
        session = _decode(result)
        if (partly := partly_read(str(path), session.damaged, session.lost, "tested")) is not None:
            damaged.append(partly)
        sessions, runs, used = sessions + 1, runs + session.runs, used + session.used
        priced += session.used.usage.cost_usd is not None
        steps.update(session.steps)
        recorded[session.policy] += 1
        if labels is not None:
            session = replace(session, verdict=_labelled_verdict(session, labels, path))
        verdicts[session.verdict] += 1
        if session.checks is not None:
            found = CheckedSession.of(str(path), session, until=session.checks)
            checked.add(found)
            if on_checked is not None:
                on_checked(found)
        other = session.findings[-1] if against is not None else None
        for number, aggregator in enumerate(aggregators):
            case = session_case(str(path), session, number)
            aggregator.add(case, other)
            if on_case is not None:
                on_case(every[number].name, case)
    if labels is not None:
        labels.check_used()
    return BacktestReport(
        sessions=sessions,
        runs=runs,
        used=used,
        priced=priced,
        recorded_policies=dict(recorded),
        verdicts=dict(verdicts),
        fitted=tuple(
            compare_mix(one.name, one.fitted.guarantee, one.fitted.steps, steps, sessions)
            for one in every
            if one.fitted is not None
        ),
        labels=labels.statistics if labels is not None else None,
        against=against.name if against is not None else None,
        swept=swept,
        policies=tuple(aggregator.totals() for aggregator in aggregators),
        checks=checked.totals(),
        failing_but_done=tuple(checked.failing_but_done),
        published=tuple(filter(None, map(published_policy, every))) if beside_published else (),
        bad=tuple(bad),
        damaged=tuple(damaged),
    )


def published_policy(named: NamedPolicy) -> PublishedPolicy | None:
    """Return how the rule of another project was read; None for a policy of the user's that only has the same name."""
    one = BY_NAME.get(named.name)
    return one if one is not None and one.policy == named.policy else None


def backtest_index(policies: Sequence[NamedPolicy], place: str | None = None, *, find_checks: bool = False) -> Index:
    """Return the index that caches the results of these policies, with or without the checks in the records."""
    plain = msgspec.json.encode([named.policy for named in policies])
    return Index(
        f"{'checks' if find_checks else 'backtest'} {sha256(plain).hexdigest()[:16]}",
        f"{__version__}.{INDEX_VERSION}",
        place,
    )


def backtest_record(policies: Sequence[Policy], path: Path, *, find_checks: bool = False) -> bytes:
    """Backtest one record and return the `SessionBacktest` as MessagePack, for the index and between processes.

    Raises WrongUse if the file is not a record.
    """
    events = scan(path, attachments=find_checks)  # a summary stands at the end of an output
    result = backtest_session(events, policies, find_checks=find_checks)
    return msgspec.msgpack.encode(replace(result, damaged=events.damaged_lines, lost=events.lost))


# ---- one session


def backtest_session(
    events: Iterable[Event], policies: Sequence[Policy], *, find_checks: bool = False
) -> SessionBacktest:
    """Backtest the runs of a session. Raises WrongUse if a policy names an unknown rule."""
    guards = tuple(name for policy in policies for name in policy.guards)
    runs = list(backtest(events, policies, rules_of(guards), find_checks=find_checks))
    digests = [run.digest for run in runs]
    used = sum((digest.used for digest in digests), ResourceUse())
    return SessionBacktest(
        session_id=digests[0].session_id if digests else "",
        model=digests[-1].model if digests else "",
        policy=digests[-1].policy if digests else "",
        runs=sum(not digest.is_copy for digest in digests),
        used=used,
        stop_reason=digests[-1].stop_reason if digests else "",
        verdict=_last_verdict(digests),
        names=tuple(RunNames.of(digest) for digest in digests if not digest.is_copy),
        prompt=digests[0].prompt if digests else "",
        steps=add_counts(run.steps for run in runs),
        findings=tuple(_session_finding(runs, number) for number in range(len(policies))),
        checks=session_checks(runs) if find_checks else None,
    )


def _labelled_verdict(session: SessionBacktest, labels: Labels, path: Path) -> EvaluationVerdict:
    """Return the verdict on the last run with an evaluation or a label. Raises WrongUse as `verdicts_of` does."""
    verdicts = labels.verdicts_of(session.names, path)
    for good, names in zip(reversed(verdicts), reversed(session.names), strict=True):
        if good is not None:
            return "passed" if good else "failed"
        if names.verdict != "not_run":
            return session.verdict
    return session.verdict


def _last_verdict(digests: Sequence[RunSummary]) -> EvaluationVerdict:
    return next((digest.verdict for digest in reversed(digests) if digest.verdict != "not_run"), "not_run")


def _session_finding(runs: Sequence[BacktestResult], policy: int) -> SessionFinding:
    """Combine the findings of a session's runs.

    What follows a run that diverges is unknown. So is what follows a run that would have been cut short: the user would
    have read another answer.
    """
    first: tuple[int, Finding] | None = None
    saved, least, unknown_from = ResourceUse(), 0, None
    cut = goes_on = before_change = False
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
        before_change = before_change or finding.before_change
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
        before_change=before_change,
        supposed_before_change=any(run.findings[policy].before_change for run in runs),
        supposed_premature=any(run.findings[policy].premature for run in runs),
        goes_on=goes_on,
        at=finding.at,
        in_last_run=number in (0, len(runs)),
    )


def _supposed_steps(run: BacktestResult, policy: int) -> int:
    stops = run.findings[policy].stops
    return 0 if stops is None else run.digest.end.steps - stops.steps


def session_case(record: str, session: SessionBacktest, number: int) -> SessionCase:
    """Return the session under the policy with this number, from 0."""
    return SessionCase.of(record, session, finding=session.findings[number])


class CheckedSessions:
    """Adds up the checks of sessions: of all, and by their verdicts."""

    def __init__(self) -> None:
        self._groups: dict[str, CheckAggregator] = {}
        self.failing_but_done: list[CheckedSession] = []
        """The first `MAX_EXAMPLES` sessions that said that they were done although their last check failed."""

    def add(self, session: CheckedSession) -> None:
        """Add a session."""
        for group in ("all", session.verdict):
            self._groups.setdefault(group, CheckAggregator()).add(session.used.steps, session.until)
        if session.until.failing_but_done and len(self.failing_but_done) < MAX_EXAMPLES:
            self.failing_but_done.append(session)

    def totals(self) -> dict[str, CheckTotals]:
        """Return the totals so far, of `all` and by verdict; empty without sessions."""
        return {group: aggregator.totals() for group, aggregator in self._groups.items()}


# ---- one policy over all sessions


class PolicyAggregator:
    """Adds up the results of one policy."""

    def __init__(self, policy: str, value: float | str | None = None) -> None:
        self._policy, self._value = policy, value
        self._sessions = self._known = self._cut = self._passed = self._wrongly = self._on = 0
        self._least = self._supposed = self._stopped = self._good_cut_short = 0
        self._before = self._harmed = self._supposed_before = self._supposed_harmed = 0
        self._partings: Counter[str] = Counter(dict.fromkeys(get_args(Parting), 0))
        self._saved = ResourceUse()
        self._steps, self._output, self._against = RatioEstimator(), RatioEstimator(), RatioEstimator()
        self._supposed_steps = RatioEstimator()
        self._most: list[tuple[int, int, SessionCase]] = []
        self._by_verdict: dict[EvaluationVerdict, StoppedSessionsAggregator] = {}
        self._good_cut: list[SessionCase] = []
        self._false_stops: list[SessionCase] = []
        self._unknown: list[SessionCase] = []

    def add(self, case: SessionCase, other: SessionFinding | None = None) -> None:
        """Add a session. other: the finding of the policy that this one is compared with."""
        finding = case.finding
        self._sessions += 1
        self._partings[finding.parting] += 1
        self._least += finding.least_saved_steps
        self._steps.add(finding.least_saved_steps, case.used.steps)
        self._supposed += finding.supposed_steps
        self._supposed_steps.add(finding.supposed_steps, case.used.steps)
        self._stopped += finding.supposed_steps > 0
        self._good_cut_short += case.verdict == "passed" and finding.supposed_steps > 1
        self._passed += case.verdict == "passed"
        self._cut += finding.cut
        self._on += finding.goes_on
        self._before += finding.before_change
        self._supposed_before += finding.supposed_before_change
        self._harmed += finding.before_change and case.verdict == "passed"
        self._supposed_harmed += finding.supposed_before_change and case.verdict == "passed"
        by_verdict = self._by_verdict.setdefault(case.verdict, StoppedSessionsAggregator())
        by_verdict.add(
            case.used.steps, finding.supposed_steps, finding.supposed_premature, finding.supposed_before_change
        )
        if finding.supposed_premature and case.verdict == "passed":
            _add_example(self._false_stops, case)
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
            entry = (saved.steps, -self._sessions, case)  # the earlier one if equal
            (heapq.heappushpop if len(self._most) == MAX_EXAMPLES else heapq.heappush)(self._most, entry)

    def totals(self) -> PolicyTotals:
        """Return the totals of all sessions so far."""
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
            saved_output_tokens_share=clamp_share(self._output.interval()),
            least_saved_steps=self._least,
            least_saved_steps_share=clamp_share(self._steps.interval()),
            supposed_saved_steps=self._supposed,
            supposed_saved_steps_share=clamp_share(self._supposed_steps.interval()),
            supposed_stopped=self._stopped,
            supposed_good_cut=self._good_cut_short,
            cut=self._cut,
            cut_share=wilson_interval(self._cut, self._sessions),
            passed=self._passed,
            false_positives=self._wrongly,
            false_positive_share=wilson_interval(self._wrongly, self._passed),
            before_change=self._before,
            harmed=self._harmed,
            harmed_share=wilson_interval(self._harmed, self._passed),
            supposed_before_change=self._supposed_before,
            supposed_harmed=self._supposed_harmed,
            supposed_harmed_share=wilson_interval(self._supposed_harmed, self._passed),
            by_verdict={verdict: sessions.total() for verdict, sessions in self._by_verdict.items()},
            false_stops=tuple(self._false_stops),
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


# ---- sweeps


def parse_sweep(policy: Policy, argument: str) -> tuple[str, list[NamedPolicy]]:
    """Return the setting and policies of `SETTING=FROM:TO:STEP` (both ends included) or `SETTING=VALUE,VALUE,...`.

    Raises WrongUse for another form, an unknown setting, or a value that the setting does not accept.
    """
    setting, equals, text = argument.partition("=")
    setting = setting.strip()
    if not equals or not setting or not text.strip():
        raise WrongUse(
            f"--sweep {argument}: write SETTING=FROM:TO:STEP, such as limits.steps=5:40:5, or SETTING=VALUE,VALUE"
        )
    values = _parse_range(argument, text) if ":" in text else [_parse_value(argument, word) for word in text.split(",")]
    named = []
    for value in values:
        try:
            changed = with_setting(policy, setting, value)
        except WrongUse as error:
            raise WrongUse(f"--sweep {argument}: {error}") from None
        label = _format_value(value)
        named.append(NamedPolicy(label, changed, label if isinstance(value, str | bool) else value))
    return setting, named


def _parse_range(argument: str, text: str) -> list[int | float]:
    try:
        first, last, step = (Decimal(word) for word in text.split(":"))
    except (ValueError, InvalidOperation):
        raise WrongUse(f"--sweep {argument}: write FROM:TO:STEP in numbers, such as 5:40:5") from None
    if not (first.is_finite() and last.is_finite() and step.is_finite()) or step <= 0 or last < first:
        raise WrongUse(
            f"--sweep {argument}: no values from {first} to {last} in steps of {step}: write FROM <= TO and STEP > 0"
        )
    if (last - first) / step >= MAX_SWEEP_VALUES:
        raise WrongUse(f"--sweep {argument}: this gives more than {MAX_SWEEP_VALUES} values: use a larger step")
    count = int((last - first) / step) + 1
    values = [first + step * number for number in range(count)]
    whole = all(value == value.to_integral_value() for value in (first, step))
    return [int(value) if whole else float(value) for value in values]


def _parse_value(argument: str, word: str) -> Any:
    """Return a value parsed as in a policy file (TOML), except that text needs no quotes."""
    word = word.strip()
    if not word:
        raise WrongUse(f"--sweep {argument}: a value is empty")
    try:
        return tomllib.loads(f"value = {word}")["value"]
    except tomllib.TOMLDecodeError:
        return word


def _format_value(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value).lower() if isinstance(value, bool) else str(value)
