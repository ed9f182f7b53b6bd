"""How late the event loop is, so that readers give way to runs.

When there is more to do than the machine can, everything in the loop is late, runs included. What readers cost can
wait: who is told three events at once costs as much as who is told one. So while the loop is late, readers are written
to less often, in larger portions, and what is gained goes to the runs.
"""

from __future__ import annotations

import asyncio

EVERY = 0.1
"""Seconds between two looks."""
FINE = 0.004
"""Being so many seconds late is nothing to speak of."""
TIMES = 20.0
"""So many times the lateness is what readers wait longer."""
LONGEST = 1.0
"""The longest that they wait."""


class Lateness:
    """Looks while somebody reads; `late` is in seconds, smoothed over about half a second."""

    def __init__(self) -> None:
        self.late = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def watch(self) -> None:
        """Begin to look, in the running loop."""
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(EVERY, self._look, loop, loop.time() + EVERY)

    def rest(self) -> None:
        """Look no more: nobody reads."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.late = 0.0

    def pause(self, interval: float) -> float:
        """How long a reader waits before it is written to again, where it would be `interval` seconds."""
        if interval == 0 or self.late < FINE:
            return interval
        return min(LONGEST, interval + TIMES * self.late)

    def _look(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        now = loop.time()
        self.late += 0.2 * (max(0.0, now - due) - self.late)
        self._timer = loop.call_later(EVERY, self._look, loop, now + EVERY)
