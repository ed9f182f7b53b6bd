"""Owner, metadata and deps of a session reach the functions of its runs, in whichever process they run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from endstop import Engine, RunContext, WrongUse, tool
from endstop.decision import ToolResult
from endstop.providers import Scripted, call
from endstop.service.service import Service
from endstop.testing import MemorySteps

from ..temporary_store import TemporaryStore
from .kept_jobs import Queue


@dataclass
class Deps:
    greeting: str


@tool(reads=True)
async def greet(ctx: RunContext[Deps]) -> str:
    """Greet the user."""
    return f"{ctx.deps.greeting}, {ctx.owner} of plan {ctx.metadata.get('plan')}"


async def make_deps(ctx: RunContext[None]) -> Deps:
    if ctx.metadata.get("plan") == "broken":
        raise ConnectionError("no database at postgresql://user:sesame@host")
    return Deps(f"Hello in {ctx.session_id}")


def respond(request: Any) -> Any:
    last = request.messages[-1]
    return [call("finish_task", summary=last.content)] if isinstance(last, ToolResult) else [call("greet")]


def engine() -> Engine[Deps]:
    return Engine(Scripted(respond), tools=[greet], deps=make_deps)


async def test_owner_and_metadata_reach_the_first_run_and_those_that_are_loaded() -> None:
    async with Service(engine(), store=TemporaryStore(), grace=0) as service:
        stored = await service.start("Hi", owner="jane", session_id="s", metadata={"plan": "free"})
        assert stored.metadata == {"plan": "free"}
        first = await service.outcome(stored.run_id or "", wait=20)
        again = await service.start_run("s", "Hi again")
        second = await service.outcome(again.run_id or "", wait=20)
    assert first is not None
    assert second is not None
    assert first.answer == second.answer == "Hello in s, jane of plan free"


async def test_owner_metadata_and_deps_reach_a_run_in_a_worker() -> None:
    queue = Queue()
    async with Service(engine(), store=TemporaryStore(), queue=queue, grace=0) as service:
        await service.start("Hi", owner="jane", session_id="s", metadata={"plan": "free"})
        await queue.work(queue.jobs[0], MemorySteps())
        outcome = await service.outcome(queue.jobs[0].run_id, wait=20)
    assert outcome is not None
    assert outcome.answer == "Hello in s, jane of plan free"


async def test_a_run_whose_deps_cannot_be_made_in_a_worker_waits_and_shows_no_secret() -> None:
    queue = Queue()
    async with Service(engine(), store=TemporaryStore(), queue=queue, grace=0) as service:
        await service.start("Hi", session_id="s", metadata={"plan": "broken"})
        await queue.work(queue.jobs[0], MemorySteps())
        stored = await service.session("s")
    assert stored.status == "interrupted"
    assert stored.trouble is not None
    assert "deps" in stored.trouble
    assert "sesame" not in stored.trouble


async def test_a_session_without_metadata_and_owner_has_none() -> None:
    async with Service(engine(), store=TemporaryStore(), grace=0) as service:
        stored = await service.start("Hi", session_id="s")
        outcome = await service.outcome(stored.run_id or "", wait=20)
    assert stored.metadata == {}
    assert outcome is not None
    assert outcome.answer == "Hello in s, None of plan None"


@pytest.mark.parametrize("wrong", [{"a": object()}, {"a": "x" * 20_000}, ["a"]])
async def test_metadata_is_a_small_json_object(wrong: Any) -> None:
    async with Service(engine(), store=TemporaryStore(), grace=0) as service:
        with pytest.raises(WrongUse, match=r"^metadata "):
            await service.start("Hi", metadata=wrong)
        assert (await service.sessions())[0] == []
