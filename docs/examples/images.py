"""A prompt of texts and images: one in a file, one on the web.

    python docs/examples/images.py              a scripted model
    ENDSTOP_MODEL=anthropic/claude-sonnet-4-5 python docs/examples/images.py

Lines that are not blank: `compare` has 3, with 2 imports. Pydantic AI's image_input.py, one image by its URL
(docs/input.md at commit 4fda389), has 9 with its import and without what it prints.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from base64 import b64decode
from pathlib import Path

from endstop import Engine, Image
from endstop.decision import UserMessage
from endstop.providers import LiteLLM, Provider, Request, Scripted

DOT = b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
"""A PNG of one pixel."""
LOGO = "https://www.python.org/static/community_logos/python-logo.png"


async def compare(engine: Engine, file: Path, url: str) -> str:
    prompt = ["What do these two have in common?", file, Image(url=url)]
    return (await engine.run(prompt)).answer


def look(request: Request) -> str:
    """What a model would say: it names what it was shown."""
    message = request.messages[-1]
    assert isinstance(message, UserMessage)
    return "Both are pictures: " + " and ".join(map(str, message.images))


async def main() -> None:
    name = os.environ.get("ENDSTOP_MODEL")
    provider: Provider = LiteLLM(name) if name else Scripted(look)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "dot.png"
        file.write_bytes(DOT)
        print(await compare(Engine(provider), file, LOGO))


if __name__ == "__main__":
    asyncio.run(main())
