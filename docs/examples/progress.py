"""A tool that reports its progress, and a program that shows it as it comes.

    python docs/examples/progress.py          a scripted model
    ENDSTOP_MODEL=anthropic/claude-sonnet-4-5 python docs/examples/progress.py

Lines that are not blank, with imports: the example of FastMCP 2 has 14 for the tool (gofastmcp.com/servers/progress,
"Basic Usage") and 16 for the client that prints its progress (gofastmcp.com/clients/progress, "Progress Handler"); no
model is in it. Here the tool `process` has 8, and `show`, which runs a model and prints, has 6.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator

from endstop import Engine, ProgressUpdate, tool
from endstop.decision.events import ToolProgress
from endstop.providers import LiteLLM, Provider, Scripted, call


@tool
async def process(items: list[str]) -> AsyncIterator[object]:
    """Process items."""
    done = []
    for number, item in enumerate(items, 1):
        await asyncio.sleep(0)  # the work
        done.append(item.upper())
        yield ProgressUpdate(f"processed {item}", number, len(items))
    yield {"processed": len(done), "results": done}


async def show(model: Provider, prompt: str) -> None:
    async with Engine(model, tools=[process]).start(prompt) as run:
        async for event in run:
            if isinstance(event, ToolProgress) and event.progress is not None:
                print(f"{event.name}: {event.progress:g} of {event.total:g}, {event.text}")
    print(run.outcome.answer)


async def main() -> None:
    name = os.environ.get("ENDSTOP_MODEL")
    model = LiteLLM(name) if name else Scripted([call("process", items=["bread", "rolls"])], "Both are processed.")
    await show(model, "Process the items 'bread' and 'rolls'.")


if __name__ == "__main__":
    asyncio.run(main())
