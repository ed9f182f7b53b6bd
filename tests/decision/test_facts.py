"""What facts say of the latest step, and what a run hands to the one that continues it."""

from __future__ import annotations

from typing import Any

import pytest
from endstop.decision import Facts, Question, ToolCall, Usage
from endstop.decision.events import ToolCallResult
from endstop.decision.facts import add_usage, usage_of
from endstop.decision.outcome import CutSavings, SubagentUse
from endstop.decision.run_origin import Carried, Grants


@pytest.mark.parametrize(
    ("facts", "shape"),
    [
        ({}, "none"),
        ({"text": "a", "calls": 1}, "none"),
        ({"finish": "stop", "calls": 1, "text": "a"}, "tool_results"),
        ({"finish": "stop", "calls": 1, "questions": (Question("q", "?"),)}, "open_question"),
        ({"finish": "stop", "questions": (Question("q", "?"),), "text": "a"}, "text"),
        ({"finish": "stop", "text": " \u200b\n"}, "empty"),
        ({"finish": "stop", "text": "a"}, "text"),
    ],
)
def test_the_shape_of_the_latest_message(facts: dict[str, Any], shape: str) -> None:
    assert Facts(**facts).shape == shape


@pytest.mark.parametrize(
    ("facts", "kind"),
    [
        ({}, None),
        ({"calls": 1}, None),
        ({"text_judged": "partial", "text_verdict": "final"}, "partial"),
        ({"text_verdict": "final"}, "answer"),
        ({"text_verdict": "refusal"}, "refusal"),
        ({"text_verdict": "nudge"}, "question"),
        ({"text_verdict": "default"}, "question"),
    ],
)
def test_what_a_text_is_was_judged_at_its_step_or_is_the_users_verdict_or_its_words(
    facts: dict[str, Any], kind: str | None
) -> None:
    finish = {"finish": "stop"} if facts else {}
    assert Facts(text="Which port shall I use?", **finish, **facts).text_kind == kind  # type: ignore[arg-type]


def test_calls_are_paired_with_their_results_in_the_order_of_the_calls() -> None:
    calls = tuple(ToolCall(id, "look") for id in ("a", "b", "c"))
    results = tuple(ToolCallResult(call_id=id, name="look", content=id) for id in ("c", "a"))
    paired = Facts(open_calls=calls, results=results).answered_calls()
    assert [(call.id, result.content) for call, result in paired] == [("a", "a"), ("c", "c")]


WHOLE = Facts(
    steps=1, rounds=2, requests=3, tool_calls=4, rejections=5, usage=Usage(input_tokens=6),
    subagents=SubagentUse(runs=7), saved=CutSavings(cuts=8), t=90, carried_ms=9, reminded=("steps",),
    grants=Grants(steps=10), phases=({"summary": "a"},), questions=(Question("q", "?"),), context_tokens=11,
)  # fmt: skip


def test_a_run_hands_over_all_that_it_has_used() -> None:
    assert usage_of(WHOLE) == Carried(
        steps=1, rounds=2, requests=3, tool_calls=4, rejections=5, usage=Usage(input_tokens=6),
        subagents=SubagentUse(runs=7), saved=CutSavings(cuts=8), elapsed_ms=99, reminded=("steps",),
        grants=Grants(steps=10), phases=({"summary": "a"},), questions=(Question("q", "?"),), context_tokens=11,
    )  # fmt: skip


def test_the_usage_of_a_session_is_the_sum_of_its_runs_and_its_context_that_of_the_latest() -> None:
    one = usage_of(WHOLE)
    assert add_usage(one, one) == Carried(
        steps=2, rounds=4, requests=6, tool_calls=8, usage=Usage(input_tokens=12), elapsed_ms=198, context_tokens=11
    )


def test_a_session_that_had_used_nothing_has_the_usage_of_its_first_run() -> None:
    estimated = Usage(input_tokens=6, estimated=True)
    assert add_usage(Carried(), Carried(usage=estimated)).usage == estimated
    priced = Usage(cost_usd=0.5)
    assert add_usage(Carried(steps=1), Carried(usage=priced)).usage == Usage() + priced
