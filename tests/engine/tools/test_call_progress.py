"""Tools that report progress: what they yield is told while they work, and is no result."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from endstop import Completion, Engine, Phase, ProgressUpdate, Runtime, Session, Tool, read_record, tool
from endstop.decision import Policy, ToolResult, decide, fold
from endstop.decision.events import Event, ToolCallResult, ToolExecutionStarted, ToolProgress
from endstop.decision.facts import Facts
from endstop.providers import Scripted, call
from endstop.replay import replay
from endstop.testing import FakeClock
from endstop.tools.call_progress import MAX_PROGRESS_CHARACTERS, MAX_PROGRESS_EVENTS, PROGRESS_BLOCK


async def events_of(made: Tool, *, session: Session | None = None, **options: Any) -> list[Event]:
    """The events of a run in which the tool is called once."""
    session = session or Engine(Scripted([call(made.name)], "done"), tools=[made]).session(**options)
    async with session.start("go") as run:
        return [event async for event in run]  # type: ignore[misc]


def told(events: list[Event]) -> list[str]:
    return [event.text for event in events if isinstance(event, ToolProgress)]


def result(events: list[Event]) -> ToolCallResult:
    (found,) = [event for event in events if isinstance(event, ToolCallResult)]
    return found


@tool
async def count() -> AsyncIterator[str]:
    """Count."""
    for number in (1, 2):
        yield f"{number} of 3"
    yield "counted 3"


async def test_each_item_is_told_and_the_last_one_is_the_result() -> None:
    events = await events_of(count)
    assert told(events) == ["1 of 3", "2 of 3", "counted 3"]
    assert (result(events).content, result(events).status) == ("counted 3", "ok")
    kinds = [type(event) for event in events]
    first = kinds.index(ToolProgress)
    assert kinds[first - 1 : first + 4] == [ToolExecutionStarted, *[ToolProgress] * 3, ToolCallResult]
    assert {(e.call_id, e.name) for e in events if isinstance(e, ToolProgress)} == {(result(events).call_id, "count")}


async def test_an_item_is_told_when_it_is_yielded_and_not_when_the_next_one_comes() -> None:
    seen = asyncio.Event()

    @tool
    async def wait() -> AsyncIterator[str]:
        """Wait."""
        yield "half"
        await seen.wait()  # for whoever reads "half"
        yield "whole"

    async with asyncio.timeout(60), Engine(Scripted([call("wait")], "done"), tools=[wait]).start("go") as run:
        async for event in run:
            if isinstance(event, ToolProgress) and event.text == "half":
                seen.set()
    assert run.outcome.status == "completed"


async def test_only_the_result_reaches_the_model_and_progress_changes_no_fact_but_the_time() -> None:
    session = Engine(Scripted([call("count")], "done"), tools=[count]).session()
    events = await events_of(count, session=session)
    assert [m.content for m in session.transcript.messages if isinstance(m, ToolResult)] == ["counted 3"]
    facts = Facts()
    for event in events:
        before, facts = facts, fold(facts, event)
        if isinstance(event, ToolProgress):
            assert decide(facts, Policy()) == decide(before, Policy())


async def test_an_update_has_numbers_and_is_never_the_result() -> None:
    @tool
    async def load() -> AsyncIterator[Any]:
        """Load."""
        yield ProgressUpdate("half", 5, 10)
        yield {"rows": 3}
        yield ProgressUpdate(progress=10)

    events = await events_of(load)
    updates = [(e.text, e.progress, e.total) for e in events if isinstance(e, ToolProgress)]
    assert updates == [("half", 5, 10), ('{"rows":3}', None, None), ("", 10, None)]
    assert result(events).content == "Done."


async def test_a_plain_generator_works_in_threads_and_returns_its_result() -> None:
    threads = set()

    @tool
    def work() -> Iterator[str]:
        """Work."""
        threads.add(threading.current_thread())
        yield "one"
        threads.add(threading.current_thread())
        yield "two"
        return "both"

    @tool
    def no_return() -> Iterator[str]:
        """Return nothing."""
        yield "one"
        yield "two"

    events = await events_of(work)
    assert (told(events), result(events).content) == (["one", "two"], "both")
    assert threading.main_thread() not in threads
    events = await events_of(no_return)
    assert (told(events), result(events).content) == (["one", "two"], "two")


async def test_nothing_yielded_is_done() -> None:
    @tool
    async def nothing() -> AsyncIterator[str]:
        """Do nothing."""
        for item in ():
            yield item

    events = await events_of(nothing)
    assert (told(events), result(events).content) == ([], "Done.")


async def test_an_error_after_progress_is_the_result() -> None:
    @tool
    async def fail() -> AsyncIterator[str]:
        """Fail."""
        yield "begun"
        raise ValueError("no luck")

    @tool
    def fail_in_a_thread() -> Iterator[str]:
        """Fail."""
        yield "begun"
        raise SystemExit(3)

    for made, why in ((fail, "no luck"), (fail_in_a_thread, "wanted to end the process")):
        events = await events_of(made)
        assert told(events) == ["begun"]
        assert result(events).status == "error"
        assert why in result(events).content


async def test_a_completion_may_yield_too_and_what_it_reports_at_its_end_is_no_progress() -> None:
    @tool(kind="completion")
    async def submit(parts: int) -> AsyncIterator[Any]:
        """Submit."""
        yield "checking"
        yield Phase(percentage=50) if parts < 2 else Completion(answer="All of it.")

    engine = Engine(Scripted([call("submit", parts=1)], [call("submit", parts=2)]), tools=[submit], presets=())
    async with engine.start("go") as run:
        events = [event async for event in run]
    assert told(events) == ["checking", "checking"]  # type: ignore[arg-type]
    assert (run.outcome.status, run.outcome.answer) == ("completed", "All of it.")
    assert [phase["completion_percentage"] for phase in run.outcome.phases] == [50]


# ---- bounds


async def test_what_is_recorded_of_one_call_is_bounded() -> None:
    @tool(timeout=None)
    async def flood() -> AsyncIterator[str]:
        """Flood."""
        for number in range(1, 300_001):
            yield str(number)

    events = await events_of(flood)
    numbers = [int(text) for text in told(events)]
    assert len(numbers) == MAX_PROGRESS_EVENTS
    assert numbers[:PROGRESS_BLOCK] == list(range(1, PROGRESS_BLOCK + 1))
    assert numbers == sorted(numbers)
    assert numbers[-1] > 50_000, "it is told until late"
    assert result(events).content == "300000"


async def test_a_long_item_is_told_short_and_is_whole_as_the_result() -> None:
    @tool
    async def long() -> AsyncIterator[str]:
        """Say much."""
        yield "x" * 10_000

    events = await events_of(long)
    assert len(told(events)[0]) <= MAX_PROGRESS_CHARACTERS
    assert len(result(events).content) == 10_000


async def test_an_iterator_as_an_item_is_read_for_the_result_alone() -> None:
    @tool
    async def lines() -> AsyncIterator[Any]:
        """Give lines."""
        yield iter(["a", "b"])

    events = await events_of(lines)
    assert told(events) == []
    assert result(events).content == '["a","b"]'


# ---- cancellation


async def test_a_cancelled_call_closes_its_generator() -> None:
    closed: list[str] = []

    @tool
    async def wait() -> AsyncIterator[str]:
        """Wait."""
        try:
            yield "begun"
            await asyncio.Event().wait()
        finally:
            closed.append("closed")

    async with Engine(Scripted([call("wait")], "done"), tools=[wait]).start("go") as run:
        async for event in run:
            if isinstance(event, ToolProgress):
                run.cancel()
    assert (run.outcome.status, closed) == ("cancelled", ["closed"])


async def test_a_timeout_closes_it_too_and_progress_that_comes_after_it_is_dropped() -> None:
    clock, late, ended = FakeClock(), asyncio.Event(), asyncio.Event()

    @tool(timeout=5)
    async def stubborn() -> AsyncIterator[str]:
        """Go on."""
        yield "begun"
        while not late.is_set():
            with suppress(asyncio.CancelledError):
                await late.wait()
        yield "too late"
        ended.set()

    engine = Engine(Scripted([call("stubborn")], "done"), tools=[stubborn], runtime=Runtime(clock=clock))
    events = []
    async with asyncio.timeout(60), engine.start("go") as run:
        async for event in run:
            events.append(event)
            if isinstance(event, ToolProgress):
                await clock.advance(5)
        late.set()
        await ended.wait()
    assert told(events) == ["begun"]  # type: ignore[arg-type]
    assert "stopped after 5 seconds. It did not stop when it was told to" in result(events).content  # type: ignore[arg-type]
    assert run.outcome.status == "completed"


async def test_one_that_yields_for_ever_without_waiting_is_stopped_and_closed() -> None:
    clock, closed = FakeClock(), asyncio.Event()

    @tool(timeout=5)
    async def spin() -> AsyncIterator[int]:
        """Spin."""
        number = 0
        try:
            while True:
                number += 1
                yield number
        finally:
            closed.set()

    engine = Engine(Scripted([call("spin")], "done"), tools=[spin], runtime=Runtime(clock=clock))
    async with asyncio.timeout(60), engine.start("go") as run:
        async for event in run:
            if isinstance(event, ToolProgress) and event.text == "3":
                await clock.advance(5)
            elif isinstance(event, ToolCallResult):
                assert (event.status, event.content) == ("error", "spin was stopped after 5 seconds.")
    assert closed.is_set()
    assert run.outcome.status == "completed"


async def test_a_plain_generator_between_two_items_is_closed() -> None:
    closed = threading.Event()
    made = []

    @tool
    def work() -> Iterator[str]:
        """Work."""
        try:
            yield "begun"
            made[0].wait(60)
            yield "more"
        finally:
            closed.set()

    made.append(threading.Event())
    async with Engine(Scripted([call("work")], "done"), tools=[work]).start("go") as run:
        async for event in run:
            if isinstance(event, ToolProgress):
                run.cancel()
    assert run.outcome.status == "cancelled"
    made[0].set()
    assert await asyncio.to_thread(closed.wait, 60)


# ---- records


async def test_a_record_holds_it_and_a_replay_calls_nothing(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    events = await events_of(count, record=path)
    recorded = read_record(path).runs[0].events
    assert told(list(recorded)) == told(events) == ["1 of 3", "2 of 3", "counted 3"]
    report = await replay(path)
    assert report.same
    assert report.runs[0].difference is None


@pytest.mark.parametrize("given", [{"text": 3}, {"progress": "half"}])
def test_an_update_of_another_type_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="ProgressUpdate"):
        ProgressUpdate(**given)
