"""Base class of wrappers: delegates to the wrapped providers, opens and closes them, and retries within a stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any, Self

import anyio

from ..decision import AnyChunk, AttemptEnded, FinishReport, ModelSelected, WrongUse
from ..decision.finish_words import describe_finish_word, is_server_failure
from ..decision.wrong_calls import checked
from .clock import Clock
from .errors import ProviderError, Unavailable, attempt_ended
from .provider import Provider, Request


@checked
class Wrapper:
    """Base class of a provider that wraps one or more others. Its model and endpoint are those of the first.

    Raises WrongUse without a provider, or for an object that has no method `stream`.
    """

    def __init__(self, *providers: Provider) -> None:
        for provider in providers:
            if not callable(getattr(provider, "stream", None)):
                name = type(self).__name__
                several = isinstance(provider, list | tuple)
                hint = f"write {name}(one, another)" if several else "it has no method `stream`"
                if isinstance(provider, str):
                    hint = f"it is a model's name: give its provider, as in {name}({_provider_of(provider)})"
                raise WrongUse(f"{name}: {provider!r} is not a provider: {hint}")
        if not providers:
            raise WrongUse(f"{type(self).__name__} needs a provider to wrap")
        self.providers = providers

    @property
    def provider(self) -> Provider:
        """The first provider; in most wrappers the only one."""
        return self.providers[0]

    @property
    def model(self) -> str:
        """Name of the model, for records and messages."""
        return self.provider.model

    @property
    def endpoint(self) -> str:
        """URL of the model's endpoint, if it was set explicitly."""
        return str(getattr(self.provider, "endpoint", ""))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self.providers))})"

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as opened:
            for provider in self.providers:
                if isinstance(provider, AbstractAsyncContextManager):
                    await opened.enter_async_context(provider)
            opened.pop_all()
        return self

    async def __aexit__(self, *exc: Any) -> None:
        closing = AsyncExitStack()  # closes each one even if closing another fails or is cancelled
        for provider in self.providers:
            if isinstance(provider, AbstractAsyncContextManager):
                closing.push_async_exit(provider)
        await closing.__aexit__(*exc)


def iter_leaf_providers(provider: Provider) -> Iterator[Provider]:
    """Yield the innermost providers, those that call a model."""
    if isinstance(provider, Wrapper):
        for inner in provider.providers:
            yield from iter_leaf_providers(inner)
    else:
        yield provider


NextAttempt = Callable[[ProviderError, bool], tuple[Provider, float] | None]
"""Function that chooses the next attempt. It takes the error and whether the failed attempt had output, and returns the
next provider and the seconds to wait before calling it, or None for no further attempt."""


class RetryingStream:
    """One stream made of several attempts: when one fails, its output is retracted and the next attempt begins.

    `AttemptEnded` and `ModelSelected` mark the attempts, so that the engine can number them and readers can discard
    what was retracted. Shared by `Retry` and `Fallback`, which only choose the next attempt. Must be closed: it may
    hold a connection.
    """

    def __init__(self, first: Provider, request: Request, next_one: NextAttempt, clock: Clock | None = None) -> None:
        self._provider: Provider | None = first
        self._request = request
        self._next_one = next_one
        self._stream: AbstractAsyncContextManager[AsyncIterator[AnyChunk]] | None = None
        self._chunks: AsyncIterator[AnyChunk] | None = None
        self._clock = clock
        self._wait: float | None = None
        """Seconds to wait before the next attempt is announced; None if there is none to announce."""
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
        if type(chunk) is FinishReport and is_server_failure(chunk.reason, chunk.raw):
            return await self._end_with_word(provider, chunk)
        self._shown = self._shown or not isinstance(chunk, ModelSelected | AttemptEnded)
        return chunk

    async def aclose(self) -> None:
        """Close the current attempt's stream."""
        stream, self._stream, self._chunks = self._stream, None, None
        if stream is not None:
            await stream.__aexit__(None, None, None)

    async def _open(self, provider: Provider) -> None:
        stream = provider.stream(self._request)
        self._chunks = await stream.__aenter__()
        self._stream = stream

    async def _end_with_word(self, provider: Provider, finish: FinishReport) -> AnyChunk:
        """Start the next attempt if the finish word says that the server failed; if there is none, report the word.

        The loop then decides on what was received of the response, as it does without a wrapper.
        """
        error = Unavailable(f"the response ended with '{finish.raw}': {describe_finish_word(finish.raw)}")
        return await self._switch(provider, error) or finish

    async def _go_on(self, failed: Provider, error: ProviderError) -> AnyChunk:
        """Start the next attempt and report the failed one. Raise the error if there is no next attempt."""
        ended = await self._switch(failed, error)
        if ended is None:
            self._provider = None
            await self.aclose()
            raise error
        return ended

    async def _switch(self, failed: Provider, error: ProviderError) -> AttemptEnded | None:
        """Close the failed attempt, prepare the next one, and report the failed one; None if no attempt is left."""
        turn = self._next_one(error, self._shown)
        if turn is None:
            return None
        await self.aclose()
        (self._provider, self._wait), self._shown = turn, False
        return attempt_ended(error, failed.model)


async def wait_shielded(task: asyncio.Future[Any], seconds: float) -> None:
    """Wait until a task ends, for at most `seconds`, then cancel it. If the caller is cancelled, raise that at the end.

    A native `Task.cancel()` breaks through a shielded scope (anyio 4.16), so the wait is restarted after it. The
    task's own exception is not raised.
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


_CLASSES = {"anthropic": "Anthropic", "gemini": "Gemini", "openai": "OpenAIResponses"}
"""Classes of providers by the beginning of a model's name."""


def _provider_of(model: str) -> str:
    """Return the code that makes the provider of a model, for a message."""
    return f"{_CLASSES.get(model.partition('/')[0], 'LiteLLM')}({model!r})"
