"""Import of Continue's sessions: `~/.continue/sessions/<id>.json`, as `cn` and the editors' extensions write them.

An entry of the history has a message in OpenAI's form; that of the model has the results of its calls beside it
(`toolCallStates`). Times are not recorded. `cn` writes the file as it ends: a run that fails or is killed leaves none.
Source: continue, `core/index.d.ts` (`Session`, `ChatHistoryItem`, `ToolCallState`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..decision.messages import ResultStatus
from .content_blocks import MessageContent, parse_content
from .imported_session import ImportedSession, Unreadable
from .openai import add_message
from .parsing import as_dict, as_list, as_text
from .session_builder import SessionBuilder

_SESSION_FIELDS = frozenset({"sessionId", "title", "workspaceDirectory", "history", "usage", "mode", "chatModelTitle"})
_ENTRY_FIELDS = frozenset({"message", "contextItems", "editorState", "toolCallStates", "promptLogs"})
_STATUSES: dict[str, ResultStatus] = {"done": "ok", "errored": "error", "canceled": "cancelled"}


def matches(data: Any) -> bool:
    """Return whether this is a session."""
    whole = as_dict(data)
    entries = as_list(whole.get("history"))
    return "sessionId" in whole and any({"message", "contextItems"} <= as_dict(entry).keys() for entry in entries[:1])


def sessions(data: Any) -> Iterator[ImportedSession]:
    """Yield the only session of a file."""
    if not matches(data):
        raise Unreadable("it is not a session of Continue")
    session = ImportedSession(id=as_text(data["sessionId"]))
    session.count_unread_fields("field", data, _SESSION_FIELDS)
    builder = SessionBuilder(session)
    for entry in map(as_dict, data["history"]):
        session.count_unread_fields("line field", entry, _ENTRY_FIELDS)
        _add_entry(builder, entry)
    yield session


def _add_entry(builder: SessionBuilder, entry: dict[str, Any]) -> None:
    message = as_dict(entry.get("message"))
    usage = as_dict(message.get("usage"))
    builder.session.model = builder.session.model or as_text(usage.get("model"))
    calls = {"tool_calls": message["toolCalls"]} if "toolCalls" in message else {}
    kept = {name: value for name, value in message.items() if name not in ("toolCalls", "id")}
    add_message(builder, {**kept, **calls, **({"model": usage["model"]} if usage.get("model") else {})})
    for context in map(as_dict, as_list(entry.get("contextItems"))):
        builder.session.count_dropped("message field: contextItems", context.get("content"))
    for state in map(as_dict, as_list(entry.get("toolCallStates"))):
        _add_result(builder, state)


def _add_result(builder: SessionBuilder, state: dict[str, Any]) -> None:
    """Add the result of a call; none if the call has not ended."""
    status = _STATUSES.get(as_text(state.get("status")))
    if status is None:
        return
    found = MessageContent()
    for item in map(as_dict, as_list(state.get("output"))):
        inside = parse_content(item.get("content"), builder.session, pictures=True)
        found.parts += inside.parts
        found.images += inside.images
    found.text = "\n".join("[image]" if not isinstance(part, str) else part for part in found.parts)
    builder.add_result_content(as_text(state.get("toolCallId")), "", found, status)
