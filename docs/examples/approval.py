"""A call waits for a person's approval, in this process or in another one that continues the session from its record.

    python docs/examples/approval.py             a scripted model, and answers from the list below
    ENDSTOP_MODEL=anthropic/claude-sonnet-4-5 python docs/examples/approval.py

Lines that are not blank and no comment, with imports: the OpenAI Agents SDK's example "pause, approve, resume"
(docs/human_in_the_loop.md at commit 392bfaa) has 39, Pydantic AI's "tool_requires_approval.py", which keeps nothing
outside the process (docs/deferred-tools.md at commit 05a3ba4), 38 without what it prints. The same here, a tool, a
function that decides by the arguments, the record between two processes, a yes and a no, has 23: `needs_yes` to
`decide`, with four lines of imports.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from endstop import Engine, Outcome, tool
from endstop.providers import LiteLLM, Provider, Scripted, call

ANSWERS = {"Oakland": "y", "Paris": "not Paris"}


def needs_yes(arguments: Mapping[str, Any]) -> bool:
    return arguments["city"] in ("Oakland", "Paris")


@tool(approval=needs_yes)
async def get_temperature(city: str) -> str:
    """Look up the temperature in a city."""
    print(f"looking up {city}")
    return f"The temperature in {city} is 20° Celsius"


async def ask(model: Provider, record: Path) -> None:
    await Engine(model, tools=[get_temperature]).run("How warm is it in Oakland, Paris and Rome?", record=record)


async def decide(model: Provider, record: Path) -> Outcome:
    session = Engine(model, tools=[get_temperature]).resume(record)
    while session.questions:
        question = session.questions[0]
        answer = read_answer(f"Approve {question.tool} with {question.arguments}? ")
        if answer == "y":
            outcome = await session.approve(question.call_id)
        else:
            outcome = await session.deny(question.call_id, answer)
    return outcome


def read_answer(prompt: str) -> str:
    """In your own program: `input(prompt)`."""
    answer = next(answer for city, answer in ANSWERS.items() if city in prompt)
    print(prompt + answer)
    return answer


def model(*responses: Any) -> Provider:
    name = os.environ.get("ENDSTOP_MODEL")
    return LiteLLM(name) if name else Scripted(*responses)


async def main() -> None:
    calls = [call("get_temperature", city=city) for city in ("Rome", "Oakland", "Paris")]
    with tempfile.TemporaryDirectory() as folder:
        record = Path(folder) / "weather.jsonl"
        await ask(model(calls), record)
        print("one process has ended, the next one begins")
        outcome = await decide(model("20° in Rome and Oakland; Paris was not wanted."), record)
    print(f"{outcome.status}: {outcome.answer}")


if __name__ == "__main__":
    asyncio.run(main())
