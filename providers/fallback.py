"""Fallback: a wrapper that uses the next provider when one fails."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

from ..decision import AnyChunk, WrongUse
from ..decision.errors import did_you_mean
from ..decision.wrong_calls import checked
from ._wrapper import RetryingStream, Wrapper
from .errors import KINDS, ProviderError
from .provider import Provider, Request

NO_FALLBACK = frozenset({"cancelled", "exhausted"})
"""Kinds of errors that are not the provider's fault: another provider would not help."""


@checked
class Fallback(Wrapper):
    """Wrapper that uses the first provider and, when it fails, the next one. The last one's error is raised.

    after_output: whether to use the next provider even if part of the response had been emitted, which is then
    retracted. unless: kinds of errors that are raised at once (`KINDS`); all others go on to the next provider.
    """

    def __init__(self, *providers: Provider, after_output: bool = True, unless: Collection[str] = NO_FALLBACK) -> None:
        super().__init__(*providers)
        self._after_output = after_output
        self._unless = frozenset(unless)
        for kind in self._unless:
            if kind not in KINDS:
                raise WrongUse(f"Fallback.unless: {kind!r} is no kind of errors{did_you_mean(str(kind), KINDS)}")

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[AnyChunk]]:
        """Open a response of the first provider that works. Raises ProviderError."""
        left = iter(self.providers[1:])

        def next_one(error: ProviderError, shown: bool) -> tuple[Provider, float] | None:
            if error.kind in self._unless or (shown and not self._after_output):
                return None
            following = next(left, None)
            return None if following is None else (following, 0.0)

        attempts = RetryingStream(self.provider, request, next_one)
        try:
            yield attempts
        finally:
            await attempts.aclose()
