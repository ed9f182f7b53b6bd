"""Responses and calls as durable steps: what is kept is not done again, and a run that is lost writes nothing more."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio.lowlevel
import pytest
from endstop import Completion, Engine, Hooks, Run, Runtime, read_record, this_call, tool
from endstop.decision import Event, Image, Limits, Policy
from endstop.decision import events as ev
from endstop.durable import RunLost
from endstop.providers import Interrupted, Retry, Scripted, call, say
from endstop.records.recorder import RecordWriter
from endstop.replay import replay
from endstop.session import Session
from endstop.testing import FakeClock, MemorySteps, check_transcript, settle
from endstop.tools import ask_user, finish_task, task_done, think

END = [call("finish_task", summary="done", id="end")]
DONE: list[str] = []


@tool
async def write(path: str) -> str:
    """Write."""
    DONE.append(this_call().call_id)
    return f"wrote {path}"


@tool(reads=True)
async def read(path: str) -> Any:
    """Read."""
    DONE.append(this_call().call_id)
    return ["a picture", Image(data=b"\x89PNG", media_type="image/png")] if path == "picture" else f"read {path}"


@pytest.fixture(autouse=True)
def nothing_done() -> None:
    DONE.clear()


class Journal:
    """Keeps events in memory. `lost` is raised by the flush that comes at this event."""

    path: str | None = None

    def __init__(self, lost: type[ev.ToolExecutionStarted] | Any = None, error: Exception | None = None) -> None:
        self.events: list[Event] = []
        self.flushed = 0
        self._lost, self._error = lost, error or RunLost("taken")

    def write(self, event: Any) -> None:
        self.events.append(event)

    async def flush(self) -> None:
        if self._lost is not None and isinstance(self.events[-1], self._lost):
            raise self._error
        self.flushed = len(self.events)

    def close(self) -> None:
        pass


def an_engine(*responses: Any, **options: Any) -> Engine:
    return Engine(
        Scripted(*responses), tools=[write, read], presets=[finish_task, task_done, ask_user, think], **options
    )


def again(path: Path, events: Sequence[Event], engine: Engine) -> Session:
    """A session in the next process, which finds these events."""
    writer = RecordWriter(path, "s", "", "")
    for event in events:
        writer.write(event)
    writer.close()
    session = engine.session("s", record=path)
    session.load(read_record(path).runs)
    return session


async def resumed(session: Session) -> Any:
    async with session.start_resumed() as run:
        return await run.wait()


async def whole(engine: Engine, steps: MemorySteps) -> list[Event]:
    """The events of a run with these steps."""
    journal = Journal()
    session = engine.session("s", record=journal)
    session.steps = steps
    await session.run("go")
    return journal.events


def before(events: Sequence[Event], kind: type, number: int = 1) -> list[Event]:
    """The events before the n-th of this kind."""
    places = [n for n, event in enumerate(events) if isinstance(event, kind)]
    return list(events[: places[number - 1]])


# ---- what is kept


async def test_a_step_has_one_key_for_its_response_and_one_for_each_call() -> None:
    steps = MemorySteps()
    both = [say("Now."), call("write", path="a", id="w1"), call("read", path="b", id="r1")]
    events = await whole(an_engine(both, END), steps)
    run_id = events[0].run_id  # type: ignore[union-attr]
    assert steps.worked == [f"{run_id}/{rest}" for rest in ("1/", "1/w1", "1/r1", "2/", "2/end")]
    assert list(steps.kept) == steps.worked


async def test_without_a_durable_engine_a_reading_call_starts_early_and_with_one_it_waits() -> None:
    gate = anyio.Event()

    @tool(reads=True)
    async def look(path: str) -> str:
        """Look."""
        gate.set()
        return "seen"

    response = [call("look", path="a", id="l1"), gate, call("write", path="a", id="w1")]
    engine = Engine(Scripted(response, "done"), tools=[look, write])
    async with asyncio.timeout(60):
        assert (await engine.run("go")).status == "completed", "the stream goes on once the call has begun"
    waits = [call("look", path="a", id="l1"), call("write", path="a", id="w1")]
    journal = Journal()
    session = Engine(Scripted(waits, "done"), tools=[look, write]).session(record=journal)
    session.steps = MemorySteps()
    await session.run("go")
    kinds = [type(event) for event in journal.events]
    assert kinds.index(ev.ToolExecutionStarted) > kinds.index(ev.ResponseFinished)


async def test_a_kept_response_is_told_again_in_whole_pieces_and_no_request_is_made(tmp_path: Path) -> None:
    steps = MemorySteps()
    first = [say("I will ", 2), call("write", path="a", id="w1", pieces=3), call("write", path="b", id="w2")]
    events = await whole(an_engine(first, END), steps)
    cut = before(events, ev.ResponseFinished)
    DONE.clear()
    provider = Scripted(END)
    engine = an_engine().with_provider(provider)
    session = again(tmp_path / "r.jsonl", cut, engine)
    session.steps = MemorySteps({key: kept for key, kept in steps.kept.items() if key.endswith("/1/")})
    outcome = await resumed(session)
    assert (outcome.status, DONE, len(provider.requests)) == ("completed", ["w1", "w2"], 1)
    told = read_record(tmp_path / "r.jsonl").runs[0].events
    assert [e.interrupted_step for e in told if isinstance(e, ev.RunResumed)] == [1]
    at = next(n for n, e in enumerate(told) if isinstance(e, ev.RunResumed))
    parts = [type(e) for e in told[at:]]
    call_parts = [ev.ToolCallStart, ev.ToolCallArgs, ev.ToolCallEnd]
    assert parts[1:12] == [
        ev.StepStarted,
        ev.AttemptStarted,
        ev.TextMessageContent,
        *call_parts,
        *call_parts,
        ev.FinishReported,
        ev.UsageReported,
    ]
    assert parts[12] is ev.ResponseFinished
    assert sum(isinstance(e, ev.ResponseFinished) and e.step == 1 for e in told) == 1
    assert outcome.usage == events[-1].outcome.usage, "it is paid for once"  # type: ignore[union-attr]
    check_transcript(session.transcript.messages)
    assert (await replay(str(tmp_path / "r.jsonl"))).same


async def test_ids_of_a_kept_response_are_taken(tmp_path: Path) -> None:
    steps = MemorySteps()
    events = await whole(an_engine([call("write", path="a", id="same")], END), steps)
    session = again(
        tmp_path / "r.jsonl", before(events, ev.AttemptStarted), an_engine([call("write", path="b", id="same")], END)
    )
    session.steps = MemorySteps({key: kept for key, kept in steps.kept.items() if key.endswith("/1/")})
    await resumed(session)
    assert DONE == ["same", "same", "2.0"]
    check_transcript(session.transcript.messages)


async def test_a_kept_result_of_a_call_is_taken_though_the_record_does_not_have_it(tmp_path: Path) -> None:
    steps = MemorySteps()
    both = [call("write", path="a", id="w1"), call("read", path="picture", id="r1")]
    events = await whole(an_engine(both, END), steps)
    session = again(tmp_path / "r.jsonl", before(events, ev.ToolCallResult), an_engine(END))
    DONE.clear()
    session.steps = MemorySteps({key: kept for key, kept in steps.kept.items() if "/1/" in key})
    assert (await resumed(session)).status == "completed"
    assert DONE == []
    results = {
        e.call_id: e for e in read_record(tmp_path / "r.jsonl").runs[0].events if isinstance(e, ev.ToolCallResult)
    }
    then = {e.call_id: e for e in events if isinstance(e, ev.ToolCallResult)}
    for call_id in ("w1", "r1"):
        assert (results[call_id].content, results[call_id].images) == (then[call_id].content, then[call_id].images)
        assert results[call_id].fingerprint == then[call_id].fingerprint
    assert results["r1"].images[0].data == b"\x89PNG"
    assert (await replay(str(tmp_path / "r.jsonl"))).same


async def test_a_kept_completion_asks_the_gates_that_the_record_does_not_hold(tmp_path: Path) -> None:
    asked: list[str] = []

    def gate(completion: Completion, run: Any) -> bool:
        asked.append(completion.answer)
        return True

    steps = MemorySteps()
    events = await whole(an_engine(END, hooks=Hooks(gates=[gate])), steps)
    session = again(tmp_path / "r.jsonl", before(events, ev.VerdictGiven), an_engine(hooks=Hooks(gates=[gate])))
    session.steps = MemorySteps(steps.kept)
    assert (await resumed(session)).answer == "done"
    assert asked == ["done", "done"]
    assert session.steps.worked == []


async def test_the_cut_at_a_completion_is_kept_with_the_response(tmp_path: Path) -> None:
    steps = MemorySteps()
    events = await whole(an_engine([*END, say("never read"), call("write", path="late", id="late")]), steps)
    session = again(tmp_path / "r.jsonl", before(events, ev.ResponseFinished), an_engine())
    session.steps = MemorySteps(steps.kept)
    outcome = await resumed(session)
    (response,) = [e for e in read_record(tmp_path / "r.jsonl").runs[0].events if isinstance(e, ev.ResponseFinished)]
    assert (outcome.answer, response.cut_at, DONE) == ("done", "end", [])
    assert (await replay(str(tmp_path / "r.jsonl"))).same


async def test_a_phase_stays_one_in_the_replay_of_a_kept_response(tmp_path: Path) -> None:
    steps = MemorySteps()
    half = [call("task_done", summary="half", completion_percentage=50, id="p1"), call("write", path="a", id="w1")]
    events = await whole(an_engine(half, END), steps)
    session = again(tmp_path / "r.jsonl", before(events, ev.ResponseFinished), an_engine(END))
    session.steps = MemorySteps({key: kept for key, kept in steps.kept.items() if "/1/" in key})
    DONE.clear()
    assert [phase["completion_percentage"] for phase in (await resumed(session)).phases] == [50]
    report = await replay(str(tmp_path / "r.jsonl"))
    assert report.same, report.runs[0].divergence


async def test_attempts_that_came_to_nothing_are_told_again_and_a_request_that_failed_is_made_again(
    tmp_path: Path,
) -> None:
    def engine(*responses: Any) -> Engine:
        return an_engine().with_provider(Retry(Scripted(*responses), times={"interrupted": 1}, first_wait=0.0))

    steps = MemorySteps()
    events = await whole(engine([say("I "), Interrupted("cut")], END), steps)
    session = again(tmp_path / "r.jsonl", before(events, ev.ResponseFinished), engine())
    session.steps = MemorySteps(steps.kept)
    assert (await resumed(session)).answer == "done"
    assert (await replay(str(tmp_path / "r.jsonl"))).same

    gave_up = MemorySteps()
    session = an_engine(Interrupted("cut")).session("s")
    session.steps = gave_up
    assert (await session.run("go")).stop_reason == "provider_error"
    assert gave_up.kept == {}


async def test_the_closing_response_is_kept_too(tmp_path: Path) -> None:
    policy = Policy(limits=Limits(steps=1), closing=True)
    steps = MemorySteps()
    events = await whole(an_engine([call("write", path="a", id="w1")], "Half is done.", policy=policy), steps)
    session = again(tmp_path / "r.jsonl", before(events, ev.ResponseFinished, 2), an_engine(policy=policy))
    session.steps = MemorySteps(steps.kept)
    outcome = await resumed(session)
    assert (outcome.stop_reason, outcome.answer) == ("step_limit", "Half is done.")
    assert session.steps.worked == []


async def test_a_result_that_cannot_be_kept_is_an_error_for_the_model_and_that_is_kept(tmp_path: Path) -> None:
    @tool
    async def big() -> str:
        """Give much."""
        return "x" * 50_000

    steps = MemorySteps(largest=20_000)
    engine = Engine(Scripted([call("big", id="b1")], END), tools=[big], presets=[finish_task])
    events = await whole(engine, steps)
    result = next(e for e in events if isinstance(e, ev.ToolCallResult))
    assert result.status == "error"
    assert "cannot be kept: 50" in result.content
    assert any(key.endswith("/b1") for key in steps.kept)


async def test_a_response_that_cannot_be_kept_is_warned_of_and_the_run_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    session = an_engine("x" * 3000).session("s")
    session.steps = MemorySteps(largest=1000)
    assert (await session.run("go")).answer == "x" * 3000
    assert "a response is not kept" in caplog.text


async def test_a_tool_that_is_stopped_by_its_deadline_keeps_that(tmp_path: Path) -> None:
    @tool(timeout=5)
    async def slow() -> str:
        """Take long."""
        await asyncio.get_running_loop().create_future()
        return ""

    clock, steps = FakeClock(), MemorySteps()
    engine = Engine(Scripted([call("slow", id="s1")], END), tools=[slow], runtime=Runtime(clock=clock))
    task = asyncio.create_task(whole(engine, steps))
    await settle()
    await clock.advance(6)
    await task
    assert "stopped after 5 seconds" in next(kept for key, kept in steps.kept.items() if key.endswith("/s1"))


async def test_a_run_that_is_cancelled_in_a_call_keeps_nothing_of_it() -> None:
    begun = asyncio.Event()

    @tool
    async def forever() -> str:
        """Wait."""
        begun.set()
        await asyncio.get_running_loop().create_future()
        return ""

    session = Engine(Scripted([call("forever", id="f1")]), tools=[forever]).session("s")
    steps = session.steps = MemorySteps()
    async with session.start("go") as run:
        await begun.wait()
        run.cancel()
        assert (await run.wait()).status == "cancelled"
    assert [key.rpartition("/")[2] for key in steps.kept] == [""]


# ---- a run that another process has


async def lost(session: Session) -> tuple[list[Event], RunLost]:
    """What a reader of the run's bus sees, and what whoever waits gets."""
    seen: list[Event] = []

    async def follow(run: Run) -> None:
        async for event in run:
            seen.append(event)  # type: ignore[arg-type]

    async def main() -> None:
        nonlocal run
        async with session.start("go") as run:
            readers.append(asyncio.create_task(follow(run)))
            await run.wait()

    run: Run | None = None
    readers: list[asyncio.Task[None]] = []
    async with asyncio.timeout(60):
        with pytest.raises(RunLost) as caught:
            await main()
        await readers[0]
    assert run is not None
    with pytest.raises(RunLost):
        assert run.outcome
    assert not run.finished
    return seen, caught.value


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("place", ["1/", "1/r1", "1/w1", "2/end"])
async def test_a_lost_run_writes_nothing_more_and_everybody_is_told(place: str, after: bool) -> None:
    journal = Journal()
    both = [call("read", path="a", id="r1"), call("read", path="b", id="r2"), call("write", path="a", id="w1")]
    session = an_engine(both, END).session("s", record=journal)
    steps = session.steps = MemorySteps()
    run = session.start("go")
    steps.lose_at, steps.lose_after = f"{run.id}/{place}", after
    session.start = lambda prompt: run  # type: ignore[method-assign]
    seen, _ = await lost(session)
    assert seen == journal.events
    assert not any(isinstance(e, ev.RunFinished | ev.DecisionMade | ev.AttemptFailed) for e in seen[-3:])
    number = len(journal.events)
    await settle()
    assert len(journal.events) == number


