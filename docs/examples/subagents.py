"""Sub-agents as tools: two translators at the same time, what they cost, and one budget for all.

    python docs/examples/subagents.py          a scripted model
    ENDSTOP_MODEL=anthropic/claude-sonnet-4-5 python docs/examples/subagents.py

Lines that are not blank, with imports: the example of the OpenAI Agents SDK for two translators (docs/tools.md, "Agents
as tools", beside version 0.24) has 30; Pydantic AI's for one sub-agent with its usage passed on
(docs/multi-agent-applications.md, "Agent delegation", beside version 2.68) has 24. The function `translate` has 16,
for two translators with a common budget and a record, and it shows their steps.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path

from endstop import Budget, Engine, Outcome
from endstop.decision import AssistantMessage, Price
from endstop.providers import LiteLLM, Prices, Provider, Request, Scripted, call, say


async def translate(model: Provider, text: str, record: Path, prices: Prices | None = None) -> Outcome:
    tools = [
        Engine(model, system=f"Translate the user's message to {language}.", presets=(), prices=prices).as_tool(
            f"to_{language.lower()}", f"Translates a text to {language}."
        )
        for language in ("Spanish", "French")
    ]
    boss = Engine(model, tools=tools, budget=Budget(cost_usd=1), prices=prices)
    async with boss.start(f"Say {text!r} in Spanish and in French.", record=record) as run:
        async for of, event in run.tree_events():
            if type(event).__name__ == "StepStarted":
                print("a step of", "the boss" if of is run else "a translator")
    return run.outcome


def scripted(request: Request) -> object:
    """What a model would say."""
    asked = str(getattr(request.messages[0], "text", ""))
    if asked.startswith("Translate the user's message to"):
        return say("Hola." if "Spanish" in asked else "Bonjour.")
    if any(isinstance(message, AssistantMessage) for message in request.messages):
        return say("Spanish: Hola. French: Bonjour.")
    return [call("to_spanish", prompt="Hello."), call("to_french", prompt="Hello.")]


async def main() -> None:
    name = os.environ.get("ENDSTOP_MODEL")
    model = LiteLLM(name) if name else Scripted(scripted)
    prices = None if name else Prices({"scripted": Price(input=3, output=15)})
    with tempfile.TemporaryDirectory() as folder:
        outcome = await translate(model, "Hello.", Path(folder, "run.jsonl"), prices)
        records = sorted(path.relative_to(folder).parent.name for path in Path(folder).rglob("*.jsonl"))
    assert outcome.subagents is not None
    print(outcome.answer)
    print(f"{outcome.subagents.runs} sub-agents: ${outcome.subagents.usage.cost_usd} of ${outcome.usage.cost_usd}")
    print(f"{len(records)} records, of which in run.subagents: {records.count('run.subagents')}")


if __name__ == "__main__":
    asyncio.run(main())
