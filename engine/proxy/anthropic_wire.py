"""Anthropic's messages for the proxy. Source: Anthropic API reference, "Messages" and "Streaming messages"."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from ..decision import AssistantMessage, ToolCall, ToolSpec, Usage
from ..formats.parsing import as_dict, as_list, as_text
from ..providers.anthropic_stream import AnthropicStream
from ..providers.loose_json import decode_loosely
from ..providers.surrogate_pairs import encodable
from .wire import EVENT_STREAM, OwnReply, ProxyWire, ReplyEnd, ResponseAssembler, UnfinishedCall, WireRequest


class _Block(Struct):
    type: str = ""


class _Event(Struct):
    type: str = ""
    index: int = 0
    content_block: _Block | None = None


class AnthropicEnd(ReplyEnd):
    """Ending of a stream of content blocks."""

    def __init__(self, request: WireRequest) -> None:
        self._open: dict[int, str] = {}
        """Types of the open blocks, by index."""
        self._next = 0
        """Index of the next block."""
        self._shift = 0
        """Number of blocks before those of the further response."""

    @property
    def in_thought(self) -> bool:
        """Whether a block of thinking is open: its signature comes at its end."""
        return any(kind.endswith("thinking") for kind in self._open.values())

    def see(self, event: bytes) -> None:
        """Note the message's id and the open blocks."""
        if b"message_start" in event[:40]:
            begun = as_dict(decode_loosely(encodable(event.partition(b"data: ")[2])))
            self.response_id = as_text(as_dict(begun.get("message")).get("id"))
        if b"content_block_st" not in event[:40]:  # only start and stop matter; nearly all events are deltas
            return
        seen = msgspec.convert(decode_loosely(encodable(event.partition(b"data: ")[2])), _Event)
        self._next = max(self._next, seen.index + 1)
        if seen.type == "content_block_start":
            self._open[seen.index] = "" if seen.content_block is None else seen.content_block.type
        else:
            self._open.pop(seen.index, None)

    def ends(self, event: bytes) -> bool:
        """Return whether an event has the stop reason, or is the end."""
        return _kind(event) in (b"message_delta", b"message_stop")

    def add(self, text: str) -> bytes:
        """Return the ends of the open blocks, and a block with the text."""
        events = self._close_blocks() + _text_block(self._next, text)
        self._open.clear()
        self._next += 1
        self._shift = self._next
        return events

    def add_calls(self, calls: Sequence[ToolCall], first: int) -> bytes:
        """Return the ends of the open blocks, and a block for each call."""
        events = [self._close_blocks()]
        self._open.clear()
        for call in calls:
            delta = {"type": "input_json_delta", "partial_json": call.arguments or "{}"}
            events.append(_event("content_block_start", index=self._next, content_block={**_call(call), "input": {}}))
            events.append(_event("content_block_delta", index=self._next, delta=delta))
            events.append(_event("content_block_stop", index=self._next))
            self._next += 1
        return b"".join(events)

    def go_on(self, event: bytes) -> bytes:
        """Return the event with the index that its block has here; empty for the beginning of another message."""
        kind = _kind(event)
        if kind == b"message_start":
            return b""
        if not kind.startswith(b"content_block"):
            return event
        fields = as_dict(decode_loosely(encodable(event.partition(b"data: ")[2])))
        index = int(fields.get("index", 0)) + self._shift
        self._next = max(self._next, index + 1)
        return _event(
            kind.decode(), **{name: value for name, value in fields.items() if name != "type"} | {"index": index}
        )

    def fail(self, reason: str, detail: str) -> bytes:
        """Return the event of an error."""
        return _event("error", error=_error(reason, detail))

    def cut(self, usage: Usage) -> bytes:
        """Return the ends of the open blocks, the reason `tool_use` with the usage, and the end of the message."""
        return self._close_blocks() + _last("tool_use", usage)

    def finish(self, text: str, usage: Usage) -> bytes:
        """Return the ends of the open blocks, a block with the text, and the end of the message."""
        return self._close_blocks() + _text_block(self._next, text) + _last("end_turn", usage)

    def _close_blocks(self) -> bytes:
        return b"".join(_event("content_block_stop", index=index) for index in self._open)


