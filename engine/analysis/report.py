"""A report over many records: the digests of their runs, added up one session at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct

from .._version import __version__
from ..decision import RECOMMENDED, WrongUse
from ..decision.backtest import backtest
from ..decision.errors import nearest
from ..decision.summary import RunDigest
from ..records.index import Index, remembered
from ..records.parallel import Failure, Progress
from ..records.scan import scan
from .comparison import Advice, Comparison, Recommendation, advise, compare, recommend
from .metrics import Figures, Group, ToolGroup, ToolTotals
from .sampling import BadRecord, Chosen, Telling, read_in_part
from .scoring import Assessed, RatingFigures, Ratings, assess

MADE = 2
"""Goes up whenever the same record is digested otherwise than before: what an index holds is then made anew."""
MOST_NAMES = 200
"""Names that a table tells apart; what comes after them is counted as OTHERS."""
OTHERS = "(others)"
SESSIONS = 200
"""Sessions that are chosen to be shown, unless said otherwise."""


class Digested(Struct, frozen=True, kw_only=True):
    """One record's runs in figures."""

    runs: tuple[RunDigest, ...]
    damaged: int = 0
    """Lines that could not be read."""
    lost: int = 0
    """Events that are missing in the middle of runs."""


class Report(Struct, frozen=True, kw_only=True):
    """Many records in figures."""

    sessions: int
    runs: int
    overall: Figures
    by_model: dict[str, Figures]
    by_policy: dict[str, Figures]
    by_kind: dict[str, Figures]
    """By kind of task, where given."""
    by_tool: dict[str, ToolTotals]
    recommended: Recommendation
    recommended_by_kind: dict[str, Recommendation]
    comparison: Comparison | None
    advice: tuple[Advice, ...]
    telling: tuple[Chosen, ...]
    """The sessions that tell most."""
    ratings: RatingFigures
    bad: tuple[BadRecord, ...]
    """Files that could not be read."""
    damaged: tuple[BadRecord, ...]
    """Records that were read, but for some of their lines."""


_decode = msgspec.msgpack.Decoder(Digested).decode
G = TypeVar("G", Group, ToolGroup)


class Reporter:
    """Adds up sessions."""

    def __init__(self, ratings: Ratings | None = None, sessions: int = SESSIONS) -> None:
        self._ratings = ratings or Ratings()
        self._overall = Group()
        self._models: dict[str, Group] = {}
        self._policies: dict[str, Group] = {}
        self._kinds: dict[str, Group] = {}
        self._tools: dict[str, ToolGroup] = {}
        self._telling = Telling(sessions)
        self._bad: list[BadRecord] = []
        self._damaged: list[BadRecord] = []
        self._sessions = 0

    def add(self, record: str, digested: Digested) -> None:
        """One more session."""
        self._sessions += 1
        if (partly := read_in_part(record, digested.damaged, digested.lost, "counted")) is not None:
            self._damaged.append(partly)
        runs = assessed_runs(digested.runs, self._ratings)
        for run in runs:
            digest = run.digest
            self._overall.add(run)
            _group(self._models, digest.model or "unknown", Group).add(run)
            _group(self._policies, digest.policy or "unknown", Group).add(run)
            if run.kind:
                _group(self._kinds, run.kind, Group).add(run)
            for name, figures in digest.tools.items():
                _group(self._tools, name, ToolGroup).add(figures)
        self._telling.add(record, runs)

    def add_bad(self, record: str, why: str) -> None:
        """A file that could not be read."""
        self._bad.append(BadRecord(record, why))

    def report(self, baseline: str | None = None) -> Report:
        """All of them; `baseline`: the policy with which the others are compared.

        Raises WrongUse if no run has that policy.
        """
        if baseline is not None and baseline not in self._policies:
            known = ", ".join(list(self._policies)[:20]) or "none"
            hint = nearest(baseline, self._policies)
            raise WrongUse(f"--baseline {baseline}: no run was made under it{hint}; these are: {known}")
        overall, recommended = self._overall.figures(), recommend(self._overall)
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
            telling=self._telling.chosen(),
            ratings=self._ratings.figures,
            bad=tuple(self._bad),
            damaged=tuple(self._damaged),
        )


def report_records(
    paths: Sequence[Path],
    *,
    ratings: Ratings | None = None,
    baseline: str | None = None,
    sessions: int = SESSIONS,
    index: Index | None = None,
    processes: int | None = None,
    progress: Progress | None = None,
) -> Report:
    """Read every record and add up its runs. Files that cannot be read are listed in the report.

    sessions: how many of the most telling sessions are chosen. index: of `index_of_digests`. Raises WrongUse for a
    baseline that no run has.
    """
    reporter = Reporter(ratings, sessions)
    for path, result in remembered(index, digested_record, paths, processes=processes, progress=progress):
        if isinstance(result, Failure):
            reporter.add_bad(str(path), result.message)
        else:
            reporter.add(str(path), _decode(result))
    return reporter.report(baseline)


def digested_record(path: Path) -> bytes:
    """One record's runs in figures, encoded. Raises WrongUse for what is none."""
    events = scan(path)
    runs = tuple(one.digest for one in backtest(events, ()))
    return msgspec.msgpack.encode(Digested(runs=runs, damaged=events.damaged_lines, lost=events.lost))


def index_of_digests(place: str | None = None) -> Index:
    """The index of records' runs in figures."""
    return Index("digests", f"{__version__}.{MADE}", place)


def assessed_runs(digests: Sequence[RunDigest], ratings: Ratings, *, whole: bool = True) -> list[Assessed]:
    """A session's runs with what is known of them.

    A rating under the session's own id is about its last run, which is there if the session is `whole`; a kind of task
    under it is that of all its runs.
    """
    runs = []
    for number, digest in enumerate(digests, 1):
        of_session = ratings.of(digest.session_id)
        of_run = ratings.of(digest.run_id)
        rating = of_run.rating
        if rating is None and whole and number == len(digests):
            rating = of_session.rating
        runs.append(assess(digest, of_run.kind or of_session.kind or kind_of(digest), rating))
    return runs


def kind_of(digest: RunDigest) -> str:
    """The kind of task whose recommended limits the run had; empty if it had others."""
    limits = (digest.soft, digest.allowed)
    return next((kind for kind, one in RECOMMENDED.items() if limits == (one.soft_steps, one.hard_steps)), "")


def _group(groups: dict[str, G], name: str, new: Callable[[], G]) -> G:
    if name not in groups:
        if len(groups) >= MOST_NAMES:
            name = OTHERS
        groups.setdefault(name, new())
    return groups[name]


def _by_runs(groups: dict[str, Group]) -> dict[str, Figures]:
    return {name: group.figures() for name, group in sorted(groups.items(), key=lambda item: -item[1].runs)}
