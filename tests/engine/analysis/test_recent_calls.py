"""The fold of single calls: what it remembers of any run, however its parallel calls ended."""

from __future__ import annotations

import random
from typing import Any

from endstop.analysis.recent_calls import REMEMBERED_CALLS, CallFacts, RecentCall, fold_calls
from endstop.decision import AssistantMessage, Event, Facts, Policy, ToolCall, fold
from endstop.decision import events as ev
from hypothesis import given
from hypothesis import strategies as st

STARTED = ev.RunStarted(run_id="r", session_id="s", policy=Policy())
CALLS = st.tuples(
    st.sampled_from(["look", "run"]),
    st.sampled_from(['{"a": 1, "b": 2}', '{"b": 2, "a": 1}', "{}", "not JSON"]),
    st.sampled_from(["", "one two three", "one two four", "Error: no such file"]),
    st.sampled_from(["ok", "error", "invalid", None]),
)
STEPS = st.lists(st.lists(CALLS, max_size=4), max_size=12)


def step(number: int, calls: list[Any], order: random.Random | None = None) -> list[Event]:
    """A step's events, with the results in this order, some while the response is streaming; without one, in the order
    of the calls. A status of None: no result."""
    made = tuple(ToolCall(f"{number}.{at}", name, arguments) for at, (name, arguments, _, _) in enumerate(calls))
    results: list[Event] = [
        ev.ToolCallResult(call_id=call.id, name=call.name, content=content, status=status)
        for call, (_, _, content, status) in zip(made, calls, strict=True)
        if status is not None
    ]
    early = 0
    if order is not None:
        order.shuffle(results)
        early = order.randint(0, len(results))
    message = AssistantMessage(text=f"step {number}", calls=made)
    return [
        ev.StepStarted(step=number, round=1),
        *results[:early],
        ev.ResponseFinished(step=number, attempt="1.1", message=message, finish="tool_calls" if made else "stop"),
        *results[early:],
        ev.StepFinished(step=number),
    ]


def folded(events: list[Event]) -> CallFacts:
    facts: Facts = fold_calls(Facts(), STARTED)
    for event in events:
        facts = fold_calls(facts, event)
    assert isinstance(facts, CallFacts)
    return facts


@given(STEPS, st.randoms(use_true_random=False))
def test_the_order_in_which_parallel_calls_end_changes_nothing(steps: list[Any], order: random.Random) -> None:
    straight = folded([event for number, calls in enumerate(steps, 1) for event in step(number, calls)])
    shuffled = folded([event for number, calls in enumerate(steps, 1) for event in step(number, calls, order)])
    assert straight.recent == shuffled.recent


@given(STEPS)
def test_what_our_own_facts_hold_is_the_same_beside_it(steps: list[Any]) -> None:
    events = [event for number, calls in enumerate(steps, 1) for event in step(number, calls)]
    ours = fold(Facts(), STARTED)
    for event in events:
        ours = fold(ours, event)
    beside = folded(events)
    assert all(getattr(beside, name) == getattr(ours, name) for name in Facts.__struct_fields__)


def test_memory_does_not_grow_with_the_run() -> None:
    calls = [("look", f'{{"path": "{number}"}}', "x", "ok") for number in range(3)]
    facts = folded([event for number in range(1, 500) for event in step(number, calls)])
    assert len(facts.recent.calls) == REMEMBERED_CALLS + 3
    assert (facts.recent.steps, facts.open_calls, facts.results) == (499, (), ())


def failing(*contents: str) -> RecentCall:
    calls = [[("run", "{}", content, "error")] for content in contents]
    return folded([event for number, one in enumerate(calls, 1) for event in step(number, one)]).recent.calls[-1]


def test_failures_of_one_tool_are_alike_if_they_share_nine_tenths_of_their_words() -> None:
    words = "a b c d e f g h i j k l m n o p q r s"
    assert (failing(words, words, words).failures, failing(words, words, words).alike) == (3, 2)
    assert failing(words, words + " t").alike == 1, "19 of 20 words"
    assert failing(words, words + " t u v").alike == 0, "19 of 22 words"
    assert failing("A, b; C", "a b c").alike == 1, "case and punctuation do not count"


def test_text_counts_with_the_first_call_of_a_response_only() -> None:
    calls = folded(step(1, [("look", "{}", "", "ok"), ("look", "{}", "", "ok")])).recent.calls
    assert calls[0].text != 0
    assert calls[1].text == 0
    assert calls[0].call == calls[1].call
