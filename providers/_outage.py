"""Log an outage: that something is away, and that it is back, without a line for each attempt to reach it.

The first failure is logged at once, further ones at most once a minute with their number, and the end once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from time import monotonic

from ._logging import log

REPEAT_SECONDS = 60.0
"""Seconds after a warning in which no other one of the same outage is logged."""


class Outage:
    """The outage of one thing that a part of the program waits for, such as a store. Not for use in several threads.

    what: the warning, such as "a run waits for the store". clock: returns seconds, monotonic.

    Whoever waits reports each attempt: `failed` or `over`. All who wait for the same thing report to the same object,
    so that a hundred waiting runs make one line. The warnings point at the caller, in the name of its package.
    """

    def __init__(self, what: str, *, clock: Callable[[], float] = monotonic) -> None:
        self._what, self._clock = what, clock
        self._since: float | None = None
        """When the outage began; None: there is none."""
        self._logged_at: float | None = None
        """When the latest warning was logged, of this outage or an earlier one; None: never."""
        self._unlogged = 0
        """Failures since the latest warning."""
        self._is_logged = False
        """Whether a warning of this outage was logged."""

    def failed(self, **fields: object) -> None:
        """Report that an attempt has failed. fields: for the line, such as `error`."""
        now = self._clock()
        if self._since is None:
            self._since, self._unlogged, self._is_logged = now, 0, False
        if self._logged_at is not None and now < self._logged_at + REPEAT_SECONDS:
            self._unlogged += 1
            return
        again = {"failures": self._unlogged + 1, "seconds": round(now - self._since)} if self._unlogged else {}
        self._logged_at, self._unlogged, self._is_logged = now, 0, True
        log(logging.WARNING, self._what, {**fields, **again}, frames=2)

    def over(self) -> None:
        """Report that an attempt has succeeded. Logs the end of the outage, if that was logged."""
        if self._since is None:
            return
        seconds, self._since = self._clock() - self._since, None
        if self._is_logged:
            log(logging.WARNING, f"back after {seconds:.0f} s", {"from": self._what}, frames=2)


class Outages(dict[str, Outage]):
    """The outages of one part of the program, by their warnings; each is made when it is first asked for."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        super().__init__()
        self._clock = clock

    def __missing__(self, what: str) -> Outage:
        self[what] = Outage(what, clock=self._clock)
        return self[what]
