"""The HTTP proxy of an agent's environment: what an agent wants from other machines is refused at once, and noted.

A port where nobody listens would do the same for most, but some try such a port again for seconds, and some ask the
proxy for 127.0.0.1, too, which is passed on.
"""

from __future__ import annotations

import asyncio

from .tap import Direction, pass_both_ways

_LOOPBACK = ("127.0.0.1", "localhost")


class RefusingProxy:
    """Listens on a port of loopback."""

    def __init__(self) -> None:
        self.refused: list[str] = []
        """The first lines of the requests that were refused."""

    async def __aenter__(self) -> RefusingProxy:
        self._server = await asyncio.start_server(self._handle, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._server.close()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        except (asyncio.IncompleteReadError, OSError):
            writer.close()
            return
        first = head.partition("\r\n")[0]
        method, target, *_ = first.split(" ")
        host, _, port = target.rpartition(":")
        if method == "CONNECT" and host in _LOOPBACK:
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
            await pass_both_ways(reader, writer, host, int(port), Direction(), Direction())
            return
        self.refused.append(first)
        writer.write(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        writer.close()
