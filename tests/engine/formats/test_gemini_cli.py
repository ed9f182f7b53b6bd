"""Sessions of Gemini CLI, made by hand: the JSON file, and the lines of newer versions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from endstop.decision import Image, Reasoning, Usage, UserMessage
from endstop.decision import events as ev
from endstop.formats import FoundSession, detect_format, find_sessions

from .heard import Heard, called, hear

HEADER = {"sessionId": "abc", "projectHash": "f00", "startTime": "2026-01-01T10:00:00Z", "kind": "main"}
TOKENS = {"input": 10, "output": 4, "cached": 3, "thoughts": 2, "tool": 1, "total": 17}


def message(type: str, content: Any = "", **more: Any) -> dict[str, Any]:
    return {"id": f"{type}-{content}", "timestamp": "2026-01-01T10:00:01Z", "type": type, "content": content, **more}


def call(id: str, status: str, response: dict[str, Any] | None) -> dict[str, Any]:
    result = [] if response is None else [{"functionResponse": {"id": id, "name": "read", "response": response}}]
    return {"id": id, "name": "read", "args": {"path": id}, "status": status, "result": result, "displayName": "Read"}


def session(*messages: dict[str, Any]) -> dict[str, Any]:
    return {**HEADER, "messages": list(messages)}


def prompts(heard: Heard) -> list[str | None]:
    return [event.prompt for event in heard.of(ev.RunStarted)]


def test_a_message_of_the_model_is_a_response_with_its_results_and_tokens() -> None:
    calls = [
        call("c1", "success", {"output": "A"}),
        call("c2", "success", {"error": "no such file"}),
        call("c3", "error", {"error": "no"}),
        call("c4", "cancelled", {"error": "[Operation Cancelled] by the user"}),
        call("c5", "executing", None),
    ]
    thoughts = [{"subject": "Reading", "description": "All of it."}]
    data = session(
        message("user", "Read"),
        message("gemini", "I read.", toolCalls=calls, thoughts=thoughts, tokens=TOKENS, model="gemini-x"),
        message("gemini", [{"text": "Done."}], tokens=None),
    )
    heard = hear("gemini-cli", data)
    assert detect_format(data) == "gemini-cli"
    assert (heard.session.id, heard.session.model) == ("abc", "gemini-x")
    first = heard.of(ev.ResponseFinished)[0]
    assert first.message.reasoning == (Reasoning("Reading\nAll of it."),)
    assert first.message.calls[0] == called("c1", "read", '{"path":"c1"}')
    assert first.usage == Usage(input_tokens=11, output_tokens=6, cached_tokens=3, reasoning_tokens=2)
    assert [one.status for one in heard.results] == ["ok", "error", "error", "cancelled", "unknown"]
    assert [one.content for one in heard.results[:2]] == ["A", "no such file"]
    assert heard.stops == ["text_final"]


def test_results_that_stand_in_the_users_role_too_begin_no_run() -> None:
    def repeated(id: str, output: str) -> dict[str, Any]:
        response = {"functionResponse": {"id": id, "name": "read", "response": {"output": output}}}
        return message("user", [response])

    context = "<session_context>\nThis is the Gemini CLI.\n</session_context>"
    asked = {"functionCall": {"id": "c2", "name": "read", "args": {"path": "c2"}}}
    lines = [
        HEADER,
        {"$set": {"messages": [message("user", [{"text": context}])]}},
        message("user", [{"text": "Read"}]),
        message("gemini", "I read.", toolCalls=[call("c1", "success", {"output": "A"})]),
        repeated("c1", "A"),
        message("gemini", [{"text": "And"}, asked], toolCalls=[call("c2", "executing", None)]),
        repeated("c2", "B"),
        message("user", [{"text": "System: Potential loop detected. Details: Repeated tool call: read."}]),
        message("gemini", "Done."),
    ]
    heard = hear("gemini-cli", lines)
    assert prompts(heard) == ["Read"]
    assert [one.content for one in heard.results] == ["A", "B"]
    assert [event.origin for event in heard.of(ev.MessageAdded)] == ["nudge", "nudge"]
    assert heard.stops == ["text_final"]
    assert not heard.session.losses["second result"]


def test_lines_replace_messages_change_the_session_and_go_back(tmp_path: Path) -> None:
    lines = [
        HEADER,
        message("user", "Go"),
        message("gemini", "Gone."),
        {"$set": {"lastUpdated": "2026-01-01T10:00:02Z", "summary": "It went."}},
        message("gemini", "Gone.", tokens=TOKENS),
        message("user", "Left"),
        message("gemini", "Left, too."),
        {"$rewindTo": "user-Left"},
        message("user", "Kept"),
        message("gemini", "Yes."),
    ]
    file = tmp_path / "session-1.jsonl"
    file.write_bytes(b"\n".join(map(msgspec.json.encode, lines)))
    (found,) = find_sessions(file)
    assert isinstance(found, FoundSession)
    assert (found.format, found.id, found.place) == ("gemini-cli", "abc", "")
    said = [one.message for one in found.session.messages]
    assert [one.text for one in said if isinstance(one, UserMessage)] == ["Go", "Kept"]
    assert len(said) == 4
    assert found.session.messages[1].usage is not None
    assert found.session.losses["rewound"] == 2
    assert found.session.losses["field: summary"] == 1


def test_a_step_back_to_nothing_leaves_everything() -> None:
    lines = [HEADER, message("user", "Go"), {"$rewindTo": "nowhere"}, message("user", "On"), message("gemini", "Yes.")]
    heard = hear("gemini-cli", lines)
    assert prompts(heard) == ["On"]
    assert heard.session.losses["rewound"] == 1


def test_commands_that_call_no_model_are_left_out_and_the_others_are_prompts() -> None:
    heard = hear(
        "gemini-cli",
        session(
            message("user", "/stats"),
            message("info", "3 requests"),
            message("user", "/review"),
            message("gemini", "Good."),
        ),
    )
    assert prompts(heard) == ["/review"]
    assert heard.session.losses["local command"] == heard.session.losses["role: info"] == 1


def test_errors_are_failed_requests_and_cancelled_ones_are_cancelled() -> None:
    heard = hear(
        "gemini-cli",
        session(
            message("user", "Go"),
            message("gemini", "Well"),
            message("info", "Request cancelled."),
            message("user", "On"),
            message("error", "[API Error: status 429: quota]"),
        ),
    )
    assert heard.stops == ["cancelled", "provider_error"]


def test_pictures_of_a_prompt_are_kept_and_other_files_are_named() -> None:
    picture = {"inlineData": {"mimeType": "image/png", "data": "AAEC"}}
    audio = {"inlineData": {"mimeType": "audio/wav", "data": "AAEC"}}
    heard = hear("gemini-cli", session(message("user", [{"text": "See"}, picture, audio]), message("gemini", "Seen.")))
    assert heard.of(ev.RunStarted)[0].images == (Image(data=b"\0\1\2", media_type="image/png"),)
    assert heard.session.losses["content part: audio/wav"] == 1


@pytest.mark.parametrize("broken", [{"messages": [1, {"type": "gemini", "toolCalls": [1, {}], "tokens": 3}]}])
def test_broken_messages_are_read_as_far_as_they_can_be(broken: dict[str, Any]) -> None:
    heard = hear("gemini-cli", {**HEADER, **broken})
    assert len(heard.of(ev.ResponseFinished)) == 1
