"""A chat-completions endpoint on loopback that answers as a test tells it to, over real sockets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

Piece = bytes | asyncio.Event
"""What is sent in one write, or something to wait for before the next."""
OK: dict[str, Any] = {"choices": [{"delta": {"content": "ok"}, "finish_reason": "stop"}]}


@dataclass(kw_only=True)
class Reply:
    """One answer. `ends`: `whole` is a body that has its end, `cut` breaks the connection without one."""

    status: int = 200
    content_type: str = "text/event-stream"
    headers: dict[str, str] = field(default_factory=dict)
    pieces: Sequence[Piece] = ()
    ends: str = "whole"


def sse(*chunks: dict[str, Any] | str, done: bool = True) -> list[bytes]:
    """Chunks as events of a stream, each a piece of its own."""
    texts = [chunk if isinstance(chunk, str) else json.dumps(chunk) for chunk in chunks]
    return [f"data: {text}\n\n".encode() for text in (*texts, *(["[DONE]"] if done else []))]


def stream(*chunks: dict[str, Any] | str, done: bool = True) -> Reply:
    return Reply(pieces=sse(*chunks, done=done))


def body(value: Any, status: int = 200, content_type: str = "application/json", **headers: str) -> Reply:
    """An answer in one piece; anything but bytes is sent as JSON."""
    piece = value if isinstance(value, bytes) else json.dumps(value).encode()
    return Reply(status=status, content_type=content_type, headers=headers, pieces=[piece])


def delta(*, finish: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


def call_delta(**fields: Any) -> dict[str, Any]:
    """A chunk with one fragment of a call: `index`, `id`, and what belongs into its function."""
    outer = {name: fields.pop(name) for name in ("index", "id", "type") if name in fields}
    return delta(tool_calls=[{**outer, "function": fields}])


class Endpoint:
    """Gives the n-th request the n-th reply, the last one to all that follow. Keeps connections alive.

    `requests` are the bodies as sent, `headers` their headers, `connections` counts sockets, `left` is set when a
    client hangs up before its answer is whole.
    """

    def __init__(self, *replies: Reply) -> None:
        self.requests: list[bytes] = []
        self.headers: list[dict[str, str]] = []
        self.connections = 0
        self.left = asyncio.Event()
        self._replies = replies
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def body(self, number: int = -1) -> Any:
        return json.loads(self.requests[number])

    async def __aenter__(self) -> Endpoint:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.ensure_future(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                headers = {name.strip().lower(): value.strip() for name, _, value in (h.partition(":") for h in head)}
                self.requests.append(await reader.readexactly(int(headers["content-length"])))
                self.headers.append(headers)
                reply = self._replies[min(len(self.requests), len(self._replies)) - 1]
                await self._answer(reply, reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client hung up between two requests, or the reply said to
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    async def _answer(self, reply: Reply, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lines = [f"HTTP/1.1 {reply.status} X", f"content-type: {reply.content_type}", "transfer-encoding: chunked"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in reply.headers.items()]
        writer.write("\r\n".join([*lines, "", ""]).encode())
        gone = asyncio.ensure_future(reader.read(1))
        try:
            for piece in reply.pieces:
                await self._send(piece, gone, writer)
        finally:
            gone.cancel()
            await asyncio.wait([gone])  # or the next read finds this one still waiting
        if reply.ends == "cut":
            writer.transport.abort()
            raise ConnectionError
        writer.write(b"0\r\n\r\n")

    async def _send(self, piece: Piece, gone: asyncio.Future[bytes], writer: asyncio.StreamWriter) -> None:
        if isinstance(piece, bytes):
            writer.write(b"%x\r\n%s\r\n" % (len(piece), piece) if piece else b"")
            await writer.drain()
            return
        waiting = asyncio.ensure_future(piece.wait())
        await asyncio.wait([waiting, gone], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if gone.done():
            self.left.set()
            raise ConnectionError


def cut_every(pieces: Iterable[bytes], size: int) -> list[bytes]:
    """The same bytes in pieces of another size."""
    whole = b"".join(pieces)
    return [whole[at : at + size] for at in range(0, len(whole), size)]
