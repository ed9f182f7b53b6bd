"""Where a run last changed its work, and where that was checked."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest
from endstop.analysis.policy_simulation import backtest
from endstop.analysis.summary import RunSummary, SummaryBuilder
from endstop.decision import (
    AssistantMessage,
    Event,
    Facts,
    Outcome,
    Policy,
    StepJudge,
    TextKind,
    ToolCall,
    ToolSpec,
    fold,
)
from endstop.decision import events as ev
from endstop.decision.step_history import StepJudgement
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

TOOLS = (
    ToolSpec(name="look", description="", parameters={}, reads=True),
    ToolSpec(name="save", description="", parameters={}),
    ToolSpec(name="bash", description="", parameters={}),
    ToolSpec(name="finish", description="", parameters={}, kind="completion"),
    ToolSpec(name="think", description="", parameters={}, kind="think"),
    ToolSpec(name="ask", description="", parameters={}, kind="question"),
)
STARTED = ev.RunStarted(run_id="r", session_id="s", policy=Policy(), tools=TOOLS)
IMPORTED = replace(
    STARTED,
    engine="import:openai",
    tools=tuple(
        ToolSpec(name=name, description="", parameters={}) for name in ("read_file", "edit_file", "frobnicate", "bash")
    ),
)
PASSED, FAILED = "12 passed in 0.4s", "1 failed, 11 passed in 0.4s"
Made = tuple[str, str, str, str]
"""A call: the tool, the shell command, the result and its status."""


def did(name: str, command: str = "", content: str = "ok", status: str = "ok") -> Made:
    return name, command, content, status


def ran(command: str, content: str = "", status: str = "ok") -> Made:
    return did("bash", command, content, status)


TEST, BAD_TEST, SAVE, LOOK = ran("pytest", PASSED), ran("pytest", FAILED), did("save"), did("look")


def step(number: int, *made: Made, finished: bool = True) -> list[Event]:
    """One step with these calls."""
    calls = [
        ToolCall(f"{number}.{place}", name, json.dumps({"command": command} if command else {}))
        for place, (name, command, _, _) in enumerate(made)
    ]
    results = [
        ev.ToolCallResult(call_id=call.id, name=call.name, content=content, status=status)  # type: ignore[arg-type]
        for call, (_, _, content, status) in zip(calls, made, strict=True)
    ]
    return [
        ev.StepStarted(step=number, round=1),
        ev.ResponseFinished(step=number, message=AssistantMessage(calls=tuple(calls)), finish="tool_calls"),
        *results,
        *([ev.StepFinished(step=number)] if finished else []),
    ]


def steps(*made: Made | tuple[Made, ...]) -> list[Event]:
    """Steps with one call each, or with several."""
    listed = [(one,) if isinstance(one[0], str) else one for one in made]
    return [event for number, calls in enumerate(listed, 1) for event in step(number, *calls)]  # type: ignore[arg-type]


def gate(said: str) -> Event:
    return ev.VerdictGiven(role="gate", name="tests_pass", said=said)


def summary(events: Iterable[Event], started: ev.RunStarted = STARTED) -> RunSummary:
    facts = fold(Facts(), started)
    builder = SummaryBuilder(started, facts)
    for number, event in enumerate(events, 2):
        event = replace(event, seq=number)
        facts = fold(facts, event)
        builder.feed(event, facts)
    return builder.build(facts)


def anchors(events: Iterable[Event], started: ev.RunStarted = STARTED) -> tuple[int | None, int | None]:
    """The steps of the last change and of the check."""
    found = summary(events, started)
    return found.changed and found.changed.steps, found.checked and found.checked.steps


def test_a_run_that_only_reads_changed_nothing_and_checked_nothing() -> None:
    assert anchors([]) == (None, None)
    assert anchors(steps(LOOK, did("think"), did("finish"), did("ask"))) == (None, None)
    assert anchors(steps(ran("cat a.py"), ran("grep -rn port ."))) == (None, None)


def test_the_last_step_with_a_writing_call_that_succeeded_is_the_change() -> None:
    found = summary(steps(SAVE, LOOK, SAVE, LOOK, LOOK))
    assert (found.changed and found.changed.steps, found.changed_by) == (3, "save")
    assert (found.after_change and found.after_change.steps, found.after_change and found.after_change.calls) == (2, 2)
    assert anchors(steps(SAVE, (LOOK, SAVE), LOOK)) == (2, None)
    assert anchors(steps(ran("sed -i s/1/2/ a.py"), ran("cat a.py"))) == (1, None)


@pytest.mark.parametrize("status", ["error", "invalid", "truncated", "skipped", "cancelled", "unanswered", "unknown"])
def test_a_writing_call_that_failed_or_did_not_run_is_no_change(status: str) -> None:
    assert anchors(steps(SAVE, did("save", status=status))) == (1, None)


def test_a_result_that_reports_an_error_is_no_change_although_its_status_is_ok() -> None:
    assert anchors(steps(SAVE, ran("cp a b", "cp: cannot stat 'a': No such file or directory"))) == (1, None)


def test_what_a_tool_of_ours_declares_decides_before_its_name() -> None:
    tools = (
        ToolSpec(name="edit_file", description="", parameters={}, reads=True),
        ToolSpec(name="frobnicate", description="", parameters={}),
    )
    started = replace(STARTED, tools=tools)
    assert anchors(steps(did("edit_file")), started) == (None, None)
    assert anchors(steps(did("frobnicate")), started) == (1, None), "a tool of ours may write unless it says it reads"


def test_of_an_imported_tool_its_name_and_its_arguments_decide() -> None:
    assert anchors(steps(did("edit_file"), did("read_file")), IMPORTED) == (1, None)
    assert anchors(steps(did("frobnicate")), IMPORTED) == (None, None), "nothing says that it changes anything"
    assert anchors(steps(ran("echo 1 > a"), ran("ls")), IMPORTED) == (1, None)


def test_a_test_that_passed_after_the_last_change_is_the_check_and_the_first_of_several() -> None:
    found = summary(steps(SAVE, TEST, LOOK, TEST, LOOK))
    assert (found.checked and found.checked.steps, found.checked_by) == (2, "bash")
    assert found.after_check is not None
    assert found.after_check.steps == 3


def test_a_change_or_a_failure_takes_the_check_back() -> None:
    assert anchors(steps(SAVE, TEST, SAVE)) == (3, None)
    assert anchors(steps(SAVE, TEST, SAVE, TEST)) == (3, 4)
    assert anchors(steps(SAVE, TEST, BAD_TEST)) == (1, None)
    assert anchors(steps(SAVE, BAD_TEST, TEST)) == (1, 3)


def test_a_test_before_any_change_checks_nothing_that_the_run_did() -> None:
    assert anchors(steps(TEST, LOOK)) == (None, None)
    assert anchors(steps(TEST, SAVE)) == (2, None)


def test_calls_of_one_step_count_together_in_whatever_order_they_end() -> None:
    assert anchors(steps((SAVE, TEST))) == anchors(steps((TEST, SAVE))) == (1, 1)
    assert anchors(steps(SAVE, (BAD_TEST, TEST))) == anchors(steps(SAVE, (TEST, BAD_TEST))) == (1, None)


def test_a_command_that_changes_and_checks_has_changed_whatever_the_check_said() -> None:
    command = "sed -i s/1/2/ a.py && pytest"
    assert anchors(steps(ran(command, PASSED), LOOK)) == (1, 1)
    assert anchors(steps(SAVE, TEST, ran(command, "ERROR: collection failed\nBUILD FAILED"))) == (3, None)


def test_gates_and_the_evaluation_check_the_work_too() -> None:
    accepted, rejected = gate("accept"), gate("reject")
    assert anchors([*steps(SAVE, LOOK), accepted]) == (1, 2)
    assert summary([*steps(SAVE, LOOK), accepted]).checked_by == "tests_pass"
    assert anchors([*steps(SAVE, TEST), rejected]) == (1, None)
    assert anchors([*steps(SAVE, TEST), ev.VerdictGiven(role="judge", name="j", said="complete")]) == (1, 2)
    assert anchors([*steps(SAVE, LOOK), ev.EvaluationFinished(verdict="passed", name="e")]) == (1, 2)
    assert anchors([*steps(SAVE, TEST, LOOK), ev.EvaluationFinished(verdict="passed", name="e")]) == (1, 2)
    assert anchors([*steps(SAVE, LOOK), ev.EvaluationFinished(verdict="failed", name="e")]) == (1, None)


def test_a_gate_that_accepts_within_the_step_of_the_last_change_came_after_it() -> None:
    *calls, finished = steps(SAVE)
    assert anchors([*calls, gate("accept"), finished]) == (1, 1)


def test_a_record_that_ends_within_a_step_keeps_what_the_step_did() -> None:
    assert anchors([*steps(LOOK), *step(2, SAVE, finished=False)]) == (2, None)


def test_what_a_fork_copied_counts_in_its_origin() -> None:
    copied = steps(SAVE, LOOK)
    made = [*copied, *step(3, LOOK), *step(4, LOOK)]
    forked = replace(STARTED, origin=ev.Origin(session_id="o", run_id="o", at=len(copied) + 2))
    found = summary(made, forked)
    assert found.changed is not None
    assert found.after_change is not None
    assert (found.changed.steps, found.start.steps, found.used.steps) == (1, 2, 2)
    assert found.after_change.steps == 2, "the copied step after the change is not the fork's own"


def test_a_stop_before_the_last_change_is_told_apart_from_one_after_it() -> None:
    def cut_at(steps_allowed: int) -> tuple[bool, bool]:
        events: list[Event] = [STARTED, ev.RoundStarted(round=1), *steps(LOOK, LOOK, SAVE, LOOK, LOOK)]
        events.append(
            ev.RunFinished(
                outcome=Outcome(run_id="r", session_id="s", status="completed", stop_reason="text_final", steps=5)
            )
        )
        numbered = [replace(event, seq=number) for number, event in enumerate(events, 1)]
        limits = replace(Policy().limits, steps=steps_allowed)
        ((finding,),) = [one.findings for one in backtest(numbered, [replace(Policy(), limits=limits, reminder=None)])]
        return finding.before_change, finding.cut

    assert cut_at(2) == (True, True)
    assert cut_at(3) == (False, True), "the change was made, though the run had not said so"
    assert cut_at(9) == (False, False)


CALLS = st.sampled_from(
    [SAVE, LOOK, TEST, BAD_TEST, ran("rm a"), ran("ls"), did("save", status="error"), did("finish")]
)


@given(st.lists(st.lists(CALLS, max_size=3), max_size=8), st.randoms(use_true_random=False))
def test_anchors_lie_within_the_run_in_order_and_do_not_depend_on_the_order_of_results(
    made: list[list[Made]], random: Any
) -> None:
    events = [event for number, calls in enumerate(made, 1) for event in step(number, *calls)]
    found = summary(events)
    changed, checked = found.changed, found.checked
    assert (checked is None) or (changed is not None and changed.steps <= checked.steps <= found.end.steps)
    assert (changed is None) or (1 <= changed.steps <= found.end.steps)
    for after, at in ((found.after_change, changed), (found.after_check, checked)):
        assert (after is None) == (at is None)
        assert after is None or 0 <= after.steps == found.end.steps - (at.steps if at else 0)
    assert anchors(_shuffled(events, random)) == (changed and changed.steps, checked and checked.steps)


def _shuffled(events: list[Event], random: Any) -> list[Event]:
    """The same with the results of each step in another order."""
    shuffled: list[Event] = []
    results: list[Event] = []
    for event in events:
        if isinstance(event, ev.ToolCallResult):
            results.append(event)
            continue
        random.shuffle(results)
        shuffled += [*results, event]
        results = []
    return shuffled


# ---- what a text was judged to be


def said(text: str, judged: StepJudgement | None = None) -> list[Event]:
    """A run of one step with this text."""
    return [
        ev.StepStarted(step=1, round=1),
        ev.ResponseFinished(step=1, message=AssistantMessage(text=text), finish="stop"),
        ev.StepFinished(step=1, judged=judged),
    ]


@pytest.mark.parametrize(
    ("text", "claims"),
    [
        ("The port is 8080.", True),
        ("I'm sorry, but this booking cannot be modified.", True),
        ("I cannot modify this booking, but I can cancel it. Shall I?", False),
        ("3 of 7 files migrated, remaining: a.py, b.py, c.py, d.py.", False),
        ('The tool returned: {"port": 8080}', False),
        ("If you would like to proceed with the change, let me know.", False),
    ],
)
def test_an_answer_and_a_firm_refusal_claim_that_the_work_is_done(text: str, claims: bool) -> None:
    assert (summary(said(text)).claimed is not None) == claims


def test_what_a_text_is_was_recorded_when_its_step_ended() -> None:
    facts = Facts()
    judge = StepJudge()
    recorded: list[Event] = []
    for event in (STARTED, *said("3 of 7 files migrated, remaining: a.py.")):
        recorded.append(judge.feed(facts, event))
        facts = fold(facts, recorded[-1])
    assert recorded[-1].judged == StepJudgement("talk", text_kind="partial")  # type: ignore[attr-defined]
    assert facts.text_kind == "partial"


@pytest.mark.parametrize(("judged", "claims"), [("answer", True), ("partial", False), (None, True)])
def test_what_was_recorded_counts_whatever_the_text_says_now(judged: TextKind | None, claims: bool) -> None:
    events = said("[redacted]", StepJudgement("talk", text_kind=judged))
    assert (summary(events).claimed is not None) == claims
    (result,) = backtest([STARTED, *events], [Policy()])
    assert result.digest.last_text == (judged or "answer")
