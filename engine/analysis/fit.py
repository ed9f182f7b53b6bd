"""Fit: thresholds of a policy, chosen on recorded sessions with a guarantee about good runs that are stopped too early.

Every record is simulated under the policies of `eagerness.py`. The tasks are split in two (`guarantee.py`): one part
finds the path from cautious to eager, and the other tests its rungs. The unit that is drawn independently is the task,
because several runs of one task are much alike: sessions with the same first prompt are one task. A task counts as
harmed if any of its good runs is, so that the guarantee also holds for the share of good runs, if each task has the
same weight.

Stops are found along the recorded course. No record shows what the model would have done differently after a nudge.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from hashlib import sha256
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ..base.version import __version__
from ..decision import Event, Policy, WrongUse
from ..decision.events import RunStarted
from ..records.index import Index, map_files_cached
from ..records.parallel import FileFailure, ProgressCallback
from ..records.scan import scan
from .eagerness import (
    Axis,
    Case,
    Course,
    Levels,
    axes_of,
    eagerness_path,
    own_levels,
    policy_at,
    settings_at,
    single_levels,
)
from .endings import rule_words
from .fit_report import TOLERANCE, Counts, EarlyStop, FitOptions, FitReport, Rung, UnitKind, settings_text
from .guarantee import Certification, exact_interval, learn_then_test, upper_bound
from .labels import Labels, RunNames
from .policy_simulation import BacktestResult, Finding, backtest
from .sampling import MAX_NAMED, BadRecord, partly_read, view_ids
from .statistics import Interval, RatioEstimator
from .step_mix import add_counts, shares_of

INDEX_VERSION = 3
"""Incremented whenever the result for the same record changes, so that cached results are computed again."""
MAX_EXAMPLES = 5
"""Maximum number of good runs that are named as examples of those that a rung stops too early."""


# ---- what a record says


class RunCourse(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Course of a run: its anchors, and where each policy stops it."""

    start: int = 0
    """Number of steps that belong to another run."""
    end: int
    said: int | None = None
    changed: int | None = None
    stops: tuple[int, ...]
    """For each policy, the step after which it stops; the recorded end if it does not stop before."""
    rules: tuple[str, ...]
    """For each policy, the rule that stops it; empty if none does."""
    refused: bool = False
    """Whether the policies cannot start with the tools that were offered."""

    def needed(self, options: FitOptions) -> int:
        """Return the step before which a stop harms the run."""
        anchor = {"end": self.end, "said": self.said, "changed": self.changed}[options.anchor]
        return self.end - TOLERANCE["end"] if anchor is None else anchor - options.steps_lost


