"""Import of OpenAI Agents SDK sessions in SQLite: `SQLiteSession`, with one Responses API item per row.

Lists of such items in JSON are read by `openai.py`. Source: openai-agents, `agents/memory/sqlite_session.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from . import openai
from .file_values import FileValue, decode_json
from .imported_session import ImportedSession, Unreadable
from .parsing import as_dict
from .sqlite_files import is_database, open_database, table_names

_TABLES = frozenset({"agent_sessions", "agent_messages"})
_MARK = "agent_messages"
"""Field under which `read_store` puts the items of a session."""


def matches(data: Any) -> bool:
    """Return whether this is a session in the form of `read_store`."""
    return _MARK in as_dict(data)


def sessions(data: Any) -> Iterator[ImportedSession]:
    """Yield the session of one row of `agent_sessions` with its items, in the form of `read_store`."""
    if not matches(data):
        raise Unreadable(
            "it is not a session of the OpenAI Agents SDK: import its database, or lists of items as `openai`"
        )
    yield from openai.sessions({"session_id": data["session_id"], "messages": data[_MARK]})


def read_store(path: Path) -> Iterator[FileValue] | None:
    """Return the sessions of a database; None if it is not one of the SDK."""
    if not path.is_file() or not is_database(path) or not table_names(path) >= _TABLES:
        return None
    return _read_sessions(path)


def _read_sessions(path: Path) -> Iterator[FileValue]:
    with open_database(path) as connection:
        ids = [id for (id,) in connection.execute("SELECT session_id FROM agent_sessions ORDER BY created_at, rowid")]
        for number, id in enumerate(ids, 1):
            rows = connection.execute("SELECT message_data FROM agent_messages WHERE session_id = ? ORDER BY id", (id,))
            items = [_decode(text) for (text,) in rows]
            if items:
                data = {"session_id": str(id), _MARK: items}
                yield FileValue(place=f"session {id}", number=number, data=data)


def _decode(text: Any) -> Any:
    """Return an item. One that cannot be decoded becomes a message in a role that is counted as unknown."""
    try:
        return decode_json(text.encode("utf-8", "replace") if isinstance(text, str) else bytes(text))
    except (Unreadable, TypeError):
        return {"role": "undecoded", "content": text}
