"""A server for the tests of the page: the real app in a thread of its own, with a model that plays scripts."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import uvicorn
from endstop.decision import AssistantMessage, Limits, Policy, UserMessage
from endstop.engine import Engine, Tool, tool
from endstop.engine.hosts.web.app import web
from endstop.engine.hosts.web.owners import Auth
from endstop.engine.presets import ask_user, task_done, think
from endstop.engine.record import read_record
from endstop.engine.service.service import Service
from endstop.engine.store.memory import MemoryStore
from endstop.engine.store.store import Batch, NewSession
from endstop.providers import Request, Scripted

from endstop.engine.line import encoded  # isort: skip

T = TypeVar("T")


class Gate:
    """A place in a script where the model waits until the test opens it."""

    def __init__(self) -> None:
        self._open = threading.Event()
        self.reached = threading.Event()

    async def wait(self) -> None:
        """What `Scripted` waits for."""
        self.reached.set()
        while not self._open.is_set():
            await asyncio.sleep(0.005)

    def open(self) -> None:
        """Let the model go on."""
        self._open.set()


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


class Site:
    """The server, as the tests see it."""

    def __init__(self, tools: Sequence[Tool] = (), agents: Sequence[str] = ("worker",)) -> None:
        self.scripts: dict[str, list[Any]] = {}
        """What the model answers to a prompt, response by response."""
        self.requests: list[Request] = []
        self.store = MemoryStore()
        self.url = ""
        provider = Scripted(self._response, model="scripted-1")
        policy = Policy(limits=Limits(steps=12, soft_steps=8, output_tokens=2_000, seconds=600))
        every = [read_file, write_file, think, ask_user, *tools]
        self.engines = {name: Engine(provider, tools=every, presets=(task_done,), policy=policy) for name in agents}
        self._loop: asyncio.AbstractEventLoop | None = None

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
    def running(self, auth: Auth | None = None, port: int = 0) -> Iterator[Site]:
        """Serve until the block is left."""
        service = Service(self.engines, store=self.store, grace=0)
        config = uvicorn.Config(
            web(service, auth=auth), host="127.0.0.1", port=port, log_level="error", timeout_graceful_shutdown=1
        )
        server = uvicorn.Server(config)
        started = threading.Event()

        async def main() -> None:
            self._loop = asyncio.get_running_loop()
            serving = asyncio.create_task(server.serve())
            while not server.started and not serving.done():
                await asyncio.sleep(0.01)
            started.set()
            await serving

        thread = threading.Thread(target=lambda: asyncio.run(main()), name="site")
        thread.start()
        try:
            assert started.wait(20), "the server did not start"
            self.url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/"
            yield self
        finally:
            server.should_exit = True
            thread.join(20)
            assert not thread.is_alive(), "the server did not end"

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Run this in the server's loop."""
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    def keep_record(self, path: Path) -> str:
        """Put a record into the store as a session; its id."""
        record = read_record(path)
        runs = [[json.loads(encoded(event)) for event in run.events] for run in record.runs]
        return self.keep(runs, title=record.runs[0].started.prompt or path.stem, session_id=record.header.session_id)

    def keep(self, runs: Iterable[Sequence[Mapping[str, Any]]], *, title: str, session_id: str) -> str:
        """Put these events into the store as a session; its id."""
        self.do(self._keep(runs, title, session_id))
        return session_id

    async def _keep(self, runs: Iterable[Sequence[Mapping[str, Any]]], title: str, session_id: str) -> None:
        import msgspec
        from endstop.decision import Event

        decode = msgspec.json.Decoder(Event).decode
        at = "2026-11-21T10:00:00.000+00:00"
        await self.store.add(NewSession(id=session_id, owner="", agent="worker", title=title, created_at=at))
        for run in runs:
            lines = [json.dumps(event, ensure_ascii=False).encode() + b"\n" for event in run]
            first, last = decode(lines[0]), decode(lines[-1])
            for begin in range(0, len(lines), 500):
                part = lines[begin : begin + 500]
                whole = begin + len(part) == len(lines)
                outcome = last.outcome if whole and run[-1]["type"] == "RUN_FINISHED" else None
                await self.store.commit(
                    Batch(
                        session_id=session_id,
                        run_id=run[0]["run_id"],
                        first_seq=begin + 1,
                        last_seq=begin + len(part),
                        lines=b"".join(part),
                        at=at,
                        started=first if begin == 0 else None,
                        finished=outcome,
                        questions=outcome.questions if outcome is not None else (),
                    )
                )
