"""Policies: defaults, ranges, and files with mistakes in them."""

import tomllib
from collections.abc import Callable
from hashlib import sha256
from typing import Any

import msgspec
import pytest
from endstop.decision import (
    POLICIES,
    Limits,
    Patience,
    Policy,
    Prompts,
    Repetition,
    Rule,
    SessionLimits,
    Stop,
    WrongUse,
    decide,
    policy_from,
)
from endstop.decision.facts import Facts
from endstop.decision.policy_files import Fitted, fitted_policy_text
from endstop.decision.settings import Settings, settings_from_record
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace


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
        ({"limits": {"steps": "many"}}, r"mine\.toml: limits\.steps is 'many': use a whole number"),
        ({"limits": {"steps": True}}, r"limits\.steps is True: use a whole number"),
        ({"limits": {"seconds": float("nan")}}, r"limits\.seconds is nan: use a finite number"),
        ({"limits": 3}, r"limits is 3: use Limits\(\.\.\.\), in a file a separate section"),
        ({"limits": {"steps": 0}}, "limits.steps is 0: use 1 or more"),
        ({"limits": {"steps": 2, "soft_steps": 3}}, r"soft_steps \(3\) is above limits.steps \(2\)"),
        (
            {"session_limits": {"steps": 2, "soft_steps": 3}},
            r"session_limits\.soft_steps \(3\) is above session_limits\.steps \(2\)",
        ),
        ({"text": "maybe"}, r"text is 'maybe': use 'final' or 'nudge'"),
        ({"closing": "yes"}, "closing is 'yes': use true or false"),
        ({"rules": "go_on"}, "rules is 'go_on': use a list of texts"),
        ({"max_inner_steps": "off"}, "max_inner_steps is None: use a whole number"),
        ({"deadlines": {"gate": float("inf")}}, r"deadlines\.gate is inf: use a finite number"),
        ({"max_inner_steps": 0}, "max_inner_steps is 0"),
        ({"patience": {"rejections": -1}}, "patience.rejections is -1"),
        ({"compaction": {"threshold": 2.0}}, "threshold is 2.0"),
        ({"base": "stirct"}, r"unknown base 'stirct' \(did you mean 'strict'\?\)"),
        ({"base": ["strict"]}, r"unknown base \['strict'\]"),
        ({"recommended": {"look_up": 1}}, "unknown kind of task"),
        ({"text": "nudge", "completion": "none"}, "can never end"),
    ],
)
def test_a_mistake_is_named_with_what_to_do(data: dict[str, object], complaint: str) -> None:
    with pytest.raises(WrongUse, match=complaint):
        policy_from(data, "mine.toml")


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        (lambda: Limits(steps="many"), "limits.steps is 'many': use a whole number"),  # type: ignore[arg-type]
        (lambda: SessionLimits(steps=0), "session_limits.steps is 0: use 1 or more"),
        (lambda: Policy(completion="requird"), "completion is 'requird': use 'offered' or"),  # type: ignore[arg-type]
        (lambda: Policy(limits={"steps": 3}), r"limits is \{'steps': 3\}: use Limits"),  # type: ignore[arg-type]
    ],
)
def test_a_mistake_in_python_is_named_as_one_in_a_file(wrong: Callable[[], object], complaint: str) -> None:
    with pytest.raises(WrongUse, match=complaint):
        wrong()


def test_a_list_will_do_where_a_tuple_is_kept() -> None:
    policy = Policy(rules=["go_on"])  # type: ignore[arg-type]
    assert policy.rules == ("go_on",)
    assert hash(policy.rules)


def test_what_can_be_none_in_python_is_off_in_a_file() -> None:
    policy = policy_from({"reminder": "off", "repetition": {"stop_at": "off"}, "prompts": {"next_step": "off"}})
    assert (policy.reminder, policy.repetition.stop_at, policy.prompts.next_step) == (None, None, "off")


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
    decision = decide(Facts(t=11, steps=1), policy, user_rules=(late,))
    assert isinstance(decision, Stop)
    assert (decision.reason, decision.final_status) == ("custom:late", "exhausted")
    assert decision.trace[-1].saw == {"t": 11}
    assert not isinstance(decide(Facts(t=9, steps=1), policy, user_rules=(late,)), Stop)
    with pytest.raises(WrongUse, match="mine:late"):
        decide(Facts(), policy)


def test_a_stop_reason_of_ones_own_must_bring_its_status() -> None:
    with pytest.raises(ValueError, match="custom:<name>"):
        Stop(rule="x", reason="custom:late")
    with pytest.raises(ValueError, match="unknown stop reason"):
        Stop(rule="x", reason="finished")


def test_a_setting_that_a_record_does_not_name_means_what_was_done_before_it_existed() -> None:
    class Young(Settings, frozen=True, kw_only=True, forbid_unknown_fields=True):
        legacy_defaults = {"watched": False}
        old: int = 1
        watched: bool = True

    class Whole(Settings, frozen=True, kw_only=True, forbid_unknown_fields=True):
        young: Young = Young()

    assert Whole().young.watched is True
    assert settings_from_record(Whole, {"young": {"old": 2}}) == Whole(young=Young(old=2, watched=False))
    assert settings_from_record(Whole, {}) == Whole(young=Young(watched=False))
    assert settings_from_record(Whole, {"young": {"watched": True}}) == Whole()
    with pytest.raises(msgspec.ValidationError):
        settings_from_record(Whole, {"young": 3})


