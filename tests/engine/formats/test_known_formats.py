"""What is known and not read is named, once a file; formats may bring parts of sessions, and stores of their own."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from endstop.formats import FORMATS, Format, FoundSession, SkippedSession, find_sessions, openai
from endstop.formats.file_values import FileValue
from endstop.formats.known_formats import KNOWN, find_known
from endstop.formats.sqlite_files import open_database

from .heard import says, user

HAR = {"log": {"version": "1.2", "creator": {"name": "x"}, "entries": []}}
SMITH = {"run_type": "llm", "inputs": {}, "trace_id": "1", "outputs": {"messages": []}}
DROID = {"type": "session_start", "id": "1", "title": "go", "sessionTitle": "New Session", "version": 2, "cwd": "/x"}
PROMPT = {"session_id": "1", "ts": 1, "text": "go"}


def write(path: Path, *lines: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(json.dumps(line) for line in lines))
    return path


def test_a_format_that_is_known_and_not_read_is_named_with_its_version(tmp_path: Path) -> None:
    (skipped,) = find_sessions(write(tmp_path / "a.har", HAR))
    assert isinstance(skipped, SkippedSession)
    assert skipped.why == "this is an HTTP archive (HAR) of version 1.2, which endstop does not read yet"
    assert not skipped.aside


@pytest.mark.parametrize(
    ("lines", "named"),
    [
        (
            [DROID, {"type": "message", "id": "1", "timestamp": "t", "message": user("go")}],
            "a Factory Droid session of version 2",
        ),
        ([{"conversation_id": "", "history": [{"user": {}, "assistant": {}}]}], "a Kiro conversation"),
    ],
)
def test_sessions_of_agents_that_are_not_read_yet_are_named(tmp_path: Path, lines: list[Any], named: str) -> None:
    (skipped,) = find_sessions(write(tmp_path / "full.jsonl", *lines))
    assert isinstance(skipped, SkippedSession)
    assert skipped.why == f"this is {named}, which endstop does not read yet"


def test_it_is_named_once_a_file_and_what_nobody_knows_in_it_is_not(tmp_path: Path) -> None:
    (skipped,) = find_sessions(write(tmp_path / "a.jsonl", SMITH, {"x": 1}, SMITH, {"y": 2}, SMITH))
    assert isinstance(skipped, SkippedSession)
    assert (skipped.place, skipped.why) == ("line 1", "this is a run of LangSmith, which endstop does not read yet")


def test_it_is_not_taken_for_messages_of_nobody(tmp_path: Path) -> None:
    data = {**HAR, "messages": [user("go"), says("done")]}
    (skipped,) = find_sessions(write(tmp_path / "a.json", data))
    assert isinstance(skipped, SkippedSession)
    assert "HTTP archive" in skipped.why
    (found,) = find_sessions(tmp_path / "a.json", "openai")
    assert isinstance(found, FoundSession), "unless the user says so"


def test_in_a_folder_what_holds_no_sessions_is_no_error_and_what_is_not_read_is(tmp_path: Path) -> None:
    write(tmp_path / "history.jsonl", PROMPT, PROMPT)
    write(tmp_path / "settings.json", {"theme": "dark"})
    write(tmp_path / "a.har", HAR)
    results = {Path(one.source).name: one for one in find_sessions(tmp_path) if isinstance(one, SkippedSession)}
    assert {name: one.aside for name, one in results.items()} == {
        "history.jsonl": True, "settings.json": True, "a.har": False,
    }  # fmt: skip
    assert results["history.jsonl"].why == "this is a list of Codex prompts, which holds no session"


@pytest.mark.parametrize("data", [{}, [], [[]], [1], "x", None, 7, {"messages": 1}, {"info": {}, "messages": [1]}])
def test_nothing_is_recognised_in_what_is_nothing(data: Any) -> None:
    assert find_known(data) is None


def test_every_version_is_read_from_anything() -> None:
    for known in KNOWN:
        assert known.describe({}).startswith(f"this is {known.name}, which ")
        assert known.describe([{"version": ["x"], "payload": 1, "data": None, "log": []}])


# ---- databases


def test_a_database_is_named_by_its_tables(tmp_path: Path) -> None:
    for name, tables in (("state.vscdb", ("ItemTable",)), ("other.db", ("b", "a"))):
        with closing(sqlite3.connect(tmp_path / name, isolation_level=None)) as connection:
            for table in tables:
                connection.execute(f"CREATE TABLE {table} (key TEXT, value BLOB)")
        connection.close()
    other, state = find_sessions(tmp_path)
    assert isinstance(state, SkippedSession)
    assert isinstance(other, SkippedSession)
    assert state.why == "this is a database of VS Code or Cursor, which endstop does not read yet"
    assert other.why == "an SQLite database that no format reads (tables: a, b)"
    (tmp_path / "torn.db").write_bytes((tmp_path / "other.db").read_bytes()[:3000])
    (torn,) = find_sessions(tmp_path / "torn.db")
    assert isinstance(torn, SkippedSession)
    assert torn.why.startswith("an SQLite database that cannot be read: ")


def test_a_database_is_read_without_leaving_anything_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "odd name?#%.db"
    writer = sqlite3.connect(path)
    writer.execute("PRAGMA journal_mode = WAL")
    writer.execute("CREATE TABLE t (x)")
    writer.execute("INSERT INTO t VALUES (7)")
    writer.commit()
    with open_database(path) as running:
        assert running.execute("SELECT x FROM t").fetchall() == [(7,)], "what is only in the log is read, too"
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            running.execute("DELETE FROM t")
    writer.close()
    before = sorted(tmp_path.iterdir())
    with open_database(path) as closed:
        assert closed.execute("SELECT x FROM t").fetchall() == [(7,)]
    assert sorted(tmp_path.iterdir()) == before


# ---- what a format may bring


def is_entry(data: Any) -> bool:
    return isinstance(data, dict) and "entry" in data


def read_store(path: Path) -> Iterator[FileValue] | None:
    if path.name == "aside":
        return iter(())
    return _messages(path) if path.name.endswith(".store") else None


def _messages(path: Path) -> Iterator[FileValue]:
    parts = sorted(path.iterdir()) if path.is_dir() else [path]
    yield FileValue(place="chat 1", number=1, data=[json.loads(part.read_text()) for part in parts])
    yield FileValue(place="chat 2", number=2, error="it is torn")


@pytest.fixture
def formats(monkeypatch: pytest.MonkeyPatch) -> None:
    def sessions(data: Any) -> Any:
        return openai.sessions([line["entry"] for line in data if is_entry(line) and line["entry"]])

    def matches(data: Any) -> bool:
        return isinstance(data, list) and any(map(is_entry, data))

    before = dict(FORMATS)
    FORMATS.clear()
    FORMATS["entries"] = Format("entries", sessions, matches, "for tests", is_part=is_entry, store=read_store)
    FORMATS.update(before)
    monkeypatch.setattr("endstop.formats.session_files.GENERIC", frozenset({"anthropic", "openai"}))


@pytest.fixture(autouse=True)
def only_the_real_ones() -> Iterator[None]:
    yield
    FORMATS.pop("entries", None)


@pytest.mark.usefixtures("formats")
def test_lines_of_a_format_are_one_session_with_the_lines_that_nobody_knows(tmp_path: Path) -> None:
    transcript = [{"entry": user("go")}, {"odd": 1}, {"entry": says("done")}, {"entry": None}]
    (found,) = find_sessions(write(tmp_path / "a.jsonl", *transcript))
    assert isinstance(found, FoundSession)
    assert (found.format, found.place, len(found.session.messages)) == ("entries", "", 2)
    mixed = list(find_sessions(write(tmp_path / "b.jsonl", *transcript, user("go"), says("a"), *transcript)))
    assert [(one.format, one.place) for one in mixed if isinstance(one, FoundSession)] == [
        ("entries", "lines 1 to 4"), ("openai", "lines 5 to 6"), ("entries", "lines 7 to 10"),
    ]  # fmt: skip
    assert len(mixed) == 3
    (tmp_path / "c.json").write_text(json.dumps(transcript))
    (found,) = find_sessions(tmp_path / "c.json")
    assert isinstance(found, FoundSession), "the elements of an array, too"


@pytest.mark.usefixtures("formats")
def test_a_format_reads_files_and_folders_by_itself(tmp_path: Path) -> None:
    write(tmp_path / "x.store" / "1", {"entry": user("go")})
    write(tmp_path / "x.store" / "2", {"entry": says("done")})
    write(tmp_path / "deep" / "one.store", {"entry": says("hi")})
    write(tmp_path / "deep" / "aside" / "session.json", {"messages": [user("go"), says("done")]})
    for path in (tmp_path, tmp_path / "x.store"):
        results = [one for one in find_sessions(path) if "x.store" in one.source]
        found, skipped = results
        assert isinstance(found, FoundSession)
        assert isinstance(skipped, SkippedSession)
        assert (found.id, found.place, len(found.session.messages)) == ("x.1", "chat 1", 2)
        assert (skipped.place, skipped.why, skipped.aside) == ("chat 2", "it is torn", False)
    assert [Path(one.source).name for one in find_sessions(tmp_path)] == ["one.store"] * 2 + ["x.store"] * 2
    with closing(sqlite3.connect(tmp_path / "data.store", isolation_level=None)) as connection:
        connection.execute("CREATE TABLE t (x)")
    connection.close()
    (other,) = find_sessions(tmp_path / "data.store", "openai")
    assert isinstance(other, SkippedSession)
    assert other.why == "an SQLite database that openai does not read (it looks like entries)"
    (tmp_path / "data.store").unlink()
    assert not [one for one in find_sessions(tmp_path, "openai") if isinstance(one, FoundSession) and one.place], (
        "a store of another format is none"
    )


@pytest.mark.parametrize(
    ("lines", "named"),
    [
        ([{"type": "step_start", "sessionID": "s", "stepNumber": 1, "timestamp": 1}], "the JSON output of Grok CLI"),
        ([{"type": "text", "stepNumber": 1, "text": "Hi", "timestamp": 1}], "the JSON output of Grok CLI"),
        (
            [
                {"type": "user", "content": "Mend it.", "timestamp": "2026-01-01T10:00:00Z"},
                {"type": "assistant", "content": "Done.", "timestamp": "2026-01-01T10:00:01Z"},
            ],
            "a chat history of Grok CLI",
        ),
    ],
)
def test_files_of_grok_cli_are_named_and_never_sessions(tmp_path: Path, lines: list[Any], named: str) -> None:
    for name, path in (("l", write(tmp_path / "l.jsonl", *lines)), ("a", write(tmp_path / "a.json", lines))):
        (skipped,) = find_sessions(path)
        assert isinstance(skipped, SkippedSession), name
        assert skipped.why == f"this is {named}, which endstop does not read yet"


def test_a_database_of_grok_cli_is_named(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "grok.db", isolation_level=None)) as database:
        for table in ("workspaces", "sessions", "messages", "tool_calls", "tool_results", "usage_events"):
            database.execute(f"CREATE TABLE {table} (id TEXT)")
    database.close()
    (skipped,) = find_sessions(tmp_path / "grok.db")
    assert isinstance(skipped, SkippedSession)
    assert skipped.why == "this is a database of Grok CLI, which endstop does not read yet"
