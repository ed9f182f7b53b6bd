"""Wire formats of models: a response as the events of its stream. Chunks in, bytes out.

This is the model's side, for tests of providers: `CHAT` (OpenAI's chat completions), `RESPONSES` (OpenAI's Responses
API), `ANTHROPIC` (Messages API) and `GEMINI` (`streamGenerateContent`). Sources: the API references of the vendors.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

from ..decision import AnyChunk, FinishReport, ReasoningDelta, TextDelta, ToolCallDelta, Usage, UsageReport

Value = dict[str, Any]
"""Data of one event."""


class WireFormat(ABC):
    """One wire format."""

    name: ClassVar[str]
    path: ClassVar[str]
    """End of a request's path, without its query."""
    broken: ClassVar[bytes]
    """Beginning of an event whose data never becomes JSON."""
    end: ClassVar[bytes] = b""
    """Bytes that end a whole stream after its last value."""

    @abstractmethod
    def values(self, says: Iterable[AnyChunk], refusing: bool = False) -> Iterator[Value]:
        """Return the events of a response, without its end.

        refusing: whether the text is in a field for refusals, if the format has one. Raises TypeError for a chunk for
        which the format has no event.
        """

    @abstractmethod
    def error(self, message: str, status: int | None) -> Value:
        """Return the event of an error in the stream. status: the HTTP status that the error would have had."""

    def frame(self, value: Value) -> bytes:
        """Return a value as a server-sent event."""
        return b"data: " + json.dumps(value, ensure_ascii=False).encode() + b"\n\n"

    def stream(self, says: Iterable[AnyChunk]) -> list[bytes]:
        """Return a whole response as server-sent events."""
        return [*map(self.frame, self.values(says)), *([self.end] if self.end else [])]

    def __repr__(self) -> str:
        return self.name


class _Chat(WireFormat):
    """OpenAI API reference, "The chat completion chunk object"."""

    name = "chat"
    path = "/chat/completions"
    broken = b'data: {"choices": [{"delta": '
    end = b"data: [DONE]\n\n"

    def values(self, says: Iterable[AnyChunk], refusing: bool = False) -> Iterator[Value]:
        """Yield the chunks of a completion."""
        head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        yield head | _choice({"role": "assistant", "content": ""})
        for chunk in says:
            yield head | self._value(chunk, refusing)

    def error(self, message: str, status: int | None) -> Value:
        """Return an error in place of a chunk."""
        return {"error": {"message": message, "type": "error", "code": status}}

    def _value(self, chunk: AnyChunk, refusing: bool) -> Value:
        match chunk:
            case TextDelta(text):
                return _choice({"refusal" if refusing else "content": text})
            case ReasoningDelta(text=text):
                return _choice({"reasoning_content": text})
            case ToolCallDelta():
                return _choice({"tool_calls": [_chat_call(chunk)]})
            case FinishReport(reason, raw):
                return {"choices": [{"index": 0, "delta": {}, "finish_reason": raw or reason}]}
            case UsageReport(usage):
                return {"choices": [], "usage": _chat_usage(usage)}
            case _:
                raise TypeError(f"the chat format cannot express {chunk!r}")


def _choice(delta: Value) -> Value:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}


def _chat_call(chunk: ToolCallDelta) -> Value:
    function = {"arguments": chunk.arguments} | ({"name": chunk.name} if chunk.name else {})
    head = {"index": chunk.index, "type": "function", "function": function}
    return head | ({"id": chunk.id} if chunk.id else {})


def _chat_usage(usage: Usage) -> Value:
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }


