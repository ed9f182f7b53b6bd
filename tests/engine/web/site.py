"""A real server on loopback around a service, in the test's own event loop, and what asks it.

    async with site(service) as at:
        response = await at.client.post("/sessions", json={"prompt": "Hi"})
        async with at.stream(f"/runs/{run_id}/events") as events:
            async for event in events: ...
        answer = await at.raw(b"GET / HTTP/1.1\r\n\r\n")

Runs are held by a `Gate` in the script of their provider, so that nothing is left to time.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
from endstop import Engine
from endstop.decision import Policy
from endstop.providers import Request, Scripted, call, say
from endstop.service.service import Service
from endstop.tools import ask_user, finish_task
from endstop.web import Connection, WebLimits, web
from uvicorn import Config
from uvicorn.server import ServerState

from ..temporary_store import TemporaryStore

PATIENCE = 60.0
"""Seconds after which a wait in a test has failed."""


class Gate:
    """Holds a script until it is opened; tells when a script has come to it."""

    def __init__(self) -> None:
        self._open = asyncio.Event()
        self.reached = asyncio.Event()

    async def wait(self) -> None:
        """For `Scripted`: stand here until `open`."""
        self.reached.set()
        await self._open.wait()

    def open(self) -> None:
        """Let it go on."""
        self._open.set()


@dataclass
class Event:
    """One server-sent event."""

    id: str | None
    kind: str
    data: Any


class Events:
    """What a stream tells, event by event. `comments` holds the heartbeats, `raw` all lines."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self.comments: list[str] = []
        self._lines = response.aiter_lines()

    def __aiter__(self) -> AsyncIterator[Event]:
        return self._events()

    async def _events(self) -> AsyncIterator[Event]:
        id, kind, data = None, "message", []
        async for line in self._lines:
            name, _, value = line.partition(": ")
            if not line:
                if data and kind != "judged":  # what is known of the call whose result follows: test_follow.py reads it
                    yield Event(id, kind, json.loads("\n".join(data)))
                id, kind, data = None, "message", []
            elif not name:
                self.comments.append(value)
            elif name == "id":
                id = value
            elif name == "event":
                kind = value
            elif name == "data":
                data.append(value)

    async def until(self, kind: str) -> list[Event]:
        """The next events up to one of this type in the record."""
        found = []
        async with asyncio.timeout(PATIENCE):
            async for event in self:
                found.append(event)
                if event.data.get("type") == kind:
                    return found
        raise AssertionError(f"no {kind} in {[event.data.get('type') for event in found]}")

    async def all(self) -> list[Event]:
        """The rest, to the end of the stream."""
        async with asyncio.timeout(PATIENCE):
            return [event async for event in self]


@dataclass
class Site:
    """A server that is up."""

    service: Service
    client: httpx.AsyncClient
    port: int
    state: ServerState
    prefix: str = ""

    @asynccontextmanager
    async def stream(self, path: str, **given: Any) -> AsyncIterator[Events]:
        """Follow a stream."""
        async with self.client.stream(given.pop("method", "GET"), path, **given) as response:
            if response.status_code != 200:
                await response.aread()
                raise AssertionError((response.status_code, response.text))
            yield Events(response)

    async def connect(self, *, keep: int | None = None) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection for bytes. `keep`: how much it buffers before it lets the server wait."""
        return await asyncio.open_connection("127.0.0.1", self.port, limit=keep or 2**16)

    async def raw(self, sent: bytes) -> bytes:
        """Send these bytes; gives all that comes until the server hangs up."""
        reader, writer = await self.connect()
        try:
            writer.write(sent)
            await writer.drain()
            async with asyncio.timeout(PATIENCE):
                return await reader.read()
        finally:
            writer.close()

    async def start(self, prompt: str = "Set the port", **given: Any) -> dict[str, Any]:
        """A session that was started."""
        response = await self.client.post("/sessions", json={"prompt": prompt}, **given)
        assert response.status_code == 201, response.text
        return response.json()

    async def outcome(self, run_id: str, **given: Any) -> dict[str, Any]:
        """The outcome of a run, waited for."""
        response = await self.client.get(f"/runs/{run_id}/outcome", params={"wait": 20}, **given)
        assert response.status_code == 200, response.text
        return response.json()

    async def status(self, session_id: str, **given: Any) -> str:
        """A session's status."""
        return (await self.client.get(f"/sessions/{session_id}", **given)).json()["status"]


def client_at(base: str, **given: Any) -> httpx.AsyncClient:
    """Asks a server without TLS, and so reads no certificates: that would take longer than most tests."""
    return httpx.AsyncClient(**{"base_url": base, "timeout": PATIENCE, "trust_env": False, "verify": False, **given})


def service_with(provider: Any, policy: Policy | None = None, **settings: Any) -> Service:
    """A service with a store of its own."""
    given = {"store": TemporaryStore(), "grace": 0, **settings}
    engine = Engine(provider, presets=(finish_task, ask_user), policy=policy or Policy())
    return Service(engine, **given)


def done(summary: str = "The port is set.") -> list[Any]:
    """A response that completes."""
    return call("finish_task", summary=summary)


def by_prompt(answers: dict[str, Callable[[], Any]]) -> Scripted:
    """A provider for many runs at once: the session's first prompt that is named decides what it says."""

    def response(request: Request) -> Any:
        said = [getattr(message, "text", "") or "" for message in request.messages]
        for prompt, answer in answers.items():
            if any(prompt in text for text in said):
                return answer()
        return [say("Well."), done()]

    return Scripted(response)


@asynccontextmanager
async def serving(
    app: Any, *, http: type[Connection] = Connection, **config: Any
) -> AsyncIterator[tuple[int, ServerState]]:
    """Serve an ASGI app as uvicorn would; gives port and state."""
    settings = Config(app, http=http, ws="none", log_config=None, lifespan="off", **config)
    settings.load()
    state = ServerState()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: http(settings, state, {}), "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1], state
    finally:
        server.close()
        for connection in list(state.connections):
            connection.transport.abort()
        async with asyncio.timeout(PATIENCE):
            while state.tasks:
                await asyncio.wait(list(state.tasks))


@asynccontextmanager
async def site(
    service: Service | None = None,
    *,
    provider: Any = None,
    limits: WebLimits | None = None,
    http: type[Connection] = Connection,
    headers: dict[str, str] | None = None,
    **given: Any,
) -> AsyncIterator[Site]:
    """A server around this service, or one with this provider; its limits let tests be as fast as they like."""
    service = service or service_with(provider or by_prompt({}))
    limits = limits or WebLimits(requests_per_second=None, write_interval=0)
    app = web(service, limits=limits, signals=False, **given)
    async with (
        service,
        serving(app, http=http) as (port, state),
        client_at(f"http://127.0.0.1:{port}", headers=headers) as client,
    ):
        yield Site(service, client, port, state)
