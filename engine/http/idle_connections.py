"""A runner for aiohttp servers that closes connections without a first request early."""

from __future__ import annotations

import asyncio
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler

HEAD_SECONDS = 10.0
"""Seconds that a new connection has for the head of its first request."""
IDLE_SECONDS = 120.0
"""Seconds after a response within which the next request's head has to be whole, or the connection is closed.

More than the 90 seconds after which usual clients give up a connection that is idle (Go's `http.Transport`, reqwest):
where the server closes it first, a request that is just on its way is lost.
"""


class TimedRunner(web.AppRunner):
    """Runner of an application that closes idle connections.

    A connection is closed after `HEAD_SECONDS` without a whole first request, later after `IDLE_SECONDS`. options:
    those of `web.AppRunner`.
    """

    __slots__ = ("_timers",)

    def __init__(self, app: web.Application, **options: Any) -> None:
        super().__init__(app, keepalive_timeout=IDLE_SECONDS, **options)
        self._timers: dict[asyncio.Protocol, asyncio.TimerHandle] = {}
        """For each connection that has made no request yet, the timer that closes it."""

        @web.middleware
        async def note(request: web.Request, handler: Handler) -> web.StreamResponse:
            if (timer := self._timers.pop(request.protocol, None)) is not None:
                timer.cancel()
            return await handler(request)

        app.middlewares.insert(0, note)

    @property
    def server(self) -> Any:
        """Function that asyncio calls to create the protocol of a new connection; None before `setup` has run."""
        return None if super().server is None else self._open_connection

    def _open_connection(self) -> asyncio.Protocol:
        server = super().server
        assert server is not None
        protocol = server()
        self._timers[protocol] = asyncio.get_running_loop().call_later(HEAD_SECONDS, self._close, protocol)
        return protocol

    def _close(self, protocol: web.RequestHandler) -> None:
        del self._timers[protocol]
        protocol.force_close()
