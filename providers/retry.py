"""Retry: repeats a request to the same provider after a transient error."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from random import Random
from types import MappingProxyType

from ..decision import AnyChunk, WrongUse
from ._wrapper import RetryingStream, Wrapper
from .clock import Clock, SystemClock
from .errors import KINDS, ProviderError
from .provider import Provider, Request

DEFAULT_RETRIES: Mapping[str, int] = MappingProxyType(
    {"rate_limit": 5, "server": 3, "connection": 3, "timeout": 2, "interrupted": 2, "protocol": 1}
)
"""Retries by kind of error. Other kinds are not retried: they would fail the same way."""


class Retry(Wrapper):
    """Retries transient errors with exponential backoff and full jitter.

    times: retries per response by kind of error (`providers.errors.KINDS`), `DEFAULT_RETRIES` by default.
    first_wait, longest_wait: seconds. The upper bound of the wait is `first_wait` at first and doubles with each retry,
    up to `longest_wait`; the wait itself is random between 0 and that bound, so that many clients do not return at the
    same moment. If the provider says how long to wait, that is used, unless it exceeds `longest_wait`: then its error
    is raised.
    after_output: whether to retry even if part of the response had been emitted, which is then retracted. Use False for
    readers that cannot discard what they have read.

    Raises WrongUse for an unknown kind of error, or waits that are not 0 <= first_wait <= longest_wait.
    """

    def __init__(
        self,
        provider: Provider,
        *,
        times: Mapping[str, int] = DEFAULT_RETRIES,
        first_wait: float = 0.5,
        longest_wait: float = 60.0,
        after_output: bool = True,
        clock: Clock | None = None,
        seed: int | None = None,
    ) -> None:
        super().__init__(provider)
        unknown = sorted(set(times) - set(KINDS))
        if unknown:
            raise WrongUse(f"Retry: times has unknown kinds {', '.join(unknown)}: use {', '.join(sorted(KINDS))}")
        if not 0 <= first_wait <= longest_wait:
            raise WrongUse(
                f"Retry: first_wait is {first_wait}, longest_wait {longest_wait}: use 0 <= first_wait <= longest_wait"
            )
        self._times = dict(times)
        self._waits = (first_wait, longest_wait)
        self._after_output = after_output
        self._clock: Clock = clock or SystemClock()
        self._random = Random(seed)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[AnyChunk]]:
        """Open a response, and retry if it fails. Raises ProviderError."""
        left = dict(self._times)
        made = 0

        def again(error: ProviderError, shown: bool) -> tuple[Provider, float] | None:
            nonlocal made
            wait = self._wait(error, made)
            if left.get(error.kind, 0) < 1 or wait is None or (shown and not self._after_output):
                return None
            left[error.kind] -= 1
            made += 1
            return self.provider, wait

        attempts = RetryingStream(self.provider, request, again, self._clock)
        try:
            yield attempts
        finally:
            await attempts.aclose()

    def _wait(self, error: ProviderError, made: int) -> float | None:
        """Seconds until the next attempt; None if the provider asks for more than `longest_wait`."""
        first, longest = self._waits
        if error.retry_after is not None:
            return error.retry_after if error.retry_after <= longest else None
        return self._random.uniform(0, min(longest, first * 2**made))
