"""OpenAI's chat completions. Source: OpenAI API reference, "Chat completions"."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ..decision import AssistantMessage, ToolCall, ToolSpec, Usage
from ..formats.parsing import as_dict, as_list
from ..providers.chat_stream import ChatStream
from ..providers.loose_json import decode_loosely
from ..providers.surrogate_pairs import encodable
from .chat_assembler import ChatAssembler
from .wire import EVENT_STREAM, OwnReply, ProxyWire, ReplyEnd, WireRequest

DONE = b"data: [DONE]\n\n"


class ChatEnd(ReplyEnd):
    """Ends a stream of chunks."""

    def __init__(self, request: WireRequest) -> None:
        self._head: dict[str, Any] = {"id": "", "object": "chat.completion.chunk", "created": 0, "model": request.model}
        self._seen = False
        self._wants_usage = as_dict(request.body.get("stream_options")).get("include_usage") is True

    def see(self, event: bytes) -> None:
        """Take id, time and model from the first chunk."""
        if self._seen or not event.startswith(b"data: {"):
            return
        self._seen = True
        chunk = as_dict(decode_loosely(encodable(event[6:])))
        self._head |= {name: chunk[name] for name in ("id", "created", "model") if name in chunk}

    def ends(self, event: bytes) -> bool:
        """Return whether a chunk has the finish reason or the usage, or is the end."""
        if not event.startswith(b"data:"):
            return False
        data = event[5:].strip()
        if data.startswith(b"[DONE]"):
            return True
        chunk = as_dict(decode_loosely(encodable(data)))
        choices = as_list(chunk.get("choices"))
        if not choices:  # some servers send such a chunk before everything else
            return chunk.get("usage") is not None
        return as_dict(choices[0]).get("finish_reason") is not None

    def add(self, text: str) -> bytes:
        """Return a chunk with the text; with the role, too, if no chunk came before it."""
        return self._delta({"content": text})

    def add_calls(self, calls: Sequence[ToolCall], first: int) -> bytes:
        """Return a chunk with the calls."""
        return self._delta({"tool_calls": [{"index": index, **_call(one)} for index, one in enumerate(calls, first)]})

    def _delta(self, fields: dict[str, Any]) -> bytes:
        delta = fields if self._seen else {"role": "assistant", **fields}
        self._seen = True
        return _event({**self._head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})

    def go_on(self, event: bytes) -> bytes:
        """Return the event without the role, which clients would add to the one that they have."""
        if b'"role"' not in event or not event.startswith(b"data: {"):
            return event
        chunk = as_dict(decode_loosely(encodable(event[6:])))
        for choice in as_list(chunk.get("choices")):
            as_dict(as_dict(choice).get("delta")).pop("role", None)
        return _event(chunk)

    def fail(self, reason: str, detail: str) -> bytes:
        """A chunk with the error, and the end."""
        return _event(_error(reason, detail)) + DONE

    def cut(self, usage: Usage) -> bytes:
        """A chunk with the finish reason, one with the usage if it was asked for, and the end."""
        return self._last("tool_calls", usage)

    def _last(self, reason: str, usage: Usage) -> bytes:
        last = [{"index": 0, "delta": {}, "finish_reason": reason}]
        events = [_event({**self._head, "choices": last})]
        if self._wants_usage:
            events.append(_event({**self._head, "choices": [], "usage": usage_fields(usage)}))
        return b"".join([*events, DONE])

    def finish(self, text: str, usage: Usage) -> bytes:
        """A chunk with the text, and the end."""
        return self.add(text) + self._last("stop", usage)


def usage_fields(usage: Usage) -> dict[str, Any]:
    """A usage as chat completions report it."""
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
    }


def _event(chunk: dict[str, Any]) -> bytes:
    return b"data: " + msgspec.json.encode(chunk) + b"\n\n"


def _reply(request: WireRequest, text: str, id: str, usage: Usage) -> OwnReply:
    head = {"id": id, "created": 0, "model": request.model}
    message = {"role": "assistant", "content": text}
    if not request.streams:
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        whole = {**head, "object": "chat.completion", "choices": [choice], "usage": usage_fields(usage)}
        return OwnReply(body=msgspec.json.encode(whole))
    head["object"] = "chat.completion.chunk"
    chunks = [
        {**head, "choices": [{"index": 0, "delta": message, "finish_reason": None}]},
        {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
    ]
    if as_dict(request.body.get("stream_options")).get("include_usage") is True:
        chunks.append({**head, "choices": [], "usage": usage_fields(usage)})
    return OwnReply(content_type=EVENT_STREAM, body=b"".join([*map(_event, chunks), DONE]))


def refusal(reason: str, detail: str, status: int) -> OwnReply:
    """OpenAI's error for a request that is not retried; of the same type with both statuses."""
    return OwnReply(status=status, body=msgspec.json.encode(_error(reason, detail)))


def _error(reason: str, detail: str) -> dict[str, Any]:
    code = f"endstop_{reason}"
    return {"error": {"message": detail, "type": "invalid_request_error", "param": None, "code": code}}


def _tool(spec: ToolSpec) -> dict[str, Any]:
    return {"type": "function", "function": function_fields(spec)}


def function_fields(spec: ToolSpec) -> dict[str, Any]:
    """A function as OpenAI's requests describe it."""
    return {"name": spec.name, "description": spec.description, "parameters": spec.parameters}


def _without_call(response: dict[str, Any], name: str, text: str) -> None:
    choice = response["choices"][0]
    message = choice["message"]
    kept = [call for call in message["tool_calls"] if as_dict(call.get("function")).get("name") != name]
    message["tool_calls"] = kept
    if not kept:
        del message["tool_calls"]
        choice["finish_reason"] = "stop"
    if text:
        message["content"] = "\n\n".join(filter(None, (message.get("content"), text)))


def _claim_items(model: str, message: AssistantMessage, call: ToolCall, result: str) -> list[Any]:
    return [{"role": "assistant", "content": message.text or None, "tool_calls": [_call(call)]}, _result(call, result)]


def _add_calls(items: Sequence[Any], at: int, calls: Sequence[ToolCall], result: str) -> list[Any]:
    before, said, after = items[:at], items[at : at + 1], items[at + 1 :]
    made = as_list(as_dict(said[0]).get("tool_calls")) if said else []
    if not made:
        return [*items]
    message = {**said[0], "tool_calls": [*made, *map(_call, calls)]}
    return [*before, message, *(_result(call, result) for call in calls), *after]


def _call(call: ToolCall) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def _result(call: ToolCall, result: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call.id, "content": result}


def _add_text_before(response: dict[str, Any], text: str) -> None:
    message = response["choices"][0]["message"]
    message["content"] = "\n\n".join(filter(None, (text, message.get("content"))))


def _stream_fields(body: Mapping[str, Any]) -> dict[str, Any]:
    return {"stream": True, "stream_options": {**as_dict(body.get("stream_options")), "include_usage": True}}


CHAT = ProxyWire(
    name="openai",
    path=re.compile(r"/chat/completions\Z"),
    items="messages",
    system="",
    open_parser=lambda request: ChatStream(),
    open_end=ChatEnd,
    reply=_reply,
    refusal=refusal,
    tool=_tool,
    without_call=_without_call,
    claim_items=_claim_items,
    add_calls=_add_calls,
    add_text_before=_add_text_before,
    open_assembler=ChatAssembler,
    stream_fields=_stream_fields,
    unstreamed_fields=("audio",),  # it comes in another format, which the request would have to name
)