def _kind(event: bytes) -> bytes:
    """Return the type of an event, from its first line."""
    return event.partition(b"event:")[2].partition(b"\n")[0].strip()


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


def _reply(request: WireRequest, text: str, id: str, usage: Usage) -> OwnReply:
    message = {
        "id": id,
        "type": "message",
        "role": "assistant",
        "model": request.model,
        "content": [{"type": "text", "text": text}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens},
    }
    if not request.streams:
        return OwnReply(body=msgspec.json.encode(message))
    begun = {**message, "content": [], "stop_reason": None}
    body = _event("message_start", message=begun) + _text_block(0, text) + _last("end_turn", usage)
    return OwnReply(content_type=EVENT_STREAM, body=body)


def _add_user_text(items: Sequence[Any], text: str) -> list[Any]:
    """Add a text to the last message in the user's role: not all servers accept two of them in a row."""
    block, last = {"type": "text", "text": text}, as_dict(items[-1])
    if last.get("role") != "user":
        return [*items, {"role": "user", "content": [block]}]
    said = last.get("content")
    blocks = [{"type": "text", "text": said}] if isinstance(said, str) else as_list(said)
    return [*items[:-1], {**last, "content": [*blocks, block]}]


def _tool(spec: ToolSpec) -> dict[str, Any]:
    return {"name": spec.name, "description": spec.description, "input_schema": spec.parameters}


def _without_call(response: dict[str, Any], name: str, text: str) -> None:
    kept = [block for block in response["content"] if block.get("type") != "tool_use" or block.get("name") != name]
    if not any(block.get("type") == "tool_use" for block in kept):
        response["stop_reason"] = "end_turn"
    response["content"] = [*kept, *([{"type": "text", "text": text}] if text else [])]


def _claim_items(model: str, message: AssistantMessage, call: ToolCall, result: str) -> list[Any]:
    said = [{"type": "text", "text": message.text}, _call(call)] if message.text else [_call(call)]
    return [{"role": "assistant", "content": said}, {"role": "user", "content": [_result(call, result)]}]


def _add_calls(items: Sequence[Any], at: int, calls: Sequence[ToolCall], result: str) -> list[Any]:
    before, pair, after = items[:at], list(map(as_dict, items[at : at + 2])), items[at + 2 :]
    made = as_list(pair[0].get("content")) if len(pair) == 2 else []
    if not any(as_dict(block).get("type") == "tool_use" for block in made):
        return [*items]
    said, returned = pair
    content = returned.get("content")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else as_list(content)
    said = {**said, "content": [*made, *map(_call, calls)]}
    returned = {**returned, "content": [*(_result(call, result) for call in calls), *blocks]}
    return [*before, said, returned, *after]


def _call(call: ToolCall) -> dict[str, Any]:
    made = as_dict(decode_loosely(call.arguments.encode()))
    return {"type": "tool_use", "id": call.id, "name": call.name, "input": made}


def _result(call: ToolCall, result: str) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call.id, "content": result}


def _add_text_before(response: dict[str, Any], text: str) -> None:
    response["content"] = [{"type": "text", "text": text}, *response["content"]]


def _refusal(reason: str, detail: str, status: int) -> OwnReply:
    """Return Anthropic's error for a request that must not be retried."""
    error = _error(reason, detail, "not_found_error" if status == 404 else "invalid_request_error")
    return OwnReply(status=status, body=msgspec.json.encode({"type": "error", "error": error}))


def _error(reason: str, detail: str, kind: str = "invalid_request_error") -> dict[str, str]:
    return {"type": kind, "message": detail, "code": f"endstop_{reason}"}


_JOINED = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}
"""Field to which a delta adds text, by the delta's type."""


