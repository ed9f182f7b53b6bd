"""endstop as a contender of a peer benchmark whose harness is not ours: see peers.py.

All that a user may have on is on: each run is recorded to a file, one subscriber hears every event, the decision trace
is kept. `endstop:threads` is given the harness's `add` as it is, a sync function, which the engine runs in a thread.
"""

from __future__ import annotations

import tempfile
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import common  # the harness's: its tools note when they are called
from endstop import Engine, Observers, Tool, tool
from endstop.decision import Limits, Policy
from endstop.providers import OpenAICompatible


async def add(a: int, b: int) -> int:
    """Add two integers.

    Args:
        a: The first number.
        b: The second number.

    """
    return common.add(a, b)


class Peer:
    finish = "finish_task:summary"

    def __init__(self, variant: str) -> None:
        self.add = tool(common.add if variant == "threads" else add)
        self.told = self.runs = 0

    async def start(self, base: str) -> None:
        self.base, self.stack = base, AsyncExitStack()
        self.folder = Path(self.stack.enter_context(tempfile.TemporaryDirectory(prefix="endstop-peer-")))
        # The harness's max_steps is always more than the session needs, and so is this.
        self.engine = await self.open([self.add], policy=Policy(limits=Limits(steps=1000)))

    async def open(self, tools: list[Tool], **options: Any) -> Engine:
        provider = OpenAICompatible("mock", self.base, api_key="x")
        engine = Engine(provider, tools=tools, system="", observers=Observers(subscribers=[self.on_event]), **options)
        return await self.stack.enter_async_context(engine)

    def on_event(self, event: Any, run: Any) -> None:
        self.told += 1

    async def run(self, prompt: str, max_steps: int, plain: bool = False) -> str:
        """Plain: with a finish_task that is a tool like any other, and the limits of the default policy."""
        engine = await self.open([self.add, tool(common.finish_task)], presets=()) if plain else self.engine
        self.runs += 1
        outcome = await engine.run(prompt, record=self.folder / f"{self.runs}.jsonl")
        if outcome.stop_reason != "completed":
            raise RuntimeError(f"{outcome.stop_reason}: {outcome.detail}")
        return outcome.answer

    async def stop(self) -> None:
        await self.stack.aclose()
