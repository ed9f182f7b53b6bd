"""Asking again: which errors, how often, how long in between, and what a reader sees of it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from endstop.decision import WrongUse
from endstop.providers import (
    BadRequest,
    ContextOverflow,
    Exhausted,
    Fallback,
    Interrupted,
    ProtocolError,
    ProviderError,
    RateLimited,
    Retry,
    Scripted,
    TimedOut,
    Unauthorized,
    Unavailable,
    Unreachable,
    say,
)
from endstop.providers.errors import QuotaExceeded
from endstop.providers.retry import backoff_sum
from endstop.testing import FakeClock

from ..captured_logs import capture_logs
from .streams import ASK, chunks_of, ended, heard


class Waits(FakeClock):
    """A clock that notes each wait and lets it pass at once."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        await asyncio.sleep(0)


def failing(error: ProviderError, times: int) -> Scripted:
    return Scripted(*[error] * times, "fine")


@pytest.mark.parametrize(
    ("error", "times", "requests"),
    [
        (RateLimited("slow down"), 5, 6),
        (RateLimited("slow down"), 6, 6),
        (Unavailable("down"), 3, 4),
        (Unavailable("down"), 4, 4),
        (Interrupted("cut"), 2, 3),
        (Unauthorized("no key"), 1, 1),
        (BadRequest("no"), 1, 1),
    ],
)
async def test_what_may_pass_is_asked_again_so_often_as_its_kind_allows(
    error: ProviderError, times: int, requests: int
) -> None:
    provider = failing(error, times)
    retry = Retry(provider, clock=Waits())
    if requests > times:
        assert heard(await chunks_of(retry)) == ("scripted", "fine")
    else:
        with pytest.raises(type(error)):
            await chunks_of(retry)
    assert len(provider.requests) == requests


async def test_each_kind_has_its_own_patience() -> None:
    provider = Scripted(Unavailable("a"), RateLimited("b"), Unavailable("c"), "fine")
    await chunks_of(Retry(provider, times={"server": 2, "rate_limit": 1}, clock=Waits()))
    again = Scripted(Unavailable("a"), RateLimited("b"), RateLimited("c"), "fine")
    with pytest.raises(RateLimited, match="c"):
        await chunks_of(Retry(again, times={"server": 2, "rate_limit": 1}, clock=Waits()))


async def test_the_waits_grow_are_random_and_have_a_longest() -> None:
    clock = Waits()
    await chunks_of(Retry(failing(RateLimited("x"), 5), first_wait=1, longest_wait=4, clock=clock, seed=1))
    assert len(set(clock.waits)) == 5
    assert all(0 <= wait <= bound for wait, bound in zip(clock.waits, (1, 2, 4, 4, 4), strict=True))
    other = Waits()
    await chunks_of(Retry(failing(RateLimited("x"), 5), first_wait=1, longest_wait=4, clock=other, seed=1))
    assert other.waits == clock.waits, "the same seed waits the same"


async def test_a_provider_that_says_how_long_to_wait_is_believed_up_to_the_longest_wait() -> None:
    clock = Waits()
    await chunks_of(Retry(failing(RateLimited("x", retry_after=7), 1), clock=clock))
    assert clock.waits == [7]
    with pytest.raises(RateLimited):
        await chunks_of(Retry(failing(RateLimited("x", retry_after=61), 1), clock=clock))
    assert clock.waits == [7], "waiting an hour is for somebody else to decide"


async def test_what_was_shown_before_an_error_is_declared_void_and_said_anew() -> None:
    provider = Scripted([*say("half of"), Interrupted("cut")], "all of it")
    chunks = await chunks_of(Retry(provider, clock=Waits()))
    assert heard(chunks) == ("scripted", "all of it")
    assert ended(chunks, beside=False) == [("scripted", "interrupted")]


async def test_for_readers_who_cannot_take_back_an_error_after_output_stands() -> None:
    provider = Scripted([*say("half of"), Interrupted("cut")], "all of it")
    retry = Retry(provider, after_output=False, clock=Waits())
    with pytest.raises(Interrupted):
        await chunks_of(retry)
    assert await chunks_of(Retry(Scripted(Interrupted("early"), "fine"), after_output=False, clock=Waits()))


