"""A process that runs one session until that ends: `python holding.py STORE`; prints the ids of what it holds."""

from __future__ import annotations

import asyncio
import sys

from endstop import Engine, tool
from endstop.providers import Scripted, call
from endstop.service import Service


@tool
async def wait() -> str:
    """Wait for longer than any test does."""
    print("WAITING", flush=True)
    await asyncio.sleep(3600)
    return ""


async def main(place: str) -> None:
    """Print the session, and how its run ends."""
    model = Scripted([call("wait")])
    async with Service(Engine(model, tools=[wait]), store=place, grace=0) as service:
        session = await service.start("Wait")
        print("SESSION", session.id, flush=True)
        outcome = await service.outcome(session.run_id or "", wait=600)
        print("ENDED", outcome and outcome.status, outcome and outcome.detail, flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
