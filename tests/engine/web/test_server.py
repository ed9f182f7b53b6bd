"""`endstop serve`, in a process of its own: what it prints, how it stops, and where it refuses to begin."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import socket
import sqlite3
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from endstop.cli.main import main
from endstop.cli.serve import default_store

from ...console import PATIENCE, environment, started
from ...servers import STALL, ChatServer
from ...servers import call as called
from .site import Events, client_at

KEY = "sk-planted-provider-key-0123456789"
TOKEN = "planted-token-0123456789"
FINISH = [called("finish_task", summary="The port is set.")]


@dataclass
class Up:
    """A server that has said where it is."""

    process: asyncio.subprocess.Process
    url: str
    client: httpx.AsyncClient
    line: str

    async def end(self) -> tuple[int, str, str]:
        """Its exit code, and what it wrote."""
        async with asyncio.timeout(PATIENCE):
            out, err = await self.process.communicate()
        assert self.process.returncode is not None
        return self.process.returncode, self.line + out.decode(), err.decode()

    @asynccontextmanager
    async def stream(self, path: str, **given: Any) -> AsyncIterator[Events]:
        """Follow a stream."""
        async with self.client.stream("GET", path, **given) as response:
            assert response.status_code == 200
            yield Events(response)


@asynccontextmanager
async def serving(folder: Path, *options: object, env: dict[str, str] | None = None) -> AsyncIterator[Up]:
    """`endstop serve` on a free port, once it is ready."""
    given = {"OPENAI_API_KEY": KEY, "XDG_STATE_HOME": str(folder), **(env or {})}
    async with started("serve", "--port", 0, *options, env=given, cwd=folder) as process:
        assert process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            line = (await process.stdout.readline()).decode()
        found = re.search(r"http://\S+", line)
        assert found, line + ("" if process.stderr is None else (await process.stderr.read()).decode())
        async with client_at(found[0]) as client:
            yield Up(process, found[0], client, line)


async def test_a_session_is_served_with_a_model_and_is_there_after_a_restart(tmp_path: Path) -> None:
    async with ChatServer(FINISH) as model, serving(tmp_path, "--model", "m", "--api-base", model.url) as up:
        session = (await up.client.post("/sessions", json={"prompt": "Set the port"})).json()
        path = f"/runs/{session['run_id']}/outcome"
        outcome = (await up.client.get(path, params={"wait": 60})).json()
        assert outcome["answer"] == "The port is set."
        up.process.send_signal(signal.SIGTERM)
        code, out, _ = await up.end()
        assert code == 0
        assert out.count("\n") == 1
        assert str(tmp_path / "endstop" / "sessions.db") in out
    async with serving(tmp_path) as up:
        found = (await up.client.get(f"/sessions/{session['id']}")).json()
        assert (found["status"], found["runs"][0]["outcome"]) == ("completed", outcome)
        refused = await up.client.post("/sessions", json={"prompt": "More"})
        assert (refused.status_code, refused.json()["code"]) == (503, "no_model")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
async def test_a_signal_in_mid_stream_ends_sessions_whole_and_readers_with_them(
    tmp_path: Path, number: int, code: int
) -> None:
    async with ChatServer(["Half of it", STALL, *FINISH]) as model:
        options = ("--model", "m", "--api-base", model.url, "--grace", "0.2", "--store", "kept.db")
        async with serving(tmp_path, *options) as up:
            session = (await up.client.post("/sessions", json={"prompt": "Set the port"})).json()
            run, all_runs = f"/runs/{session['run_id']}/events", f"/sessions/{session['id']}/events"
            async with up.stream(run) as events, up.stream(all_runs) as others:
                before = await events.until("TEXT_MESSAGE_CONTENT")
                up.process.send_signal(number)
                told = before + await events.all()
                assert [event.data["seq"] for event in told] == list(range(1, len(told) + 1))
                assert told[-1].data["type"] == "RUN_FINISHED"
                assert told[-1].data["outcome"]["detail"] == "cancelled from outside: shutdown"
                assert [event.data for event in await others.all()] == [event.data for event in told]
            assert (await up.end())[0] == code
        async with serving(tmp_path, "--store", "kept.db") as up:
            assert (await up.client.get(f"/sessions/{session['id']}")).json()["status"] == "cancelled"
            record = (await up.client.get(f"/sessions/{session['id']}/record")).text
            assert record.count("\n") == len(told) + 1


async def test_a_session_that_ends_within_the_grace_ends_as_it_would_have(tmp_path: Path) -> None:
    model = ChatServer([STALL, *FINISH])
    async with model, serving(tmp_path, "--model", "m", "--api-base", model.url, "--grace", "60") as up:
        session = (await up.client.post("/sessions", json={"prompt": "Set the port"})).json()
        async with up.stream(f"/runs/{session['run_id']}/events") as events:
            await events.until("ATTEMPT_STARTED")
            up.process.send_signal(signal.SIGTERM)
            while (await up.client.get("/health")).json()["status"] != "stopping":
                pass
            refused = await up.client.post("/sessions", json={"prompt": "More"})
            assert (refused.status_code, refused.json()["code"]) == (503, "stopping")
            model.go_on.set()
            assert (await events.all())[-1].data["outcome"]["status"] == "completed"
        assert (await up.end())[0] == 0


async def test_a_second_ctrl_c_leaves_at_once_and_the_session_can_be_resumed(tmp_path: Path) -> None:
    async with ChatServer([STALL, *FINISH], FINISH) as model:
        options = ("--model", "m", "--api-base", model.url, "--store", "kept.db")
        async with serving(tmp_path, *options, "--grace", "600") as up:
            session = (await up.client.post("/sessions", json={"prompt": "Set the port"})).json()
            await model.stalled.wait()
            up.process.send_signal(signal.SIGINT)
            while (await up.client.get("/health")).json()["status"] != "stopping":
                pass
            up.process.send_signal(signal.SIGINT)
            assert (await up.end())[0] == 130
        async with serving(tmp_path, *options) as up:
            assert (await up.client.get(f"/sessions/{session['id']}")).json()["status"] == "interrupted"
            resumed = await up.client.post(f"/sessions/{session['id']}/resume")
            assert resumed.status_code == 201
            outcome = await up.client.get(f"/runs/{session['run_id']}/outcome", params={"wait": 60})
            assert outcome.json()["status"] == "completed"


async def test_no_key_and_no_token_is_in_anything_that_the_server_says_or_keeps(tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text(f"alice:{TOKEN}\n", encoding="utf-8")
    async with ChatServer(FINISH) as model:
        options = ("--model", "m", "--api-base", model.url, "--tokens", "tokens", "--store", "kept.db")
        async with serving(tmp_path, *options) as up:
            good = {"authorization": f"Bearer {TOKEN}"}
            said = []
            session = (await up.client.post("/sessions", json={"prompt": "Hi"}, headers=good)).json()
            await up.client.get(f"/runs/{session['run_id']}/outcome", params={"wait": 60}, headers=good)
            for headers in (good, {"authorization": f"Bearer {TOKEN}x"}, {}):
                for path in ("/", "/openapi.json", "/health", "/agents", "/sessions", f"/sessions/{session['id']}",
                             f"/sessions/{session['id']}/record", f"/runs/{session['run_id']}/events", f"/{TOKEN[:5]}",
                             f"/sessions?limit=x&token={TOKEN}", f"/health?token={TOKEN}"):  # fmt: skip
                    response = await up.client.get(path, headers=headers)
                    said.append(response.text + str(response.headers))
            assert model.headers[0]["Authorization"] == f"Bearer {KEY}"
            up.process.send_signal(signal.SIGTERM)
            code, out, err = await up.end()
    assert code == 0
    kept = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file() and path.name != "tokens")
    everything = "".join(said) + out + err + kept.decode("utf-8", "replace")
    assert KEY not in everything
    assert TOKEN not in everything
    assert "owner=alice" in err
    assert f"path=/sessions/{session['id']} status=401" in err


# ---- where it refuses to begin: in this process, before anything is opened


def refused(capsys: pytest.CaptureFixture[str], *options: object) -> str:
    """What `endstop serve` says before it ends with exit code 2."""
    assert main(["serve", *map(str, options)]) == 2
    told = capsys.readouterr().err
    assert told.startswith("endstop: ")
    return told


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_it_does_not_listen_to_other_machines_without_a_token(
    host: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ENDSTOP_TOKEN", raising=False)
    assert "--tokens" in refused(capsys, "--host", host, "--port", 0)


WRONG: dict[str, tuple[list[str], str]] = {
    "host": (["--host", "no-such-host.invalid"], "no such host"),
    "another machine's address": (["--host", "127.0.0.1.5"], "--host"),
    "port": (["--port", "70000"], "--port"),
    "negative port": (["--port", "-1"], "--port"),
    "store": (["--store", "/proc/nothing/here.db"], "--store"),
    "a folder as store": (["--store", "/"], "--store"),
    "empty store": (["--store", " "], "--store"),
    "unknown store": (["--store", "mysql://x/y"], "mysql"),
    "tokens": (["--tokens", "/nothing/here"], "cannot be read"),
    "grace": (["--grace", "-1"], "grace"),
    "running": (["--max-running", "-1"], "max_running"),
    "running of each": (["--max-running-each", "0"], "--max-running-each is 0"),
    "days": (["--keep-days", "-1"], "keep_days"),
    "an archive that gets nothing": (["--archive", "old"], "--keep-days or --keep-sessions"),
    "unknown archive": (["--archive", "gs://x/y", "--keep-days", "1"], "s3://BUCKET/PREFIX"),
    "an archive that cannot be written": (["--archive", "/proc/nothing", "--keep-days", "1"], "/proc/nothing"),
    "rate": (["--rate", "-1"], "--rate"),
    "cors": (["--cors", "*"], "token"),
    "no origin": (["--cors", "app.example"], "https://app.example"),
    "an origin with a path": (["--cors", "https://app.example/"], "without a path"),
    "endpoint without a model": (["--api-base", "http://127.0.0.1:1/v1"], "--model"),
    "policy": (["--model", "m", "--api-base", "http://127.0.0.1:1/v1", "--policy", "none"], "--policy"),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_use_is_told_and_nothing_is_opened(
    what: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    options, told = WRONG[what]
    given = options if "--port" in options else [*options, "--port", "0"]
    assert told in refused(capsys, *given)


def test_a_port_in_use_is_told(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        assert f"--port {port} is in use" in refused(capsys, "--port", port, "--store", tmp_path / "x.db")


async def test_a_second_server_on_a_store_is_refused_and_takes_no_session_from_the_first(tmp_path: Path) -> None:
    store = tmp_path / "new" / "kept.db"
    async with ChatServer([STALL, *FINISH]) as model:
        options = ("--model", "m", "--api-base", model.url, "--grace", "0")
        async with serving(tmp_path, *options, "--store", store) as up:
            session = (await up.client.post("/sessions", json={"prompt": "Set the port"})).json()
            await model.stalled.wait()
            for place in (store, f"sqlite:///{store}"):
                async with started("serve", "--port", 0, "--store", place, env={}, cwd=tmp_path) as other:
                    async with asyncio.timeout(PATIENCE):
                        _, err = await other.communicate()
                    assert other.returncode == 2
                    assert b"in use by another endstop serve" in err
            assert (await up.client.get(f"/sessions/{session['id']}")).json()["status"] == "running"


def test_a_store_that_is_none_is_told(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    path.write_text("This is no database. " * 100, encoding="utf-8")
    assert "is not a SQLite database" in refused(capsys, "--port", 0, "--store", path)
    assert path.read_text(encoding="utf-8").startswith("This is no database.")


# ---- embedded: the server is uvicorn's own, and nobody told it of the sessions

APP = """
import asyncio, sys
import uvicorn
from endstop import Engine
from endstop.web import web
from endstop.service import Service
from endstop.providers import Scripted, say
from fastapi import FastAPI

