"""A server for the tests of the page: the real app in a thread of its own, with a model that plays scripts.

Runs are held by a `Gate` in their script, so that nothing is left to time.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import httpx
import msgspec
import uvicorn
from endstop import Engine, tool
from endstop.decision import AssistantMessage, Event, Limits, Policy, UserMessage
from endstop.providers import Request, Scripted
from endstop.records.format import encode_line
from endstop.records.reader import read_record
from endstop.service.service import Service
from endstop.store.base import EventBatch, NewSession
from endstop.tools import ask_user, task_done, think
from endstop.web import web
from endstop.web.auth import BearerTokens
from starlette.applications import Starlette
from starlette.routing import Mount

from ..temporary_store import TemporaryStore

RECORDS = Path(__file__).parents[2] / "records"
AT = "2026-11-21T10:00:00.000+00:00"
T = TypeVar("T")
_event = msgspec.json.Decoder(Event).decode

PATIENCE = 60.0
"""Seconds after which a wait has failed."""


class Gate:
    """A place in a script where the model waits until the test opens it."""

    def __init__(self) -> None:
        self._opened: Future[None] = Future()
        self._reached = threading.Event()

    async def wait(self) -> None:
        """What `Scripted` waits for."""
        self._reached.set()
        await asyncio.wrap_future(self._opened)

    def reached(self) -> None:
        """Wait until the script has come here."""
        assert self._reached.wait(PATIENCE), "the script never came to this gate"

    def open(self) -> None:
        """Let the model go on."""
        if not self._opened.done():
            self._opened.set_result(None)


@tool(reads=True)
async def read_file(path: str) -> str:
    """Read a text file."""
    if "missing" in path:
        raise FileNotFoundError(f"there is no {path}")
    return "\n".join(f"line {number} of {path}" for number in range(1, 5 if "short" in path else 41))


@tool
async def write_file(path: str, content: str) -> str:
    """Write a text file."""
    return f"wrote {len(content)} characters to {path}"


@tool(approval=True)
async def delete_file(path: str) -> str:
    """Delete a file."""
    return f"{path} is gone"


@tool(approval=True)
async def move_file(path: str, size: int) -> str:
    """Move a file."""
    return f"{path} moved, {size} bytes"


class Site:
    """The server, as the tests see it."""

    def __init__(self, agents: Sequence[str] = ("worker",), policy: Policy | None = None) -> None:
        self.scripts: dict[str, list[Any]] = {}
        """What the model answers to a prompt, response by response."""
        self.requests: list[Request] = []
        self.store = TemporaryStore()
        self.url = ""
        self.halfway = Gate()
        """Where a call of `index` waits."""

        @tool(reads=True)
        async def index(folder: str) -> AsyncIterator[str]:
            """Index a folder."""
            yield f"half of {folder}"
            await self.halfway.wait()
            yield f"indexed {folder}"

        provider = Scripted(self._response, model="scripted-1")
        limits = Limits(steps=12, soft_steps=8, output_tokens=2_000, seconds=600)
        policy = Policy(limits=limits) if policy is None else policy
        tools = [read_file, write_file, delete_file, move_file, index, think, ask_user]
        self.engines = {name: Engine(provider, tools=tools, presets=(task_done,), policy=policy) for name in agents}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._server: uvicorn.Server | None = None

    def _response(self, request: Request) -> Any:
        self.requests.append(request)
        said = 0
        for message in reversed(request.messages):
            if isinstance(message, AssistantMessage):
                said += 1
            elif isinstance(message, UserMessage) and message.text in self.scripts:
                return self.scripts[message.text][said]
        return "There is no script for this."

    @contextmanager
    def running(self, token: str = "", prefix: str = "") -> Iterator[Site]:
        """Serve until the block is left."""
        service = Service(self.engines, store=self.store, grace=0)
        app = web(service, auth=BearerTokens({"me": token}) if token else None)
        if prefix:
            app = Starlette(routes=[Mount(prefix, app)], lifespan=service.lifespan)
        config = uvicorn.Config(app, host="127.0.0.1", port=0, log_config=None, timeout_graceful_shutdown=1)
        self._server = server = uvicorn.Server(config)
        started = threading.Event()

        async def main() -> None:
            self._loop = asyncio.get_running_loop()
            serving = asyncio.create_task(server.serve())
            while not server.started and not serving.done():
                await asyncio.sleep(0)
            started.set()
            await serving

        thread = threading.Thread(target=lambda: asyncio.run(main()), name="site", daemon=True)
        thread.start()
        try:
            assert started.wait(PATIENCE), "the server did not start"
            self.url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}{prefix}/"
            yield self
        finally:
            server.should_exit = True
            self.do(self._stop(service))
            thread.join(PATIENCE)
            assert not thread.is_alive(), "the server did not end"

    async def _stop(self, service: Service) -> None:
        service.begin_stopping()

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Run this in the server's loop."""
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE)

    def drop(self) -> None:
        """Break all connections off."""
        self.do(self._drop())

    async def _drop(self) -> None:
        assert self._server is not None
        for connection in list(self._server.server_state.connections):
            connection.transport.abort()

    def get(self, path: str) -> Any:
        """The JSON of a route."""
        return httpx.get(self.url + path, timeout=PATIENCE).json()

    def keep_record(self, name: str) -> str:
        """Put one of the records into the store as a session; its id."""
        record = read_record(RECORDS / f"{name}.jsonl")
        runs = [[json.loads(encode_line(event)) for event in run.events] for run in record.runs]
        return self.keep(runs, record.runs[0].started.prompt or name, record.header.session_id)

    def keep(
        self,
        runs: Iterable[Sequence[Mapping[str, Any]]],
        title: str,
        session_id: str,
        owner: str = "",
        created_at: str = AT,
    ) -> str:
        """Put these events into the store as a session; its id. The list begins with the latest `created_at`."""
        session = NewSession(id=session_id, owner=owner, agent="worker", title=title, created_at=created_at)
        self.do(self._keep(runs, session))
        return session_id

    async def _keep(self, runs: Iterable[Sequence[Mapping[str, Any]]], session: NewSession) -> None:
        await self.store.add(session)
        for run in runs:
            lines = [json.dumps(event, ensure_ascii=False, separators=(",", ":")).encode() + b"\n" for event in run]
            for begin in range(0, len(lines), 500):
                await self.store.commit(_batch(session.id, run, lines, begin, begin + 500))


