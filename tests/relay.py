"""A relay of TCP on loopback that can hold bytes, delay them, break all connections and refuse new ones."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack, suppress
from urllib.parse import urlsplit

from .ports import held_port


class Relay:
    """A relay to the server of a URL; `url` is that URL through the relay.

    delay: seconds by which bytes are late, each way.
    """

    def __init__(self, url: str) -> None:
        self._parts = urlsplit(url)
        self._flows = asyncio.Event()
        self._flows.set()
        self.url = ""
        self.delay = 0.0
        self._connections: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Relay:
        self._ports = ExitStack()
        self.port = self._ports.enter_context(held_port())
        await self.accept()
        user, at, _ = self._parts.netloc.rpartition("@")
        self.url = self._parts._replace(netloc=f"{user}{at}127.0.0.1:{self.port}").geturl()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.refuse()
        self._ports.close()

    async def accept(self) -> None:
        """Accept connections, at the same port as before."""
        self._server = await asyncio.start_server(self._relay, "127.0.0.1", self.port, backlog=1024)

    async def refuse(self) -> None:
        """Break all connections, and refuse new ones."""
        self._server.close()
        await self.break_off()

    async def break_off(self) -> None:
        """Break all connections. New ones are accepted."""
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def hold(self) -> None:
        """Hold all bytes from now on. Connections stay open, and new ones are accepted."""
        self._flows.clear()

    def release(self) -> None:
        """Pass on what was held, and all that follows."""
        self._flows.set()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = asyncio.current_task()
        assert connection is not None
        self._connections.add(connection)
        writers = [writer]
        try:
            await self._flows.wait()
            there, back = await asyncio.open_connection(self._parts.hostname, self._parts.port)
            writers.append(back)
            await asyncio.gather(self._pass(reader, back), self._pass(there, writer))
        except asyncio.CancelledError:
            pass  # the relay ends
        finally:
            for one in writers:
                one.transport.abort()
            self._connections.discard(connection)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                await self._flows.wait()
                if self.delay:
                    await asyncio.sleep(self.delay)
                writer.write(data)
                await writer.drain()
        writer.close()
