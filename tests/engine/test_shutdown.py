"""How a command's event loop ends: `engine/process/shutdown.py`."""

from __future__ import annotations

import asyncio

import pytest
from endstop.process.shutdown import run_to_end


def test_all_tasks_end_although_ctrl_c_is_handed_on_from_one_to_the_next() -> None:
    left = []

    async def hit() -> None:
        await asyncio.sleep(0)
        raise KeyboardInterrupt

    async def waits_for(task: asyncio.Task[None]) -> None:
        await task

    async def command() -> int:
        waiting = asyncio.ensure_future(waits_for(asyncio.ensure_future(hit())))
        try:
            await asyncio.shield(waiting)
        finally:
            await asyncio.sleep(0)
            left.append("the terminal")
        return 0

    with pytest.raises(KeyboardInterrupt):
        run_to_end(command())
    assert left == ["the terminal"]
