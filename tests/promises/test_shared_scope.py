"""Row F8: an accepted completion ends what is in flight by cancelling the shared scope, and by nothing else.

Each test is made twice: as it is, and with anyio's own `CancelScope.cancel` taken out of the scope of the round. Then
what was in flight goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from anyio._backends._asyncio import CancelScope
from endstop import Engine, Run, Tool, cancel_scope, tool
from endstop.cancel_scope import RoundScope
from endstop.decision import AnyChunk, Limits, Policy
from endstop.decision import events as ev
from endstop.providers import Hedge, Provider, Race, Request, Scripted, call, say
from endstop.testing import FakeClock, settle

DONE = call("finish_task", summary="done", id="end")
BOUND = 30
"""Seconds that nothing here takes."""


@pytest.fixture(params=[True, False], ids=["cancelled", "not_cancelled"])
def cancels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether anyio cancels a scope that it is told to cancel; in half of the tests it does not."""
    if not request.param:
        monkeypatch.setattr(CancelScope, "cancel", lambda self, *given, **named: None)
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


@pytest.mark.parametrize("streams", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("before", [(), ("look",), ("put",)], ids=["alone", "after_a_read", "after_a_write"])
async def test_F8_each_round_that_a_completion_ends_has_its_shared_scope_cancelled(
    before: tuple[str, ...], streams: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where nothing else is in flight: there is one way to end a round."""
    shared: list[anyio.CancelScope] = []
    made = RoundScope.__init__

    def make(self: RoundScope) -> None:
        made(self)
        shared.append(self.shared)

    async def work() -> str:
        return "worked"

    monkeypatch.setattr(RoundScope, "__init__", make)
    tools = [Tool(work, name="look", description="Look.", reads=True), Tool(work, name="put", description="Put.")]
    response = [*(call(name, id=name) for name in before), DONE, *([say("more", 9)] if streams else [])]
    for _ in range(10):
        outcome = await Engine(Scripted(response), tools=tools).run("go")
        assert (outcome.status, outcome.steps) == ("completed", 1)
    assert sum(scope.cancel_called for scope in shared) == 10


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
        ended, finished = reading.ended.is_set(), run.finished
        reading.released.set()
        await asyncio.wait_for(run.wait(), BOUND)
        results = {event.call_id: event.status async for event in run if isinstance(event, ev.ToolCallResult)}
    assert ended is cancels
    assert finished or not cancels
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
        ended = slow.closing.ended.is_set()
        slow.closing.released.set()
        assert (await asyncio.wait_for(run.wait(), BOUND)).status == "completed"
    assert ended is cancels


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
