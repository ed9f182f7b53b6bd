"""Bounds on a response: each of the four, and that each says what was late."""

from __future__ import annotations

import asyncio
from typing import Any

import anyio
import pytest
from endstop.decision import WrongUse
from endstop.providers import Race, Retry, Scripted, TimedOut, Timeouts
from endstop.providers.timeouts import Watchdog
from endstop.testing import FakeClock

from .streams import Slow, chunks_of, heard, nobody_left


@pytest.mark.parametrize(
    ("script", "opening", "bounds", "words"),
    [
        (("x",), 9, {"connect": 3}, "slow: no answer within 3 s"),
        ((9, "x"), 0, {"first": 3}, "slow: no first content within 3 s"),
        (("x", 9, "y"), 0, {"between": 3}, "slow: no further content within 3 s"),
        (("x", 2, "y", 2, "z"), 0, {"between": 3, "total": 3}, "slow: the response was not complete within 3 s"),
        (("x",), 9, {"connect": 20, "total": 3}, "slow: the response was not complete within 3 s"),
    ],
)
async def test_what_is_late_is_given_up_and_named(script: Any, opening: float, bounds: Any, words: str) -> None:
    clock = FakeClock()
    slow = Slow(clock, *script, opening=opening)
    task = asyncio.create_task(chunks_of(Timeouts(slow, clock=clock, **bounds)))
    for _ in range(8):
        await clock.advance(1)
    with pytest.raises(TimedOut, match=words):
        await task
    assert slow.open == 0
    await nobody_left()


async def test_what_is_in_time_passes() -> None:
    clock = FakeClock()
    slow = Slow(clock, 2, "x", 2, "y", opening=2)
    bounded = Timeouts(slow, connect=3, first=3, between=3, total=7, clock=clock)
    task = asyncio.create_task(chunks_of(bounded))
    for _ in range(8):
        await clock.advance(1)
    assert heard(await task)[1] == "xy"


async def test_an_endless_response_is_ended_by_total_alone() -> None:
    clock = FakeClock()
    endless = Slow(clock, *[1, "and on "] * 1000)
    task = asyncio.create_task(chunks_of(Timeouts(endless, total=60, clock=clock)))
    for _ in range(70):
        await clock.advance(1)
    with pytest.raises(TimedOut, match="not complete within 60 s"):
        await task


async def test_a_retry_around_it_asks_again_and_it_can_stand_around_a_race() -> None:
    clock = FakeClock()
    slow = Slow(clock, 9, "late")
    assert isinstance(Timeouts(Race(slow, Scripted("now"), clock=clock), clock=clock), Timeouts)
    task = asyncio.create_task(
        chunks_of(Timeouts(Retry(Timeouts(Race(slow, slow, clock=clock), first=1, clock=clock), clock=clock)))
    )
    for _ in range(10):
        await clock.advance(60)
        if task.done():
            break
    with pytest.raises(TimedOut):
        await task
    assert slow.begun == 6, "three attempts of two"
    assert slow.open == 0
    await nobody_left()


@pytest.mark.parametrize("name", ["connect", "first", "between", "total"])
def test_no_time_at_all_is_refused(name: str) -> None:
    with pytest.raises(WrongUse, match=f"{name} is 0"):
        Timeouts(Scripted(), **{name: 0})


# ---- one timer for many waits: none takes too long, and nobody else's cancellation is swallowed


class Time:
    """The running loop's time, which goes on only when it is told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._now = 0.0
        self._loop = asyncio.get_running_loop()
        monkeypatch.setattr(self._loop, "time", lambda: self._now)

    async def passes(self, seconds: float) -> None:
        self._now += seconds
        for _ in range(5):
            await asyncio.sleep(0)


async def test_a_wait_that_takes_too_long_is_given_up_and_others_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    time, said = Time(monkeypatch), []

    async def wait() -> None:
        watchdog = Watchdog(10)
        try:
            for event in events:
                await watchdog.wait_for(event.wait())
                said.append("heard")
        except TimeoutError:
            said.append("given up")
        finally:
            watchdog.close()

    events = [asyncio.Event(), asyncio.Event(), asyncio.Event()]
    waiting = asyncio.create_task(wait())
    for event in events[:2]:
        await time.passes(9)
        event.set()
        await time.passes(0)
    await time.passes(9.5)
    assert said == ["heard", "heard"], "27.5 s in all, but never 10 in one wait"
    await time.passes(0.6)
    await waiting
    assert said == ["heard", "heard", "given up"]
    assert waiting.cancelling() == 0


async def test_a_cancellation_from_outside_is_one() -> None:
    watchdog = Watchdog(60)
    waiting = asyncio.create_task(watchdog.wait_for(asyncio.Event().wait()))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    watchdog.close()
    with anyio.CancelScope() as scope:
        scope.cancel()
        await watchdog.wait_for(anyio.sleep_forever())
    assert scope.cancelled_caught
    watchdog.close()


async def test_both_at_once_is_a_cancellation(monkeypatch: pytest.MonkeyPatch) -> None:
    time, watchdog = Time(monkeypatch), Watchdog(10)
    waiting = asyncio.create_task(watchdog.wait_for(asyncio.Event().wait()))
    await time.passes(1)
    asyncio.get_running_loop().call_soon(waiting.cancel)
    await time.passes(10)
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_nothing_is_left_in_the_loop_between_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    time, watchdog = Time(monkeypatch), Watchdog(10)
    await watchdog.wait_for(asyncio.sleep(0))
    await time.passes(11)  # the timer finds nobody waiting
    await watchdog.wait_for(asyncio.sleep(0))
    await time.passes(5)
    watchdog.close()
    await time.passes(20)
