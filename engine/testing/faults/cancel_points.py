"""Ends a run at each point where the event loop turns, in five ways, and checks what is left of it."""

from __future__ import annotations

import asyncio
import gc
import tempfile
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import AsyncGeneratorType
from typing import Any, Literal, get_args

import anyio

from ...decision import WrongUse
from ...decision import decide as built_in_decide
from ...decision.errors import error_text
from ...decision.wrong_calls import explained
from ...records.reader import read_record
from ...run import Run
from .invariants import Broken, broken_in_file
from .simulated_loop import SimulatedLoop, check_no_loop
from .violations import FaultReport, Points, Stopwatch, check_not_async, chosen, record_in

CancelWay = Literal["run", "caller", "scope", "task", "shutdown"]
"""Who ends the run: `run.cancel()`; a cancel of the task that waits for it; a cancelled anyio scope around it; a cancel
of the run's own task; or the end of the event loop, as `asyncio.run` ends it."""
WAYS: tuple[CancelWay, ...] = get_args(CancelWay)
MakeRun = Callable[[Path], AbstractAsyncContextManager[Run[Any]]]
"""Function that makes a run which writes its record to this path: `engine.start(prompt, record=path)`.

Or an async context manager that yields an entered run, if something has to be opened and closed around it.

Or an async context manager that gives an entered run, where something has to be opened and closed around it."""


@explained
def check_cancel_points(
    make_run: MakeRun,
    *,
    ways: Sequence[CancelWay] = WAYS,
    points: Points = None,
    seed: int = 0,
    seconds: float | None = None,
    within: float = 15.0,
) -> FaultReport:
    """End a run at each turn of the event loop, in each way, and check every invariant.

    A new run is made for each point, on its own loop with simulated time. Data that it writes must not outlive it, or
    the next run finds it. Use a model that needs no network, such as `Scripted`.

    make_run: called with the path of a record that does not exist yet.
    ways: who ends the run; all five by default.
    points: number of turns to try for each way, chosen with `seed`; or exactly these turns; None for all.
    seconds: real seconds after which no further point is tried; None for no limit.
    within: maximum simulated seconds from the cancel to the end of the run; a run that completes may take longer.

    Raises WrongUse inside a running event loop, and for arguments that cannot work; and the errors that a run raises if
    nobody ends it, such as WrongUse for an invalid provider. A run that breaks an invariant by itself is point 0.
    """
    check_no_loop("check_cancel_points")
    check_ways(ways)
    check_within(within)
    report, watch = FaultReport("check_cancel_points"), Stopwatch(seconds)
    with tempfile.TemporaryDirectory(prefix="endstop_faults") as folder, asyncio.Runner() as checks:
        try_points(report, make_run, ways, points, seed, within, watch, checks, partial(record_in, folder))
    report.seconds = watch.passed
    return report


def check_ways(ways: Sequence[CancelWay]) -> None:
    """Raise WrongUse unless these are some of `WAYS`."""
    wrong = [way for way in ways if way not in WAYS]
    if wrong or isinstance(ways, str) or not ways:
        raise WrongUse(f"ways is {ways!r}: give a list of some of {', '.join(WAYS)}, as in ways=['run']")


def check_within(within: float) -> None:
    """Raise WrongUse unless this is a number of simulated seconds, 0 or more."""
    if not isinstance(within, int | float) or isinstance(within, bool) or within < 0:
        raise WrongUse(f"within is {within!r}: give simulated seconds, 0 or more")


def try_points(
    report: FaultReport,
    make_run: MakeRun,
    ways: Sequence[CancelWay],
    points: Points,
    seed: int,
    within: float,
    watch: Stopwatch,
    checks: asyncio.Runner,
    new_record: Callable[[], Path],
    hostile: str = "",
    release: Callable[[], Sequence[Broken]] = lambda: (),
) -> None:
    """Try a run to its end, and then each way at each point; add to the report. Raises the errors of the whole run.

    hostile: name of what is hostile in the run. release: called once the program has ended, to end what is hostile;
    returns what that has seen.
    """
    only = f"only=[{hostile!r}], " if hostile else ""
    named = f"{hostile}, " if hostile else ""
    whole = Attempt(make_run, new_record(), release=release)
    broken: list[Broken] = []
    if whole.raised is not None:
        if not hostile or isinstance(whole.raised, WrongUse):
            raise whole.raised
        broken.append(("passed_on", error_text(whole.raised)))
    if hostile.startswith("raises_") and whole.ended == "cancelled":
        broken.append(("not_cancelled", "the run ended as cancelled, but nobody cancelled it"))
    before = len(report.violations)
    report.add(f"{named}no cancel", 0, [*broken, *checks.run(whole.check())], f"{only}points=[1]")
    if len(report.violations) > before:
        return
    turns = chosen(points, range(1, whole.turns + 1), seed)
    report.of += whole.turns * len(ways)
    for way in ways:
        for turn in turns:
            if report.full or watch.up:
                return
            attempt = Attempt(make_run, new_record(), way, turn, release)
            report.tried += 1
            report.ends[attempt.ended] += 1
            broken = checks.run(attempt.check())
            if attempt.took > within and attempt.ended != "completed":
                broken.append(("ends", f"it took {attempt.took:.1f} simulated seconds from the cancel"))
            report.add(f"{named}cancel by {way}", turn, broken, f"{only}ways=[{way!r}], points=[{turn}]")


