"""The ways out of a stream in its middle, and what an adapter must do on each: end, and close the connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import anyio

from ...decision import AnyChunk, TextDelta
from .checks import Check
from .harness import Trial

GRACE = 5.0
"""Seconds that ending may take; far less is usual, but the machine may be busy."""
CLOSE = 2.0
"""Seconds that a connection may take to close. What it took stands in `Passed.closed_after`."""

Way = Callable[[Trial], Awaitable[float]]
"""A way to leave a stream in its middle; gives the time at which it was left."""


async def left_early(trial: Trial) -> float:
    """The reader has seen enough."""
    async with trial.stream() as chunks:
        await _first(trial, chunks)
        at = _now()
    return at


async def task_cancelled(trial: Trial) -> float:
    """The reader's task is cancelled, as asyncio does it."""
    at: list[float] = []

    async def read() -> None:
        task = asyncio.current_task()
        assert task is not None
        async with trial.stream() as chunks:
            await _first(trial, chunks)
            at.append(_now())
            asyncio.get_running_loop().call_soon(task.cancel)
            await _rest(chunks)

    await _expect_cancelled(trial, asyncio.ensure_future(read()))
    return at[0]


async def scope_cancelled(trial: Trial) -> float:
    """A scope around the reader is cancelled, as anyio does it."""
    at = 0.0
    with anyio.CancelScope() as scope:
        async with trial.stream() as chunks:
            await _first(trial, chunks)
            at = _now()
            asyncio.get_running_loop().call_soon(scope.cancel)
            await _rest(chunks)
    if not scope.cancelled_caught:
        trial.complain("a cancelled scope was not left by its cancellation: let it through, shield nothing long")
    return at


async def cancelled_before_an_answer(trial: Trial) -> float:
    """The reader's task is cancelled while the model has not said anything."""
    task = asyncio.ensure_future(trial.listen([]))
    asked = asyncio.ensure_future(trial.site.asked.wait())
    await asyncio.wait([task, asked], return_when=asyncio.FIRST_COMPLETED)
    asked.cancel()
    at = _now()
    task.cancel()
    await _expect_cancelled(trial, task)
    return at


def ends(way: Way) -> Check:
    """Left this way, it ends in time."""

    async def check(trial: Trial) -> None:
        at = await way(trial)
        if _now() - at > GRACE:
            trial.complain(f"it took {_now() - at:.1f} s to leave the stream")

    return check


def closes(way: Way) -> Check:
    """Left this way, it closes the connection."""

    async def check(trial: Trial) -> None:
        at = await way(trial)
        closed, _ = await asyncio.wait([trial.site.left], timeout=CLOSE)
        if not closed:
            trial.complain(
                f"the connection is still open {CLOSE:g} s after the stream was left: "
                "close it in the `finally` of `stream`, and do not wait for its rest"
            )
        trial.closed_after = max(0.0, trial.site.left.result() - at)

    return check


async def _first(trial: Trial, chunks: AsyncIterator[AnyChunk]) -> None:
    """Wait for the first text: it must come while the model is still speaking."""
    async for chunk in chunks:
        if isinstance(chunk, TextDelta) and chunk.text:
            return
    trial.complain("the stream ended before it gave any text")


async def _rest(chunks: AsyncIterator[AnyChunk]) -> None:
    async for _ in chunks:
        pass


async def _expect_cancelled(trial: Trial, task: asyncio.Task[None]) -> None:
    done, _ = await asyncio.wait([task], timeout=GRACE)
    if not done:
        task.cancel()
        trial.complain(f"a cancelled task had not ended after {GRACE:g} s")
    if task.cancelled():
        return
    if (error := task.exception()) is not None:
        raise error
    trial.complain("a cancelled task ended as if nothing had been: let CancelledError through")


def _now() -> float:
    return asyncio.get_running_loop().time()
