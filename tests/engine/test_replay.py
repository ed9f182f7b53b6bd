"""Replay: the same decisions, or the first place where they differ."""

from pathlib import Path
from typing import Any

import anyio
import pytest
from endstop.decision import WrongUse
from endstop.decision.events import AttemptStarted, ToolExecutionStarted
from endstop.engine import Engine, Tool, tool
from endstop.engine.presets import ask_user, finish_task
from endstop.engine.replay import replay
from endstop.providers import Scripted, call, say


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
    with pytest.raises(WrongUse, match="work, which you did not bring"):
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
    with anyio.fail_after(5):
        report = await replay(str(tmp_path / "r.jsonl"))
    assert report.same, report.runs[0].divergence
    assert report.runs[0].outcome.status == "cancelled"


async def test_a_record_of_a_killed_process_replays_up_to_where_it_ends(tmp_path: Path) -> None:
    path = await recorded(tmp_path / "r.jsonl", [])
    lines = path.read_bytes().splitlines(keepends=True)
    for kept in range(3, len(lines)):
        path.write_bytes(b"".join(lines[:kept]))
        with anyio.fail_after(5):
            report = await replay(str(path))
        assert report.same, (kept, report.runs[0].divergence)


async def test_a_replay_keeps_the_records_time(tmp_path: Path) -> None:
    path = await recorded(tmp_path / "r.jsonl", [])
    text = path.read_text()
    report = await replay(str(path))
    recorded_ms = report.runs[0].recorded.duration_ms if report.runs[0].recorded else -1
    assert abs(report.runs[0].outcome.duration_ms - recorded_ms) <= 5
    assert path.read_text() == text, "a replay never writes to the record"
