"""The streamed response of `endstop demo`, and the server on loopback that sends it and counts what it has sent.

No model has made it. It has the form of the response with which tests/benchmarks/peers.py measures other frameworks:
behind the first call of `finish_task` come twenty more calls, by turns of a tool and of `finish_task`, in as many
chunks.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from itertools import pairwise
from types import TracebackType
from typing import Any

from aiohttp import web

MADE_BY = "written by hand and not recorded from a model"
PACE = 0.04
"""Seconds between two chunks: 25 a second, a usual pace of models."""
TASK = "In config.ini, change the port from 3000 to 8080."
CHANGE, FINISH = "set_option", "finish_task"
CHANGES_BEFORE = (("port", "8080"),)
"""What the calls before `finish_task` set: what the task asks for."""
CHANGES_AFTER = (
    ("debug", "true"),
    ("host", "0.0.0.0"),
    ("port", "8081"),
    ("debug", "false"),
    ("port", "80"),
    ("host", "localhost"),
    ("debug", "true"),
    ("host", "0.0.0.0"),
    ("port", "8080"),
    ("port", "3000"),
)
"""What the calls after it set."""
_PIECES = {CHANGE: 9, FINISH: 8}
"""In how many pieces the arguments of a call come; its name comes before them, in a chunk of its own."""
_TURNS = 50
"""How often all that is ready in the event loop has its turn before the next chunk; endstop needs five to close."""


class DemoStream:
    """The response as server-sent events. `done_at`: how many there are up to the end of the first `finish_task`."""

    def __init__(self) -> None:
        words = f"The port is in {TASK.split()[1].rstrip(',')} and I change it there.".split()
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
        deltas += [{"content": f"{word} "} for word in words]
        calls: list[tuple[str, Mapping[str, str]]] = [(CHANGE, _option(*change)) for change in CHANGES_BEFORE]
        calls.append((FINISH, {"summary": "Changed the port from 3000 to 8080."}))
        for change in CHANGES_AFTER:
            calls += [(CHANGE, _option(*change)), (FINISH, {"summary": "The port is changed, the task is done."})]
        self.done_at = 0
        for index, (name, arguments) in enumerate(calls):
            deltas += _call(index, name, json.dumps(arguments))
            if name == FINISH and not self.done_at:
                self.done_at = len(deltas)
        self.events = (*map(_event, deltas), _event({}, "tool_calls"), b"data: [DONE]\n\n")


class StreamServer:
    """Server on 127.0.0.1 that sends the stream to each reader, and counts: `sent[name]` is chunks so far.

    pause: awaited before each chunk. Use it as an async context manager. Raises OSError if nothing can listen there.
    """

    def __init__(self, stream: DemoStream, pause: Callable[[], Awaitable[None]]) -> None:
        self.sent: dict[str, int] = {}
        self._stream = stream
        self._pause = pause
        app = web.Application()
        app.router.add_post("/{reader}/chat/completions", self._send)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)

    def api_base(self, reader: str) -> str:
        """Return the URL that this reader is given, without `/chat/completions`."""
        host, port = self._runner.addresses[0][:2]
        return f"http://{host}:{port}/{reader}"

    async def __aenter__(self) -> StreamServer:
        """Begin to listen, at any free port."""
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close all connections."""
        await self._runner.cleanup()

    async def _send(self, request: web.Request) -> web.StreamResponse:
        reader = request.match_info["reader"]
        response = web.StreamResponse(headers={"content-type": "text/event-stream; charset=utf-8"})
        response.enable_chunked_encoding()
        await request.read()
        await response.prepare(request)
        self.sent[reader] = 0
        try:
            for event in self._stream.events:
                await self._pause()
                await _let_others_go_on()
                await response.write(event)
                self.sent[reader] += 1
        except ConnectionResetError:
            pass  # the reader has closed the stream
        return response


async def _let_others_go_on() -> None:
    """Let the readers do what they can do now.

    They share this process: when the machine has let all of it wait, a reader must not seem slow because the pause was
    over before its turn came.
    """
    for _ in range(_TURNS):
        await asyncio.sleep(0)


def _option(key: str, value: str) -> dict[str, str]:
    return {"key": key, "value": value}


def _call(index: int, name: str, arguments: str) -> Iterator[dict[str, Any]]:
    """Yield the deltas of a call: its name, then its arguments in pieces of nearly the same length."""
    yield {"tool_calls": [{"index": index, "id": f"call_{index}", "function": {"name": name, "arguments": ""}}]}
    pieces = _PIECES[name]
    ends = [len(arguments) * number // pieces for number in range(pieces + 1)]
    for begin, end in pairwise(ends):
        yield {"tool_calls": [{"index": index, "function": {"arguments": arguments[begin:end]}}]}


def _event(delta: Mapping[str, Any], finish_reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    chunk = {"id": "demo", "object": "chat.completion.chunk", "model": "demo", "choices": [choice]}
    return b"data: %s\n\n" % json.dumps(chunk, separators=(",", ":")).encode()
