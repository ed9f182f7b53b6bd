"""Keeping to what a provider allows: so many streams at once, requests and tokens a minute."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager

from ..decision import AnyChunk, UsageReport, WrongUse
from ..decision.transcript import rough_tokens, size
from ._wrapper import Wrapper
from .clock import Clock, SystemClock
from .errors import RateLimited
from .provider import Provider, Request
from .rate_limit import Bucket, Gate


class Limit(Wrapper):
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
                raise WrongUse(f"Limit: {name} is {value}: use more than 0, or None for no limit")
        clock = clock or SystemClock()
        self._gate = Gate(streams, clock)
        self._requests = None if requests_per_minute is None else Bucket(requests_per_minute, clock)
        self._tokens = None if tokens_per_minute is None else Bucket(tokens_per_minute, clock)
        self._adapt = adapt
        self._longest_wait = longest_wait

    @property
    def streams(self) -> int:
        """Responses that are streaming now."""
        return self._gate.inside

    @property
    def allowed(self) -> float | None:
        """Streams that are let through at present; None: any number."""
        return self._gate.allowed

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[AnyChunk]]:
        """Open a response once there is room for it."""
        async with AsyncExitStack() as stack:
            number = await self._place(stack)
            estimate = await self._take(request)
            try:
                async with self.provider.stream(request) as chunks:
                    if self._tokens is None:
                        yield chunks
                    else:
                        async with aclosing(self._counted(chunks, self._tokens, estimate)) as counted:
                            yield counted
            except RateLimited as error:
                if self._adapt:
                    self._gate.back_off(number, error.retry_after)
                raise
            self._gate.ease()

    async def _place(self, stack: AsyncExitStack) -> int:
        try:
            return await stack.enter_async_context(self._gate.entered(self._longest_wait))
        except TimeoutError:
            message = f"{self.model}: no place among {self.allowed:g} streams within {self._longest_wait:g} s"
            raise RateLimited(message) from None

    async def _take(self, request: Request) -> int:
        """Wait until the rates allow one more request; the tokens that were taken for it."""
        if self._requests is not None:
            await self._requests.take(1)
        if self._tokens is None:
            return 0
        estimate = _estimate(request)
        await self._tokens.take(estimate)
        return estimate

    @staticmethod
    async def _counted(chunks: AsyncIterator[AnyChunk], tokens: Bucket, taken: int) -> AsyncGenerator[AnyChunk]:
        """The chunks as they come; what the provider counts corrects what was taken for it."""
        async for chunk in chunks:
            if isinstance(chunk, UsageReport):
                used = chunk.usage.input_tokens + chunk.usage.output_tokens
                tokens.correct(used - taken)
                taken = used
            yield chunk


def _estimate(request: Request) -> int:
    """Tokens in and out of a request that has not been made: what is asked, and the answer that it allows for."""
    asked = sum(size(message) for message in (*request.messages, *request.ephemeral))
    answer = request.settings.get("max_tokens")
    return rough_tokens(asked) + (answer if isinstance(answer, int) else 0)