class SessionCourse(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Course of a session under each of several policies."""

    names: RunNames
    prompt: str = ""
    """A digest of the first prompt; empty without one."""
    runs: tuple[RunCourse, ...]
    steps: dict[str, int] = {}
    """Number of steps by what they brought."""
    damaged: int = 0
    lost: int = 0


_decode = msgspec.msgpack.Decoder(SessionCourse).decode


def fit_index(policies: Sequence[Policy], place: str | None = None) -> Index:
    """Return the index that caches what these policies do with each record."""
    plain = msgspec.json.encode(policies)
    return Index(f"fit {sha256(plain).hexdigest()[:16]}", f"{__version__}.{INDEX_VERSION}", place)


def simulate_record(policies: Sequence[Policy], path: Path) -> bytes:
    """Simulate a record under each policy and return a `SessionCourse` as MessagePack.

    Raises WrongUse if the file is not a record.
    """
    events = scan(path)
    course = simulate_session(events, policies)
    return msgspec.msgpack.encode(replace(course, damaged=events.damaged_lines, lost=events.lost))


def simulate_session(events: Iterable[Event], policies: Sequence[Policy]) -> SessionCourse:
    """Simulate the runs of a session under each policy. Raises WrongUse if it has only copied runs, or none."""
    prompts: list[str] = []
    results = [run for run in backtest(_noting_prompts(events, prompts), policies) if not run.digest.is_copy]
    if not results:
        raise WrongUse("it has only runs that a fork copied")
    prompt = prompts[0]
    return SessionCourse(
        names=RunNames.of(results[-1].digest),
        prompt=sha256(prompt.encode("utf-8", "surrogatepass")).hexdigest() if prompt.strip() else "",
        runs=tuple(map(_run_course, results)),
        steps=add_counts(run.steps for run in results),
    )


def _noting_prompts(events: Iterable[Event], prompts: list[str]) -> Iterator[Event]:
    for event in events:
        if isinstance(event, RunStarted):
            prompts.append(event.prompt or "")
        yield event


def _run_course(result: BacktestResult) -> RunCourse:
    digest = result.digest
    said = digest.claimed or digest.done
    return RunCourse(
        start=digest.start.steps,
        end=digest.end.steps,
        said=said.steps if said is not None else None,
        changed=digest.changed.steps if digest.changed is not None else None,
        stops=tuple(_stop(finding, digest.end.steps) for finding in result.findings),
        rules=tuple(finding.rule for finding in result.findings),
        refused=any(finding.parting == "refused" for finding in result.findings),
    )


def _stop(finding: Finding, end: int) -> int:
    return end if finding.stops is None else min(end, finding.stops.steps)


# ---- tasks


class LabelledSession(Struct, frozen=True):
    """A session with its record and its label."""

    record: str
    course: SessionCourse
    good: bool | None


class TaskSessions(Struct, frozen=True):
    """A unit that is drawn independently: the sessions of one task, or one session."""

    id: str
    sessions: Sequence[LabelledSession]

    @property
    def exposed(self) -> bool:
        """Whether it has a good run, which could be harmed."""
        return any(session.good for session in self.sessions)

    def case(self, options: FitOptions) -> Case:
        """Return the runs of this unit, for the search for a path."""
        good = [_course(run, options) for session in self.sessions if session.good for run in session.course.runs]
        return Case(good, [_course(run, options) for session in self.sessions for run in session.course.runs])


def _course(run: RunCourse, options: FitOptions) -> Course:
    return Course(end=run.end, needed=run.needed(options), stops=run.stops)


def tasks_of(sessions: Iterable[LabelledSession], unit: UnitKind) -> list[TaskSessions]:
    """Return the sessions by task: by their first prompt, or by their id if they have none."""
    tasks: dict[str, list[LabelledSession]] = {}
    for session in sessions:
        names = session.course.names
        by_task = session.course.prompt or f"session {names.session_id}"
        tasks.setdefault(by_task if unit == "task" else names.run_id, []).append(session)
    return [TaskSessions(id, found) for id, found in tasks.items()]


# ---- fitting


class Fit(Struct, frozen=True):
    """The report, and the certified policy if there is one."""

    report: FitReport
    policy: Policy | None


Simulate = Callable[[Sequence[Policy]], Iterator[tuple[Path, "SessionCourse | FileFailure"]]]
"""Yields all records under the given policies, in the same order each time."""

OpenIndex = Callable[[Sequence[Policy]], AbstractContextManager[Index | None]]


def fit_records(
    paths: Sequence[Path],
    base: Policy,
    options: FitOptions,
    *,
    labels: Labels | None = None,
    date: str = "",
    open_index: OpenIndex | None = None,
    processes: int | None = None,
    progress: ProgressCallback | None = None,
) -> Fit:
    """Choose the thresholds of `base` on these records.

    labels: which sessions are good; without them, or for a session that they do not name, its record says so. date: of
    the fit, such as 2026-11-22. open_index: returns the index that caches what some policies do (`fit_index`).

    Raises WrongUse if no session is good, or if there is nothing to split.
    """

    def simulate(policies: Sequence[Policy]) -> Iterator[tuple[Path, SessionCourse | FileFailure]]:
        work = partial(simulate_record, policies)
        with open_index(policies) if open_index is not None else nullcontext() as index:
            for path, result in map_files_cached(index, work, paths, processes=processes, progress=progress):
                yield path, result if isinstance(result, FileFailure) else _decode(result)

    return fit_courses(simulate, base, options, labels=labels, date=date)


def fit_courses(
    simulate: Simulate, base: Policy, options: FitOptions, *, labels: Labels | None = None, date: str = ""
) -> Fit:
    """Choose the thresholds of `base` on sessions from any source.

    simulate: yields the course of each session under the given policies.
    """
    return _Fitting(simulate, base, options, labels).fit(date)


class _Fitting:
    """A fit in progress: the sessions that were read, and the data of the report."""

    def __init__(self, simulate: Simulate, base: Policy, options: FitOptions, labels: Labels | None) -> None:
        self._simulate, self._base, self._options, self._labels = simulate, base, options, labels
        self._axes: tuple[Axis, ...] = axes_of(base)
        if not self._axes:
            raise WrongUse(f"the policy {base.name!r} has none of the guards whose thresholds are fitted")
        self._bad: list[BadRecord] = []
        self._damaged: list[BadRecord] = []
        self._copies = 0
        self._records: set[str] = set()
        self._own_ids: dict[Path, str] = {}
        """The id of each session that could be read, copies among them."""
        self._exact: dict[str, SessionCourse] = {}
        """The sessions under the policies of the path, by record."""

    def fit(self, date: str) -> Fit:
        """Read the sessions, choose a path and test it."""
        sessions = self._read()
        tasks = tasks_of(sessions, self._options.unit)
        self._check(sessions, tasks)
        options = self._options
        found = learn_then_test(
            tasks,
            self._path,
            self._count_harmed,
            options.bound,
            options.confidence,
            choosing_share=options.share_for(sum(task.exposed for task in tasks)),
            seed=options.seed,
        )
        report = self._report(sessions, found, date)
        chosen = None if report.certified is None else found.sequence[report.certified]
        return Fit(report, None if chosen is None else policy_at(self._base, self._axes, chosen))

    # ---- reading

    def _read(self) -> list[LabelledSession]:
        """Return every session once, simulated with one guard moved at a time."""
        policies = [policy_at(self._base, self._axes, levels) for levels in single_levels(self._axes)]
        sessions: list[LabelledSession] = []
        known: set[str] = set()
        for path, course in self._simulate(policies):
            if isinstance(course, FileFailure):
                self._bad.append(BadRecord(str(path), course.message))
                continue
            self._own_ids[path] = course.names.session_id
            if course.names.run_id in known:
                self._copies += 1
            else:
                known.add(course.names.run_id)
                self._records.add(str(path))
                sessions.append(self._labelled(path, course))
        return sessions

    def _labelled(self, path: Path, course: SessionCourse) -> LabelledSession:
        if (partly := partly_read(str(path), course.damaged, course.lost, "used")) is not None:
            self._damaged.append(partly)
        good = self._labels.verdict_for(course.names, path) if self._labels is not None else None
        if good is None and course.names.verdict != "not_run":
            good = course.names.verdict == "passed"
        return LabelledSession(str(path), course, good)

    def _check(self, sessions: Sequence[LabelledSession], tasks: Sequence[TaskSessions]) -> None:
        """Raise WrongUse if these sessions can show nothing at all."""
        if not sessions:
            many = len(self._bad)
            raise WrongUse(f"none of {many:,} files can be read as a record: {self._bad[0].why}")
        if self._labels is not None:
            self._labels.check_used()
        labelled = [session for session in sessions if session.good is not None]
        if not labelled:
            raise WrongUse(
                f"of {_counted(len(sessions), 'session')} none is labelled: give --labels FILE, or records whose "
                "runs were evaluated"
            )
        good = [session for session in sessions if session.good]
        if not good:
            raise WrongUse(
                f"of {_counted(len(labelled), 'labelled session')} none is good: there is nothing that a policy could "
                "stop too early"
            )
        refused = [session for session in good if any(run.refused for run in session.course.runs)]
        if refused:
            raise WrongUse(
                f"{len(refused):,} of {len(good):,} good sessions offered no completion tool, and the policy "
                f"{self._base.name!r} needs one (such as {refused[0].record}): give another --base-policy"
            )
        exposed = sum(task.exposed for task in tasks)
        if exposed < 2:
            why = "one task: they begin with the same prompt, or have the same session id"
            raise WrongUse(
                f"{_counted(len(good), 'good session')}"
                + (f" of {why}" if len(good) > 1 else "")
                + ": one part has to choose and another to test, so at least two are needed"
                + (" (if they are independent all the same, --unit run counts each)" if len(good) > 1 else "")
            )

    # ---- choosing and testing

    def _path(self, choosing: Sequence[TaskSessions]) -> list[Levels]:
        cases = [task.case(self._options) for task in choosing]
        return eagerness_path(cases, self._axes, own_levels(self._base, self._axes))

    def _count_harmed(self, path: Sequence[Levels], testing: Sequence[TaskSessions]) -> list[int]:
        """Return the number of tasks that each rung harms, simulating each rung as a whole."""
        policies = [policy_at(self._base, self._axes, levels) for levels in path]
        for record, course in self._simulate(policies):
            if not isinstance(course, FileFailure):
                self._exact[str(record)] = course
        gone = sorted(self._records - set(self._exact))
        if gone:
            raise WrongUse(f"{gone[0]} could not be read a second time: was it changed meanwhile? Fit again")
        return [self._harmed(testing, rung) for rung in range(len(path))]

    def _harmed(self, tasks: Sequence[TaskSessions], rung: int) -> int:
        return sum(any(self._stopped_early(task, rung)) for task in tasks)

    def _stopped_early(self, task: TaskSessions, rung: int) -> Iterator[tuple[LabelledSession, RunCourse]]:
        """Yield the good sessions that a rung stops too early, with the run."""
        for session in task.sessions:
            if not session.good:
                continue
            for run in self._exact[session.record].runs:
                if run.stops[rung] < run.needed(self._options):
                    yield session, run
                    break

    # ---- the report

    def _report(
        self, sessions: Sequence[LabelledSession], found: Certification[TaskSessions, Levels], date: str
    ) -> FitReport:
        certified = found.certified
        confidence = self._options.confidence
        return FitReport(
            options=self._options,
            base=self._base.name,
            date=date,
            version=__version__,
            sessions=len(sessions),
            runs=sum(len(session.course.runs) for session in sessions),
            ids=_digest_of(sessions),
            steps=shares_of(add_counts(session.course.steps for session in sessions)),
            labels=self._labels.statistics if self._labels is not None else None,
            choosing=_counts(found.choosing),
            testing=_counts(found.testing),
            rungs=tuple(self._rung(found, number) for number in range(len(found.sequence))),
            certified=certified.candidate if certified is not None else None,
            upper_bound=upper_bound(certified.harmed, certified.units, confidence) if certified is not None else None,
            copies=self._copies,
            bad=tuple(self._bad),
            damaged=tuple(self._damaged),
        )

    def _rung(self, found: Certification[TaskSessions, Levels], number: int) -> Rung:
        settings = settings_at(self._axes, found.sequence[number])
        before = settings_at(self._axes, found.sequence[number - 1]) if number else {}
        harmed = self._harmed(found.testing, number)
        units = sum(task.exposed for task in found.testing)
        testing = [session for task in found.testing for session in task.sessions]
        early = [pair for task in found.testing for pair in self._stopped_early(task, number)]
        ids = view_ids(self._own_ids)
        named = list(dict.fromkeys(ids[Path(session.record)] for session, _ in early))
        return Rung(
            settings=settings,
            changed=settings_text({name: value for name, value in settings.items() if before.get(name) != value}),
            saved=self._saved(testing, number),
            saved_good=self._saved([session for session in testing if session.good], number),
            saved_bad=self._saved([session for session in testing if session.good is False], number),
            harmed=harmed,
            harmed_share=exact_interval(harmed, units, self._options.confidence),
            harmed_choosing=self._harmed(found.choosing, number),
            trial=found.trials[number] if number < len(found.trials) else None,
            early_by=dict(Counter(run.rules[number] for _, run in early)),
            early=tuple(named if len(named) <= MAX_NAMED else ()),
            examples=tuple(
                EarlyStop(
                    record=session.record,
                    view_id=ids[Path(session.record)],
                    why=f"after step {run.stops[number]} of {run.end}, because of {rule_words(run.rules[number])}",
                )
                for session, run in early[:MAX_EXAMPLES]
            ),
        )

    def _saved(self, sessions: Sequence[LabelledSession], rung: int) -> Interval | None:
        estimator = RatioEstimator()
        for session in sessions:
            runs = self._exact[session.record].runs
            estimator.add(sum(run.end - run.stops[rung] for run in runs), sum(run.end - run.start for run in runs))
        share = estimator.interval()
        return share and Interval(share.value, max(0.0, share.low), min(1.0, share.high))


def _digest_of(sessions: Sequence[LabelledSession]) -> str:
    """Return the identity of the data: a digest of the run ids with their labels, in any order."""
    lines = sorted(f"{session.course.names.run_id} {session.good}" for session in sessions if session.good is not None)
    return sha256("\n".join(lines).encode()).hexdigest()[:16]


def _counts(tasks: Sequence[TaskSessions]) -> Counts:
    sessions = [session for task in tasks for session in task.sessions]
    return Counts(
        units=sum(task.exposed for task in tasks),
        sessions=len(sessions),
        good=sum(session.good is True for session in sessions),
        bad=sum(session.good is False for session in sessions),
        unlabelled=sum(session.good is None for session in sessions),
        steps=sum(run.end - run.start for session in sessions for run in session.course.runs),
    )


def _counted(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"