class Never:
    async def wait(self):
        await asyncio.Event().wait()

service = Service(Engine(Scripted([say("Half of it"), Never()])), store="kept.db", grace=0.2)
app = FastAPI(lifespan=service.lifespan)
app.mount("/agent", web(service))

class Server(uvicorn.Server):
    async def startup(self, sockets=None):
        await super().startup(sockets)
        print(self.servers[0].sockets[0].getsockname()[1], flush=True)

Server(uvicorn.Config(app, port=0, log_level="warning")).run()
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_an_app_with_the_service_inside_stops_at_once_though_streams_are_open(
    tmp_path: Path, number: signal.Signals
) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", APP, cwd=tmp_path, env=environment(), stdout=-1, stderr=-1
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            line = await process.stdout.readline()
        if not line.strip():
            raise AssertionError((await process.communicate())[1].decode())
        base = f"http://127.0.0.1:{int(line)}/agent"
        async with client_at(base) as client:
            session = (await client.post("/sessions", json={"prompt": "Set the port"})).json()
            path = f"/sessions/{session['id']}/events"
            async with client.stream("GET", path) as response, asyncio.timeout(PATIENCE):
                events = Events(response)
                await events.until("TEXT_MESSAGE_CONTENT")
                process.send_signal(number)
                (*_, last) = await events.all()
                assert last.data["outcome"]["detail"] == "cancelled from outside: shutdown"
        async with asyncio.timeout(PATIENCE):
            _, err = await process.communicate()
        assert process.returncode in (0, -number, 128 + number), err.decode()
        assert b"Traceback" not in err.replace(b"KeyboardInterrupt", b"") or number == signal.SIGINT
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()
    with contextlib.closing(sqlite3.connect(tmp_path / "kept.db")) as kept:
        assert kept.execute("select status from endstop_sessions").fetchall() == [("cancelled",)]


def test_the_state_folder_is_the_users_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert default_store() == str(tmp_path / "endstop" / "sessions.db")
    assert os.stat(tmp_path / "endstop").st_mode & 0o077 == 0
    monkeypatch.setenv("XDG_STATE_HOME", "not/absolute")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert default_store() == str(tmp_path / "home" / ".local" / "state" / "endstop" / "sessions.db")