# ---- policies that `endstop fit` wrote

FITTED = Fitted(
    format=2, version="0.1.0", date="2026-11-22", guarantee="With 95 % confidence …", max_false_stops=0.01,
    confidence=0.95, upper_bound=0.0099, false_stops=0, tested=299, unit="task", anchor="end", tolerance=1,
    sessions=400, good=390, bad=10, ids="00ff", seed=0, settings="", steps={"news": 0.8, "talk": 0.2},
)  # fmt: skip
ODD = Prompts(closing='Say "so" \\ and\nend \x7f\x01 – 完')


def fitted_file(policy: Policy) -> dict[str, Any]:
    """A file of `endstop fit`, parsed."""
    return tomllib.loads(fitted_policy_text(policy, FITTED, "Two lines\n\nof comment"))


@pytest.mark.parametrize("policy", [*POLICIES.values(), Policy(prompts=ODD, limits=Limits(soft_steps=5))])
def test_a_fitted_policy_is_read_as_it_was_written_under_the_name_of_its_file(policy: Policy) -> None:
    assert policy_from({**fitted_file(policy), "name": "mine"}) == replace(policy, name="mine")


def test_a_setting_that_a_fitted_policy_does_not_name_has_its_old_meaning() -> None:
    older = fitted_file(Policy())
    del older["repetition"]["same_text"], older["response_tokens"]
    older["fitted"]["settings"] = _digest_by_hand(older)
    policy = policy_from(older)
    assert (policy.repetition.same_text, policy.response_tokens) == (None, None)
    assert Policy().repetition.same_text is not None


def _digest_by_hand(data: dict[str, Any]) -> str:
    settings = {name: value for name, value in data.items() if name != "fitted"}
    return sha256(msgspec.json.encode(settings, order="deterministic")).hexdigest()[:16]


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"limits": {"steps": 31}}, r"mine\.toml: its settings were changed after .* the guarantee .* void"),
        (
            {"fitted": {"format": 3, "version": "9.1", "odds": 3}},
            r"fitted by endstop 9\.1, which is newer than this one",
        ),
        ({"fitted": {"format": "one"}}, r"mine\.toml, \[fitted\]: .*fit again, or delete the table"),
        ({"fitted": 3}, r"mine\.toml, \[fitted\]: .*fit again"),
        ({"fitted": {**msgspec.to_builtins(FITTED), "tested": "many"}}, r"\[fitted\]: .*`\$\.tested`"),
    ],
)
def test_a_guarantee_that_cannot_be_known_to_hold_is_refused(changed: dict[str, Any], complaint: str) -> None:
    with pytest.raises(WrongUse, match=complaint):
        policy_from({**fitted_file(Policy()), **changed}, "mine.toml")


def test_a_setting_of_a_newer_endstop_is_named_with_the_version_that_wrote_it() -> None:
    data = {**fitted_file(Policy()), "patience": {"yawns": 3}}
    data["fitted"] = {**data["fitted"], "version": "9.1", "settings": _digest_by_hand(data)}
    with pytest.raises(WrongUse, match=r"unknown key 'yawns' .*; endstop 9\.1 fitted it, which may be newer"):
        policy_from(data, "mine.toml")


def test_without_the_table_the_settings_may_be_changed() -> None:
    data = fitted_file(Policy())
    del data["fitted"]
    assert policy_from({**data, "limits": {"steps": 31}}).limits.steps == 31


def test_a_changed_copy_of_settings_is_checked_as_the_constructor_checks() -> None:
    strict = POLICIES["strict"]
    changed = strict.replace(limits=strict.limits.replace(steps=12))
    assert (changed.limits.steps, changed.limits.extend, changed.text) == (12, None, strict.text)
    assert strict == POLICIES["strict"]
    assert Patience().replace(refusals=0) == Patience(refusals=0)
    assert Repetition().replace(nudge_at=[2]) == Repetition(nudge_at=(2,))
    assert Limits().replace(steps=40) == Limits(steps=40)
    for wrong, name in (
        (lambda: strict.replace(limits=3), "limits is 3"),
        (lambda: Patience().replace(refusals=-1), "patience.refusals is -1"),
        (lambda: Repetition().replace(stop_at=17), "repetition.stop_at is 17"),
        (lambda: Limits().replace(steps=0), "limits.steps is 0"),
    ):
        with pytest.raises(WrongUse, match=name):
            wrong()
    with pytest.raises(TypeError, match="max_steps"):
        strict.limits.replace(max_steps=3)


@given(st.integers(1, 500), st.one_of(st.none(), st.integers(1, 10**9)), st.booleans())
def test_a_changed_copy_is_what_the_constructor_makes(steps: int, tokens: int | None, closing: bool) -> None:
    limits = Limits(output_tokens=tokens)
    assert Policy(limits=limits).replace(closing=closing) == Policy(limits=limits, closing=closing)
    assert Limits(output_tokens=tokens).replace(steps=steps) == Limits(output_tokens=tokens, steps=steps)


def test_settings_show_only_what_was_changed() -> None:
    assert repr(Policy()) == "Policy()"
    assert repr(Policy(patience=Patience(refusals=0))) == "Policy(patience=Patience(refusals=0))"
