"""Records for tests: a session that was really played, and the lines of its record."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from endstop import Engine, tool
from endstop.providers import Scripted, call, say


@tool(reads=True)
async def look(path: str) -> str:
    """Look at a file."""
    return f"{path} holds äöü 漢字"


def play(path: Path, *, steps: int = 3, runs: int = 1, **options: Any) -> Path:
    """A record of a session that looks at a file in each step, and finishes in the last of each run."""

    def script() -> list[Any]:
        looks = [[say("I look.", 3), call("look", path=f"{step}.txt", pieces=4)] for step in range(1, steps)]
        return [*looks, [call("finish_task", summary="Done.", pieces=3)]]

    async def main() -> None:
        engine = Engine(Scripted(*(response for _ in range(runs) for response in script())), tools=[look], **options)
        session = engine.session("session_x", record=path)
        for _ in range(runs):
            await session.run("Look around.")

    asyncio.run(main())
    return path


def lines_of(path: Path) -> list[bytes]:
    """The lines with their line feeds."""
    return path.read_bytes().splitlines(keepends=True)
