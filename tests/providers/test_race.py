"""Several providers for one response: the fastest is heard, the rest is given up, counted and closed."""

from __future__ import annotations

import asyncio
from typing import Any

import anyio
import pytest
from endstop import Engine, Tool
from endstop.decision import AttemptEnded, WrongUse
from endstop.decision.events import AttemptFailed
from endstop.providers import Fallback, Hedge, Interrupted, Race, Retry, Scripted, Unavailable
from endstop.testing import FakeClock

from .streams import ASK, Slow, chunks_of, ended, heard, nobody_left


async def told(provider: Any, clock: FakeClock, *, seconds: float = 10) -> Any:
    """What comes of a response while so much time passes."""
    task = asyncio.create_task(chunks_of(provider))
    for _ in range(round(seconds * 10)):
        await clock.advance(0.1)
        if task.done():
            break
    return await task


async def test_the_first_token_wins_and_the_others_are_closed_and_counted() -> None:
    clock = FakeClock()
    slow, fast = Slow(clock, 2, "slow", model="a"), Slow(clock, 1, "fast ", 3, "indeed", model="b")
    chunks = await told(Race(slow, fast, clock=clock), clock)
    assert heard(chunks) == ("b", "fast indeed")
    (loser,) = [chunk for chunk in chunks if isinstance(chunk, AttemptEnded)]
    assert (loser.model, loser.kind, loser.beside) == ("a", "cancelled", True)
    assert loser.usage is not None
    assert loser.usage.estimated
    assert loser.usage.input_tokens > 0
    assert (slow.open, fast.open) == (0, 0)
    await nobody_left()


async def test_until_finished_the_whole_response_counts_and_nothing_is_shown_before() -> None:
    clock = FakeClock()
    early, whole = Slow(clock, 1, "I ", 5, "begin", model="a"), Slow(clock, 2, "I am ", 1, "done", model="b")
    chunks = await told(Race(early, whole, until="finished", clock=clock), clock)
    assert heard(chunks) == ("b", "I am done")


async def test_one_that_fails_leaves_the_race_and_the_last_error_stands() -> None:
    clock = FakeClock()
    fails, wins = Slow(clock, 1, Unavailable("down"), model="a"), Slow(clock, 2, "fine", model="b")
    chunks = await told(Race(fails, wins, clock=clock), clock)
    assert heard(chunks) == ("b", "fine")
    assert ended(chunks, beside=True) == [("a", "server")]
    with pytest.raises(Unavailable, match="also down"):
        await told(Race(fails, Slow(clock, 2, Unavailable("also down")), clock=clock), clock)
    await nobody_left()


async def test_a_winner_that_breaks_off_is_the_streams_error() -> None:
    clock = FakeClock()
    race = Race(Slow(clock, 1, "half", Interrupted("cut")), Slow(clock, 5, "late"), clock=clock)
    with pytest.raises(Interrupted):
        await told(race, clock)
    retried = Retry(race, clock=clock)
    assert heard(await told(Fallback(retried, Scripted("rescued", model="c")), clock, seconds=99)) == ("c", "rescued")
    await nobody_left()


async def test_a_race_that_is_left_early_leaves_nothing_behind() -> None:
    clock = FakeClock()
    one, two = Slow(clock, 1, "one", 9, "more"), Slow(clock, 5, "two")
    ticking = asyncio.create_task(clock.advance(1.5))
    async with Race(one, two, clock=clock).stream(ASK) as chunks:
        async for chunk in chunks:
            if getattr(chunk, "text", ""):
                break
    await ticking
    assert (one.open, two.open) == (0, 0)
    await nobody_left()


async def test_a_cancelled_race_passes_the_cancellation_on_and_leaves_nothing_behind() -> None:
    clock = FakeClock()
    one, two = Slow(clock, 1, "one", 9, "more"), Slow(clock, 5, "two")
    task = asyncio.create_task(chunks_of(Race(one, two, clock=clock)))
    await clock.advance(2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (one.open, two.open) == (0, 0)
    await nobody_left()


async def test_the_winner_does_not_run_far_ahead_of_its_reader() -> None:
    clock = FakeClock()
    words = Slow(clock, *["word"] * 1000)
    async with Race(words, clock=clock).stream(ASK) as chunks:
        await anext(chunks)
        await asyncio.sleep(0)
        assert chunks._queue.qsize() <= 66  # type: ignore[attr-defined]
        assert len([chunk async for chunk in chunks]) == 1001


async def test_a_provider_that_breaks_its_word_does_not_leave_the_reader_waiting() -> None:
    class Odd(Slow):
        async def _play(self) -> Any:
            raise KeyError("index")
            yield

    clock = FakeClock()
    with pytest.raises(Exception, match="odd: KeyError"):
        await told(Race(Odd(clock, model="odd"), clock=clock), clock)


# ---- a head start


async def test_a_hedge_asks_the_second_only_if_the_first_is_slow_to_begin() -> None:
    clock = FakeClock()
    quick, second = Slow(clock, 1, "quick", model="a"), Slow(clock, 1, "second", model="b")
    assert heard(await told(Hedge(quick, second, after=2, clock=clock), clock)) == ("a", "quick")
    assert second.begun == 0
    slow = Slow(clock, 9, "slow", model="a")
    chunks = await told(Hedge(slow, second, after=2, clock=clock), clock)
    assert heard(chunks) == ("b", "second")
    assert ended(chunks, beside=True) == [("a", "cancelled")]
    await nobody_left()


async def test_a_hedge_asks_the_second_at_once_if_the_first_fails() -> None:
    clock = FakeClock()
    first, second = Slow(clock, 1, Unavailable("down"), model="a"), Slow(clock, 0.5, "second", model="b")
    task = asyncio.create_task(chunks_of(Hedge(first, second, after=60, clock=clock)))
    await clock.advance(1)
    await clock.advance(1)
    assert heard(await task) == ("b", "second")
    await nobody_left()


def test_a_hedge_without_a_head_start_is_refused() -> None:
    with pytest.raises(WrongUse, match="after is 0"):
        Hedge(Scripted(), Scripted(), after=0)


class Closes:
    """Notes that it was closed; one that is `cancelled` at that is closed all the same."""

    model = "closes"

    def __init__(self, cancelled: bool) -> None:
        self.closed = False
        self._cancelled = cancelled

    async def __aenter__(self) -> Closes:
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.closed = True
        if self._cancelled:
            raise asyncio.CancelledError

    def stream(self, request: object) -> Any:
        raise AssertionError("nobody asks it")


async def test_a_provider_whose_close_is_cancelled_does_not_leave_the_others_open() -> None:
    providers = [Closes(False), Closes(True), Closes(True)]
    with pytest.raises(asyncio.CancelledError):
        async with Race(*providers):
            pass
    assert all(provider.closed for provider in providers)


async def test_the_tools_of_a_request_count_in_what_a_loser_costs() -> None:
    def big(number: int) -> Tool:
        async def work(a: str) -> str:
            return a

        return Tool(work, name=f"tool_{number}", description="A long description of a tool. " * 20)

    tools, never = [big(number) for number in range(30)], anyio.Event()
    slow, quick = Scripted([never], model="slow"), Scripted("Done.", model="quick")
    engine = Engine(Race(slow, quick), tools=tools)
    async with engine.start("Go.") as run:
        failed = [event async for event in run if isinstance(event, AttemptFailed)]
    (usage,) = [event.usage for event in failed]
    assert usage is not None
    assert usage.input_tokens >= sum(len(tool.spec.description) for tool in tools) // 4
