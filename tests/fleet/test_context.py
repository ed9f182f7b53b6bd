"""What belongs to a run is made in the worker that executes it, anew after a kill, and its output is typed JSON."""

from __future__ import annotations

import asyncio
from pathlib import Path

from ..servers import STALL, ChatServer, call
from .fleet import Fleet

TOOLS = """
import os
from collections.abc import AsyncGenerator
from dataclasses import dataclass

from endstop import RunContext, tool


@dataclass
class Seen:
    "What was seen."

    plan: str
    pids: list[int]


@dataclass
class Deps:
    pid: int


async def deps(ctx: RunContext[None]) -> AsyncGenerator[Deps, None]:
    yield Deps(os.getpid())


@tool(reads=True)
async def where(ctx: RunContext[Deps]) -> str:
    "Say where this runs, and on which plan."
    return f"{ctx.deps.pid} {ctx.metadata['plan']}"
"""


async def test_deps_and_metadata_are_there_in_each_worker_and_the_output_is_json(ships: Fleet, tmp_path: Path) -> None:
    ships.tools = tmp_path / "typed.py"
    ships.tools.write_text(TOOLS)
    named = ("--deps", f"{ships.tools}:deps", "--output-type", f"{ships.tools}:Seen")
    one, two = [call("where", id="w1")], [call("where", id="w2")]
    async with ChatServer(one, [STALL], two, [call("final_result", plan="free", pids=[1, 2])]) as model:
        options = (*named, "--api-base", model.url)
        _, first = await asyncio.gather(ships.serve(*options), ships.worker(*options))
        started = await ships.ask("POST", "/sessions", {"prompt": "Go", "metadata": {"plan": "free"}}, status=201)
        await model.stalled.wait()  # the second response does not come
        await first.kill()
        second = await ships.worker(*options)
        await ships.reached(started["id"], "completed")
        outcome = await ships.ask("GET", f"/runs/{started['run_id']}/outcome")
    told = [m["content"] for m in model.requests[-1]["messages"] if m["role"] == "tool"]
    assert told == [f"{first.pid} free", f"{second.pid} free"]
    assert outcome["output"] == {"plan": "free", "pids": [1, 2]}
