"""What the loop does between steps and between rounds."""

from __future__ import annotations

import pytest
from endstop import Engine, Hooks, Verdict, tool
from endstop.decision import Policy, ToolResult
from endstop.decision.events import VerdictGiven
from endstop.providers import Scripted, call
from endstop.tools import ask_user


@tool
async def look() -> str:
    """Look."""
    return "seen"


async def test_where_no_rule_pauses_a_question_is_closed_as_unanswered_before_the_next_request() -> None:
    policy = Policy(rules=tuple(rule for rule in Policy().rules if rule != "control_flow"))
    provider = Scripted([call("ask_user", question="Which port?", id="q")], "The usual one.")
    outcome = await Engine(provider, presets=[ask_user], policy=policy).run("Set the port.")
    assert (outcome.stop_reason, outcome.answer, outcome.steps) == ("text_final", "The usual one.", 2)
    (result,) = [message for message in provider.requests[1].messages if isinstance(message, ToolResult)]
    assert (result.call_id, result.status) == ("q", "unanswered")


@pytest.mark.parametrize("said", [Verdict("final"), "complete", None])
async def test_a_judge_fails_that_answers_neither_complete_nor_incomplete_and_the_run_goes_on(said: object) -> None:
    async def judge(run: object) -> object:
        return said

    engine = Engine(
        Scripted([call("look")], "Done."),
        tools=[look],
        hooks=Hooks(judge=judge),  # type: ignore[arg-type]
        policy=Policy(max_inner_steps=1),
    )
    async with engine.start("Look.") as run:
        verdicts = [event async for event in run if isinstance(event, VerdictGiven)]
    assert [(verdict.role, verdict.said) for verdict in verdicts] == [("judge", "failed")]
    assert "a judge answers Verdict('complete') or Verdict('incomplete'), not" in verdicts[0].detail
    assert (run.outcome.answer, run.outcome.steps) == ("Done.", 2)
