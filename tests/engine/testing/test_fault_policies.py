"""`check_policy`: ours hold, and a rule or a policy with a defect is found."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from endstop import Engine, Hooks, Run, WrongUse
from endstop.decision import POLICIES, Decision, Facts, GoOn, Limits, Policy, Rule, Stop
from endstop.providers import Scripted, call
from endstop.testing.faults import FaultReport, SideEffects, check_cancel_points, check_cut_records, check_policy

LONG = pytest.mark.long
Judge = Callable[[Facts, Policy], Decision | None]


def with_rule(judge: Judge, **options: Any) -> FaultReport:
    """The policy `agent`, with a rule of one's own before all others."""
    rule = Rule("", "mine", "Says what it says.", (), judge)
    agent = Policy(limits=Limits(steps=6))
    return check_policy(Policy(rules=("mine", *agent.rules), limits=Limits(steps=6)), rules=[rule], **options)


def broken(report: FaultReport) -> set[str]:
    assert not report.ok
    return {violation.invariant for violation in report.violations}


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("points", [25, pytest.param(2_000, marks=LONG)])
def test_our_policies_decide_and_end_whatever_the_model_does(name: str, points: int) -> None:
    report = check_policy(POLICIES[name], points=points)
    print(report)
    assert report.ok, report
    assert report.tried == points
    assert {"step_limit", "text_final" if name == "chat" else "completed"} <= set(report.ends)


@pytest.mark.parametrize(
    "limits", [{"steps": 1}, {"steps": 3}, {"steps": 50, "rounds": 2}, {"seconds": 0.15}, {"output_tokens": 7}]
)
def test_a_policy_with_narrow_limits_is_not_said_to_be_broken(limits: dict[str, Any]) -> None:
    report = check_policy(Policy(limits=Limits(**limits)), points=20)
    assert report.ok, report


def test_a_rule_of_ones_own_that_decides_by_facts_is_fine() -> None:
    def enough(facts: Facts, policy: Policy) -> Decision | None:
        return Stop(rule="mine", reason="stuck", detail="many calls") if facts.tool_calls > 4 else None

    report = with_rule(enough, points=20)
    assert report.ok, report
    assert report.ends["stuck"] > 0


def test_a_rule_that_decides_otherwise_the_second_time_is_found() -> None:
    asked = count()

    def moody(facts: Facts, policy: Policy) -> Decision | None:
        return Stop(rule="mine", reason="stuck") if next(asked) % 7 == 6 else None

    assert "pure" in broken(with_rule(moody, points=10))


def test_a_rule_that_raises_at_facts_that_a_run_can_reach_is_found() -> None:
    def divides(facts: Facts, policy: Policy) -> Decision | None:
        return None if 1 / (3 - facts.steps) else Stop(rule="mine", reason="stuck")

    report = with_rule(divides, points=10)
    assert broken(report) >= {"no_crash"}
    assert "division by zero" in str(report)
    point = report.violations[0].point
    again = with_rule(divides, points=[point])
    assert again.violations == [v for v in report.violations if v.point == point], "what a violation says repeats it"


def test_a_rule_that_believes_no_completion_is_found() -> None:
    def doubts(facts: Facts, policy: Policy) -> Decision | None:
        return GoOn(rule="mine", why="there is always more to do")

    report = with_rule(doubts, points=[5, 10])
    assert broken(report) & {"completes", "nothing_after_completion"}


def test_a_policy_without_a_guard_that_ends_it_is_found() -> None:
    endless = Policy(guards=(), limits=Limits(steps=5), repetition=Policy().repetition)
    report = check_policy(endless, points=[1])
    assert broken(report) >= {"ends"}
    assert "the model was asked 41 times" in str(report)


def test_the_other_checks_know_the_rules_of_an_engine() -> None:
    def enough(facts: Facts, policy: Policy) -> Decision | None:
        return Stop(rule="mine", reason="stuck", detail="many calls") if facts.steps > 1 else None

    rule = Rule("", "mine", "Ends after two steps.", (), enough)
    policy = Policy(rules=("mine", *Policy().rules))
    script = [[call("nobody", id="a")], [call("nobody", id="b")]]

    def engine() -> Engine:
        return Engine(Scripted(*script), policy=policy, hooks=Hooks(rules=[rule]))

    def make_run(record: Path) -> Run:
        return engine().start("go", record=record)

    def make_engine(effects: SideEffects) -> Engine:
        return engine()

    report = check_cancel_points(make_run, points=5)
    assert report.ok, report
    report = check_cut_records(make_engine, at="lines", points=[1, 2])
    assert report.ok, report


@pytest.mark.parametrize(
    ("policy", "options", "said"),
    [
        ("strict", {}, "is not a policy: give Policy"),
        (None, {}, "is not a policy"),
        (Policy(rules=("mine",)), {}, "mine"),
        (Policy(), {"points": 0}, "give a number of points"),
        (Policy(), {"seconds": 0}, "above 0"),
        (Policy(), {"rules": ["mine"]}, "mine"),
    ],
)
def test_what_cannot_work_is_refused(policy: Any, options: dict[str, Any], said: str) -> None:
    with pytest.raises(WrongUse, match=said):
        check_policy(policy, **options)


async def test_inside_a_running_loop_it_says_what_to_write() -> None:
    with pytest.raises(WrongUse, match=r"asyncio\.to_thread\(check_policy"):
        check_policy(Policy())
