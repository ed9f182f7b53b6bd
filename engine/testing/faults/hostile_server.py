"""Server on loopback that responds as instructed, byte by byte, and that knows what became of each connection."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Any, Self

from ...decision import AnyChunk, FinishReport, TextDelta, Usage, UsageReport
from ..wires import CHAT, RESPONSES, WIRES, Value, WireFormat

ANSWER = "The port is 8080 \N{PILE OF POO}."
"""Text of a valid answer."""
LEFT_SECONDS = 15.0
"""Simulated seconds for a client to close its connections after the run."""
_KEY_HEADERS = ("authorization", "x-api-key", "api-key", "x-goog-api-key")
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"


class HostileAnswer:
    """One request, and the means to answer it. All methods that write raise ConnectionError after the client left."""

    def __init__(
        self,
        server: HostileServer,
        head: bytes,
        body: bytes,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        lines = head.decode("latin-1").split("\r\n")
        path = lines[0].split(" ")[1].partition("?")[0]
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        self.number = server.requests
        """Number of this request, from 1."""
        self.path = lines[0].split(" ")[1]
        self.wire: WireFormat = next((wire for wire in WIRES if path.endswith(wire.path)), CHAT)
        self.keys = [headers[name].removeprefix("Bearer ") for name in _KEY_HEADERS if name in headers]
        self.tool = _first_name(_decoded(body).get("tools")) or "look"
        """Name of the first tool that the request offers."""
        self.elsewhere = server.elsewhere
        self.size = server.size
        self._server, self._writer = server, writer
        self._left = asyncio.ensure_future(reader.read(1))

    @property
    def finish(self) -> list[AnyChunk]:
        """End of a response: its finish reason and its usage."""
        word = "completed" if self.wire is RESPONSES else "stop"
        return [FinishReport("stop", word), UsageReport(Usage(input_tokens=120, output_tokens=34))]

    def says(self, *chunks: AnyChunk) -> list[Value]:
        """Return the events of a response with these chunks before its finish."""
        return list(self.wire.values([*chunks, *self.finish]))

    def good(self) -> list[bytes]:
        """Return the events of a valid answer, as bytes."""
        return self.framed(self.says(TextDelta(ANSWER[:9]), TextDelta(ANSWER[9:])))

    def framed(self, values: Iterable[Value]) -> list[bytes]:
        """Return values as the bytes of a whole stream."""
        return [*map(self.wire.frame, values), *([self.wire.end] if self.wire.end else [])]

    async def send(self, *pieces: bytes) -> None:
        """Write bytes unchanged."""
        for piece in pieces:
            if self._writer.is_closing():
                raise ConnectionResetError
            self._writer.write(piece)
            await self._writer.drain()

    async def begin(self, headers: bytes = b"") -> None:
        """Write the usual status and headers, for a body in chunks."""
        await self.send(_HEAD + headers + b"transfer-encoding: chunked\r\n\r\n")

    async def chunks(self, pieces: Iterable[bytes]) -> None:
        """Write pieces of the body, each in one chunk."""
        for piece in pieces:
            await self.send(b"%x\r\n%s\r\n" % (len(piece), piece) if piece else b"")

    async def end(self) -> None:
        """Write the end of the body. The connection stays open for the next request."""
        await self.send(b"0\r\n\r\n")

    async def stream(self, pieces: Iterable[bytes]) -> None:
        """Write a whole response in chunks."""
        await self.begin()
        await self.chunks(pieces)
        await self.end()

    async def body(
        self, body: bytes, headers: bytes = b"content-type: text/event-stream\r\n", status: str = "200 OK"
    ) -> None:
        """Write a whole response with its length."""
        await self.send(b"HTTP/1.1 %s\r\n%scontent-length: %d\r\n\r\n" % (status.encode(), headers, len(body)), body)

    async def pause(self, seconds: float | None = None) -> None:
        """Wait for this many seconds; if None, until the client leaves."""
        await asyncio.wait([self._left], timeout=seconds)
        if self._left.done():
            raise ConnectionResetError

    async def flood(self, piece: bytes, chunked: bool = True) -> None:
        """Write this repeatedly until the client leaves or has read more than any client should."""
        block = piece * max(1, 65536 // len(piece))
        for _ in range(self.size // len(block) + 1):
            await (self.chunks([block]) if chunked else self.send(block))
        self._server.read_all = True
        self.reset()

    def reset(self) -> None:
        """Reset the connection."""
        self._writer.transport.abort()
        raise ConnectionResetError

    def close(self) -> None:
        """Close the connection in the ordinary way."""
        self._writer.close()
        raise ConnectionResetError

    async def over(self) -> None:
        """Stop watching for the client to leave, so that the next request can be read."""
        self._left.cancel()
        await asyncio.wait([self._left])


Answer = Callable[[HostileAnswer], Awaitable[None]]


class HostileServer:
    """Server that answers each request in one way. size: bytes after which an endless response ends."""

    def __init__(self, answer: Answer, size: int) -> None:
        self.size = size
        self.requests = 0
        self.strayed = 0
        """Number of requests that reached the other host."""
        self.keys: set[str] = set()
        """Keys that were sent with requests."""
        self.read_all = False
        """Whether a client read an endless response to the point where the server ends it."""
        self.open = 0
        """Number of connections that the client had not closed in time."""
        self._answer = answer
        self._serving: set[asyncio.Task[None]] = set()
        self._writers: list[asyncio.StreamWriter] = []

    @property
    def url(self) -> str:
        """Base URL of the model."""
        return f"http://127.0.0.1:{self._port}/v1"

    @property
    def elsewhere(self) -> str:
        """URL of another host, which must not get any request."""
        return f"http://127.0.0.1:{self._other_port}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self._other = await asyncio.start_server(self._stray, "127.0.0.1", 0)
        self._port: int = self._server.sockets[0].getsockname()[1]
        self._other_port: int = self._other.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._server.close()
        self._other.close()
        if self._serving:
            await asyncio.wait(self._serving, timeout=LEFT_SECONDS)
        self.open = sum(not task.done() for task in self._serving)
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)
        for writer in self._writers:
            writer.transport.abort()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._begin(self._serve(reader, writer), writer)

    def _stray(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.strayed += 1
        self._writers.append(writer)
        writer.close()

    def _begin(self, serve: Any, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        task = asyncio.ensure_future(serve)
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                body = await _read_body(head.lower(), reader)
                self.requests += 1
                exchange = HostileAnswer(self, head, body, reader, writer)
                self.keys.update(exchange.keys)
                try:
                    await self._answer(exchange)
                finally:
                    await exchange.over()
        writer.close()


async def _read_body(head: bytes, reader: asyncio.StreamReader) -> bytes:
    length = next((line[15:] for line in head.split(b"\r\n") if line.startswith(b"content-length:")), None)
    if length is not None:
        return await reader.readexactly(int(length))
    body = b""
    while b"transfer-encoding: chunked" in head and (size := int(await reader.readuntil(b"\r\n"), 16)):
        body += (await reader.readexactly(size + 2))[:-2]
    return body


def _decoded(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _first_name(tools: Any) -> str:
    """Return the first `name` anywhere in the tools of a request, whatever its wire format."""
    if isinstance(tools, dict):
        name = tools.get("name")
        return name if isinstance(name, str) else next(filter(None, map(_first_name, tools.values())), "")
    return next(filter(None, map(_first_name, tools)), "") if isinstance(tools, list) else ""
