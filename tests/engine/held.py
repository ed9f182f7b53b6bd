"""A model that is held where a test wants it, and batches of events as numbers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import Any

import anyio
from endstop import Engine, tool
from endstop.providers import Scripted
from endstop.records.frames import Frames, Gap
from endstop.tools import ask_user, finish_task


class Held:
    """A tool that says when it is called, and returns when it is let go."""

    def __init__(self) -> None:
        self.called, self.go = anyio.Event(), anyio.Event()

        @tool(reads=True)
        async def look(path: str) -> str:
            "Look at a file."
            self.called.set()
            await self.go.wait()
            return "port = 80"

        self.tool = look

    def engine(self, *responses: Any) -> Engine:
        """One that has this tool, a completion and a question."""
        return Engine(Scripted(*responses), tools=[self.tool], presets=[finish_task, ask_user])


def seqs(portions: Iterable[Frames]) -> list[Any]:
    """The numbers of the events, and markers as they are."""
    return [frame if isinstance(frame, Gap) else frame.seq for portion in portions for frame in portion]


async def to_end(portions: AsyncIterator[Frames]) -> list[Frames]:
    """All portions that hold something."""
    return [portion async for portion in portions if portion]