async def test_a_response_that_is_left_early_is_closed_and_not_asked_for_again() -> None:
    provider = Scripted(Unavailable("down"), say("one two three", pieces=3), "never")
    async with Retry(provider, clock=Waits()).stream(ASK) as chunks:
        async for chunk in chunks:
            if getattr(chunk, "text", ""):
                break
    assert provider.sent == [0, 1]


async def test_a_cancelled_wait_passes_the_cancellation_on() -> None:
    retry = Retry(failing(RateLimited("x"), 1), clock=FakeClock())
    task = asyncio.create_task(chunks_of(retry))
    await asyncio.sleep(0.0)
    await asyncio.sleep(0.0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"times": {"rate": 1}}, "times has unknown kinds rate"),
        ({"first_wait": 9, "longest_wait": 1}, "first_wait is 9"),
    ],
)
def test_settings_that_cannot_work_are_refused(options: Any, words: str) -> None:
    with pytest.raises(WrongUse, match=words):
        Retry(Scripted(), **options)


async def test_a_fallback_asks_the_next_one_also_in_mid_stream_and_the_last_error_stands() -> None:
    first = Scripted([*say("half"), Unavailable("down")], model="a")
    second = Scripted(Unauthorized("no key"), model="b")
    third = Scripted("from c", model="c")
    chunks = await chunks_of(Fallback(first, second, third))
    assert heard(chunks) == ("c", "from c")
    assert ended(chunks, beside=False) == [("a", "server"), ("b", "auth")]
    with pytest.raises(Unauthorized):
        await chunks_of(Fallback(Scripted(Unavailable("down")), Scripted(Unauthorized("no key"))))


async def test_a_fallback_leaves_errors_that_are_no_trouble_of_a_provider() -> None:
    first, second = Scripted("only one"), Scripted("fine")
    await chunks_of(first)
    with pytest.raises(Exhausted):
        await chunks_of(Fallback(first, second))
    assert not second.requests


async def test_a_wrapper_of_nothing_or_of_no_provider_is_refused() -> None:
    with pytest.raises(WrongUse, match="needs a provider to wrap"):
        Fallback()
    with pytest.raises(WrongUse, match="is not a provider: it is a model's name"):
        Retry("gpt-4o")  # type: ignore[arg-type]


# ---- a number for all kinds, and a provider that is away


class Passing(Waits):
    """A clock on which each wait takes the time that it is for, without waiting."""

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds)
        self._now += seconds


@pytest.mark.parametrize("times", [0, 1, 3, 8, 50, 1100])
async def test_a_number_of_retries_is_that_number_whatever_fails(times: int) -> None:
    errors = [Unavailable("down"), Unreachable("gone"), RateLimited("slow down"), TimedOut("late"), Interrupted("cut")]
    provider = Scripted(*[errors[number % 5] for number in range(times + 1)], "fine")
    clock = Passing()
    with pytest.raises(ProviderError):
        await chunks_of(Retry(provider, times=times, clock=clock))
    assert len(provider.requests) == times + 1
    assert clock.now() <= backoff_sum(times)
    enough = Scripted(*[errors[number % 5] for number in range(times)], "fine")
    assert heard(await chunks_of(Retry(enough, times=times, clock=clock)))[1] == "fine"


def test_how_long_retries_take_at_most_is_the_sum_of_their_bounds() -> None:
    assert [backoff_sum(times) for times in (0, 1, 2, 5, 8)] == [0, 0.5, 1.5, 15.5, 123.5]
    assert backoff_sum(3, first_wait=2, longest_wait=3) == 2 + 3 + 3


AWAY = [
    Unreachable("refused"),
    TimedOut("late", status=504),
    RateLimited("overloaded", status=429),
    Interrupted("reset before any content"),
    *(Unavailable("gateway", status=status) for status in (502, 503, 529)),
]
HERE = [
    Unauthorized("no key", status=401),
    Unauthorized("forbidden", status=403),
    BadRequest("no", status=400),
    ContextOverflow("too long", status=413),
    QuotaExceeded("pay", status=429),
    Unavailable("broken", status=500),
    ProtocolError("nonsense"),
]


