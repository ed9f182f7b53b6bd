"""What a person reads once a run was stopped: which call, how often, since when, and how to go on."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from endstop import Limits, Policy
from endstop.decision import Repetition, Stagnation, Stop, ToolCall, ToolResult
from endstop.decision.limits import STOP_REASONS
from endstop.decision.outcome import STATUS_OF
from endstop.follow import Follower
from endstop.follow.end_text import _HOW, end_text, stopped_text
from hypothesis import given
from hypothesis import strategies as st

Step = tuple[str, list[ToolCall]]


def call(number: int, name: str = "exec_command", arguments: str = '{"cmd": "echo same"}') -> ToolCall:
    return ToolCall(f"c{number}", name, arguments)


def stopped(policy: Policy | str, step: Callable[[int], Step], *, result: str = "same") -> tuple[Stop, Follower]:
    """The decision that stops a run of these steps, and its follower."""
    follower = Follower(policy, speaks=False)
    follower.prompt("go")
    for number in range(200):
        text, calls = step(number)
        results = [ToolResult(one.id, one.name, result.format(number)) for one in calls]
        decision = follower.step(text, calls, results)
        if isinstance(decision, Stop):
            return decision, follower
    raise AssertionError("nothing stopped it")


def test_a_repeated_call_is_named_with_its_times_and_its_requests() -> None:
    stop, follower = stopped("agent", lambda number: ("", [call(number)]))
    assert stopped_text(stop, follower).startswith(
        'endstop stopped this run: the call exec_command "echo same" gave the same result 6 times (requests 1 to 6). '
        "Say what to do differently, or start endstop with --policy FILE"
    )


def test_a_circle_that_begins_late_is_counted_from_there() -> None:
    def step(number: int) -> Step:
        return "", [call(number, arguments=f'{{"cmd": "step {number}"}}' if number < 3 else '{"cmd": "echo same"}')]

    stop, follower = stopped("agent", step, result="same")
    assert "(requests 4 to 9)" in stopped_text(stop, follower)


def test_a_circle_of_two_steps_names_both_calls() -> None:
    policy = Policy(stagnation=Stagnation(stop_at=None, nudge_at=None, same_results=None))
    stop, follower = stopped(policy, lambda number: ("", [call(number, "read", f'{{"path": "{"ab"[number % 2]}"}}')]))
    assert 'the calls read "a", read "b" gave the same result 6 times (requests 1 to 12)' in stopped_text(
        stop, follower
    )


def test_calls_alone_are_not_said_to_have_had_a_result() -> None:
    policy = Policy(repetition=Repetition(stop_at=3, by="calls"))
    stop, follower = stopped(policy, lambda number: ("", [call(number)]), result="{}")
    assert 'the call exec_command "echo same" came 3 times (requests 1 to 3)' in stopped_text(stop, follower)


def other_call(number: int) -> Step:
    return "", [call(number, "w", f'{{"n": {number}}}')]


@pytest.mark.parametrize(
    ("policy", "step", "wanted"),
    [
        (
            Policy(limits=Limits(steps=2)),
            lambda number: ("", [call(number, "w", f'{{"n": {number}}}')]),
            "2 of 2 steps",
        ),
        ("agent", other_call, "the latest call was w {"),
    ],
    ids=["limit", "no progress"],
)
def test_every_stop_says_what_happened_and_how_to_go_on(
    policy: Policy | str, step: Callable[[int], Step], wanted: str
) -> None:
    stop, follower = stopped(policy, step)
    said = stopped_text(stop, follower)
    assert wanted in said
    assert _HOW[stop.reason] in said
    assert not _is_ours(said)
    assert said in end_text(stop, follower)


def _is_ours(text: str) -> bool:
    """Whether a text for people has a stop reason as a code, or counts points."""
    codes = "|".join(re.escape(reason) for reason in STATUS_OF if "_" in reason)
    names_aside = re.sub(r"`\w+`", "", text)  # names of settings
    return re.search(rf"\b(?:{codes}|stuck|custom:\w*|\d+ points)\b", names_aside) is not None


@given(
    st.sampled_from([*STATUS_OF, "custom:mine"]),
    st.sampled_from(["stuck", "stagnation", "invalid_calls", "step_limit", "my_rule"]),
)
def test_no_text_for_people_has_a_code_of_ours(reason: str, rule: str) -> None:
    follower = Follower("agent", speaks=False)
    status = "exhausted" if reason.startswith("custom:") else None
    stop = Stop(rule=rule, reason=reason, detail="it was enough", status=status)
    said = stopped_text(stop, follower)
    assert not _is_ours(said)
    assert said.startswith(("endstop stopped this run: ", "endstop ended this run: "))
    assert said.endswith(".")


def test_every_limit_says_how_to_go_on() -> None:
    assert set(STOP_REASONS.values()) <= _HOW.keys()


ODD = ["", "{", "[]", '{"a": "\\u0000\\u001b[2J"}', '{"a": "' + "x" * 9_000 + '"}', "\ud83d"]


@pytest.mark.parametrize("arguments", ODD, ids=range(len(ODD)))
def test_odd_arguments_are_shown_short_and_harmless(arguments: str) -> None:
    stop, follower = stopped("agent", lambda number: ("", [call(number, arguments=arguments)]))
    said = stopped_text(stop, follower)
    assert len(said) < 500
    assert said.encode().isascii() or "…" in said or "\N{REPLACEMENT CHARACTER}" in said
    assert "\x1b" not in said
