"""The scripted agent's tools, for `--tools`: each call notes in a side log that it began and that it ended.

The side log is the file that ENDSTOP_SIDE_LOG names, beside which gates are opened. It is outside of the engine: what
stands there happened, whatever any record says.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from pathlib import Path

from endstop import Image, this_call, tool

SIDE_LOG = Path(os.environ["ENDSTOP_SIDE_LOG"])
_log = os.open(SIDE_LOG, os.O_WRONLY | os.O_APPEND | os.O_CREAT)


@tool(reads=True)
async def look(who: str, step: int, seconds: float, held: bool = False, gives: str = "text") -> str | Image:
    """Look at something."""
    return await _done("look", who, step, seconds, held, gives)


@tool
async def note(who: str, step: int, seconds: float, held: bool = False, gives: str = "text") -> str | Image:
    """Write something down."""
    return await _done("note", who, step, seconds, held, gives)


async def _done(name: str, who: str, step: int, seconds: float, held: bool, gives: str) -> str | Image:
    _note("began", name, who, step)
    await asyncio.sleep(seconds)
    while held and not (SIDE_LOG.parent / f"go-{who}").exists():
        await asyncio.sleep(0.005)
    _note("ended", name, who, step)
    if gives == "much":
        return Image(b"x" * 3_000_000)
    return "\ud800 and \0 and no end" if gives == "bad" else f"{name} {step} of {who}"


def _note(what: str, name: str, who: str, step: int) -> None:
    call = this_call()
    line = {"t": time.monotonic_ns(), "what": what, "tool": name, "who": who, "step": step, "key": call.key}
    line |= {"pid": os.getpid(), "again": call.again}
    os.write(_log, json.dumps(line).encode() + b"\n")
