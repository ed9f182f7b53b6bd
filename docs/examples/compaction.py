"""A context that a cheaper model sums up once it fills, and one that a function cuts.

    python docs/examples/compaction.py          scripted models
    ENDSTOP_MODEL=anthropic/claude-sonnet-4-5 python docs/examples/compaction.py

Lines that are not blank, with imports, without a run: the examples of Pydantic AI (docs/message-history.md at commit
0002c6d) have 19, "Summarize Old Messages", and 32, "Compact when the context window fills". Here `summed_up` has 6 and
`cut` has 10, the window included. In Pydantic AI's, the function is asked before every request, and sees to it itself
that calls keep their results; here it is asked once the context is over its threshold, and that is checked.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence

from endstop import Engine, Hooks, Policy, tool
from endstop.decision import Compaction, Message, ToolResult, Usage, UsageReport
from endstop.decision.events import ContextCompacted
from endstop.providers import LiteLLM, Provider, Request, Scripted, call, say

WINDOW = Policy(compaction=Compaction(window=3_000, keep_messages=3))


@tool(reads=True)
async def read(page: int) -> str:
    """Read one of six pages."""
    return f"Page {page}: " + "and so on, " * 200


def summed_up(model: Provider, small: Provider) -> Engine:
    return Engine(model, tools=[read], policy=WINDOW, hooks=Hooks(compactor=small))


def cut(model: Provider) -> Engine:
    def first_lines(messages: Sequence[Message], run: object) -> str:
        results = [message.content[:20] for message in messages if isinstance(message, ToolResult)]
        return "Read so far: " + "; ".join(results)

    return Engine(model, tools=[read], policy=WINDOW, hooks=Hooks(compactor=first_lines))


async def show(engine: Engine) -> None:
    async with engine.start("Read all six pages, one after another, and say what they are about.") as run:
        async for event in run:
            if isinstance(event, ContextCompacted):
                print(f"{event.strategy}: {event.dropped} messages became {len(event.put_first)}")
    print(run.outcome.answer)


def reader(request: Request) -> object:
    """What a model would say: it reads on after the last page that it sees, and its context is measured."""
    text = str(request.messages)
    page = max([number for number in range(1, 7) if f"Page {number}:" in text], default=0) + 1
    measured = UsageReport(Usage(input_tokens=len(text) // 4, output_tokens=5))
    return [call("read", page=page) if page < 7 else say("They go on and on."), measured]


async def main() -> None:
    name = os.environ.get("ENDSTOP_MODEL")
    model: Provider = LiteLLM(name) if name else Scripted(reader)
    small: Provider = LiteLLM(name) if name else Scripted(lambda request: "Some pages were read.")
    await show(summed_up(model, small))
    await show(cut(model))


if __name__ == "__main__":
    asyncio.run(main())
