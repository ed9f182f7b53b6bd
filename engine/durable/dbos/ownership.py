"""Whose a run is: DBOS looks when it writes a result down, which is too late for work that should not begin."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import TypeVar

from ...durability import LostRun
from .client import Connection

T = TypeVar("T")
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 10.0
_SURE_SECONDS = 0.5
"""How long an answer holds. A run is taken from a process only once that one is dead, or has been silent for longer: a
look before every step would cost a third of what a step costs."""


async def patiently(ask: Callable[[], Awaitable[T]]) -> T:
    """What the database answers, once it is there: a run in work waits for it, as DBOS lets it wait for its results."""
    pause = _FIRST_PAUSE
    while True:
        try:
            return await ask()
        except ConnectionError:
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)


class Ownership:
    """One execution of a run, in this process."""

    def __init__(self, connection: Connection, run: str, process: str) -> None:
        self._connection = connection
        self._run = run
        self._process = process
        self._since: int | None = None
        self._sure_until = 0.0
        self._lost = False

    def lose(self) -> None:
        """It is known that the run is not ours any more."""
        self._lost = True

    def confirm(self, asked_at: float) -> None:
        """DBOS has kept a result, which it does for the owner alone. asked_at: `monotonic()` before it was asked to."""
        self._sure_until = asked_at + _SURE_SECONDS

    async def check(self) -> None:
        """Raises LostRun if somebody else has the run now, or nobody. Waits for a database that is away."""
        if self._lost or monotonic() >= self._sure_until:
            await patiently(self._look)

    async def _look(self) -> None:
        asked_at = monotonic()
        status = None if self._lost else await self._connection.status(self._run)
        if status is None or status.status != "PENDING" or status.executor_id != self._process:
            self._lost = True
        elif self._since is None:
            self._since = status.dequeued_at
        elif status.dequeued_at != self._since:  # it was taken from us, and given to us again
            self._lost = True
        if self._lost:
            raise LostRun(f"run {self._run} is not this process's any more")
        self.confirm(asked_at)
