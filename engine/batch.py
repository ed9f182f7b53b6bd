"""Batches of runs with a limit on how many execute at once, and a result for each as it finishes.

    async with engine.run_many(tasks, limit=100) as fleet:
        async for result in fleet:
            print(result.id, result.outcome.status)
    print(fleet.summary())

A task that fails, crashes or cannot start gets a result that says so; the others continue. Leaving the block, or being
cancelled in it, cancels every run that has not ended and waits until all have cleaned up: then each has its outcome,
and no task or connection is left. Results that nobody has read, and all outcomes, stay in memory; with `keep=False` a
result stays only until it is read, and no further task begins while `limit` results are unread.

`BatchStats` counts results by provider as they arrive, so that the summary does not need the results.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from typing import TYPE_CHECKING, Any, Generic, cast

from msgspec import Struct

from .config import RunConfig, provider_of
from .decision import Outcome, Usage, WrongUse
from .decision.errors import error_text
from .decision.events import RunFinished
from .decision.outcome import CutSavings, OutputT
from .decision.wrong_attributes import Refused
from .decision.wrong_calls import ExplainedStruct, checked
from .providers import Provider
from .providers._wrapper import wait_shielded
from .providers.clock import Clock, SystemClock
from .run import TIDY_SECONDS, Run
from .tasks import PreparedTask, Task, TaskResult, prepare_tasks


@checked
class Fleet(Generic[OutputT]):
    """Handle of a batch of runs. Made by `Engine.run_many`; entering it starts the first runs.

        async with engine.run_many(["First task", "Second task"], limit=2) as fleet:
            async for result in fleet:
                print(result.id, result.outcome.answer)

    `summary()` returns figures by provider, `cancel()` ends all runs. Its constructor is called by engines:

    jobs: the tasks, ready to start. limit: the most runs at once, 1 or more.
    keep: whether all outcomes stay in memory, for `outcomes`; if not, a result stays until it is read.
    on_end: called with each result as soon as its run has ended, before the run has cleaned up.
    holds: context managers (providers) that stay open as long as the fleet, so that its runs share connections.
    clock: tells how long the fleet took; by default the system's.
    """

    if not TYPE_CHECKING:  # type checkers refuse these uses themselves
        __await__ = Refused("Fleet", "await")
        __iter__ = Refused("Fleet", "for")
        __enter__ = __exit__ = Refused("Fleet", "with")

    def __init__(
        self,
        jobs: Iterable[PreparedTask],
        *,
        limit: int,
        keep: bool = True,
        on_end: Callable[[TaskResult], None] | None = None,
        holds: Sequence[Any] = (),
        clock: Clock | None = None,
    ) -> None:
        if type(limit) is not int or limit < 1:
            raise WrongUse(f"limit is {limit!r}: use a whole number of runs at once, 1 or more")
        self._waiting = deque(jobs)
        self.total = len(self._waiting)
        """The number of tasks."""
        self._limit = limit
        self._on_end = on_end
        once = {id(held): held for held in holds}.values()
        self._holds = [held for held in once if isinstance(held, AbstractAsyncContextManager)]
        self._runs: dict[asyncio.Task[None], Run] = {}
        self._workers: list[asyncio.Task[None]] = []
        self._holders: list[asyncio.Task[None]] = []
        self._cause: str | None = None
        self._unread: deque[TaskResult[OutputT]] = deque()
        self._kept: dict[int, Outcome[OutputT]] | None = {} if keep else None
        self._arrived, self._read = asyncio.Event(), asyncio.Event()
        self._entered = False
        self._stats = BatchStats(clock or SystemClock(), (job.provider for job in self._waiting))

    async def __aenter__(self) -> Fleet[OutputT]:
        if self._entered:
            raise WrongUse("this fleet was entered before: make a new one with run_many")
        self._entered = True
        self._stats.begin()
        self._holders = [asyncio.create_task(self._hold(held), name="endstop fleet hold") for held in self._holds]
        many = min(self._limit, self.total)
        self._workers = [asyncio.create_task(self._work(), name=f"endstop fleet {n}") for n in range(many)]
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.cancel()
        tasks = [*self._workers, *self._holders]
        for task in tasks:
            task.cancel()
        if tasks:
            await wait_shielded(asyncio.ensure_future(asyncio.wait(tasks)), TIDY_SECONDS + 1)

    def __aiter__(self) -> Fleet[OutputT]:
        return self

    async def __anext__(self) -> TaskResult[OutputT]:
        while not self._unread:
            if self.finished == self.total:
                self._arrived.set()  # wakes other tasks that read this fleet
                raise StopAsyncIteration
            if not self._entered:
                raise WrongUse("enter the fleet before reading its results: `async with engine.run_many(...) as fleet`")
            self._arrived.clear()
            await self._arrived.wait()
        self._read.set()
        return self._unread.popleft()

    async def wait(self) -> Summary:
        """Read the remaining results and return the summary."""
        async for _ in self:
            pass
        return self.summary()

    @property
    def running(self) -> int:
        """The number of runs in progress."""
        return len(self._runs)

    @property
    def finished(self) -> int:
        """The number of tasks that have a result."""
        return self._stats.results

    @property
    def statuses(self) -> dict[str, int]:
        """The number of results so far by status."""
        return self._stats.statuses

    @property
    def usage(self) -> Usage:
        """The usage of all runs that have ended."""
        return self._stats.usage

    @property
    def outcomes(self) -> tuple[Outcome[OutputT], ...]:
        """The outcomes in the order of the tasks. Raises WrongUse while tasks have none yet, and with `keep=False`."""
        if self._kept is None:
            raise WrongUse("this fleet keeps no outcomes: read its results as they come, or leave out keep=False")
        if self.finished < self.total:
            raise WrongUse(f"{self.total - self.finished} tasks have no outcome yet: read the results to the end")
        return tuple(self._kept[number] for number in sorted(self._kept))

    def summary(self) -> Summary:
        """Return figures of the results so far, by provider."""
        return self._stats.summary()

    def cancel(self, cause: str = "caller") -> None:
        """Cancel all runs. Every task still gets a result, at once if it has not begun. cause: a word to record."""
        self._cause = self._cause or cause
        never, self._waiting = self._waiting, deque()
        for job in never:
            self._hand_on(
                job.result_without_outcome(None, "cancelled", "cancelled", f"cancelled before it began: {self._cause}")
            )
        for worker, run in self._runs.items():
            if not run.finished:
                run.cancel(self._cause)
                if not run.begun:
                    worker.cancel()  # it has not begun, and may be waiting for its provider
        self._read.set()

    # ---- one run after another

    async def _work(self) -> None:
        while self._waiting:
            while self._waiting and self._kept is None and len(self._unread) >= self._limit:
                self._read.clear()
                await self._read.wait()
            if self._waiting:
                await self._one(self._waiting.popleft())

    async def _one(self, job: PreparedTask) -> None:
        me = asyncio.current_task()
        assert me is not None
        run: Run | None = None
        result: TaskResult | None = None
        try:
            run = self._runs[me] = job.start()
            async with run:
                await self._to_the_end(job, run)
        except asyncio.CancelledError:
            if me.cancelling():
                detail = f"cancelled from outside: {self._cause or 'shutdown'}"
                result = job.result_without_outcome(run, "cancelled", "cancelled", detail)
                raise
        except Exception as error:
            detail = error_text(error)
            result = job.result_without_outcome(run, "failed", "internal_error", detail)
        finally:
            self._runs.pop(me, None)
            if run is not None and run.finished:
                result = job.result(run.outcome)
            self._hand_on(
                result
                or job.result_without_outcome(run, "failed", "internal_error", "its run ended without an outcome")
            )

    async def _to_the_end(self, job: PreparedTask, run: Run) -> None:
        told = (
            asyncio.create_task(self._tell_end(job, run), name=f"endstop end of run {run.id}")
            if self._on_end is not None
            else None
        )
        try:
            await run.wait()
            if told is not None and run.bus.closed:
                await told
        finally:
            if told is not None:
                told.cancel()

    async def _tell_end(self, job: PreparedTask, run: Run) -> None:
        assert self._on_end is not None
        async for event in run:
            if isinstance(event, RunFinished):
                self._on_end(job.result(event.outcome))

    def _hand_on(self, result: TaskResult) -> None:
        self._stats.add(result)
        if self._kept is not None:
            self._kept[result.number] = result.outcome
        self._unread.append(result)
        self._arrived.set()

    async def _hold(self, held: AbstractAsyncContextManager[Any]) -> None:
        """Keep a provider open. If it cannot be opened, each of its runs fails with that error."""
        with suppress(Exception):
            async with held:
                await asyncio.Event().wait()  # until it is cancelled


def fleet_of(
    config: RunConfig,
    tasks: Iterable[str | Task],
    providers: Provider | str | Sequence[Provider | str] | None,
    limit: int,
    record: str | os.PathLike[str] | None,
    keep: bool,
    drain: bool | float,
) -> Fleet:
    """Return the fleet of `Engine.run_many`. Raises WrongUse."""
    if isinstance(tasks, str):
        raise WrongUse("tasks is one string: write [prompt] for a fleet of one")
    if providers is None:
        chosen: list[Provider] = [config.provider]
    else:
        one = isinstance(providers, str) or not isinstance(providers, Sequence)
        several = cast("Sequence[Provider | str]", [providers] if one else providers)
        chosen = [provider_of(provider) for provider in several]
    if not chosen:
        raise WrongUse("providers is empty: name one or more, or leave it out for the engine's own")
    given = [_task_of(number, task) for number, task in enumerate(tasks, 1)]
    brought = [task.provider for task in given if task.provider is not None]
    if not isinstance(drain, int | float) or not 0 <= drain <= 1:
        raise WrongUse(f"drain is {drain!r}: use True, False, or the share of the tasks, from 0 to 1")
    jobs = prepare_tasks(config, given, chosen, record, drain)
    return Fleet(jobs, limit=limit, keep=keep, holds=[*chosen, *brought], clock=config.runtime.clock)


def _task_of(number: int, task: Any) -> Task:
    try:
        return task if isinstance(task, Task) else Task(task)
    except WrongUse as error:
        raise WrongUse(f"task {number}: {error}") from None


DETAIL = 200
"""Most characters of a failure's detail in a summary."""


