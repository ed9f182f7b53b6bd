"""Two processes with one store: what is asked of one reaches the session that the other runs, whichever the store."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from endstop import Engine, tool
from endstop.providers import Scripted, call
from endstop.service import Service
from endstop.service.errors import Conflict

from ..held import to_end

HOLDING = Path(__file__).with_name("holding.py")
SECONDS = 60.0


@asynccontextmanager
async def another_process(place: str) -> AsyncIterator[asyncio.StreamReader]:
    """What a process prints that runs a session on this store."""
    process = await asyncio.create_subprocess_exec(sys.executable, str(HOLDING), place, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    try:
        async with asyncio.timeout(SECONDS):
            yield process.stdout
            await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def said(lines: asyncio.StreamReader, *words: str) -> dict[str, str]:
    """What comes after these words in the lines that begin with them, in whichever order they come."""
    found: dict[str, str] = {}
    while len(found) < len(words):
        line = (await lines.readline()).decode()
        assert line, f"it ended with {found}"
        word, _, rest = line.strip().partition(" ")
        found[word] = rest
    return found


async def test_a_cancel_and_a_reader_reach_the_run_of_another_process(place: str) -> None:
    async with another_process(place) as lines, Service(Engine(Scripted()), store=place) as service:
        id = (await said(lines, "SESSION", "WAITING"))["SESSION"]
        with pytest.raises(Conflict, match="is running") as busy:
            await service.start_run(id, "more")
        assert busy.value.code == "busy"
        run = await service.run((await service.session(id)).run_id or "")
        reading = asyncio.create_task(to_end(service.follow_run(run)))
        await service.cancel(id, "enough")
        await service.cancel(id, "really")
        assert await said(lines, "ENDED") == {"ENDED": "cancelled cancelled from outside: enough"}
        assert (await service.cancel(id)).status == "cancelled"
        assert (await reading)[-1][-1].last


async def test_an_approval_is_given_in_a_process_that_did_not_ask_for_it(place: str) -> None:
    @tool(approval=True)
    def pay() -> str:
        """Pay."""
        return "paid"

    def engine(*responses: object) -> Engine:
        return Engine(Scripted(list(responses)), tools=[pay])  # type: ignore[arg-type]

    async with (
        Service(engine(call("pay", id="c1")), store=place) as asking,
        Service(engine("Paid."), store=place) as approving,
    ):
        asked = await asking.start("Pay")
        await asking.outcome(asked.run_id or "", wait=30)
        approved = await approving.approve(asked.id, "c1")
        outcome = await approving.outcome(approved.run_id or "", wait=30)
        assert outcome is not None
        assert outcome.answer == "Paid."
        with pytest.raises(Conflict, match="has been answered already"):
            await asking.approve(asked.id, "c1")
