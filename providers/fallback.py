"""Asking another provider when one fails."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

from ..decision import AnyChunk
from ._wrapper import RetryingStream, Wrapper
from .errors import ProviderError
from .provider import Provider, Request

NO_FALLBACK = frozenset({"cancelled", "exhausted"})
"""Kinds of errors that are no trouble of a provider: another one would not help."""


class Fallback(Wrapper):
    """Asks the first provider, and when it fails the next, to the last, whose error stands.

    after_output: whether to go on to the next when part of the response had been shown; the stream then declares it
    void. `unless` names kinds of errors that stand as they are.
    """

    def __init__(self, *providers: Provider, after_output: bool = True, unless: Collection[str] = NO_FALLBACK) -> None:
        super().__init__(*providers)
        self._after_output = after_output
        self._unless = frozenset(unless)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[AnyChunk]]:
        """Open a response of the first provider that gives one."""
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