class NamedFailure(Struct, frozen=True, kw_only=True):
    """A failed task and why it failed."""

    id: str
    stop_reason: str
    detail: str


class ProviderSummary(ExplainedStruct, frozen=True, kw_only=True):
    """The results of one provider, or of all of them."""

    provider: str
    tasks: int
    """The number of results."""
    runs: int
    """The number of results whose task began a run; means and medians are over them."""
    statuses: dict[str, int]
    """The number of results by status."""
    stop_reasons: dict[str, int]
    """The number of results by stop reason."""
    passed: int
    """Runs whose evaluation passed."""
    not_passed: int
    """Runs whose evaluation failed."""
    steps: int
    """Model steps of all runs together."""
    steps_mean: float
    """Model steps of a run on average."""
    steps_median: float
    """Model steps of the run in the middle."""
    usage: Usage
    """Tokens and cost of all runs, including cancelled ones; a run without a known price adds no cost."""
    unpriced: int
    """The number of runs that sent requests at an unknown price."""
    saved: CutSavings
    """What cutting responses saved: counted if the rest of the response was read (`drain`), else estimated."""
    duration_ms: int
    """The sum of the runs' durations; since runs overlap, it can exceed `Summary.elapsed_ms`."""
    failures: tuple[NamedFailure, ...]
    """The results whose status is `failed`, with the reason of each."""


