"""Anthropic's messages: system prompt apart, content in blocks, results of tools in the user's role.

Read are requests and responses of the Messages API, and the transcripts that Claude Code keeps, in which each line
wraps a message (or one block of it) with its time. Text beside results in one user message is mostly the loop's own;
it is the user's where the run was already done. Source: Anthropic API reference, "Messages".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from .content_blocks import content_of, drop
from .imported_session import Conversation, Foreign, Unreadable
from .openai import describe, hear_failure, hear_user, is_messages, messages_in
from .parsing import TIMES, failure_in, first_time, first_word, listed, mapping, usage_of, word

_BLOCKS = frozenset({"tool_use", "tool_result", "thinking", "redacted_thinking", "server_tool_use"})
_READ = frozenset({"system", "type", "role", "content", "stop_reason", "stop_sequence"})
_MESSAGE = frozenset(
    {"role", "content", "id", "type", "model", "stop_reason", "stop_sequence", "usage", "loop", "failed", "error",
     "status", "message", *TIMES}
)  # fmt: skip
"""Fields of a message that are read, or say nothing of what was said; others are listed as lost."""
_LINE = frozenset(
    {"message", "type", "uuid", "parentUuid", "logicalParentUuid", "sessionId", "session_id", "timestamp", "isMeta",
     "isSidechain", "isCompactSummary", "isVisibleInTranscriptOnly", "isApiErrorMessage", "error", "requestId",
     "userType", "cwd", "version", "gitBranch", "entrypoint", "slug", "promptId", "permissionMode", "agentId",
     "sourceToolAssistantUUID"}
)  # fmt: skip
"""The same of a line of Claude Code's."""
SYNTHETIC = "<synthetic>"
"""The model in whose name Claude Code itself speaks: errors, and words in the place of an answer."""


def sessions(data: Any) -> Iterator[Foreign]:
    """The sessions in a list of messages or wrapped messages, an object with one, or a list of either."""
    if isinstance(data, list) and not is_messages(data) and not is_wrapped(data):
        for one in data:
            yield from sessions(one)
        return
    whole = {"messages": data} if isinstance(data, list) else mapping(data)
    inside = (mapping(whole.get(name)) for name in ("request", "params", "body"))
    request = next((part for part in inside if messages_in(part)), whole)
    foreign = Foreign()
    if isinstance(data, list) and is_wrapped(data):
        messages = list(_unwrapped(data, foreign))
    else:
        messages = [*(messages_in(request) or ()), *_answer(whole)]
        describe(foreign, whole, request, _READ)
        foreign.usage = None
    if not messages:
        only = "messages of subagents" if foreign.lost["side chain"] else ""
        raise Unreadable(f"it holds only {only}" if only else "it holds no list of messages")
    conversation = Conversation(foreign)
    conversation.system(content_of(request.get("system"), foreign).text)
    for message in _joined(messages):
        _hear(conversation, message)
    if isinstance(data, dict):
        hear_failure(conversation, whole)
    yield foreign


def fits(data: Any) -> bool:
    """Whether this looks like Anthropic's messages: a system prompt apart, blocks that only these have, or wrapped."""
    if isinstance(data, list):
        if is_wrapped(data):
            return True
        return _has_blocks(data) if is_messages(data) else any(fits(one) for one in data[:1])
    whole = mapping(data)
    inside = [whole, *(mapping(whole.get(name)) for name in ("request", "params", "body"))]
    return bool(_answer(whole)) or any(
        messages_in(part) is not None and ("system" in part or _has_blocks(messages_in(part) or ())) for part in inside
    )


def is_wrapped(data: Any) -> bool:
    """Whether these are lines of a transcript of Claude Code."""
    lines = listed(data)[:20]
    return any(_is_wrapped(line) for line in lines) and not any("role" in mapping(line) for line in lines)


def _is_wrapped(line: Any) -> bool:
    entry = mapping(line)
    return entry.get("type") in ("user", "assistant") and "role" in mapping(entry.get("message"))


def _has_blocks(messages: Iterable[Any]) -> bool:
    for message in messages:
        for part in listed(mapping(message).get("content")):
            if word(mapping(part).get("type")) in _BLOCKS:
                return True
    return False


def _answer(data: dict[str, Any]) -> list[Any]:
    """The response that came last, as the API answered it."""
    response = mapping(data.get("response"))
    response = mapping(response.get("body")) or response
    for found in (response, data):
        if found.get("type") == "message" and found.get("role") == "assistant":
            return [found]
    return []


def _unwrapped(lines: list[Any], foreign: Foreign) -> Iterator[dict[str, Any]]:
    for line in lines:
        entry = mapping(line)
        if not _is_wrapped(entry):
            foreign.lose(f"line: {word(entry.get('type'))[:40] or 'none'}")
        elif entry.get("isSidechain") is True:
            foreign.leave_out("side chain", entry["message"])
        elif _is_own(entry):
            foreign.leave_out("own words", entry["message"])
        else:
            foreign.lose_fields("line field", entry, _LINE)
            foreign.id = foreign.id or first_word(entry, "sessionId", "session_id")
            message = dict(entry["message"])
            message["timestamp"] = entry.get("timestamp")
            message["failed"] = _is_failure(entry, message)
            message["loop"] = entry.get("isMeta") is True or entry.get("isCompactSummary") is True
            if message.get("model") != SYNTHETIC:
                foreign.model = foreign.model or word(message.get("model"))
            yield message


def _is_own(entry: dict[str, Any]) -> bool:
    """Whether Claude Code speaks in the model's name, and not of a failure: nobody asked a model for this."""
    message = entry["message"]
    return message.get("role") == "assistant" and message.get("model") == SYNTHETIC and not _is_failure(entry, message)


def _is_failure(entry: dict[str, Any], message: dict[str, Any]) -> bool:
    """Whether a line of Claude Code's says, in the model's name, that a request failed."""
    if entry.get("isApiErrorMessage") is True or entry.get("error"):
        return True
    text = content_of(message.get("content"), Foreign()).text
    return message.get("model") == SYNTHETIC and text.startswith("API Error")


def _joined(messages: Iterable[Any]) -> list[Any]:
    """The messages, with the blocks of one response in one message again where each came by itself."""
    joined: list[Any] = []
    at: dict[str, int] = {}
    for message in messages:
        entry = mapping(message)
        id = word(entry.get("id")) if entry.get("role") == "assistant" and not entry.get("failed") else ""
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


def _hear(conversation: Conversation, message: Any) -> None:
    foreign = conversation.foreign
    if not isinstance(message, dict):
        foreign.lose("no message")
        return
    t = first_time(message)
    foreign.lose_fields("message field", message, _MESSAGE)
    content = content_of(message.get("content"), foreign)
    match message.get("role"):
        case "user":
            drop(content, foreign, calls=True, reasoning=True)
            hear_user(conversation, content, t, by_loop=message.get("loop") is True)
        case "assistant" if message.get("failed") or failure_in(message):
            conversation.failed(content.text or failure_in(message), t=t)
        case "assistant":
            drop(content, foreign, results=True)
            conversation.assistant(
                content.text,
                content.calls,
                content.reasoning,
                usage=usage_of(message.get("usage")),
                raw_finish=word(message.get("stop_reason")),
                model=word(message.get("model")),
                t=t,
            )
        case "system":
            drop(content, foreign, calls=True, results=True, reasoning=True)
            conversation.system(content.text, t)
        case role:
            foreign.leave_out(f"role: {word(role)[:40] or 'none'}", message)
