"""Sessions of cline 3.0.65, cut short."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from endstop.decision import Usage
from endstop.decision import events as ev
from endstop.formats import FORMATS, FoundSession, Unreadable, detect_format, find_sessions

from .heard import hear

AT = 1_795_938_122_766
REMINDER = "[SYSTEM] This run is not complete until you call one of these terminal completion tools: submit_and_exit."


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def asks(id: str, name: str = "run_commands", **input: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": name, "input": input}


def answers(id: str, content: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": id, "name": "run_commands", "content": content}


def ran(query: str, result: str, success: bool = True) -> dict[str, Any]:
    return {"query": query, "result": result, "success": success}


def person(*blocks: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"id": "u", "role": "user", "content": list(blocks), "ts": AT, **more}


def model(*blocks: dict[str, Any], **more: Any) -> dict[str, Any]:
    counts = {"inputTokens": 3520, "outputTokens": 25, "cacheReadTokens": 20, "cacheWriteTokens": 0}
    info = {"id": "fake-model", "provider": "openai-compatible"}
    return {"role": "assistant", "content": list(blocks), "ts": AT + 80, "modelInfo": info, "metrics": counts, **more}


def session(*messages: dict[str, Any]) -> dict[str, Any]:
    head = {"version": 1, "updated_at": "2026-11-29T07:42:02.939Z", "agent": "lead", "sessionId": "179_6k"}
    origin = {"source": "cli", "mode": "user", "sessionId": "179_6k", "version": "3.0.65"}
    return {**head, "origin": origin, "messages": list(messages), "system_prompt": "You are Cline."}


WHOLE = session(
    person(text('<user_input mode="yolo">Write one</user_input>')),
    person(text(REMINDER), metadata={"userRunSpan": 0}),
    model(text("I write."), asks("c1", commands=["echo one > one.txt"])),
    person(answers("c1", [ran("echo one > one.txt", "")])),
    model(asks("c2", commands=["cat one.txt"])),
    person(answers("c2", [ran("cat one.txt", "", success=False)])),
    model(asks("c3", "submit_and_exit", summary="Done.", verified=False)),
    person(answers("c3", "Submission recorded (unverified): Done.")),
)


def test_a_prompt_is_one_run_with_its_calls_and_results(tmp_path: Path) -> None:
    folder = tmp_path / "179_6k"
    folder.mkdir()
    (folder / "179_6k.messages.json").write_bytes(msgspec.json.encode(WHOLE))
    head = {"session_id": "179_6k", "messages_path": "x", "workspace_root": "/work", "status": "completed"}
    (folder / "179_6k.json").write_bytes(msgspec.json.encode(head))
    found = list(find_sessions(tmp_path))
    assert [(one.format, one.id) for one in found if isinstance(one, FoundSession)] == [("cline-cli", "179_6k")]
    assert all(isinstance(one, FoundSession) or one.aside for one in found)
    heard = hear("cline-cli", WHOLE)
    (started,) = heard.of(ev.RunStarted)
    assert (started.prompt, started.system, started.model) == ("Write one", "You are Cline.", "fake-model")
    assert [(event.text, event.origin) for event in heard.of(ev.MessageAdded)] == [(REMINDER, "nudge")]
    assert [result.status for result in heard.results] == ["ok", "error", "ok"]
    assert heard.results[0].content == '[{"query":"echo one > one.txt","result":"","success":true}]'
    assert [event.usage for event in heard.of(ev.ResponseFinished)] == [
        Usage(input_tokens=3520, output_tokens=25, cached_tokens=20)
    ] * 3
    assert heard.stops == ["completed"]


def test_an_error_that_cline_shows_is_a_failed_request() -> None:
    shown = {"metadata": {"displayOnly": True, "displayRole": "error"}}
    heard = hear("cline-cli", session(person(text("Go")), model(text("status 500: no"), **shown)))
    assert [failed.status for failed in heard.of(ev.AttemptFailed)] == [500]
    other = session(person(text("Go")), model(text("Hi")), model(text("Mode: act"), metadata={"displayOnly": True}))
    assert hear("cline-cli", other).session.losses["own words"] == 1


def test_other_data_is_none() -> None:
    assert detect_format(WHOLE) == "cline-cli"
    with pytest.raises(Unreadable):
        list(FORMATS["cline-cli"].sessions({"messages": []}))
    odd = hear("cline-cli", session(person(text("Go")), {"role": "robot", "content": "x"}, model(text("Hi"))))
    assert odd.session.losses["role: robot"] == 1
