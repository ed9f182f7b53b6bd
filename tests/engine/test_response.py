"""A response that takes several attempts: what readers see, what is counted, what a void attempt had begun."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
from endstop import Engine, Runtime, Tool
from endstop.decision import Policy, ToolResult, Usage, UsageReport
from endstop.decision import events as ev
from endstop.providers import Fallback, Interrupted, Race, RateLimited, Retry, Scripted, Unavailable, call, say
from endstop.replay import replay
from endstop.testing import FakeClock, check_transcript

DONE = [call("finish_task", summary="done")]


async def events_of(provider: Any, path: Path | None = None, **options: Any) -> tuple[list[Any], Any]:
    session = Engine(provider, **options).session(record=path)
    async with session.start("go") as run:
        events = [event async for event in run]
    check_transcript(session.transcript.messages)
    return events, run.outcome


def again(*responses: Any, **options: Any) -> Retry:
    return Retry(Scripted(*responses), first_wait=0, longest_wait=0, **options)


async def test_each_attempt_has_an_id_and_one_that_had_shown_something_is_retracted(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    provider = again(RateLimited("slow down", retry_after=0), [*say("I be"), Interrupted("cut")], "I begin.")
    events, outcome = await events_of(provider, path)
    told = [
        (type(event).__name__, event.attempt)
        for event in events
        if isinstance(event, ev.AttemptStarted | ev.AttemptFailed | ev.AttemptRetracted | ev.ResponseFinished)
    ]
    assert told == [
        ("AttemptStarted", "1.1"),
        ("AttemptFailed", "1.1"),
        ("AttemptStarted", "1.2"),
        ("AttemptFailed", "1.2"),
        ("AttemptRetracted", "1.2"),
        ("AttemptStarted", "1.3"),
        ("ResponseFinished", "1.3"),
    ]
    assert (outcome.answer, outcome.steps, outcome.requests) == ("I begin.", 1, 3)
    assert outcome.usage.estimated, "what the attempt that broke off cost is an estimate"
    report = await replay(str(path))
    assert report.same
    assert report.runs[0].outcome.requests == 3
    assert report.runs[0].outcome.usage == outcome.usage


async def test_a_reading_call_of_a_void_attempt_is_given_up_and_leaves_no_result() -> None:
    began, ended = anyio.Event(), anyio.Event()

    async def look(path: str) -> str:
        if path == "first":
            began.set()
            try:
                await anyio.sleep_forever()
            finally:
                ended.set()
        return f"seen {path}"

    provider = again(
        [call("look", path="first", id="a"), began, Interrupted("cut")], [call("look", path="second", id="a")], DONE
    )
    events, outcome = await events_of(provider, tools=[Tool(look, description="Look.", reads=True)])
    assert outcome.stop_reason == "completed"
    assert ended.is_set()
    results = [(e.call_id, e.content) for e in events if isinstance(e, ev.ToolCallResult)]
    assert results[0] == ("1.0", "seen second"), "an id that readers have seen already is not given twice"
    assert len(results) == 2


async def test_a_reading_call_that_swallows_its_end_is_not_heard_any_more() -> None:
    began = anyio.Event()

    async def look(path: str) -> str:
        if path == "first":
            began.set()
            try:
                await anyio.sleep_forever()
            except BaseException:
                return "too late"
        return f"seen {path}"

    provider = again([call("look", path="first"), began, Interrupted("cut")], [call("look", path="second")], DONE)
    events, _ = await events_of(provider, tools=[Tool(look, description="Look.", reads=True)])
    assert [e.content for e in events if isinstance(e, ev.ToolCallResult)][:1] == ["seen second"]


async def test_a_writing_call_of_a_void_attempt_had_not_begun() -> None:
    done: list[str] = []

    async def write(path: str) -> str:
        done.append(path)
        return "ok"

    provider = again([call("write", path="a"), Interrupted("cut")], [call("write", path="b")], DONE)
    await events_of(provider, tools=[Tool(write, description="Write.")])
    assert done == ["b"]


async def test_who_was_heard_stands_with_the_response_and_the_loser_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    stall = anyio.Event()
    slow = Scripted([stall, "late"], model="slow")
    fast = Scripted([*say("quick"), UsageReport(Usage(input_tokens=7, output_tokens=3))], model="fast")
    events, outcome = await events_of(Race(slow, fast), path)
    (response,) = [event for event in events if isinstance(event, ev.ResponseFinished)]
    (loser,) = [event for event in events if isinstance(event, ev.AttemptFailed)]
    assert (response.model, response.attempt) == ("fast", "1.1")
    assert (loser.model, loser.kind, loser.beside) == ("slow", "cancelled", True)
    assert outcome.requests == 2
    assert loser.usage is not None
    assert outcome.usage.input_tokens == response.usage.input_tokens + loser.usage.input_tokens
    assert (await replay(str(path))).same


async def test_when_all_have_failed_the_outcome_names_the_last_one_and_the_record_all() -> None:
    provider = Fallback(Scripted(Unavailable("a is down"), model="a"), Scripted(Unavailable("b is down"), model="b"))
    events, outcome = await events_of(provider)
    assert (outcome.status, outcome.stop_reason) == ("failed", "provider_error")
    assert "b is down" in outcome.detail
    failed = [(e.attempt, e.model, e.message) for e in events if isinstance(e, ev.AttemptFailed)]
    assert failed == [("1.1", "a", "a is down"), ("1.2", "b", "b is down")]


async def test_a_completion_cuts_whichever_attempt_it_stands_in() -> None:
    provider = Scripted([*say("Hm"), Interrupted("cut")], [call("finish_task", summary="done"), *say("and on", 5)])
    _, outcome = await events_of(Retry(provider, first_wait=0, longest_wait=0))
    assert (outcome.stop_reason, outcome.answer) == ("completed", "done")
    assert provider.sent == [1, 2]


async def test_results_of_the_attempt_that_counts_reach_the_model() -> None:
    async def look(path: str) -> str:
        return f"seen {path}"

    inner = Scripted([call("look", path="a"), Interrupted("cut")], [call("look", path="b")], DONE)
    await events_of(Retry(inner, first_wait=0, longest_wait=0), tools=[Tool(look, description="Look.", reads=True)])
    assert [m.content for m in inner.requests[2].messages if isinstance(m, ToolResult)] == ["seen b"]


async def test_a_cut_response_is_read_on_for_its_cost_where_the_policy_wants_that(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    told = UsageReport(Usage(input_tokens=70, output_tokens=30))
    script = [*call("finish_task", summary="done"), *say("and on and on", 3), told]
    _, estimated = await events_of(Scripted(script))
    assert estimated.usage.estimated
    _, counted = await events_of(Scripted(script), path, policy=Policy(drain_seconds=5))
    assert (counted.stop_reason, counted.answer, counted.usage) == ("completed", "done", told.usage)
    assert (await replay(str(path))).runs[0].outcome.usage == told.usage


async def test_a_cut_response_that_does_not_end_is_read_on_no_longer_than_allowed() -> None:
    clock = FakeClock()
    stall = anyio.Event()
    script = [*call("finish_task", summary="done"), stall]
    engine = Engine(Scripted(script), policy=Policy(drain_seconds=5), runtime=Runtime(clock=clock))
    async with engine.start("go") as run:
        await clock.advance(6)
        outcome = await run.wait()
    assert (outcome.stop_reason, outcome.usage.estimated) == ("completed", True)
