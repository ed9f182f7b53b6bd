"""Limits of one server: sizes, readers, requests per second, and how often readers are written to under load."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict

from ..decision import WrongUse
from ..decision.wrong_calls import CheckedStruct
from ..providers.clock import Clock
from ..providers.rate_limit import TokenBucket
from ..service.errors import TooMany

MAX_BUCKETS = 10_000
"""Owners or addresses whose request rate is remembered; beyond it the least recent one is dropped."""
CHECK_SECONDS = 0.1
"""Seconds between two measurements of the event loop's lag."""
TOLERATED_SECONDS = 0.004
"""Seconds; a smaller lag does not slow down the writing to readers."""
STRETCH_FACTOR = 20.0
"""How many times the lag is added to the seconds between two writes to a reader."""
MAX_INTERVAL = 1.0
"""The most seconds between two writes to a reader, however large the lag is."""


class WebLimits(CheckedStruct, frozen=True, kw_only=True):
    """Limits of the server. How many sessions may run is a setting of the service.

    Raises WrongUse for a limit that is not above 0.
    """

    body: int = 1024 * 1024
    """The most bytes in a request body."""
    spans: int = 20 * 1024 * 1024
    """The most bytes in a body with spans (`/v1/traces`), packed or unpacked."""
    text: int = 200_000
    """The most characters in a prompt, an answer or a message."""
    body_seconds: float = 30.0
    """Seconds in which a request body must arrive."""
    answer_seconds: float = 10.0
    """Seconds after which a request is given up (503) if the store or the queue does not answer; four times that if
    both do. A stream only has to begin in this time, and `?wait=` comes on top."""
    subscribers: int = 10_000
    """How many streams may be read at the same time."""
    subscribers_each: int = 2_000
    """How many streams one owner may read at the same time."""
    requests_per_second: float | None = 100.0
    """Requests of each owner, without tokens of each address. A burst may use up six seconds' worth. None: no limit."""
    send_seconds: float = 30.0
    """Seconds that one write to a reader may take before its connection is aborted. It can reconnect and resume."""
    write_interval: float = 0.02
    """Seconds between two writes to a reader; events in between are sent together. 0: write immediately.

    While the event loop lags, it is longer, up to a second, see `LoopLag`.
    """

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            enough = value is None or value > 0 or (name == "write_interval" and value == 0)
            if not enough:
                raise WrongUse(f"WebLimits: {name} is {value}: use a number above 0")


class Readers:
    """Counter of the readers of streams; measures the lag of the event loop while there are any."""

    def __init__(self, limits: WebLimits) -> None:
        self._all, self._each = limits.subscribers, limits.subscribers_each
        self._owners: Counter[str] = Counter()
        self.count = 0
        """How many readers there are."""
        self.loop_lag = LoopLag()

    def acquire(self, owner: str) -> ReaderSlot:
        """Count one more reader until the `with` block of the returned slot ends. Raises TooMany."""
        if self.count >= self._all or self._owners[owner] >= self._each:
            raise TooMany("subscribers", "too many streams are being read: close one, or try again later")
        if not self.count:
            self.loop_lag.start()
        self.count += 1
        self._owners[owner] += 1
        return ReaderSlot(self, owner)

    def release(self, owner: str) -> None:
        """Count one reader less."""
        self.count -= 1
        if not self.count:
            self.loop_lag.stop()
        self._owners[owner] -= 1
        if not self._owners[owner]:
            del self._owners[owner]


class ReaderSlot:
    """The slot of a counted reader, freed at the end of its `with` block."""

    def __init__(self, readers: Readers, owner: str) -> None:
        self._readers, self._owner = readers, owner

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: object) -> None:
        self._readers.release(self._owner)


class RequestRates:
    """Limit on the requests of each owner or address, `per_second` on average. None: any number."""

    def __init__(self, per_second: float | None, clock: Clock) -> None:
        self._per_minute = None if per_second is None else per_second * 60
        self._clock = clock
        self._buckets: OrderedDict[str, TokenBucket] = OrderedDict()

    def count(self, who: str) -> None:
        """Count a request of this owner or address. Raises TooMany if it exceeds the rate."""
        if self._per_minute is None:
            return
        bucket = self._buckets.get(who)
        if bucket is None:
            bucket = self._buckets[who] = TokenBucket(self._per_minute, self._clock)
            if len(self._buckets) > MAX_BUCKETS:
                self._buckets.popitem(last=False)
        self._buckets.move_to_end(who)
        if after := bucket.try_acquire(1):
            raise TooMany("rate", "too many requests per second: slow down", after)


class LoopLag:
    """How late the event loop is, in `seconds`, smoothed over about half a second. Measured while there are readers.

    Under overload everything in the loop is late, runs included. Writing to readers can wait: three events in one write
    cost as much as one. So while the loop lags, readers are written to less often, and the time goes to the runs.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Start measuring, in the running event loop."""
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(CHECK_SECONDS, self._measure, loop, loop.time() + CHECK_SECONDS)

    def stop(self) -> None:
        """Stop measuring: there are no readers."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.seconds = 0.0

    def stretch(self, interval: float) -> float:
        """Return the seconds to wait between two writes to a reader: `interval`, or more while the event loop lags."""
        if interval == 0 or self.seconds < TOLERATED_SECONDS:
            return interval
        return min(MAX_INTERVAL, interval + STRETCH_FACTOR * self.seconds)

    def _measure(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        now = loop.time()
        self.seconds += 0.2 * (max(0.0, now - due) - self.seconds)
        self._timer = loop.call_later(CHECK_SECONDS, self._measure, loop, now + CHECK_SECONDS)
