"""Row F8: an accepted completion ends what is in flight by cancelling the shared scope, and by nothing else.

Each test is made twice: as it is, and with that one cancel taken out. Then what was in flight goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from endstop import Engine, Run, Tool, cancel_scope, tool
from endstop.cancel_scope import Cause, RoundScope
from endstop.decision import AnyChunk, Limits, Policy
from endstop.decision import events as ev
from endstop.providers import Hedge, Provider, Race, Request, Scripted, call
from endstop.testing import FakeClock, settle

DONE = call("finish_task", summary="done", id="end")
BOUND = 30
"""Seconds that nothing here takes."""


@pytest.fixture(params=[True, False], ids=["cancelled", "not_cancelled"])
def cancels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether an accepted completion cancels the shared scope; in half of the tests it does not."""
    if not request.param:
        cancel = RoundScope.cancel

        def keep(self: RoundScope, cause: Cause) -> None:
            if cause.by != "completion":
                cancel(self, cause)

        monkeypatch.setattr(RoundScope, "cancel", keep)
        monkeypatch.setattr(cancel_scope, "CLOSING_SECONDS", 600.0)  # or the end of the round does it
    return bool(request.param)


class InFlight:
    """Something that goes on until it is ended, by a cancellation or by `release`."""

    def __init__(self) -> None:
        self.begun, self.released, self.ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def go_on(self, n: int = 0) -> str:
        self.begun.set()
        try:
            await self.released.wait()
        except asyncio.CancelledError:
            self.ended.set()
            raise
        return "released"


async def accepted(run: Run) -> None:
    """Read on until the completion is accepted, and let everybody come as far as they can."""
    async for event in run:
        if isinstance(event, ev.CompletionAccepted):
            break
    await settle(200)


async def test_F8_the_rest_of_the_inner_loop_is_ended_by_the_shared_scope(cancels: bool) -> None:
    """With rules that never stop, only the cancel ends the round; without it the next step is made in the same one."""
    policy = Policy(rules=("go_on",), guards=("step_limit",), limits=Limits(steps=2), closing=False)
    async with Engine(Scripted([DONE], [DONE]), policy=policy).start("go") as run:
        events = [event async for event in run]
    steps = [(event.step, event.round) for event in events if isinstance(event, ev.StepStarted)]
    assert steps == ([(1, 1), (2, 2)] if cancels else [(1, 1), (2, 1)])


async def test_F8_the_cut_of_a_step_is_the_cancel_of_the_shared_scope(cancels: bool) -> None:
    """`cut_by` is what P1 stops by, where P0.5 is switched off: there is no other sign that the step was cut."""
    policy = Policy(rules=tuple(name for name in Policy().rules if name != "control_flow"))
    async with Engine(Scripted([DONE], "and more"), policy=policy).start("go") as run:
        outcome = await run.wait()
    assert (outcome.stop_reason, outcome.steps) == (("completed", 1) if cancels else ("text_final", 2))


async def test_F8_a_reading_call_that_began_early_is_ended_by_the_shared_scope(cancels: bool) -> None:
    reading = InFlight()

    @tool(kind="completion")
    async def finish_task(summary: str) -> str:
        """Finish."""
        await reading.begun.wait()
        return summary

    look = Tool(reading.go_on, name="look", description="Look.", reads=True)
    streaming = anyio.Event()

    class Begun:
        async def wait(self) -> None:
            await asyncio.wait_for(reading.begun.wait(), BOUND)
            streaming.set()

    provider = Scripted([DONE, call("look", n=1, id="r"), Begun()])
    async with Engine(provider, tools=[look, finish_task], policy=Policy(mixed="all")).start("go") as run:
        await asyncio.wait_for(accepted(run), BOUND)
        assert streaming.is_set(), "it began while the response was streaming"
        assert reading.ended.is_set() is cancels
        assert run.finished or not cancels
        reading.released.set()
        await asyncio.wait_for(run.wait(), BOUND)
        results = {event.call_id: event.status async for event in run if isinstance(event, ev.ToolCallResult)}
    assert results == {"end": "ok", "r": "cancelled" if cancels else "ok"}
    assert run.outcome.status == "completed"


async def test_F8_writing_calls_beside_a_completion_are_ended_by_the_shared_scope(cancels: bool) -> None:
    ran: list[str] = []

    async def put() -> str:
        ran.append("put")
        return "put"

    write = Tool(put, description="Put.")
    provider = Scripted([DONE, call("put", id="w1"), call("put", id="w2")])
    async with Engine(provider, tools=[write], policy=Policy(mixed="all")).start("go") as run:
        outcome = await asyncio.wait_for(run.wait(), BOUND)
        results = {event.call_id: event.status async for event in run if isinstance(event, ev.ToolCallResult)}
    rest = "skipped" if cancels else "ok"
    assert results == {"end": "ok", "w1": rest, "w2": rest}
    assert ran == ([] if cancels else ["put", "put"])
    assert outcome.status == "completed"


class SlowToClose:
    """A provider that says nothing and takes its time to close."""

    model = "slow"

    def __init__(self, *says: list[AnyChunk]) -> None:
        self.closing = InFlight()
        self._says = says

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[AnyChunk]]:
        chunks = self._play()
        try:
            yield chunks
        finally:
            await self.closing.go_on()

    async def _play(self) -> Any:
        for chunks in self._says:
            for chunk in chunks:
                yield chunk
        await asyncio.Event().wait()


@pytest.mark.parametrize("how", ["alone", "raced", "hedged"])
async def test_F8_attempts_that_are_still_being_given_up_are_ended_by_the_shared_scope(cancels: bool, how: str) -> None:
    """What was left at the completion call, the loser of a race included, may take its time to close."""
    clock = FakeClock()
    slow = SlowToClose(*([DONE] if how == "alone" else []))
    provider: Provider = slow
    if how == "raced":
        provider = Race(slow, Scripted([DONE]))
    if how == "hedged":
        provider = Hedge(slow, Scripted([DONE]), after=1.0, clock=clock)

    @tool(kind="completion")
    async def finish_task(summary: str) -> str:
        """Finish."""
        await slow.closing.begun.wait()
        return summary

    async with Engine(provider, tools=[finish_task]).start("go") as run:
        await clock.advance(2.0)
        await asyncio.wait_for(accepted(run), BOUND)
        assert slow.closing.ended.is_set() is cancels
        slow.closing.released.set()
        assert (await asyncio.wait_for(run.wait(), BOUND)).status == "completed"


async def test_F8_without_the_inner_cancel_nothing_is_ended_and_the_decision_ends_the_run() -> None:
    reading = InFlight()
    look = Tool(reading.go_on, name="look", description="Look.", reads=True)
    policy = Policy(mixed="all", inner_cancel=False)
    async with Engine(Scripted([DONE, call("look", n=1, id="r")]), tools=[look], policy=policy).start("go") as run:
        await asyncio.wait_for(accepted(run), BOUND)
        assert not reading.ended.is_set()
        reading.released.set()
        outcome = await asyncio.wait_for(run.wait(), BOUND)
        cut = [event.cut_by async for event in run if isinstance(event, ev.StepFinished)]
    assert (outcome.status, outcome.steps, cut) == ("completed", 1, [None])
