"""Sessions as Anthropic messages: separate system prompt, content in blocks, tool results in the user's role.

This module reads requests and responses of the Messages API, and transcripts of Claude Code, where each line wraps a
message (or one block of it) together with its time. Text next to tool results in a user message is usually written by
the loop; after the run is done, it is the user's. Source: Anthropic API reference, "Messages".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from .content_blocks import count_dropped_parts, parse_content
from .imported_session import ImportedSession, SessionBuilder, Unreadable
from .openai import add_failure, add_user_message, find_messages, is_message_list, read_metadata
from .parsing import TIME_FIELDS, as_dict, as_list, as_text, describe_failure, first_text, message_time, parse_usage

_BLOCK_TYPES = frozenset({"tool_use", "tool_result", "thinking", "redacted_thinking", "server_tool_use"})
_SESSION_FIELDS = frozenset({"system", "type", "role", "content", "stop_reason", "stop_sequence"})
_MESSAGE_FIELDS = frozenset(
    {"role", "content", "id", "type", "model", "stop_reason", "stop_sequence", "usage", "loop", "failed", "error",
     "status", "message", *TIME_FIELDS}
)  # fmt: skip
"""Fields of a message that are read or carry no content; others are counted as losses."""
_LINE_FIELDS = frozenset(
    {"message", "type", "uuid", "parentUuid", "logicalParentUuid", "sessionId", "session_id", "timestamp", "isMeta",
     "isSidechain", "isCompactSummary", "isVisibleInTranscriptOnly", "isApiErrorMessage", "error", "requestId",
     "userType", "cwd", "version", "gitBranch", "entrypoint", "slug", "promptId", "permissionMode", "agentId",
     "sourceToolAssistantUUID"}
)  # fmt: skip
"""Fields of a line of a Claude Code transcript that are read or carry no content; others are counted as losses."""
SYNTHETIC_MODEL = "<synthetic>"
"""Model name of messages that Claude Code writes itself: errors, and placeholders for an answer."""


def sessions(data: Any) -> Iterator[ImportedSession]:
    """The sessions in a list of messages or wrapped messages, an object with one, or a list of either."""
    if isinstance(data, list) and not is_message_list(data) and not is_transcript(data):
        for one in data:
            yield from sessions(one)
        return
    whole = {"messages": data} if isinstance(data, list) else as_dict(data)
    inside = (as_dict(whole.get(name)) for name in ("request", "params", "body"))
    request = next((part for part in inside if find_messages(part)), whole)
    session = ImportedSession()
    if isinstance(data, list) and is_transcript(data):
        messages = list(_unwrap_lines(data, session))
    else:
        messages = [*(find_messages(request) or ()), *_final_response(whole)]
        read_metadata(session, whole, request, _SESSION_FIELDS)
        session.usage = None
    if not messages:
        only = "messages of subagents" if session.losses["side chain"] else ""
        raise Unreadable(f"it holds only {only}" if only else "it holds no list of messages")
    builder = SessionBuilder(session)
    builder.add_system(parse_content(request.get("system"), session).text)
    for message in _merge_blocks(messages):
        _add_message(builder, message)
    if isinstance(data, dict):
        add_failure(builder, whole)
    yield session


def matches(data: Any) -> bool:
    """Whether this looks like Anthropic messages (by system prompt or block types) or a Claude Code transcript."""
    if isinstance(data, list):
        if is_transcript(data):
            return True
        return _has_blocks(data) if is_message_list(data) else any(matches(one) for one in data[:1])
    whole = as_dict(data)
    inside = [whole, *(as_dict(whole.get(name)) for name in ("request", "params", "body"))]
    return bool(_final_response(whole)) or any(
        find_messages(part) is not None and ("system" in part or _has_blocks(find_messages(part) or ()))
        for part in inside
    )


def is_transcript(data: Any) -> bool:
    """Whether these are the lines of a Claude Code transcript."""
    lines = as_list(data)[:20]
    return any(_is_transcript_line(line) for line in lines) and not any("role" in as_dict(line) for line in lines)


def _is_transcript_line(line: Any) -> bool:
    entry = as_dict(line)
    return entry.get("type") in ("user", "assistant") and "role" in as_dict(entry.get("message"))


def _has_blocks(messages: Iterable[Any]) -> bool:
    for message in messages:
        for part in as_list(as_dict(message).get("content")):
            if as_text(as_dict(part).get("type")) in _BLOCK_TYPES:
                return True
    return False


def _final_response(data: dict[str, Any]) -> list[Any]:
    """The last response as the API returned it: a list of one message, or an empty one."""
    response = as_dict(data.get("response"))
    response = as_dict(response.get("body")) or response
    for found in (response, data):
        if found.get("type") == "message" and found.get("role") == "assistant":
            return [found]
    return []


def _unwrap_lines(lines: list[Any], session: ImportedSession) -> Iterator[dict[str, Any]]:
    for line in lines:
        entry = as_dict(line)
        if not _is_transcript_line(entry):
            session.count_loss(f"line: {as_text(entry.get('type'))[:40] or 'none'}")
        elif entry.get("isSidechain") is True:
            session.count_dropped("side chain", entry["message"])
        elif _is_synthetic_text(entry):
            session.count_dropped("own words", entry["message"])
        else:
            session.count_unread_fields("line field", entry, _LINE_FIELDS)
            session.id = session.id or first_text(entry, "sessionId", "session_id")
            message = dict(entry["message"])
            message["timestamp"] = entry.get("timestamp")
            message["failed"] = _is_failed_request(entry, message)
            message["loop"] = entry.get("isMeta") is True or entry.get("isCompactSummary") is True
            if message.get("model") != SYNTHETIC_MODEL:
                session.model = session.model or as_text(message.get("model"))
            yield message


def _is_synthetic_text(entry: dict[str, Any]) -> bool:
    """Whether Claude Code wrote this in the model's name, and it is not an error: no model was called."""
    message = entry["message"]
    return (
        message.get("role") == "assistant"
        and message.get("model") == SYNTHETIC_MODEL
        and not _is_failed_request(entry, message)
    )


