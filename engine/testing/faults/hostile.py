"""Tools and subscribers that do what they must not: swallow cancellation, block the loop, raise anything, never end."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from ...decision import WrongUse
from ...decision.wrong_calls import explained
from ...run import Run
from ...subscribers import Subscriber
from ...tools.tool import Tool
from .cancel_points import WAYS, CancelWay, check_ways, check_within, try_points
from .invariants import Broken
from .simulated_loop import check_no_loop
from .violations import FaultReport, Points, Stopwatch, chosen_names, record_in

TOOL_NAME = "hostile"
"""Name by which the run's model calls a hostile tool. It takes no arguments."""
_TIMEOUT = 5.0
"""Simulated seconds after which the engine stops a hostile tool."""

MOST_ITEMS = 3_000
"""Number of items that `returns_endless` yields before it counts as read without a limit."""
_ITEM_SIZE = 10_000
"""Number of characters of one item."""


class Unprintable(Exception):
    """An exception whose text cannot be read."""

    def __str__(self) -> str:
        raise RuntimeError("this exception has no text")


ERRORS: dict[str, Callable[[], BaseException]] = {
    "control_characters": lambda: ValueError("\x1b[2J\u202e \ud800"),
    "unprintable": Unprintable,
    "group": lambda: ExceptionGroup("several", [ValueError("one"), KeyError("two")]),
    "cancelled": lambda: asyncio.CancelledError("its own"),
    "stop_iteration": StopAsyncIteration,
    "generator_exit": GeneratorExit,
    "keyboard_interrupt": KeyboardInterrupt,
    "exit": lambda: SystemExit(3),
}
"""Exceptions that the hostile tools raise."""
_ENDS_THE_PROCESS = ("generator_exit", "keyboard_interrupt", "exit")
"""Exceptions that end the process if a subscriber raises them, because asyncio lets them."""


class Hostile:
    """Behaviour of one hostile tool or subscriber, until it is released."""

    def __init__(self, name: str, act: Callable[[Hostile], Any]) -> None:
        self.name = name
        self.called = 0
        """Number of calls."""
        self.over = asyncio.Event()
        """Set when the run has ended, so that it also ends."""
        self.broken: list[Broken] = []
        """Observations that must not happen."""
        self._act = act

    async def __call__(self) -> Any:
        """Perform the behaviour."""
        self.called += 1
        return await self._act(self)

    def tool(self) -> Tool:
        """Return a tool with this behaviour."""

        async def hostile() -> Any:
            return await self()

        return Tool(hostile, name=TOOL_NAME, description=f"A hostile tool: {self.name}.", timeout=_TIMEOUT)

    def subscriber(self) -> Subscriber:
        """Return a subscriber with this behaviour at each event."""

        async def hostile(event: object, run: Run[Any]) -> None:
            await self()

        return hostile


async def _swallow(hostile: Hostile) -> str:
    while not hostile.over.is_set():
        with suppress(asyncio.CancelledError):
            await hostile.over.wait()
    return "late"


async def _never_end(hostile: Hostile) -> str:
    await hostile.over.wait()
    return "late"


async def _block(hostile: Hostile, seconds: float) -> str:
    time.sleep(seconds)
    return "blocked"


async def _raise(hostile: Hostile, make_error: Callable[[], BaseException]) -> str:
    raise make_error()


async def _return(hostile: Hostile, size: int) -> str:
    return "x" * size


async def _return_endless(hostile: Hostile) -> Iterator[str]:
    return _endless(hostile)


def _endless(hostile: Hostile) -> Iterator[str]:
    for read in range(MOST_ITEMS):
        if hostile.over.is_set():
            return
        yield f"{read} ".ljust(_ITEM_SIZE)
    hostile.broken.append(("bounded", f"{MOST_ITEMS:,} items of {_ITEM_SIZE:,} characters were read"))


