"""Asking again: which errors, how often, how long in between, and what a reader sees of it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from endstop.decision import WrongUse
from endstop.providers import (
    BadRequest,
    Exhausted,
    Fallback,
    Interrupted,
    ProviderError,
    RateLimited,
    Retry,
    Scripted,
    Unauthorized,
    Unavailable,
    say,
)
from endstop.testing import FakeClock

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
    with pytest.raises(WrongUse, match="no method `stream`"):
        Retry("gpt-4o")  # type: ignore[arg-type]
