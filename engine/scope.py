"""The shared cancel scope of a round, what is in flight inside it, and who cancelled it.

There is one scope a round, and it is around all that the round does: the inner loop itself, which waits inside it, and
what the inner loop has begun and not waited for yet (the stream, reading calls). An accepted completion cancels it
from inside, the caller (disconnect, timeout, shutdown) from outside; the first cause to fire is the one that is
recorded. Whoever leaves the scope calls `end`, which gives up whatever is still in flight.

The stream has no scope of its own: a completion call makes its reader *leave* the stream's context, which closes the
connection (decision note 5). What is still being closed when the completion is accepted is in flight like all else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Literal

import anyio
from anyio.lowlevel import checkpoint_if_cancelled
from msgspec import Struct

from ._logging import complain
from .providers.closing import outlive

SETTLING_SECONDS = 2.0
"""How long a step waits for what the step before it has left in flight: a stream that is still being closed."""
CLOSING_SECONDS = 0.1
"""How long the end of a round waits for streams that are being closed, before it cancels that."""
ENDING_SECONDS = 0.6
"""How long what was cancelled may take to end, before it is left behind."""


class Cause(Struct, frozen=True):
    """Why a round was cancelled: the call id of an accepted completion, or the caller's word."""

    by: Literal["completion", "caller"]
    detail: str


class RoundScope:
    """The shared scope of one round."""

    def __init__(self) -> None:
        self.shared = anyio.CancelScope()
        self.cause: Cause | None = None
        self.error: BaseException | None = None
        """What something in flight has raised; it ends the round."""
        self._in_flight: set[asyncio.Task[Any]] = set()
        self._slow: set[asyncio.Task[Any]] = set()

    def cancel(self, cause: Cause) -> None:
        """End everything in flight. Only the first cause is kept."""
        if self.cause is None:
            self.cause = cause
        self.shared.cancel()

    async def checkpoint(self) -> None:
        """Go no further if the scope is cancelled. Gives way to nobody if it is not."""
        if self.shared.cancel_called:
            await checkpoint_if_cancelled()

    @property
    def cut_by(self) -> str | None:
        """The accepted completion that ended the round, if one did."""
        if self.cause is None or not self.shared.cancel_called:
            return None
        return self.cause.detail if self.cause.by == "completion" else None

    def start(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Begin something that is in flight until it ends, or until the round does. What it raises ends the round."""
        task = asyncio.create_task(work, name=name)
        self._in_flight.add(task)
        task.add_done_callback(self._ended)
        return task

    async def settled(self) -> None:
        """Wait a while until nothing is in flight: a connection that is free again serves the next request."""
        waited_for = self._in_flight - self._slow
        if waited_for:
            await asyncio.wait(waited_for, timeout=SETTLING_SECONDS)
            self._slow = set(self._in_flight)  # nothing waits for these again

    async def end(self) -> None:
        """Give up what is still in flight. What does not end in time is left behind, and named in the log."""
        if self._in_flight and not self.shared.cancel_called and self.error is None:
            await asyncio.wait(self._in_flight, timeout=CLOSING_SECONDS)
        tasks = list(self._in_flight)
        for task in tasks:
            task.cancel()
        try:
            if tasks:
                await outlive(asyncio.ensure_future(asyncio.wait(tasks)), ENDING_SECONDS)
        finally:
            for task in tasks:
                if not task.done():
                    complain("it does not end although it was cancelled, and is left behind", task=task.get_name())

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._in_flight.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.error = self.error or error
            self.shared.cancel()
