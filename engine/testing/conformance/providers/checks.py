"""What an adapter must do, one function each: it takes a trial, and complains."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import anyio

from ....decision import AnyChunk, TextDelta
from ....providers.errors import ProviderError
from .harness import Trial

Check = Callable[[Trial], Awaitable[None]]


async def gives(trial: Trial) -> None:
    """The response comes out as it was said."""
    chunks: list[AnyChunk] = []
    await trial.listen(chunks)
    trial.compare(chunks, trial.script[0].says)


def fails(*kinds: str) -> Check:
    """The response comes to nothing: as the failure that its behaviour names, or as one of these kinds."""

    async def check(trial: Trial) -> None:
        chunks: list[AnyChunk] = []
        try:
            await trial.listen(chunks)
        except ProviderError as error:
            _compare(trial, error, kinds)
            trial.compare(chunks, trial.script[0].says)
            return
        last = chunks[-1] if chunks else "nothing at all"
        trial.complain(f"it should have failed, and ended like a whole response, with {last!r}")

    return check


def _compare(trial: Trial, error: ProviderError, kinds: tuple[str, ...]) -> None:
    behaviour = trial.script[0]
    failure = behaviour.failure
    assert failure is not None, "a case that fails has a failure"
    trial.check_keys(error)
    if error.kind not in (kinds or (failure.kind,)):
        wanted = " or ".join(kinds or (failure.kind,))
        trial.complain(f"it failed as {error.kind!r} ({error.message}), and should have as {wanted!r}")
    if behaviour.ends in ("refused", "error") and failure.message not in error.message:
        trial.complain(f"the provider's words {failure.message!r} are not in the error: {error.message!r}")
    if behaviour.ends == "refused":
        given, expected = (error.status, error.retry_after), (failure.status, failure.retry_after)
        if given != expected:
            trial.complain(f"status and retry_after of the error are {given}, and should be {expected}")


async def shows_no_key(trial: Trial) -> None:
    """The provider's repr is fit for logs."""
    await gives(trial)
    if trial.site.key in repr(trial.provider):
        trial.complain("its repr shows the key")


async def keeps_apart(trial: Trial) -> None:
    """Two streams at once, read in turn, hold what was said in each."""
    async with trial.stream() as one, trial.stream() as two:
        open_streams = [(one, first := list[AnyChunk]()), (two, second := list[AnyChunk]())]
        while open_streams:
            for stream, chunks in tuple(open_streams):
                try:
                    trial.take(await anext(stream), chunks)
                except StopAsyncIteration:
                    open_streams.remove((stream, chunks))
    trial.compare(first, trial.script[0].says)
    trial.compare(second, trial.script[1].says)


async def opens_again(trial: Trial) -> None:
    """It answers before it is entered, inside, inside twice, after one of two has left, and after all have."""
    await gives(trial)
    for _ in range(2):
        async with trial.opened():
            async with trial.opened():
                await gives(trial)
            await gives(trial)
    await gives(trial)


# The ways out of a stream in its middle, and what an adapter must do on each: end, and close the connection.

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
