"""Streamed responses, with backpressure: a chunk is taken from the generator only once the last one has been sent.

So a slow reader costs a position in the event buffer and the socket's buffers. A reader that takes nothing for too long
is dropped, and its connection with it.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, aclosing, nullcontext
from math import inf

import anyio
import anyio.lowlevel
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ..base.sanitize import one_line
from ..providers._logging import log
from ..providers.clock import Clock, SystemClock
from ..providers.timeouts import Watchdog
from .errors import log_failure
from .middleware import DROPPED

ABORT = "endstop.abort"
"""ASGI extension of `server.Connection` that aborts the connection; other servers only close theirs."""
LARGE_CHUNK = 32 * 1024
"""Bytes of a chunk after which the next one is sent without a pause: the reader has much to catch up on."""


class StreamedResponse(Response):
    """Response that sends the chunks of a generator.

    seconds: how long one send may take before the reader is dropped.
    interval: returns the seconds to pause between two sends in quick succession, so that events are sent together.
        None: no pause.
    slot: entered while the stream is sent, such as a `ReaderSlot`.
    on_disconnect: called if the reader disconnects before the stream has ended.
    """

    def __init__(
        self,
        chunks: AsyncGenerator[bytes, None],
        media_type: str,
        *,
        seconds: float,
        interval: Callable[[], float] | None = None,
        headers: Mapping[str, str] | None = None,
        slot: AbstractContextManager[None] | None = None,
        on_disconnect: Callable[[], Awaitable[None]] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.status_code = 200
        self.background = None
        self.media_type = media_type
        self.init_headers(headers)
        self._chunks = chunks
        self._seconds, self._interval = seconds, interval
        self._slot = slot or nullcontext()
        self._on_disconnect = on_disconnect
        self._clock = clock or SystemClock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send everything, unless the reader disconnects before."""
        complete = False
        with self._slot:
            try:
                async with anyio.create_task_group() as group:
                    group.start_soon(_wait_for_disconnect, receive, group.cancel_scope)
                    complete = await self._send_all(scope, send)
                    group.cancel_scope.cancel()
            finally:
                if not complete and self._on_disconnect is not None:
                    with anyio.CancelScope(shield=True):
                        await self._on_disconnect()

    async def _send_all(self, scope: Scope, send: Send) -> bool:
        """Send everything; False if the stream or the connection failed."""
        watchdog = Watchdog(self._seconds)
        try:
            async with aclosing(self._chunks) as chunks:
                await watchdog.wait_for(
                    send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
                )
                latest = -inf
                async for chunk in chunks:
                    await watchdog.wait_for(send({"type": "http.response.body", "body": chunk, "more_body": True}))
                    interval = 0.0 if self._interval is None else self._interval()
                    if self._clock.now() - latest < 2 * interval and len(chunk) < LARGE_CHUNK:
                        await self._clock.sleep(interval)
                    latest = self._clock.now()
            await watchdog.wait_for(send({"type": "http.response.body", "body": b"", "more_body": False}))
            return True
        except Exception as error:
            await _abort(scope, error)
            return False
        finally:
            watchdog.close()


async def _wait_for_disconnect(receive: Receive, scope: anyio.CancelScope) -> None:
    """Wait until the reader has disconnected, then cancel `scope`."""
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


async def _abort(scope: Scope, error: Exception) -> None:
    """Abort the connection, so that the reader does not take a truncated stream for a complete one."""
    path = one_line(scope["path"], 200)
    if isinstance(error, TimeoutError):
        scope[DROPPED] = True
        log(logging.INFO, "reader dropped: it took nothing for too long", {"path": path})
    else:
        log_failure("stream failed", error, path=path)
    extension = scope.get("extensions", {}).get(ABORT)
    if extension is not None:
        extension["abort"]()
        await (
            anyio.lowlevel.checkpoint()
        )  # so that the server notices the lost connection before the unfinished response
