"""Replay: the same decisions, or the first place where they differ."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from endstop import Engine, Hooks, Run, Runtime, Tool, read_record, tool
from endstop.decision import Deadlines, Event, Limits, Policy, WrongUse
from endstop.decision.events import (
    AttemptStarted,
    DecisionMade,
    RunStarted,
    StepFinished,
    StepStarted,
    TextMessageContent,
    ToolCallResult,
    ToolExecutionStarted,
)
from endstop.hooks import Progress, Verdict
from endstop.providers import Scripted, call, say
from endstop.records.reader import RecordedRun
from endstop.replay import Watcher, player, replay
from endstop.replay.diff import Divergence, EventAddress
from endstop.testing import FakeClock, settle
from endstop.tools import ask_user, finish_task, task_done


def worker(log: list[str]) -> Tool:
    @tool
    async def work(path: str) -> str:
        """Work."""
        log.append(path)
        return f"worked on {path}"

    return work


async def recorded(path: Path, log: list[str]) -> Path:
    provider = Scripted([say("first"), call("work", path="a")], [call("finish_task", summary="done"), say("more")])
    await Engine(provider, tools=[worker(log)]).run("go", record=path)
    return path


async def test_a_replay_runs_no_tool_and_decides_the_same(tmp_path: Path) -> None:
    log: list[str] = []
    path = await recorded(tmp_path / "r.jsonl", log)
    report = await replay(str(path))
    assert report.same
    assert log == ["a"]
    assert report.runs[0].outcome.answer == "done"


async def test_with_live_tools_the_tools_really_run(tmp_path: Path) -> None:
    log: list[str] = []
    path = await recorded(tmp_path / "r.jsonl", log)
    report = await replay(str(path), tools=[worker(log)], live_tools=True)
    assert report.same
    assert log == ["a", "a"]


async def test_a_live_tool_that_is_missing_is_named(tmp_path: Path) -> None:
    path = await recorded(tmp_path / "r.jsonl", [])
    with pytest.raises(WrongUse, match="missing: work"):
        await replay(str(path), live_tools=True)


async def test_live_tools_that_answer_otherwise_are_a_divergence_with_both_decisions(tmp_path: Path) -> None:
    @tool(kind="completion")
    async def submit(report: str) -> str:
        """Submit."""
        return "accepted" if good else "continue"

    good = True
    path = tmp_path / "r.jsonl"
    await Engine(Scripted([call("submit", report="x")]), tools=[submit]).run("go", record=path)
    good = False
    report = await replay(str(path), tools=[submit], live_tools=True)
    assert not report.same
    divergence = report.runs[0].divergence
    assert divergence is not None
    assert str(divergence.recorded) == "stop(completed)"
    assert str(divergence.replayed) == "go on (completion handed back)"


async def test_a_step_whose_live_tools_answer_otherwise_is_judged_anew(tmp_path: Path) -> None:
    @tool(reads=True)
    async def read(path: str) -> str:
        """Read."""
        return f"{path}: {answers[path]}"

    answers = {"a": "one", "b": "two", "c": "three"}
    path = tmp_path / "r.jsonl"
    provider = Scripted([call("read", path="a")], [call("read", path="b")], [call("read", path="c")], "Read.")
    await Engine(provider, tools=[read]).run("go", record=path)
    path.write_text(path.read_text().replace('"brought":"news"', '"brought":"silent"'))
    answers["b"] = "another"
    brought: list[str] = []

    class Watching(Watcher):
        async def show(self, event: Event, run: Run) -> None:
            if isinstance(event, StepFinished) and event.judged is not None:
                brought.append(event.judged.brought)

    await replay(str(path), tools=[read], live_tools=True, watcher=Watching())
    assert brought == ["silent", "news", "silent", "talk"], "that of the record, unless the results differ"


async def test_a_record_that_was_changed_is_a_divergence(tmp_path: Path) -> None:
    path = await recorded(tmp_path / "r.jsonl", [])
    path.write_text(path.read_text().replace('"finish_task","description"', '"finish_it","description"'))
    report = await replay(str(path))
    assert not report.same


async def test_a_session_with_a_question_and_three_runs_replays_the_same(tmp_path: Path) -> None:
    provider = Scripted(
        [call("ask_user", question="Which?", id="q")], [call("finish_task", summary="second")], "third", [""], "fourth"
    )
    session = Engine(provider, presets=[finish_task, ask_user]).session(record=tmp_path / "r.jsonl")
    await session.run("one")
    await session.answer("q", "this one")
    await session.run("two")
    await session.run("three")
    report = await replay(str(tmp_path / "r.jsonl"))
    assert [run.outcome.status for run in report.runs] == ["awaiting_input", "completed", "completed", "completed"]
    assert report.same


@pytest.mark.parametrize("where", ["stream", "tool"])
async def test_a_run_that_was_cancelled_is_cancelled_at_the_same_place(tmp_path: Path, where: str) -> None:
    @tool
    async def hang() -> str:
        """Hang."""
        await anyio.sleep_forever()
        return ""

    response: Any = [say("a"), anyio.Event()] if where == "stream" else [call("hang")]
    async with Engine(Scripted(response), tools=[hang]).start("go", record=tmp_path / "r.jsonl") as run:
        async for event in run:
            if isinstance(event, AttemptStarted if where == "stream" else ToolExecutionStarted):
                run.cancel("disconnect")
    with anyio.fail_after(60):
        report = await replay(str(tmp_path / "r.jsonl"))
    assert report.same, report.runs[0].divergence
    assert report.runs[0].outcome.status == "cancelled"


async def test_a_record_of_a_killed_process_replays_up_to_where_it_ends(tmp_path: Path) -> None:
    path = await recorded(tmp_path / "r.jsonl", [])
    lines = path.read_bytes().splitlines(keepends=True)
    for kept in range(3, len(lines)):
        path.write_bytes(b"".join(lines[:kept]))
        with anyio.fail_after(60):
            report = await replay(str(path))
        assert report.same, (kept, report.runs[0].divergence)


async def test_a_replay_keeps_the_records_time(tmp_path: Path) -> None:
    path = await recorded(tmp_path / "r.jsonl", [])
    text = path.read_text()
    report = await replay(str(path))
    recorded_ms = report.runs[0].recorded.duration_ms if report.runs[0].recorded else -1
    assert abs(report.runs[0].outcome.duration_ms - recorded_ms) <= 5
    assert path.read_text() == text, "a replay never writes to the record"


# ---- what a replay must not wait for, and what it must not lose


@tool
async def look(place: int) -> str:
    """Look."""
    return f"found {place}"


async def test_a_closing_step_that_timed_out_times_out_again(tmp_path: Path) -> None:
    policy = Policy(closing=True, limits=Limits(steps=1), deadlines=Deadlines(closing=30))
    clock, provider = FakeClock(), Scripted([call("look", place=1)], [say("So far"), anyio.Event()])
    engine = Engine(provider, tools=[look], policy=policy, runtime=Runtime(clock=clock))
    async with engine.start("go", record=tmp_path / "r.jsonl") as run:
        async for event in run:
            if isinstance(event, TextMessageContent):
                await clock.advance(31)
    with anyio.fail_after(60):
        report = await replay(tmp_path / "r.jsonl")
    assert report.same, report.runs[0].divergence
    assert report.runs[0].outcome.stop_reason == "step_limit"


async def test_a_judge_that_took_its_time_took_it_in_the_replay_too(tmp_path: Path) -> None:
    clock = FakeClock()

    async def slow(run: Progress) -> Verdict:
        await clock.sleep(60)
        return Verdict("incomplete")

    policy = Policy(max_inner_steps=1, limits=Limits(seconds=50), deadlines=Deadlines(judge=90))
    engine = Engine(
        Scripted([call("look", place=1)]),
        tools=[look],
        hooks=Hooks(judge=slow),
        policy=policy,
        runtime=Runtime(clock=clock),
    )
    async with engine.start("go", record=tmp_path / "r.jsonl") as run:
        async for event in run:
            if isinstance(event, StepFinished):
                await clock.advance(60)
    assert run.outcome.stop_reason == "time_limit"
    report = await replay(tmp_path / "r.jsonl")
    assert report.same, report.runs[0].divergence
    assert report.runs[0].outcome.duration_ms == run.outcome.duration_ms


async def test_a_phase_that_a_completion_reports_is_reported_again(tmp_path: Path) -> None:
    provider = Scripted(
        [call("task_done", summary="Half", completion_percentage=50)], [call("task_done", summary="All")]
    )
    await Engine(provider, presets=[task_done]).run("go", record=tmp_path / "r.jsonl")
    report = await replay(tmp_path / "r.jsonl")
    then = report.runs[0].recorded
    assert then is not None
    assert [phase["completion_percentage"] for phase in then.phases] == [50, 100]
    assert report.runs[0].outcome.phases == then.phases


async def test_a_live_tool_that_hangs_is_stopped_at_its_timeout(tmp_path: Path) -> None:
    @tool(timeout=0.01)
    async def work(path: str) -> str:
        """Work."""
        await anyio.sleep_forever()
        return ""

    path = await recorded(tmp_path / "r.jsonl", [])
    with anyio.fail_after(60):
        report = await replay(path, tools=[work], live_tools=True)
    difference = report.runs[0].difference
    assert difference is not None
    assert isinstance(difference.replayed, ToolCallResult)
    assert difference.replayed.content == "work was stopped after 0.01 seconds."


# ---- looking on


class Onlooker(Watcher):
    """Notes what it is shown."""

    def __init__(self) -> None:
        self.passed: list[list[Event]] = []
        self.shown: list[list[Event]] = []
        self.diverged: list[tuple[int, Divergence]] = []

    def begin(self, recorded: RecordedRun, run: Run, passed: Sequence[Event]) -> None:
        self.passed.append(list(passed))
        self.shown.append([])

    async def show(self, event: Event, run: Run) -> None:
        self.shown[-1].append(event)

    def diverge(self, divergence: Divergence) -> None:
        self.diverged.append((len(self.shown[-1]), divergence))


async def three_runs(path: Path) -> Path:
    provider = Scripted(
        *[
            [say("w", 3), call("look", place=n)] if n % 3 else [call("finish_task", summary="Done")]
            for n in range(1, 10)
        ]
    )
    session = Engine(provider, tools=[look]).session(record=path)
    for prompt in ("one", "two", "three"):
        await session.run(prompt)
    return path


async def test_the_runs_of_a_replay_bear_the_ids_of_the_record(tmp_path: Path) -> None:
    path = await three_runs(tmp_path / "r.jsonl")
    onlooker = Onlooker()
    report = await replay(path, watcher=onlooker)
    ids = [run.started.run_id for run in read_record(path).runs]
    assert [run.outcome.run_id for run in report.runs] == ids
    assert [events[0].run_id for events in onlooker.shown if isinstance(events[0], RunStarted)] == ids


async def test_each_event_of_a_long_response_is_shown(tmp_path: Path) -> None:
    words = [say(f"w{number * number % 1009} ") for number in range(9000)]
    await Engine(Scripted(words)).run("go", record=tmp_path / "r.jsonl")
    onlooker = Onlooker()
    assert (await replay(tmp_path / "r.jsonl", watcher=onlooker)).same
    assert [event.seq for event in onlooker.shown[0]] == list(range(1, len(onlooker.shown[0]) + 1))
    assert sum(isinstance(event, TextMessageContent) for event in onlooker.shown[0]) == 9000


async def test_from_any_event_on_a_replay_is_shown_and_what_came_before_is_handed_over(tmp_path: Path) -> None:
    path = await three_runs(tmp_path / "r.jsonl")
    record = read_record(path)
    for number, run in enumerate(record.runs):
        for event in run.events:
            onlooker = Onlooker()
            report = await replay(record, watcher=onlooker, watch_from=EventAddress(run=number, seq=event.seq))
            assert report.same
            assert len(onlooker.shown) == len(record.runs) - number
            whole = [*onlooker.passed[0], *onlooker.shown[0]]
            assert [(type(e), e.seq) for e in whole] == [(type(e), e.seq) for e in run.events]
            assert onlooker.shown[0][0].seq == event.seq
            assert onlooker.passed[1:] == [[]] * (len(record.runs) - number - 1)


async def test_a_run_makes_no_request_before_its_watcher_has_seen_all_before_it(tmp_path: Path) -> None:
    log: list[str] = []
    path = await recorded(tmp_path / "r.jsonl", log)

    class Slow(Onlooker):
        async def show(self, event: Event, run: Run) -> None:
            if isinstance(event, StepStarted):
                await settle()
                log.append(f"step {event.step}")
            await super().show(event, run)

    log.clear()
    await replay(path, tools=[worker(log)], live_tools=True, watcher=Slow())
    assert log == ["step 1", "a", "step 2"]


async def test_what_a_watcher_raises_ends_the_replay_and_comes_out_of_it(tmp_path: Path) -> None:
    class Leaving(Onlooker):
        async def show(self, event: Event, run: Run) -> None:
            if isinstance(event, StepStarted) and event.step == 2:
                raise KeyError("enough")

    path = await recorded(tmp_path / "r.jsonl", [])
    with anyio.fail_after(60), pytest.raises(KeyError, match="enough"):
        await replay(path, watcher=Leaving())
    await settle()
    assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []


async def test_a_divergence_is_told_directly_after_the_decision_that_shows_it(tmp_path: Path) -> None:
    path = await recorded(tmp_path / "r.jsonl", [])
    path.write_text(path.read_text().replace('"reason":"completed"', '"reason":"text_final"'))
    onlooker = Onlooker()
    report = await replay(path, watcher=onlooker)
    ((place, divergence),) = onlooker.diverged
    assert isinstance(onlooker.shown[0][place - 1], DecisionMade)
    assert divergence == report.runs[0].divergence


# ---- time


class Slept:
    """Takes the place of sleeping."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seconds = 0.0
        monkeypatch.setattr(player.anyio, "sleep", self.sleep)

    async def sleep(self, seconds: float) -> None:
        self.seconds += seconds
        await checkpoint()


