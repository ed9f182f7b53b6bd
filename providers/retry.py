"""Retry: a wrapper that repeats a request to the same provider after a transient error."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from math import inf
from random import Random
from types import MappingProxyType

from ..decision import AnyChunk, WrongUse
from ..decision.wrong_calls import checked
from ._outage import Outage
from ._wrapper import RetryingStream, Wrapper
from .clock import Clock, SystemClock
from .errors import KINDS, ProviderError, is_away
from .provider import Provider, Request

DEFAULT_RETRIES: Mapping[str, int] = MappingProxyType(
    {"rate_limit": 5, "server": 3, "connection": 3, "timeout": 2, "interrupted": 2, "protocol": 1}
)
"""Retries by kind of error. Other kinds are not retried: they would fail the same way."""


FIRST_WAIT, LONGEST_WAIT = 0.5, 60.0
"""Upper bounds of the wait before the first retry and before any retry, in seconds."""
AWAY_WAIT = 15.0
"""Upper bound of a wait for a provider that is away, in seconds: short, so that its return is noticed soon."""

MOST_DOUBLINGS = 60
"""Maximum number of times that a wait doubles; without a limit, a float would overflow."""


@checked
class Retry(Wrapper):
    """Wrapper that retries transient errors with exponential backoff and full jitter.

    times: retries per response by kind of error (`providers.errors.KINDS`), `DEFAULT_RETRIES` by default; or one number
    for all of these kinds together. `backoff_sum` gives their longest total wait.
    first_wait, longest_wait: seconds. The upper bound of the wait is `first_wait` at first and doubles with each retry,
    up to `longest_wait`; the wait itself is random between 0 and that bound, so that many clients do not return at the
    same time. If the provider says how long to wait, that is used, unless it exceeds `longest_wait`: then its error
    is raised.
    provider_wait: how many seconds to wait for a provider that is away (`providers.errors.is_away`), from its first
    failure on, once `times` is used up; 0 for none. A provider whose attempt had output does not count as away.
    after_output: whether to retry even if part of the response had been emitted, which is then retracted. Use False for
    readers that cannot discard what they have read.
    clock: measures time; by default the system's. seed: makes the random waits repeatable; None: they are not.

    Raises WrongUse for an unknown kind of error, a negative number of retries or `provider_wait`, or waits that are not
    0 <= first_wait <= longest_wait.
    """

    def __init__(
        self,
        provider: Provider,
        *,
        times: Mapping[str, int] | int = DEFAULT_RETRIES,
        first_wait: float = FIRST_WAIT,
        longest_wait: float = LONGEST_WAIT,
        provider_wait: float = 0.0,
        after_output: bool = True,
        clock: Clock | None = None,
        seed: int | None = None,
    ) -> None:
        super().__init__(provider)
        by_kind = dict.fromkeys(DEFAULT_RETRIES, times) if isinstance(times, int) else dict(times)
        unknown = sorted(set(by_kind) - set(KINDS))
        if unknown:
            raise WrongUse(f"Retry: times has unknown kinds {', '.join(unknown)}: use {', '.join(sorted(KINDS))}")
        if isinstance(times, int) and times < 0:
            raise WrongUse(f"Retry: times is {times}: use 0 or more")
        if not 0 <= first_wait <= longest_wait:
            raise WrongUse(
                f"Retry: first_wait is {first_wait}, longest_wait {longest_wait}: use 0 <= first_wait <= longest_wait"
            )
        if not 0 <= provider_wait < inf:
            raise WrongUse(f"Retry: provider_wait is {provider_wait}: use 0 or more seconds")
        self._times = by_kind
        self._most = times if isinstance(times, int) else sum(by_kind.values())
        self._waits = (first_wait, longest_wait)
        self._provider_wait = provider_wait
        self._after_output = after_output
        self._clock: Clock = clock or SystemClock()
        self._random = Random(seed)
        self._outage = Outage("requests wait for a provider", clock=self._clock.now)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[AnyChunk]]:
        """Open a response, and retry if it fails. Raises ProviderError."""
        retries = _Retries(self._times, self._most)

        def again(error: ProviderError, shown: bool) -> tuple[Provider, float] | None:
            wait = self._wait(error, retries, shown)
            if wait is None or (shown and not self._after_output):
                return None
            retries.made += 1
            return self.provider, wait

        attempts = RetryingStream(self.provider, request, again, self._clock)
        try:
            yield attempts
            self._outage.over()
        finally:
            await attempts.aclose()

    def _wait(self, error: ProviderError, retries: _Retries, shown: bool) -> float | None:
        """Return the seconds until the next attempt; None if there is none."""
        now = self._clock.now()
        if shown or not is_away(error):
            retries.away_since = None
        elif retries.away_since is None:
            retries.away_since = now
        first, longest = self._waits
        asked = error.retry_after
        if retries.take(error.kind) and (asked is None or asked <= longest):
            return self._random.uniform(0, _bound(retries.made, first, longest)) if asked is None else asked
        if retries.away_since is None:
            return None
        left = retries.away_since + self._provider_wait - now
        if left <= 0:
            return None
        self._outage.failed(model=self.provider.model, kind=error.kind, status=error.status)
        backoff = self._random.uniform(0.5, 1) * _bound(retries.made, first, min(longest, AWAY_WAIT))
        return min(left, max(backoff, asked or 0.0))


class _Retries:
    """The retries of one response."""

    def __init__(self, times: Mapping[str, int], most: int) -> None:
        self.made = 0
        self.away_since: float | None = None
        """Clock time at which the provider was found to be away; None while it is not."""
        self._left = dict(times)
        self._most = most

    def take(self, kind: str) -> bool:
        """Take one of the counted retries. Return False if none is left for this kind of error."""
        if self._most < 1 or self._left.get(kind, 0) < 1:
            return False
        self._most -= 1
        self._left[kind] -= 1
        return True


def backoff_sum(retries: int, first_wait: float = FIRST_WAIT, longest_wait: float = LONGEST_WAIT) -> float:
    """Return the longest total wait of this many retries in seconds, if the provider does not say how long to wait."""
    return sum(_bound(made, first_wait, longest_wait) for made in range(retries))


def _bound(made: int, first: float, longest: float) -> float:
    """Return the upper bound of the wait after this many retries, in seconds."""
    return min(longest, first * 2.0 ** min(made, MOST_DOUBLINGS))
