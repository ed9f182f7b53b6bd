"""What passes between two programs on loopback: every byte, with its time, without touching any."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import urlsplit

Headers = list[tuple[str, str]]
_HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length", "host", "te", "upgrade"}


@dataclass
class Exchange:
    """A request and its response."""

    method: str
    path: str
    headers: Headers
    body: bytes
    asked: float
    """When the last byte of the request had passed."""
    status: int = 0
    """0 if no response came."""
    reply_headers: Headers = field(default_factory=list)
    reply: bytes = b""
    begun: float = 0.0
    """When the first byte of the response's body passed."""
    ended: float = 0.0
    whole: bool = False
    """Whether the response came to its end."""

    def header(self, name: str) -> str:
        """Return a header of the response; empty without it."""
        return next((value for key, value in self.reply_headers if key.lower() == name), "")


class Direction:
    """What one side has sent over a connection."""

    def __init__(self) -> None:
        self.data = bytearray()
        self._ends: list[int] = []
        self._times: list[float] = []

    def take(self, data: bytes) -> None:
        """Keep a piece."""
        self.data += data
        self._ends.append(len(self.data))
        self._times.append(asyncio.get_running_loop().time())

    def time_of(self, offset: int) -> float:
        """Return when the byte at this offset came."""
        return self._times[min(bisect_left(self._ends, offset + 1), len(self._times) - 1)] if self._times else 0.0


class Tap:
    """Listens on a port of loopback and passes all on to a target."""

    def __init__(self, target: str, port: int = 0) -> None:
        self.target = urlsplit(target)
        self._port = port
        self._connections: list[tuple[Direction, Direction]] = []
        self._passing: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Tap:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self._port, limit=2**20)
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._server.close()
        for task in self._passing:
            task.cancel()
        await asyncio.gather(*self._passing, return_exceptions=True)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._port}"

    def exchanges(self) -> list[Exchange]:
        """Return all requests with their responses, in the order in which they were sent."""
        found = [exchange for up, down in self._connections for exchange in _exchanges(up, down)]
        return sorted(found, key=lambda exchange: exchange.asked)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Keep the task of a connection: whose ends both wait is referred to by nothing else."""
        task = asyncio.ensure_future(self._pass_on(reader, writer))
        self._passing.add(task)
        task.add_done_callback(self._passing.discard)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up, down = Direction(), Direction()
        self._connections.append((up, down))
        assert self.target.hostname
        assert self.target.port
        await pass_both_ways(reader, writer, self.target.hostname, self.target.port, up, down)


async def pass_both_ways(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str, port: int, up: Direction, down: Direction
) -> None:
    """Connect to a server, and pass on between it and who has asked for it, until both have ended."""
    try:
        there = await asyncio.open_connection(host, port)
    except OSError:
        writer.transport.abort()
        return
    try:
        await asyncio.gather(_copy(reader, there[1], up), _copy(there[0], writer, down))
    except OSError:
        writer.transport.abort()
        there[1].transport.abort()
    finally:
        writer.close()
        there[1].close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, direction: Direction) -> None:
    """Pass on until the end, and the end itself."""
    while data := await reader.read(2**16):
        direction.take(data)
        writer.write(data)
        await writer.drain()
    with suppress(OSError):
        writer.write_eof()


class _Head(NamedTuple):
    first: str
    headers: Headers
    after: int


def _exchanges(up: Direction, down: Direction) -> Iterator[Exchange]:
    """Read HTTP/1.1 from both directions of a connection."""
    asked = answered = 0
    while head := _head(up.data, asked):
        method, _, rest = head.first.partition(" ")
        body, asked, whole = _body(up.data, head, until_end=False)
        if not whole:
            return
        exchange = Exchange(method, rest.rpartition(" ")[0], head.headers, body, up.time_of(asked - 1))
        while (reply := _head(down.data, answered)) and reply.first.split(" ")[1].startswith("1"):
            answered = reply.after
        if reply:
            exchange.status, exchange.reply_headers = int(reply.first.split(" ")[1]), reply.headers
            exchange.reply, answered, exchange.whole = _body(down.data, reply, until_end=True)
            exchange.begun, exchange.ended = down.time_of(reply.after), down.time_of(answered - 1)
        yield exchange


def _head(data: bytearray, at: int) -> _Head | None:
    end = data.find(b"\r\n\r\n", at)
    if end < 0:
        return None
    first, *lines = data[at:end].decode("latin-1").split("\r\n")
    headers = [(name, value.strip()) for name, _, value in (line.partition(":") for line in lines)]
    return _Head(first, headers, end + 4)


def _body(data: bytearray, head: _Head, *, until_end: bool) -> tuple[bytes, int, bool]:
    """Return a message's body, where it ends, and whether it is whole."""
    said = {name.lower(): value for name, value in head.headers}
    if "chunked" in said.get("transfer-encoding", ""):
        return _chunked(data, head.after)
    if until_end and "content-length" not in said:
        return bytes(data[head.after :]), len(data), True
    end = head.after + int(said.get("content-length", 0))
    return bytes(data[head.after : end]), min(end, len(data)), end <= len(data)


def _chunked(data: bytearray, at: int) -> tuple[bytes, int, bool]:
    body = bytearray()
    while (line := data.find(b"\r\n", at)) >= 0:
        size = int(data[at:line].partition(b";")[0], 16)
        end = line + 2 + size
        body += data[line + 2 : end]
        if size == 0:
            return bytes(body), end + 2, True
        at = end + 2
    return bytes(body), len(data), False


def passed_on(headers: Headers) -> Headers:
    """Return the headers that concern more than one connection, in lower case and in order of their names."""
    return sorted((name.lower(), value) for name, value in headers if name.lower() not in _HOP_BY_HOP)
