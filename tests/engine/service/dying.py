"""A process that runs a service until it is killed: `python dying.py STORE API_BASE`; prints what it has begun."""

from __future__ import annotations

import asyncio
import sys

from endstop import Engine, tool
from endstop.providers import OpenAICompatible
from endstop.service import Service


@tool
async def write(text: str) -> str:
    """Write something down."""
    print("WRITTEN", text, flush=True)
    return "written"


async def main(place: str, api_base: str) -> None:
    """One session that completes, one that is in the middle of a response when the process dies."""
    engine = Engine(OpenAICompatible("m", api_base, api_key="none"), tools=[write])
    async with Service(engine, store=place) as service:
        done = await service.start("one")
        await service.outcome(done.run_id or "", wait=30)
        print("DONE", done.id, flush=True)
        cut = await service.start("two")
        print("BEGUN", cut.id, flush=True)
        async for portion in service.follow_run(await service.run(cut.run_id or "")):
            for frame in portion:
                print("SEEN", getattr(frame, "seq", 0), flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
