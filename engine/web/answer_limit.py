"""The time in which a request is answered, or its stream begins, whatever its store and its queue do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from .errors import unanswered

T = TypeVar("T")
SilentParts = Callable[[], Awaitable[Sequence[str]]]
"""Returns the parts of the service that do not answer now."""
PATIENCE = 4
"""How many times `seconds` a request may take that waits for something else than a silent part."""


async def answer_in_time(answer: Awaitable[T], seconds: float, silent_parts: SilentParts) -> T:
    """Return the answer to a request. Raises HttpError (503) if it takes too long.

    That is `seconds` while a part of the service is silent, and `PATIENCE` times that otherwise: a request that is only
    slow is not cut off, as its client would repeat it. What was shielded goes on: a session may start all the same.
    """
    loop = asyncio.get_running_loop()
    watching: asyncio.Task[None] | None = None
    parts: list[str] = []

    async def watch() -> None:
        for number in range(1, PATIENCE + 1):
            parts[:] = await silent_parts()
            if parts or number == PATIENCE:
                break
            await asyncio.sleep(seconds)
        limit.reschedule(loop.time())

    def begin() -> None:
        nonlocal watching
        watching = asyncio.create_task(watch(), name="endstop answer limit")

    timer = loop.call_later(seconds, begin)
    try:
        async with asyncio.timeout(None) as limit:
            return await answer
    except TimeoutError:
        if not limit.expired():
            raise
        raise unanswered(parts) from None
    finally:
        timer.cancel()
        if watching is not None:
            watching.cancel()
