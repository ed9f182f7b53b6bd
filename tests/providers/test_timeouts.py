"""Bounds on a response: each of the four, and that each says what was late."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from endstop.decision import WrongUse
from endstop.providers import Race, Retry, Scripted, TimedOut, Timeouts
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
