"""Keeping to what a provider allows: places, rates, fairness, and giving way when it was too much."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from endstop.decision import Usage, WrongUse
from endstop.providers import Fallback, RateLimit, RateLimited, Request, Scripted
from endstop.providers.rate_limit import TokenBucket
from endstop.testing import FakeClock

from .streams import ASK, Slow, chunks_of, heard, nobody_left


async def test_no_more_streams_than_allowed_and_the_others_in_the_order_in_which_they_came() -> None:
    clock = FakeClock()
    slow = Slow(clock, 1, "done")
    limit = RateLimit(slow, streams=2, clock=clock)
    order: list[int] = []

    async def ask(number: int) -> None:
        async with limit.stream(ASK) as chunks:
            order.append(number)
            assert slow.open <= 2
            async for _ in chunks:
                pass

    tasks = [asyncio.create_task(ask(number)) for number in range(7)]
    for _ in range(4):
        await clock.advance(1)
    await asyncio.gather(*tasks)
    assert order == list(range(7))
    assert limit.streams == 0


async def test_a_place_is_free_again_after_an_error_a_cut_and_a_cancellation() -> None:
    clock = FakeClock()
    limit = RateLimit(Slow(clock, "one ", 5, "two"), streams=1, clock=clock)
    async with limit.stream(ASK) as chunks:
        await anext(chunks)
    reading = asyncio.create_task(chunks_of(limit))
    waiting = [asyncio.create_task(chunks_of(limit)) for _ in range(2)]
    await clock.advance(1)
    waiting[0].cancel()
    reading.cancel()
    await asyncio.wait([reading, waiting[0]])
    await clock.advance(6)
    assert len(await waiting[1]) == 3
    assert limit.streams == 0
    await nobody_left()


async def test_someone_let_in_and_cancelled_at_once_gives_the_place_on() -> None:
    clock = FakeClock()
    limit = RateLimit(Slow(clock, 1, "x"), streams=1, clock=clock)
    tasks = [asyncio.create_task(chunks_of(limit)) for _ in range(3)]
    await clock.advance(0.5)
    tasks[0].cancel()
    await asyncio.sleep(0)
    tasks[1].cancel()
    await clock.advance(2)
    assert len(await tasks[2]) == 2
    assert limit.streams == 0


async def test_one_who_gives_up_just_as_a_place_becomes_free_does_no_harm() -> None:
    clock = FakeClock()
    limit = RateLimit(Slow(clock, 1, "x"), streams=1, clock=clock)
    first = asyncio.create_task(chunks_of(limit))
    await clock.advance(0)
    waiting = [asyncio.create_task(chunks_of(limit)) for _ in range(3)]
    await clock.advance(0)
    first.cancel()
    for task in waiting[:2]:
        task.cancel()
    await clock.advance(0)
    await clock.advance(2)
    assert len(await waiting[2]) == 2
    assert all(task.cancelled() for task in (first, *waiting[:2]))
    assert limit.streams == 0


async def test_requests_a_minute_are_spread_after_a_short_burst() -> None:
    clock = FakeClock()
    limit = RateLimit(Scripted(lambda request: "x"), requests_per_minute=60, clock=clock)
    times: list[float] = []

    async def ask() -> None:
        await chunks_of(limit)
        times.append(clock.now())

    tasks = [asyncio.create_task(ask()) for _ in range(12)]
    for _ in range(80):
        await clock.advance(0.1)
    await asyncio.gather(*tasks)
    assert times.count(0.0) == 6, "six seconds' worth at once"
    assert [round(time) for time in times[6:]] == [1, 2, 3, 4, 5, 6]


async def test_tokens_a_minute_are_corrected_by_what_the_provider_counts() -> None:
    clock = FakeClock()
    dear = Scripted(lambda request: "x", usage=Usage(input_tokens=500, output_tokens=500))
    limit = RateLimit(dear, tokens_per_minute=6000, clock=clock)
    await chunks_of(limit)
    waiting = asyncio.create_task(chunks_of(limit))
    await clock.advance(3)
    assert not waiting.done(), "the first took 1,000 where 600 were there: 400 are owed, and the estimate of the next"
    await clock.advance(2)
    await waiting


async def test_a_waiting_for_tokens_that_is_cancelled_gives_them_back() -> None:
    clock = FakeClock()
    limit = RateLimit(Scripted(lambda request: "x"), tokens_per_minute=60, clock=clock)
    request = Request(messages=ASK.messages, settings={"max_tokens": 600})
    waiting = asyncio.create_task(chunks_of(limit, request))
    await clock.advance(1)
    waiting.cancel()
    await asyncio.wait([waiting])
    small = asyncio.create_task(chunks_of(limit))
    await clock.advance(10)
    assert small.done()


# ---- adapting


async def test_after_a_refusal_half_as_many_go_and_nobody_while_the_provider_asks_to_wait() -> None:
    clock = FakeClock()
    script: list[Any] = [RateLimited("slow down", retry_after=5), *["fine"] * 50]
    limit = RateLimit(Scripted(*script), streams=8, clock=clock)
    with pytest.raises(RateLimited):
        await chunks_of(limit)
    assert limit.allowed == 1, "half of those who were inside, and one at least"
    later = asyncio.create_task(chunks_of(limit))
    await clock.advance(4)
    assert not later.done()
    await clock.advance(1)
    await later
    for _ in range(40):
        await chunks_of(limit)
    assert limit.allowed == 8, "it grows back, and not beyond what is allowed"


async def test_those_who_are_refused_together_count_once() -> None:
    clock = FakeClock()
    limit = RateLimit(Slow(clock, 1, RateLimited("slow down", retry_after=0)), streams=100, clock=clock)
    tasks = [asyncio.create_task(chunks_of(limit)) for _ in range(40)]
    await clock.advance(2)
    await asyncio.wait(tasks)
    assert limit.allowed == 20, "half of the forty, and not forty times half"
    assert all(isinstance(task.exception(), RateLimited) for task in tasks)


async def test_who_waits_too_long_for_a_place_is_sent_elsewhere() -> None:
    clock = FakeClock()
    limit = RateLimit(Slow(clock, 9, "at last", model="a"), streams=1, longest_wait=2, clock=clock)
    first = asyncio.create_task(chunks_of(limit))
    await clock.advance(0)
    second = asyncio.create_task(chunks_of(Fallback(limit, Scripted("here", model="b"))))
    third = asyncio.create_task(chunks_of(limit))
    await clock.advance(3)
    assert heard(await second) == ("b", "here")
    with pytest.raises(RateLimited, match="a: none of 1 streams became free within 2 s"):
        await third
    await clock.advance(9)
    assert heard(await first)[1] == "at last"
    assert limit.streams == 0


async def test_a_limit_without_a_number_of_streams_finds_one_when_it_is_too_much() -> None:
    clock = FakeClock()
    limit = RateLimit(Scripted(RateLimited("slow down"), "fine"), clock=clock)
    assert limit.allowed is None
    with pytest.raises(RateLimited):
        await chunks_of(limit)
    assert limit.allowed == 1


async def test_a_limit_that_does_not_adapt_stays_as_it_is() -> None:
    limit = RateLimit(Scripted(RateLimited("slow down", retry_after=99), "fine"), streams=8, adapt=False)
    with pytest.raises(RateLimited):
        await chunks_of(limit)
    assert limit.allowed == 8
    await chunks_of(limit)


@pytest.mark.parametrize("name", ["streams", "requests_per_minute", "tokens_per_minute"])
def test_a_limit_of_nothing_is_refused(name: str) -> None:
    with pytest.raises(WrongUse, match=f"{name} is 0"):
        RateLimit(Scripted(), **{name: 0})


async def test_a_bucket_tells_who_cannot_wait_how_long_it_would_be() -> None:
    clock = FakeClock()
    bucket = TokenBucket(60, clock)
    assert [bucket.try_acquire(1) for _ in range(6)] == [0.0] * 6
    assert bucket.try_acquire(1) == 1.0
    assert bucket.try_acquire(3) == 3.0, "nothing was taken"
    await clock.advance(1)
    assert bucket.try_acquire(1) == 0.0
