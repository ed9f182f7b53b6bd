"""A database that hangs: it refuses nothing and answers nothing."""

from __future__ import annotations

import asyncio
import json
import re
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from endstop import Engine
from endstop.durable.dbos import Dbos
from endstop.providers import Scripted
from endstop.service.service import Service

from ..console import PATIENCE, started
from ..postgres import PASSWORD, Server
from ..relay import Relay
from ..servers import STALL, ChatServer
from ..servers import call as called

LEAVING = 60.0
"""Seconds in which a process has left that needs about five: its database would hold it for ever."""


@pytest.fixture
def database(postgres: Server) -> str:
    return postgres.url(postgres.new_database())


@asynccontextmanager
async def ready(*options: object) -> AsyncIterator[tuple[Any, str]]:
    """A command that serves, and the URL that it says."""
    async with started(*options) as process:
        async with asyncio.timeout(PATIENCE):
            line = (await process.stdout.readline()).decode()
        found = re.search(r"http://\S+", line)
        assert found, line + (await process.stderr.read()).decode()
        yield process, found[0]


def lines(err: bytes) -> list[dict[str, Any]]:
    """The log, each line of which is an object."""
    return [json.loads(line) for line in err.decode().splitlines()]


async def test_a_worker_says_that_it_is_not_ready_leaves_at_sigterm_and_another_one_goes_on(
    database: str, tmp_path: Path
) -> None:
    secret = tmp_path / "store"
    async with (
        ChatServer([STALL, *called("finish_task", summary="Done.")], repeat=True) as model,
        Relay(database) as relay,
    ):
        secret.write_text(relay.url)
        options = ("--model", "m", "--api-base", model.url, "--lease", 2, "--grace", 0.2, "--log-format", "json")
        port = ("--health-port", 0, "--store-file", secret)
        queue = Service(Engine(Scripted()), store=database, queue=Dbos(database), works=False)
        async with ready("worker", *options, *port) as (process, url), httpx.AsyncClient(base_url=url) as client, queue:
            assert (await client.get("/health")).json() == {"status": "ok", "running": 0}
            assert (await client.get("/ready")).status_code == 200
            assert "\nendstop_store_reachable 1\n" in (await client.get("/metrics")).text
            foreign = await client.get("/ready", headers={"host": "evil.example"})
            assert foreign.status_code == 421
            session = await queue.start("Go", owner="alice")
            async with asyncio.timeout(PATIENCE):
                await model.stalled.wait()
            relay.hold()
            async with asyncio.timeout(PATIENCE):
                while (answer := await client.get("/ready")).status_code == 200:
                    pass
            assert answer.status_code == 503
            assert answer.headers["retry-after"] == "5"
            assert "store" in answer.json()["detail"]
            assert (await client.get("/health")).status_code == 200, "it lives"
            async with asyncio.timeout(PATIENCE):  # what the store answered before is shown for five seconds
                while "\nendstop_store_reachable 0\n" not in (await client.get("/metrics")).text:
                    await asyncio.sleep(0.1)
            process.send_signal(signal.SIGTERM)
            async with asyncio.timeout(LEAVING):
                _, err = await process.communicate()
            assert process.returncode == 0
            told = lines(err)
            assert any(
                log["event"] == "stopped without an answer: other processes continue what is left" for log in told
            )
            assert PASSWORD not in err.decode()
            model.go_on.set()
            async with started("worker", "--store", database, *options) as other:
                async with asyncio.timeout(PATIENCE):
                    while (outcome := await queue.outcome(session.run_id or "", wait=5)) is None:
                        pass
                assert outcome.status == "completed"
                other.send_signal(signal.SIGTERM)
                async with asyncio.timeout(PATIENCE):
                    _, err = await other.communicate()
            ends = [log for log in lines(err) if log["event"] == "run ended"]
            assert [(log["run_id"], log["owner"], log["status"]) for log in ends] == [
                (session.run_id, "alice", "completed")
            ], "one line, in the process that ended it"
            assert not [log for log in told if log["event"] == "run ended"]


async def test_a_server_answers_in_time_says_so_once_a_minute_and_leaves_at_sigterm(database: str) -> None:
    async with ChatServer([STALL]) as model, Relay(database) as relay:
        options = ("--model", "m", "--api-base", model.url, "--grace", 0.2, "--log-format", "json", "--lease", 2)
        limits = ("--port", 0, "--store", relay.url, "--answer-timeout", 0.2)
        async with ready("serve", *options, *limits) as (process, url), httpx.AsyncClient(base_url=url) as client:
            client.timeout = httpx.Timeout(LEAVING)
            assert (await client.get("/ready")).status_code == 200
            started_one = await client.post("/sessions", json={"prompt": "Go"})
            assert started_one.status_code == 201
            relay.hold()
            for method, path in (("GET", "/ready"), ("GET", "/sessions"), ("POST", "/sessions"), ("GET", "/ready")):
                answer = await client.request(method, path, json={"prompt": "Go"} if method == "POST" else None)
                assert answer.status_code == 503, path
                assert int(answer.headers["retry-after"]) >= 1
                assert "store" in answer.json()["detail"]
            assert (await client.get("/health")).status_code == 200
            process.send_signal(signal.SIGTERM)
            async with asyncio.timeout(LEAVING):
                _, err = await process.communicate()
        assert process.returncode == 0
        events = [log["event"] for log in lines(err)]
        assert events.count("the store is unreachable") <= 1
        assert "stopped without an answer: other processes continue what is left" in events