class _Anthropic(WireFormat):
    """Anthropic API reference, "Streaming Messages"."""

    name = "anthropic"
    path = "/messages"
    broken = b'event: content_block_delta\ndata: {"type": '
    end = b'event: message_stop\ndata: {"type": "message_stop"}\n\n'

    def values(self, says: Iterable[AnyChunk], refusing: bool = False) -> Iterator[Value]:
        """Yield the chunks as content blocks. A block ends when another kind begins; calls end at the end."""
        message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude", "content": []}
        yield {"type": "message_start", "message": message | {"stop_reason": None}}
        yield {"type": "ping"}
        number, kind, calls = -1, "", dict[int, int]()
        for chunk in says:
            match chunk:
                case TextDelta(text):
                    if kind != "text":
                        number, kind = number + 1, "text"
                        yield _block(number, {"type": "text", "text": ""})
                    yield _block_delta(number, {"type": "text_delta", "text": text})
                case ReasoningDelta(text, signature):
                    if kind != "thinking":
                        number, kind = number + 1, "thinking"
                        yield _block(number, {"type": "thinking", "thinking": ""})
                    yield _block_delta(number, {"type": "thinking_delta", "thinking": text})
                    if signature:
                        yield _block_delta(number, {"type": "signature_delta", "signature": signature})
                        yield {"type": "content_block_stop", "index": number}
                        kind = ""
                case ToolCallDelta(index, id, name, arguments):
                    if index not in calls:
                        number, kind = number + 1, "call"
                        calls[index] = number
                        yield _block(number, {"type": "tool_use", "id": id, "name": name, "input": {}})
                    yield _block_delta(calls[index], {"type": "input_json_delta", "partial_json": arguments})
                case FinishReport(reason, raw):
                    yield from ({"type": "content_block_stop", "index": at} for at in calls.values())
                    yield {"type": "message_delta", "delta": {"stop_reason": raw or reason}}
                case UsageReport(usage):
                    yield {"type": "message_delta", "delta": {}, "usage": _anthropic_usage(usage)}
                case _:
                    raise TypeError(f"Anthropic's format cannot express {chunk!r}")

    def error(self, message: str, status: int | None) -> Value:
        """Return an event of type `error`."""
        return {"type": "error", "error": {"type": "error", "code": status, "message": message}}

    def frame(self, value: Value) -> bytes:
        """Return a value as a server-sent event with its type as its name."""
        return _named_event(value)


def _named_event(value: Value) -> bytes:
    return f"event: {value['type']}\ndata: {json.dumps(value, ensure_ascii=False)}\n\n".encode()


def _block(index: int, head: Value) -> Value:
    return {"type": "content_block_start", "index": index, "content_block": head}


def _block_delta(index: int, delta: Value) -> Value:
    return {"type": "content_block_delta", "index": index, "delta": delta}


def _anthropic_usage(usage: Usage) -> Value:
    return {
        "input_tokens": usage.input_tokens - usage.cached_tokens,
        "cache_read_input_tokens": usage.cached_tokens,
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"thinking_tokens": usage.reasoning_tokens},
    }


class _Gemini(WireFormat):
    """Gemini API reference, "GenerateContentResponse". Each call comes in one piece."""

    name = "gemini"
    path = ":streamGenerateContent"
    broken = b'data: {"candidates": [{"content": '

    def values(self, says: Iterable[AnyChunk], refusing: bool = False) -> Iterator[Value]:
        """Yield the parts of a candidate."""
        calls: dict[int, ToolCallDelta] = {}
        for chunk in says:
            match chunk:
                case ToolCallDelta(index, id, name, arguments):
                    begun = calls.get(index) or ToolCallDelta(index, id, name)
                    calls[index] = ToolCallDelta(index, begun.id, begun.name, begun.arguments + arguments)
                case FinishReport(reason, raw):
                    yield from (_part(_gemini_call(call)) for call in calls.values())
                    yield {"candidates": [{"finishReason": raw or reason}]}
                case TextDelta(text):
                    yield _part({"text": text})
                case ReasoningDelta(text, signature):
                    yield _part(
                        {"text": text, "thought": True} | ({"thoughtSignature": signature} if signature else {})
                    )
                case UsageReport(usage):
                    yield {"usageMetadata": _gemini_usage(usage)}
                case _:
                    raise TypeError(f"Gemini's format cannot express {chunk!r}")

    def error(self, message: str, status: int | None) -> Value:
        """Return an error in place of a response."""
        return {"error": {"code": status, "message": message, "status": "UNKNOWN"}}


def _part(part: Value) -> Value:
    return {"candidates": [{"content": {"role": "model", "parts": [part]}}]}


