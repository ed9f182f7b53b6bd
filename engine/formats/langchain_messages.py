"""Import of LangChain and LangGraph messages: from `messages_to_dict`, from `dumpd` (`lc`), or as model dumps.

Source: LangChain, `langchain_core/messages`, `langchain_core/load/dump.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..decision import Usage
from ..decision.messages import ResultStatus
from .content_blocks import MessageContent, count_dropped_parts, message_reasoning, parse_content
from .imported_session import ImportedSession, RawCall, Unreadable
from .openai import parse_calls
from .parsing import as_dict, as_json, as_list, as_text, first_text, message_time, parse_usage, usage_from_counts
from .response_items import reasoning_block
from .session_builder import SessionBuilder

_TYPES = ("human", "ai", "tool", "system", "function", "developer", "chat", "remove")
_LISTS = ("messages", "history", "chat_history")
_ID_FIELDS = ("id", "session_id", "thread_id", "run_id")
_FIELDS = frozenset(
    {"type", "content", "id", "name", "tool_calls", "invalid_tool_calls", "tool_call_id", "status", "usage_metadata",
     "response_metadata", "additional_kwargs", "example", "role", "tool_call_chunks", "chunk_position"}
)  # fmt: skip
_ADDITIONAL = frozenset({"tool_calls", "function_call", "reasoning_content", "reasoning", "refusal", "timestamp"})
_METADATA = frozenset(
    {"finish_reason", "stop_reason", "model_name", "model", "token_usage", "usage", "id", "model_provider",
     "system_fingerprint", "created_at", "object", "status"}
)  # fmt: skip
_CALL_FIELDS = frozenset({"id", "name", "args", "type", "error", "index"})


def is_line(data: Any) -> bool:
    """Return whether this is a message, in any of the three forms."""
    return _unwrap(data) is not None


def matches(data: Any) -> bool:
    """Return whether these are messages, or an object with a list of them."""
    return bool(_find(data)[1])


def sessions(data: Any) -> Iterator[ImportedSession]:
    """Yield the session that these messages form."""
    name, messages = _find(data)
    if not messages:
        raise Unreadable("it contains no LangChain messages")
    session = ImportedSession(id=first_text(as_dict(data), *_ID_FIELDS))
    session.count_unread_fields("field", as_dict(data), (name, *_ID_FIELDS))
    reader = _MessageReader(session)
    for message in messages:
        reader.add_message(message)
    yield session


def _find(data: Any) -> tuple[str, list[Any]]:
    """Return the messages and the field that holds them; empty if there are none."""
    if isinstance(data, list):
        return "", data if data and is_line(data[0]) else []
    whole = as_dict(data)
    for holder in (whole, as_dict(whole.get("values")), as_dict(whole.get("channel_values"))):
        for name in _LISTS:
            messages = as_list(holder.get(name))
            if messages and is_line(messages[0]):
                return name if holder is whole else "values", messages
    return "", []


def _unwrap(data: Any) -> tuple[str, dict[str, Any]] | None:
    """Return the type and fields of a message; None for anything else."""
    message = as_dict(data)
    inside = as_dict(message.get("data"))
    if "lc" in message and "kwargs" in message:
        path = [as_text(name) for name in as_list(message.get("id"))]
        kind = _plain_type(path[-1]) if "messages" in path else ""
        return (kind, as_dict(message["kwargs"])) if kind else None
    kind = _plain_type(as_text(message.get("type")))
    if kind not in _TYPES:
        return None
    if "content" in inside:
        return kind, inside
    return (kind, message) if {"content", "additional_kwargs"} <= message.keys() else None


def _plain_type(name: str) -> str:
    """Return `ai` for `ai`, `AIMessage` and `AIMessageChunk`."""
    return name.removesuffix("Chunk").removesuffix("Message").lower()


class _MessageReader:
    """Reader that adds messages to a session."""

    def __init__(self, session: ImportedSession) -> None:
        self._session = session
        self._builder = SessionBuilder(session)

    def add_message(self, data: Any) -> None:
        found = _unwrap(data)
        if found is None:
            self._session.count_dropped("another form", data)
            return
        kind, message = found
        more = as_dict(message.get("additional_kwargs"))
        self._session.count_unread_fields("message field", message, _FIELDS)
        self._session.count_unread_fields("message field", more, _ADDITIONAL, "additional_kwargs.")
        blocks = message.get("content")
        blocks = [_rename(block) for block in blocks] if isinstance(blocks, list) else blocks
        content = parse_content(blocks, self._session, pictures=kind in ("human", "tool"))
        t = message_time(more) or message_time(as_dict(message.get("response_metadata")))
        if kind == "chat":
            kind = {"user": "human", "assistant": "ai"}.get(as_text(message.get("role")), "system")
        match kind:
            case "system" | "developer":
                self._builder.add_system(content.text, t)
            case "human":
                self._builder.add_prompt(content, t=t)
            case "ai":
                self._add_response(message, more, content, t)
            case "tool" | "function":
                status: ResultStatus = "error" if message.get("status") == "error" else "ok"
                id, name = as_text(message.get("tool_call_id")), as_text(message.get("name"))
                self._builder.add_result_content(id, name, content, status, t)
            case _:
                self._session.count_unknown("role", kind, message)

    def _add_response(
        self, message: dict[str, Any], more: dict[str, Any], content: MessageContent, t: float | None
    ) -> None:
        metadata = as_dict(message.get("response_metadata"))
        self._session.count_unread_fields("message field", metadata, _METADATA, "response_metadata.")
        calls = [
            self._call(as_dict(call))
            for name in ("tool_calls", "invalid_tool_calls")
            for call in as_list(message.get(name))
        ]
        if not calls:
            calls = content.calls or parse_calls(more)
        count_dropped_parts(content, self._session, results=True)
        model = first_text(metadata, "model_name", "model")
        self._session.model = self._session.model or model
        self._builder.add_response(
            content.text,
            calls,
            content.reasoning or message_reasoning(more),
            usage=_usage(message) or parse_usage(metadata.get("token_usage") or metadata.get("usage")),
            raw_finish=first_text(metadata, "finish_reason", "stop_reason"),
            model=model,
            t=t,
        )

    def _call(self, call: dict[str, Any]) -> RawCall:
        self._session.count_unread_fields("call field", call, _CALL_FIELDS)
        return as_text(call.get("id")), as_text(call.get("name")), as_json(call.get("args"))


def _rename(block: Any) -> Any:
    """Return a content block. An item of the Responses API becomes the equivalent block."""
    match as_dict(block).get("type"):
        case "function_call":
            id, arguments = first_text(block, "call_id", "id"), block.get("arguments")
            return {"type": "tool_use", "id": id, "name": block.get("name"), "input": arguments}
        case "reasoning" if "summary" in block:
            return reasoning_block(block)
        case _:
            return block


def _usage(message: dict[str, Any]) -> Usage | None:
    """Return the token counts in the library's own form, in which cached tokens are part of the input."""
    usage = as_dict(message.get("usage_metadata"))
    return usage_from_counts(
        usage.get("input_tokens"),
        usage.get("output_tokens"),
        cached=as_dict(usage.get("input_token_details")).get("cache_read"),
        reasoning=as_dict(usage.get("output_token_details")).get("reasoning"),
    )