def _batch(
    session_id: str, run: Sequence[Mapping[str, Any]], lines: Sequence[bytes], begin: int, end: int
) -> EventBatch:
    whole = end >= len(lines) and run[-1]["type"] == "RUN_FINISHED"
    outcome = _event(lines[-1]).outcome if whole else None
    return EventBatch(
        session_id=session_id,
        run_id=run[0]["run_id"],
        first_seq=begin + 1,
        last_seq=min(end, len(lines)),
        lines=b"".join(lines[begin:end]),
        at=AT,
        started=_event(lines[0]) if begin == 0 else None,
        finished=outcome,
        questions=outcome.questions if outcome is not None else (),
    )


def until(page: Any, condition: str) -> None:
    """Wait until this expression of JavaScript is true in the page. Raises an error of Playwright after 60 seconds.

    It is tried each 20 ms: `requestAnimationFrame` would make the browser draw each frame. It is part of the function,
    since the page's policy forbids `eval`.
    """
    page.evaluate(
        """() => new Promise((done, fail) => {
            const since = performance.now();
            (function look() {
                if (CONDITION) done();
                else if (performance.now() - since > 60000) fail(new Error(`never came true: ${`CONDITION`}`));
                else setTimeout(look, 20);
            })();
        })""".replace("`CONDITION`", json.dumps(condition)).replace("CONDITION", condition)
    )


def of_size(page: Any, width: int, height: int = 844) -> Any:
    """Set the size of the page's window, in CSS pixels, and return the page."""
    page.set_viewport_size({"width": width, "height": height})
    return page


def go_home(page: Any, site: Site) -> None:
    """From a session to the front, in the same document: an address without `#` would load it anew."""
    page.goto(f"{site.url}#")
    page.wait_for_selector("#timeline:empty", state="attached")
