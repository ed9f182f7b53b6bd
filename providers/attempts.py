"""One stream made of several attempts: when one fails, what it has shown is declared void and the next one speaks.

The stream says so with `AttemptEnded` and `Voice`; the engine gives each attempt an id, and readers take back what
came to nothing. Used by `Retry` and `Fallback`, which only say who is asked next.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager

from ..decision import AnyChunk, AttemptEnded, Voice
from .errors import ProviderError
from .provider import Provider, Request

Next = Callable[[ProviderError, bool], Awaitable[Provider | None]]
"""Who is asked after this error; None: nobody. True: something of the attempt had been shown."""


class Attempts:
    """Iterates over the chunks of all attempts. Close it: it may hold a connection."""

    def __init__(self, first: Provider, request: Request, next_one: Next) -> None:
        self._provider: Provider | None = first
        self._request = request
        self._next_one = next_one
        self._stream: AbstractAsyncContextManager[AsyncIterator[AnyChunk]] | None = None
        self._chunks: AsyncIterator[AnyChunk] | None = None
        self._speaks: str | None = None
        """Who is to be announced before the next chunk."""
        self._shown = False

    def __aiter__(self) -> AsyncIterator[AnyChunk]:
        return self

    async def __anext__(self) -> AnyChunk:
        if self._speaks is not None:
            voice, self._speaks = Voice(self._speaks), None
            return voice
        provider = self._provider
        if provider is None:
            raise StopAsyncIteration
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
        self._shown = self._shown or not isinstance(chunk, Voice | AttemptEnded)
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
        self._provider = await self._next_one(error, shown)
        if self._provider is None:
            raise error
        self._speaks = self._provider.model
        return AttemptEnded(
            model=failed.model,
            kind=error.kind,
            message=error.message,
            status=error.status,
            retry_after=error.retry_after,
        )