def _gemini_call(call: ToolCallDelta) -> Value:
    function = {"name": call.name, "args": json.loads(call.arguments or "{}")}
    return {"functionCall": function | ({"id": call.id} if call.id else {})}


def _gemini_usage(usage: Usage) -> dict[str, int]:
    return {
        "promptTokenCount": usage.input_tokens,
        "candidatesTokenCount": usage.output_tokens - usage.reasoning_tokens,
        "thoughtsTokenCount": usage.reasoning_tokens,
        "cachedContentTokenCount": usage.cached_tokens,
        "totalTokenCount": usage.input_tokens + usage.output_tokens,
    }


class _Responses(WireFormat):
    """OpenAI API reference, "Responses: streaming events". The finish is the `status` of its last event."""

    name = "responses"
    path = "/responses"
    broken = b'event: response.output_text.delta\ndata: {"delta": '

    def values(self, says: Iterable[AnyChunk], refusing: bool = False) -> Iterator[Value]:
        """Yield the items of a response, each with its deltas."""
        yield {"type": "response.created", "response": {"status": "in_progress", "output": [], "usage": None}}
        output = _Output(refusing)
        for chunk in says:
            yield from output.add(chunk)
        yield from output.finish()

    def error(self, message: str, status: int | None) -> Value:
        """Return an event of type `error`."""
        return {"type": "error", "code": str(status), "message": message, "param": None}

    def frame(self, value: Value) -> bytes:
        """Return a value as a server-sent event with its type as its name."""
        return _named_event(value)


class _Output:
    """Items of one response, so far."""

    def __init__(self, refusing: bool) -> None:
        self._refusing = refusing
        self._items: list[Value] = []
        self._places: dict[str, int] = {}
        self._status: str | None = None
        self._usage: Usage | None = None

    def add(self, chunk: AnyChunk) -> Iterator[Value]:
        """Yield the events of one chunk."""
        match chunk:
            case TextDelta(delta):
                kind = "refusal" if self._refusing else "output_text"
                yield from self._delta("message", {"type": "message", "content": [{"type": kind}]}, kind, delta)
            case ReasoningDelta(text=delta):
                yield from self._delta("reasoning", {"type": "reasoning"}, "reasoning_summary_text", delta)
            case ToolCallDelta():
                head = {"type": "function_call", "name": chunk.name, "arguments": ""}
                head |= {"call_id": chunk.id} if chunk.id else {}
                yield from self._delta(f"call {chunk.index}", head, "function_call_arguments", chunk.arguments)
            case FinishReport(_, raw):
                self._status = raw
            case UsageReport(usage):
                self._usage = usage
            case _:
                raise TypeError(f"the Responses format cannot express {chunk!r}")

    def finish(self) -> Iterator[Value]:
        """Yield the events of the end; none without a finish."""
        if self._status is None:
            return
        whole = self._status == "completed"
        if whole:
            for index, item in enumerate(self._items):
                yield {
                    "type": "response.output_item.done",
                    "output_index": index,
                    "item": {**item, "status": "completed"},
                }
        status = "completed" if whole else "incomplete"
        response = {"id": "resp_1", "object": "response", "status": status, "output": self._items}
        details = None if whole else {"reason": self._status}
        usage = None if self._usage is None else _responses_usage(self._usage)
        yield {"type": f"response.{status}", "response": {**response, "incomplete_details": details, "usage": usage}}

    def _delta(self, place: str, head: Value, kind: str, delta: str) -> Iterator[Value]:
        index = self._places.get(place)
        if index is None:
            index = self._places[place] = len(self._items)
            self._items.append(head)
            yield {"type": "response.output_item.added", "output_index": index, "item": head}
        if delta:
            yield {"type": f"response.{kind}.delta", "output_index": index, "delta": delta}


def _responses_usage(usage: Usage) -> Value:
    return {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens},
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.input_tokens + usage.output_tokens,
    }


CHAT, RESPONSES, ANTHROPIC, GEMINI = _Chat(), _Responses(), _Anthropic(), _Gemini()
WIRES: tuple[WireFormat, ...] = (CHAT, RESPONSES, ANTHROPIC, GEMINI)
"""All wire formats."""
