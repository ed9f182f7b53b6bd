"""The event bus of a run, with any number of readers. Publishing never waits for them.

All readers share one ring buffer of the latest events, and a reader is only a sequence number. A stalled reader
therefore costs nothing, and one that fell behind the ring gets a `Lagged` marker and continues with the oldest event
left. A reader may start at any number. The terminal event is the last of a run, so nothing can push it out of the ring.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from .decision import Event
from .decision.events import RunFinished
from .decision.wrong_attributes import read_often
from .decision.wrong_calls import ExplainedStruct, checked

DEFAULT_CAPACITY = 4096
"""Default number of events that a bus keeps."""


class Lagged(ExplainedStruct, frozen=True):
    """Marker in place of events that a reader missed because it was too slow or started too late."""

    missed: int
    """Number of missing events."""
    next_seq: int
    """Sequence number of the next event in the stream."""


@checked
@read_often
class Bus:
    """Events of one run. keep: how many of the latest stay readable, 1 or more."""

    def __init__(self, keep: int = DEFAULT_CAPACITY) -> None:
        self._ring: list[Event] = []
        self._keep = max(1, keep)
        self._waiting: list[asyncio.Future[None]] = []
        self.last = 0
        """Sequence number of the latest event."""
        self._first = 1
        self.closed = False
        """True once the terminal event was published, or if none will come."""

    def start_at(self, seq: int) -> None:
        """Continue a run whose events up to `seq` were published on another bus."""
        self.last, self._first = seq, seq + 1

    def publish(self, event: Event) -> None:
        """Publish an event. Never waits for a reader."""
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
        """End all readers after the events so far: no terminal event will come."""
        self.closed = True
        self._wake()

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    async def read(self, after: int = 0) -> AsyncIterator[Event | Lagged]:
        """Yield the events after sequence number `after`, up to the terminal one."""
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
