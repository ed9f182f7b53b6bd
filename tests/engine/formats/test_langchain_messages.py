"""Messages of LangChain, made by hand in the shapes that langchain-core 1.7 writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from endstop.decision import Reasoning, Usage
from endstop.decision import events as ev
from endstop.formats import FoundSession, detect_format, find_sessions

from .heard import called, hear

CLASSES = {"human": "HumanMessage", "ai": "AIMessage", "tool": "ToolMessage", "system": "SystemMessage"}


def dump(type: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"type": type, "content": content, "additional_kwargs": {}, "response_metadata": {}, "id": None, **more}


USAGE = {"input_tokens": 10, "output_tokens": 4, "total_tokens": 14} | {
    "input_token_details": {"cache_read": 3}, "output_token_details": {"reasoning": 2},
}  # fmt: skip
CALLS = [{"name": "look", "args": {"at": 1}, "id": "a", "type": "tool_call"}]
BROKEN = [{"name": "look", "args": "{broken", "id": "b", "error": "no JSON", "type": "invalid_tool_call"}]
BLOCKS = [
    {"type": "thinking", "thinking": "Hm.", "signature": "s"},
    {"type": "text", "text": "Look."},
    {"type": "tool_use", "id": "a", "name": "look", "input": {"at": 1}},
]
MESSAGES = [
    dump("system", "Be brief."),
    dump("human", "Go", example=False),
    dump("ai", BLOCKS, tool_calls=CALLS, invalid_tool_calls=BROKEN, usage_metadata=USAGE)
    | {"response_metadata": {"finish_reason": "tool_calls", "model_name": "m"}},
    dump("tool", "blue", tool_call_id="a", name="look", status="success", artifact=[1]),
    dump("tool", "no", tool_call_id="b", status="error"),
    dump("ai", "Blue.", tool_calls=[]),
]


def in_dict(message: dict[str, Any]) -> dict[str, Any]:
    return {"type": message["type"], "data": message}


def in_lc(message: dict[str, Any]) -> dict[str, Any]:
    path = ["langchain", "schema", "messages", CLASSES[message["type"]]]
    return {"lc": 1, "type": "constructor", "id": path, "kwargs": message}


@pytest.mark.parametrize("form", [in_dict, in_lc, dict])
def test_messages_of_all_three_forms_are_one_session(form: Any, tmp_path: Path) -> None:
    data = [form(message) for message in MESSAGES]
    assert detect_format(data) == "langchain"
    heard = hear("langchain", data)
    assert (heard.session.model, heard.session.system) == ("m", "Be brief.")
    assert [one.prompt for one in heard.of(ev.RunStarted)] == ["Go"]
    first, last = heard.of(ev.ResponseFinished)
    assert (first.message.text, first.message.reasoning) == ("Look.", (Reasoning("Hm.", "s"),))
    assert first.message.calls == (called("a", "look", '{"at":1}'), called("b", "look", "{broken"))
    assert first.usage == Usage(input_tokens=10, output_tokens=4, cached_tokens=3, reasoning_tokens=2)
    assert [(one.content, one.status) for one in heard.results] == [("blue", "ok"), ("no", "error")]
    assert (first.raw_finish, last.message.text, heard.stops) == ("tool_calls", "Blue.", ["text_final"])
    assert heard.session.losses["message field: artifact"] == 1
    file = tmp_path / "chat.jsonl"
    file.write_bytes(b"\n".join(map(msgspec.json.encode, data)))
    (found,) = find_sessions(file)
    assert isinstance(found, FoundSession)
    assert (found.format, len(found.session.messages)) == ("langchain", 5)


def test_calls_and_counts_of_older_versions_stand_aside() -> None:
    old = {"tool_calls": [{"id": "a", "function": {"name": "look", "arguments": "{}"}}], "reasoning_content": "Hm."}
    metadata = {"token_usage": {"prompt_tokens": 10, "completion_tokens": 4}, "odd": 1}
    data = [dump("human", "Go"), dump("ai", "", additional_kwargs=old, response_metadata=metadata)]
    heard = hear("langchain", data)
    (step,) = heard.of(ev.ResponseFinished)
    assert (step.message.calls, step.message.reasoning) == ((called("a", "look"),), (Reasoning("Hm."),))
    assert (step.usage.input_tokens, heard.session.losses["message field: response_metadata.odd"]) == (10, 1)


def test_the_state_of_a_graph_and_chunks_are_read_and_removals_are_counted() -> None:
    chunk = in_lc(dump("ai", "Hi.")) | {"id": ["langchain", "schema", "messages", "AIMessageChunk"]}
    data = {"values": {"messages": [dump("human", "Go"), chunk, dump("remove", ""), {"odd": "one"}]}, "thread_id": "t"}
    assert detect_format(data) == "langchain"
    heard = hear("langchain", data)
    assert (heard.session.id, len(heard.of(ev.ResponseFinished))) == ("t", 1)
    assert (heard.session.losses["role: remove"], heard.session.losses["another form"]) == (1, 1)


def test_lines_of_other_programs_are_not_taken_for_messages() -> None:
    assert detect_format([{"type": "system", "subtype": "init", "content": "x"}]) != "langchain"
    assert detect_format([{"type": "human", "content": "x"}]) != "langchain"


def test_items_of_the_responses_api_in_a_content_are_calls_and_reasoning() -> None:
    thought = {"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": "Hm."}]}
    item = {
        "type": "function_call",
        "id": "fc",
        "call_id": "a",
        "name": "look",
        "arguments": '{"at":1}',
        "status": "completed",
    }
    for calls in (CALLS, []):
        heard = hear(
            "langchain", [dump("human", "Go"), dump("ai", [thought, item], tool_calls=calls), dump("ai", "So.")]
        )
        first = heard.of(ev.ResponseFinished)[0].message
        assert first.text == ""
        assert first.calls == (called("a", "look", '{"at":1}'),)
        assert first.reasoning == (Reasoning("Hm."),)
        assert "content part: function_call" not in heard.session.losses
