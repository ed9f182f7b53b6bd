"""Checks of an adapter, one per function. A check raises Nonconformance (`trial.fail`) if the adapter fails it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import anyio

from ....decision import AnyChunk, TextDelta
from ....providers.errors import ProviderError
from .harness import ProviderTrial

Check = Callable[[ProviderTrial], Awaitable[None]]


async def gives(trial: ProviderTrial) -> None:
    """Check that the response is returned as it was sent."""
    chunks: list[AnyChunk] = []
    await trial.listen(chunks)
    trial.compare(chunks, trial.script[0].says)


def fails(*kinds: str) -> Check:
    """Return a check that the response fails with the error of its behaviour, or with one of these kinds."""

    async def check(trial: ProviderTrial) -> None:
        chunks: list[AnyChunk] = []
        try:
            await trial.listen(chunks)
        except ProviderError as error:
            _compare(trial, error, kinds)
            trial.compare(chunks, trial.script[0].says)
            return
        last = chunks[-1] if chunks else "nothing at all"
        trial.fail(f"it should have failed, but ended like a complete response, with {last!r}")

    return check


def _compare(trial: ProviderTrial, error: ProviderError, kinds: tuple[str, ...]) -> None:
    behaviour = trial.script[0]
    failure = behaviour.failure
    assert failure is not None, "a case that fails has a failure"
    trial.check_keys(error)
    if error.kind not in (kinds or (failure.kind,)):
        wanted = " or ".join(kinds or (failure.kind,))
        trial.fail(f"it raised an error of kind {error.kind!r} ({error.message}), and should have raised {wanted!r}")
    if behaviour.ends in ("refused", "error") and failure.message not in error.message:
        trial.fail(f"the provider's message {failure.message!r} is not in the error: {error.message!r}")
    if behaviour.ends == "refused":
        given, expected = (error.status, error.retry_after), (failure.status, failure.retry_after)
        if given != expected:
            trial.fail(f"status and retry_after of the error are {given}, and should be {expected}")


async def shows_no_key(trial: ProviderTrial) -> None:
    """Check that the repr of the provider does not contain the key."""
    await gives(trial)
    if trial.site.key in repr(trial.provider):
        trial.fail("its repr shows the key")


async def keeps_apart(trial: ProviderTrial) -> None:
    """Check that two streams at once, read in turn, are not mixed up."""
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


async def opens_again(trial: ProviderTrial) -> None:
    """Check that the provider can be entered several times.

    It must answer before it is entered, while it is entered once or twice, and after it was left.
    """
    await gives(trial)
    for _ in range(2):
        async with trial.opened():
            async with trial.opened():
                await gives(trial)
            await gives(trial)
    await gives(trial)


GRACE = 5.0
"""Maximum seconds for leaving a stream. Far less is usual, but the machine may be busy."""
CLOSE = 2.0
"""Maximum seconds until a connection closes. `Passed.closed_after` has the measured time."""

Way = Callable[[ProviderTrial], Awaitable[float]]
"""Function that leaves a stream before its end, and returns the time at which it was left."""


async def left_early(trial: ProviderTrial) -> float:
    """Leave the stream after its first text, like a reader that needs no more."""
    async with trial.stream() as chunks:
        await _first(trial, chunks)
        at = _now()
    return at


async def task_cancelled(trial: ProviderTrial) -> float:
    """Cancel the asyncio task that reads the stream, after the first text."""
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


async def scope_cancelled(trial: ProviderTrial) -> float:
    """Cancel an anyio scope around the reader, after the first text."""
    at = 0.0
    with anyio.CancelScope() as scope:
        async with trial.stream() as chunks:
            await _first(trial, chunks)
            at = _now()
            asyncio.get_running_loop().call_soon(scope.cancel)
            await _rest(chunks)
    if not scope.cancelled_caught:
        trial.fail("a cancelled scope was not left by its cancellation: let it through, shield nothing long")
    return at


async def cancelled_before_an_answer(trial: ProviderTrial) -> float:
    """Cancel the task that reads the stream, after the request has arrived and before any response."""
    task = asyncio.ensure_future(trial.listen([]))
    asked = asyncio.ensure_future(trial.site.asked.wait())
    await asyncio.wait([task, asked], return_when=asyncio.FIRST_COMPLETED)
    asked.cancel()
    at = _now()
    task.cancel()
    await _expect_cancelled(trial, task)
    return at


def ends(way: Way) -> Check:
    """Return a check that a stream that is left this way ends within `GRACE` seconds."""

    async def check(trial: ProviderTrial) -> None:
        at = await way(trial)
        if _now() - at > GRACE:
            trial.fail(f"it took {_now() - at:.1f} s to leave the stream")

    return check


def closes(way: Way) -> Check:
    """Return a check that a stream that is left this way closes its connection within `CLOSE` seconds."""

    async def check(trial: ProviderTrial) -> None:
        at = await way(trial)
        closed, _ = await asyncio.wait([trial.site.left], timeout=CLOSE)
        if not closed:
            trial.fail(
                f"the connection is still open {CLOSE:g} s after the stream was left: "
                "close it in the `finally` of `stream`, and do not wait for its rest"
            )
        trial.closed_after = max(0.0, trial.site.left.result() - at)

    return check


async def _first(trial: ProviderTrial, chunks: AsyncIterator[AnyChunk]) -> None:
    """Wait for the first text, which must come before the response is complete."""
    async for chunk in chunks:
        if isinstance(chunk, TextDelta) and chunk.text:
            return
    trial.fail("the stream ended before any text")


async def _rest(chunks: AsyncIterator[AnyChunk]) -> None:
    async for _ in chunks:
        pass


async def _expect_cancelled(trial: ProviderTrial, task: asyncio.Task[None]) -> None:
    done, _ = await asyncio.wait([task], timeout=GRACE)
    if not done:
        task.cancel()
        trial.fail(f"a cancelled task had not ended after {GRACE:g} s")
    if task.cancelled():
        return
    if (error := task.exception()) is not None:
        raise error
    trial.fail("a cancelled task ended as if it had not been cancelled: let CancelledError through")


def _now() -> float:
    return asyncio.get_running_loop().time()
