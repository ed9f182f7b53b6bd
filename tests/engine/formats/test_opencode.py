"""Sessions of OpenCode, made by hand: a folder, databases of version 1 and 2, and an export."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from endstop.decision import Image, Reasoning, ToolResult, Usage
from endstop.decision import events as ev
from endstop.decision.events import ParentCall
from endstop.formats import FORMATS, FoundSession, Unreadable, detect_format, find_sessions

from .heard import Heard, called, hear

TOKENS = {"input": 3, "output": 4, "reasoning": 1, "cache": {"read": 20, "write": 7}}


def message(role: str, number: int, *parts: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"info": {"id": f"msg_{number}", "role": role, "time": {"created": 1_700_000_000_000 + number}, **more},
            "parts": [{"id": f"prt_{number}_{at}", **part} for at, part in enumerate(parts)]}  # fmt: skip


def text(words: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": words, **more}


def tool(id: str, status: str, **state: Any) -> dict[str, Any]:
    return {"type": "tool", "callID": id, "tool": "bash", "state": {"status": status, "input": {"at": id}, **state}}


BEGIN = {"type": "step-start"}
END = {"type": "step-finish", "reason": "tool-calls", "tokens": TOKENS, "cost": 0.5}
MESSAGES = [
    message("user", 1, text("List"), text("Called a tool.", synthetic=True)),
    message(
        "assistant",
        2,
        BEGIN,
        {"type": "reasoning", "text": "Hm."},
        text("I list."),
        tool("c1", "completed", output="A", metadata={"exit": 0}),
        tool("c2", "error", error="no"),
        tool("c3", "completed", output="bad", metadata={"exit": 1}),
        END,
        BEGIN,
        text("Done."),
        {"type": "step-finish", "reason": "stop", "tokens": TOKENS},
        modelID="m",
        tokens=TOKENS,
    ),
]


def export(*messages: dict[str, Any], **info: Any) -> dict[str, Any]:
    return {"info": {"id": "ses_1", **info}, "messages": list(messages)}


def prompts(heard: Heard) -> list[str | None]:
    return [event.prompt for event in heard.of(ev.RunStarted)]


def test_a_sub_agent_names_the_session_that_started_it() -> None:
    assert hear("opencode", export(*MESSAGES, parentID="ses_0")).session.parent == ParentCall(session_id="ses_0")
    assert hear("opencode", export(*MESSAGES)).session.parent is None


def test_each_step_of_a_message_is_a_response_with_its_results_and_tokens() -> None:
    data = export(*MESSAGES)
    heard = hear("opencode", data)
    assert detect_format(data) == "opencode"
    assert (heard.session.id, heard.session.model, prompts(heard)) == ("ses_1", "m", ["List"])
    first, last = heard.of(ev.ResponseFinished)
    assert first.message.reasoning == (Reasoning("Hm."),)
    assert first.message.calls[0] == called("c1", "bash", '{"at":"c1"}')
    assert first.usage == Usage(input_tokens=30, output_tokens=5, cached_tokens=20, reasoning_tokens=1, cost_usd=0.5)
    assert (first.finish, last.finish) == ("tool_calls", "stop")
    assert [(one.content, one.status) for one in heard.results] == [("A", "ok"), ("no", "error"), ("bad", "error")]
    assert [(one.text, one.origin) for one in heard.of(ev.MessageAdded)] == [("Called a tool.", "nudge")]
    assert heard.stops == ["text_final"]


def test_a_message_without_steps_has_the_tokens_of_the_whole() -> None:
    heard = hear(
        "opencode", export(message("user", 1, text("Go")), message("assistant", 2, text("Gone."), tokens=TOKENS))
    )
    assert heard.of(ev.ResponseFinished)[0].usage.input_tokens == 30


def test_aborted_is_cancelled_and_failed_is_a_failure() -> None:
    aborted = {"name": "MessageAbortedError", "data": {"message": "Aborted"}}
    failed = {"name": "APIError", "data": {"message": "slow down", "statusCode": 429}}
    heard = hear(
        "opencode",
        export(
            message("user", 1, text("Go")),
            message("assistant", 2, BEGIN, text("Well"), error=aborted),
            message("user", 3, text("On")),
            message("assistant", 4, {"type": "retry", "error": failed, "attempt": 1}, error=failed),
        ),
    )
    assert heard.stops == ["cancelled", "provider_error"]
    assert [one.status for one in heard.of(ev.AttemptFailed)] == [429, 429]


def test_what_the_user_took_back_and_what_is_not_read_is_counted() -> None:
    picture = {"type": "file", "mime": "image/png", "url": "data:image/png;base64,AAEC", "filename": "a.png"}
    first = message("user", 1, text("See"), picture, {"type": "agent", "name": "x"}, text("Off.", ignored=True))
    answer = message("assistant", 2, text("Seen."), {"type": "patch", "hash": "f00", "files": ["a"]})
    torn: dict[str, Any] = {"info": "torn", "parts": []}
    left = message("user", 9, text("Left"))
    heard = hear("opencode", export(first, answer, torn, left, title="T", revert={"messageID": "msg_9"}))
    assert heard.of(ev.RunStarted)[0].images == (Image(data=b"\0\1\2", media_type="image/png"),)
    losses = heard.session.losses
    assert losses["rewound"] == losses["no message"] == losses["field: title"] == losses["own words"] == 1
    assert losses["content part: agent"] == losses["content part: patch"] == losses["part field: hash"] == 1


def write(path: Path, data: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else msgspec.json.encode(data))


def test_a_folder_of_many_files_holds_sessions(tmp_path: Path) -> None:
    storage = tmp_path / "opencode" / "storage"
    write(storage / "session" / "project" / "ses_1.json", {"id": "ses_1", "title": "List"})
    for one in MESSAGES:
        write(storage / "message" / "ses_1" / f"{one['info']['id']}.json", one["info"])
        for part in one["parts"]:
            write(storage / "part" / one["info"]["id"] / f"{part['id']}.json", part)
    write(storage / "part" / "msg_2" / "prt_99.json", b"{torn")
    write(storage / "message" / "ses_2" / "msg_1.json", {"id": "msg_1", "role": "assistant"})
    found, skipped = find_sessions(tmp_path)
    assert isinstance(found, FoundSession)
    assert (found.format, found.id, found.place) == ("opencode", "ses_1", "session ses_1")
    assert found.session.losses["no part"] == found.session.losses["field: title"] == 1
    heard = hear("opencode", export(*MESSAGES))
    assert [one.message for one in found.session.messages] == [one.message for one in heard.session.messages]
    assert skipped.place == "session ses_2"


def make_database(path: Path) -> Path:
    columns = "id TEXT PRIMARY KEY, session_id TEXT, time_created INTEGER, data TEXT"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE session (id TEXT, parent_id TEXT)")
        connection.executemany("INSERT INTO session VALUES (?, ?)", [("ses_1", None), ("ses_2", "ses_1")])
        connection.execute(f"CREATE TABLE message ({columns})")
        connection.execute(f"CREATE TABLE part (message_id TEXT, {columns})")
        connection.execute(f"CREATE TABLE session_message (type TEXT, seq INTEGER, {columns})")
        for one in MESSAGES:
            info, parts = dict(one["info"]), one["parts"]
            created = info["time"]["created"]
            row = (info.pop("id"), "ses_1", created, msgspec.json.encode(info).decode())
            connection.execute("INSERT INTO message VALUES (?, ?, ?, ?)", row)
            for part in parts:
                own = {name: value for name, value in part.items() if name != "id"}
                values = (row[0], part["id"], "ses_1", created, msgspec.json.encode(own).decode())
                connection.execute("INSERT INTO part VALUES (?, ?, ?, ?, ?)", values)
        for number, (type, data) in enumerate(ROWS):
            values = (type, number, f"msg_{number}", "ses_2", 1_700_000_000_000 + number, msgspec.json.encode(data))
            connection.execute("INSERT INTO session_message VALUES (?, ?, ?, ?, ?, ?)", values)
        connection.commit()
    return path


DONE = {"status": "completed", "input": {"at": "c1"}, "content": [text("A")], "metadata": {"exit": 0}}
FAILED = {"status": "error", "input": {}, "error": {"message": "no"}}
ROWS: list[tuple[str, dict[str, Any]]] = [
    ("user", {"text": "List", "files": [{"uri": "a"}], "agents": []}),
    (
        "assistant",
        {
            "content": [
                {"type": "reasoning", "text": "Hm."},
                {"type": "tool", "id": "c1", "name": "shell", "state": DONE},
                {"type": "tool", "id": "c2", "name": "shell", "state": FAILED},
            ],
            "model": {"id": "m"},
            "finish": "tool-calls",
            "tokens": TOKENS,
        },
    ),
    ("shell", {"command": "ls", "output": {"output": "A"}}),
    ("synthetic", {"text": "The user ran ls."}),
    ("user", {"text": "On"}),
    ("assistant", {"content": [], "error": {"type": "provider.rate-limit", "message": "slow down", "status": 429}}),
    ("idle", {"outcome": "failed"}),
]


def test_databases_of_version_1_and_2_hold_sessions(tmp_path: Path) -> None:
    first, second = find_sessions(make_database(tmp_path / "opencode.db"))
    assert isinstance(first, FoundSession)
    assert isinstance(second, FoundSession)
    assert (first.format, first.id, second.id) == ("opencode", "ses_1", "ses_2")
    assert (first.session.parent, second.session.parent) == (None, ParentCall(session_id="ses_1"))
    heard = hear("opencode", export(*MESSAGES))
    assert [one.message for one in first.session.messages] == [one.message for one in heard.session.messages]
    losses = second.session.losses
    assert losses["message field: files"] == losses["line: shell"] == losses["line: idle"] == 1


def test_after_a_compaction_the_model_reads_its_summary() -> None:
    asked = message("user", 3, {"type": "compaction", "auto": True})
    summed_up = message("assistant", 4, BEGIN, text("It listed."), END, modelID="m", summary=True)
    on = [message("user", 5, text("On")), message("assistant", 6, BEGIN, text("Done."), END, modelID="m")]
    heard = hear("opencode", export(*MESSAGES, asked, summed_up, *on))
    (compacted,) = heard.of(ev.ContextCompacted)
    assert (compacted.strategy, compacted.put_first) == ("drop_oldest", ())
    assert [one.text for one in heard.said if not isinstance(one, ToolResult)] == ["It listed.", "On", "Done."]
    assert not heard.results
    rows: list[dict[str, Any]] = [
        {"type": "user", "data": {"text": "Go"}},
        {"type": "assistant", "data": {"content": [text("Gone.")]}},
        {"type": "compaction", "data": {"summary": "It went."}},
        {"type": "user", "data": {"text": "On"}},
        {"type": "assistant", "data": {"content": [text("Done.")]}},
    ]
    heard = hear("opencode", {"info": {"id": "ses_2"}, "rows": rows})
    assert [one.text for one in heard.said if not isinstance(one, ToolResult)] == ["It went.", "On", "Done."]


def test_rows_of_version_2_become_prompts_responses_and_results() -> None:
    rows = [{"type": type, "t": 1_700_000_000_000, "data": data} for type, data in ROWS]
    heard = hear("opencode", {"info": {"id": "ses_2"}, "rows": rows})
    assert prompts(heard) == ["List", "On"]
    assert heard.of(ev.ResponseFinished)[0].usage.output_tokens == 5
    assert [(one.content, one.status) for one in heard.results] == [("A", "ok"), ("no", "error")]
    assert [(one.text, one.origin) for one in heard.of(ev.MessageAdded)] == [("The user ran ls.", "nudge")]
    assert heard.stops == ["cancelled", "provider_error"]


def test_other_places_and_data_are_refused(tmp_path: Path) -> None:
    store = FORMATS["opencode"].store
    assert store is not None
    assert store(tmp_path) is None
    other = tmp_path / "other.db"
    with closing(sqlite3.connect(other)) as connection:
        connection.execute("CREATE TABLE message (id TEXT)")
        connection.commit()
    assert store(other) is None
    with pytest.raises(Unreadable, match="not an OpenCode session"):
        list(FORMATS["opencode"].sessions({"info": {}, "messages": [{"role": "user"}]}))
