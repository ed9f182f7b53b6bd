"""What DBOS says, to whom, and what it does while its database is away."""

from __future__ import annotations

import asyncio
import io
import logging
import subprocess
import sys
from pathlib import Path

import pytest
from dbos import DBOS
from endstop.durable import Job, Steps

from ...captured_logs import capture_logs
from ...postgres import PASSWORD, Server
from .dbos_runs import done, giving, key, opened

SILENT = """
import asyncio, sys
seen = []
def hook(event, args):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto"):
        seen.append((event, args[1:] if event == "socket.connect" else args))
sys.addaudithook(hook)
from endstop.durable import Job, StepKey
from endstop.durable.dbos import Dbos

async def main():
    ended = asyncio.Event()
    async def work(job, steps):
        async def one():
            return 1
        await steps.step(StepKey("session", job.run_id, 1), one)
        ended.set()
    queue = Dbos(sys.argv[1])
    await queue.open()
    await queue.submit(Job(run_id="run", session_id="session", agent="agent", opening="prompt"))
    async with queue.working("process", work, at_once=1):
        await asyncio.wait_for(ended.wait(), 60)
    await queue.close()

asyncio.run(main())
assert not seen, seen
"""


def test_it_prints_nothing_and_asks_nobody_in_the_network(path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", SILENT, str(path)], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


async def test_the_password_stands_in_nothing_that_dbos_says(
    postgres: Server, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = io.StringIO()
    logger = logging.getLogger("dbos")
    everything = logging.StreamHandler(said)
    logger.addHandler(everything)
    logger.setLevel(logging.DEBUG)
    monkeypatch.setattr(logger, "setLevel", lambda level: None)
    try:
        url = postgres.url(database)
        DBOS.reset_system_database(system_database_url=url, truncate=True)

        async def work(job: Job, steps: Steps) -> None:
            """Nothing."""

        async with opened(url) as queue:
            assert PASSWORD not in repr(queue)
            await done(queue, work, "run")
    finally:
        logger.removeHandler(everything)
    assert "Initializing DBOS system database" in said.getvalue()
    assert PASSWORD not in said.getvalue()
    assert PASSWORD.replace("/", "%2F") not in said.getvalue()


async def test_a_step_waits_while_the_database_is_away_and_submit_says_so(mortal: Server) -> None:
    url = mortal.url(mortal.new_database())
    worked: list[int] = []

    async def work(job: Job, steps: Steps) -> None:
        async def crash() -> str:
            worked.append(1)
            mortal.kill()
            with pytest.raises(ConnectionError) as raised:
                await queue.submit(Job(run_id="next", session_id="s", agent="a", opening="prompt"))
            assert PASSWORD not in str(raised.value)
            asyncio.get_running_loop().call_later(0.2, mortal.start)
            return "kept"

        assert await steps.step(key(1), crash) == "kept"
        assert await steps.step(key(2), lambda: giving(2)) == 2

    with capture_logs() as logs:
        async with opened(url) as queue:
            await done(queue, work, "run")
    assert worked == [1]
    said = [log.get("said") or log["error"] for log in logs if "from" not in log]
    assert any(log["event"] == "steps wait for the database" for log in logs)
    assert [log["from"] for log in logs if "from" in log] == ["steps wait for the database"], "it is back"
    assert len({one[:30] for one in said}) == len(said), "the same is said once in a minute"
    assert max(map(len, said)) <= 300
