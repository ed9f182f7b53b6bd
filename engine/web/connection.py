"""One connection of the server: uvicorn's, with what it leaves to a proxy in front.

A request has so long to come in whole, and its head so many bytes; beyond a number of connections the next ones are
refused; what a reader does not take stays small, and its connection can be broken off.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Any

from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from .errors import problem
from .streaming import ABORT

REQUEST_SECONDS = 30.0
"""How long a request may take to come in."""
HEAD_BYTES = 64 * 1024
"""How long the head of a request may be."""
LINGER_SECONDS = 5.0
"""How long what is left of a body may come in once the app has given it up."""
SEND_BUFFER = 256 * 1024
"""What the system keeps of what a reader has not taken. Left to itself, it would be megabytes for each."""


class Connection(HttpToolsProtocol):
    """A connection. For `uvicorn --http` or `Config(http=Connection)`, also around an app of your own."""

    seconds = REQUEST_SECONDS
    head_bytes = HEAD_BYTES

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._most, self.limit_concurrency = self.limit_concurrency, None
        self._timer: asyncio.TimerHandle | None = None
        self._in_head = True
        self._head = 0
        """Bytes of a head that has not come whole."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin; beyond the number of connections only to say so."""
        super().connection_made(transport)
        self._wait(self.seconds)
        raw = transport.get_extra_info("socket")
        if raw is not None and raw.family in (socket.AF_INET, socket.AF_INET6):
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
        if self._most is not None and len(self.connections) > self._most:
            self.app = _full

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self._got()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what came, as long as it is no endless head."""
        self._head += len(data)
        super().data_received(data)
        if self._in_head and self._head > self.head_bytes and not self.transport.is_closing():
            self._refuse(431, "head_too_large", f"the head of a request is at most {self.head_bytes:,} bytes long")

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        self._in_head = True
        self._wait(self.seconds)
        self.scope["extensions"] = {ABORT: {"abort": self.transport.abort}}

    def on_headers_complete(self) -> None:
        """Its head is there; if its body is too slow the app says so, or nobody waits for it any more."""
        self._head = 0
        self._in_head = False
        self._wait(self.seconds + LINGER_SECONDS)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """More of its body is there."""
        self._head = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """It is there."""
        self._head = 0
        self._got()
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """What came is no HTTP."""
        self._refuse(400, "malformed", msg)

    def _wait(self, seconds: float) -> None:
        self._got()
        self._timer = self.loop.call_later(seconds, self._overdue)

    def _got(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _overdue(self) -> None:
        self._timer = None
        if not self._in_head:
            self.transport.abort()
        elif not self.transport.is_closing():
            self._refuse(408, "timeout", f"the request did not come within {self.seconds:g} s")

    def _refuse(self, status: int, code: str, detail: str) -> None:
        """Answer without the app, and hang up."""
        if self.cycle is not None and self.cycle.response_started and not self.cycle.response_complete:
            self.transport.abort()
            return
        response = problem(status, code, detail, {"Connection": "close"})
        lines = [b"HTTP/1.1 %d \r\n" % status]
        lines += [b"%b: %b\r\n" % header for header in response.raw_headers]
        self.transport.write(b"".join([*lines, b"\r\n", bytes(response.body)]))
        self.transport.close()


async def _full(scope: Scope, receive: Receive, send: Send) -> None:
    headers = {"Connection": "close", "Retry-After": "1"}
    await problem(503, "connections", "the server has too many connections", headers)(scope, receive, send)
