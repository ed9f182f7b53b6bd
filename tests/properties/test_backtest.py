"""What a backtest says of another policy is what the engine does under that policy with the same model."""

from __future__ import annotations

from itertools import chain
from typing import Any

from endstop.analysis.policy_simulation import Finding, backtest
from endstop.decision import Limits, Outcome, Patience, Policy, TextDelta, ToolCallDelta
from endstop.decision import events as ev
from endstop.decision.limits import Extend
from hypothesis import event as note
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from .scripts import EXTENDED, EXTENSIONS, HANDMADE, POLICIES, SCRIPTS, World, with_extend
from .test_runs import drive

PAIRS = st.builds(
    lambda then, other, fields: (then, replace(then, **{name: getattr(other, name) for name in fields})),
    POLICIES,
    POLICIES,
    st.sets(st.sampled_from([name for name in Policy.__struct_fields__ if name not in ("name", "rules", "guards")])),
)
"""Two policies that differ in some sections: those that differ in all part at once."""


def finding(events: list[Any], policy: Policy) -> Finding:
    (tested,) = backtest(events, [policy])
    return tested.findings[0]


HALF_INVALID = [[[ToolCallDelta(HANDMADE, "", "look", '{"path": 3}')], [ToolCallDelta(HANDMADE + 1, "", "look", "{")]]]
"""A response with an invalid call and the beginning of another: cut off at a limit, it holds nothing but the first."""
IMPATIENT = Policy(limits=Limits(steps=1), patience=Patience(invalid_calls=0), closing=False)


@given(SCRIPTS, PAIRS)
@example(
    [*HALF_INVALID, [[TextDelta("The end.")]]], (IMPATIENT, replace(IMPATIENT, limits=Limits(steps=1, output_tokens=1)))
)
def test_a_backtest_says_what_the_engine_does(script: Any, pair: tuple[Policy, Policy]) -> None:
    """The same model under two policies. All is checked on the same two runs: to play them takes most of the time."""
    then, now = pair
    recorded, before, _ = drive(World(script, then))
    the_policy_of_the_record_is_the_same_to_the_last_step(finding(recorded, then), before.outcome)
    if now.limits.output_tokens is not None and _has_ignored_pieces(script):
        return  # docs/guides/backtest.md, what a backtest cannot know
    played, run, _ = drive(World(script, now))
    found = finding(recorded, now)
    assert found == finding([_of_before(event) for event in recorded], now), "a record of before is judged here"
    note(found.parting)
    where_a_policy_stops_in_a_backtest_it_stops_in_the_engine(found, run.outcome)
    what_was_said_until_the_two_part_is_what_the_engine_says(found, recorded, played)


@settings(max_examples=60, deadline=None)
@given(SCRIPTS, EXTENDED, st.one_of(st.none(), EXTENSIONS))
def test_a_backtest_says_what_grants_and_questions_for_steps_change(
    script: Any, policy: Policy, extend: Extend | None
) -> None:
    inner = test_a_backtest_says_what_the_engine_does.hypothesis.inner_test  # type: ignore[attr-defined]
    inner(script, (policy, with_extend(policy, extend)))
    inner(script, (with_extend(policy, extend), policy))


def _of_before(event: Any) -> Any:
    """The event as a version wrote it that did not say what a step brought."""
    return replace(event, judged=None) if isinstance(event, ev.StepFinished) else event


def _has_ignored_pieces(script: Any) -> bool:
    """Whether pieces may come for a call that was complete: a live run counts them as output, a record has them not."""
    for step in script:
        chunks = chain.from_iterable(part if isinstance(part, list) else [part] for part in step)
        complete: set[int] = set()
        for chunk in chunks:
            if not isinstance(chunk, ToolCallDelta) or chunk.index < HANDMADE or not chunk.arguments:
                continue
            if chunk.index in complete:
                return True
            if chunk.arguments.endswith("}"):
                complete.add(chunk.index)
    return False


def the_policy_of_the_record_is_the_same_to_the_last_step(found: Finding, outcome: Outcome) -> None:
    assert found.parting == "same", found
    assert found.stop_reason == outcome.stop_reason


def where_a_policy_stops_in_a_backtest_it_stops_in_the_engine(found: Finding, outcome: Outcome) -> None:
    match found.parting:
        case "same" | "earlier":
            assert found.stops is not None
            assert (found.stops.steps, found.stop_reason) == (outcome.steps, outcome.stop_reason), found
        case "later" | "diverges":
            assert outcome.steps >= (found.step or 0), found
        case "refused":
            raise AssertionError("a completion tool is offered in all of these runs")


def what_was_said_until_the_two_part_is_what_the_engine_says(
    found: Finding, recorded: list[Any], played: list[Any]
) -> None:
    until = (found.stops.steps if found.stops else 0) if found.parting in ("same", "earlier") else found.step or 0
    assert _said(recorded, until) == _said(played, until), found


def _said(events: list[Any], until: int) -> list[str]:
    """What the loop says to the model before its step of this number."""
    said, step = [], 0
    for event in events:
        if isinstance(event, ev.StepStarted) and not event.closing:
            step = event.step
        elif isinstance(event, ev.MessageAdded) and step < until and event.origin in ("nudge", "reminder"):
            said.append(event.text)
    return said