@dataclass(slots=True)
class _Seen:
    """What the program of an attempt has shown."""

    run: Run[Any] | None = None
    caller: asyncio.Task[None] | None = None
    scope: anyio.CancelScope | None = None
    last: int | None = None
    """Number of the run's last event when it was cancelled."""
    broken: list[Broken] = field(default_factory=list)


class Attempt:
    """A run on its own loop, which is ended in this way at this turn, or not at all."""

    def __init__(
        self,
        make_run: MakeRun,
        path: Path,
        way: CancelWay | None = None,
        turn: int | None = None,
        release: Callable[[], Sequence[Broken]] = lambda: (),
    ) -> None:
        self.path = path
        self.raised: BaseException | None = None
        """Exception that the program raised, unless it was a cancellation."""
        self.took = 0.0
        """Simulated seconds from the cancel to the end of the program."""
        self.lasted = 0.0
        """Simulated seconds of the whole program."""
        self._make_run, self._way, self._release = make_run, way, release
        self._struck: float | None = None
        self._seen = _Seen()
        self._loop = SimulatedLoop(turn, self._strike)
        try:
            self._live()
        finally:
            if not self._loop.is_closed():
                self._loop.close()

    async def check(self) -> list[Broken]:
        """Return the invariants that were broken."""
        broken = list(self._seen.broken)
        if self._way is not None and self.raised is not None:
            broken.append(("passed_on", error_text(self.raised)))
        if self._has_begun():
            context = None if self._seen.run is None else self._seen.run.context
            decide = built_in_decide if context is None else context.decide
            broken += await broken_in_file(self.path, self._seen.last, decide)
        return broken

    @property
    def ended(self) -> str:
        """The stop reason of the run."""
        if not self._has_begun():
            return "not begun"
        try:
            finished = read_record(self.path).runs[-1].finished
        except WrongUse:
            return "unreadable"
        return "no end" if finished is None else finished.outcome.stop_reason

    def _has_begun(self) -> bool:
        return self.path.exists() and b'"RUN_STARTED"' in self.path.read_bytes()

    def _live(self) -> None:
        loop = self._loop
        caller = self._seen.caller = loop.create_task(self._program(), name="caller")
        loop.run(caller)
        self.turns, self.lasted = loop.turns, loop.time()
        self.took = 0.0 if self._struck is None else loop.time() - self._struck
        if loop.stuck:
            self._broke("ends", loop.stuck)
        self._seen.broken += self._release()
        if not loop.stuck and self._way == "shutdown" and not caller.done():
            loop.shut_down()
            if loop.stuck:
                self._broke("ends", f"at the end of the event loop: {loop.stuck}")
        if not loop.stuck:
            if caller.done() and not caller.cancelled():
                self.raised = caller.exception()
            elif self._way is None:
                self._broke("passed_on", "the waiting task was cancelled, but nobody cancelled it")
            left = [f"task {task.get_name()!r} ({_name(task)})" for task in loop.left()]
            if left:
                self._broke("nothing_left", ", ".join(left))
        if loop.ended_by is not None:
            self.raised = None  # a violation even if nobody ends the run
            self._broke("passed_on", f"{error_text(loop.ended_by)}, which ends the process")
        loop.shut_down()
        if left := loop.end():
            self._broke("nothing_left", ", ".join(left))

    def _broke(self, invariant: str, seen: str) -> None:
        self._seen.broken.append((invariant, seen))

    async def _program(self) -> None:
        with anyio.CancelScope() as self._seen.scope:
            made = self._make_run(self.path)
            check_not_async("make_run", made)
            if isinstance(made, Run):
                self._seen.run = made
            elif not isinstance(made, AbstractAsyncContextManager):
                raise _no_run("returned", made)
            async with made as run:
                if not isinstance(run, Run):
                    raise _no_run("gave", run)
                self._seen.run = run
                await run.wait()

    def _strike(self) -> None:
        """End the run between two turns."""
        seen, loop = self._seen, self._loop
        self._struck = None if self._way in ("run", "task") and seen.run is None else loop.time()
        match self._way:
            case "run" if seen.run is not None and not seen.run.finished:
                seen.last = seen.run.bus.last or None
                seen.run.cancel("faults")
            case "caller" if seen.caller is not None:
                seen.caller.cancel()
            case "scope" if seen.scope is not None:
                seen.scope.cancel()
            case "task":
                for task in asyncio.all_tasks(loop):
                    if seen.run is not None and task.get_name() == f"endstop run {seen.run.id}":
                        task.cancel()
            case "shutdown":
                loop.interrupt()
            case _:
                pass


def _no_run(did: str, what: object) -> WrongUse:
    return WrongUse(
        f"make_run {did} {what!r}, which is not a run: write "
        "`def make_run(record): return Engine(...).start(prompt, record=record)`"
    )


def _name(task: asyncio.Task[Any]) -> str:
    """Return the name of a task's function, or of the generator that it closes."""
    coroutine: Any = task.get_coro()
    if type(coroutine).__name__ == "async_generator_athrow":
        closed = (one for one in gc.get_referents(coroutine) if isinstance(one, AsyncGeneratorType))
        return " and ".join(f"it closes {one.__qualname__}" for one in closed)
    return str(getattr(coroutine, "__qualname__", coroutine))
