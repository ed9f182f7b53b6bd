"""What happened in each step, of sessions that were really played."""

from __future__ import annotations

import json
from pathlib import Path

from endstop import Engine
from endstop.analysis.timeline import MAX_CALLS, MAX_RUNS, STEPS_PER_END, StepCell, record_timeline
from endstop.decision import Limits, Policy
from endstop.providers import Interrupted, Retry, Scripted, call
from endstop.tools import ask_user, finish_task

from . import scenes


def marks(path: Path, run: int = 0) -> list[str]:
    return [cell.mark for cell in record_timeline(path).runs[run].cells]


def cells(path: Path) -> tuple[StepCell, ...]:
    return record_timeline(path).runs[0].cells


async def test_each_step_is_a_cell_by_what_tells_most(tmp_path: Path) -> None:
    assert marks(await scenes.done(tmp_path / "a.jsonl")) == ["calls", "calls", "completion"]
    assert marks(await scenes.told(tmp_path / "b.jsonl")) == ["calls", "calls", "text"]
    assert marks(await scenes.handed_back(tmp_path / "c.jsonl", times=1)) == [
        "calls",
        "calls",
        "rejected",
        "completion",
    ]
    script = [[call("fails", path="x")], [call("nobody")], "", [call("ask_user", question="?")]]
    path = await scenes.play(tmp_path / "d.jsonl", script, presets=(ask_user, finish_task))
    assert marks(path) == ["error", "error", "empty", "question"]


async def test_what_the_loop_says_stands_before_the_step_that_hears_it(tmp_path: Path) -> None:
    found = cells(await scenes.talkative(tmp_path / "a.jsonl", before=2, after=1))
    assert [(cell.mark, cell.said) for cell in found] == [("calls", ()), ("text", ()), ("completion", ("nudge",))]
    policy = Policy(limits=Limits(steps=6), closing=False)
    found = cells(await scenes.play(tmp_path / "b.jsonl", scenes.work(6), policy=policy))
    assert [cell.said for cell in found] == [(), (), (), (), (), ("reminder",)]


async def test_a_request_that_was_made_again_is_no_error_and_one_that_failed_for_good_is(tmp_path: Path) -> None:
    for name, script, expected in (
        ("a", [Interrupted("gone"), scenes.FINISH], [("completion", ("retry",))]),
        ("b", [Interrupted("gone"), Interrupted("gone")], [("error", ("retry",))]),
    ):
        provider = Retry(Scripted(*script), times={"interrupted": 1}, first_wait=0.001)
        engine = Engine(provider)
        await engine.session(record=tmp_path / name).run("go")
        assert [(cell.mark, cell.said) for cell in cells(tmp_path / name)] == expected


async def test_calls_tokens_and_repetition_stand_in_the_cell(tmp_path: Path) -> None:
    found = cells(await scenes.repeating(tmp_path / "a.jsonl", times=2))
    assert [cell.repeated for cell in found] == [False, True, False]
    assert [(one.name, one.status) for one in found[0].calls] == [("look", "ok")]
    assert found[0].output_tokens > 0
    many = [[call("look", path=str(number)) for number in range(MAX_CALLS + 3)], scenes.FINISH]
    (cell, _) = cells(await scenes.play(tmp_path / "b.jsonl", many))
    assert (len(cell.calls), cell.more_calls) == (MAX_CALLS, 3)


async def test_of_a_long_run_the_middle_and_of_many_runs_the_last_ones_are_left_out(tmp_path: Path) -> None:
    steps = 2 * STEPS_PER_END + 7
    policy = Policy(limits=Limits(steps=steps), reminder=None, closing=False)
    path = await scenes.play(tmp_path / "a.jsonl", scenes.work(steps), policy=policy)
    (run,) = record_timeline(path).runs
    assert (len(run.cells), run.left_out, run.left_out_after) == (2 * STEPS_PER_END, 7, STEPS_PER_END)
    assert [run.cells[STEPS_PER_END - 1].step, run.cells[STEPS_PER_END].step, run.cells[-1].step] == [
        STEPS_PER_END,
        STEPS_PER_END + 8,
        steps,
    ]
    path = await scenes.play(tmp_path / "b.jsonl", ["Hello."] * (MAX_RUNS + 2), runs=MAX_RUNS + 2)
    timeline = record_timeline(path)
    assert (len(timeline.runs), timeline.more_runs) == (MAX_RUNS, 2)
    assert marks(path, run=1) == ["text"]


async def test_the_digest_beside_it_is_that_of_the_report(tmp_path: Path) -> None:
    path = await scenes.talkative(tmp_path / "a.jsonl", good=True)
    digest = record_timeline(path).runs[0].digest
    assert (digest.verdict, digest.end.steps, digest.claimed and digest.claimed.steps) == ("passed", 5, 3)


async def test_a_step_that_was_entered_again_after_a_kill_is_one_cell(tmp_path: Path) -> None:
    path = await scenes.play(tmp_path / "a.jsonl", [[call("look", path="a", id="l1")], scenes.FINISH])
    lines = path.read_bytes().splitlines(keepends=True)
    at = next(number for number, line in enumerate(lines) if b"TOOL_CALL_RESULT" in line)
    seq = json.loads(lines[at])["seq"]
    resumed = b'{"type":"RUN_RESUMED","seq":%d,"t":1}\n' % seq
    later = []
    for line in lines[at:]:
        old = line.partition(b'"seq":')[2].partition(b",")[0]
        later.append(line.replace(b'"seq":' + old, b'"seq":%d' % (int(old) + 1), 1))
    path.write_bytes(b"".join([*lines[:at], resumed, *later]))
    found = cells(path)
    assert [(cell.mark, cell.said) for cell in found] == [("calls", ("resumed",)), ("completion", ())]
    assert [one.status for one in found[0].calls] == ["ok"]
