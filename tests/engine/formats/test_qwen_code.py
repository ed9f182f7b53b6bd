"""Transcripts of Qwen Code, made by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
from endstop.decision import Reasoning, Usage, UserMessage
from endstop.decision import events as ev
from endstop.decision.events import ParentCall
from endstop.formats import FoundSession, detect_format, find_sessions

from .heard import hear


class Transcript:
    """The lines of a transcript: each names the line before it, unless it says `after`."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []

    def add(self, type: str, *parts: dict[str, Any], after: str = "", id: str = "", **more: Any) -> str:
        uuid = id or f"u{len(self.lines) + 1}"
        parent = after or (self.lines[-1]["uuid"] if self.lines else None)
        line = {"uuid": uuid, "parentUuid": parent, "sessionId": "abc", "timestamp": "2026-01-01T10:00:00Z"}
        message = {"message": {"role": "model" if type == "assistant" else "user", "parts": list(parts)}}
        self.lines.append({**line, "type": type, "version": "0.23.4", **(message if type != "system" else {}), **more})
        return uuid


def text(words: str, **more: Any) -> dict[str, Any]:
    return {"text": words, **more}


def asks(id: str) -> dict[str, Any]:
    return {"functionCall": {"id": id, "name": "read", "args": {"path": id}}}


def answers(id: str, **response: Any) -> dict[str, Any]:
    return {"functionResponse": {"id": id, "name": "read", "response": response}}


def test_lines_become_prompts_responses_and_results(tmp_path: Path) -> None:
    made = Transcript()
    made.add("user", text("Read"))
    made.add("system", subtype="ui_telemetry", systemPayload={"uiEvent": {"event.name": "qwen-code.api_response"}})
    counts = {"promptTokenCount": 9, "candidatesTokenCount": 3, "thoughtsTokenCount": 2, "cachedContentTokenCount": 1}
    made.add("assistant", text("Hm.", thought=True), id="a")
    made.add("assistant", asks("c1"), asks("c2"), id="a", after="u2", usageMetadata=counts, model="qwen-x")
    made.add("tool_result", answers("c1", output="A"), toolCallResult={"status": "success"})
    made.add("tool_result", answers("c2", error="no"), toolCallResult={"status": "error"})
    made.add("user", text("A task is done."), subtype="notification")
    made.add("assistant", text("Done."))
    file = tmp_path / "abc.jsonl"
    file.write_bytes(b"\n".join(map(msgspec.json.encode, made.lines)))
    (found,) = find_sessions(file)
    assert isinstance(found, FoundSession)
    assert (found.format, found.id, found.session.model) == ("qwen-code", "abc", "qwen-x")
    heard = hear("qwen-code", made.lines)
    assert detect_format(made.lines) == "qwen-code"
    assert [event.prompt for event in heard.of(ev.RunStarted)] == ["Read"]
    first = heard.of(ev.ResponseFinished)[0]
    assert first.message.reasoning == (Reasoning("Hm."),)
    assert len(first.message.calls) == 2
    assert first.usage == Usage(input_tokens=9, output_tokens=5, cached_tokens=1, reasoning_tokens=2)
    assert [(one.content, one.status) for one in heard.results] == [("A", "ok"), ("no", "error")]
    assert [(one.text, one.origin) for one in heard.of(ev.MessageAdded)] == [("A task is done.", "nudge")]
    assert heard.session.losses["line: system (ui_telemetry)"] == 1


def test_a_compression_is_a_compaction_with_the_history_that_it_left() -> None:
    made = Transcript()
    made.add("user", text("Go"))
    made.add("assistant", text("Gone."))
    left = [{"role": "user", "parts": [text("It went.")]}, {"role": "model", "parts": [text("Got it.")]}]
    counted = {"originalTokenCount": 90, "newTokenCount": 9, "compressionStatus": "completed"}
    payload = {"info": counted, "compressedHistory": left}
    made.add("system", subtype="chat_compression", systemPayload=payload)
    made.add("user", text("On"))
    made.add("assistant", text("Done."))
    heard = hear("qwen-code", made.lines)
    assert [
        (one.before_tokens, one.after_tokens, one.dropped, one.put_first) for one in heard.of(ev.ContextCompacted)
    ] == [(90, 9, 2, (UserMessage("It went."),))]
    assert heard.session.losses["own words"] == 1
    del payload["compressedHistory"]
    heard = hear("qwen-code", made.lines)
    assert not heard.of(ev.ContextCompacted)
    assert heard.session.losses["line: system (chat_compression)"] == 1


def test_a_sub_agent_names_the_session_that_started_it() -> None:
    made = Transcript()
    made.add("user", text("Look"), agentId="a1")
    made.add("assistant", text("Seen."), agentId="a1")
    heard = hear("qwen-code", made.lines)
    assert (heard.session.id, heard.session.parent) == ("abc.a1", ParentCall(session_id="abc"))


def test_a_branch_that_was_left_is_counted_and_words_in_the_middle_are_the_users() -> None:
    made = Transcript()
    made.add("user", text("Go"), id="go")
    made.add("assistant", text("Left."))
    made.add("system", subtype="rewind", after="go", systemPayload={"targetUuid": "go"})
    made.add("user", text("On"), subtype="mid_turn_user_message")
    made.add("assistant", text("Kept."))
    heard = hear("qwen-code", made.lines)
    assert [getattr(one, "text", "") for one in heard.said] == ["Go", "On", "Kept."]
    assert heard.session.losses["rewound"] == 1
    assert heard.session.losses["characters"] == len("Left.")


def test_an_error_of_the_telemetry_is_a_failed_request() -> None:
    made = Transcript()
    made.add("user", text("Go"))
    event = {"event.name": "qwen-code.api_error", "status_code": 429, "error_message": "slow down"}
    made.add("system", subtype="ui_telemetry", systemPayload={"uiEvent": event})
    made.add("user", text("A notice."), subtype="notification")
    heard = hear("qwen-code", made.lines)
    assert heard.stops == ["provider_error"]
    assert [one.status for one in heard.of(ev.AttemptFailed)] == [429]
    assert heard.session.losses["last words"] == 1
