"""When the model said that it was done, and what takes it back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import get_args

from endstop.analysis.anchors import DoneClaim
from endstop.analysis.summary import RunSummary, SummaryBuilder
from endstop.decision import AssistantMessage, Facts, Outcome, Policy, ToolCall, ToolSpec, fold
from endstop.decision import events as ev
from endstop.decision.messages import ResultStatus
from msgspec.structs import replace

TOOLS = tuple(
    ToolSpec(name=name, description="", parameters={}, kind=kind)
    for name, kind in (("look", "ordinary"), ("finish", "completion"), ("think", "think"), ("ask", "question"))
)
STARTED = ev.RunStarted(run_id="r", session_id="s", policy=Policy(), tools=TOOLS)


def step(number: int, text: str = "", *names: str, status: str = "ok", closing: bool = False) -> list[ev.Event]:
    """One step with this text and these calls."""
    calls = tuple(ToolCall(f"{number}.{place}", name) for place, name in enumerate(names))
    message = AssistantMessage(text=text, calls=calls)
    return [
        ev.StepStarted(step=number, round=1, closing=closing),
        ev.ResponseFinished(step=number, message=message, finish="tool_calls" if calls else "stop"),
        *(ev.ToolCallResult(call_id=one.id, name=one.name, content="", status=status) for one in calls),  # type: ignore[arg-type]
        ev.StepFinished(step=number),
    ]


def claimed(*parts: Iterable[ev.Event]) -> int | None:
    """The step of the claim."""
    facts, claim = fold(Facts(), STARTED), DoneClaim(STARTED)
    for part in parts:
        for event in part:
            facts = fold(facts, event)
            claim.feed(event, facts)
    return claim.facts.steps if claim.facts is not None else None


def test_plain_text_and_completion_calls_claim_and_saying_so_again_changes_nothing() -> None:
    assert claimed(step(1, "", "look")) is None
    assert claimed(step(1, "", "look"), step(2, "Done.")) == 2
    assert claimed(step(1, "", "look"), step(2, "", "finish"), step(3, "Done."), step(4, "", "finish")) == 2
    assert claimed(step(1, "Done."), step(2, "", "think"), step(3, "", "finish")) == 1


def test_a_tool_that_runs_takes_it_back_and_one_that_does_not_leaves_it() -> None:
    assert claimed(step(1, "Done."), step(2, "", "look")) is None
    assert claimed(step(1, "Done."), step(2, "", "look", status="error"), step(3, "", "finish")) == 3
    assert claimed(step(1, "Done."), step(2, "", "look", status="invalid"), step(3, "", "finish")) == 1
    assert claimed(step(1, "", "look", "finish"), step(2, "", "finish")) == 1


def test_words_of_the_user_and_words_that_were_no_answer_take_it_back() -> None:
    asked = [ev.MessageAdded(text="And the tests?", origin="user")]
    echo = [ev.MessageAdded(text=Policy().prompts.echo, origin="nudge")]
    other = [ev.MessageAdded(text=Policy().prompts.text_is_no_end, origin="nudge")]
    assert claimed(step(1, "Done."), asked) is None
    assert claimed(step(1, "I understand."), echo, step(2, "8080")) == 2
    assert claimed(step(1, "Done."), other, step(2, "", "finish")) == 1


def test_a_phase_an_empty_answer_and_last_words_after_a_limit_claim_nothing() -> None:
    begun, response, result, finished = step(1, "", "finish")
    phase = ev.PhaseReported(call_id="1.0", percentage=30)
    assert claimed([begun, response, phase, result, finished]) is None
    assert claimed(step(1, "  ")) is None
    assert claimed(step(1, "Here is what is missing.", closing=True)) is None


def test_only_an_answer_and_a_firm_refusal_claim_and_no_other_text() -> None:
    assert claimed(step(1, "", "look"), step(2, "I'm sorry, I can't do that.")) == 2
    offer = "I'm sorry, I can't do that. Shall I look for another one instead?"
    for text in ("What is your user id?", "Let me run the tests:", offer, "API Error: 529"):
        assert claimed(step(1, "", "look"), step(2, text)) is None, text
        assert claimed(step(1, "", "look"), step(2, text), step(3, "Done.")) == 3, text
        assert claimed(step(1, "", "look"), step(2, text, "finish")) == 2, "a completion call claims, whatever is said"


def test_the_users_text_rule_says_what_claims() -> None:
    def ruled(text: str, said: str) -> int | None:
        started, response, finished = step(1, text)
        return claimed([started, response, ev.VerdictGiven(role="text_rule", name="mine", said=said), finished])

    assert ruled("What is your user id?", "final") == ruled("What is your user id?", "answer") == 1
    assert ruled("Done.", "nudge") is None
    assert ruled("Done.", "question") is None
    assert ruled("Done.", "default") == 1


def summarised(*events: ev.Event) -> RunSummary:
    facts = fold(Facts(), STARTED)
    builder = SummaryBuilder(STARTED, facts)
    for event in events:
        facts = fold(facts, event)
        builder.feed(event, facts)
    return builder.build(facts)


FAILURE = ev.AttemptFailed(attempt="1.1", kind="server", message="down")
LIMIT = ev.LimitReached(step=1, limit="seconds", used=1, allowed=1)


def test_E5_failed_calls_and_requests_are_errors_and_no_other_result_is() -> None:
    failed = {status for status in get_args(ResultStatus) if summarised(*step(1, "", "look", status=status)).errors}
    assert failed == {"error", "invalid", "truncated"}
    assert summarised(FAILURE, ev.AttemptRetracted(attempt="1.1", by="1.2"), *step(1, "Done.")).errors == 1
    assert summarised(replace(FAILURE, beside=True), replace(FAILURE, kind="cancelled")).errors == 0
    assert summarised(*step(1, "", "look", "look", status="error"), FAILURE).errors == 3


def test_E5_no_verdict_is_an_error_nor_what_a_limit_cut_off() -> None:
    rejected = ev.CompletionRejected(call_id="1.0", name="finish", reason="tests fail", by="gate")
    started, response, result, finished = step(1, "", "look", status="truncated")
    cut_off = summarised(started, LIMIT, response, result, finished)
    assert (cut_off.errors, cut_off.tools["look"].not_run) == (0, 1)
    assert summarised(*step(1, "", "finish", status="rejected"), rejected).errors == 0
    assert summarised(*step(1, "Done."), ev.EvaluationFinished(verdict="failed")).errors == 0


def test_a_run_that_ended_on_a_question_was_not_reported_as_done_and_says_what_its_last_text_is() -> None:
    def summary(text: str, *names: str) -> tuple[str | None, bool]:
        outcome = Outcome(run_id="r", session_id="s", status="completed", stop_reason="text_final", answer=text)
        digest = summarised(*step(1, text, *names), ev.RunFinished(outcome=outcome))
        return digest.last_text, digest.done is not None

    assert summary("The port is 8080.") == ("answer", True)
    assert summary("Which port do you want?") == ("question", False)
    assert summary("Now I'll look at the ports.") == ("announcement", False)
    assert summary("Done.", "finish") == (None, True)
