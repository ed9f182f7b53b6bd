"""What goes on around a run: in its own task, the first outermost, and with its outcome at the end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any

import pytest
from endstop import Engine, Observers, Run, tool
from endstop.decision import WrongUse
from endstop.providers import Scripted, call
from endstop.subscribers import Middleware

TENANT: ContextVar[str] = ContextVar("TENANT", default="nobody")


def noting(name: str, notes: list[str]) -> Middleware:
    @asynccontextmanager
    async def around(run: Run) -> AsyncIterator[None]:
        assert run.context is not None
        task = asyncio.current_task()
        notes.append(f"{name} in")
        yield
        assert asyncio.current_task() is task
        notes.append(f"{name} out, {run.outcome.stop_reason}")

    return around


async def test_the_first_is_outermost_and_each_has_the_outcome_at_the_end() -> None:
    notes: list[str] = []
    engine = Engine(Scripted("Done."), observers=Observers(middleware=[noting("a", notes)]))
    await engine.with_middleware(noting("b", notes), noting("c", notes)).run("Go")
    assert notes == ["a in", "b in", "c in", "c out, text_final", "b out, text_final", "a out, text_final"]


async def test_a_copy_has_it_and_the_engine_it_was_made_of_has_not() -> None:
    notes: list[str] = []
    engine = Engine(Scripted("Done.", "Done."))
    other = engine.with_middleware(noting("a", notes)).with_provider(Scripted("Done."))
    await engine.run("Go")
    assert notes == []
    await other.run("Go")
    assert notes == ["a in", "a out, text_final"]


async def test_what_it_sets_is_seen_by_tools_and_subscribers_of_its_run_alone() -> None:
    seen: list[tuple[str, str]] = []
    names = iter("ab")

    @asynccontextmanager
    async def tenant(run: Run) -> AsyncIterator[None]:
        token = TENANT.set(next(names))
        yield
        TENANT.reset(token)

    @tool
    def look(x: str) -> str:
        """Look, in a thread."""
        seen.append((x, TENANT.get()))
        return x

    def follow(event: Any, run: Run) -> None:
        if type(event).__name__ == "RunFinished":
            seen.append(("subscriber", TENANT.get()))

    def script(request: Any) -> Any:
        return "Done." if len(request.messages) > 2 else call("look", x="tool")

    engine = Engine(Scripted(script), tools=[look], observers=Observers(middleware=[tenant], subscribers=[follow]))
    await asyncio.gather(engine.run("1"), engine.run("2"))
    assert sorted(seen) == [("subscriber", "a"), ("subscriber", "b"), ("tool", "a"), ("tool", "b")]
    assert TENANT.get() == "nobody"


async def test_one_that_raises_at_the_start_keeps_the_run_from_beginning() -> None:
    notes: list[str] = []

    @asynccontextmanager
    async def broken(run: Run) -> AsyncIterator[None]:
        raise RuntimeError("no database")
        yield

    session = Engine(Scripted("Done."), observers=Observers(middleware=[broken])).session()
    with pytest.raises(RuntimeError, match="no database"):
        await session.run("Go")
    assert notes == []
    assert len(session.transcript.messages) == 0


async def test_it_is_left_when_the_run_is_cancelled() -> None:
    notes: list[str] = []

    class Stall:
        async def wait(self) -> None:
            await asyncio.sleep(600)

    async with Engine(Scripted([Stall()]), observers=Observers(middleware=[noting("a", notes)])).start("Go") as run:
        run.cancel()
        await run.wait()
    assert notes == ["a in", "a out, cancelled"]


def test_what_is_no_function_is_refused() -> None:
    with pytest.raises(WrongUse, match="middleware"):
        Engine(Scripted("Done."), observers=Observers(middleware=["a"]))  # type: ignore[list-item]
    with pytest.raises(WrongUse, match="middleware"):
        Engine(Scripted("Done.")).with_middleware("a")  # type: ignore[arg-type]
