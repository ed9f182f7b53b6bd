"""Reader of OpenCode's session store: a folder of JSON files or a SQLite database, each session as one value.

The folder is `~/.local/share/opencode/storage` (`session/<project>/<id>.json`, `message/<session>/<id>.json`,
`part/<message>/<id>.json`), the database `opencode.db` next to it: version 1 has the tables `session`, `message` and
`part`, version 2 has `session_message`. A session is returned in the form of `opencode export`: `info`, and `messages`
with an `info` and `parts` each; one of version 2 has `info` and `rows`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from .file_values import FileValue, decode_json
from .imported_session import Unreadable
from .parsing import as_dict, as_text
from .sqlite_files import is_database, open_database, table_names

_TABLES_1 = frozenset({"session", "message", "part"})
_TABLE_2 = "session_message"
_COLUMNS_2 = frozenset({"id", "session_id", "type", "data", "time_created"})


def read_store(path: Path) -> Iterator[FileValue] | None:
    """Return the sessions of an OpenCode folder or database; None for any other path."""
    if path.is_dir():
        return _read_folder(path) if (path / "message").is_dir() and (path / "session").is_dir() else None
    if not is_database(path):
        return None
    tables = table_names(path)
    if _TABLE_2 not in tables and not tables >= _TABLES_1:
        return None
    return _read_database(path, tables)


# ---- the folder


def _read_folder(folder: Path) -> Iterator[FileValue]:
    infos = {file.stem: file for file in sorted((folder / "session").rglob("*.json"))}
    for number, messages in enumerate(_sorted_folders(folder / "message"), 1):
        value = FileValue(place=f"session {messages.name}", number=number)
        info = _read_file(infos[messages.name]) if messages.name in infos else {"id": messages.name}
        read = [_read_message(folder, file) for file in sorted(messages.glob("*.json"))]
        value.data = {"info": info, "messages": _in_order(read)}
        yield value


def _sorted_folders(folder: Path) -> list[Path]:
    return sorted(one for one in folder.iterdir() if one.is_dir())


def _read_message(folder: Path, file: Path) -> dict[str, Any]:
    info = _read_file(file)
    parts = folder / "part" / (as_text(as_dict(info).get("id")) or file.stem)
    return {"info": info, "parts": [_read_file(one) for one in sorted(parts.glob("*.json"))]}


def _read_file(file: Path) -> Any:
    """Return the content of a file, or a text with the reason why it cannot be read: neither a message nor a part."""
    try:
        return decode_json(file.read_bytes())
    except (OSError, Unreadable) as error:
        return f"{file.name}: {error}"


def _in_order(messages: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    def key(message: dict[str, Any]) -> tuple[float, str]:
        info = as_dict(message["info"])
        created = as_dict(info.get("time")).get("created")
        return (created if isinstance(created, int | float) else 0.0, as_text(info.get("id")))

    return sorted(messages, key=key)


# ---- the database


def _read_database(path: Path, tables: frozenset[str]) -> Iterator[FileValue]:
    with open_database(path) as connection:
        newer = _ids(connection, _TABLE_2) if _TABLE_2 in tables and _has_columns(connection) else []
        older = [id for id in _ids(connection, "message") if id not in set(newer)] if tables >= _TABLES_1 else []
        parents = _parents(connection)
        for number, id in enumerate([*older, *newer], 1):
            value = FileValue(place=f"session {id}", number=number)
            value.data = _session_2(connection, id) if number > len(older) else _session_1(connection, id)
            value.data["info"]["parentID"] = parents.get(id)
            yield value


def _has_columns(connection: sqlite3.Connection) -> bool:
    return {row[1] for row in connection.execute(f"PRAGMA table_info({_TABLE_2})")} >= _COLUMNS_2


def _parents(connection: sqlite3.Connection) -> dict[str, Any]:
    """Return the id of the session that started each sub-agent's session, by the latter's id."""
    if "parent_id" not in {row[1] for row in connection.execute("PRAGMA table_info(session)")}:
        return {}
    return dict(connection.execute("SELECT id, parent_id FROM session").fetchall())


def _ids(connection: sqlite3.Connection, table: str) -> list[str]:
    rows = connection.execute(f"SELECT session_id FROM {table} GROUP BY session_id ORDER BY min(time_created)")
    return [str(id) for (id,) in rows]


def _session_1(connection: sqlite3.Connection, id: str) -> dict[str, Any]:
    parts: dict[str, list[Any]] = {}
    query = "SELECT message_id, id, data FROM part WHERE session_id = ? ORDER BY id"
    for message, part, data in connection.execute(query, (id,)):
        parts.setdefault(message, []).append(_decode(data, part))
    query = "SELECT id, data FROM message WHERE session_id = ? ORDER BY time_created, id"
    rows = connection.execute(query, (id,)).fetchall()
    return {"info": {"id": id}, "messages": [{"info": _decode(data, own), "parts": parts.get(own, [])}
                                             for own, data in rows]}  # fmt: skip


def _session_2(connection: sqlite3.Connection, id: str) -> dict[str, Any]:
    query = f"SELECT id, type, time_created, data FROM {_TABLE_2} WHERE session_id = ? ORDER BY time_created, id"
    rows = [
        {"type": type, "t": created, "data": _decode(data, own)}
        for own, type, created, data in connection.execute(query, (id,))
    ]
    return {"info": {"id": id}, "rows": rows}


def _decode(data: Any, id: str) -> Any:
    try:
        decoded = decode_json(data.encode("utf-8", "replace") if isinstance(data, str) else bytes(data))
    except (Unreadable, TypeError) as error:
        return f"{id}: {error}"
    return {"id": id, **decoded} if isinstance(decoded, dict) else decoded
