"""The bus: events of one run to any number of readers, and publishing never waits for any of them.

One ring of the latest events serves all readers; a reader is no more than a number, the next event it wants. So a
reader that stalls costs nothing, and one that has fallen behind the ring gets a marker with the number of events it
missed and goes on with the oldest one left. A reader can start at any number. The terminal event is the last of a
run: nothing comes after it that could push it out.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from msgspec import Struct

from .decision import Event
from .decision.events import RunFinished

DEFAULT_CAPACITY = 4096
"""Events that a bus keeps for its readers by default."""


class Lagged(Struct, frozen=True):
    """Stands in a reader's stream where events are missing: it was too slow, or began too late."""

    missed: int
    """How many events were passed over."""
    next_seq: int
    """The number of the event that follows."""


class Bus:
    """Events of one run. `keep` is how many of the latest are kept, 1 or more."""

    def __init__(self, keep: int = DEFAULT_CAPACITY) -> None:
        self._ring: list[Event] = []
        self._keep = max(1, keep)
        self._waiting: list[asyncio.Future[None]] = []
        self.last = 0
        """The number of the latest event."""
        self._first = 1
        self.closed = False
        """True once the terminal event is out, or none will come."""

    def start_at(self, seq: int) -> None:
        """Go on with a run of which events up to `seq` were published before, elsewhere."""
        self.last, self._first = seq, seq + 1

    def publish(self, event: Event) -> None:
        """Put an event out. Returns at once, whoever reads."""
        place, self.last = self.last - self._first + 1, self.last + 1
        if place < self._keep:
            self._ring.append(event)
        else:
            self._ring[place % self._keep] = event
        if type(event) is RunFinished:
            self.closed = True
        if self._waiting:
            self._wake()

    def close(self) -> None:
        """End the reading where it is: no terminal event will come."""
        self.closed = True
        self._wake()

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    async def read(self, after: int = 0) -> AsyncIterator[Event | Lagged]:
        """The events after number `after`, up to the terminal one."""
        read, ring, keep, first = after, self._ring, self._keep, self._first
        while True:
            waiting = self.last - read
            if waiting > len(ring):
                oldest = self.last - len(ring) + 1
                yield Lagged(oldest - read - 1, oldest)
                read = oldest - 1
            elif waiting > 0:
                read += 1
                yield ring[(read - first) % keep]
            elif self.closed:
                return
            else:
                future = asyncio.get_running_loop().create_future()
                self._waiting.append(future)
                await future
