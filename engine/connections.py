"""Connections to a provider: held open for a run, and one stream read to its end. Nobody waits long for a close.

A task of its own enters and leaves each context, and so closes it. Whoever asked for a stream goes on as soon as the
last chunk that it wants is there: a close may take its time, or hang, and nothing depends on it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from ._logging import log_warning
from .decision import AnyChunk
from .providers import Interrupted, Provider, Request
from .tools.user_functions import describe_error

StartTask = Callable[[Coroutine[Any, Any, None], str], "asyncio.Task[None]"]
"""Begins a task, under a name, and keeps it."""
ReadRest = Callable[[AsyncIterator[AnyChunk], "asyncio.Future[None]"], Awaitable[None]]
"""What is still read of a stream that is cut, while the future is not done."""

CLOSE_SECONDS = 0.2
"""How long the end of a run waits for its provider to be closed."""
LAST_SECONDS = 10.0
"""How long it may take after that, with nobody waiting, before it is cancelled."""

_BACKGROUND: set[asyncio.Task[None]] = set()
"""What is still read or closed, and nobody else keeps: the event loop itself keeps no task."""


def start_background_task(work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
    """Begin it outside of any round."""
    task = asyncio.create_task(work, name=name)
    _BACKGROUND.add(task)
    task.add_done_callback(_BACKGROUND.discard)
    return task


@asynccontextmanager
async def connected(provider: Provider) -> AsyncIterator[None]:
    """Hold the provider's connections open, if it has any that can be."""
    if isinstance(provider, AbstractAsyncContextManager):
        async with keep_open(provider, provider.model):
            yield
    else:
        yield


@asynccontextmanager
async def keep_open(provider: AbstractAsyncContextManager[Any], model: str) -> AsyncIterator[None]:
    """Hold the provider's connections open. Raises what opening it raises; a close that hangs is left to itself."""
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
        await asyncio.wait((holding,), timeout=CLOSE_SECONDS)
        if not holding.done():
            log_warning("a provider takes long to close; nobody waits for it", model=model)
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
) -> None:
    """Hand each chunk to `take` until the stream ends, or until `take` says True: it is to be cut.

    Raises what the provider raises, up to then; what a close raises is only logged.
    """
    result: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    reading = start_task(_read(provider, request, take, read_rest, result), f"stream of {provider.model}")
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
) -> None:
    try:
        async with provider.stream(request) as chunks:
            async for chunk in chunks:
                if result.done():
                    return  # it goes on although it was cancelled, and nobody waits for it any more
                if take(chunk):
                    if read_rest is not None:
                        await read_rest(chunks, result)
                    break  # leaving the context closes it: at once, and without being cancelled itself
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


def _finish(result: asyncio.Future[None], error: BaseException | None) -> None:
    if result.done():
        return
    if error is None:
        result.set_result(None)
    else:
        result.set_exception(error)
