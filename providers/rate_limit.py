"""Rate limits: the wrapper `RateLimit`, and the fair semaphore and token bucket that it uses.

Semaphore and bucket are implemented here because no library's take their time from a `Clock`, which tests control,
and because the semaphore changes its capacity while in use.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager

from ..decision import AnyChunk, UsageReport, WrongUse
from ..decision.wrong_calls import checked
from ._wrapper import Wrapper
from .clock import Clock, SystemClock
from .errors import RateLimited
from .provider import Provider, Request

PAUSE = 1.0
"""Seconds without new requests after a rate-limit error that does not say how long to wait."""
BURST_SECONDS = 6.0
"""Capacity of a bucket in seconds of its rate: the largest burst after a pause."""


@checked
class RateLimit(Wrapper):
    """Wrapper that keeps requests within a provider's rate limits. Requests over a limit wait, first come first served.

    streams: concurrent responses. A place is held while a response streams, and is free while tools run.
    requests_per_minute, tokens_per_minute: None for no limit. Tokens (input and output) are estimated before a request
    and corrected by the reported usage.
    adapt: after a rate-limit error (429) the number of streams is halved, and none starts for as long as the provider
    asks to wait; each successful response lets the number grow again.
    longest_wait: seconds to wait for a place; then the request fails with `RateLimited`, so that a `Fallback` around
    it can use another provider. None: no limit.
    clock: measures time; by default the system's.

    Share one RateLimit between all engines that use the same key. Raises WrongUse for a value that is not above 0.
    """

    def __init__(
        self,
        provider: Provider,
        *,
        streams: int | None = None,
        requests_per_minute: float | None = None,
        tokens_per_minute: float | None = None,
        adapt: bool = True,
        longest_wait: float | None = None,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(provider)
        given = {
            "streams": streams,
            "requests_per_minute": requests_per_minute,
            "tokens_per_minute": tokens_per_minute,
            "longest_wait": longest_wait,
        }
        for name, value in given.items():
            if value is not None and not value > 0:
                raise WrongUse(f"RateLimit: {name} is {value}: use a value above 0, or None for no limit")
        clock = clock or SystemClock()
        self._semaphore = AdaptiveSemaphore(streams, clock)
        self._requests = None if requests_per_minute is None else TokenBucket(requests_per_minute, clock)
        self._tokens = None if tokens_per_minute is None else TokenBucket(tokens_per_minute, clock)
        self._adapt = adapt
        self._longest_wait = longest_wait

    @property
    def streams(self) -> int:
        """Number of responses being streamed."""
        return self._semaphore.in_use

    @property
    def allowed(self) -> float | None:
        """Number of concurrent streams currently allowed; None for no limit."""
        return self._semaphore.allowed

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[AnyChunk]]:
        """Open a response once the limits allow it. Raises ProviderError."""
        async with AsyncExitStack() as stack:
            number = await self._acquire_place(stack)
            estimate = await self._acquire_rates(request)
            try:
                async with self.provider.stream(request) as chunks:
                    if self._tokens is None:
                        yield chunks
                    else:
                        async with aclosing(self._counted(chunks, self._tokens, estimate)) as counted:
                            yield counted
            except RateLimited as error:
                if self._adapt:
                    self._semaphore.back_off(number, error.retry_after)
                raise
            self._semaphore.recover()

    async def _acquire_place(self, stack: AsyncExitStack) -> int:
        try:
            return await stack.enter_async_context(self._semaphore.acquire(self._longest_wait))
        except TimeoutError:
            message = f"{self.model}: none of {self.allowed:g} streams became free within {self._longest_wait:g} s"
            raise RateLimited(message) from None

    async def _acquire_rates(self, request: Request) -> int:
        """Wait until the rates allow one more request, and return the tokens reserved for it."""
        if self._requests is not None:
            await self._requests.acquire(1)
        if self._tokens is None:
            return 0
        estimate = _estimate(request)
        await self._tokens.acquire(estimate)
        return estimate

    @staticmethod
    async def _counted(chunks: AsyncIterator[AnyChunk], tokens: TokenBucket, taken: int) -> AsyncGenerator[AnyChunk]:
        """Yield the chunks unchanged, and replace the reserved tokens with the reported usage."""
        async for chunk in chunks:
            if isinstance(chunk, UsageReport):
                used = chunk.usage.input_tokens + chunk.usage.output_tokens
                tokens.adjust(used - taken)
                taken = used
            yield chunk


def _estimate(request: Request) -> int:
    """Estimate the tokens of a request before it is made, plus the longest response it allows."""
    answer = request.settings.get("max_tokens")
    return request.estimated_tokens + (answer if isinstance(answer, int) else 0)


class AdaptiveSemaphore:
    """Fair semaphore with adaptive capacity: it is halved when the provider reports overload, and then grows again.

    `places`: the maximum capacity; None for no limit.
    """

    def __init__(self, places: int | None, clock: Clock) -> None:
        self.in_use = 0
        self.allowed: float | None = places
        self._places = places
        self._clock = clock
        self._closed_until = 0.0
        self._backed_off = 0
        """Number of times the capacity was reduced."""
        self._waiting: deque[asyncio.Future[None]] = deque()

    @asynccontextmanager
    async def acquire(self, within: float | None = None) -> AsyncIterator[int]:
        """Hold a place, and yield the number to pass to `back_off`.

        Raises TimeoutError if no place is free within `within` seconds.
        """
        with self._clock.deadline(within) as scope:
            await self._wait_for_place()
        if scope.cancelled_caught:
            raise TimeoutError
        try:
            while (left := self._closed_until - self._clock.now()) > 0:
                await self._clock.sleep(left)
            yield self._backed_off
        finally:
            self.in_use -= 1
            self._wake_waiting()

    def back_off(self, number: int, seconds: float | None) -> None:
        """Halve the capacity after a rate-limit error, and admit nobody for `seconds` (`PAUSE` if None).

        `number`: the value that `acquire` yielded to the failed request. Requests admitted since the same reduction
        usually fail together, and only the first of them reduces the capacity.
        """
        self._closed_until = max(self._closed_until, self._clock.now() + (PAUSE if seconds is None else seconds))
        if number == self._backed_off:
            self._backed_off += 1
            self.allowed = max(1.0, min(self.in_use, self.allowed or self.in_use) / 2)

    def recover(self) -> None:
        """Increase the capacity after a successful request: by one place in about as many requests as it has."""
        if self.allowed is None:
            return
        self.allowed += 1 / self.allowed
        if self._places is not None:
            self.allowed = min(self.allowed, self._places)
        self._wake_waiting()

    async def _wait_for_place(self) -> None:
        if not self._waiting and self._has_room():
            self.in_use += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # admitted and cancelled at the same time: pass the place on
                self.in_use -= 1
                self._wake_waiting()
            elif turn in self._waiting:
                self._waiting.remove(turn)
            raise

    def _wake_waiting(self) -> None:
        while self._waiting and self._has_room():
            turn = self._waiting.popleft()
            if not turn.done():
                self.in_use += 1
                turn.set_result(None)

    def _has_room(self) -> bool:
        return self.allowed is None or self.in_use < int(self.allowed)


class TokenBucket:
    """Fair token bucket that allows `per_minute` units a minute, in bursts of up to `BURST_SECONDS` worth of units."""

    def __init__(self, per_minute: float, clock: Clock) -> None:
        self._per_second = per_minute / 60
        self._most = max(1.0, self._per_second * BURST_SECONDS)
        self._level = self._most
        self._clock = clock
        self._looked = clock.now()

    async def acquire(self, amount: float) -> None:
        """Take an amount, waiting until it is available. A cancelled wait gives it back."""
        self._fill()
        self._level -= amount
        if self._level >= 0:
            return
        try:
            await self._clock.sleep(-self._level / self._per_second)
        except BaseException:
            self._level += amount
            raise

    def try_acquire(self, amount: float) -> float:
        """Take an amount if it is available and return 0; otherwise take nothing and return the seconds until it is."""
        self._fill()
        if self._level < amount:
            return (amount - self._level) / self._per_second
        self._level -= amount
        return 0.0

    def adjust(self, more: float) -> None:
        """Correct what `acquire` took, once the real amount is known: take `more`, or give back if it is negative."""
        self._level = min(self._most, self._level - more)

    def _fill(self) -> None:
        now = self._clock.now()
        self._level = min(self._most, self._level + (now - self._looked) * self._per_second)
        self._looked = now
