"""`check_cut_records` and what every check looks for in a record: each is shown to fail, on a defect planted for it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from endstop import Approve, Deny, Engine, Happened, NotHappened, WrongUse
from endstop.decision import Question
from endstop.providers import Scripted, call
from endstop.testing.faults import FaultReport, SideEffects, by_step, check_cut_records
from endstop.testing.faults.cut_process import CutProcess, CutProgram
from endstop.testing.faults.invariants import broken_in_file
from endstop.tools import ask_user, finish_task

from .cut_scenes import CUT_SCENES, tools

LONG = pytest.mark.long
SCRIPT = (
    [call("look", n=1, id="a"), call("put", n=1, id="b")],
    [call("put", n=2, id="c"), call("put", n=3, id="d")],
    [call("finish_task", summary="done", id="e")],
)
Options = Callable[[SideEffects], dict[str, Any]]


def make(options: Options = lambda effects: {}, script: Any = None) -> Callable[[SideEffects], Engine]:
    """Makes engines with a tool that writes and one that reads."""

    def make_engine(effects: SideEffects) -> Engine:
        model = Scripted(by_step(*SCRIPT)) if script is None else script()
        return Engine(model, tools=tools(effects, **options(effects)), presets=[finish_task, ask_user])

    return make_engine


def looks_back(effects: SideEffects) -> dict[str, Any]:
    def check(n: int) -> Happened | NotHappened:
        return Happened(f"put {n}") if f"put {n}" in effects else NotHappened()

    return {"check": check}


def broken(report: FaultReport) -> set[str]:
    assert not report.ok
    return {violation.invariant for violation in report.violations}


@pytest.mark.parametrize("options", [lambda effects: {}, looks_back])
def test_a_resumed_run_repeats_nothing_and_loses_nothing_whichever_line_is_the_last(options: Options) -> None:
    report = check_cut_records(make(options), at="lines")
    assert report.ok, report
    assert report.tried == report.of > 30
    assert report.ends.total() > report.tried, "of some cuts more than one number of effects is tried"
    assert set(report.ends) == {"completed"}


@pytest.mark.parametrize("points", [100, pytest.param(None, marks=LONG)])
@pytest.mark.parametrize("options", [lambda effects: {}, looks_back])
def test_a_resumed_run_repeats_nothing_whichever_byte_is_the_last(options: Options, points: int | None) -> None:
    report = check_cut_records(make(options), points=points)
    print(report)
    assert report.ok, report
    assert report.of > 5_000


def test_a_last_line_that_is_whole_but_for_its_newline_counts() -> None:
    """At the ends of the first lines and at the bytes around them; the first line is a header, and no run yet."""
    lines = check_cut_records(make(), at="lines", points=[1, 2])
    assert lines.ok, lines
    ends = [line_end(make(), number) for number in (1, 2)]
    report = check_cut_records(make(), points=[byte for end in ends for byte in range(end - 30, end + 30)])
    assert report.ok, report
    assert 0 < report.alike < report.tried - 4, "each newline, and each line without its own, was told apart"


def line_end(make_engine: Callable[[SideEffects], Engine], number: int) -> int:
    """After how many bytes this line is complete."""
    with TemporaryDirectory() as folder:
        whole = CutProcess(CutProgram(make_engine, "Begin", None, None), Path(folder), {})
    return whole.growth.lines()[number - 1]


@pytest.mark.parametrize("name", ["subagents", "subagent_asks"])
def test_a_sub_agent_begins_once_whatever_is_there_of_its_first_lines(name: str, tmp_path: Path) -> None:
    """Its record is not there or empty, or ends in its header or its first run, with the newline or without."""
    scene = CUT_SCENES[name]
    program = CutProgram(scene.make_engine, **scene.options)
    whole = CutProcess(program, tmp_path, {})
    ends = whole.growth.lines()
    above = next(number for number, end in enumerate(ends) if len(whole.growth.left_at(end + 1)) > 1)
    begin, header, started = ends[above : above + 3]
    report = check_cut_records(
        scene.make_engine,
        points=[begin, begin + 1, *range(header - 2, header + 2), *range(started - 2, started + 2)],
        **scene.options,
    )
    assert report.ok, report
    assert report.tried == 10


def test_a_sub_agent_whose_empty_record_is_refused_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    scene = CUT_SCENES["subagents"]
    whole = CutProcess(CutProgram(scene.make_engine, **scene.options), tmp_path, {})
    begin = next(end for end in whole.growth.lines() if whole.growth.opened_at(end) is not None)
    monkeypatch.setattr("endstop.subagent_records._has_whole_line", Path.exists)
    report = check_cut_records(scene.make_engine, points=[begin], **scene.options)
    assert not report.ok
    assert all("jsonl empty" in violation.fault for violation in report.violations)


@pytest.mark.parametrize("name", CUT_SCENES)
def test_a_record_of_any_shape_goes_on_from_a_sample_of_its_bytes(name: str) -> None:
    scene = CUT_SCENES[name]
    report = check_cut_records(scene.make_engine, points=6, seed=len(name), **scene.options)
    assert report.ok, report
    assert report.tried == 6


@LONG
@pytest.mark.parametrize("name", CUT_SCENES)
def test_a_record_of_any_shape_goes_on_from_each_of_its_bytes(name: str) -> None:
    scene = CUT_SCENES[name]
    report = check_cut_records(scene.make_engine, **scene.options)
    print(name, report)
    assert report.ok, report
    assert report.tried == report.of > 1_500


def test_there_are_more_than_twenty_shapes() -> None:
    assert len(CUT_SCENES) > 20


def test_a_tool_that_writes_although_it_is_said_to_read_is_found() -> None:
    report = check_cut_records(make(lambda effects: {"reads": True}), at="lines")
    assert broken(report) == {"not_repeated"}
    assert "'put 1'" in report.violations[0].seen
    again = check_cut_records(make(lambda effects: {"reads": True}), at="lines", points=[report.violations[0].point])
    assert again.violations == report.violations[: len(again.violations)] != [], "what a violation says repeats it"


def with_a_helper(options: Options) -> Callable[[SideEffects], Engine]:
    """A caller whose only call is a sub-agent's."""

    def make_engine(effects: SideEffects) -> Engine:
        helper = make(options)(effects).as_tool("helper", "Helps.")
        above = ([call("helper", prompt="help", id="h")], [call("finish_task", summary="done", id="z")])
        return Engine(Scripted(by_step(*above)), tools=[helper])

    return make_engine