def _deeds(size: int, blocks: float) -> Iterator[tuple[str, Callable[[Hostile], Any]]]:
    """Yield the behaviours, by name."""
    yield "swallows_cancellation", _swallow
    yield "never_ends", _never_end
    yield "blocks_loop", partial(_block, seconds=blocks)
    yield "returns_much", partial(_return, size=size)
    yield "returns_endless", _return_endless
    for name, make_error in ERRORS.items():
        yield f"raises_{name}", partial(_raise, make_error=make_error)


MakeWithTool = Callable[[Path, Tool], AbstractAsyncContextManager[Run[Any]]]
MakeWithSubscriber = Callable[[Path, Subscriber], AbstractAsyncContextManager[Run[Any]]]


@explained
def check_hostile_tools(
    make_run: MakeWithTool,
    *,
    only: Sequence[str] | None = None,
    size: int = 100_000_000,
    blocks: float = 0.05,
    ways: Sequence[CancelWay] = WAYS,
    points: Points = 5,
    seed: int = 0,
    seconds: float | None = None,
    within: float = 2.0,
) -> FaultReport:
    """Give a run each hostile tool, let it run to its end, end it at some points, and check every invariant.

    make_run: called with the path of a record and with the tool, which its model must call, by the name `hostile` and
        without arguments. Returns a run, as for `check_cancel_points`.
    only: names of hostile tools, such as `never_ends`; None for all.
    size: characters that `returns_much` returns. blocks: real seconds for which `blocks_loop` blocks the event loop.
    ways, points, seed, seconds, within: as for `check_cancel_points`, for each hostile tool.

    Raises WrongUse inside a running event loop, for arguments that cannot work, and if the tool is never called.
    """
    deeds = list(_deeds(size, blocks))
    return _check("check_hostile_tools", make_run, Hostile.tool, deeds, only, ways, points, seed, seconds, within)


@explained
def check_hostile_subscribers(
    make_run: MakeWithSubscriber,
    *,
    only: Sequence[str] | None = None,
    blocks: float = 0.001,
    ways: Sequence[CancelWay] = WAYS,
    points: Points = 5,
    seed: int = 0,
    seconds: float | None = None,
    within: float = 2.0,
) -> FaultReport:
    """Check like `check_hostile_tools`, with each hostile subscriber. None of them ends the process.

    make_run: called with the path of a record and with the subscriber.
    blocks: real seconds for which `blocks_loop` blocks the event loop at each event.
    """
    without = ("returns_much", "returns_endless", *(f"raises_{name}" for name in _ENDS_THE_PROCESS))
    deeds = [(name, deed) for name, deed in _deeds(0, blocks) if name not in without]
    return _check(
        "check_hostile_subscribers", make_run, Hostile.subscriber, deeds, only, ways, points, seed, seconds, within
    )


def _check(
    check: str,
    make_run: Callable[[Path, Any], AbstractAsyncContextManager[Run[Any]]],
    role: Callable[[Hostile], Any],
    deeds: Sequence[tuple[str, Callable[[Hostile], Any]]],
    only: Sequence[str] | None,
    ways: Sequence[CancelWay],
    points: Points,
    seed: int,
    seconds: float | None,
    within: float,
) -> FaultReport:
    check_no_loop(check)
    check_ways(ways)
    check_within(within)
    names = chosen_names(only, [name for name, _ in deeds])
    report, watch = FaultReport(check), Stopwatch(seconds)
    with tempfile.TemporaryDirectory(prefix="endstop_faults") as folder, asyncio.Runner() as checks:
        for name, deed in deeds:
            if name not in names:
                continue
            made: list[Hostile] = []

            def make(path: Path, name: str = name, deed: Any = deed, made: list[Hostile] = made) -> Any:
                made.append(Hostile(name, deed))
                return make_run(path, role(made[-1]))

            def release(made: list[Hostile] = made) -> Sequence[Broken]:
                made[-1].over.set()
                return made[-1].broken

            before = report.tried
            try_points(
                report, make, ways, points, seed, within, watch, checks, partial(record_in, folder), name, release
            )
            if made and not made[0].called and report.ok:
                raise WrongUse(f"{check}: the run never called the hostile part ({TOOL_NAME!r}), so nothing was tried")
            report.tried += report.tried == before
    report.seconds = watch.passed
    return report
