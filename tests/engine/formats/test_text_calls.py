"""Calls and results that smolagents keeps as texts in its history."""

from __future__ import annotations

from typing import Any

import pytest
from endstop.formats.text_calls import read_text_calls

CALL = {"id": "call_1", "type": "function", "function": {"name": "shell", "arguments": {"command": "echo 'one'\n"}}}
SAID = f"I write the file.\nCalling tools:\n{[CALL]}"


def read(*texts: str) -> list[Any]:
    roles = ("assistant", "user")
    return read_text_calls([{"role": roles[place % 2], "content": text} for place, text in enumerate(texts)])


def test_calls_and_their_result_are_read() -> None:
    said, result = read(SAID, "Observation:\nwrote\n")
    assert said["content"] == "I write the file."
    assert said["tool_calls"] == [
        CALL | {"function": {"name": "shell", "arguments": r'{"command":"echo \'one\'\n"}'.replace(r"\'", "'")}}
    ]
    assert result == {"role": "tool", "tool_call_id": "call_1", "content": "wrote", "is_error": False}


def test_a_failed_call_and_a_new_task_behind_a_result_are_read() -> None:
    _, result = read(SAID, "Call id: call_1\nError:\nno such file\nNow let's retry")
    assert (result["is_error"], result["content"]) == (True, "no such file\nNow let's retry")
    _, result, prompt = read(SAID, "Observation:\nwrote\nNew task:\nRead it back.")
    assert (result["content"], prompt["content"]) == ("wrote", "New task:\nRead it back.")


def test_the_text_of_several_results_is_the_result_of_each_call() -> None:
    two = f"Calling tools:\n{[CALL, CALL | {'id': 'call_2'}]}"
    _, first, second = read(two, "Observation:\na\nb")
    assert [one["tool_call_id"] for one in (first, second)] == ["call_1", "call_2"]
    assert first["content"] == second["content"] == "a\nb"


@pytest.mark.parametrize(
    "text",
    [
        "Calling tools:\n[{'id': 'call_1', 'function': {'name': 'shell'",
        "Calling tools:\n[object at 0x7f]",
        "Calling tools:\n[1, 2]",
        "Calling tools:\n[{'id': 'call_1', 'function': {}}]",
        "The words Calling tools:\n[] stand in a sentence.",
        "Calling tools:\n[" + "(" * 5_000,
        "Calling tools:\n[" + "1," * 600_000 + "]",
        "Observation:\nnothing was called",
    ],
    ids=range(8),
)
def test_what_is_no_call_stays_as_it_is(text: str) -> None:
    messages = [{"role": "assistant", "content": text}, {"role": "user", "content": "Observation:\nwrote"}]
    assert read_text_calls(messages) == messages


def test_other_messages_are_the_same_objects() -> None:
    messages = [{"role": "user", "content": [{"type": "image_url"}]}, {"type": "function_call"}, "no message", None]
    assert all(a is b for a, b in zip(read_text_calls(messages), messages, strict=True))
