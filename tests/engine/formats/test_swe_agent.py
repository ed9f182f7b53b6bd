"""SWE-agent's trajectories: with function calls, and with actions as text."""

from __future__ import annotations

from typing import Any

import pytest
from endstop.decision import AssistantMessage, Reasoning, SystemMessage, ToolResult, UserMessage
from endstop.decision import events as ev
from endstop.formats import FORMATS, Unreadable, detect_format

from .heard import call, called, hear

SYSTEM = {
    "role": "system",
    "agent": "main",
    "content": "COMMANDS:\ndecompile:\n  docstring: Decompile.\n  signature: decompile <file>\n",
}


def shown(text: str, **more: Any) -> dict[str, Any]:
    return {"role": "user", "agent": "main", "content": text, **more}


def acted(thought: str, action: str, **more: Any) -> dict[str, Any]:
    content = f"{thought}\n```\n{action}\n```" if action else thought
    return {"role": "assistant", "agent": "main", "content": content, "thought": thought, "action": action, **more}


def used(thought: str, id: str, name: str, arguments: str = "{}") -> dict[str, Any]:
    return acted(thought, name, content=thought, tool_calls=[call(id, name, arguments)])


def observed(id: str, text: str) -> dict[str, Any]:
    return {"role": "tool", "agent": "main", "content": text, "tool_call_ids": [id]}


def trajectory(*history: dict[str, Any], status: str | None = "submitted", **more: Any) -> dict[str, Any]:
    return {"environment": "e", "history": [SYSTEM, *history], "info": {"exit_status": status}, **more}


def test_function_calls_are_calls_also_where_one_id_serves_for_several() -> None:
    data = trajectory(
        shown("Fix the bug"),
        used("Look.", "c1", "open", '{"path":"a"}'),
        observed("c1", "[File: a]"),
        used("Again.", "c1", "open", '{"path":"a"}'),
        observed("c1", "[File: a]"),
        used("Hand in.", "c2", "submit"),
        observed("c2", "diff --git a b"),
    )
    heard = hear("swe-agent", data)
    assert detect_format(data) == "swe-agent"
    assert heard.said == [
        UserMessage("Fix the bug"),
        AssistantMessage("Look.", (called("c1", "open", '{"path":"a"}'),)),
        ToolResult("c1", "open", "[File: a]"),
        AssistantMessage("Again.", (called("2.0", "open", '{"path":"a"}'),)),
        ToolResult("2.0", "open", "[File: a]"),
        AssistantMessage("Hand in.", (called("c2", "submit"),)),
        ToolResult("c2", "submit", "diff --git a b"),
    ]
    assert heard.stops == ["completed"]
    assert heard.outcomes[0].answer == "diff --git a b"
    marks = [event.fingerprint for event in heard.of(ev.ToolCallResult)]
    assert marks[0] == marks[1] != marks[2], "so that repetition is seen"


def test_an_action_in_text_is_a_call_of_its_own_command_or_of_bash() -> None:
    heard = hear(
        "swe-agent",
        trajectory(
            shown("Find the flag"),
            acted("Run it.", "./rock\n"),
            shown("\nTIMED OUT"),
            acted("Decompile.", "decompile rock\n"),
            shown("int main"),
            acted("Write.", "create solve.py\n"),
            shown("[File: solve.py]"),
            acted("Got it.", "submit flag{x}\n"),
            trajectory=None,
        )
        | {"trajectory": [{"action": "submit flag{x}\n", "observation": "flag{x}", "response": "Got it."}]},
    )
    calls = [call for message in heard.said if isinstance(message, AssistantMessage) for call in message.calls]
    assert [call.name for call in calls] == ["bash", "decompile", "create", "submit"]
    assert calls[0].arguments == '{"command":"./rock\\n"}'
    assert next(message.text for message in heard.said if isinstance(message, AssistantMessage)) == "Run it."
    assert [result.content for result in heard.results] == ["\nTIMED OUT", "int main", "[File: solve.py]", "flag{x}"]
    assert heard.outcomes[0].answer == "flag{x}"
    assert heard.session.losses.keys() == {"time", "usage", "finish reason"}


def test_a_submit_after_which_it_went_on_was_handed_back() -> None:
    heard = hear(
        "swe-agent",
        trajectory(
            shown("Find the flag"),
            acted("Is it this?", "submit a"),
            shown("Wrong flag!"),
            acted("Then this.", "submit b"),
            shown("right"),
        ),
    )
    (rejected,) = heard.of(ev.CompletionRejected)
    assert (rejected.reason, rejected.by) == ("Wrong flag!", "tool")
    assert [result.status for result in heard.results] == ["rejected", "ok"]
    assert [event.call_id for event in heard.of(ev.CompletionAccepted)] == ["2.0"]
    assert heard.outcomes[0].rounds == 2


