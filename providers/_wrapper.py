"""What all wrappers have in common: they stand for the providers that they hold, and open and close them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from typing import Any, Self

import anyio

from ..decision import AnyChunk, AttemptEnded, ModelSelected, WrongUse
from .clock import Clock
from .errors import ProviderError, attempt_ended
from .provider import Provider, Request


class Wrapper:
    """Holds one provider or several. Its model and endpoint are those of the first."""

    def __init__(self, *providers: Provider) -> None:
        for provider in providers:
            if not callable(getattr(provider, "stream", None)):
                raise WrongUse(f"{type(self).__name__}: {provider!r} is no provider: it has no method `stream`")
        if not providers:
            raise WrongUse(f"{type(self).__name__} wraps a provider: name one")
        self.providers = providers

    @property
    def provider(self) -> Provider:
        """The first provider, for wrappers of one the only one."""
        return self.providers[0]

    @property
    def model(self) -> str:
        """The model's name, for records and people."""
        return self.provider.model

    @property
    def endpoint(self) -> str:
        """Where the model is reached, if that was set by hand."""
        return str(getattr(self.provider, "endpoint", ""))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self.providers))})"

    async def __aenter__(self) -> Self:
        opened: list[AbstractAsyncContextManager[Any]] = []
        try:
            for provider in self.providers:
                if isinstance(provider, AbstractAsyncContextManager):
                    await provider.__aenter__()
                    opened.append(provider)
        except BaseException:
            for one in reversed(opened):
                await one.__aexit__(None, None, None)
            raise
        return self

    async def __aexit__(self, *exc: Any) -> None:
        for provider in reversed(self.providers):
            if isinstance(provider, AbstractAsyncContextManager):
                await provider.__aexit__(*exc)


def iter_leaf_providers(provider: Provider) -> Iterator[Provider]:
    """The providers inside of all wrappers: those that reach a model."""
    if isinstance(provider, Wrapper):
        for inner in provider.providers:
            yield from iter_leaf_providers(inner)
    else:
        yield provider


# One stream made of several attempts: when one fails, what it has shown is declared void and the next one speaks.
#
# The stream says so with `AttemptEnded` and `ModelSelected`; the engine gives each attempt an id, and readers take back
# what came to nothing. Used by `Retry` and `Fallback`, which only say who is asked next.

NextAttempt = Callable[[ProviderError, bool], tuple[Provider, float] | None]
"""Who is asked after this error, and after how many seconds; None: nobody. True: something had been shown of it."""


class RetryingStream:
    """Iterates over the chunks of all attempts. Close it: it may hold a connection."""

    def __init__(self, first: Provider, request: Request, next_one: NextAttempt, clock: Clock | None = None) -> None:
        self._provider: Provider | None = first
        self._request = request
        self._next_one = next_one
        self._stream: AbstractAsyncContextManager[AsyncIterator[AnyChunk]] | None = None
        self._chunks: AsyncIterator[AnyChunk] | None = None
        self._clock = clock
        self._wait: float | None = None
        """Seconds until the next attempt, which is then to be announced."""
        self._shown = False

    def __aiter__(self) -> AsyncIterator[AnyChunk]:
        return self

    async def __anext__(self) -> AnyChunk:
        provider = self._provider
        if provider is None:
            raise StopAsyncIteration
        if self._wait is not None:
            wait, self._wait = self._wait, None
            if self._clock is not None:
                await self._clock.sleep(wait)
            return ModelSelected(provider.model)
        try:
            if self._chunks is None:
                await self._open(provider)
            assert self._chunks is not None
            chunk = await anext(self._chunks)
        except StopAsyncIteration:
            self._provider = None
            await self.aclose()
            raise
        except ProviderError as error:
            return await self._go_on(provider, error)
        self._shown = self._shown or not isinstance(chunk, ModelSelected | AttemptEnded)
        return chunk

    async def aclose(self) -> None:
        """Close what is open."""
        stream, self._stream, self._chunks = self._stream, None, None
        if stream is not None:
            await stream.__aexit__(None, None, None)

    async def _open(self, provider: Provider) -> None:
        stream = provider.stream(self._request)
        self._chunks = await stream.__aenter__()
        self._stream = stream

    async def _go_on(self, failed: Provider, error: ProviderError) -> AnyChunk:
        """Ask the next one, and say so; raise the error if there is none."""
        await self.aclose()
        self._provider, shown, self._shown = None, self._shown, False
        turn = self._next_one(error, shown)
        if turn is None:
            raise error
        self._provider, self._wait = turn
        return attempt_ended(error, failed.model)


# Waiting for something to end while we are being cancelled ourselves.


async def wait_shielded(task: asyncio.Future[Any], seconds: float) -> None:
    """Wait for a task to end, for at most so many seconds, then cancel it; pass on a cancellation of our own.

    A native `Task.cancel()` breaks through a shielded scope (anyio 4.16), so the waiting is taken up again. What the
    task raises is not raised here.
    """
    interrupted: asyncio.CancelledError | None = None
    with anyio.move_on_after(seconds, shield=True) as patience:
        while not task.done():
            try:
                await asyncio.wait([task])
            except asyncio.CancelledError as error:
                if patience.cancel_called:
                    raise
                interrupted = error
    if not task.done():
        task.cancel()
    if interrupted is not None:
        raise interrupted
