"""Conversations in ShareGPT's form, made by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from endstop.decision import UserMessage
from endstop.decision import events as ev
from endstop.formats import FORMATS, FoundSession, Unreadable, detect_format, find_sessions

from .heard import called, hear


def turn(who: str, value: str, **more: Any) -> dict[str, Any]:
    return {"from": who, "value": value, **more}


def talk(*turns: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"conversations": list(turns), **more}


TOOLS = '[{"name": "look", "description": "Look.", "parameters": {"type": "object"}}]'


def test_turns_are_prompts_and_responses() -> None:
    data = talk(turn("human", "Hi"), turn("gpt", "Hello", weight=0), turn("user", "On"), turn("assistant", "Yes"))
    assert detect_format(data) == "sharegpt"
    heard = hear("sharegpt", {**data, "id": "c1", "system": "Be brief.", "category": "chat"})
    assert (heard.session.id, heard.session.system) == ("c1", "Be brief.")
    assert [one.prompt for one in heard.of(ev.RunStarted)] == ["Hi", "On"]
    assert [one.message.text for one in heard.of(ev.ResponseFinished)] == ["Hello", "Yes"]
    assert heard.session.losses["field: category"] == heard.session.losses["message field: weight"] == 1


def test_calls_in_turns_of_their_own() -> None:
    several = '[{"name": "look", "arguments": {"at": 1}}, {"name": "look", "arguments": {"at": 2}}]'
    data = talk(
        turn("human", "Go"),
        turn("function_call", '{"name": "look", "arguments": {"at": 0}}'),
        turn("observation", "blue"),
        turn("function-call", several),
        turn("function-response", "red"),
        turn("gpt", "Done."),
        tools=TOOLS,
    )
    heard = hear("sharegpt", data)
    steps = heard.of(ev.ResponseFinished)
    assert steps[0].message.calls == (called("1.0", "look", '{"at":0}'),)
    assert len(steps[1].message.calls) == 2
    assert [one.content for one in heard.results][:2] == ["blue", "red"]
    assert [spec.name for spec in heard.session.tools] == ["look"]


def test_calls_in_the_models_text() -> None:
    call = '<tool_call>\n{"name": "look", "arguments": {"at": 1}}\n</tool_call>'
    answer = "<tool_response>\nblue\n</tool_response>"
    heard = hear("sharegpt", talk(turn("human", "Go"), turn("gpt", f"Look.\n{call}\n{call}"), turn("tool", answer * 2)))
    (step,) = heard.of(ev.ResponseFinished)
    assert (step.message.text, len(step.message.calls)) == ("Look.", 2)
    assert [one.content for one in heard.results] == ["blue", "blue"]


def test_what_is_no_call_stays_text_and_results_without_one_are_the_loops_word() -> None:
    broken = "<tool_call>look</tool_call>"
    heard = hear("sharegpt", talk(turn("human", "Go"), turn("gpt", broken), turn("tool", "?"), turn("narrator", "So.")))
    (step,) = heard.of(ev.ResponseFinished)
    assert (step.message.text, step.message.calls) == (broken, ())
    assert [one.origin for one in heard.session.messages if isinstance(one.message, UserMessage)] == ["user", "nudge"]
    assert heard.session.losses["role: narrator"] == 1
    called_badly = hear("sharegpt", talk(turn("human", "Go"), turn("function_call", "look!")))
    assert called_badly.of(ev.ResponseFinished)[0].message.text == "look!"


def test_lines_and_lists_are_one_session_each_and_chat_lines_stay_openais(tmp_path: Path) -> None:
    data = [talk(turn("human", "Hi"), turn("gpt", "Hello")), talk(turn("human", "Hi"), turn("gpt", "Hi"))]
    for name, content in (
        ("a.jsonl", b"\n".join(map(msgspec.json.encode, data))),
        ("a.json", msgspec.json.encode(data)),
    ):
        (tmp_path / name).write_bytes(content)
        found = list(find_sessions(tmp_path / name))
        assert [one.format for one in found if isinstance(one, FoundSession)] == ["sharegpt", "sharegpt"]
    chat = {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}], "tools": []}
    assert detect_format(chat) == "openai"
    with pytest.raises(Unreadable, match="conversations"):
        list(FORMATS["sharegpt"].sessions(chat))
