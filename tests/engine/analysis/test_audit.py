"""One session as a person would tell it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
from endstop import Engine, tool
from endstop.analysis.audit import Audit, audit
from endstop.analysis.report import RecordDigest, digest_record
from endstop.decision import Event, Limits, Policy, ToolCall, ToolResult
from endstop.decision.events import RunStarted
from endstop.decision.policy import POLICIES
from endstop.follow import Follower
from endstop.formats.reconstruction import IMPORTED_POLICY
from endstop.providers import Scripted, call, say
from endstop.records.scan import scan
from endstop.tools import ask_user
from endstop.viewer.session_detail import record_verdict
from msgspec.structs import replace

from ..other_loops import ENDS, FAILED, record_of_calls

RECORDS = Path(__file__).parents[2] / "records"
THREE = list(POLICIES.values())


@tool(reads=True)
async def look(path: str) -> str:
    """Look."""
    return path


@tool
async def broken(path: str) -> str:
    """Break."""
    raise ValueError(path)


async def audited(*script: Any, policy: Policy | None = None, **options: Any) -> Audit:
    engine = Engine(Scripted(*script), tools=[look, broken], policy=policy or Policy(), **options)
    async with engine.start("go") as run:
        return audit([event async for event in run], THREE)


def test_a_loop_that_went_on_is_told_with_where_it_was_done_and_what_would_have_ended_it() -> None:
    (run,) = audit(scan(RECORDS / "before" / "A1.jsonl"), THREE).runs
    assert (run.made, run.done_at, run.done_by, run.wasted_steps) == (30, 3, "finish_task", 27)
    assert (run.status, run.stop_reason) == ("exhausted", "step_limit")
    assert [step.after_done for step in run.steps] == [False] * 3 + [True] * 27
    (again,) = run.repeated
    assert (again.name, len(again.steps)) == ("finish_task", 27)
    agent = run.stoppings[1]
    assert (agent.policy, agent.step, agent.saved_steps, agent.rule) == ("agent", 3, 27, "P0.5 control_flow")
    assert agent.supposed, "the record asked for the next step, and agent would not have"


def test_a_loop_of_others_has_no_limit_of_steps_that_nobody_has_set() -> None:
    events: list[Event] = []
    with Follower(IMPORTED_POLICY, speaks=False, on_event=events.append) as follower:
        follower.prompt("go")
        for n in range(40):
            call = ToolCall(f"c{n}", "look", f'{{"n": {n}}}')
            follower.step(calls=[call], results=[ToolResult(call.id, "look", "abcdefgh"[n % 8] * (n // 8 + 3))])
        follower.step("The port is 8080.")
    (run,) = audit(events, [*THREE, Policy(name="mine", limits=Limits(steps=30))]).runs
    assert [(stop.policy, stop.step) for stop in run.stoppings if stop.rule == "guard step_limit"] == [("mine", 30)]
    (started, *rest) = events
    assert isinstance(started, RunStarted)
    ours = [replace(started, engine="0.1.0"), *rest]
    (run,) = audit(ours, THREE).runs
    assert [stop.policy for stop in run.stoppings if stop.rule == "guard step_limit"] == ["chat"]


async def test_the_step_of_each_anchor_is_named_and_what_there_is_none_of() -> None:
    @tool
    async def save(path: str) -> str:
        """Save."""
        return "saved"

    @tool(reads=True)
    async def run_tests() -> str:
        """Run the tests."""
        return "3 passed in 0.1s"

    script = [
        [call("save", path="a")],
        [call("run_tests")],
        [call("look", path="a")],
        [call("finish_task", summary="x")],
    ]
    engine = Engine(Scripted(*script), tools=[look, save, run_tests], policy=Policy())
    async with engine.start("go") as run:
        (told,) = audit([event async for event in run], THREE).runs
    anchors = [
        (one.step, one.by, one.steps_after) for one in (told.said, told.changed, told.checked) if one is not None
    ]
    assert anchors == [(4, "finish_task", 0), (1, "save", 3), (2, "run_tests", 2)]
    (idle,) = (await audited([call("look", path="a")], say("It is 8080."))).runs
    assert (idle.said and idle.said.by, idle.changed, idle.checked) == ("text", None, None)


async def test_what_was_said_and_not_accepted_is_said_all_the_same() -> None:
    strict = replace(POLICIES["strict"], limits=Limits(steps=3))
    (run,) = (await audited([call("broken", path="b")], say("Done."), say("It is done."), policy=strict)).runs
    assert (run.status, run.done_at) == ("exhausted", None)
    assert run.said is not None
    assert (run.said.step, run.said.by, run.said.steps_after) == (2, "text", 1)
    complete = [call("finish_task", summary="x")]
    (run,) = (await audited([call("broken", path="b"), *complete], complete, policy=strict)).runs
    assert run.said is not None
    assert (run.said.step, run.said.by, run.done_at) == (1, "finish_task", 2), "handed back at step 1"


async def test_calls_that_were_answered_while_the_response_went_on_are_answered() -> None:
    told = await audited([call("look", path="a"), call("broken", path="b")], [call("finish_task", summary="x")])
    first = told.runs[0].steps[0]
    assert [(one.name, one.status) for one in first.calls] == [("look", "ok"), ("broken", "error")]
    assert told.runs[0].failed == {"broken": 1}
    assert told.runs[0].unanswered == []


async def test_a_question_without_an_answer_is_a_call_that_was_never_answered() -> None:
    told = await audited([call("ask_user", question="Which?")], presets=(ask_user,))
    assert [one.name for one in told.runs[0].unanswered] == ["ask_user"]
    assert told.runs[0].done_at is None


async def test_what_is_handed_back_and_said_by_the_loop_stands_with_its_step() -> None:
    told = await audited(
        [say("done?")],
        [call("broken", path="b"), call("finish_task", summary="x")],
        [call("finish_task", summary="x")],
        policy=replace(POLICIES["strict"], limits=Limits(steps=6)),
    )
    first, second, _ = told.runs[0].steps
    assert first.notes[0].startswith("nudge: Text alone does not end this task")
    assert second.notes[0].startswith("rejected (failed_call): broken")


async def test_the_line_of_the_policy_is_named_that_would_have_ended_it() -> None:
    endless = replace(Policy(), limits=Limits(steps=50), reminder=None)
    script = [[call("look", path=str(number))] for number in range(12)]
    engine = Engine(Scripted(*script, [call("finish_task", summary="x")]), tools=[look], policy=endless)
    async with engine.start("go") as run:
        events = [event async for event in run]
    five = replace(endless, name="five", limits=Limits(steps=5))
    (stopping,) = audit(events, [five]).runs[0].stoppings
    assert (stopping.step, stopping.rule, stopping.line) == (5, "guard step_limit", "limits.steps = 5")
    assert (stopping.saved_steps, stopping.supposed) == (8, False)


async def test_a_run_of_very_many_steps_keeps_its_ends_and_counts_all(monkeypatch: Any) -> None:
    monkeypatch.setattr("endstop.analysis.audit.MAX_STEPS", 6)
    endless = replace(Policy(), limits=Limits(steps=50), reminder=None)
    script = [[call("look", path=str(number))] for number in range(20)]
    told = await audited(*script, [call("finish_task", summary="x")], policy=endless)
    assert told.runs[0].made == 21
    assert [step.step for step in told.runs[0].steps] == [1, 2, 3, 19, 20, 21]


@tool(approval=True)
async def delete(path: str) -> str:
    """Delete."""
    return "gone"


async def test_an_audit_tells_what_waited_for_approval_and_what_the_user_said(tmp_path: Path) -> None:
    script = [call("delete", path="a", id="d1"), call("delete", path="b", id="d2")]
    session = Engine(Scripted(script, "Done."), tools=[delete]).session(record=tmp_path / "r.jsonl")
    await session.run("Tidy up")
    await session.approve("d1")
    await session.deny("d2", "keep it")
    runs = audit(scan(tmp_path / "r.jsonl"), THREE).runs
    notes = [[note for step in run.steps for note in step.notes] for run in runs]
    waits = "delete waits for the user's approval"
    assert notes == [[waits, waits], ["the user on delete: yes: yes"], ["the user on delete: no: keep it"]]


def test_audit_timeline_report_and_list_count_the_same_failed_calls_of_another_loop(tmp_path: Path) -> None:
    path = record_of_calls(tmp_path / "calls.jsonl")
    (run,) = audit(scan(path), THREE).runs
    assert [call.failed for step in run.steps for call in step.calls] == [
        end in ("failed", "nothing_found") for end in ENDS
    ]
    assert sum(run.failed.values()) == FAILED
    (digest,) = msgspec.msgpack.decode(digest_record(path), type=RecordDigest).runs
    assert digest.errors == FAILED
    assert digest.tools["bash"].failed == FAILED
    (strip,) = record_verdict(path, (), file="", is_written=False).strip
    assert sum(cell.failed for cell in strip.cells) == FAILED
    assert run.changed is not None
    assert (run.changed.by, run.changed.step) == ("bash", len(ENDS)), "the program that says what it wrote"
