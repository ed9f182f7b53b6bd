"""A real HTTP server on loopback that speaks OpenAI's streamed chat completions, from a script.

    async with ChatServer(
        ["I will look.", call("read_file", path="a.txt")],     # one response: pieces, streamed one by one
        "A plain answer.",                                     # the same as ["A plain answer."]
        Refusal(429, "slow down", {"retry-after": "3"}),       # no stream at all
        ["Half of", CUT],                                      # the connection breaks
        ["One moment", STALL, " please"],                      # waits for `server.go_on.set()`
    ) as server:
        ...                                                    # server.url ends in /v1

Responses are used up in order; the last one can be repeated with `repeat=True`. `requests` holds the bodies that came
in, `headers` their headers, and `sent[n]` how many pieces of response n went out before its reader left. Wait for
`stalled` to know that a response has reached a STALL.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Literal

from aiohttp import web

CUT: Literal["<cut>"] = "<cut>"
"""The connection breaks off here."""
STALL: Literal["<stall>"] = "<stall>"
"""Nothing more comes until `go_on` is set."""
NO_END: Literal["<no end>"] = "<no end>"
"""The body ends here, cleanly, without finish reason, usage and [DONE]."""

_ids = count(1)


@dataclass(frozen=True)
class Refusal:
    """An answer that is no stream."""

    status: int
    body: str | bytes | dict[str, Any] = ""
    headers: Mapping[str, str] = field(default_factory=dict)


def call(name: str, /, *, id: str | None = None, index: int | None = None, raw: str | None = None, **arguments: Any):
    """A tool call as a model streams it: its head, then its arguments in two pieces. `raw` replaces the JSON."""
    number = next(_ids)
    text = json.dumps(arguments) if raw is None else raw
    half = len(text) // 2
    head = {"id": f"call_{number}" if id is None else id, "type": "function", "function": {"name": name}}
    place = {"index": number if index is None else index}
    pieces = [head, {"function": {"arguments": text[:half]}}, {"function": {"arguments": text[half:]}}]
    return [{"tool_calls": [{**place, **piece}]} for piece in pieces]


def reasoning(text: str) -> dict[str, Any]:
    """A piece of reasoning."""
    return {"reasoning_content": text}


def finish(reason: str) -> dict[str, Any]:
    """A finish reason other than the one that fits."""
    return {"finish_reason": reason}


class ChatServer:
    """Plays its script. `usage` goes out with each response; None leaves it out."""

    def __init__(
        self,
        *responses: Any,
        repeat: bool = False,
        usage: Mapping[str, Any] | None = None,
        pace: float = 0.0,
    ) -> None:
        self.requests: list[dict[str, Any]] = []
        self.headers: list[Mapping[str, str]] = []
        self.sent: list[int] = []
        self.stalled = asyncio.Event()
        self.go_on = asyncio.Event()
        self.left = asyncio.Event()
        """Set when a reader has left before the end of a response."""
        self.url = ""
        self._responses = list(responses)
        self._repeat = repeat
        self._usage = {"prompt_tokens": 100, "completion_tokens": 20} if usage is None else dict(usage)
        self._pace = pace

    async def __aenter__(self) -> ChatServer:
        app = web.Application()
        app.router.add_post("/v1/chat/completions", self._answer)
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}/v1"
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.go_on.set()
        await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        number = len(self.requests)
        self.requests.append(await request.json())
        self.headers.append(dict(request.headers))
        self.sent.append(0)
        if number < len(self._responses):
            response = self._responses[number]
        elif self._repeat:
            response = self._responses[-1]
        else:
            return web.json_response({"error": {"message": "the script has no more responses"}}, status=500)
        if isinstance(response, Refusal):
            return _refuse(response)
        return await self._stream(request, number, list(_flat([response])))

    async def _stream(self, request: web.Request, number: int, pieces: list[Any]) -> web.StreamResponse:
        stream = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await stream.prepare(request)
        try:
            for piece in _ended(pieces, self._usage):
                if piece is CUT:
                    assert request.transport is not None
                    request.transport.abort()
                    return stream
                if piece is STALL:
                    self.stalled.set()
                    await self.go_on.wait()
                    continue
                await stream.write(piece if isinstance(piece, bytes) else _line(piece))
                self.sent[number] += 1
                if self._pace:
                    await asyncio.sleep(self._pace)
            await stream.write_eof()
        except (asyncio.CancelledError, ConnectionError):
            self.left.set()
            raise
        return stream


def _flat(pieces: Iterable[Any]) -> Iterable[Any]:
    for piece in pieces:
        if isinstance(piece, list | tuple):
            yield from _flat(piece)
        else:
            yield piece


def _ended(pieces: list[Any], usage: Mapping[str, Any]) -> Iterable[Any]:
    """The pieces as chunks, and the end that a provider adds to them."""
    finished = called = False
    for piece in pieces:
        if piece is NO_END:
            return
        if piece is CUT or piece is STALL or isinstance(piece, bytes):
            yield piece
            continue
        delta = {"content": piece} if isinstance(piece, str) else dict(piece)
        reason = delta.pop("finish_reason", None)
        finished = finished or reason is not None
        called = called or "tool_calls" in delta
        yield {"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}
    if not finished:
        yield {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls" if called else "stop"}]}
    yield {"choices": [], "usage": dict(usage)}
    yield b"data: [DONE]\n\n"


def _line(chunk: dict[str, Any]) -> bytes:
    whole = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "scripted", **chunk}
    return b"data: " + json.dumps(whole).encode() + b"\n\n"


def _refuse(refusal: Refusal) -> web.Response:
    if isinstance(refusal.body, dict):
        return web.json_response(refusal.body, status=refusal.status, headers=dict(refusal.headers))
    body = refusal.body.encode() if isinstance(refusal.body, str) else refusal.body
    return web.Response(body=body, status=refusal.status, headers=dict(refusal.headers))