async def test_a_tool_that_does_not_let_itself_be_cancelled_writes_nothing_into_a_lost_run() -> None:
    go = asyncio.Event()

    @tool(reads=True)
    async def stubborn() -> str:
        """Go on whatever comes."""
        go.set()
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            return "late"
        return ""

    @tool(reads=True)
    async def look() -> str:
        """Look."""
        await go.wait()
        return "seen"

    journal = Journal()
    session = Engine(Scripted([call("stubborn", id="s1"), call("look", id="l1")]), tools=[stubborn, look]).session(
        "s", record=journal
    )
    steps = session.steps = MemorySteps()
    run = session.start("go")
    steps.lose_at, steps.lose_after = f"{run.id}/1/l1", True
    session.start = lambda prompt: run  # type: ignore[method-assign]
    await lost(session)
    assert not any(isinstance(e, ev.ToolCallResult) for e in journal.events)


class LeaseLost(OSError, RunLost):
    """As the store says it."""


@pytest.mark.parametrize("at", [ev.RunStarted, ev.AttemptStarted, ev.ToolExecutionStarted, ev.RunFinished])
async def test_a_flush_that_finds_the_run_lost_ends_it_the_same_way(at: type) -> None:
    journal = Journal(at, LeaseLost("the lease is over"))
    session = an_engine([call("read", path="a", id="r1")], END).session("s", record=journal)
    if at is ev.RunStarted:
        with pytest.raises(LeaseLost):
            async with session.start("go"):
                raise AssertionError("it never began")
        return
    seen, error = await lost(session)
    assert isinstance(error, LeaseLost)
    assert isinstance(seen[-1], at), "the event that could not be flushed is the last one"


