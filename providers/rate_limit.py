"""A gate with so many places, and a bucket that fills again. Both are fair: who comes first is let through first.

Our own and no library's, because both take their time from a `Clock`, so that tests own it, and the gate changes its
width while it is in use.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager

from ..decision import AnyChunk, UsageReport, WrongUse
from ..decision.transcript import estimate_tokens, message_size
from ._wrapper import Wrapper
from .clock import Clock, SystemClock
from .errors import RateLimited
from .provider import Provider, Request

PAUSE = 1.0
"""Seconds for which nothing passes after a refusal that names no time."""
BURST_SECONDS = 6.0
"""A bucket holds what may pass in so many seconds; so much may pass at once after a rest."""


# Keeping to what a provider allows: so many streams at once, requests and tokens a minute.


class RateLimit(Wrapper):
    """Lets no more through than is allowed; the rest waits in the order in which it came.

    streams: responses at once. A place is held while a response streams and is free while tools run.
    requests_per_minute, tokens_per_minute: None for no bound. Tokens (in and out) are estimated before a request and
    corrected by what the provider counts.
    adapt: when the provider says that it was too much (429), half as many streams are let through, and nothing at all
    for as long as it asks to wait; each response that comes through well lets the number grow again.
    longest_wait: seconds to wait for a place among the streams; then the request fails as `RateLimited`, so that a
    `Fallback` around it asks somebody else. None: as long as it takes.

    Share one Limit between all engines that use one key.
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
                raise WrongUse(f"RateLimit: {name} is {value}: use more than 0, or None for no limit")
        clock = clock or SystemClock()
        self._semaphore = AdaptiveSemaphore(streams, clock)
        self._requests = None if requests_per_minute is None else TokenBucket(requests_per_minute, clock)
        self._tokens = None if tokens_per_minute is None else TokenBucket(tokens_per_minute, clock)
        self._adapt = adapt
        self._longest_wait = longest_wait

    @property
    def streams(self) -> int:
        """Responses that are streaming now."""
        return self._semaphore.in_use

    @property
    def allowed(self) -> float | None:
        """Streams that are let through at present; None: any number."""
        return self._semaphore.allowed

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[AnyChunk]]:
        """Open a response once there is room for it."""
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
            message = f"{self.model}: no place among {self.allowed:g} streams within {self._longest_wait:g} s"
            raise RateLimited(message) from None

    async def _acquire_rates(self, request: Request) -> int:
        """Wait until the rates allow one more request; the tokens that were taken for it."""
        if self._requests is not None:
            await self._requests.acquire(1)
        if self._tokens is None:
            return 0
        estimate = _estimate(request)
        await self._tokens.acquire(estimate)
        return estimate

    @staticmethod
    async def _counted(chunks: AsyncIterator[AnyChunk], tokens: TokenBucket, taken: int) -> AsyncGenerator[AnyChunk]:
        """The chunks as they come; what the provider counts corrects what was taken for it."""
        async for chunk in chunks:
            if isinstance(chunk, UsageReport):
                used = chunk.usage.input_tokens + chunk.usage.output_tokens
                tokens.adjust(used - taken)
                taken = used
            yield chunk


def _estimate(request: Request) -> int:
    """Tokens in and out of a request that has not been made: what is asked, and the answer that it allows for."""
    asked = sum(message_size(message) for message in (*request.messages, *request.ephemeral))
    answer = request.settings.get("max_tokens")
    return estimate_tokens(asked) + (answer if isinstance(answer, int) else 0)


class AdaptiveSemaphore:
    """Lets at most `places` through at once; None for any number."""

    def __init__(self, places: int | None, clock: Clock) -> None:
        self.in_use = 0
        self.allowed: float | None = places
        self._places = places
        self._clock = clock
        self._closed_until = 0.0
        self._backed_off = 0
        """How often it has been too much."""
        self._waiting: deque[asyncio.Future[None]] = deque()

    @asynccontextmanager
    async def acquire(self, within: float | None = None) -> AsyncIterator[int]:
        """Hold a place; gives the number to name in `back_off`.

        Raises TimeoutError if there is none within so many seconds.
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
        """It was too much: half as many as were inside from now on, and nobody for so many seconds.

        Those who were let in together are refused together, which counts once.
        """
        self._closed_until = max(self._closed_until, self._clock.now() + (PAUSE if seconds is None else seconds))
        if number == self._backed_off:
            self._backed_off += 1
            self.allowed = max(1.0, min(self.in_use, self.allowed or self.in_use) / 2)

    def recover(self) -> None:
        """It went well: one more for each full round of those who are allowed."""
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
            if turn.done() and not turn.cancelled():  # let in and cancelled at the same moment: on to the next
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
    """Lets so much through a minute. Who takes more than there is waits until it has come in."""

    def __init__(self, per_minute: float, clock: Clock) -> None:
        self._per_second = per_minute / 60
        self._most = max(1.0, self._per_second * BURST_SECONDS)
        self._level = self._most
        self._clock = clock
        self._looked = clock.now()

    async def acquire(self, amount: float) -> None:
        """Take so much, and wait until it is there; given back if the waiting is cancelled."""
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
        """Take so much if it is there; else take nothing, and give the seconds until it will be."""
        self._fill()
        if self._level < amount:
            return (amount - self._level) / self._per_second
        self._level -= amount
        return 0.0

    def adjust(self, more: float) -> None:
        """It was so much more, or less, than was taken."""
        self._level = min(self._most, self._level - more)

    def _fill(self) -> None:
        now = self._clock.now()
        self._level = min(self._most, self._level + (now - self._looked) * self._per_second)
        self._looked = now
