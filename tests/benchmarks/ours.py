"""endstop as a user has it: recording on, one subscriber on the bus, the trace kept."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from endstop import Engine, Observers, tool
from endstop.decision import Limits, Policy
from endstop.providers import Fallback, Hedge, LiteLLM, OpenAICompatible, Provider, Race, RateLimit, Retry, Timeouts
from task import add


def direct(api_base: str) -> Provider:
    return OpenAICompatible("bench", api_base, api_key="none")


VOICES: dict[str, Callable[[str], Provider]] = {
    "endstop": direct,
    "retry": lambda base: Retry(direct(base)),
    "limit": lambda base: RateLimit(direct(base), streams=1000, requests_per_minute=10**9, tokens_per_minute=10**12),
    "timeouts": lambda base: Timeouts(direct(base)),
    "guarded": lambda base: Fallback(Retry(RateLimit(Timeouts(direct(base)), streams=1000)), direct(base)),
    "race": lambda base: Race(direct(base), direct(base)),
    "hedge": lambda base: Hedge(direct(base), direct(base), after=0.02),
    "endstop-litellm": lambda base: LiteLLM("openai/bench", api_base=base, api_key="none"),
}
"""What the engine may be given to speak to."""


class Ours:
    """The engine on its direct path. Each session has a record of its own, in a folder that is thrown away."""

    def __init__(self, api_base: str, voice: str = "endstop") -> None:
        self.told = 0
        """Events that reached the subscriber, all runs together."""
        self.runs = 0
        self.engine = Engine(
            VOICES[voice](api_base),
            tools=[tool(add)],
            policy=Policy(limits=Limits(steps=1000)),
            system="",  # the floors send none either
            observers=Observers(subscribers=[self.on_event]),
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