@pytest.mark.parametrize("error", AWAY, ids=repr)
async def test_a_provider_that_is_away_is_waited_for_as_long_as_was_said_and_no_longer(error: ProviderError) -> None:
    clock, provider = Passing(), Scripted(*[error] * 1000)
    with pytest.raises(type(error)):
        await chunks_of(Retry(provider, times=2, provider_wait=300, clock=clock))
    assert clock.now() == pytest.approx(300)
    assert max(clock.waits) <= 15
    assert 20 < len(provider.requests) < 120


@pytest.mark.parametrize("error", HERE, ids=repr)
async def test_who_is_refused_for_what_he_sends_does_not_wait(error: ProviderError) -> None:
    clock, provider = Passing(), Scripted(*[error] * 5)
    with pytest.raises(type(error)):
        await chunks_of(Retry(provider, times=0, provider_wait=300, clock=clock))
    assert (len(provider.requests), clock.now()) == (1, 0)


async def test_without_a_wait_nothing_changes() -> None:
    provider = Scripted(*[Unreachable("refused")] * 9)
    with pytest.raises(Unreachable):
        await chunks_of(Retry(provider, times=2, clock=Passing()))
    assert len(provider.requests) == 3


async def test_the_wait_begins_anew_with_each_response() -> None:
    clock = Passing()
    errors = [Unreachable("refused")] * 10
    retry = Retry(Scripted(*errors, "one", *errors, "two"), times=0, provider_wait=100, clock=clock)
    assert heard(await chunks_of(retry)) == ("scripted", "one")
    assert heard(await chunks_of(retry)) == ("scripted", "two")
    assert clock.now() > 100


async def test_a_wait_of_five_minutes_is_a_line_a_minute_and_one_for_its_end() -> None:
    clock = Passing()

    def response(request: object) -> object:
        return Unavailable("down", status=503) if clock.now() < 290 else "fine"

    with capture_logs() as logs:
        await chunks_of(Retry(Scripted(response), times=0, provider_wait=300, clock=clock))
    assert [log["event"] for log in logs[:-1]] == ["requests wait for a provider"] * len(logs[:-1])
    assert 4 <= len(logs[:-1]) <= 5
    assert (logs[0]["model"], logs[0]["kind"], logs[0]["status"]) == ("scripted", "server", 503)
    assert logs[-1]["event"].startswith("back after ")
    assert logs[-1]["from"] == "requests wait for a provider"


@pytest.mark.parametrize("asked", [0.0, 0.001, 40.0, 86_400.0])
async def test_what_the_provider_asks_for_neither_ends_the_wait_nor_hurries_it(asked: float) -> None:
    clock, provider = Passing(), Scripted(*[RateLimited("overloaded", status=429, retry_after=asked)] * 1000)
    with pytest.raises(RateLimited):
        await chunks_of(Retry(provider, times=0, provider_wait=300, clock=clock))
    assert clock.now() == pytest.approx(300)
    assert len(provider.requests) < 120


async def test_a_provider_that_breaks_off_after_output_is_not_away() -> None:
    provider = Scripted(*[[*say("half of"), Interrupted("cut")]] * 9)
    with pytest.raises(Interrupted):
        await chunks_of(Retry(provider, times=1, provider_wait=300, clock=Passing()))
    assert len(provider.requests) == 2


async def test_a_cancel_ends_the_wait_at_once() -> None:
    clock, provider = FakeClock(), Scripted(*[Unreachable("refused")] * 9)
    asking = asyncio.create_task(chunks_of(Retry(provider, times=0, provider_wait=300, clock=clock)))
    await clock.advance(0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert len(provider.requests) == 1


@pytest.mark.parametrize("wrong", [{"times": -1}, {"provider_wait": -1}, {"provider_wait": float("inf")}])
def test_a_number_that_cannot_be_meant_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(WrongUse):
        Retry(Scripted("fine"), **wrong)
