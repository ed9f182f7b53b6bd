"""What the loop does between steps."""

from __future__ import annotations

from endstop import Engine
from endstop.decision import Policy, ToolResult
from endstop.providers import Scripted, call
from endstop.tools import ask_user


async def test_where_no_rule_pauses_a_question_is_closed_as_unanswered_before_the_next_request() -> None:
    policy = Policy(rules=tuple(rule for rule in Policy().rules if rule != "control_flow"))
    provider = Scripted([call("ask_user", question="Which port?", id="q")], "The usual one.")
    outcome = await Engine(provider, presets=[ask_user], policy=policy).run("Set the port.")
    assert (outcome.stop_reason, outcome.answer, outcome.steps) == ("text_final", "The usual one.", 2)
    (result,) = [message for message in provider.requests[1].messages if isinstance(message, ToolResult)]
    assert (result.call_id, result.status) == ("q", "unanswered")
