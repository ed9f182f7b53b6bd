"""Import of sessions as Anthropic messages: separate system prompt, content in blocks, tool results in the user's role.

This module reads requests and responses of the Messages API. Text next to tool results in a user message usually comes
from the loop; after the end of the run, from the user. Source: Anthropic API reference, "Messages".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from .content_blocks import count_dropped_parts, parse_content
from .imported_session import ImportedSession, Unreadable
from .openai import add_failure, add_user_message, find_messages, is_message_list, read_metadata
from .parsing import TIME_FIELDS, as_dict, as_list, as_text, describe_failure, message_time, parse_usage
from .session_builder import SessionBuilder

_BLOCK_TYPES = frozenset({"tool_use", "tool_result", "thinking", "redacted_thinking", "server_tool_use"})
_SESSION_FIELDS = frozenset({"system", "type", "role", "content", "stop_reason", "stop_sequence"})
_MESSAGE_FIELDS = frozenset(
    {"role", "content", "id", "type", "model", "stop_reason", "stop_sequence", "usage", "error", "status",
     "message", *TIME_FIELDS}
)  # fmt: skip
"""Fields of a message that are read or carry no content; others are counted as losses."""


def sessions(data: Any) -> Iterator[ImportedSession]:
    """Yield the sessions in a list of messages, an object with one, or a list of either."""
    if isinstance(data, list) and not is_message_list(data):
        for one in data:
            yield from sessions(one)
        return
    whole = {"messages": data} if isinstance(data, list) else as_dict(data)
    inside = (as_dict(whole.get(name)) for name in ("request", "params", "body"))
    request = next((part for part in inside if find_messages(part)), whole)
    session = ImportedSession()
    messages = [*(find_messages(request) or ()), *_final_response(whole)]
    read_metadata(session, whole, request, _SESSION_FIELDS)
    session.usage = None
    if not messages:
        raise Unreadable("it contains no list of messages")
    builder = SessionBuilder(session)
    builder.add_system(parse_content(request.get("system"), session).text)
    for message in messages:
        _add_message(builder, message)
    if isinstance(data, dict):
        add_failure(builder, whole)
    yield session


def matches(data: Any) -> bool:
    """Return whether this looks like Anthropic messages, judged by the system prompt or block types."""
    if isinstance(data, list):
        return _has_blocks(data) if is_message_list(data) else any(matches(one) for one in data[:1])
    whole = as_dict(data)
    inside = [whole, *(as_dict(whole.get(name)) for name in ("request", "params", "body"))]
    return bool(_final_response(whole)) or any(
        find_messages(part) is not None and ("system" in part or _has_blocks(find_messages(part) or ()))
        for part in inside
    )


def _has_blocks(messages: Iterable[Any]) -> bool:
    for message in messages:
        for part in as_list(as_dict(message).get("content")):
            if as_text(as_dict(part).get("type")) in _BLOCK_TYPES:
                return True
    return False


def _final_response(data: dict[str, Any]) -> list[Any]:
    """Return the last response as the API returned it: a list of one message, or an empty one."""
    response = as_dict(data.get("response"))
    response = as_dict(response.get("body")) or response
    for found in (response, data):
        if found.get("type") == "message" and found.get("role") == "assistant":
            return [found]
    return []


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
            add_user_message(builder, content, t)
        case "assistant" if describe_failure(message):
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
            session.count_unknown("role", role, message)
