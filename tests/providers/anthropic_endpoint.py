"""The conformance kit's endpoint in the wire format of Anthropic's messages, and such replies for other tests."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

from endstop.decision import AnyChunk, FinishReport, ReasoningDelta, TextDelta, ToolCallDelta, Usage, UsageReport
from endstop.providers import Anthropic
from endstop.testing.conformance.providers import Behaviour, Endpoint

from .endpoint import Reply

START = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude", "content": [], "stop_reason": None}


class AnthropicEndpoint(Endpoint):
    """Plays behaviours as Anthropic's server does."""

    cannot: ClassVar[frozenset[str]] = frozenset({"refusals"})

    def events(self, behaviour: Behaviour, keys: str) -> Iterable[bytes]:
        """The server-sent events of one answer."""
        yield event({"type": "message_start", "message": START})
        yield event({"type": "ping"})
        for value in _values(behaviour.says):
            yield event(value)
        if behaviour.ends == "whole":
            yield event({"type": "message_stop"})
        elif behaviour.ends == "error":
            failure = behaviour.failure
            assert failure is not None
            error = {"type": "error", "code": failure.status, "message": f"{failure.message} (you sent {keys})"}
            yield event({"type": "error", "error": error})
        elif behaviour.ends == "garbled":
            yield f'event: content_block_delta\ndata: {{"type": {keys}\n\n'.encode()


def anthropic_to(endpoint: Endpoint) -> Anthropic:
    return Anthropic("claude-conformance", api_key=endpoint.key, base_url=endpoint.url, read_timeout=endpoint.timeout)


def event(value: dict[str, Any]) -> bytes:
    return f"event: {value['type']}\ndata: {json.dumps(value, ensure_ascii=False)}\n\n".encode()


def block(index: int, head: dict[str, Any], *deltas: dict[str, Any]) -> list[dict[str, Any]]:
    """The events of one content block."""
    return [
        {"type": "content_block_start", "index": index, "content_block": head},
        *({"type": "content_block_delta", "index": index, "delta": one} for one in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def text(index: int, *pieces: str, **head: Any) -> list[dict[str, Any]]:
    deltas = [{"type": "text_delta", "text": piece} for piece in pieces]
    return block(index, {"type": "text", "text": "", **head}, *deltas)


def thinking(index: int, said: str, signature: str) -> list[dict[str, Any]]:
    deltas = [{"type": "thinking_delta", "thinking": said}, {"type": "signature_delta", "signature": signature}]
    return block(index, {"type": "thinking", "thinking": "", "signature": ""}, *deltas)


def use(index: int, id: str, name: str, *pieces: str, type: str = "tool_use", **head: Any) -> list[dict[str, Any]]:
    """A call of our tool, or of one of the vendor's, whose arguments come in pieces."""
    deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
    return block(index, {"type": type, "id": id, "name": name, "input": {}, **head}, *deltas)


def ends(reason: str = "end_turn", output: int = 9, **delta: Any) -> list[dict[str, Any]]:
    return [
        {"type": "message_delta", "delta": {"stop_reason": reason, **delta}, "usage": {"output_tokens": output}},
        {"type": "message_stop"},
    ]


def starts(**usage: int) -> dict[str, Any]:
    return {"type": "message_start", "message": {**START, "usage": {"input_tokens": 9, "output_tokens": 1, **usage}}}


def message(*blocks: list[dict[str, Any]], how: str = "whole") -> Reply:
    """A reply of these blocks, ended as the last says."""
    events = [starts(), *(one for each in blocks for one in each)]
    return Reply(pieces=[event(one) for one in events], ends=how)


def _values(chunks: Iterable[AnyChunk]) -> Iterator[dict[str, Any]]:
    """The chunks as content blocks; a block is closed where another kind begins, calls at the end."""
    number, kind, calls = -1, "", dict[int, int]()
    for chunk in chunks:
        match chunk:
            case TextDelta(text):
                if kind != "text":
                    number, kind = number + 1, "text"
                    yield _start(number, {"type": "text", "text": ""})
                yield _delta(number, {"type": "text_delta", "text": text})
            case ReasoningDelta(text, signature):
                if kind != "thinking":
                    number, kind = number + 1, "thinking"
                    yield _start(number, {"type": "thinking", "thinking": ""})
                yield _delta(number, {"type": "thinking_delta", "thinking": text})
                if signature:
                    yield _delta(number, {"type": "signature_delta", "signature": signature})
                    yield {"type": "content_block_stop", "index": number}
                    kind = ""
            case ToolCallDelta(index, id, name, arguments):
                if index not in calls:
                    number, kind = number + 1, "call"
                    calls[index] = number
                    yield _start(number, {"type": "tool_use", "id": id, "name": name, "input": {}})
                yield _delta(calls[index], {"type": "input_json_delta", "partial_json": arguments})
            case FinishReport(reason, raw):
                yield from ({"type": "content_block_stop", "index": at} for at in calls.values())
                yield {"type": "message_delta", "delta": {"stop_reason": raw or reason}}
            case UsageReport(usage):
                yield {"type": "message_delta", "delta": {}, "usage": _usage(usage)}
            case _:
                raise TypeError(f"Anthropic's format cannot express {chunk!r}")


def _start(index: int, head: dict[str, Any]) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": head}


def _delta(index: int, delta: dict[str, Any]) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": delta}


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.input_tokens - usage.cached_tokens,
        "cache_read_input_tokens": usage.cached_tokens,
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"thinking_tokens": usage.reasoning_tokens},
    }
