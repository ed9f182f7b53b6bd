"""Provider connections and streams: opens, reads and closes them without waiting for a close that hangs.

Each connection and each stream is entered and left by a separate task. The reader of a stream continues as soon as
it has the last chunk it wants, however long the close takes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any

from .decision import AnyChunk
from .providers import Interrupted, Provider, Request
from .providers._logging import log_warning
from .tools.user_functions import describe_error

StartTask = Callable[[Coroutine[Any, Any, None], str], "asyncio.Task[None]"]
"""Function that starts a task under a name and keeps a reference to it."""
ReadRest = Callable[[AsyncIterator[AnyChunk], "asyncio.Future[None]"], Awaitable[None]]
"""Function that reads more of a stream that was cut. The future is done once nobody waits for the stream any more."""

CLOSE_SECONDS = 0.2
"""Seconds that the end of a run waits for its provider to close."""
LAST_SECONDS = 10.0
"""Seconds that the close may then still take before it is cancelled."""

_BACKGROUND: set[asyncio.Task[None]] = set()
"""Strong references to the running tasks, because the event loop holds only weak ones."""


def start_background_task(work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
    """Start a task that does not belong to a round."""
    task = asyncio.create_task(work, name=name)
    _BACKGROUND.add(task)
    task.add_done_callback(_BACKGROUND.discard)
    return task


@asynccontextmanager
async def connected(provider: Provider) -> AsyncIterator[None]:
    """Keep the provider's connections open inside the block, if it is a context manager."""
    if isinstance(provider, AbstractAsyncContextManager):
        async with keep_open(provider, provider.model):
            yield
    else:
        yield


@asynccontextmanager
async def keep_open(provider: AbstractAsyncContextManager[Any], model: str) -> AsyncIterator[None]:
    """Keep the provider's connections open. Raises what opening raises; does not wait for a close that hangs."""
    opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    over = asyncio.Event()
    holding = start_background_task(_hold(provider, model, opened, over), f"connections of {model}")
    try:
        await opened
        yield
    finally:
        over.set()
        if not opened.done() or opened.cancelled():
            holding.cancel()
        await asyncio.sleep(0)  # enough for a provider that closes without waiting
        if not holding.done():
            await asyncio.wait((holding,), timeout=CLOSE_SECONDS)
        if not holding.done():
            log_warning("a provider takes a long time to close; not waiting for it", model=model)
            asyncio.get_running_loop().call_later(LAST_SECONDS, holding.cancel)


async def _hold(
    provider: AbstractAsyncContextManager[Any], model: str, opened: asyncio.Future[None], over: asyncio.Event
) -> None:
    try:
        async with provider:
            _finish(opened, None)
            await over.wait()
    except asyncio.CancelledError:
        opened.cancel()
        raise
    except BaseException as error:
        if opened.done() and not opened.cancelled():
            log_warning("a provider could not be closed", model=model, error=describe_error(error))
        _finish(opened, error)


async def read_stream(
    provider: Provider,
    request: Request,
    take: Callable[[AnyChunk], bool],
    start_task: StartTask,
    read_rest: ReadRest | None = None,
    stoppable: Callable[[Callable[[], None]], None] | None = None,
    *,
    until_closed: bool = False,
) -> None:
    """Pass each chunk to `take` until the stream ends, or until `take` returns True to cut it.

    stoppable: gets a function that cuts the stream from elsewhere, also while it is silent. until_closed: whether to
    wait until the stream is closed, which takes as long as its provider reads on.

    Raises what the provider raises before that; errors while closing are only logged.
    """
    result: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    reading = start_task(_read(provider, request, take, read_rest, result, until_closed), f"stream of {provider.model}")
    if stoppable is not None:
        stoppable(partial(_stop, reading, result))
    try:
        await result
    except asyncio.CancelledError:
        reading.cancel()
        raise


async def _read(
    provider: Provider,
    request: Request,
    take: Callable[[AnyChunk], bool],
    read_rest: ReadRest | None,
    result: asyncio.Future[None],
    until_closed: bool,
) -> None:
    try:
        async with provider.stream(request) as chunks:
            async for chunk in chunks:
                if result.done():
                    return  # the provider ignored its cancellation, and nobody is waiting any more
                if take(chunk):
                    if read_rest is not None:
                        await read_rest(chunks, result)
                    break  # leaving the context closes the stream at once, and nothing cancels the close
            if not until_closed:
                _finish(result, None)
        _finish(result, None)
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            result.cancel()
            raise
        _finish(result, Interrupted(f"something that the stream of {provider.model} waited for was cancelled"))
    except BaseException as error:
        if result.done() and not result.cancelled():
            log_warning("a stream could not be closed", model=provider.model, error=describe_error(error))
        _finish(result, error)


def _stop(reading: asyncio.Task[None], result: asyncio.Future[None]) -> None:
    _finish(result, None)
    reading.cancel()


def _finish(result: asyncio.Future[None], error: BaseException | None) -> None:
    if result.done():
        return
    if error is None:
        result.set_result(None)
    else:
        result.set_exception(error)