async def slow_record(path: Path) -> Path:
    """Two steps whose tools take ten seconds each, and a third one."""
    clock = FakeClock()

    @tool
    async def dig(place: int) -> str:
        """Dig."""
        await clock.sleep(10)
        return "found"

    provider = Scripted([call("dig", place=1)], [call("dig", place=2)], [call("finish_task", summary="x")])
    async with Engine(provider, tools=[dig], runtime=Runtime(clock=clock)).start("go", record=path) as run:
        async for event in run:
            if isinstance(event, ToolExecutionStarted) and event.name == "dig":
                await clock.advance(10)
    return path


async def test_with_pace_a_replay_waits_as_long_as_the_record_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = await slow_record(tmp_path / "r.jsonl")
    slept = Slept(monkeypatch)
    assert (await replay(path)).same
    assert slept.seconds == 0
    assert (await replay(path, pace=True)).same
    assert slept.seconds == pytest.approx(20, abs=0.1)


async def test_with_pace_and_a_beginning_only_what_is_shown_is_paced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = await slow_record(tmp_path / "r.jsonl")
    (run,) = read_record(path).runs
    (second,) = [event.seq for event in run.events if isinstance(event, StepStarted) and event.step == 2]
    slept = Slept(monkeypatch)
    assert (await replay(path, pace=True, watch_from=EventAddress(run=0, seq=second))).same
    assert slept.seconds == pytest.approx(10, abs=0.1)
