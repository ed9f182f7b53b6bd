"""A transcript of a record that lost lines: it is never whole, but reading it never fails."""

from __future__ import annotations

from endstop.decision import AssistantMessage, ToolCall, Transcript
from endstop.decision.events import ResponseFinished, StepStarted, ToolCallResult


def test_results_before_a_step_that_should_not_be_there_are_lost_and_nothing_raises() -> None:
    transcript = Transcript()
    calls = (ToolCall("one", "look", "{}"), ToolCall("two", "look", "{}"))
    transcript.feed(ResponseFinished(step=1, message=AssistantMessage(calls=calls), finish="tool_calls"))
    transcript.feed(ToolCallResult(call_id="one", name="look", content="1"))
    transcript.feed(StepStarted(step=1, round=1))
    transcript.feed(ToolCallResult(call_id="two", name="look", content="2"))
    assert [call.id for call in transcript.open_calls] == ["one"]
