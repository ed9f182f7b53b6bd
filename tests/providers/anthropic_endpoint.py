"""The conformance kit's endpoint in the wire format of Anthropic's messages, and such replies for other tests."""

from __future__ import annotations

import json
from typing import Any, ClassVar

from endstop.providers import Anthropic
from endstop.testing.conformance.providers import Endpoint
from endstop.testing.wires import ANTHROPIC

from .endpoint import Reply

START = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude", "content": [], "stop_reason": None}


class AnthropicEndpoint(Endpoint):
    """Plays behaviours as Anthropic's server does."""

    cannot: ClassVar[frozenset[str]] = frozenset({"refusals"})
    wire = ANTHROPIC


def anthropic_to(endpoint: Endpoint) -> Anthropic:
    return Anthropic("claude-conformance", api_key=endpoint.key, api_base=endpoint.url, read_timeout=endpoint.timeout)


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
