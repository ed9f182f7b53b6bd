"""Giving up a wait that takes too long, where there are very many waits.

A deadline of its own for each chunk costs as much as the engine does for it. So one timer serves all waits of a
stream: it looks now and then whether the present one is overdue, and is set anew only then.

What counts is content, not bytes: a server that sends comments or empty chunks to keep a connection open says nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar

FIRST_SECONDS = 600.0
"""How long the first content of a response may take: silent reasoning, and a long prompt on a local machine."""
BETWEEN_SECONDS = 120.0
"""How long each further content may take."""

T = TypeVar("T")


class Patience:
    """Bounds the waits for content: so many seconds, above 0, for the first, and for each further one.

    Without `between` each wait has `first` seconds of its own, whatever it brings. For one wait at a time; `heard`
    when it brought content; `close` it at the end. The time between two waits, in which the caller does something
    else, does not count.
    """

    def __init__(self, first: float, between: float | None = None) -> None:
        self._left = self.seconds = first
        """`seconds`: the bound of the present waits."""
        self._between = between
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._waits: asyncio.Task[Any] | None = None
        self._due = 0.0
        self._struck = False

    async def on(self, awaited: Awaitable[T]) -> T:
        """Wait for it. Raises TimeoutError once it takes too long; a cancellation from outside goes through."""
        task = asyncio.current_task()
        assert task is not None
        before = task.cancelling()
        self._waits, self._due = task, self._loop.time() + self._left
        if self._timer is None or self._timer.when() > self._due:
            self.close()
            self._timer = self._loop.call_at(self._due, self._look)
        try:
            return await awaited
        except asyncio.CancelledError:
            if self._struck and task.uncancel() <= before:  # ours alone, as in `asyncio.timeout`
                raise TimeoutError from None
            raise
        finally:
            self._waits, self._struck = None, False
            self._left = self.seconds if self._between is None else max(0.0, self._due - self._loop.time())

    def heard(self) -> None:
        """What came was content: the next may take its own time."""
        self._left = self.seconds = self.seconds if self._between is None else self._between

    def close(self) -> None:
        """Put the timer away."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = None
        if self._waits is None:
            return
        if self._loop.time() < self._due:
            self._timer = self._loop.call_at(self._due, self._look)
        else:
            self._struck = True
            self._waits.cancel()
