"""Asking several providers for the same response at once: the fastest is heard, the others are given up."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Literal

from ..decision import AnyChunk, WrongUse
from ._wrapper import Wrapper
from .clock import Clock, SystemClock
from .contest import Contest
from .provider import Provider, Request


class Race(Wrapper):
    """All providers begin at once, and one is heard.

    until: `first_token` takes the one whose first text, reasoning or call comes first, and streams it on;
    `finished` the one whose whole response is there first, and shows nothing until then.

    The others are cancelled. What they cost is estimated and counted, as attempts beside the one that is heard. One
    that fails leaves the race to the rest; the last one's error stands. (For whole runs against each other, see
    `Engine.race`.)
    """

    def __init__(
        self,
        *providers: Provider,
        until: Literal["first_token", "finished"] = "first_token",
        clock: Clock | None = None,
    ) -> None:
        super().__init__(*providers)
        self._until: Literal["first_token", "finished"] = until
        self._clock: Clock = clock or SystemClock()
        self._stagger = 0.0

    @property
    def model(self) -> str:
        """The models that run."""
        return " | ".join(provider.model for provider in self.providers)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[AnyChunk]]:
        """Open a response of each, and give that of the fastest."""
        contest = Contest(self.providers, request, self._until, self._stagger, self._clock)
        try:
            yield contest
        finally:
            await contest.aclose()


# Asking a second provider when the first is slow to begin.


class Hedge(Race):
    """The first provider has a head start of `after` seconds; then the next begins too, and so on.

    Who streams first is heard, as in `Race`. If all that have begun fail, the next begins at once. With `after` near
    the time within which nearly all responses begin, few requests are made twice, and the slow ones are cut short.
    """

    def __init__(self, *providers: Provider, after: float, clock: Clock | None = None) -> None:
        super().__init__(*providers, clock=clock)
        if not after > 0:
            raise WrongUse(f"Hedge: after is {after}: use seconds above 0 (for 0, use Race)")
        self._stagger = after

    @property
    def model(self) -> str:
        """The first one's model; who was heard stands with each response."""
        return self.provider.model
