"""Report over many records: metrics by model, policy, kind of task and tool; comparison; advice; sessions to show."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ..base.version import __version__
from ..decision import RECOMMENDED, WrongUse
from ..decision.errors import did_you_mean
from ..records.index import Index, map_files_cached
from ..records.parallel import FileFailure, ProgressCallback
from ..records.scan import scan
from .comparison import Advice, BaselineComparison, Recommendation, advise, compare, recommend
from .labels import Labels, LabelStatistics
from .metrics import RunAggregator, RunMetrics, ToolAggregator, ToolTotals
from .policy_simulation import backtest
from .sampling import BadRecord, SampledSession, SessionSampler, partly_read, view_ids
from .scoring import LabelledRun, Ratings, RatingStatistics, label_run
from .summary import RunSummary

INDEX_VERSION = 11
"""Incremented whenever the digest of the same record changes, so that cached digests are computed again."""
MAX_NAMES = 200
"""Maximum number of rows of a table; further names are counted together as `OTHERS`."""
OTHERS = "(others)"
DEFAULT_SESSIONS = 200
"""Number of sessions that are shown unless the caller gives another number."""


class Report(Struct, frozen=True, kw_only=True):
    """Metrics of many records."""

    sessions: int
    runs: int
    overall: RunMetrics
    by_model: dict[str, RunMetrics]
    by_policy: dict[str, RunMetrics]
    by_kind: dict[str, RunMetrics]
    """Metrics of the runs of each kind of task; runs without a kind are left out."""
    by_tool: dict[str, ToolTotals]
    recommended: Recommendation
    recommended_by_kind: dict[str, Recommendation]
    comparison: BaselineComparison | None
    advice: tuple[Advice, ...]
    telling: tuple[SampledSession, ...]
    """The most interesting sessions, as `sampling.py` chooses them."""
    ratings: RatingStatistics
    labels: LabelStatistics | None = None
    """How many labels found a session; None without labels."""
    bad: tuple[BadRecord, ...]
    """Files that could not be read."""
    damaged: tuple[BadRecord, ...]
    """Records with lines that could not be read."""


class RecordDigest(Struct, frozen=True, kw_only=True):
    """The facts of one record that a report needs."""

    runs: tuple[RunSummary, ...]
    damaged: int = 0
    """Number of lines that could not be read."""
    lost: int = 0
    """Number of events missing in the middle of runs."""
    redacted: bool = False
    """Whether texts were redacted, either when recorded or in a copy."""


_decode = msgspec.msgpack.Decoder(RecordDigest).decode
G = TypeVar("G", RunAggregator, ToolAggregator)


def report_records(
    paths: Sequence[Path],
    *,
    ratings: Ratings | None = None,
    labels: Labels | None = None,
    baseline: str | None = None,
    sessions: int = DEFAULT_SESSIONS,
    index: Index | None = None,
    processes: int | None = None,
    progress: ProgressCallback | None = None,
) -> Report:
    """Read every record and add up its runs. Files that cannot be read are listed in the report.

    baseline: name of the policy that the others are compared with. sessions: how many of the most interesting sessions
    to list. index: cached digests, from `digest_index`. Raises WrongUse if no run has the baseline policy, or as
    `Labels.verdicts_of` and `Labels.check_used` do.
    """
    reporter = ReportBuilder(ratings, sessions, labels)
    for path, result in map_files_cached(index, digest_record, paths, processes=processes, progress=progress):
        if isinstance(result, FileFailure):
            reporter.add_bad(str(path), result.message)
        else:
            reporter.add(str(path), _decode(result))
    return reporter.report(baseline)


def digest_index(place: str | None = None) -> Index:
    """Return the index that caches digests."""
    return Index("digests", f"{__version__}.{INDEX_VERSION}", place)


def digest_record(path: Path) -> bytes:
    """Digest one record and return the `RecordDigest` as MessagePack, for the index and between processes.

    Raises WrongUse if the file is not a record.
    """
    events = scan(path)
    runs = tuple(one.digest for one in backtest(events, ()))
    digest = RecordDigest(runs=runs, damaged=events.damaged_lines, lost=events.lost, redacted=events.redacted)
    try:
        return msgspec.msgpack.encode(digest)
    except OverflowError:
        raise WrongUse(f"{path} holds a number that is larger than any that a record has") from None


class ReportBuilder:
    """Adds up sessions to a report."""

    def __init__(
        self, ratings: Ratings | None = None, sessions: int = DEFAULT_SESSIONS, labels: Labels | None = None
    ) -> None:
        self._ratings = ratings or Ratings()
        self._labels = labels
        self._overall = RunAggregator()
        self._models: dict[str, RunAggregator] = {}
        self._policies: dict[str, RunAggregator] = {}
        self._kinds: dict[str, RunAggregator] = {}
        self._tools: dict[str, ToolAggregator] = {}
        self._sampler = SessionSampler(sessions)
        self._bad: list[BadRecord] = []
        self._damaged: list[BadRecord] = []
        self._sessions = 0
        self._ids: dict[Path, str] = {}

    def add(self, record: str, digest: RecordDigest) -> None:
        """Add a session."""
        self._sessions += 1
        self._ids[Path(record)] = digest.runs[0].session_id
        if (partly := partly_read(record, digest.damaged, digest.lost, "counted")) is not None:
            self._damaged.append(partly)
        digests = [run for run in digest.runs if not run.is_copy]
        if not digests:  # a fork whose process was killed before it did anything
            return
        verdicts = self._labels.verdicts_of(digests, record) if self._labels is not None else ()
        runs = label_runs(digests, self._ratings, verdicts=verdicts)
        for run in runs:
            summary = run.digest
            self._overall.add(run)
            _group(self._models, summary.model or "unknown", RunAggregator).add(run)
            _group(self._policies, summary.policy or "unknown", RunAggregator).add(run)
            if run.kind:
                _group(self._kinds, run.kind, RunAggregator).add(run)
            for name, figures in summary.tools.items():
                _group(self._tools, name, ToolAggregator).add(figures)
        self._sampler.add(record, runs)

    def add_bad(self, record: str, why: str) -> None:
        """Add a file that could not be read."""
        self._bad.append(BadRecord(record, why))

    def report(self, baseline: str | None = None) -> Report:
        """Return the report of all sessions so far. Raises WrongUse if no run has the baseline policy or a label."""
        if self._labels is not None:
            self._labels.check_used()
        if baseline is not None and baseline not in self._policies:
            known = ", ".join(list(self._policies)[:20]) or "none"
            hint = did_you_mean(baseline, self._policies)
            raise WrongUse(f"--baseline {baseline}: no run has this policy{hint}; the policies are: {known}")
        ids = view_ids(self._ids)
        overall, recommended = self._overall.metrics(), recommend(self._overall)
        return Report(
            sessions=self._sessions,
            runs=self._overall.runs,
            overall=overall,
            by_model=_by_runs(self._models),
            by_policy=_by_runs(self._policies),
            by_kind=_by_runs(self._kinds),
            by_tool=dict(
                sorted(((name, tool.totals()) for name, tool in self._tools.items()), key=lambda item: -item[1].calls)
            ),
            recommended=recommended,
            recommended_by_kind={kind: recommend(group) for kind, group in self._kinds.items()},
            comparison=compare(baseline, self._policies) if baseline is not None else None,
            advice=advise(overall, recommended),
            telling=tuple(replace(one, view_id=ids[Path(one.record)]) for one in self._sampler.sampled()),
            ratings=self._ratings.statistics,
            labels=self._labels.statistics if self._labels is not None else None,
            bad=tuple(self._bad),
            damaged=tuple(self._damaged),
        )


def label_runs(
    digests: Sequence[RunSummary], ratings: Ratings, *, whole: bool = True, verdicts: Sequence[bool | None] = ()
) -> list[LabelledRun]:
    """Label the runs of a session.

    A rating under the session's id applies to its last run, a kind of task to all of them. whole: whether `digests`
    includes the session's last run. verdicts: for each run, what a file of labels says of it (`Labels.verdicts_of`).
    """
    runs = []
    labels = dict(enumerate(verdicts, 1))
    for number, digest in enumerate(digests, 1):
        session_rating = ratings.rating_of(digest.session_id)
        run_rating = ratings.rating_of(digest.run_id)
        rating = run_rating.rating
        if rating is None and whole and number == len(digests):
            rating = session_rating.rating
        kind = run_rating.kind or session_rating.kind or task_kind(digest)
        runs.append(label_run(digest, kind, rating, labels.get(number)))
    return runs


def task_kind(digest: RunSummary) -> str:
    """Return the kind of task whose recommended limits the run had; empty if it had other limits."""
    limits = (digest.soft, digest.allowed)
    return next((kind for kind, one in RECOMMENDED.items() if limits == (one.soft_steps, one.hard_steps)), "")


def _group(groups: dict[str, G], name: str, new: Callable[[], G]) -> G:
    if name not in groups:
        if len(groups) >= MAX_NAMES:
            name = OTHERS
        groups.setdefault(name, new())
    return groups[name]


def _by_runs(groups: dict[str, RunAggregator]) -> dict[str, RunMetrics]:
    return {name: group.metrics() for name, group in sorted(groups.items(), key=lambda item: -item[1].runs)}