class AnthropicAssembler(ResponseAssembler):
    """Assembler of content blocks into a message."""

    def __init__(self) -> None:
        super().__init__()
        self._message: dict[str, Any] = {}
        self._blocks: dict[int, dict[str, Any]] = {}
        self._texts: dict[tuple[int, str], list[str]] = {}
        """Pieces of a field of a block, by its index and the field."""

    def is_error(self, event: Mapping[str, Any]) -> bool:
        """Return whether an event reports that the response has failed."""
        return event.get("type") == "error"

    def add(self, event: dict[str, Any]) -> None:
        """Add an event. Raises ValueError if it does not fit the earlier ones."""
        index = event.get("index")
        match event.get("type"):
            case _ if self.complete:
                pass
            case "message_start":
                self._begin(as_dict(event.get("message")))
            case "content_block_start" if isinstance(index, int):
                self._blocks[index] = as_dict(event.get("content_block"))
            case "content_block_delta" if isinstance(index, int):
                self._add_delta(index, as_dict(event.get("delta")))
            case "message_delta":
                self._end(event)
            case "message_stop":
                self.complete = bool(self._message)
            case _:
                pass  # a ping, the end of a block, or information for stream clients only

    def _begin(self, message: dict[str, Any]) -> None:
        if self._blocks and message.get("id") != self._message.get("id"):
            raise ValueError("another message began in the middle of this one")
        self._message.update(message)
        for index, block in enumerate(as_list(message.get("content"))):
            self._blocks.setdefault(index, as_dict(block))

    def _add_delta(self, index: int, delta: dict[str, Any]) -> None:
        kind = as_text(delta.get("type"))
        block = self._blocks.get(index)
        if block is None:
            raise ValueError(f"a delta came for the block {index}, which has not begun")
        if kind in _JOINED:
            self._add_text(index, _JOINED[kind], delta.get(_JOINED[kind]))
        elif kind == "input_json_delta":
            self._add_text(index, "input", delta.get("partial_json"))
        elif kind == "citations_delta":
            block["citations"] = cited = as_list(block.get("citations"))
            cited.append(delta.get("citation"))
        else:  # for a block that only its vendor understands: texts grow, all else arrives whole
            for name, value in delta.items():
                if isinstance(value, str) and name != "type":
                    self._add_text(index, name, value)
                elif name != "type":
                    block[name] = value

    def _add_text(self, index: int, field: str, text: Any) -> None:
        self._texts.setdefault((index, field), []).append(as_text(text))

    def _end(self, event: dict[str, Any]) -> None:
        """Add the data at the end: the reason, the counts, and other fields next to them."""
        usage = as_dict(self._message.get("usage"))
        usage.update((name, count) for name, count in as_dict(event.get("usage")).items() if count is not None)
        beside = {name: value for name, value in event.items() if name not in ("type", "delta", "usage")}
        self._message |= {**as_dict(event.get("delta")), **beside, "usage": usage}

    def build(self) -> dict[str, Any]:
        """Return the message. Raises UnfinishedCall if the input of a call is incomplete."""
        for (index, field), pieces in self._texts.items():
            block, text = self._blocks[index], "".join(pieces)
            if field != "input":
                block[field] = as_text(block.get(field)) + text
            elif text:
                block[field] = _input(text)
        self._texts.clear()
        return {**self._message, "content": [block for _, block in sorted(self._blocks.items())]}


def _input(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise UnfinishedCall(f"the input of a call is incomplete: {error}") from None


ANTHROPIC = ProxyWire(
    name="anthropic",
    path=re.compile(r"/messages\Z"),
    items="messages",
    system="system",
    open_parser=lambda request: AnthropicStream(),
    open_end=AnthropicEnd,
    reply=_reply,
    refusal=_refusal,
    tool=_tool,
    without_call=_without_call,
    claim_items=_claim_items,
    add_calls=_add_calls,
    add_text_before=_add_text_before,
    no_calls=b'{"type":"none"}',
    add_user_text=_add_user_text,
    open_assembler=AnthropicAssembler,
    stream_fields=lambda body: {"stream": True},
)
