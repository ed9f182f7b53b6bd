"""HTTP connections that know whether a request reuses them, and that stop reading at a limit.

Only a request on a reused connection may be sent again if the connection turns out to be closed. aiohttp's tracing
tells the same, but then each request calls all its other signals, too, which costs 5 % of the CPU time of a step.
"""

from __future__ import annotations

import asyncio
import sys
from contextvars import ContextVar
from functools import partial
from typing import Any

import aiohttp
from aiohttp.client_proto import ResponseHandler

from .errors import too_much_received

_new: ContextVar[list[bool] | None] = ContextVar("endstop_new_connections", default=None)


class _BoundedConnection(ResponseHandler):
    """Connection that is closed once it received more bytes for a response than allowed, including headers and framing.

    aiohttp itself reads on forever when no content comes: any number of responses with status 1xx, or of digits in a
    chunk size.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, most: int) -> None:
        super().__init__(loop)
        self._most = most
        self._taken = 0

    def set_response_params(self, **params: Any) -> None:
        """Reset the count. aiohttp calls this before it sends a request on the connection."""
        self._taken = 0
        super().set_response_params(**params)

    def data_received(self, data: bytes) -> None:
        """Count these bytes and parse them, or close the connection. asyncio calls this with received data."""
        self._taken += len(data)
        if self._taken <= self._most:
            super().data_received(data)
            return
        error = too_much_received(self._most)
        break_off(self, error)
        self.set_exception(error)


def break_off(connection: ResponseHandler, error: Exception) -> None:
    """Close a connection at once, and raise the error where the body of its response is read."""
    body = connection._payload  # aborting the connection makes it forget this
    connection.abort()
    if body is not None:
        body.set_exception(error)


class Connections(aiohttp.TCPConnector):
    """Connector without a limit on the number of connections.

    most: maximum bytes received for one response. ttl_dns_cache: seconds for which an address is cached.
    """

    def __init__(self, most: int = sys.maxsize, ttl_dns_cache: int = 10) -> None:
        super().__init__(limit=0, ttl_dns_cache=ttl_dns_cache)
        self._made = 0
        self._factory = partial(_BoundedConnection, self._loop, most)  # type: ignore[assignment]

    def note_new(self) -> list[bool]:
        """Return a list that is filled when a request of this task creates a connection."""
        new: list[bool] = []
        _new.set(new)
        return new

    def reused(self, new: list[bool]) -> bool:
        """Return whether the request since `note_new` used a connection that had served another one before.

        Also False if aiohttp created its connections in another way, so that nothing is known about them.
        """
        return not new and self._made > 0

    async def _create_connection(self, *request: Any, **options: Any) -> ResponseHandler:
        """Create a connection. This is the method in which aiohttp's connectors differ."""
        self._made += 1
        if (new := _new.get()) is not None:
            new.append(True)
        return await super()._create_connection(*request, **options)