def test_a_tool_of_a_sub_agent_that_writes_although_it_is_said_to_read_is_found() -> None:
    whole = check_cut_records(with_a_helper(lambda effects: {}), at="lines", points=20)
    assert whole.ok, whole
    report = check_cut_records(with_a_helper(lambda effects: {"reads": True}), at="lines")
    assert broken(report) == {"not_repeated"}


def asking(options: Options) -> Callable[[SideEffects], Engine]:
    """It asks the user, and has its calls approved."""
    script = (
        [call("ask_user", question="Which?", id="q")],
        [call("put", n=1, id="p")],
        [call("finish_task", summary="done", id="z")],
    )
    return make(lambda effects: {"approval": True, **options(effects)}, lambda: Scripted(by_step(*script)))


def yes(question: Question) -> Any:
    return Approve() if question.tool else "this one"


def test_pauses_are_answered_by_whichever_process_finds_them() -> None:
    report = check_cut_records(asking(lambda effects: {}), at="lines", answer=yes)
    assert report.ok, report
    assert set(report.ends) == {"completed"}
    paused = check_cut_records(asking(lambda effects: {}), at="lines", points=3)
    assert paused.ok, paused
    assert set(paused.ends) == {"awaiting_input"}, "without an answer it stays paused"


def test_a_call_that_is_made_again_after_its_approval_is_found() -> None:
    report = check_cut_records(asking(lambda effects: {"reads": True}), at="lines", answer=yes)
    assert broken(report) == {"not_repeated"}


def test_a_user_who_says_something_else_each_time_is_found() -> None:
    said = iter(range(10_000))

    def answer(question: Question) -> Any:
        return Approve() if question.tool and next(said) < 1 else Deny("no") if question.tool else "this one"

    report = check_cut_records(asking(lambda effects: {}), at="lines", answer=answer)
    assert broken(report) == {"not_lost"}


def test_a_check_that_forgets_an_effect_is_found() -> None:
    report = check_cut_records(make(lambda effects: {"check": lambda n: NotHappened()}), at="lines")
    assert broken(report) == {"not_repeated"}


def test_a_check_that_makes_an_effect_up_is_found() -> None:
    report = check_cut_records(make(lambda effects: {"check": lambda n: Happened("put")}), at="lines")
    assert broken(report) == {"not_lost"}


def test_a_model_that_begins_anew_in_each_process_is_found() -> None:
    report = check_cut_records(make(script=lambda: Scripted(*SCRIPT)), at="lines")
    assert broken(report) & {"not_repeated", "same_end", "one_result"}


def test_a_run_that_ends_otherwise_is_found() -> None:
    def script() -> Scripted:
        asked = 0

        def respond(request: Any) -> Any:
            nonlocal asked
            asked += 1
            return "some text" if asked < 3 and request.attempt == "3.1" else by_step(*SCRIPT)(request)

        return Scripted(respond)

    report = check_cut_records(make(script=script), at="lines")
    assert broken(report) == {"same_end"}


def test_a_task_that_a_resumed_process_leaves_is_found() -> None:
    kept = []

    def check(n: int) -> NotHappened | Happened:
        kept.append(asyncio.ensure_future(asyncio.sleep(86_400)))
        return Happened(f"put {n}")

    async def later(n: int) -> Happened:
        check(n)
        return Happened(f"put {n}")

    report = check_cut_records(make(lambda effects: {"check": later}), at="lines")
    assert "nothing_left" in broken(report)


