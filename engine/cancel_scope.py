"""The shared cancel scope of a round: what is in flight inside it, and what cancelled it.

A round has one scope around everything that it does: the inner loop, which waits inside the scope, and what the inner
loop has started without waiting for it (a stream, reading calls). An accepted completion cancels the scope from
inside, the caller (disconnect, timeout, shutdown) from outside; only the first cause is recorded. Code that leaves the
scope calls `end`, which cancels what is still in flight.

A stream has no separate scope: a completion call makes its reader leave the stream's context, which closes the
connection (`docs/decisions/0005-the-stream-is-left-the-shared-scope-is-cancelled.md`). A stream that is still closing
when the completion is accepted is also in flight.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Literal

import anyio
from anyio.lowlevel import checkpoint_if_cancelled
from msgspec import Struct

from .providers._logging import log_warning
from .providers._wrapper import wait_shielded

SETTLING_SECONDS = 2.0
"""Seconds that a step waits for the stream of the previous step to close."""
CLOSING_SECONDS = 0.1
"""Seconds that the end of a round waits for streams to close before it cancels them."""
ENDING_SECONDS = 0.6
"""Seconds that a cancelled task may take to end before it is left behind."""


class Cause(Struct, frozen=True):
    """Reason why a round was cancelled.

    `detail` is the id of the accepted completion call, the name of the check that is met, or the caller's cause.
    """

    by: Literal["completion", "check", "caller"]
    detail: str


class RoundScope:
    """The shared scope of one round."""

    def __init__(self) -> None:
        self.shared = anyio.CancelScope()
        self.cause: Cause | None = None
        self.error: BaseException | None = None
        """What a task in flight has raised; it ends the round."""
        self._in_flight: set[asyncio.Task[Any]] = set()
        self._slow: set[asyncio.Task[Any]] = set()

    def cancel(self, cause: Cause) -> None:
        """Cancel everything in flight, and the round itself at its next `checkpoint`. Only the first cause is kept."""
        if self.cause is None:
            self.cause = cause
        self.shared.cancel()

    async def checkpoint(self) -> None:
        """Raise the cancellation if the scope is cancelled; otherwise return without yielding to the event loop."""
        if self.shared.cancel_called:
            await checkpoint_if_cancelled()

    @property
    def cut_by(self) -> str | None:
        """The call id of the accepted completion that cancelled the scope, if one did."""
        if self.cause is None or not self.shared.cancel_called:
            return None
        return self.cause.detail if self.cause.by == "completion" else None

    def start(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Start a task that is in flight until it or the round ends. An exception that it raises ends the round."""
        task = asyncio.create_task(work, name=name)
        self._in_flight.add(task)
        task.add_done_callback(self._ended)
        return task

    async def settled(self) -> None:
        """Wait at most 2 seconds until nothing is in flight, so that the next request can reuse the connection."""
        waited_for = self._in_flight - self._slow
        if waited_for:
            await asyncio.wait(waited_for, timeout=SETTLING_SECONDS)
            self._slow = set(self._in_flight)  # waited for only once

    async def end(self) -> None:
        """Cancel what is still in flight. A task that does not end in time is left behind and named in the log."""
        if self._in_flight and not self.shared.cancel_called and self.error is None:
            await asyncio.wait(self._in_flight, timeout=CLOSING_SECONDS)
        tasks = list(self._in_flight)
        for task in tasks:
            task.cancel()
        try:
            if tasks:
                await wait_shielded(asyncio.ensure_future(asyncio.wait(tasks)), ENDING_SECONDS)
        finally:
            for task in tasks:
                if not task.done():
                    log_warning("a cancelled task does not end and is left behind", task=task.get_name())

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._in_flight.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.error = self.error or error
            self.shared.cancel()
