"""A conversation begun in another program continues here, and is passed back to it.

    python docs/examples/history.py             a scripted model
    ENDSTOP_MODEL=anthropic/claude-sonnet-4-5 python docs/examples/history.py

Lines that are not blank: `go_on` has 4, with 1 import. The example of Pydantic AI, "Reusing messages in a
conversation" (docs/message-history.md at commit 4fda389), has 7 without what it prints; it goes on with its own
messages, where this one reads and gives OpenAI's.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any

from endstop import Engine
from endstop.providers import LiteLLM, Provider, Request, Scripted

SAVED = [
    {"role": "system", "content": "You answer in one sentence."},
    {"role": "user", "content": "Which port does the server use?"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "read", "arguments": '{"path":"server.toml"}'}}
        ],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "port = 80"},
    {"role": "assistant", "content": "It uses port 80."},
]


async def go_on(engine: Engine, messages: list[Any], prompt: str) -> list[Any]:
    session = engine.session(history=messages)
    await session.run(prompt)
    return session.messages(format="openai")


def answer(request: Request) -> str:
    """What a model would say, by what it reads."""
    return f"That is not encrypted ({len(request.messages)} messages)."


async def main() -> None:
    name = os.environ.get("ENDSTOP_MODEL")
    provider: Provider = LiteLLM(name) if name else Scripted(answer)
    messages = await go_on(Engine(provider), SAVED, "Is that safe?")
    for message in messages[-2:]:
        print(f"{message['role']}: {message['content']}")
    print(f"{len(messages)} messages, the first {len(SAVED)} as they were: {messages[: len(SAVED)] == SAVED}")


if __name__ == "__main__":
    asyncio.run(main())
