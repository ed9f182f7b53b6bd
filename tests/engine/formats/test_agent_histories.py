"""A folder with the history of every coding agent: each is found as what it is, and none is taken for another's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from endstop.formats import FoundSession, find_sessions

AT = "2026-01-01T10:00:00Z"
SAID = [{"type": "text", "text": "Hi"}]
CLAUDE = {"sessionId": "claude", "timestamp": AT, "isSidechain": False}
QWEN = {"sessionId": "qwen", "timestamp": AT, "version": "0.23"}
COPILOT = {"id": "e", "timestamp": AT, "parentId": None}
PARTS = [{"text": "Hi"}]
ASKED = {"role": "user", "content": SAID}
ANSWERED = {"role": "assistant", "content": SAID}
ITEM = {"type": "message", **ANSWERED}

HISTORIES: dict[str, list[dict[str, Any]]] = {
    "claude-code": [
        {"type": "permission-mode", "permissionMode": "default", "sessionId": "claude"},
        {"type": "user", "uuid": "1", "parentUuid": None, **CLAUDE, "message": {"role": "user", "content": "Hi"}},
        {"type": "file-history-snapshot", "messageId": "1", "snapshot": {}},
        {"type": "assistant", "uuid": "2", "parentUuid": "1", **CLAUDE, "message": ANSWERED},
    ],
    "codex": [
        {"timestamp": AT, "type": "session_meta", "payload": {"id": "codex"}},
        {"timestamp": AT, "type": "event_msg", "payload": {"type": "user_message", "message": "Hi"}},
        {"timestamp": AT, "type": "response_item", "payload": ITEM},
    ],
    "gemini-cli": [
        {"sessionId": "gemini", "projectHash": "f00", "startTime": AT},
        {"id": "1", "timestamp": AT, "type": "user", "content": PARTS},
        {"id": "2", "timestamp": AT, "type": "gemini", "content": "Hi"},
    ],
    "qwen-code": [
        {"type": "user", "uuid": "1", "parentUuid": None, **QWEN, "message": {"role": "user", "parts": PARTS}},
        {"type": "system", "uuid": "2", "parentUuid": "1", **QWEN, "subtype": "ui_telemetry", "systemPayload": {}},
        {"type": "assistant", "uuid": "3", "parentUuid": "2", **QWEN, "message": {"role": "model", "parts": PARTS}},
    ],
    "pi": [
        {"type": "session", "version": 3, "id": "pi", "timestamp": AT, "cwd": "/x"},
        {"type": "model_change", "id": "1", "parentId": None, "timestamp": AT, "modelId": "m"},
        {"type": "message", "id": "2", "parentId": "1", "timestamp": AT, "message": ASKED},
        {"type": "message", "id": "3", "parentId": "2", "timestamp": AT, "message": ANSWERED},
    ],
    "copilot-cli": [
        {"type": "session.start", "data": {"sessionId": "copilot"}, **COPILOT},
        {"type": "user.message", "data": {"content": "Hi"}, **COPILOT},
        {"type": "assistant.message", "data": {"content": "Hi", "toolRequests": []}, **COPILOT},
    ],
    "kimi-cli": [
        {"type": "metadata", "protocol_version": "1.4", "created_at": 1},
        {"type": "context.append_message", "message": {"role": "user", "content": SAID, "toolCalls": []}, "time": 1},
        {"type": "context.append_loop_event", "event": {"type": "content.part", "part": SAID[0]}, "time": 1},
    ],
    "cursor": [
        {"role": "user", "message": {"content": SAID}},
        {"role": "assistant", "message": {"content": SAID}},
        {"type": "turn_ended", "status": "success"},
    ],
}  # fmt: skip


def write(path: Path, lines: list[dict[str, Any]]) -> None:
    path.write_bytes(b"\n".join(map(msgspec.json.encode, lines)) + b"\n")


def test_each_is_found_as_what_it_is(tmp_path: Path) -> None:
    for name, lines in HISTORIES.items():
        write(tmp_path / f"{name}.jsonl", lines)
    found = list(find_sessions(tmp_path))
    assert {Path(one.source).stem: one.format for one in found if isinstance(one, FoundSession)} == {
        name: name for name in HISTORIES
    }
    assert len(found) == len(HISTORIES)
    assert {one.place for one in found} == {""}


@pytest.mark.parametrize("name", HISTORIES)
def test_a_torn_last_line_costs_only_itself(tmp_path: Path, name: str) -> None:
    file = tmp_path / "torn.jsonl"
    write(file, HISTORIES[name])
    with open(file, "ab") as end:
        end.write(b'{"type": "assis')
    results = list(find_sessions(file))
    assert [one.format for one in results if isinstance(one, FoundSession)] == [name]
    assert len(results) == 2
