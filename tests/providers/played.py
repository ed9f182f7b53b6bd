"""Recordings that are played to a provider over HTTP, and what came out of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from endstop.decision import AnyChunk, Assembler, UserMessage
from endstop.decision.delta_merger import split_delta
from endstop.decision.events import ToolCallEnd
from endstop.decision.messages import AssistantMessage
from endstop.providers import Provider, ProviderError, Request

from ..shared_data import plain, replies_in, serve_fixture
from .voices import Voice, direct

HELLO = Request(messages=[UserMessage("hello")])


class Heard:
    """What a provider made of one response, put together by the assembler."""

    def __init__(self) -> None:
        self.assembler = Assembler(1, "1.1", set())
        self.chunks: list[AnyChunk] = []
        self.complete: list[str] = []

    async def all_of(self, provider: Provider) -> Heard:
        async with asyncio.timeout(60), provider.stream(HELLO) as chunks:
            async for chunk in chunks:
                self.note(chunk)
        return self

    def note(self, chunk: AnyChunk) -> None:
        self.chunks += split_delta(chunk)
        events = self.assembler.feed(chunk)
        self.complete += [event.call_id for event in events if isinstance(event, ToolCallEnd)]

    @property
    def message(self) -> AssistantMessage:
        return self.assembler.message

    @property
    def reasoning(self) -> str:
        return "".join(block.text for block in self.message.reasoning)

    @property
    def calls(self) -> list[tuple[str, str, Any]]:
        return plain((call.id, call.name, call.arguments) for call in self.message.calls)


class Overheard:
    """A provider whose response is heard by somebody else, too. `error`: what was raised instead of its end."""

    def __init__(self, provider: Provider, heard: Heard) -> None:
        self.model = provider.model
        self.error: ProviderError | None = None
        self._provider = provider
        self.heard = heard

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[AnyChunk]]:
        """The provider's own."""
        with self._error_noted():
            async with self._provider.stream(request) as chunks:
                yield self._noted(chunks)

    async def _noted(self, chunks: AsyncIterator[AnyChunk]) -> AsyncIterator[AnyChunk]:
        with self._error_noted():
            async for chunk in chunks:
                self.heard.note(chunk)
                yield chunk

    @contextmanager
    def _error_noted(self) -> Iterator[None]:
        try:
            yield
        except ProviderError as error:
            self.error = error
            raise


_WHOLE: dict[tuple[Path, Voice], Heard] = {}


async def heard(path: Path, voice: Voice = direct, **serving: Any) -> Heard:
    """A recording as it is, or served in another way. As it is, it is played once, and nobody changes what came out."""
    known = None if serving else _WHOLE.get((path, voice))
    if known is None:
        async with server_of(path, **serving) as server:
            known = await Heard().all_of(voice(server.url, path))
        if not serving:
            _WHOLE[path, voice] = known
    return known


def server_of(path: Path, replies: list[Any] | None = None, **serving: Any) -> Any:
    return serve_fixture().FixtureServer(replies or list(replies_in(path)), **serving)
