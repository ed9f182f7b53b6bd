"""Import of OpenCode sessions: as written by `opencode export`, or from OpenCode's own store.

The store is the folder `~/.local/share/opencode/storage` (`session/<project>/<id>.json`, `message/<session>/<id>.json`,
`part/<message>/<id>.json`), or the database `opencode.db` next to it: version 1 has the tables `session`, `message` and
`part`, version 2 has `session_message`. `read_store` returns a session of it in the form of `opencode export`: `info`,
and `messages` with an `info` and `parts` each; one of version 2 has `info` and `rows`.

A message of the model has parts. Those from each `step-start` to its `step-finish` are one response, with the results
of its calls. Version 2 keeps a message as one row, whose content has the same data in another form.
Source: opencode, `packages/opencode/src/session/message-v2.ts`; for version 2, published files.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ..decision import Image, Reasoning, Usage, UserMessage
from ..decision.events import ParentCall
from ..decision.messages import ResultStatus
from ..decision.reported_usage import sum_of_counts
from .content_blocks import parse_content
from .file_values import FileValue, decode_json
from .imported_session import ImportedSession, Unreadable
from .parsing import as_dict, as_json, as_list, as_text, first_text, parse_time, usage_from_counts
from .session_builder import ResponseParts, SessionBuilder
from .sqlite_files import is_database, open_database, table_names

_INFO_FIELDS = frozenset(
    {"id", "sessionID", "role", "time", "modelID", "providerID", "model", "mode", "agent", "parentID", "path", "cost",
     "tokens", "error", "finish", "variant", "summary", "system"}
)  # fmt: skip
_PART_FIELDS = frozenset(
    {"id", "sessionID", "messageID", "type", "text", "time", "synthetic", "ignored", "callID", "tool", "state",
     "metadata", "tokens", "cost", "reason", "snapshot", "mime", "url", "filename", "source", "error", "attempt"}
)  # fmt: skip
_SESSION_FIELDS = frozenset({"id", "version", "projectID", "directory", "parentID", "slug", "time"})
_ABORTED = ("MessageAbortedError", "AbortedError", "aborted")
_FINISH_WORDS = {"tool-calls": "tool_calls", "content-filter": "content_filter"}
_TABLES_1 = frozenset({"session", "message", "part"})
_TABLE_2 = "session_message"
_COLUMNS_2 = frozenset({"id", "session_id", "type", "data", "time_created"})


def matches(data: Any) -> bool:
    """Return whether this is a session."""
    whole = as_dict(data)
    if "info" not in whole:
        return False
    messages = as_list(whole.get("messages"))
    return "rows" in whole or any({"info", "parts"} <= as_dict(one).keys() for one in messages)


def sessions(data: Any) -> Iterator[ImportedSession]:
    """Yield the only session, in the form of `opencode export` or of `read_store`."""
    if not matches(data):
        raise Unreadable("it is not an OpenCode session")
    info = as_dict(data.get("info"))
    reader = _SessionReader()
    reader.session.id = as_text(info.get("id"))
    parent = as_text(info.get("parentID"))
    reader.session.parent = ParentCall(session_id=parent) if parent else None
    reader.session.count_unread_fields("field", info, _SESSION_FIELDS)
    for row in as_list(data.get("rows")):
        reader.add_row(as_dict(row))
    reverted = as_text(as_dict(info.get("revert")).get("messageID"))
    for message in as_list(data.get("messages")):
        reader.add_message(as_dict(message), reverted)
    yield reader.session


class _SessionReader:
    """Reader that adds messages to a session."""

    def __init__(self) -> None:
        self.session = ImportedSession()
        self._builder = SessionBuilder(self.session)

    # ---- version 1

    def add_message(self, message: dict[str, Any], reverted: str) -> None:
        """Add a message with its parts. `reverted`: id of the first message that the user reverted."""
        session, info, parts = self.session, as_dict(message.get("info")), as_list(message.get("parts"))
        if not info:
            session.count_loss("no message")
            return
        if reverted and as_text(info.get("id")) >= reverted:
            session.count_dropped("rewound", parts)
            return
        session.count_unread_fields("message field", info, _INFO_FIELDS)
        t = parse_time(as_dict(info.get("time")).get("created"))
        known = [part for part in map(as_dict, parts) if part]
        session.count_loss("no part", len(parts) - len(known))
        for part in known:
            session.count_unread_fields("part field", part, _PART_FIELDS)
        match info.get("role"):
            case "user":
                self._add_prompt(known, t)
            case "assistant":
                self._add_answer(info, known, t)
            case role:
                session.count_unknown("role", role, parts)

    def _add_prompt(self, parts: list[dict[str, Any]], t: float | None) -> None:
        words: list[str | Image] = []
        for part in parts:
            kind = as_text(part.get("type"))
            if kind == "text" and (part.get("synthetic") or part.get("ignored")):
                self._add_own(part, t)
            elif kind == "text":
                words.append(as_text(part.get("text")))
            elif kind == "file" and as_text(part.get("mime")).startswith("image/"):
                block = {"type": "image_url", "image_url": {"url": part.get("url")}}
                words += parse_content([block], self.session, pictures=True).parts
            else:
                self.session.count_unknown("content part", kind, part)
        if any(words):
            self._builder.add_user([word for word in words if word], "user", t)

    def _add_own(self, part: dict[str, Any], t: float | None) -> None:
        """Add a text that OpenCode wrote in the user's role. If it is `ignored`, the model did not read it."""
        text = as_text(part.get("text"))
        if not part.get("ignored"):
            self._builder.hold(UserMessage(text), t)
        elif text:
            self.session.count_dropped("own words", text)

    def _add_answer(self, info: dict[str, Any], parts: list[dict[str, Any]], t: float | None) -> None:
        model = as_text(info.get("modelID"))
        steps = [ResponseParts(t, model)]
        for part in parts:
            if part.get("type") == "step-start":
                steps.append(ResponseParts(t, model))
            elif part.get("type") == "retry":
                self._builder.add_failure(_describe_error(as_dict(part.get("error"))), model=model, t=t)
            else:
                self._add_part(steps[-1], part)
        made = [step for step in steps if not step.is_empty]
        begin = len(self.session.messages)
        if made and all(step.usage is None for step in made):
            made[-1].usage = _parse_tokens(info)
        for step in made:
            step.finish = step.finish or (as_text(info.get("finish")) if step is made[-1] else "")
            self._add_step(step)
        if info.get("summary") is True:  # from here on, the model reads this response and nothing before it
            self._builder.add_compaction((), kept_from=begin, t=t)
        error = as_dict(info.get("error"))
        if error:
            self._add_error(error, first_text(error, "name", "type"), model, t)

    def _add_part(self, step: ResponseParts, part: dict[str, Any]) -> None:
        match part.get("type"):
            case "text":
                step.texts.append(as_text(part.get("text")))
            case "reasoning":
                step.reasoning.append(Reasoning(as_text(part.get("text"))))
            case "tool":
                state, id = as_dict(part.get("state")), as_text(part.get("callID"))
                step.calls.append((id, as_text(part.get("tool")), as_json(state.get("input") or {})))
                step.results.append((part, step.t))
            case "step-finish":
                step.usage, step.finish = _parse_tokens(part), as_text(part.get("reason"))
            case kind:
                self.session.count_unknown("content part", kind, part)

    # ---- version 2

    def add_row(self, row: dict[str, Any]) -> None:
        """Add a row of `session_message`."""
        kind, data, t = as_text(row.get("type")), as_dict(row.get("data")), parse_time(row.get("t"))
        match kind:
            case "user":
                for name in ("files", "agents"):
                    self.session.count_loss(f"message field: {name}", len(as_list(data.get(name))))
                self._builder.add_user([as_text(data.get("text"))], "user", t)
            case "compaction":
                summary = first_text(data, "text", "summary")
                if not self._builder.add_compaction((UserMessage(summary),), t=t):
                    self._builder.hold(UserMessage(summary), t)
            case "synthetic":
                self._builder.hold(UserMessage(first_text(data, "text", "summary")), t)
            case "assistant":
                self._add_row_of_model(data, t)
            case _:
                self.session.count_unknown("line", kind, data)

    def _add_row_of_model(self, data: dict[str, Any], t: float | None) -> None:
        model, error = as_text(as_dict(data.get("model")).get("id")), as_dict(data.get("error"))
        step = ResponseParts(t, model)
        for part in map(as_dict, as_list(data.get("content"))):
            if part.get("type") == "tool":
                state, id = as_dict(part.get("state")), as_text(part.get("id"))
                step.calls.append((id, as_text(part.get("name")), as_json(state.get("input") or {})))
                step.results.append((part, step.t))
            else:
                self._add_part(step, part)
        if not step.is_empty:
            step.usage = _parse_tokens(data)
            step.finish = "" if error else as_text(data.get("finish"))
            self._add_step(step)
        if error:
            self._add_error(error, as_text(error.get("type")), model, t)

    # ---- both

    def _add_step(self, step: ResponseParts) -> None:
        step.finish = _FINISH_WORDS.get(step.finish, step.finish)
        self._builder.add_parts(step)
        for part, t in step.results:
            self._add_result(first_text(part, "callID", "id"), as_dict(part.get("state")), t)

    def _add_result(self, id: str, state: dict[str, Any], t: float | None) -> None:
        outcome = as_text(state.get("status"))
        if outcome not in ("completed", "success", "error"):
            return
        failed = outcome == "error"
        output = state.get("error") if failed else state.get("output", state.get("content"))
        if isinstance(output, dict):
            output = as_text(output.get("message")) or as_json(output)
        content = parse_content(output, self.session, pictures=True)
        exit_code = as_dict(state.get("metadata")).get("exit")
        status: ResultStatus = "error" if failed or (isinstance(exit_code, int) and exit_code) else "ok"
        ended = parse_time(as_dict(state.get("time")).get("end")) or t
        self.session.count_loss("image", len(as_list(state.get("attachments"))))
        self._builder.add_result_content(id, "", content, status, ended)

    def _add_error(self, error: dict[str, Any], name: str, model: str, t: float | None) -> None:
        """Add how a message ended. What came before stays a response; a call without a result was cut off."""
        if name in _ABORTED:
            self._builder.add_user((), "interrupt", t)
        else:
            self._builder.add_failure(_describe_error(error), model=model, t=t)


def _describe_error(error: dict[str, Any]) -> str:
    inside = as_dict(error.get("data")) or error
    status = first_text(inside, "statusCode", "status")
    message = first_text(inside, "message") or first_text(error, "name", "type")
    return f"status {status}: {message}" if status else message


def _parse_tokens(part: dict[str, Any]) -> Usage | None:
    """Return the token counts. Neither cached tokens nor reasoning are part of the input and output."""
    tokens = as_dict(part.get("tokens"))
    cache = as_dict(tokens.get("cache"))
    return usage_from_counts(
        sum_of_counts(tokens.get("input"), cache.get("read"), cache.get("write")),
        sum_of_counts(tokens.get("output"), tokens.get("reasoning")),
        cached=cache.get("read"),
        reasoning=tokens.get("reasoning"),
        cost=part.get("cost"),
    )


# ---- the store


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
