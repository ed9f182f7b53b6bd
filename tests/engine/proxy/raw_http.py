"""HTTP as bytes, on loopback: a provider that sends what it is given, and so does a client."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import NamedTuple

from msgspec import json
from yarl import URL

PATIENCE = 30.0
CHUNK = b'data: {"id":"x","choices":[{"index":0,"delta":{"content":"hi"}}]}\n\n'
LAST = b'data: {"id":"x","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"
_HOP_BY_HOP = (b"transfer-encoding", b"connection", b"content-length", b"trailer", b"date", b"server")

Conversation = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Reply(NamedTuple):
    """A response as a client reads it. headers: those that are passed on. whole: whether it came to its end."""

    status: bytes
    headers: set[bytes]
    body: bytes
    whole: bool


class RawProvider:
    """Sends the same bytes for each request, and closes the connection.

    requests: head and body of what came.
    """

    def __init__(self, reply: bytes) -> None:
        self.reply = reply
        self.requests: list[tuple[bytes, bytes]] = []

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.requests.append(await read_request(reader))
        writer.write(self.reply)
        await writer.drain()


async def read_request(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """Head and body of a request."""
    head = await reader.readuntil(b"\r\n\r\n")
    if length := re.search(rb"(?i)\r\ncontent-length: *(\d+)", head):
        return head, await reader.readexactly(int(length[1]))
    body = b""
    if b"chunked" in head.lower():
        while size := int((await reader.readuntil(b"\r\n")).partition(b";")[0], 16):
            body += (await reader.readexactly(size + 2))[:-2]
        while await reader.readuntil(b"\r\n") != b"\r\n":
            pass
    return head, body


@asynccontextmanager
async def listening_raw(talk: Conversation) -> AsyncIterator[str]:
    """A server that talks like this on each connection. Yields its URL."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            await talk(reader, writer)
        writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


async def connected_to(url: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    where = URL(url)
    return await asyncio.open_connection(where.host, where.port, limit=2**16)


async def raw_request(url: str, request: bytes) -> bytes:
    """What a server answers to these bytes, until it closes the connection."""
    reader, writer = await connected_to(url)
    writer.write(request)
    answer = b""
    with suppress(ConnectionError):
        async with asyncio.timeout(PATIENCE):
            while block := await reader.read(65536):
                answer += block
    writer.close()
    return answer


def request_for(path: str, body: bytes | None = None, headers: bytes = b"Connection: close\r\n") -> bytes:
    """A request of an agent that streams, or one with this body."""
    content = STREAMS if body is None else body
    head = b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n%s" % (path.encode(), headers)
    return head + b"Content-Length: %d\r\n\r\n" % len(content) + content


STREAMS = json.encode({"model": "m", "messages": [{"role": "user", "content": "go"}], "stream": True})


def chunked(*parts: bytes, extension: bytes = b"", trailer: bytes = b"") -> bytes:
    """A body in chunks."""
    chunks = b"".join(b"%x%s\r\n%s\r\n" % (len(part), extension, part) for part in parts)
    return chunks + b"0\r\n" + trailer + b"\r\n"


def read_reply(raw: bytes) -> Reply:
    """A response without what belongs to its connection. What comes before it (HTTP 1xx) is left out."""
    head, _, body = raw.partition(b"\r\n\r\n")
    while head.startswith(b"HTTP/1.1 1"):
        head, _, body = body.partition(b"\r\n\r\n")
    status, *lines = head.split(b"\r\n")
    fields = [line.partition(b":") for line in lines]
    kept = {name.lower() + b":" + value.strip() for name, _, value in fields if name.lower() not in _HOP_BY_HOP}
    kept = {line for line in kept if not line.startswith(b"x-endstop-session")}
    if b"transfer-encoding: chunked" not in head.lower():
        length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
        return Reply(status[-6:], kept, body, length is None or len(body) == int(length[1]))
    joined = b""
    while match := re.match(rb"([0-9a-fA-F]+)[^\r]*\r\n", body):
        size, body = int(match[1], 16), body[match.end() :]
        if not size:
            return Reply(status[-6:], kept, joined, True)
        joined, body = joined + body[:size], body[size + 2 :]
    return Reply(status[-6:], kept, joined, False)
