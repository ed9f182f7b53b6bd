"""Trajectories of mini-SWE-agent, made by hand: actions in text, calls of the chat API, calls of the Responses API."""

from __future__ import annotations

from typing import Any

import pytest
from endstop.decision import Reasoning, Usage, UserMessage
from endstop.decision import events as ev
from endstop.formats import detect_format

from .heard import Heard, call, hear, says, user

USAGE = {"prompt_tokens": 10, "completion_tokens": 4}
SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && cat patch.txt"


def response(text: str, **message: Any) -> dict[str, Any]:
    """A provider's response, as it is kept beside a message."""
    choice = {"finish_reason": "stop", "index": 0, "message": {"role": "assistant", "content": text, **message}}
    return {"id": "r", "object": "chat.completion", "model": "m-1", "created": 1767225600, "choices": [choice]} | {
        "usage": USAGE
    }


def acts(command: str, thought: str = "Well.", **extra: Any) -> dict[str, Any]:
    text = f"{thought}\n\n```bash\n{command}\n```"
    return says(text, extra={"response": response(text, reasoning="Hm."), **extra})


def output(text: str, code: int = 0) -> dict[str, Any]:
    return user(f"<returncode>{code}</returncode>\n<output>\n{text}\n</output>")


def trajectory(*messages: dict[str, Any], status: str = "Submitted", **info: Any) -> dict[str, Any]:
    prompt = [{"role": "system", "content": "You have a shell."}, user("Repair it.")]
    config = {"agent": {"step_limit": 3, "cost_limit": 1.0}, "model": {"model_name": "vendor/m"}}
    return {
        "info": {"exit_status": status, "submission": "", "mini_version": "1.17.2", "config": config, **info},
        "messages": [*prompt, *messages],
        "trajectory_format": "mini-swe-agent-1",
        "instance_id": "lib__lib-1",
    }


def commands(heard: Heard) -> list[str]:
    return [one.arguments for step in heard.of(ev.ResponseFinished) for one in step.message.calls]


def test_an_action_in_text_is_a_call_of_bash_and_what_follows_is_its_result() -> None:
    data = trajectory(
        acts("ls\ncat a.txt"),
        output("a.txt"),
        acts("false"),
        output("", code=1),
        acts("sleep 99"),
        user("The last command <command>sleep 99</command> timed out and has been killed."),
        acts(SUBMIT, cost=0.5),
        user("diff --git"),
        submission="diff --git",
    )
    assert detect_format(data) == "mini-swe-agent"
    heard = hear("mini-swe-agent", data)
    assert (heard.session.id, heard.session.model, heard.session.system) == (
        "lib__lib-1",
        "vendor/m",
        "You have a shell.",
    )
    assert commands(heard)[0] == '{"command":"ls\\ncat a.txt"}'
    first, *_, last = heard.of(ev.ResponseFinished)
    assert (first.message.text, first.message.reasoning) == ("Well.", (Reasoning("Hm."),))
    assert (first.usage, last.usage) == (
        Usage(input_tokens=10, output_tokens=4),
        Usage(input_tokens=10, output_tokens=4, cost_usd=0.5),
    )
    assert [one.status for one in heard.results] == ["ok", "error", "error", "ok"]
    assert heard.results[-1].content == "diff --git"
    assert heard.stops == ["custom:submitted"]
    assert heard.outcomes[0].status == "completed"
    assert not any(kind.startswith(("field: info.s", "message field")) for kind in heard.session.losses)


def test_a_response_with_no_action_or_several_is_a_step_and_the_answer_to_it_is_a_nudge() -> None:
    two = says("```bash\nls\n```\nor\n```bash\npwd\n```")
    heard = hear("mini-swe-agent", trajectory(says("I am done."), user("Give one action."), two, user("One only.")))
    assert commands(heard) == []
    assert len(heard.of(ev.RunStarted)) == 1
    assert [one.message.text for one in heard.of(ev.ResponseFinished)][1] == "```bash\nls\n```\nor\n```bash\npwd\n```"
    assert [one.origin for one in heard.session.messages if isinstance(one.message, UserMessage)][1:] == [
        "nudge",
        "nudge",
    ]


def test_a_bare_list_of_messages_is_a_trajectory_too() -> None:
    data = [user("Repair it."), says("Hm.\n```mswea_bash_command\nls\n```"), output("a.txt")]
    assert detect_format(data) == "mini-swe-agent"
    assert commands(hear("mini-swe-agent", data)) == ['{"command":"ls"}']
    assert detect_format([user("Repair it."), says("Done.")]) == "openai"