class Summary(ExplainedStruct, frozen=True, kw_only=True):
    """The results of a fleet."""

    providers: tuple[ProviderSummary, ...]
    """One entry for each provider, in the order of their first tasks."""
    total: ProviderSummary
    """All results together."""
    elapsed_ms: int
    """Milliseconds from the start to the latest result."""

    def __str__(self) -> str:
        rows = [_HEAD, *(_row(one) for one in self.providers)]
        if len(self.providers) > 1:
            rows.append(_row(self.total))
        failures = [
            f"failed: {failure.id} ({one.provider}): {failure.stop_reason}: {_short(failure.detail)}"
            for one in self.providers
            for failure in one.failures
        ]
        return "\n".join([*aligned(rows), *failures])


class BatchStats:
    """Counter of results, by provider and in total."""

    def __init__(self, clock: Clock, providers: Iterable[str]) -> None:
        self._clock = clock
        self._began = self._latest = clock.now()
        self._providers = {name: _Counts(name) for name in providers}
        self._all = _Counts("all")

    @property
    def results(self) -> int:
        """The number of results."""
        return self._all.tasks

    @property
    def statuses(self) -> dict[str, int]:
        """The number of results by status. Safe to read from any thread, like `usage`."""
        return dict(self._all.statuses)

    @property
    def usage(self) -> Usage:
        """The usage of all runs."""
        return self._all.usage

    def begin(self) -> None:
        """Start measuring the time for `Summary.elapsed_ms`."""
        self._began = self._latest = self._clock.now()

    def add(self, result: TaskResult) -> None:
        """Count a result."""
        self._latest = self._clock.now()
        self._providers[result.provider].add(result)
        self._all.add(result)

    def summary(self) -> Summary:
        """Return the figures so far."""
        return Summary(
            providers=tuple(counts.summary() for counts in self._providers.values()),
            total=self._all.summary(),
            elapsed_ms=round((self._latest - self._began) * 1000),
        )


