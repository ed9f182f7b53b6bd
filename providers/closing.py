"""Waiting for something to end while we are being cancelled ourselves."""

from __future__ import annotations

import asyncio
from typing import Any

import anyio


async def outlive(task: asyncio.Future[Any], seconds: float) -> None:
    """Wait for a task to end, for at most so many seconds, then cancel it; pass on a cancellation of our own.

    A native `Task.cancel()` breaks through a shielded scope (anyio 4.16), so the waiting is taken up again. What the
    task raises is not raised here.
    """
    interrupted: asyncio.CancelledError | None = None
    with anyio.move_on_after(seconds, shield=True) as patience:
        while not task.done():
            try:
                await asyncio.wait([task])
            except asyncio.CancelledError as error:
                if patience.cancel_called:
                    raise
                interrupted = error
    if not task.done():
        task.cancel()
    if interrupted is not None:
        raise interrupted