@pytest.mark.parametrize(
    ("make_engine", "options", "said"),
    [
        (make(), {"at": "words"}, "use bytes or lines"),
        (make(), {"points": 0}, "give a number of points"),
        (make(), {"seconds": -1}, "above 0"),
        (lambda effects: None, {}, "make_engine returned None"),
        (lambda effects: Engine(7), {}, "has no method `stream`"),
        (lambda effects: make()(SideEffects(Path("nowhere"))), {}, "added nothing to the effects"),
    ],
)
def test_what_cannot_work_is_refused(make_engine: Any, options: dict[str, Any], said: str) -> None:
    with pytest.raises(WrongUse, match=said):
        check_cut_records(make_engine, **options)


async def test_inside_a_running_loop_it_says_what_to_write() -> None:
    with pytest.raises(WrongUse, match=r"asyncio\.to_thread\(check_cut_records"):
        check_cut_records(make())


# ---- what every check looks for in a record


def _drop(kind: str) -> Callable[[list[dict[str, Any]]], None]:
    """Take the last event of this kind out, and number the rest anew."""

    def change(events: list[dict[str, Any]]) -> None:
        place = max(place for place, event in enumerate(events) if event.get("type") == kind)
        del events[place]
        _number(events)

    return change


def _number(events: list[dict[str, Any]]) -> None:
    number = 1
    for event in events[1:]:
        event["seq"] = number
        number += event.get("count", 1)


def _repeat(kind: str, *, at_the_end: bool = False) -> Callable[[list[dict[str, Any]]], None]:
    """Put the first event of this kind in once more, after itself or before the end."""

    def change(events: list[dict[str, Any]]) -> None:
        place = next(place for place, event in enumerate(events) if event.get("type") == kind)
        events.insert(len(events) - 1 if at_the_end else place + 1, dict(events[place]))
        _number(events)

    return change


def _time_goes_back(events: list[dict[str, Any]]) -> None:
    events[3]["t"] = 10**9


def _other_decision(events: list[dict[str, Any]]) -> None:
    finished = next(event for event in events if event.get("type") == "RUN_FINISHED")
    finished["outcome"]["stop_reason"] = "text_final"


@pytest.mark.parametrize(
    ("change", "invariant"),
    [
        (_drop("RUN_FINISHED"), "one_end"),
        (_drop("TOOL_CALL_RESULT"), "one_result"),
        (_repeat("TOOL_CALL_RESULT"), "one_result"),
        (_drop("STEP_FINISHED"), "closed"),
        (_repeat("TOOL_EXECUTION_STARTED", at_the_end=True), "nothing_after_completion"),
        (_time_goes_back, "no_gap"),
        (_other_decision, "replays"),
    ],
)
async def test_a_record_that_breaks_an_invariant_is_found(tmp_path: Path, change: Any, invariant: str) -> None:
    path = tmp_path / "record.jsonl"
    await make()(SideEffects(path)).run("go", record=path)
    assert await broken_in_file(path) == []
    events = [json.loads(line) for line in path.read_text().splitlines()]
    change(events)
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    assert invariant in {name for name, _ in await broken_in_file(path)}


@pytest.mark.parametrize(
    ("change", "invariant"), [(_drop("RUN_FINISHED"), "one_end"), (_drop("TOOL_CALL_RESULT"), "one_result")]
)
async def test_a_record_of_a_sub_agent_that_breaks_an_invariant_is_found(
    tmp_path: Path, change: Any, invariant: str
) -> None:
    path = tmp_path / "record.jsonl"
    await with_a_helper(lambda effects: {})(SideEffects(path)).run("go", record=path)
    (below,) = (tmp_path / "record.subagents").glob("*.jsonl")
    assert await broken_in_file(path) == []
    events = [json.loads(line) for line in below.read_text().splitlines()]
    change(events)
    below.write_text("".join(json.dumps(event) + "\n" for event in events))
    found = await broken_in_file(path)
    assert (invariant, True) in {(name, seen.startswith(below.name)) for name, seen in found}


async def test_an_answer_that_is_lost_is_found(tmp_path: Path) -> None:
    path = tmp_path / "record.jsonl"
    session = asking(lambda effects: {})(SideEffects(path)).session("s", record=path)
    await session.run("go")
    await session.answer("q", "this one")
    await session.approve("p")
    assert await broken_in_file(path) == []
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(line for line in lines if not ('"QUESTION_ANSWERED"' in line and '"q"' in line)))
    assert {"one_result", "no_gap"} <= {name for name, _ in await broken_in_file(path)}


async def test_a_record_that_cannot_be_read_is_found(tmp_path: Path) -> None:
    path = tmp_path / "record.jsonl"
    path.write_text("nothing of a record\n")
    assert [name for name, _ in await broken_in_file(path)] == ["readable"]
