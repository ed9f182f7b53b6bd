"""Connections that know whether a request reuses them, and that read no more than is allowed.

Only a request on a connection that had another one before it may be sent again if that turns out to be closed. Tracing
of aiohttp tells the same, but then a request calls all its other signals, too, which costs 5 % of the CPU of a step.
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
    """Breaks off once more bytes have come in for one response than is allowed, headers and framing included.

    aiohttp itself reads on for ever where no content comes: any number of responses of status 1xx, or of digits in the
    size of a chunk.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, most: int) -> None:
        super().__init__(loop)
        self._most = most
        self._taken = 0

    def set_response_params(self, **params: Any) -> None:
        """Count from zero: aiohttp calls this before it sends a request on the connection."""
        self._taken = 0
        super().set_response_params(**params)

    def data_received(self, data: bytes) -> None:
        """Count these bytes and parse them, or break off the connection: asyncio calls this for what has come in."""
        self._taken += len(data)
        if self._taken <= self._most:
            super().data_received(data)
            return
        error = too_much_received(self._most)
        break_off(self, error)
        self.set_exception(error)


def break_off(connection: ResponseHandler, error: Exception) -> None:
    """Close a connection at once, and raise the error where the body of its response is read."""
    body = connection._payload  # which the connection forgets when it is aborted
    connection.abort()
    if body is not None:
        body.set_exception(error)


class Connections(aiohttp.TCPConnector):
    """Connections without a limit on their number.

    most: bytes that may come in for one response. ttl_dns_cache: seconds for which an address is kept.
    """

    def __init__(self, most: int = sys.maxsize, ttl_dns_cache: int = 10) -> None:
        super().__init__(limit=0, ttl_dns_cache=ttl_dns_cache)
        self._made = 0
        self._factory = partial(_BoundedConnection, self._loop, most)  # type: ignore[assignment]

    def note_new(self) -> list[bool]:
        """Return a list that is not empty any more once a request of this task makes a connection."""
        new: list[bool] = []
        _new.set(new)
        return new

    def reused(self, new: list[bool]) -> bool:
        """Whether the request since `note_new` went to a connection that had another one before it.

        False as well if aiohttp made its connections in another way, so that nothing is known of them.
        """
        return not new and self._made > 0

    async def _create_connection(self, *request: Any, **options: Any) -> ResponseHandler:
        """Make a connection: the method by which aiohttp's connectors differ."""
        self._made += 1
        if (new := _new.get()) is not None:
            new.append(True)
        return await super()._create_connection(*request, **options)