async def test_leaving_a_lost_run_tells_who_never_waited() -> None:
    session = an_engine("never").session("s")
    session.steps = MemorySteps()
    session.steps.lose_at = ""
    with pytest.raises(RunLost):
        async with session.start("go") as run:
            assert [type(event) async for event in run][-1] is ev.StepStarted


async def test_a_session_that_lost_a_run_can_be_used_no_more_than_its_record_says() -> None:
    session = an_engine("hello").session("s")
    session.steps = MemorySteps()
    session.steps.lose_at = ""
    with pytest.raises(RunLost):
        await session.run("go")
    session.steps.lose_at = None
    assert (await session.run("again")).answer == "hello", "the session is free again"


async def test_a_sync_tool_in_a_thread_finds_its_call() -> None:
    found: list[str] = []

    @tool
    def in_a_thread() -> str:
        """Run in a thread."""
        found.append(this_call().key)
        return "ok"

    for steps in (None, MemorySteps()):
        session = Engine(Scripted([call("in_a_thread", id="t1")], END), tools=[in_a_thread]).session("s")
        session.steps = steps
        async with session.start("go") as run:
            await run.wait()
        assert found.pop() == f"{run.id}/1/t1"


async def test_steps_of_other_tasks_may_be_under_way_at_once() -> None:
    order: list[str] = []

    @tool(reads=True)
    async def turn(name: str) -> str:
        """Take turns."""
        order.append(name)
        await anyio.lowlevel.checkpoint()
        order.append(name)
        return name

    calls = [call("turn", name="a", id="a"), call("turn", name="b", id="b")]
    session = Engine(Scripted(calls, END), tools=[turn]).session("s")
    session.steps = MemorySteps()
    await session.run("go")
    assert order == ["a", "b", "a", "b"]
