"""Conversations of Cursor, made by hand: a database, and the agent's transcripts."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from endstop.decision import Reasoning
from endstop.decision import events as ev
from endstop.formats import FORMATS, FoundSession, Unreadable, detect_format, find_sessions

from .heard import Heard, called, hear


def bubble(id: str, type: int, text: str = "", **more: Any) -> dict[str, Any]:
    return {"_v": 3, "bubbleId": id, "type": type, "text": text, "createdAt": "2026-01-01T10:00:00Z", **more}


def call(id: str, status: str = "completed", by: str = "", **more: Any) -> dict[str, Any]:
    tool = {"tool": 15, "toolCallId": id, "name": "run", "rawArgs": f'{{"at":"{id}"}}', "modelCallId": by}
    return {"toolFormerData": {**tool, "status": status, **more}}


BUBBLES = [
    bubble("b1", 1, "List", context={"fileSelections": ["a"]}),
    bubble("b2", 2, thinking={"text": "Hm.", "signature": "sig"}, tokenCount={"inputTokens": 0, "outputTokens": 0}),
    bubble("b3", 2, "I list.", modelInfo={"modelName": "m"}, tokenCount={"inputTokens": 30, "outputTokens": 4}),
    bubble("b4", 2, **call("c1", by="r1", result="A")),
    bubble("b5", 2, **call("c2", "error", by="r1", error='{"modelVisibleErrorMessage":"no"}')),
    bubble("b6", 2, **call("c3", result='{"output":"bad","exitCode":1}')),
    bubble("b7", 2, **call("c4", result="", userDecision="rejected")),
    bubble("b8", 2, "Done."),
]


def conversation(*bubbles: dict[str, Any], **more: Any) -> dict[str, Any]:
    headers = [{"bubbleId": one["bubbleId"], "type": one["type"]} for one in bubbles]
    composer = {"_v": 10, "composerId": "abc", "fullConversationHeadersOnly": headers, "createdAt": 1, **more}
    return {"id": "abc", "composer": composer, "bubbles": {one["bubbleId"]: one for one in bubbles}}


def prompts(heard: Heard) -> list[str | None]:
    return [event.prompt for event in heard.of(ev.RunStarted)]


def test_bubbles_become_responses_up_to_the_next_request() -> None:
    data = conversation(*BUBBLES, name="A title", modelConfig={"modelName": "default"})
    heard = hear("cursor", data)
    assert detect_format(data) == "cursor"
    assert (heard.session.id, heard.session.model, prompts(heard)) == ("abc", "m", ["List"])
    first, second, third, last = (event.message for event in heard.of(ev.ResponseFinished))
    assert first.reasoning == (Reasoning("Hm.", "sig"),)
    assert first.text == "I list."
    assert first.calls == (called("c1", "run", '{"at":"c1"}'), called("c2", "run", '{"at":"c2"}'))
    assert [len(one.calls) for one in (second, third, last)] == [1, 1, 0]
    assert [one.status for one in heard.results] == ["ok", "error", "error", "denied"]
    usages = [event.usage for event in heard.of(ev.ResponseFinished)]
    assert (usages[0].input_tokens, usages[0].output_tokens, usages[1].estimated) == (30, 4, True)
    assert heard.stops == ["text_final"]
    assert heard.session.losses["field: name"] == heard.session.losses["message field: context"] == 1


def test_older_conversations_hold_their_bubbles() -> None:
    data = {"id": "old", "composer": {"conversation": [bubble("b1", 1, "Go"), bubble("b2", 2, "Gone.")]}, "bubbles": {}}
    assert prompts(hear("cursor", data)) == ["Go"]


def test_what_is_missing_left_or_cut_off_is_said() -> None:
    data = conversation(bubble("b1", 1, "Go"), bubble("b2", 2, "Well"), bubble("b3", 2, "gone"), status="aborted")
    data["bubbles"] |= {"b3": None, "b9": bubble("b9", 2, "Left.")}
    heard = hear("cursor", data)
    assert heard.stops == ["cancelled"]
    assert heard.session.losses["no message"] == heard.session.losses["rewound"] == 1
    failed = conversation(bubble("b1", 1, "Go"), bubble("b2", 2, errorDetails={"message": "status 429: slow down"}))
    assert hear("cursor", failed).stops == ["provider_error"]


def test_a_database_holds_conversations(tmp_path: Path) -> None:
    path = tmp_path / "state.vscdb"
    data = conversation(*BUBBLES)
    entries: dict[str, Any] = {f"bubbleId:abc:{id}": one for id, one in data["bubbles"].items()}
    entries |= {
        "composerData:abc": data["composer"],
        "composerData:empty": {"text": ""},
        "bubbleId:abcd:b1": BUBBLES[0],
    }
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE ItemTable (key TEXT UNIQUE, value BLOB)")
        connection.execute("CREATE TABLE cursorDiskKV (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB)")
        for key, value in entries.items():
            connection.execute("INSERT INTO cursorDiskKV VALUES (?, ?)", (key, msgspec.json.encode(value).decode()))
        connection.execute("INSERT INTO cursorDiskKV VALUES (?, ?)", ("bubbleId:abc:b0", "{torn"))
        connection.commit()
    (found,) = find_sessions(path)
    assert isinstance(found, FoundSession)
    assert (found.format, found.id, found.place) == ("cursor", "abc", "conversation abc")
    heard = hear("cursor", data)
    assert [one.message for one in found.session.messages] == [one.message for one in heard.session.messages]
    assert found.session.losses["rewound"] == 1


def test_an_older_database_holds_composers_and_tabs(tmp_path: Path) -> None:
    path = tmp_path / "state.vscdb"
    old = {"composerId": "c", "conversation": [bubble("b1", 1, "Go"), bubble("b2", 2, "Gone.")]}
    bubbles = [{"type": "user", "text": "Why?"}, {"type": "ai", "rawText": "So.", "modelType": "m"}, {"type": "x"}]
    chats: dict[str, Any] = {
        "composer.composerData": {"allComposers": [old, {"composerId": "head"}]},
        "workbench.panel.aichat.view.aichat.chatdata": {"tabs": [{"tabId": "t", "bubbles": bubbles}]},
    }
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE ItemTable (key TEXT UNIQUE, value BLOB)")
        for key, value in chats.items():
            connection.execute("INSERT INTO ItemTable VALUES (?, ?)", (key, msgspec.json.encode(value)))
        connection.commit()
    composer, tab = find_sessions(path)
    assert isinstance(composer, FoundSession)
    assert isinstance(tab, FoundSession)
    assert (composer.id, tab.id, tab.session.model) == ("c", "t", "m")
    assert [len(one.session.messages) for one in (composer, tab)] == [2, 2]
    assert tab.session.losses["role: x"] == 1


def line(role: str, *content: dict[str, Any]) -> dict[str, Any]:
    return {"role": role, "message": {"content": list(content)}}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def test_words_that_others_follow_in_a_transcript_are_one_response() -> None:
    use = {"type": "tool_use", "name": "Shell", "input": {"command": "ls"}}
    lines = [line("user", text("List")), line("assistant", text("I look.")), line("assistant", text("I list."), use)]
    lines += [line("assistant", text("Hm.")), line("assistant", text("Done.")), line("user", text("On"))]
    said = [
        event.message for event in hear("cursor", [*lines, line("assistant", text("Well"))]).of(ev.ResponseFinished)
    ]
    assert [(one.text, len(one.calls)) for one in said] == [("I look.\nI list.", 1), ("Hm.\nDone.", 0), ("Well", 0)]


def test_a_transcript_has_messages_without_results(tmp_path: Path) -> None:
    use = {"type": "tool_use", "name": "Shell", "input": {"command": "ls"}}
    ended = {"type": "turn_ended", "status": "success"}
    lines = [line("user", text("<user_query>List</user_query>")), line("assistant", text("I list."), use)]
    lines += [line("assistant", text("Done.")), ended, line("user", text("On")), line("assistant", text("Well"))]
    lines += [
        {"type": "turn_ended", "status": "aborted"},
        line("user", text("On")),
        {**ended, "status": "error", "error": "no"},
    ]
    file = tmp_path / "abc.jsonl"
    file.write_bytes(b"\n".join(map(msgspec.json.encode, lines)))
    (found,) = find_sessions(file)
    assert isinstance(found, FoundSession)
    assert (found.format, found.id, found.place) == ("cursor", "abc", "")
    heard = hear("cursor", lines)
    assert prompts(heard) == ["<user_query>List</user_query>", "On", "On"]
    assert [one.status for one in heard.results] == ["unknown"]
    assert heard.stops == ["text_final", "cancelled", "provider_error"]
    assert heard.session.losses["call id"] == heard.session.losses["result"] == 1


def test_other_databases_and_data_are_refused(tmp_path: Path) -> None:
    store = FORMATS["cursor"].store
    assert store is not None
    assert store(tmp_path) is None
    other = tmp_path / "other.db"
    with closing(sqlite3.connect(other)) as connection:
        connection.execute("CREATE TABLE ItemTable (key TEXT, value BLOB)")
        connection.commit()
    assert store(other) is None
    with pytest.raises(Unreadable, match="not a Cursor conversation"):
        list(FORMATS["cursor"].sessions([{"role": "user", "content": "Go"}]))
