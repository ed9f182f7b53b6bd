"""A loop of another framework that reports what its check says of the work."""

from pathlib import Path

import pytest
from endstop import Impossible, Met, NotMet
from endstop.decision import GoOn, Policy, Stop, ToolCall, ToolResult
from endstop.decision.until_rules import policy_for_until
from endstop.follow import Follower
from endstop.replay import replay


def step(follower: Follower, number: int) -> None:
    call = ToolCall(f"c{number}", "edit", f'{{"n": {number}}}')
    follower.response("", [call])
    follower.result(ToolResult(call.id, "edit", f"edited {number}"))
    assert isinstance(follower.decide(), GoOn)


async def test_a_loop_is_told_to_stop_once_its_check_is_met(tmp_path: Path) -> None:
    record = tmp_path / "run.jsonl"
    with Follower(policy_for_until(Policy()), record=record) as follower:
        follower.prompt("Make the tests pass.")
        step(follower, 1)
        assert isinstance(follower.checked(NotMet("2 fail", score=1, of=3), "pytest"), GoOn)
        step(follower, 2)
        decision = follower.checked(Met(), "pytest")
        assert isinstance(decision, Stop)
        assert decision.reason == "until_met"
        assert follower.outcome is not None
        assert (follower.outcome.work, follower.outcome.checked_by) == ("checked", "pytest")
        assert (follower.outcome.check_score, follower.outcome.check_of) == (3, 3)
    assert (await replay(record)).same


def test_a_check_that_says_impossible_blocks_the_loop() -> None:
    follower = Follower(policy_for_until(Policy()))
    follower.prompt("Make the tests pass.")
    step(follower, 1)
    decision = follower.checked(Impossible("there is no disk"))
    assert isinstance(decision, Stop)
    assert decision.reason == "blocked"


@pytest.mark.parametrize("answer", [Met(), True])
def test_without_the_rule_an_answer_is_recorded_and_changes_nothing(answer: Met | bool) -> None:
    follower = Follower(Policy())
    follower.prompt("Make the tests pass.")
    step(follower, 1)
    assert isinstance(follower.checked(answer), GoOn)
    assert follower.facts.check_said == "met"
