"""One timer for many waits: none takes too long, and nobody else's cancellation is swallowed."""

from __future__ import annotations

import asyncio

import anyio
import pytest
from endstop.providers.timeouts import Patience


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
        patience = Patience(10)
        try:
            for event in events:
                await patience.on(event.wait())
                said.append("heard")
        except TimeoutError:
            said.append("given up")
        finally:
            patience.close()

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
    patience = Patience(60)
    waiting = asyncio.create_task(patience.on(asyncio.Event().wait()))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    patience.close()
    with anyio.CancelScope() as scope:
        scope.cancel()
        await patience.on(anyio.sleep_forever())
    assert scope.cancelled_caught
    patience.close()


async def test_both_at_once_is_a_cancellation(monkeypatch: pytest.MonkeyPatch) -> None:
    time, patience = Time(monkeypatch), Patience(10)
    waiting = asyncio.create_task(patience.on(asyncio.Event().wait()))
    await time.passes(1)
    asyncio.get_running_loop().call_soon(waiting.cancel)
    await time.passes(10)
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_nothing_is_left_in_the_loop_between_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    time, patience = Time(monkeypatch), Patience(10)
    await patience.on(asyncio.sleep(0))
    await time.passes(11)  # the timer finds nobody waiting
    await patience.on(asyncio.sleep(0))
    await time.passes(5)
    patience.close()
    await time.passes(20)
