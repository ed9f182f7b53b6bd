"""The policy of an imported session has no effect of its own: what another loop did is not judged while it is read."""

from __future__ import annotations

from endstop.decision import AssistantMessage, Facts, Policy, StepJudge, ToolCall, decide, fold
from endstop.decision.events import ResponseFinished, StepFinished, StepStarted, ToolCallResult
from endstop.decision.settings import settings_from_record
from endstop.decision.step_history import StepHistory
from endstop.formats.reconstruction import IMPORTED_POLICY


def test_it_neither_stops_nor_nudges_a_session_that_goes_round_in_circles() -> None:
    facts, judge = Facts(), StepJudge(StepHistory.of([], foreign=True))
    for step in range(1, 60):
        call = ToolCall("c", "read_file", '{"path": "a"}')
        for event in (
            StepStarted(round=1, step=step),
            ToolCallResult(call_id="c", name="read_file", content="Error: not found", fingerprint="ab"),
            ResponseFinished(step=step, message=AssistantMessage(calls=(call,)), finish="tool_calls"),
            StepFinished(step=step),
        ):
            facts = fold(facts, judge.feed(facts, event))
        assert str(decide(facts, IMPORTED_POLICY)) == "go on (calls answered)"
    assert facts.stalled > 100


def test_it_takes_the_same_text_and_an_announcement_as_they_are() -> None:
    facts = Facts(calls=0, finish="stop", text="I will now look at it.", same_texts=9, monologue=9, tool_calls=3)
    assert str(decide(facts, IMPORTED_POLICY)) == "stop(text_final)"


def test_a_setting_that_came_later_is_off_in_it() -> None:
    first = settings_from_record(Policy, {})
    assert (IMPORTED_POLICY.stagnation, IMPORTED_POLICY.degeneration) == (first.stagnation, first.degeneration)
    assert first.stagnation.stop_at is first.degeneration.text is None