def test_version_2_calls_bash_and_keeps_refused_responses_beside_the_words_that_refuse_them() -> None:
    bash = call("c1", "bash", '{"command":"ls"}')
    result = {"role": "tool", "tool_call_id": "c1", "content": "shown"}
    wrong = {"interrupt_type": "FormatError", "cost": 0.25, "response": response("No call.")}
    data = trajectory(
        says(None, bash, extra={"response": response(""), "actions": [{"command": "ls"}], "cost": 0.5}),
        {**result, "extra": {"raw_output": "shown and hidden", "returncode": 2, "timestamp": 1767225601}},
        user("Call a tool.", extra=wrong),
        says("Submitting.", call("c2", "bash", f'{{"command":"{SUBMIT}"}}'), extra={"timestamp": 1767225602}),
        {"role": "exit", "content": "diff", "extra": {"exit_status": "Submitted", "submission": "diff"}},
        submission="diff",
    )
    heard = hear("mini-swe-agent", data)
    steps = heard.of(ev.ResponseFinished)
    assert [step.message.text for step in steps] == ["", "No call.", "Submitting."]
    assert [step.usage.cost_usd for step in steps] == [0.5, 0.25, None]
    assert [(one.content, one.status) for one in heard.results] == [("shown", "error"), ("diff", "ok")]
    assert len(heard.of(ev.RunStarted)) == 1
    assert heard.session.losses["message field: extra.raw_output"] == 1
    assert heard.stops == ["custom:submitted"]


def test_responses_of_the_responses_api_are_merged_into_steps() -> None:
    items = [
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Look."}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Looking."}]},
        {"type": "function_call", "call_id": "c1", "name": "bash", "arguments": '{"command":"ls"}'},
    ]
    whole = {"object": "response", "status": "completed", "output": items, "usage": USAGE, "extra": {"cost": 0.5}}
    result = {"type": "function_call_output", "call_id": "c1", "output": "<returncode>1</returncode>", "extra": {}}
    heard = hear("mini-swe-agent", trajectory(whole, result, status="LimitsExceeded"))
    (step,) = heard.of(ev.ResponseFinished)
    assert (step.message.text, step.message.reasoning) == ("Looking.", (Reasoning("Look."),))
    assert step.usage == Usage(input_tokens=10, output_tokens=4, cost_usd=0.5)
    assert heard.results[0].status == "error"
    assert heard.stops == ["cost_limit"]


@pytest.mark.parametrize(
    ("status", "stats", "stop", "ends_as"),
    [
        ("LimitsExceeded", {"api_calls": 3}, "step_limit", "exhausted"),
        ("LimitsExceeded", {"api_calls": 2}, "cost_limit", "exhausted"),
        ("TimeExceeded", {}, "time_limit", "exhausted"),
        ("ContextWindowExceededError", {}, "token_limit", "exhausted"),
        ("RateLimitError", {}, "provider_error", "failed"),
        ("KeyError", {}, "custom:keyerror", "failed"),
        ("", {}, "custom:unfinished", "cancelled"),
    ],
)
def test_the_exit_status_is_the_end(status: str, stats: dict[str, Any], stop: str, ends_as: str) -> None:
    own = {"role": "exit", "content": "it broke", "extra": {"exit_status": status}}
    heard = hear("mini-swe-agent", trajectory(acts("ls"), output(""), own, status=status, model_stats=stats))
    assert heard.stops == [stop]
    assert heard.outcomes[0].status == ends_as
    assert heard.session.losses["own words"] == 1


def test_what_is_not_read_is_counted() -> None:
    data = trajectory(says("Hi.", extra={"odd": 1, "response": response("Hi.", reasoning_details=[1])}), odd=1)
    heard = hear("mini-swe-agent", {**data, "odder": 1})
    assert {
        "message field: extra.odd",
        "message field: extra.response.message.reasoning_details",
        "field: info.odd",
        "field: odder",
    } <= set(heard.session.losses)


@pytest.mark.parametrize("broken", [[1, {}, {"role": "assistant", "content": 3, "extra": 4}], []])
def test_broken_trajectories_are_read_as_far_as_they_can_be(broken: list[Any]) -> None:
    heard = hear("mini-swe-agent", {"trajectory_format": "mini-swe-agent-1", "info": 3, "messages": broken})
    assert len(heard.of(ev.ResponseFinished)) == (1 if broken else 0)


@pytest.mark.parametrize(
    ("last", "stop"),
    [
        (
            [acts(SUBMIT), {"role": "exit", "content": "diff", "extra": {"exit_status": "Submitted"}}],
            "custom:submitted",
        ),
        ([acts(SUBMIT), {"role": "exit", "content": "diff"}], "custom:submitted"),
        ([acts(SUBMIT), user("diff --git")], "custom:submitted"),
        ([acts(SUBMIT), output("no such command", code=1)], "custom:unfinished"),
        ([acts("ls"), output("a"), {"role": "exit", "content": "LimitsExceeded"}], "cost_limit"),
        ([acts("ls"), output("a"), {"role": "exit", "extra": {"exit_status": "TimeExceeded"}}], "time_limit"),
        ([acts("ls"), output("a"), {"role": "exit", "content": "RateLimitError"}], "provider_error"),
        ([acts("ls"), output("a"), {"role": "exit", "content": "What it says, nobody knows."}], "custom:unfinished"),
        ([acts("ls"), output("a")], "custom:unfinished"),
        ([acts("ls")], "custom:unfinished"),
    ],
)
def test_a_bare_list_ends_as_its_messages_say(last: list[Any], stop: str) -> None:
    heard = hear("mini-swe-agent", [user("Mend it."), acts("ls"), output("a.txt"), *last])
    assert heard.stops == [stop]
