"""A gate with so many places, and a bucket that fills again. Both are fair: who comes first is let through first.

Our own and no library's, because both take their time from a `Clock`, so that tests own it, and the gate changes its
width while it is in use.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from .clock import Clock

PAUSE = 1.0
"""Seconds for which nothing passes after a refusal that names no time."""
BURST_SECONDS = 6.0
"""A bucket holds what may pass in so many seconds; so much may pass at once after a rest."""


class Gate:
    """Lets at most `places` through at once; None for any number."""

    def __init__(self, places: int | None, clock: Clock) -> None:
        self.inside = 0
        self.allowed: float | None = places
        self._places = places
        self._clock = clock
        self._shut_until = 0.0
        self._backed_off = 0
        """How often it has been too much."""
        self._waiting: deque[asyncio.Future[None]] = deque()

    @asynccontextmanager
    async def entered(self, within: float | None = None) -> AsyncIterator[int]:
        """Hold a place; gives the number to name in `back_off`.

        Raises TimeoutError if there is none within so many seconds.
        """
        with self._clock.deadline(within) as scope:
            await self._enter()
        if scope.cancelled_caught:
            raise TimeoutError
        try:
            while (left := self._shut_until - self._clock.now()) > 0:
                await self._clock.sleep(left)
            yield self._backed_off
        finally:
            self.inside -= 1
            self._let_in()

    def back_off(self, number: int, seconds: float | None) -> None:
        """It was too much: half as many as were inside from now on, and nobody for so many seconds.

        Those who were let in together are refused together, which counts once.
        """
        self._shut_until = max(self._shut_until, self._clock.now() + (PAUSE if seconds is None else seconds))
        if number == self._backed_off:
            self._backed_off += 1
            self.allowed = max(1.0, min(self.inside, self.allowed or self.inside) / 2)

    def ease(self) -> None:
        """It went well: one more for each full round of those who are allowed."""
        if self.allowed is None:
            return
        self.allowed += 1 / self.allowed
        if self._places is not None:
            self.allowed = min(self.allowed, self._places)
        self._let_in()

    async def _enter(self) -> None:
        if not self._waiting and self._has_room():
            self.inside += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # let in and cancelled at the same moment: on to the next
                self.inside -= 1
                self._let_in()
            elif turn in self._waiting:
                self._waiting.remove(turn)
            raise

    def _let_in(self) -> None:
        while self._waiting and self._has_room():
            turn = self._waiting.popleft()
            if not turn.done():
                self.inside += 1
                turn.set_result(None)

    def _has_room(self) -> bool:
        return self.allowed is None or self.inside < int(self.allowed)


class Bucket:
    """Lets so much through a minute. Who takes more than there is waits until it has come in."""

    def __init__(self, per_minute: float, clock: Clock) -> None:
        self._per_second = per_minute / 60
        self._most = max(1.0, self._per_second * BURST_SECONDS)
        self._level = self._most
        self._clock = clock
        self._looked = clock.now()

    async def take(self, amount: float) -> None:
        """Take so much, and wait until it is there; given back if the waiting is cancelled."""
        self._fill()
        self._level -= amount
        if self._level >= 0:
            return
        try:
            await self._clock.sleep(-self._level / self._per_second)
        except BaseException:
            self._level += amount
            raise

    def lacking(self, amount: float) -> float:
        """Take so much if it is there; else take nothing, and give the seconds until it will be."""
        self._fill()
        if self._level < amount:
            return (amount - self._level) / self._per_second
        self._level -= amount
        return 0.0

    def correct(self, more: float) -> None:
        """It was so much more, or less, than was taken."""
        self._level = min(self._most, self._level - more)

    def _fill(self) -> None:
        now = self._clock.now()
        self._level = min(self._most, self._level + (now - self._looked) * self._per_second)
        self._looked = now
