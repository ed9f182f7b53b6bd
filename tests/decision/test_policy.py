"""Policies: defaults, ranges, and files with mistakes in them."""

import msgspec
import pytest
from endstop.decision import POLICIES, Limits, Policy, Rule, Stop, WrongUse, decide, policy_from
from endstop.decision.facts import Facts


def test_the_default_policy_is_agent_with_thirty_steps() -> None:
    assert Policy() == POLICIES["agent"]
    assert (Policy().limits.steps, Policy().limits.soft_steps, Policy().max_inner_steps) == (30, None, 10)


def test_a_soft_limit_alone_gives_a_hard_one_of_twice_that() -> None:
    assert Limits(soft_steps=50).steps == 100
    assert Limits(soft_steps=50, steps=60).steps == 60
    assert policy_from({"limits": {"soft_steps": 8}}).limits.steps == 16


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        ({"limts": {}}, r"unknown key 'limts' \(did you mean 'limits'\?\)"),
        ({"limits": {"stpes": 3}}, r"\[limits\]: unknown key 'stpes' \(did you mean 'steps'\?\)"),
        ({"limits": {"steps": "many"}}, r"int.*limits\.steps"),
        ({"limits": {"steps": 0}}, "limits.steps is 0: use 1 or more"),
        ({"limits": {"steps": 2, "soft_steps": 3}}, r"soft_steps \(3\) is above limits.steps \(2\)"),
        ({"text": "maybe"}, r"maybe"),
        ({"max_inner_steps": 0}, "max_inner_steps is 0"),
        ({"patience": {"rejections": -1}}, "patience.rejections is -1"),
        ({"compaction": {"threshold": 2.0}}, "threshold is 2.0"),
        ({"base": "stirct"}, r"unknown base 'stirct' \(did you mean 'strict'\?\)"),
        ({"text": "nudge", "completion": "none"}, "can never end"),
    ],
)
def test_a_mistake_is_named_with_what_to_do(data: dict[str, object], complaint: str) -> None:
    with pytest.raises(WrongUse, match=complaint):
        policy_from(data, "mine.toml")


def test_a_policy_starts_from_the_shipped_one_that_it_names() -> None:
    policy = policy_from({"base": "strict", "name": "mine", "limits": {"steps": 5}})
    assert (policy.text, policy.completion, policy.limits.steps, policy.name) == ("nudge", "required", 5, "mine")


@pytest.mark.parametrize("name", POLICIES)
def test_a_policy_survives_its_way_through_json(name: str) -> None:
    assert msgspec.json.decode(msgspec.json.encode(POLICIES[name]), type=Policy) == POLICIES[name]


def test_a_users_own_rule_takes_its_place_by_name_and_an_unknown_name_is_refused() -> None:
    late = Rule(
        "mine",
        "mine:late",
        "It is late: stop.",
        ("t",),
        lambda facts, policy: (
            Stop(rule="mine:late", reason="custom:late", status="exhausted") if facts.t > 10 else None
        ),
    )
    policy = Policy(guards=("mine:late", *Policy().guards))
    decision = decide(Facts(t=11, steps=1), policy, own=(late,))
    assert isinstance(decision, Stop)
    assert (decision.reason, decision.ends_as) == ("custom:late", "exhausted")
    assert decision.trace[-1].saw == {"t": 11}
    assert not isinstance(decide(Facts(t=9, steps=1), policy, own=(late,)), Stop)
    with pytest.raises(WrongUse, match="mine:late"):
        decide(Facts(), policy)


def test_a_stop_reason_of_ones_own_must_bring_its_status() -> None:
    with pytest.raises(ValueError, match="custom:<name>"):
        Stop(rule="x", reason="custom:late")
    with pytest.raises(ValueError, match="unknown stop reason"):
        Stop(rule="x", reason="finished")
