"""Databases of the OpenAI Agents SDK, made by hand in its tables."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from endstop.formats import FORMATS, FoundSession, Unreadable, find_sessions

TABLES = """
CREATE TABLE agent_sessions (session_id TEXT PRIMARY KEY, created_at TIMESTAMP, updated_at TIMESTAMP);
CREATE TABLE agent_messages (id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT, message_data TEXT,
    created_at TIMESTAMP);
"""
ITEMS: list[Any] = [
    {"role": "user", "content": "Weather?"},
    {"type": "reasoning", "id": "r1", "summary": []},
    {"type": "function_call", "id": "f1", "call_id": "c1", "name": "weather", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c1", "output": "sunny"},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Sunny."}]},
]


def make_database(path: Path, sessions: dict[str, list[Any]]) -> Path:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(TABLES)
        for id, items in sessions.items():
            connection.execute("INSERT INTO agent_sessions VALUES (?, 1, 1)", (id,))
            rows = [(id, item if isinstance(item, str) else msgspec.json.encode(item).decode()) for item in items]
            connection.executemany("INSERT INTO agent_messages (session_id, message_data) VALUES (?, ?)", rows)
        connection.commit()
    return path


def test_each_session_of_a_database_is_one(tmp_path: Path) -> None:
    made = {"alice": ITEMS, "bob": ["{torn", *ITEMS], "nobody": []}
    found = list(find_sessions(make_database(tmp_path / "chats.db", made)))
    assert all(isinstance(one, FoundSession) for one in found)
    alice, bob = (one for one in found if isinstance(one, FoundSession))
    assert (alice.format, alice.id, alice.place) == ("openai-agents", "alice", "session alice")
    assert len(alice.session.messages) == len(bob.session.messages) == 4
    assert bob.session.losses["role: undecoded"] == 1


def test_other_data_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    with closing(sqlite3.connect(other)) as connection:
        connection.execute("CREATE TABLE agent_sessions (session_id TEXT)")
        connection.commit()
    store = FORMATS["openai-agents"].store
    assert store is not None
    assert store(other) is None
    assert store(tmp_path) is None
    with pytest.raises(Unreadable, match="not a session of the OpenAI Agents SDK"):
        list(FORMATS["openai-agents"].sessions(ITEMS))
