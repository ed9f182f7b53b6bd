"""Sessions of Continue's `cn` 1.5.47, cut short."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from endstop.decision import Usage
from endstop.decision import events as ev
from endstop.formats import FORMATS, FoundSession, Unreadable, detect_format, find_sessions

from .heard import hear


def person(words: str, *context: str) -> dict[str, Any]:
    items = [{"content": one, "name": "file", "description": ""} for one in context]
    return {"message": {"role": "user", "content": words}, "contextItems": items, "editorState": words}


def model(words: str, *states: dict[str, Any]) -> dict[str, Any]:
    usage = {"prompt_tokens": 1876, "completion_tokens": 23, "total_tokens": 1899, "model": "fake-model"}
    message: dict[str, Any] = {"role": "assistant", "content": words, "usage": usage}
    if states:
        message["toolCalls"] = [state["toolCall"] for state in states]
    return {"message": message, "contextItems": [], **({"toolCallStates": list(states)} if states else {})}


def ran(id: str, status: str, *output: str) -> dict[str, Any]:
    function = {"name": "Bash", "arguments": '{"command":"cat one.txt"}'}
    made = {"id": id, "type": "function", "function": function}
    results = [{"content": one, "name": "Tool Result", "description": "Tool execution result"} for one in output]
    return {"toolCallId": id, "toolCall": made, "status": status, "parsedArgs": {}, "output": results}


def session(*history: dict[str, Any]) -> dict[str, Any]:
    head = {"sessionId": "aa24", "title": "Untitled Session", "workspaceDirectory": "/work"}
    return {**head, "history": list(history), "usage": {"totalCost": 0.0059, "promptTokens": 5817}}


WHOLE = session(
    person("Write one", "# Notes"),
    model("I write.", ran("c1", "done", "wrote\n"), ran("c2", "errored", "no", "such file")),
    model("", ran("c3", "canceled"), ran("c4", "generated")),
    model("Done."),
)


def test_a_prompt_is_one_run_with_its_calls_and_results(tmp_path: Path) -> None:
    (tmp_path / "aa24.json").write_bytes(msgspec.json.encode(WHOLE))
    listed = [{"sessionId": "aa24", "title": "x", "dateCreated": "1795938119581", "workspaceDirectory": "/work"}]
    (tmp_path / "sessions.json").write_bytes(msgspec.json.encode(listed))
    found = list(find_sessions(tmp_path))
    assert [(one.format, one.id) for one in found if isinstance(one, FoundSession)] == [("continue-cli", "aa24")]
    assert all(isinstance(one, FoundSession) or one.aside for one in found)
    heard = hear("continue-cli", WHOLE)
    assert [(event.prompt, event.model) for event in heard.of(ev.RunStarted)] == [("Write one", "fake-model")]
    assert [(one.call_id, one.content, one.status) for one in heard.results][:3] == [
        ("c1", "wrote\n", "ok"),
        ("c2", "no\nsuch file", "error"),
        ("c3", "", "cancelled"),
    ]
    assert [event.usage for event in heard.of(ev.ResponseFinished)] == [Usage(input_tokens=1876, output_tokens=23)] * 3
    assert heard.session.losses["result"] == 1
    assert heard.session.losses["message field: contextItems"] == 1
    assert heard.stops == ["text_final"]


def test_other_data_is_none() -> None:
    assert detect_format(WHOLE) == "continue-cli"
    with pytest.raises(Unreadable):
        list(FORMATS["continue-cli"].sessions({"sessionId": "x", "history": []}))
