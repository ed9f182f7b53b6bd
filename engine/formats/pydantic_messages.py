"""Import of Pydantic AI messages in the form of `ModelMessagesTypeAdapter`: requests and responses made of parts.

A request contains prompts, results and the library's requests to try again; a response is a step. Tools that the
provider ran are left out and counted. Source: Pydantic AI, `pydantic_ai/messages.py`, `usage.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..decision import Reasoning, Usage
from ..decision.messages import ResultStatus
from .content_blocks import parse_content
from .imported_session import ImportedSession, RawCall, Unreadable
from .parsing import as_dict, as_json, as_list, as_text, first_text, parse_time, usage_from_counts
from .session_builder import SessionBuilder

_LISTS = ("messages", "all_messages", "message_history", "new_messages")
_REQUEST_FIELDS = frozenset({"parts", "kind", "instructions", "timestamp", "run_id", "conversation_id"})
_RESPONSE_FIELDS = frozenset(
    {"parts", "kind", "usage", "model_name", "timestamp", "finish_reason", "provider_name", "provider_response_id",
     "vendor_id", "run_id", "conversation_id"}
)  # fmt: skip
_COMMON = frozenset({"part_kind", "timestamp", "content"})
_CALL_FIELDS = _COMMON | {"tool_name", "tool_call_id"}
_PART_FIELDS: dict[str, frozenset[str]] = {
    "system-prompt": _COMMON,
    "user-prompt": _COMMON,
    "instruction": _COMMON,
    "text": _COMMON | {"id", "provider_name"},
    "thinking": _COMMON | {"id", "provider_name", "signature"},
    "tool-call": _CALL_FIELDS | {"args", "id", "provider_name"},
    "tool-return": _CALL_FIELDS | {"outcome"},
    "retry-prompt": _CALL_FIELDS,
}
_OUTCOMES: dict[str, ResultStatus] = {
    "failed": "error",
    "retried": "error",
    "denied": "denied",
    "interrupted": "cancelled",
}


def is_line(data: Any) -> bool:
    """Return whether this is a message."""
    message = as_dict(data)
    parts = as_list(message.get("parts"))
    return message.get("kind") in ("request", "response") and all("part_kind" in as_dict(part) for part in parts[:1])


def matches(data: Any) -> bool:
    """Return whether these are messages, or an object with a list of them."""
    return bool(_find(data)[1])


def sessions(data: Any) -> Iterator[ImportedSession]:
    """Yield the session that these messages form."""
    name, messages = _find(data)
    if not messages:
        raise Unreadable("it contains no Pydantic AI messages")
    session = ImportedSession(id=first_text(as_dict(data), "id", "session_id", "conversation_id", "run_id"))
    known = (name, "id", "session_id", "conversation_id", "run_id")
    session.count_unread_fields("field", as_dict(data), known)
    reader = _MessageReader(session)
    for message in messages:
        reader.add_message(as_dict(message))
    yield session


def _find(data: Any) -> tuple[str, list[Any]]:
    """Return the messages and the field that holds them; empty if there are none."""
    if isinstance(data, list):
        return "", data if any(is_line(message) for message in data[:3]) else []
    for name in _LISTS:
        messages = as_list(as_dict(data).get(name))
        if any(is_line(message) for message in messages[:3]):
            return name, messages
    return "", []


class _MessageReader:
    """Reader that adds messages to a session."""

    def __init__(self, session: ImportedSession) -> None:
        self._session = session
        self._builder = SessionBuilder(session)
        self._instructions = ""

    def add_message(self, message: dict[str, Any]) -> None:
        match message.get("kind"):
            case "request":
                self._add_request(message)
            case "response":
                self._add_response(message)
            case kind:
                self._session.count_unknown("role", kind, message)

    def _add_request(self, message: dict[str, Any]) -> None:
        self._session.count_unread_fields("message field", _whole(message), _REQUEST_FIELDS, "request.")
        instructions = as_text(message.get("instructions"))
        if instructions and instructions != self._instructions:
            self._builder.add_system(instructions, parse_time(message.get("timestamp")))
        self._instructions = instructions or self._instructions
        for part in map(as_dict, as_list(message.get("parts"))):
            self._add_request_part(part, parse_time(part.get("timestamp") or message.get("timestamp")))

    def _add_request_part(self, part: dict[str, Any], t: float | None) -> None:
        kind = self._kind(part)
        id, name, content = as_text(part.get("tool_call_id")), as_text(part.get("tool_name")), part.get("content")
        match kind:
            case "system-prompt" | "instruction":
                self._builder.add_system(as_text(content), t)
            case "user-prompt":
                blocks = [_as_block(one) for one in content] if isinstance(content, list) else content
                parts = parse_content(blocks, self._session, pictures=True).parts
                self._builder.add_user(parts, t=t)
            case "tool-return":
                status = _OUTCOMES.get(as_text(part.get("outcome")), "ok")
                self._builder.add_result(id, name, as_json(content), status, t=t)
            case "retry-prompt" if name:
                self._builder.add_result(id, name, as_json(content), "error", t=t)
            case "retry-prompt":
                self._builder.add_user([as_json(content)], "nudge", t)
            case _:
                self._session.count_unknown("content part", kind, _contents(part))

    def _add_response(self, message: dict[str, Any]) -> None:
        self._session.count_unread_fields("message field", _whole(message), _RESPONSE_FIELDS, "response.")
        texts: list[str] = []
        calls: list[RawCall] = []
        reasoning: list[Reasoning] = []
        for part in map(as_dict, as_list(message.get("parts"))):
            match kind := self._kind(part):
                case "text":
                    texts.append(as_text(part.get("content")))
                case "thinking":
                    reasoning.append(_thought(part))
                case "tool-call":
                    id, name = as_text(part.get("tool_call_id")), as_text(part.get("tool_name"))
                    calls.append((id, name, as_json(part.get("args"))))
                case "builtin-tool-call" | "builtin-tool-return":
                    self._session.count_loss("provider tool")
                case _:
                    self._session.count_unknown("content part", kind, _contents(part))
        model = as_text(message.get("model_name"))
        self._session.model = self._session.model or model
        self._builder.add_response(
            "\n".join(texts),
            calls,
            reasoning,
            usage=_usage(as_dict(message.get("usage"))),
            raw_finish=as_text(message.get("finish_reason")),
            model=model,
            t=parse_time(message.get("timestamp")),
        )

    def _kind(self, part: dict[str, Any]) -> str:
        kind = as_text(part.get("part_kind"))
        if kind in _PART_FIELDS:
            self._session.count_unread_fields("part field", part, _PART_FIELDS[kind], f"{kind}.")
        return kind


def _whole(message: dict[str, Any]) -> dict[str, Any]:
    """Return the message without its state, if that only says that it is complete."""
    return {name: value for name, value in message.items() if (name, value) != ("state", "complete")}


def _thought(part: dict[str, Any]) -> Reasoning:
    text, signature = as_text(part.get("content")), as_text(part.get("signature"))
    return Reasoning(text, signature, redacted=not text and bool(signature))


def _as_block(content: Any) -> Any:
    """Return a part of a prompt in the form shared with other formats."""
    one = as_dict(content)
    match one.get("kind"):
        case "image-url":
            return {"type": "image_url", "image_url": {"url": as_text(one.get("url"))}}
        case "binary" if as_text(one.get("media_type")).startswith("image/"):
            plain = as_text(one.get("data")).replace("-", "+").replace("_", "/")
            return {"type": "image", "source": {"type": "base64", "data": plain, "media_type": one["media_type"]}}
        case "text-content":
            return {"type": "text", "text": as_text(one.get("content"))}
        case None:
            return content
        case kind:
            return {"type": as_text(kind) or "unknown"}


def _contents(part: dict[str, Any]) -> Any:
    return part.get("content") if isinstance(part.get("content"), str) else as_text(part.get("transcript"))


def _usage(usage: dict[str, Any]) -> Usage | None:
    """Return the token counts, under their current names or those of version 0."""
    details = as_dict(usage.get("details"))
    spent = usage.get("output_reasoning_tokens") or details.get("reasoning_tokens")
    return usage_from_counts(
        usage.get("input_tokens", usage.get("request_tokens")),
        usage.get("output_tokens", usage.get("response_tokens")),
        cached=usage.get("cache_read_tokens", details.get("cached_tokens")),
        reasoning=spent,
        cost=usage.get("cost"),
    )
