"""Repetition: cycles of calls with and without their results, polling, and the same text again."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from endstop import Engine, Limits, Policy, tool
from endstop.decision import POLICIES, ToolCall, WrongUse
from endstop.decision.policy import Repetition
from endstop.decision.repetition import LONGEST_CYCLE, REMEMBERED_STEPS, CompareBy, Repetitions
from endstop.decision.settings import settings_from_record
from endstop.providers import Scripted, call
from hypothesis import given
from hypothesis import strategies as st


def after(steps: Sequence[tuple[str, str] | None]) -> Repetitions:
    """The memory after these steps: what each called and what came back; None for a step that only polled."""
    memory = Repetitions()
    for step in steps:
        called, result = step or ("poll", "")
        mark = (called + result).encode().hex() if step else ""
        memory = memory.with_step(1, [(ToolCall("c", called, "{}"), mark)])
    return memory


@pytest.mark.parametrize("length", [1, 2, 4, 5, 11, LONGEST_CYCLE])
def test_cycles_of_each_length_are_counted(length: int) -> None:
    cycle = [(f"call {place}", "same") for place in range(length)]
    assert after(cycle * 3).times() == 3
    assert after(cycle * 3 + cycle[:1]).times(length - 1 or 1) == (4 if length == 1 else 1)


def test_a_cycle_that_is_longer_than_allowed_does_not_count() -> None:
    cycle = [(f"call {place}", "same") for place in range(5)]
    assert after(cycle * 6).times(longest=4) == 1
    assert after(cycle * 6).times(longest=5) == 6


def test_calls_alone_repeat_where_their_results_do_not() -> None:
    polled = [("look", f"tick {number}") for number in range(5)]
    assert after(polled).times() == 1
    assert after(polled).times(by="calls") == 5


def test_a_step_that_only_polls_is_ignored() -> None:
    memory = after([("look", "same"), ("look", "same"), None])
    assert memory.times() == 0
    assert after([("look", "same"), None, ("look", "same"), None, ("look", "same")]).times() == 3


def test_it_advances_once_a_cycle() -> None:
    cycle = [("a", "x"), ("b", "x"), ("c", "x")]
    ends = [after((cycle * 3)[:steps]).has_advanced() for steps in range(1, 10)]
    assert ends == [True, False, False, False, False, True, False, False, True]


def slow_count(marks: Sequence[tuple[str, str]], longest: int) -> int:
    """The definition, without any memory: the most often that some cycle stands at the end."""
    best = 1
    for length in range(1, longest + 1):
        cycle, times = list(marks[-length:]), 0
        if length > 1 and len(set(cycle)) == 1:
            continue
        while len(cycle) == length and list(marks[len(marks) - (times + 1) * length :][:length]) == cycle:
            times += 1
            if (times + 1) * length > len(marks):
                break
        best = max(best, times)
    return best


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("xy")), min_size=1, max_size=40), st.integers(1, 12))
def test_the_memory_counts_what_the_whole_history_says(steps: list[tuple[str, str]], longest: int) -> None:
    by: CompareBy
    for by, marks in (("calls_and_results", steps), ("calls", [(called, "") for called, _ in steps])):
        assert after(steps).times(longest, by) == slow_count(marks, longest)


def test_the_memory_is_bounded() -> None:
    memory = after([(f"call {number}", "") for number in range(REMEMBERED_STEPS + 50)])
    assert len(memory.steps) == len(memory.calls) == REMEMBERED_STEPS


@pytest.mark.parametrize(
    ("settings", "says"),
    [({"longest_cycle": 0}, "1 to 12"), ({"longest_cycle": 13}, "1 to 12"), ({"same_text": 1}, "2 or more")],
)
def test_settings_out_of_range(settings: dict[str, int], says: str) -> None:
    with pytest.raises(WrongUse, match=says):
        Repetition(**settings)  # type: ignore[arg-type]


def test_a_record_that_does_not_name_the_settings_keeps_their_old_meaning() -> None:
    old = settings_from_record(Repetition, {"nudge_at": [3], "stop_at": 6})
    assert (old.longest_cycle, old.by, old.same_text) == (4, "calls_and_results", None)


@tool
async def work(n: int) -> str:
    """Work."""
    return "ok"


async def test_a_cycle_of_five_ends_as_stuck() -> None:
    model = Scripted(lambda request: [call("work", n=len(model.requests) % 5)])
    outcome = await Engine(model, tools=[work], policy=Policy(limits=Limits(steps=100))).run("x")
    assert (outcome.stop_reason, outcome.steps) == ("stuck", 30)


async def test_the_same_text_again_ends_the_run_with_that_text() -> None:
    model = Scripted(lambda request: "The answer is 42.")
    outcome = await Engine(model, policy=POLICIES["strict"]).run("x")
    assert (outcome.status, outcome.stop_reason, outcome.steps) == ("exhausted", "stuck", 6)
    assert (outcome.answer, outcome.answer_from) == ("The answer is 42.", "not_accepted")


async def test_other_texts_are_no_repetition() -> None:
    model = Scripted(lambda request: f"I think about it, {len(model.requests)}.")
    outcome = await Engine(model, policy=POLICIES["strict"]).run("x")
    assert outcome.stop_reason == "step_limit"
