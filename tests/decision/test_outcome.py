"""Outcomes: what they say as plain data."""

import json

import msgspec
from endstop import Engine
from endstop.decision import Limits, Outcome, Policy, Question, Usage
from endstop.decision.outcome import LimitUse
from endstop.providers import Scripted, call
from endstop.tools import ask_user


def outcome(**given: object) -> Outcome:
    return Outcome(run_id="r", session_id="s", status="completed", stop_reason="completed", **given)  # type: ignore[arg-type]


async def test_the_outcome_of_a_run_is_plain_json_data_and_can_be_read_back() -> None:
    engine = Engine(
        Scripted([call("ask_user", question="Which port?")]), tools=[ask_user], policy=Policy(limits=Limits(steps=7))
    )
    ended = await engine.run("Set the port")
    data = ended.to_dict()
    assert json.loads(json.dumps(data)) == data
    assert data["status"] == "awaiting_input"
    assert data["questions"][0]["text"] == "Which port?"
    assert data["limits"]["steps"] == {"used": 1, "allowed": 7, "soft": False}
    assert data["usage"]["input_tokens"] == ended.usage.input_tokens
    assert msgspec.convert(data, Outcome) == ended


def test_nested_values_become_lists_and_objects() -> None:
    data = outcome(
        usage=Usage(input_tokens=3, cost_usd=0.5),
        limits={"cost_usd": LimitUse(used=0.5, allowed=1.0, soft=True)},
        questions=(Question("c", "Sure?", pending_issues=("one",)),),
        phases=({"percentage": 40},),
    ).to_dict()
    assert data["usage"]["cost_usd"] == 0.5
    assert data["limits"] == {"cost_usd": {"used": 0.5, "allowed": 1.0, "soft": True}}
    assert data["questions"][0]["pending_issues"] == ["one"]
    assert data["phases"] == [{"percentage": 40}]


def test_what_json_cannot_express_does_not_keep_it_from_being_json() -> None:
    data = outcome(answer="a\ud800", evaluation={"seen": {1, 2}, 3: object, "score": float("nan")}).to_dict()
    assert json.loads(json.dumps(data, allow_nan=False)) == data
    assert data["evaluation"]["seen"] == [1, 2]
    assert data["evaluation"]["3"] == "<class 'object'>"
    assert data["evaluation"]["score"] is None
