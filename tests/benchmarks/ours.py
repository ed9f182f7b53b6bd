"""endstop as a user has it: recording on, one subscriber on the bus, the trace kept."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from endstop.decision import Limits, Policy
from endstop.engine import Engine, tool
from endstop.providers import OpenAICompatible
from task import add


class Ours:
    """The engine on its direct path. Each session has a record of its own, in a folder that is thrown away."""

    def __init__(self, api_base: str) -> None:
        self.told = 0
        """Events that reached the subscriber, all runs together."""
        self.runs = 0
        self.engine = Engine(
            OpenAICompatible("bench", api_base, api_key="none"),
            tools=[tool(add)],
            policy=Policy(limits=Limits(steps=1000)),
            system="",  # the floors send none either
            subscribers=[self.on_event],
        )

    def on_event(self, event: Any, run: Any) -> None:
        self.told += 1

    async def __aenter__(self) -> Ours:
        self.folder = tempfile.TemporaryDirectory(prefix="endstop-bench-")
        await self.engine.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.engine.__aexit__(*exc)
        self.folder.cleanup()

    async def run(self, prompt: str) -> str:
        self.runs += 1
        outcome = await self.engine.run(prompt, record=Path(self.folder.name, f"{self.runs}.jsonl"))
        if outcome.stop_reason != "completed":
            raise RuntimeError(f"{outcome.stop_reason}: {outcome.detail}")
        return outcome.answer
