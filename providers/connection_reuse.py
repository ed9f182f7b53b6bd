"""Tells whether a request went to a connection that had another request before it.

Only such a request may be sent again if its connection turns out to be closed. aiohttp's tracing tells the same, but
then a request calls all its other signals, too, which costs 5 % of the CPU of a step.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

import aiohttp
from aiohttp.client_proto import ResponseHandler

_new: ContextVar[list[bool] | None] = ContextVar("endstop_new_connections", default=None)


class Connections(aiohttp.TCPConnector):
    """Connections without a limit on their number. ttl_dns_cache: seconds for which an address is kept."""

    def __init__(self, ttl_dns_cache: int = 10) -> None:
        super().__init__(limit=0, ttl_dns_cache=ttl_dns_cache)
        self._made = 0

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
