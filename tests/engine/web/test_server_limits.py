"""Readers give way to runs: they wait while the event loop is late, and no longer."""

from __future__ import annotations

import asyncio
import time

from endstop.web.server_limits import MAX_INTERVAL, LoopLag, Readers, WebLimits


async def busy_until(lag: LoopLag, seconds: float) -> None:
    """Keep the loop from everything else, again and again, until that has been noticed."""
    for _ in range(200):
        if lag.seconds > seconds:
            return
        time.sleep(0.05)
        await asyncio.sleep(0)
    raise AssertionError("the lateness was never noticed")


async def test_who_writes_waits_longer_while_the_loop_is_late_and_never_longer_than_a_second() -> None:
    lag = LoopLag()
    lag.start()
    try:
        assert lag.stretch(0.02) == 0.02
        await busy_until(lag, 0.01)
        assert 0.2 < lag.stretch(0.02) <= MAX_INTERVAL
        assert lag.stretch(0) == 0
        lag.seconds = 5.0
        assert lag.stretch(0.02) == MAX_INTERVAL
    finally:
        lag.stop()
    assert lag.stretch(0.02) == 0.02


async def test_it_looks_only_while_somebody_reads() -> None:
    readers = Readers(WebLimits())
    assert readers.loop_lag._timer is None
    with readers.acquire("ann"), readers.acquire("bob"):
        timer = readers.loop_lag._timer
        assert timer is not None
        assert not timer.cancelled()
    assert timer.cancelled()
    assert readers.loop_lag._timer is None
