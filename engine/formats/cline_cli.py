"""Import of cline's sessions: `~/.cline/data/sessions/<id>/<id>.messages.json`.

A file has the system prompt and messages in Anthropic's form, each with its time, model and token counts. cline writes
what it shows in case of an error in the model's name (`displayRole`). `<id>.json` beside it has no messages.
cline publishes no description of the format; it is read as version 3.0.65 writes it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..decision.messages import ResultStatus
from .content_blocks import MessageContent, count_dropped_parts, parse_content
from .imported_session import ImportedSession, Unreadable
from .parsing import as_dict, as_json, as_list, as_text, parse_time, usage_from_counts
from .session_builder import SessionBuilder

_SESSION_FIELDS = frozenset(
    {"version", "updated_at", "agent", "sessionId", "origin", "messages", "system_prompt", "systemPrompt"}
)
_MESSAGE_FIELDS = frozenset({"id", "role", "content", "ts", "metadata", "modelInfo", "metrics"})


def matches(data: Any) -> bool:
    """Return whether this is a session."""
    whole = as_dict(data)
    return {"sessionId", "agent", "origin", "messages"} <= whole.keys() and isinstance(whole["messages"], list)


def sessions(data: Any) -> Iterator[ImportedSession]:
    """Yield the only session of a file."""
    if not matches(data):
        raise Unreadable("it is not a session of cline")
    session = ImportedSession(id=as_text(data["sessionId"]))
    session.count_unread_fields("field", data, _SESSION_FIELDS)
    builder = SessionBuilder(session)
    builder.add_system(as_text(data.get("system_prompt")) or as_text(data.get("systemPrompt")))
    for message in map(as_dict, data["messages"]):
        _add_message(builder, message)
    yield session


def _add_message(builder: SessionBuilder, message: dict[str, Any]) -> None:
    session, t, role = builder.session, parse_time(message.get("ts")), message.get("role")
    session.count_unread_fields("message field", message, _MESSAGE_FIELDS)
    content = parse_content(message.get("content"), session, pictures=role == "user")
    shown = as_dict(message.get("metadata"))
    match role:
        case "user":
            _add_results(builder, content, t)
            if content.parts or not content.results:
                builder.add_user(content.parts, "beside" if content.results else "user", t)
        case "assistant" if shown.get("displayRole") == "error":
            builder.add_failure(content.text, t=t)
        case _ if shown.get("displayOnly") is True:
            session.count_dropped("own words", message)
        case "assistant":
            _add_response(builder, message, content, t)
        case _:
            session.count_unknown("role", role, message)


def _add_results(builder: SessionBuilder, content: MessageContent, t: float | None) -> None:
    count_dropped_parts(content, builder.session, calls=True, reasoning=True)
    for block in content.results:
        entries = [entry for entry in map(as_dict, as_list(block.content)) if "success" in entry]
        if not entries:
            builder.add_result_blocks(MessageContent(results=[block]), t)
            continue
        failed = block.is_error or not any(entry["success"] for entry in entries)
        status: ResultStatus = "error" if failed else "ok"
        builder.add_result(block.call_id, "", as_json(block.content), status, t=t)


def _add_response(builder: SessionBuilder, message: dict[str, Any], content: MessageContent, t: float | None) -> None:
    session, counts = builder.session, as_dict(message.get("metrics"))
    count_dropped_parts(content, session, results=True)
    model = as_text(as_dict(message.get("modelInfo")).get("id"))
    session.model = session.model or model
    builder.add_response(
        content.text,
        content.calls,
        content.reasoning,
        usage=usage_from_counts(
            counts.get("inputTokens"),
            counts.get("outputTokens"),
            cached=counts.get("cacheReadTokens"),
            cost=counts.get("cost"),
        ),
        model=model,
        t=t,
    )
