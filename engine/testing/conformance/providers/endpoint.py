"""Chat completions endpoint on loopback that plays behaviours, with real HTTP and sockets and only asyncio.

Each error message repeats the request's key, as careless servers do, so that a case can check that an adapter hides it.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, ClassVar, Self

from ....decision.wrong_calls import checked
from ...wires import CHAT, WireFormat
from .harness import Behaviour, events, refusal

KEY = "sk-planted-3f9c1d7e5b2a8640"
"""Key that no adapter may show."""
PATIENCE, SHORT, PING = 30.0, 1.0, 0.1
KEY_HEADERS = ("authorization", "x-api-key", "api-key", "x-goog-api-key")


@checked
class Endpoint:
    """Server that answers the n-th request with the n-th behaviour, and all further requests with the last one.

    Give an adapter its `url` (which ends in /v1), its `key`, and its `timeout`: seconds between two pieces of content.
    """

    cannot: ClassVar[frozenset[str]] = frozenset({"signatures"})
    """Abilities that this wire format lacks, as keys of `NEEDS`."""
    wire: ClassVar[WireFormat] = CHAT

    def __init__(self, script: Sequence[Behaviour]) -> None:
        self.key = KEY
        self.timeout = SHORT if any(b.failure and b.failure.kind == "timeout" for b in script) else PATIENCE
        self.requests: list[dict[str, Any]] = []
        """Received bodies."""
        self.headers: list[dict[str, str]] = []
        """Received headers, with names in lower case."""
        self.asked = asyncio.Event()
        """Set when a request has been received."""
        self.left: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        """Time, on the loop's clock, at which a client first closed the connection before the end of a response."""
        self._script = script
        self._serving: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        """The URL of the endpoint, ending in /v1."""
        return f"http://127.0.0.1:{self._port}/v1"

    def events(self, behaviour: Behaviour, keys: str) -> Iterable[bytes]:
        """Return the server-sent events of one response. A subclass for another wire format overrides this.

        keys: the request's keys, for error messages.
        """
        return events(behaviour, keys, self.wire)

    async def __aenter__(self) -> Self:
        self._socket = socket.socket(proto=socket.IPPROTO_TCP)  # otherwise the kernel may hold small writes for 40 ms
        self._socket.bind(("127.0.0.1", 0))
        self._port = int(self._socket.getsockname()[1])
        self._server: asyncio.Server | None = None
        if self._script[0].ends != "unreachable":  # bound but not listening, so that nobody else can take the port
            self._server = await asyncio.start_server(self._accept, sock=self._socket, start_serving=False)
            try:
                await self._server.start_serving()
            except BaseException:  # a cancellation must not leave it listening
                self._server.close()
                raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._server is not None:
            self._server.close()
        self._socket.close()
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)
        self.left.cancel()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._serve(reader, writer))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                parted = (line.partition(":") for line in lines)
                headers = {name.lower(): value.strip() for name, _, value in parted}
                self.requests.append(json.loads(await reader.readexactly(int(headers["content-length"]))))
                self.headers.append(headers)
                self.asked.set()
                behaviour = self._script[min(len(self.requests), len(self._script)) - 1]
                await self._answer(behaviour, _keys_in(headers), reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client or this server hung up
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    async def _answer(
        self, behaviour: Behaviour, keys: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        if behaviour.ends == "refused":
            writer.write(refusal(behaviour, keys))
            return
        if behaviour.ends != "silent":
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
            for event in self.events(behaviour, keys):
                writer.write(b"%x\r\n%s\r\n" % (len(event), event))
                await writer.drain()
        if behaviour.ends == "pinging":
            await self._ping(reader, writer)
        if behaviour.ends in ("silent", "stalled"):
            await self._wait_for_hanging_up(reader)
        if behaviour.ends == "cut":
            writer.transport.abort()
            raise ConnectionAbortedError
        writer.write(b"0\r\n\r\n")

    async def _ping(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Send comments, as servers do to keep a connection open, until the client hangs up."""
        left = asyncio.ensure_future(self._wait_for_hanging_up(reader))
        try:
            while not left.done():
                writer.write(b"8\r\n: ping\n\n\r\n")
                await writer.drain()
                await asyncio.wait([left], timeout=PING)
            await left
        finally:
            left.cancel()

    async def _wait_for_hanging_up(self, reader: asyncio.StreamReader) -> None:
        with suppress(ConnectionError):
            await reader.read(1)
        if not self.left.done():
            self.left.set_result(asyncio.get_running_loop().time())
        raise ConnectionAbortedError


def _keys_in(headers: dict[str, str]) -> str:
    return " ".join(headers[name] for name in KEY_HEADERS if name in headers)