@pytest.mark.parametrize(
    ("status", "reason", "ends_as"),
    [
        ("exit_cost", "cost_limit", "exhausted"),
        ("submitted (exit_cost)", "cost_limit", "exhausted"),
        ("submitted (exit_context)", "token_limit", "exhausted"),
        ("exit_format", "invalid_calls", "exhausted"),
        ("exit_api", "provider_error", "failed"),
        ("exit_error", "custom:error", "failed"),
        ("exit_forfeit", "custom:forfeit", "exhausted"),
        ("Something New!", "custom:something_new", "exhausted"),
        (None, "custom:unfinished", "cancelled"),
    ],
)
def test_the_exit_status_says_how_it_ended(status: str | None, reason: str, ends_as: str) -> None:
    history = [shown("Fix it"), acted("Look.", "ls"), shown("a b")]
    if status is not None and "exit" in status:
        history += [acted("Exit due to cost limit", "", content="Exit due to cost limit"), shown("Exited")]
    heard = hear("swe-agent", trajectory(*history, status=status))
    assert (heard.stops, heard.outcomes[0].status) == ([reason], ends_as)
    assert heard.outcomes[0].steps == 1, "what SWE-agent says in the model's name is no step"


def test_token_counts_of_the_whole_are_split_and_add_up() -> None:
    stats = {"tokens_sent": 1001, "tokens_received": 77, "instance_cost": 0.3, "api_calls": 2}
    data = trajectory(shown("Fix"), acted("Look.", "ls"), shown("a"), acted("Done.", "submit"), shown("diff"))
    data["info"]["model_stats"] = stats
    heard = hear("swe-agent", data)
    usage = heard.outcomes[0].usage
    assert (usage.input_tokens, usage.output_tokens, usage.estimated) == (1001, 77, True)
    assert usage.cost_usd == pytest.approx(0.3)
    assert heard.session.losses["usage split"] == 1
    assert "usage" not in heard.session.losses


def test_a_demonstration_is_no_prompt() -> None:
    demonstration = shown("Here is how it is done", is_demo=True, message_type="demonstration")
    heard = hear("swe-agent", trajectory(demonstration, shown("Fix it"), acted("Look.", "ls"), shown("a")))
    assert heard.messages[0] == SystemMessage(f"{SYSTEM['content']}\n\nHere is how it is done")
    assert [event.prompt for event in heard.of(ev.RunStarted)] == ["Fix it"]
    whole = [shown("Old task", is_demo=True), acted("Look.", "ls", is_demo=True), shown("x", is_demo=True)]
    heard = hear("swe-agent", trajectory(*whole, shown("Fix it"), acted("Look.", "ls"), shown("a")))
    assert heard.said[0] == UserMessage("Fix it")
    assert heard.session.losses["demonstration"] == 3


def test_a_file_with_steps_alone_is_read_too() -> None:
    steps = [
        {"query": [SYSTEM, shown("Fix it")], "response": "Look.\n```\nls\n```", "thought": "Look.", "action": "ls",
         "observation": "a b", "thinking_blocks": [{"type": "thinking", "thinking": "Hm.", "signature": "s"}]},
        {"response": "Done.", "thought": "Done.", "action": "submit", "observation": "diff"},
    ]  # fmt: skip
    heard = hear("swe-agent", {"trajectory": steps, "info": {"exit_status": "submitted"}})
    assert heard.said[1] == AssistantMessage(
        "Look.", (called("1.0", "bash", '{"command":"ls"}'),), (Reasoning("Hm.", "s"),)
    )
    assert heard.stops == ["completed"]


def test_each_attempt_is_a_session() -> None:
    attempt = trajectory(shown("Fix it"), acted("Done.", "submit"), shown("diff"))
    found = list(FORMATS["swe-agent"].sessions({"attempts": [attempt, attempt], **attempt}))
    assert [foreign.id for foreign in found] == ["attempt-1", "attempt-2"]


def test_what_holds_no_response_is_refused() -> None:
    with pytest.raises(Unreadable, match="no response"):
        list(FORMATS["swe-agent"].sessions(trajectory(shown("Fix it"))))


def test_a_step_that_the_history_leaves_out_in_its_middle_is_counted() -> None:
    history = [shown("Fix"), acted("Look.", "ls"), shown("a"), acted("Done.", "submit"), shown("diff")]
    steps = [
        {"action": "ls", "observation": "a", "response": "Look.", "thought": "Look."},
        {"action": "oops", "observation": "no", "response": "Hm?", "thought": "Hm?"},
        {"action": "submit", "observation": "diff", "response": "Done.", "thought": "Done."},
    ]
    heard = hear("swe-agent", trajectory(*history, trajectory=steps))
    assert len(heard.of(ev.ResponseFinished)) == 2
    assert heard.session.losses["step"] == 1
    assert heard.session.losses["characters"] == len("Hm?no")
