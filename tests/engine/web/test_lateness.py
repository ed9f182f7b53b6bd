"""Readers give way to runs: they wait while the event loop is late, and no longer."""

from __future__ import annotations

import asyncio
import time

from endstop.web.limits import LONGEST, Lateness, Readers, WebLimits


async def busy_until(late: Lateness, seconds: float) -> None:
    """Keep the loop from everything else, again and again, until that has been noticed."""
    for _ in range(200):
        if late.late > seconds:
            return
        time.sleep(0.05)
        await asyncio.sleep(0)
    raise AssertionError("the lateness was never noticed")


async def test_who_writes_waits_longer_while_the_loop_is_late_and_never_longer_than_a_second() -> None:
    late = Lateness()
    late.watch()
    try:
        assert late.pause(0.02) == 0.02
        await busy_until(late, 0.01)
        assert 0.2 < late.pause(0.02) <= LONGEST
        assert late.pause(0) == 0
        late.late = 5.0
        assert late.pause(0.02) == LONGEST
    finally:
        late.rest()
    assert late.pause(0.02) == 0.02


async def test_it_looks_only_while_somebody_reads() -> None:
    readers = Readers(WebLimits())
    assert readers.lateness._timer is None
    with readers.place("ann"), readers.place("bob"):
        timer = readers.lateness._timer
        assert timer is not None
        assert not timer.cancelled()
    assert timer.cancelled()
    assert readers.lateness._timer is None
