"""Bounds on how long a response may take, from the connection to its last chunk."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from ..decision import AnyChunk, AttemptEnded, UsageReport, Voice, WrongUse
from ._wrapper import Wrapper
from .clock import Clock, SystemClock
from .errors import TimedOut
from .patience import BETWEEN_SECONDS, FIRST_SECONDS
from .provider import Provider, Request


class Timeouts(Wrapper):
    """Gives up a response that takes too long, as `TimedOut` (kind `timeout`). All in seconds, None for no bound.

    connect: until the provider answers at all. first: from there to the first content. between: from one piece of
    content to the next; a report of usage is none, and an attempt that takes over begins anew with `first`. total: all
    of it; the only bound on a model that never ends its response.
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
        """Open a response within its bounds."""
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
            if kind is UsageReport or kind is Voice:
                waited += self._clock.now() - began
            elif kind is AttemptEnded:
                bound, what, waited = self._first, "no first content", 0.0
            else:
                bound, what, waited = self._between, "no further content", 0.0
            yield chunk
        raise self._late(None, ends, what)

    def _left(self, bound: float | None, ends: float | None) -> float | None:
        """Seconds until the nearer of the two."""
        if ends is None:
            return bound
        left = max(0.0, ends - self._clock.now())
        return left if bound is None else min(bound, left)

    def _late(self, bound: float | None, ends: float | None, what: str) -> TimedOut:
        if bound is None or (ends is not None and self._clock.now() >= ends):
            return TimedOut(f"{self.model}: the response was not complete within {self._total:g} s")
        return TimedOut(f"{self.model}: {what} within {bound:g} s")
