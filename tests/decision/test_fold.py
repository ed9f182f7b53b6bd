"""What each event changes in the facts, and that it changes nothing else."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from endstop.decision import (
    AssistantMessage,
    Event,
    Facts,
    Outcome,
    Policy,
    Price,
    Prompts,
    Question,
    Reasoning,
    ToolCall,
    ToolSpec,
    Usage,
    fold,
)
from endstop.decision import events as ev
from endstop.decision.failures import Failures
from endstop.decision.fold import saved_by_cut
from endstop.decision.outcome import Asker, CutOff, CutSavings, SubagentUse
from endstop.decision.policy import REMEMBERED_POINTS
from endstop.decision.repetition import Repetitions
from endstop.decision.run_origin import Carried, Grants
from endstop.decision.step_history import StepJudgement

USED = Usage(input_tokens=10, output_tokens=3)


def changed(event: Event, **before: Any) -> dict[str, Any]:
    """The fields that an event changes, with their new values."""
    facts = Facts(**before)
    after = fold(facts, event)
    return {
        name: getattr(after, name) for name in Facts.__struct_fields__ if getattr(after, name) != getattr(facts, name)
    }


def tool(name: str, kind: Any = "ordinary", reads: bool = False) -> ToolSpec:
    return ToolSpec(name=name, description="", parameters={}, kind=kind, reads=reads)


# ---- the run


def test_a_run_starts_with_what_its_first_event_says() -> None:
    finish = tool("finish", "completion")
    own, other = Price(input=1, output=2), Price(input=3, output=4)
    event = ev.RunStarted(
        run_id="r", session_id="s", policy=Policy(prompts=Prompts(unclear="What?")), tool_choice="required",
        tools=(finish, tool("edit")), model="m", prices={"m": own, "n": other},
        before=Carried(steps=9, context_tokens=70),
    )  # fmt: skip
    assert fold(Facts(steps=5, text="old"), event) == Facts(
        run_id="r", session_id="s", tool_choice="required", unclear="What?", completion_tools=("finish",),
        failures=Failures.of((finish, tool("edit"))), prices={"m": own, "n": other, "": own},
        before=Carried(steps=9, context_tokens=70), context_tokens=70,
    )  # fmt: skip


def test_the_prices_of_other_models_alone_say_nothing_of_the_runs_own() -> None:
    prices = {"n": Price(input=3, output=4)}
    started = ev.RunStarted(run_id="r", session_id="s", policy=Policy(), model="m", prices=prices)
    assert fold(Facts(), started).prices == prices


def test_a_run_takes_over_what_the_paused_one_had_used() -> None:
    carried = Carried(
        steps=2, rounds=3, requests=4, tool_calls=5, rejections=6, usage=USED, subagents=SubagentUse(runs=1),
        saved=CutSavings(cuts=1), elapsed_ms=7, reminded=("steps",), grants=Grants(steps=8), phases=({"summary": "a"},),
        questions=(Question("q", "?"),), context_tokens=11,
    )  # fmt: skip
    started = ev.RunStarted(
        run_id="r", session_id="s", policy=Policy(), carried=carried, before=Carried(context_tokens=99)
    )
    after = fold(Facts(), started)
    assert (after.steps, after.rounds, after.requests, after.tool_calls, after.rejections) == (2, 3, 4, 5, 6)
    assert (after.usage, after.subagents, after.saved) == (USED, carried.subagents, carried.saved)
    assert (after.carried_ms, after.reminded, after.grants) == (7, ("steps",), Grants(steps=8))
    assert (after.phases, after.questions, after.context_tokens) == (carried.phases, carried.questions, 11)
    assert after.progressed == 2


def test_a_resumed_run_takes_the_interrupted_step_back() -> None:
    failed = {"provider_error": "e", "error_kind": "server", "degenerate": "d", "overflows": 1}
    resumed = ev.RunResumed(interrupted_step=3, t=9)
    assert changed(resumed, steps=3, inner_steps=2, **failed) == {
        "t": 9, "steps": 2, "inner_steps": 1, "provider_error": None, "error_kind": None, "degenerate": None,
        "overflows": 0,
    }  # fmt: skip
    assert changed(resumed, steps=3, inner_steps=0) == {"t": 9, "steps": 2}
    assert changed(resumed, steps=3, inner_steps=2, closing=True) == {"t": 9, "inner_steps": 1}
    assert changed(ev.RunResumed(t=9), steps=3, inner_steps=2, **failed) == {"t": 9}


def test_a_resumed_run_forgets_a_limit_that_its_interrupted_step_had_reached() -> None:
    reached = ev.LimitReached(step=3, limit="cost_usd", used=1, allowed=1)
    refused = ev.BudgetRefused(step=3, limit="cost_usd", used=1, allowed=1)
    both = {"limit_reached": reached, "refused": refused}
    after = changed(ev.RunResumed(interrupted_step=3), steps=3, **both)
    assert (after["limit_reached"], after["refused"]) == (None, None)
    assert changed(ev.RunResumed(interrupted_step=4), steps=4, **both) == {"steps": 3}
    assert changed(ev.RunResumed(interrupted_step=3), steps=3, closing=True, **both) == {}


def test_a_reminder_is_remembered_and_the_users_message_takes_the_points_away() -> None:
    reminder = ev.MessageAdded(text="a", origin="reminder", topics=("rounds", "seconds"), t=9)
    assert changed(reminder, reminded=("steps",)) == {"t": 9, "reminded": ("steps", "rounds", "seconds")}
    points = {"stalled": 5, "stalled_before": 4, "points": (4, 5)}
    said = ev.MessageAdded(text="a", origin="user", t=9)
    assert changed(said, **points) == {"stalled": 0, "stalled_before": 0, "points": ()}
    assert changed(ev.MessageAdded(text="a", origin="nudge", t=9), **points) == {}


def test_the_first_cause_of_a_cancellation_counts() -> None:
    assert changed(ev.CancelRequested(cause="caller", t=9)) == {"t": 9, "cancelled": "caller"}
    assert changed(ev.CancelRequested(cause="timeout", t=9), cancelled="caller") == {"t": 9}


# ---- verdicts


def verdict(role: Any, said: str, **more: Any) -> ev.VerdictGiven:
    return ev.VerdictGiven(role=role, name="mine", said=said, t=9, **more)


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (verdict("text_rule", "nudge"), {"text_verdict": "nudge"}),
        (verdict("judge", "complete", detail="green"), {"judged": "green", "accepted_by": ("mine",)}),
        (verdict("judge", "complete"), {"judged": "the judge says so", "accepted_by": ("mine",)}),
        (verdict("judge", "incomplete", detail="red"), {}),
        (verdict("gate", "accept"), {"accepted_by": ("mine",)}),
        (verdict("gate", "reject", detail="red"), {}),
        (verdict("handler", "answered", detail="4"), {"handled": "4"}),
        (verdict("handler", "passed", detail="4"), {}),
        (verdict("compactor", "summarised", usage=USED), {"usage": USED}),
    ],
)
def test_a_verdict_counts_by_who_gave_it(event: ev.VerdictGiven, expected: dict[str, Any]) -> None:
    assert changed(event) == {"t": 9, **expected}


def test_the_usage_of_a_verdict_is_added_and_a_name_is_kept_once() -> None:
    assert changed(verdict("check", "x", usage=USED), usage=USED)["usage"] == USED + USED
    assert changed(verdict("gate", "accept"), accepted_by=("first", "mine")) == {"t": 9}
    assert changed(verdict("gate", "accept"), accepted_by=("first",))["accepted_by"] == ("first", "mine")


# ---- rounds, steps, attempts


def test_a_round_begins_without_steps() -> None:
    assert changed(ev.RoundStarted(round=3, t=9), rounds=2, inner_steps=4) == {"t": 9, "rounds": 3, "inner_steps": 0}


LATEST: dict[str, Any] = {
    "finish": "stop", "raw_finish": "end_turn", "text": "a", "reasoned": True, "calls": 1,
    "open_calls": (ToolCall("c", "look"),), "results": (ev.ToolCallResult(call_id="c", name="look", content=""),),
    "answered": 1, "failed": 1, "invalid": 1, "truncated": True, "cut_by": "c", "rejection": "no",
    "provider_error": "e", "error_kind": "server", "degenerate": "d", "text_verdict": "nudge", "text_judged": "answer",
    "judged": "j", "refused": ev.BudgetRefused(step=1, limit="cost_usd", used=1, allowed=1),
    "limit_reached": ev.LimitReached(step=1, limit="seconds", used=1, allowed=1), "subagent_runs": (("r", 1),),
    "accepted_by": ("gate",),
}  # fmt: skip
"""Everything that belongs to the latest step."""


def test_a_step_forgets_the_one_before() -> None:
    begun = Facts(steps=1, inner_steps=1)
    event = ev.StepStarted(step=2, round=1, t=9)
    facts = msgspec.structs.replace(begun, **LATEST, failures=Failures(new_writes=("edit",)))
    assert fold(facts, event) == Facts(steps=2, inner_steps=2, t=9, failures=Failures(writes=("edit",)))


def test_who_accepted_the_completion_stays_and_a_closing_step_does_not_count() -> None:
    closing = ev.StepStarted(step=2, round=1, closing=True, t=9)
    assert changed(closing, steps=1, accepted="c", accepted_by=("gate",)) == {"t": 9, "inner_steps": 1, "closing": True}
    assert changed(ev.StepStarted(step=2, round=1), steps=1, closing=True) == {
        "steps": 2, "inner_steps": 1, "closing": False
    }  # fmt: skip


def test_an_attempt_is_a_request_and_clears_the_error_before() -> None:
    event = ev.AttemptStarted(attempt="1.2", model="m", t=9)
    assert changed(event, requests=1, provider_error="e", error_kind="server", degenerate="d", overflows=1) == {
        "t": 9, "requests": 2, "attempt": "attempt 1.2 of m", "provider_error": None, "error_kind": None,
    }  # fmt: skip
    assert changed(ev.AttemptStarted(attempt="1.2"))["attempt"] == "attempt 1.2"


def failed(**more: Any) -> ev.AttemptFailed:
    return ev.AttemptFailed(**{"attempt": "1.1", "kind": "server", "message": "busy", "t": 9, **more})


def test_a_failed_attempt_is_the_steps_error() -> None:
    begun = {"attempt": "attempt 1.1 of m"}
    assert changed(failed(), **begun) == {
        "t": 9, "provider_error": "attempt 1.1 of m: server: busy", "error_kind": "server",
    }  # fmt: skip
    other = changed(failed(model="n", retry_after=2.5, usage=USED), usage=USED, **begun)
    assert other["provider_error"] == "attempt 1.1 of n: server: busy (try again in 2.5 s)"
    assert other["usage"] == USED + USED


def test_overflows_are_counted() -> None:
    assert changed(failed(kind="context_overflow"), overflows=1)["overflows"] == 2
    assert "overflows" not in changed(failed(), overflows=1)


def test_what_a_failed_attempt_had_written_is_the_latest_text_as_a_part() -> None:
    wrote = changed(failed(text="half a"), latest_text="whole")
    assert (wrote["latest_text"], wrote["latest_text_partial"]) == ("half a", True)
    assert "latest_text" not in changed(failed(text=" \n"), latest_text="whole")


def test_an_attempt_that_was_cancelled_or_made_beside_another_is_no_error() -> None:
    assert changed(failed(kind="cancelled", usage=USED)) == {"t": 9, "usage": USED}
    assert changed(failed(beside=True, usage=USED, text="half a")) == {"t": 9, "usage": USED}
    partial = changed(failed(kind="cancelled", text="half a"))
    assert partial == {"t": 9, "latest_text": "half a", "latest_text_partial": True}


def test_an_attempt_that_repeated_itself_was_cut() -> None:
    event = failed(kind="degenerate", message="'ha' 90 times", usage=USED)
    begun = {"attempt": "attempt 1.1 of m", "text": "before"}
    assert changed(event, **begun) == {
        "t": 9, "usage": USED, "degenerate": "attempt 1.1 of m was cut: 'ha' 90 times"
    }  # fmt: skip
    with_text = changed(failed(kind="degenerate", text="Well, "), **begun)
    assert (with_text["text"], with_text["latest_text"]) == ("Well, ", "Well, ")


# ---- responses


def response(text: str = "", *calls: ToolCall, finish: Any = "stop", **more: Any) -> ev.ResponseFinished:
    return ev.ResponseFinished(step=1, message=AssistantMessage(text, calls), finish=finish, t=9, **more)


CALL = ToolCall("c", "look", "{}")


def test_a_response_is_the_latest_step() -> None:
    event = response("a", CALL, finish="tool_calls", raw_finish="tool_use", usage=USED)
    before = {"usage": USED, "degenerate": "d", "overflows": 2, "monologue": 3, "same_texts": 2, "empty_answers": 1}
    assert changed(event, **before) == {
        "t": 9, "finish": "tool_calls", "raw_finish": "tool_use", "text": "a", "latest_text": "a", "calls": 1,
        "open_calls": (CALL,), "usage": USED + USED, "context_tokens": 13, "degenerate": None, "overflows": 0,
        "monologue": 0, "same_texts": 0, "empty_answers": 0,
    }  # fmt: skip


def test_a_response_without_calls_is_another_step_of_a_monologue() -> None:
    assert changed(response("a"), monologue=1)["monologue"] == 2


@pytest.mark.parametrize(
    ("latest", "said", "monologue", "times"),
    [("a  b", "a\nb", 1, 3), ("a b", "a b", 0, 1), ("a b", "b a", 1, 1), ("a", " ", 1, 0)],
)
def test_the_same_text_is_counted_from_one_response_without_calls_to_the_next(
    latest: str, said: str, monologue: int, times: int
) -> None:
    after = fold(Facts(latest_text=latest, monologue=monologue, same_texts=2), response(said))
    assert after.same_texts == times


def test_a_blank_text_is_not_the_latest() -> None:
    after = fold(Facts(latest_text="a", latest_text_partial=True), response(" \n"))
    assert (after.text, after.latest_text, after.latest_text_partial) == (" \n", "a", True)


@pytest.mark.parametrize(
    ("more", "truncated", "partial"),
    [
        ({}, False, False),
        ({"finish": "length"}, True, True),
        ({"finish": "context_full"}, True, True),
        ({"truncated": "c"}, True, True),
        ({"cut_for": "seconds"}, False, True),
    ],
)
def test_a_text_that_was_cut_off_is_a_part(more: dict[str, Any], truncated: bool, partial: bool) -> None:
    after = fold(Facts(latest_text_partial=not partial, truncations=1), response("a", **more))
    assert (after.truncated, after.truncations) == (truncated, 2 if truncated else 0)
    assert after.latest_text_partial is partial


@pytest.mark.parametrize(
    ("event", "counted"),
    [
        (response(), "empty_answers"),
        (response(" "), "empty_answers"),
        (response(finish="length"), "truncations"),
        (response(finish="content_filter"), "refusals"),
        (response("a", finish="content_filter"), "refusals"),
        (response("a", finish="retry"), "unfinished"),
        (response("a", finish="other", raw_finish="x"), "unfinished"),
        (response("a", finish="other"), None),
        (response("a"), None),
        (response("a", CALL, finish="retry"), None),
        (response("", CALL), None),
    ],
)
def test_each_response_counts_for_one_reason_and_ends_the_count_of_the_others(
    event: ev.ResponseFinished, counted: str | None
) -> None:
    counters = dict.fromkeys(("empty_answers", "truncations", "refusals", "unfinished"), 4)
    after = fold(Facts(**counters), event)  # type: ignore[arg-type]
    assert {name: getattr(after, name) for name in counters} == {name: 5 if name == counted else 0 for name in counters}


def test_reasoning_and_what_can_be_sent_back_are_seen() -> None:
    plain = ev.ResponseFinished(step=1, finish="stop", message=AssistantMessage(reasoning=(Reasoning("hm"),)))
    sealed = Reasoning("", redacted=True, vendor="anthropic")
    vendors = ev.ResponseFinished(step=1, finish="stop", message=AssistantMessage(reasoning=(sealed,)))
    assert (fold(Facts(), plain).reasoned, fold(Facts(), plain).resumable) == (True, False)
    assert (fold(Facts(), vendors).reasoned, fold(Facts(), vendors).resumable) == (True, True)
    assert fold(Facts(reasoned=True, resumable=True), response("a")).reasoned is False


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ('{"n": 1, "summary": "done", "more": "m"}', "done"),
        ('{"empty": " ", "summary": "done"}', "done"),
        ('{"n": 1}', "old"),
        ('["done"]', "old"),
        ("{", "old"),
        ('{"a": "\\ud800"', "old"),
    ],
)
def test_the_text_of_a_completion_call_is_its_first_text_argument(arguments: str, text: str) -> None:
    event = response("", ToolCall("a", "look", '{"path": "p"}'), ToolCall("b", "finish", arguments))
    assert fold(Facts(completion_tools=("finish",), completion_text="old"), event).completion_text == text
    assert fold(Facts(completion_text="old"), event).completion_text == "old"


def test_the_first_completion_call_with_a_text_counts() -> None:
    event = response(
        "", ToolCall("a", "finish", "{"), ToolCall("b", "finish", '{"a": "x"}'), ToolCall("c", "finish", '{"a": "y"}')
    )
    assert fold(Facts(completion_tools=("finish",)), event).completion_text == "x"


# ---- what a cut saved


@pytest.mark.parametrize(
    ("more", "price", "saved"),
    [
        ({}, None, None),
        ({"cut_at": "c", "cut_at_end": True}, None, None),
        ({"cut_at": "c", "raw_finish": "stop"}, None, None),
        ({"cut_at": "c"}, None, CutSavings(cuts=1)),
        ({"cut_at": "c"}, Price(input=1, output=2), CutSavings(cuts=1, priced=1)),
        (
            {"cut_at": "c", "after_cut": CutOff(output_tokens=500_000, calls=("a", "b"))},
            None,
            CutSavings(cuts=1, measured=1, output_tokens=500_000, calls=2),
        ),
        (
            {"cut_at": "c", "after_cut": CutOff(output_tokens=500_000), "usage": Usage(input_tokens=11)},
            Price(input=1, output=2, above={10: Price(input=1, output=4)}),
            CutSavings(cuts=1, measured=1, output_tokens=500_000, priced=1, measured_priced=1, cost_usd=2.0),
        ),
    ],
)
def test_a_cut_saves_what_the_rest_of_the_response_would_have_cost(
    more: dict[str, Any], price: Price | None, saved: CutSavings | None
) -> None:
    assert saved_by_cut(response("a", **more), price) == saved


def test_savings_are_added_at_the_price_of_the_responses_model() -> None:
    event = response("a", cut_at="c", model="m", after_cut=CutOff(output_tokens=10))
    facts = Facts(saved=CutSavings(cuts=1), prices={"m": Price(input=1, output=2)})
    saved = fold(facts, event).saved
    assert saved is not None
    assert (saved.cuts, saved.priced, saved.output_tokens) == (2, 1, 10)
    assert fold(facts, response("a")).saved == CutSavings(cuts=1)


# ---- results


@pytest.mark.parametrize(
    ("status", "counted"),
    [
        ("ok", {"tool_calls": 1}),
        ("error", {"tool_calls": 1, "failed": 1}),
        ("rejected", {"tool_calls": 1}),
        ("invalid", {"invalid": 1}),
        ("skipped", {}),
        ("cancelled", {}),
    ],
)
def test_a_result_counts_by_its_status(status: Any, counted: dict[str, int]) -> None:
    event = ev.ToolCallResult(call_id="c", name="look", content="", status=status, t=9)
    after = changed(event)
    after.pop("failures", None)
    assert after == {"answered": 1, "results": (event,), **counted}


def test_a_failure_after_the_completions_own_step_does_not_count() -> None:
    event = ev.ToolCallResult(call_id="c", name="look", content="", status="error")
    assert fold(Facts(), event).failures.names == ("look",)
    assert fold(Facts(accepted="f", accepted_in_step=2, steps=2), event).failures.names == ("look",)
    assert fold(Facts(accepted="f", accepted_in_step=2, steps=3), event).failures.names == ()


def test_a_result_closes_the_question_whether_its_call_may_run() -> None:
    approval = Question("c", "May it run?", tool="edit")
    asks = Question("d", "Which port?")
    of_subagent = Question("c/x", "Which?", asker=Asker(call_id="c", session_id="s", run_id="r", names=("sub",)))
    event = ev.ToolCallResult(call_id="c", name="edit", content="", status="cancelled")
    assert fold(Facts(questions=(approval, asks, of_subagent)), event).questions == (asks,)
    plain = Question("c", "Which port?")
    assert fold(Facts(questions=(plain,)), event).questions == (plain,)


# ---- the end of a step


def test_the_end_of_a_step_takes_what_it_brought() -> None:
    result = ev.ToolCallResult(call_id="c", name="look", content="", fingerprint="ff")
    before = {"steps": 4, "open_calls": (CALL,), "results": (result,), "calls": 1, "stalled": 2, "points": (1, 2)}
    event = ev.StepFinished(step=4, cut_by="c", judged=StepJudgement("failure", 3, "answer"), t=9)
    assert changed(event, **before) == {
        "t": 9, "cut_by": "c", "open_calls": (), "results": (), "text_judged": "answer", "brought": "failure",
        "stalled": 4, "stalled_before": 2, "points": (1, 2, 4), "same_results": 3,
        "repetitions": Repetitions().with_step(1, [(CALL, "ff")]),
    }  # fmt: skip


@pytest.mark.parametrize(("kind", "progressed"), [("news", 4), ("change", 4), ("change_before", 4), ("known", 1)])
def test_progress_is_remembered_by_its_step(kind: Any, progressed: int) -> None:
    event = ev.StepFinished(step=4, judged=StepJudgement(kind))
    assert fold(Facts(steps=4, progressed=1), event).progressed == progressed


@pytest.mark.parametrize(("calls", "invalid", "steps"), [(2, 2, 5), (1, 1, 5), (2, 1, 0), (0, 0, 0)])
def test_a_step_with_nothing_but_invalid_calls_is_counted(calls: int, invalid: int, steps: int) -> None:
    facts = Facts(calls=calls, invalid=invalid, invalid_steps=4)
    assert fold(facts, ev.StepFinished(step=1)).invalid_steps == steps


def test_an_older_step_without_a_judgement_changes_neither_points_nor_the_count_of_results() -> None:
    after = fold(Facts(stalled=3, same_results=2, brought="news"), ev.StepFinished(step=1))
    assert (after.stalled, after.same_results, after.brought) == (3, 2, "none")


def test_only_so_many_points_are_remembered() -> None:
    facts = Facts()
    for _ in range(REMEMBERED_POINTS + 3):
        facts = fold(facts, ev.StepFinished(step=1, judged=StepJudgement("known")))
    assert len(facts.points) == REMEMBERED_POINTS
    assert facts.points[-1] == facts.stalled == 2 * (REMEMBERED_POINTS + 3)
    assert facts.points[0] == 2 * 4


# ---- completions


def test_the_first_accepted_completion_is_the_runs() -> None:
    event = ev.CompletionAccepted(call_id="c", name="finish", answer="done", pending_issues=("docs",), t=9)
    assert changed(event, steps=3, accepted_by=("gate",)) == {
        "t": 9, "accepted": "c", "accepted_in_step": 3, "answer": "done", "pending_issues": ("docs",),
    }  # fmt: skip
    assert changed(event, accepted="b", answer="first") == {}


def test_the_user_has_accepted_what_was_confirmed() -> None:
    event = ev.CompletionAccepted(call_id="c", name="finish", answer="done")
    assert fold(Facts(accepted_by=("gate",), confirmed="c"), event).accepted_by == ("gate", "user")
    assert fold(Facts(accepted_by=("gate",), confirmed="b"), event).accepted_by == ("gate",)


def test_rejections_count_in_a_row_without_progress() -> None:
    event = ev.CompletionRejected(call_id="c", name="finish", reason="red", by="gate", t=9)
    before = {"steps": 5, "rejections": 2, "rejections_in_vain": 2, "rejected_at": 4, "accepted_by": ("gate",)}
    counted = {"t": 9, "rejection": "red", "accepted_by": (), "rejections": 3, "rejected_at": 5}
    assert changed(event, progressed=3, **before) == {**counted, "rejections_in_vain": 3}
    assert changed(event, progressed=4, **before) == {**counted, "rejections_in_vain": 1}


def test_a_rejection_by_the_user_or_after_an_acceptance() -> None:
    by_user = ev.CompletionRejected(call_id="c", name="finish", reason="no", by="user", t=9)
    assert changed(by_user, rejections=2, steps=5) == {"t": 9, "rejection": "no"}
    after = fold(Facts(accepted="b", accepted_by=("gate",)), by_user)
    assert after.accepted_by == ("gate",)


def test_a_phase_is_added() -> None:
    event = ev.PhaseReported(call_id="c", percentage=40, summary="half", next_phase="rest", t=9)
    phase = {"completion_percentage": 40, "next_phase": "rest", "summary": "half"}
    assert changed(event, phases=({"summary": "a"},)) == {"t": 9, "phases": ({"summary": "a"}, phase)}


# ---- questions


def test_a_question_is_kept_with_all_that_it_says() -> None:
    given: dict[str, Any] = {
        "call_id": "q", "text": "Sure?", "confirms": "done", "pending_issues": ("docs",), "percentage": 90,
        "tool": "edit", "arguments": {"a": 1}, "expires_at": "2026", "extends": 5,
        "asker": Asker(call_id="c", session_id="s", run_id="r", names=("sub",)),
    }  # fmt: skip
    first = Question("p", "?")
    assert changed(ev.QuestionAsked(**given, t=9), questions=(first,)) == {
        "t": 9, "questions": (first, Question(**given)),
    }  # fmt: skip


def answered(says: Any, call_id: str = "q") -> ev.QuestionAnswered:
    return ev.QuestionAnswered(call_id=call_id, text="well", says=says, t=9)


ONE, OTHER = Question("q", "Sure?", confirms="done"), Question("p", "Which?")


def test_an_unclear_answer_leaves_the_question_open_and_says_so_once() -> None:
    again = Question("q", "What? Sure?", confirms="done", unclear=1)
    assert changed(answered("unclear"), questions=(ONE, OTHER), unclear="What?") == {
        "t": 9,
        "questions": (again, OTHER),
    }
    twice = Question("q", "What? Sure?", confirms="done", unclear=2)
    assert fold(Facts(questions=(again,), unclear="What?"), answered("unclear")).questions == (twice,)
    plain = fold(Facts(questions=(ONE,)), answered("unclear")).questions
    assert plain == (Question("q", "Sure?", confirms="done", unclear=1),)


def test_an_answer_closes_its_question_alone() -> None:
    assert changed(answered("yes"), questions=(ONE, OTHER)) == {"confirmed": "q", "questions": (OTHER,)}
    assert changed(answered(None, "p"), questions=(ONE, OTHER)) == {"questions": (ONE,)}
    assert changed(answered("yes", "gone"), questions=(ONE,)) == {}


def test_a_no_to_more_steps_is_remembered() -> None:
    limit = Question("q", "More?", extends=5)
    assert changed(answered("no"), questions=(limit,), grants=Grants(steps=5)) == {
        "questions": (), "grants": Grants(steps=5, refused=True),
    }  # fmt: skip
    assert changed(answered("yes"), questions=(limit,)) == {"questions": ()}
    assert changed(answered("no"), questions=(ONE,)) == {"questions": (), "confirmed": "q"}


# ---- limits and the rest


@pytest.mark.parametrize(
    ("more", "in_vain"),
    [({"in_vain": True}, 3), ({"not_enough": True}, 2), ({}, 0), ({"in_vain": True, "not_enough": True}, 3)],
)
def test_compactions_in_vain_are_counted_in_a_row(more: dict[str, Any], in_vain: int) -> None:
    event = ev.ContextCompacted(strategy="drop_oldest", before_tokens=90, after_tokens=40, t=9, **more)
    after = fold(Facts(compactions=1, compactions_in_vain=2, context_tokens=90), event)
    assert (after.t, after.context_tokens, after.compactions, after.compactions_in_vain) == (9, 40, 2, in_vain)


def test_a_grant_is_added_with_its_step() -> None:
    event = ev.LimitExtended(by=5, allowed=20, t=9)
    before = Grants(steps=5, times=1, at=10)
    assert changed(event, steps=15, grants=before) == {"t": 9, "grants": Grants(steps=10, times=2, at=15)}


def test_a_refused_step_and_a_reached_limit_are_kept() -> None:
    refused = ev.BudgetRefused(step=2, limit="cost_usd", used=2, allowed=1, t=9)
    assert changed(refused) == {"t": 9, "refused": refused}
    reached = ev.LimitReached(step=2, limit="seconds", used=2, allowed=1, t=9)
    assert changed(reached, refused=refused) == {"t": 9, "limit_reached": reached}


def test_a_reached_limit_of_a_shared_budget_is_a_refusal_too() -> None:
    reached = ev.LimitReached(step=2, limit="cost_usd", scope="budget", used=3, allowed=1, t=9)
    assert changed(reached) == {
        "t": 9, "limit_reached": reached,
        "refused": ev.BudgetRefused(step=2, limit="cost_usd", used=3, allowed=1),
    }  # fmt: skip


def test_subagents_are_counted_once_and_their_usage_is_the_runs() -> None:
    started = ev.SubagentStarted(call_id="c", name="sub", run_id="r2", session_id="s2", t=9)
    assert changed(started, subagent_runs=(("r1", 4),)) == {
        "t": 9, "subagents": SubagentUse(runs=1), "subagent_runs": (("r1", 4), ("r2", 0)),
    }  # fmt: skip
    again = ev.SubagentStarted(call_id="c", name="sub", run_id="r3", session_id="s2", continues="r2")
    assert fold(Facts(subagents=SubagentUse(runs=1)), again).subagents == SubagentUse(runs=1)


def test_what_a_subagent_used_is_added() -> None:
    event = ev.SubagentUsed(call_id="c", run_id="r2", at=7, requests=2, usage=USED, t=9)
    runs = (("r1", 4), ("r2", 0))
    assert changed(event, usage=USED, subagent_runs=runs) == {
        "t": 9, "usage": USED + USED, "subagents": SubagentUse(requests=2, usage=USED),
        "subagent_runs": (("r1", 4), ("r2", 7)),
    }  # fmt: skip
    so_far = SubagentUse(runs=2, requests=1, usage=USED)
    assert fold(Facts(subagents=so_far), event).subagents == SubagentUse(runs=2, requests=3, usage=USED + USED)


def test_the_end_of_a_run_has_its_time() -> None:
    ended = Outcome(run_id="r", session_id="s", status="completed", stop_reason="completed")
    assert changed(ev.RunFinished(outcome=ended, t=9)) == {"t": 9}


def test_what_the_facts_do_not_need_changes_nothing() -> None:
    facts = Facts(steps=1)
    assert fold(facts, ev.TextMessageContent(attempt="1.1", delta="a", t=9)) is facts
    assert fold(facts, ev.EvaluationFinished(verdict="passed", t=9)) is facts
