"""A system prompt that a function makes before each step, from what belongs to the run.

    python docs/examples/system.py              a scripted model
    ENDSTOP_MODEL=anthropic/claude-sonnet-4-5 python docs/examples/system.py

Lines that are not blank: `instructions` and `greet` have 5, with 1 import. Pydantic AI's instructions.py
(docs/agent.md at commit 4fda389), which does the same, has 15 with its imports and without what it prints.
"""

from __future__ import annotations

import asyncio
import os

from endstop import Engine, Progress
from endstop.decision import SystemMessage
from endstop.providers import LiteLLM, Provider, Request, Scripted


def instructions(run: Progress[str]) -> str:
    return f"Use the customer's name, {run.context.deps}. This is step {run.facts.steps + 1}."


async def greet(provider: Provider, name: str) -> str:
    engine = Engine(provider, system=instructions)
    return (await engine.run("What is the date?", deps=name)).answer


def repeat(request: Request) -> str:
    """What a model would say: it follows its instructions."""
    first = request.messages[0]
    assert isinstance(first, SystemMessage)
    return f"I was told: {first.text}"


async def main() -> None:
    name = os.environ.get("ENDSTOP_MODEL")
    provider: Provider = LiteLLM(name) if name else Scripted(repeat)
    print(await greet(provider, "Frank"))


if __name__ == "__main__":
    asyncio.run(main())