class _Counts:
    def __init__(self, provider: str) -> None:
        self.tasks = 0
        self._provider = provider
        self.statuses: Counter[str] = Counter()
        self._reasons: Counter[str] = Counter()
        self._verdicts: Counter[str] = Counter()
        self._steps: Counter[int] = Counter()
        self.usage = Usage()
        self._unpriced = 0
        self._saved = CutSavings()
        self._duration = 0
        self._failures: list[NamedFailure] = []

    def add(self, result: TaskResult) -> None:
        outcome = result.outcome
        self.tasks += 1
        self.statuses[outcome.status] += 1
        self._reasons[outcome.stop_reason] += 1
        self._verdicts[outcome.verdict] += 1
        if outcome.status == "failed":
            self._failures.append(NamedFailure(id=result.id, stop_reason=outcome.stop_reason, detail=outcome.detail))
        if result.started:
            self._steps[outcome.steps] += 1
            self.usage += outcome.usage
            self._unpriced += outcome.usage.cost_usd is None and outcome.requests > 0
            self._saved += outcome.saved
            self._duration += outcome.duration_ms

    def summary(self) -> ProviderSummary:
        runs = self._steps.total()
        steps = sum(steps * times for steps, times in self._steps.items())
        return ProviderSummary(
            provider=self._provider,
            tasks=self.tasks,
            runs=runs,
            statuses=dict(self.statuses),
            stop_reasons=dict(self._reasons),
            passed=self._verdicts["passed"],
            not_passed=self._verdicts["failed"],
            steps=steps,
            steps_mean=steps / runs if runs else 0.0,
            steps_median=_median(self._steps),
            usage=self.usage,
            unpriced=self._unpriced,
            saved=self._saved,
            duration_ms=self._duration,
            failures=tuple(self._failures),
        )


def _median(counts: Counter[int]) -> float:
    """Return the median of numbers, given how often each occurs."""
    many = counts.total()
    if not many:
        return 0.0
    middle = [_at(counts, (many - 1) // 2), _at(counts, many // 2)]
    return sum(middle) / 2


def _at(counts: Counter[int], place: int) -> int:
    for number in sorted(counts):
        place -= counts[number]
        if place < 0:
            return number
    raise IndexError(place)


_HEAD = (
    "provider",
    "tasks",
    "completed",
    "other",
    "passed",
    "steps",
    "median",
    "tokens in",
    "out",
    "cost",
    "saved by cuts",
    "mean time",
)


def _row(one: ProviderSummary) -> tuple[str, ...]:
    other = ", ".join(f"{n} {status}" for status, n in one.statuses.items() if status != "completed")
    judged = one.passed + one.not_passed
    return (
        one.provider,
        str(one.tasks),
        str(one.statuses.get("completed", 0)),
        other or "-",
        f"{one.passed} of {judged}" if judged else "-",
        f"{one.steps_mean:.1f}",
        f"{one.steps_median:g}",
        f"{one.usage.input_tokens:,}",
        f"{one.usage.output_tokens:,}",
        "-" if one.usage.cost_usd is None else f"${one.usage.cost_usd:.4f}{'+' if one.unpriced else ''}",
        str(one.saved) if one.saved.cuts else "-",
        f"{one.duration_ms / one.runs / 1000:.1f} s" if one.runs else "-",
    )


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the rows as lines, each column as wide as its widest cell."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= DETAIL else line[: DETAIL - 1] + "…"
