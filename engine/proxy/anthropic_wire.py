"""Anthropic's messages. Source: Anthropic API reference, "Messages" and "Streaming messages"."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from ..decision import ToolSpec, Usage
from ..providers.anthropic_stream import AnthropicStream
from .wire import EVENT_STREAM, OwnReply, ProxyWire, ReplyEnd, WireRequest


class _Event(Struct):
    type: str = ""
    index: int = 0


class AnthropicEnd(ReplyEnd):
    """Ends a stream of content blocks."""

    def __init__(self, request: WireRequest) -> None:
        self._open: list[int] = []
        self._next = 0
        """The index of a block that would come next."""

    def see(self, event: bytes) -> None:
        """Keep the indexes of the blocks that are open."""
        if b"content_block_st" not in event[:40]:  # of start and stop; nearly all events are deltas
            return
        seen = msgspec.json.decode(event.partition(b"data: ")[2], type=_Event)
        self._next = max(self._next, seen.index + 1)
        if seen.type == "content_block_start":
            self._open.append(seen.index)
        elif seen.index in self._open:
            self._open.remove(seen.index)

    def cut(self, usage: Usage) -> bytes:
        """The ends of the open blocks, the reason `tool_use` with the usage, and the end of the message."""
        return self._close_blocks() + _last("tool_use", usage)

    def finish(self, text: str, usage: Usage) -> bytes:
        """The ends of the open blocks, a block with the text, and the end of the message."""
        return self._close_blocks() + _text_block(self._next, text) + _last("end_turn", usage)

    def _close_blocks(self) -> bytes:
        return b"".join(_event("content_block_stop", index=index) for index in self._open)


def _text_block(index: int, text: str) -> bytes:
    begin = _event("content_block_start", index=index, content_block={"type": "text", "text": ""})
    delta = _event("content_block_delta", index=index, delta={"type": "text_delta", "text": text})
    return begin + delta + _event("content_block_stop", index=index)


def _last(reason: str, usage: Usage) -> bytes:
    delta = {"stop_reason": reason, "stop_sequence": None}
    counts = {"output_tokens": usage.output_tokens}
    return _event("message_delta", delta=delta, usage=counts) + _event("message_stop")


def _event(kind: str, **fields: Any) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (kind.encode(), msgspec.json.encode({"type": kind, **fields}))


def _reply(request: WireRequest, text: str, id: str) -> OwnReply:
    message = {
        "id": id,
        "type": "message",
        "role": "assistant",
        "model": request.model,
        "content": [{"type": "text", "text": text}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 0, "output_tokens": 0},
    }
    if not request.streams:
        return OwnReply(body=msgspec.json.encode(message))
    begun = {**message, "content": [], "stop_reason": None}
    body = _event("message_start", message=begun) + _text_block(0, text) + _last("end_turn", Usage())
    return OwnReply(content_type=EVENT_STREAM, body=body)


def _tool(spec: ToolSpec) -> dict[str, Any]:
    return {"name": spec.name, "description": spec.description, "input_schema": spec.parameters}


def _without_call(response: dict[str, Any], name: str, text: str) -> None:
    kept = [block for block in response["content"] if block.get("type") != "tool_use" or block.get("name") != name]
    if not any(block.get("type") == "tool_use" for block in kept):
        response["stop_reason"] = "end_turn"
    response["content"] = [*kept, *([{"type": "text", "text": text}] if text else [])]


def _refusal(reason: str, detail: str) -> OwnReply:
    """Anthropic's error for a request that is not retried."""
    return OwnReply(status=400, body=msgspec.json.encode({"type": "error", "error": _error(reason, detail)}))


def _error(reason: str, detail: str) -> dict[str, str]:
    return {"type": "invalid_request_error", "message": f"endstop_{reason}: {detail}"}


def _stream_error(reason: str, detail: str) -> bytes:
    return _event("error", error=_error(reason, detail))


ANTHROPIC = ProxyWire(
    name="anthropic",
    path="/messages",
    items="messages",
    system="system",
    open_parser=lambda request: AnthropicStream(),
    open_end=AnthropicEnd,
    reply=_reply,
    refusal=_refusal,
    tool=_tool,
    without_call=_without_call,
    stream_error=_stream_error,
)
