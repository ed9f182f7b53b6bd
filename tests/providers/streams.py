"""Reading a provider's stream in tests, and providers that take their time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from endstop.decision import AnyChunk, AttemptEnded, FinishReport, ModelSelected, TextDelta, UserMessage
from endstop.decision.delta_merger import split_delta
from endstop.providers import Clock, Provider, ProviderError, Request

ASK = Request(messages=[UserMessage("Hello, who is there?")])


async def chunks_of(provider: Provider, request: Request = ASK) -> list[AnyChunk]:
    """Every chunk of one response."""
    async with provider.stream(request) as chunks:
        return [chunk async for chunk in chunks]


def unmerged(chunks: list[AnyChunk]) -> list[AnyChunk]:
    """The deltas as the server sent them, whatever reads they came in."""
    return [piece for chunk in chunks for piece in split_delta(chunk)]


def heard(chunks: list[AnyChunk]) -> tuple[str | None, str]:
    """Who was heard last, and the text that is not void."""
    voice, text = None, ""
    for chunk in chunks:
        match chunk:
            case ModelSelected(model):
                voice = model
            case AttemptEnded(beside=False):
                text = ""
            case TextDelta(more):
                text += more
            case _:
                pass
    return voice, text


def ended(chunks: list[AnyChunk], *, beside: bool) -> list[tuple[str, str]]:
    """Model and kind of each attempt that came to nothing."""
    return [(c.model, c.kind) for c in chunks if isinstance(c, AttemptEnded) and c.beside is beside]


class Slow:
    """Says its words with so many seconds before each; an exception among them is raised. Counts what is open."""

    def __init__(self, clock: Clock, *script: Any, model: str = "slow", opening: float = 0.0) -> None:
        self.model = model
        self.open = 0
        self.begun = 0
        self._clock = clock
        self._script = script
        self._opening = opening

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[AnyChunk]]:
        """Play the script: numbers are waits, texts are said, errors raised."""
        self.open += 1
        self.begun += 1
        try:
            if self._opening:
                await self._clock.sleep(self._opening)
            played = self._play()
            try:
                yield played
            finally:
                await played.aclose()
        finally:
            self.open -= 1

    async def _play(self) -> Any:
        for item in self._script:
            if isinstance(item, int | float):
                await self._clock.sleep(item)
            elif isinstance(item, ProviderError):
                raise item
            else:
                yield TextDelta(item)
        yield FinishReport("stop", "stop")


async def nobody_left() -> None:
    """Fail if a task besides the test's own is still there."""
    for _ in range(10):
        await asyncio.sleep(0)
    assert asyncio.all_tasks() == {asyncio.current_task()}
