"""Images after the prompt: in the answer to a question of the model, and in a message to a run that is going on.

    python docs/examples/images_later.py        a scripted model
    ENDSTOP_MODEL=anthropic/claude-sonnet-4-5 python docs/examples/images_later.py

Lines that are not blank: `show` has 9, with 2 imports.
"""

from __future__ import annotations

import asyncio
import os
from base64 import b64decode
from typing import Any

from endstop import Engine, Image, Outcome
from endstop.decision import ToolResult, UserMessage
from endstop.providers import LiteLLM, Provider, Request, Scripted, call
from endstop.tools import ask_user

DOT = Image(
    b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
)
"""A PNG of one pixel."""
LOGO = Image(url="https://www.python.org/static/community_logos/python-logo.png")


async def show(engine: Engine) -> Outcome:
    session = engine.session()
    outcome = await session.run("Describe my picture. Ask me for it.")
    for question in outcome.questions:
        run = session.start_answer(question.call_id, ["This one:", DOT])
        run.say(["And compare it with this:", LOGO])  # at any time until the run has ended
        async with run:
            outcome = await run.wait()
    return outcome


def describe(request: Request) -> Any:
    """What a model would do: it asks, and then names what it was shown."""
    holders = [message for message in request.messages if isinstance(message, UserMessage | ToolResult)]
    shown = [image for message in holders for image in message.images]
    return "I see: " + " and ".join(map(str, shown)) if shown else call("ask_user", question="Which picture?")


async def main() -> None:
    name = os.environ.get("ENDSTOP_MODEL")
    provider: Provider = LiteLLM(name) if name else Scripted(describe)
    outcome = await show(Engine(provider, presets=[ask_user]))
    print(f"{outcome.status}: {outcome.answer}")


if __name__ == "__main__":
    asyncio.run(main())
