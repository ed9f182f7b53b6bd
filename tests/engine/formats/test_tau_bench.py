"""Results of tau-bench."""

from __future__ import annotations

from typing import Any

import pytest
from endstop.decision import AssistantMessage, ToolResult, UserMessage
from endstop.decision import events as ev
from endstop.formats import FORMATS, Unreadable, detect_format

from .heard import answer, call, called, hear, says, user

WIKI = {"role": "system", "content": "# Policy\nTransfer to a human agent if you must."}
TRANSFER = "transfer_to_human_agents"


def result(*messages: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"task_id": 3, "trial": 1, "reward": 1.0, "info": {"task": {}}, "traj": [WIKI, *messages], **more}


def test_the_users_stop_ends_the_session_and_is_no_run() -> None:
    data = result(user("Cancel it"), says("Done."), user("Thanks! ###STOP###"))
    heard = hear("tau-bench", data)
    assert detect_format(data) == detect_format([data]) == "tau-bench"
    assert heard.said == [UserMessage("Cancel it"), AssistantMessage("Done.")]
    assert heard.stops == ["custom:user_stop"]
    assert (heard.outcomes[0].status, heard.outcomes[0].answer) == ("completed", "Done.")
    assert heard.session.losses["last words"] == 1


def test_each_message_of_the_user_is_a_run_and_the_reward_is_the_last_ones_verdict() -> None:
    heard = hear("tau-bench", result(user("a"), says("b"), user("c"), says("d"), user("###STOP###"), reward=0.0))
    assert [event.prompt for event in heard.of(ev.RunStarted)] == ["a", "c"]
    assert heard.stops == ["text_final", "custom:user_stop"]
    assert [outcome.verdict for outcome in heard.outcomes] == ["not_run", "failed"]
    details = {"reward": 0.0, "task_id": 3, "trial": 1}
    assert heard.outcomes[-1].evaluation == {"name": "tau-bench:reward", **details}
    (evaluated,) = heard.of(ev.EvaluationFinished)
    assert (evaluated.verdict, evaluated.name, evaluated.details) == ("failed", "tau-bench:reward", details)


def test_a_transfer_to_a_human_completes_the_run_with_its_summary() -> None:
    transfer = call("t", TRANSFER, '{"summary": "The user is lost."}')
    heard = hear("tau-bench", result(user("Help"), says(None, transfer), answer("t", "Transfer successful")))
    assert heard.stops == ["completed"]
    assert heard.outcomes[0].answer == "The user is lost."
    assert heard.results == [ToolResult("t", TRANSFER, "Transfer successful")]


def test_that_a_transfer_was_offered_is_known_from_the_prompt() -> None:
    heard = hear("tau-bench", result(user("Hi"), says("Hello")))
    assert [(spec.name, spec.kind) for spec in heard.of(ev.RunStarted)[0].tools] == [(TRANSFER, "completion")]


@pytest.mark.parametrize("content", ["Error: user not found", "Unknown action fly"])
def test_what_the_environment_calls_an_error_is_one(content: str) -> None:
    heard = hear("tau-bench", result(user("a"), says(None, call("c", "find")), answer("c", content), says("b")))
    assert heard.results[0].status == "error"


def test_the_thirtieth_response_is_the_step_limit_also_if_the_user_spoke_after_it() -> None:
    talk = [message for n in range(30) for message in (user(f"q{n}"), says(f"a{n}"))]
    heard = hear("tau-bench", result(*talk, user("and one more"), reward=0.0))
    assert heard.stops == ["text_final"] * 30 + ["step_limit"]
    assert (heard.outcomes[-1].status, heard.outcomes[-1].steps) == ("exhausted", 0)
    assert heard.outcomes[-1].exceeded_limit


def test_actions_written_as_text_are_calls() -> None:
    heard = hear(
        "tau-bench",
        result(
            user("Where is my order?"),
            says('Thought:\nLook it up.\nAction:\n{"name": "get_order", "arguments": {"id": "1"}}'),
            user("API output: shipped"),
            says('Action:\n{"name": "fly", "arguments": {}}'),
            user("API output: Unknown action fly"),
            says('Thought:\nTell.\nAction:\n{"name": "respond", "arguments": {"content": "It is shipped."}}'),
            user("Thanks ###STOP###"),
        ),
    )
    assert heard.said == [
        UserMessage("Where is my order?"),
        AssistantMessage("Thought:\nLook it up.", (called("1.0", "get_order", '{"id":"1"}'),)),
        ToolResult("1.0", "get_order", "shipped"),
        AssistantMessage("", (called("2.0", "fly", "{}"),)),
        ToolResult("2.0", "fly", "Unknown action fly", "error"),
        AssistantMessage("It is shipped."),
    ]
    assert heard.stops == ["custom:user_stop"]
    assert "call id" not in heard.session.losses


def test_a_task_that_failed_before_its_first_message_is_refused_with_the_reason() -> None:
    with pytest.raises(Unreadable, match="rate limit"):
        list(FORMATS["tau-bench"].sessions({"task_id": 1, "reward": 0.0, "traj": [], "info": {"error": "rate limit"}}))