def _is_failed_request(entry: dict[str, Any], message: dict[str, Any]) -> bool:
    """Whether Claude Code reports here, in the model's name, that a request failed."""
    if entry.get("isApiErrorMessage") is True or entry.get("error"):
        return True
    text = parse_content(message.get("content"), ImportedSession()).text
    return message.get("model") == SYNTHETIC_MODEL and text.startswith("API Error")


def _merge_blocks(messages: Iterable[Any]) -> list[Any]:
    """Merge the messages of one response, which have the same `id`: Claude Code writes each block on its own line."""
    joined: list[Any] = []
    at: dict[str, int] = {}
    for message in messages:
        entry = as_dict(message)
        id = as_text(entry.get("id")) if entry.get("role") == "assistant" and not entry.get("failed") else ""
        if id and id in at:
            first = joined[at[id]]
            content = [*_as_blocks(first.get("content")), *_as_blocks(message.get("content"))]
            kept = {name: value for name, value in message.items() if value is not None}
            joined[at[id]] = {**first, **kept, "timestamp": first.get("timestamp"), "content": content}
            continue
        if id:
            at[id] = len(joined)
        joined.append(message)
    return joined


def _as_blocks(content: Any) -> list[Any]:
    return content if isinstance(content, list) else [] if content is None else [content]


def _add_message(builder: SessionBuilder, message: Any) -> None:
    session = builder.session
    if not isinstance(message, dict):
        session.count_loss("no message")
        return
    t = message_time(message)
    session.count_unread_fields("message field", message, _MESSAGE_FIELDS)
    content = parse_content(message.get("content"), session, pictures=message.get("role") == "user")
    match message.get("role"):
        case "user":
            count_dropped_parts(content, session, calls=True, reasoning=True)
            add_user_message(builder, content, t, by_loop=message.get("loop") is True)
        case "assistant" if message.get("failed") or describe_failure(message):
            builder.add_failure(content.text or describe_failure(message), t=t)
        case "assistant":
            count_dropped_parts(content, session, results=True)
            builder.add_response(
                content.text,
                content.calls,
                content.reasoning,
                usage=parse_usage(message.get("usage")),
                raw_finish=as_text(message.get("stop_reason")),
                model=as_text(message.get("model")),
                t=t,
            )
        case "system":
            count_dropped_parts(content, session, calls=True, results=True, reasoning=True)
            builder.add_system(content.text, t)
        case role:
            session.count_dropped(f"role: {as_text(role)[:40] or 'none'}", message)
