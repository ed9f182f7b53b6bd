"""The newest session of those that agents have left on a disk."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

from endstop.formats.known_places import NOT_LEFT, Place, describe_not_left, known_places, newest_session

from .heard import says, user


def write(path: Path, at: float, *ids: str, t: float | None = None) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    answer = says("done") if t is None else says("done", timestamp=t)
    path.write_text("\n".join(json.dumps({"id": id, "messages": [user("go"), answer]}) for id in ids))
    os.utime(path, (at, at))
    return path


def test_the_session_of_the_file_that_was_written_last_is_the_newest(tmp_path: Path) -> None:
    write(tmp_path / "a" / "old.json", 1000, "old")
    write(tmp_path / "b" / "deep" / "new.json", 3000, "new")
    (tmp_path / "b" / "settings.json").write_text('{"theme": "dark"}')
    os.utime(tmp_path / "b" / "settings.json", (9000, 9000))
    newest = newest_session([Place(tmp_path / "a"), Place(tmp_path / "b"), Place(tmp_path / "absent")])
    assert newest.found is not None
    assert newest.found.id == "new"
    assert [files for _, files in newest.searched] == [1, 2, 0]


def test_of_the_sessions_of_one_file_it_is_the_latest_by_its_messages_or_else_the_last(tmp_path: Path) -> None:
    path = write(tmp_path / "log.jsonl", 1000, "one", "two")
    newest = newest_session([Place(path)])
    assert newest.found is not None
    assert newest.found.id == "two"
    timed = [{"id": id, "messages": [user("go"), says("x", timestamp=t)]} for id, t in (("late", 2e9), ("early", 1e9))]
    (tmp_path / "timed.jsonl.gz").write_bytes(gzip.compress("\n".join(map(json.dumps, timed)).encode()))
    newest = newest_session([Place(tmp_path)])
    assert newest.found is not None
    assert newest.found.id == "late"


def test_nothing_is_found_where_nothing_is(tmp_path: Path) -> None:
    newest = newest_session(known_places(tmp_path, {}))
    assert newest.found is None
    assert {files for _, files in newest.searched} == {0}


def test_a_program_keeps_its_sessions_where_its_variable_says(tmp_path: Path) -> None:
    places = {place.program: place.path for place in known_places(tmp_path, {"CODEX_HOME": "/elsewhere"})}
    assert places["Codex"] == Path("/elsewhere/sessions")
    assert places["Claude Code"] == tmp_path / ".claude" / "projects"
    assert places["OpenCode"] == tmp_path / ".local" / "share" / "opencode"
    assert places["cline"] == tmp_path / ".cline" / "data" / "sessions"
    assert places["mini-SWE-agent"] == tmp_path / ".config" / "mini-swe-agent" / "last_mini_run.traj.json"


def test_it_is_said_of_what_programs_leave_no_session(tmp_path: Path) -> None:
    assert "smolagents" in describe_not_left()
    assert not describe_not_left({"Codex"})
    programs = {place.program for place in known_places(tmp_path, {})}
    assert set(NOT_LEFT) - programs == {"grok-cli", "smolagents"}
