"""Timeouts on responses: the wrapper `Timeouts`, and the watchdog that the adapters use for their own timeouts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, TypeVar

from ..decision import AnyChunk, AttemptEnded, ModelSelected, UsageReport, WrongUse
from ..decision.wrong_calls import checked
from ._wrapper import Wrapper
from .clock import Clock, SystemClock
from .errors import TimedOut
from .provider import Provider, Request

FIRST_SECONDS = 600.0
"""Default timeout for the first content of a response: reasoning may be silent, and a local model may be slow."""
BETWEEN_SECONDS = 120.0
"""Default timeout for each further piece of content."""
T = TypeVar("T")


@checked
class Timeouts(Wrapper):
    """Wrapper that fails a response that takes too long with `TimedOut`. All values are in seconds, None for no limit.

    connect: until the provider responds. first: from then to the first content. between: from one piece of content
    to the next; a usage report is not content, and a new attempt starts with `first` again. total: the whole response;
    the only limit on a model that never stops. clock: measures time; by default the system's.

    Raises WrongUse for a value that is not above 0.
    """

    def __init__(
        self,
        provider: Provider,
        *,
        connect: float | None = 30.0,
        first: float | None = FIRST_SECONDS,
        between: float | None = BETWEEN_SECONDS,
        total: float | None = None,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(provider)
        given = {"connect": connect, "first": first, "between": between, "total": total}
        for name, seconds in given.items():
            if seconds is not None and not seconds > 0:
                raise WrongUse(f"Timeouts: {name} is {seconds}: use seconds above 0, or None")
        self._connect, self._first, self._between, self._total = connect, first, between, total
        self._clock: Clock = clock or SystemClock()

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[AnyChunk]]:
        """Open a response within its timeouts. Raises ProviderError."""
        ends = None if self._total is None else self._clock.now() + self._total
        async with AsyncExitStack() as stack:
            with self._clock.deadline(self._left(self._connect, ends)) as scope:
                chunks = await stack.enter_async_context(self.provider.stream(request))
            if scope.cancelled_caught:
                raise self._late(self._connect, ends, "no answer")
            bounded = self._bounded(chunks, ends)
            try:
                yield bounded
            finally:
                await bounded.aclose()

    async def _bounded(self, chunks: AsyncIterator[AnyChunk], ends: float | None) -> AsyncGenerator[AnyChunk]:
        bound, what, waited = self._first, "no first content", 0.0
        while ends is None or self._clock.now() < ends:
            began = self._clock.now()
            with self._clock.deadline(self._left(None if bound is None else max(0.0, bound - waited), ends)) as scope:
                chunk = await anext(chunks, None)
            if scope.cancelled_caught:
                raise self._late(bound, ends, what)
            if chunk is None:
                return
            kind = type(chunk)
            if kind is UsageReport or kind is ModelSelected:
                waited += self._clock.now() - began
            elif kind is AttemptEnded:
                bound, what, waited = self._first, "no first content", 0.0
            else:
                bound, what, waited = self._between, "no further content", 0.0
            yield chunk
        raise self._late(None, ends, what)

    def _left(self, bound: float | None, ends: float | None) -> float | None:
        """Return the seconds until the earlier of the two timeouts; None if there is none."""
        if ends is None:
            return bound
        left = max(0.0, ends - self._clock.now())
        return left if bound is None else min(bound, left)

    def _late(self, bound: float | None, ends: float | None, what: str) -> TimedOut:
        if bound is None or (ends is not None and self._clock.now() >= ends):
            return TimedOut(f"{self.model}: the response was not complete within {self._total:g} s")
        return TimedOut(f"{self.model}: {what} within {bound:g} s")


class Watchdog:
    """Timer for waits for content: `first` seconds for the first content, `between` seconds for each further one.

    Content counts, not bytes: a server that only sends comments or empty chunks to keep a connection open times out.
    Call `content_received` when a wait brought content, and `close` at the end. Without `between`, each wait has
    `first` seconds, whatever it brings. Only one wait at a time; time between waits does not count. Seconds must be
    above 0.

    A timeout per chunk would cost as much as everything else the engine does for a chunk. So one timer serves all
    waits of a stream: when it fires, it checks whether the current wait is overdue, and only then is it set again.
    """

    def __init__(self, first: float, between: float | None = None) -> None:
        self._left = self.seconds = first
        """`seconds`: the timeout of the current wait, for messages."""
        self._between = between
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._waiting: asyncio.Task[Any] | None = None
        self._due = 0.0
        self._expired = False

    async def wait_for(self, awaited: Awaitable[T]) -> T:
        """Wait for `awaited`. Raises TimeoutError when it takes too long; a cancellation from outside is raised."""
        task = asyncio.current_task()
        assert task is not None
        before = task.cancelling()
        self._waiting, self._due = task, self._loop.time() + self._left
        if self._timer is None or self._timer.when() > self._due:
            self.close()
            self._timer = self._loop.call_at(self._due, self._look)
        try:
            return await awaited
        except asyncio.CancelledError:
            if self._expired and task.uncancel() <= before:  # only our own cancellation, as in `asyncio.timeout`
                raise TimeoutError from None
            raise
        finally:
            self._waiting, self._expired = None, False
            self._left = self.seconds if self._between is None else max(0.0, self._due - self._loop.time())

    def content_received(self) -> None:
        """Note that a wait brought content: the next wait then has the timeout between two pieces of content."""
        self._left = self.seconds = self.seconds if self._between is None else self._between

    def close(self) -> None:
        """Cancel the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = None
        if self._waiting is None:
            return
        if self._loop.time() < self._due:
            self._timer = self._loop.call_at(self._due, self._look)
        else:
            self._expired = True
            self._waiting.cancel()
