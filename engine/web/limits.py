"""What one server takes on: sizes, readers, requests a second."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict

from msgspec import Struct

from ..decision import WrongUse
from ..providers.clock import Clock
from ..providers.rate_limit import TokenBucket
from ..service.errors import TooMany

MAX_BUCKETS = 10_000
"""So many owners or clients are remembered, the latest ones."""


# How late the event loop is, so that readers give way to runs.
#
# When there is more to do than the machine can, everything in the loop is late, runs included. What readers cost can
# wait: who is told three events at once costs as much as who is told one. So while the loop is late, readers are
# written to less often, in larger portions, and what is gained goes to the runs.

CHECK_SECONDS = 0.1
"""Seconds between two looks."""
TOLERATED_SECONDS = 0.004
"""Being so many seconds late is nothing to speak of."""
STRETCH_FACTOR = 20.0
"""So many times the lateness is what readers wait longer."""
MAX_INTERVAL = 1.0
"""The longest that they wait."""


class WebLimits(Struct, frozen=True, kw_only=True):
    """Limits of the server. How many sessions may run is a setting of the service."""

    body: int = 1024 * 1024
    """Bytes of a request's body."""
    text: int = 200_000
    """Characters of a prompt, an answer or a message."""
    body_seconds: float = 30.0
    """How long a body may take to come."""
    subscribers: int = 10_000
    """Readers of streams at once."""
    subscribers_each: int = 2_000
    """The same for each owner."""
    requests_per_second: float | None = 100.0
    """For each owner; without tokens for each address. Six seconds' worth may come at once. None: any number."""
    send_seconds: float = 30.0
    """After so long a reader that takes nothing is dropped; it can resume."""
    write_interval: float = 0.02
    """Seconds between two writes to one reader: what comes meanwhile goes out together. 0: write at once.

    It is longer, up to a second, while the event loop is late: readers give way to runs.
    """

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            enough = value is None or value > 0 or (name == "write_interval" and value == 0)
            if not enough:
                raise WrongUse(f"WebLimits: {name} is {value}: use more than 0")


class Readers:
    """Counts those who read streams."""

    def __init__(self, limits: WebLimits) -> None:
        self._all, self._each = limits.subscribers, limits.subscribers_each
        self._owners: Counter[str] = Counter()
        self.count = 0
        """How many there are now."""
        self.loop_lag = LoopLag()

    def acquire(self, owner: str) -> ReaderSlot:
        """Count one more, until the place is left. Raises TooMany."""
        if self.count >= self._all or self._owners[owner] >= self._each:
            raise TooMany("subscribers", "too many streams are being read: close one, or come back later")
        if not self.count:
            self.loop_lag.start()
        self.count += 1
        self._owners[owner] += 1
        return ReaderSlot(self, owner)

    def release(self, owner: str) -> None:
        """Count one less."""
        self.count -= 1
        if not self.count:
            self.loop_lag.stop()
        self._owners[owner] -= 1
        if not self._owners[owner]:
            del self._owners[owner]


class ReaderSlot:
    """A reader's place; it is taken already, and left at the end of the block."""

    def __init__(self, readers: Readers, owner: str) -> None:
        self._readers, self._owner = readers, owner

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: object) -> None:
        self._readers.release(self._owner)


class RequestRates:
    """So many requests a second for each owner or address. For None any number."""

    def __init__(self, per_second: float | None, clock: Clock) -> None:
        self._per_minute = None if per_second is None else per_second * 60
        self._clock = clock
        self._buckets: OrderedDict[str, TokenBucket] = OrderedDict()

    def count(self, who: str) -> None:
        """Count one request. Raises TooMany if it is one too many."""
        if self._per_minute is None:
            return
        bucket = self._buckets.get(who)
        if bucket is None:
            bucket = self._buckets[who] = TokenBucket(self._per_minute, self._clock)
            if len(self._buckets) > MAX_BUCKETS:
                self._buckets.popitem(last=False)
        self._buckets.move_to_end(who)
        if after := bucket.try_acquire(1):
            raise TooMany("rate", "too many requests a second: slow down", after)


class LoopLag:
    """Looks while somebody reads; `late` is in seconds, smoothed over about half a second."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin to look, in the running loop."""
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(CHECK_SECONDS, self._look, loop, loop.time() + CHECK_SECONDS)

    def stop(self) -> None:
        """Look no more: nobody reads."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.seconds = 0.0

    def stretch(self, interval: float) -> float:
        """How long a reader waits before it is written to again, where it would be `interval` seconds."""
        if interval == 0 or self.seconds < TOLERATED_SECONDS:
            return interval
        return min(MAX_INTERVAL, interval + STRETCH_FACTOR * self.seconds)

    def _look(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        now = loop.time()
        self.seconds += 0.2 * (max(0.0, now - due) - self.seconds)
        self._timer = loop.call_later(CHECK_SECONDS, self._look, loop, now + CHECK_SECONDS)
