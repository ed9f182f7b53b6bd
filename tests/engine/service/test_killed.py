"""A process that is killed loses nothing that it acted on, whichever the store."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

from endstop import Engine, tool
from endstop.providers import Scripted, call
from endstop.service import Service
from endstop.testing import check_transcript

from ...servers import STALL, ChatServer
from ...servers import call as called
from ..held import seqs, to_end

DYING = Path(__file__).with_name("dying.py")


@tool
async def write(text: str) -> str:
    """Write something down."""
    raise AssertionError("it was written before, and must not be again")


async def test_after_sigkill_the_finished_session_is_whole_and_the_other_goes_on(place: str) -> None:
    responses = [["Hello."], [called("write", text="x")], ["I will", STALL, " go on"]]
    async with ChatServer(*responses) as server:
        process = await asyncio.create_subprocess_exec(
            sys.executable, str(DYING), place, server.url, stdout=asyncio.subprocess.PIPE
        )
        assert process.stdout is not None
        ids: dict[str, str] = {}
        written = 0
        try:
            async with asyncio.timeout(60):
                while not (written and "BEGUN" in ids):
                    line = (await process.stdout.readline()).decode()
                    assert line, f"it ended by itself with {await process.wait()}"
                    kind, _, rest = line.strip().partition(" ")
                    ids.setdefault(kind, rest)
                    written += kind == "WRITTEN"
                await server.stalled.wait()
        finally:
            process.send_signal(signal.SIGKILL)
            await process.wait()
    assert written == 1
    model = Scripted([call("finish_task", summary="Done.")])
    async with Service(Engine(model, tools=[write]), store=place, grace=0) as service:
        done, cut = await service.session(ids["DONE"]), await service.session(ids["BEGUN"])
        assert (done.status, cut.status) == ("completed", "interrupted")
        await service.resume(cut.id)
        outcome = await service.outcome(cut.run_id or "", wait=30)
        assert outcome is not None
        assert (outcome.status, outcome.answer) == ("completed", "Done.")
        run = await service.run(cut.run_id or "")
        assert seqs(await to_end(service.follow_run(run))) == list(range(1, run.last_seq + 1))
    check_transcript(model.requests[0].messages)
    assert [type(message).__name__ for message in model.requests[0].messages][-1] == "ToolResult"
