"""Behaviours in the words of OpenAI's chat completions, streamed.

Source: OpenAI API reference, "The chat completion chunk object".
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from ...decision import AnyChunk, FinishReport, ReasoningDelta, TextDelta, ToolCallDelta, Usage, UsageReport
from .harness import Behaviour


def events(behaviour: Behaviour, keys: str) -> Iterator[bytes]:
    """The events of one answer, each whole. `keys` is what an error says again."""
    yield _event(_delta({"role": "assistant", "content": ""}))
    for chunk in behaviour.says:
        yield _event(_chunk(chunk, behaviour.refusing))
    if behaviour.ends == "whole":
        yield b"data: [DONE]\n\n"
    elif behaviour.ends == "error":
        yield _event(_error(behaviour, keys))
    elif behaviour.ends == "garbled":
        yield f'data: {{"choices": [{{"delta": {keys}\n\n'.encode()


def refusal(behaviour: Behaviour, keys: str) -> bytes:
    """A whole HTTP answer that is none."""
    failure = behaviour.failure
    assert failure is not None
    body = json.dumps(_error(behaviour, keys)).encode()
    head = [
        f"HTTP/1.1 {failure.status} Refused",
        "content-type: application/json",
        f"content-length: {len(body)}",
        f"x-you-sent: {keys}",
    ]
    if failure.retry_after is not None:
        head.append(f"retry-after: {failure.retry_after:g}")
    return "\r\n".join([*head, "", ""]).encode() + body


def _event(value: dict[str, Any]) -> bytes:
    whole = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "conformance"}
    return b"data: " + json.dumps(value if "error" in value else whole | value).encode() + b"\n\n"


def _chunk(chunk: AnyChunk, refusing: bool) -> dict[str, Any]:
    match chunk:
        case TextDelta(text):
            return _delta({"refusal" if refusing else "content": text})
        case ReasoningDelta(text=text):
            return _delta({"reasoning_content": text})
        case ToolCallDelta():
            return _delta({"tool_calls": [_call(chunk)]})
        case FinishReport(reason, raw):
            return {"choices": [{"index": 0, "delta": {}, "finish_reason": raw or reason}]}
        case UsageReport(usage):
            return {"choices": [], "usage": _usage(usage)}
        case _:
            raise TypeError(f"the chat format has no words for {chunk!r}")


def _delta(delta: dict[str, Any]) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}


def _call(chunk: ToolCallDelta) -> dict[str, Any]:
    function = {"arguments": chunk.arguments} | ({"name": chunk.name} if chunk.name else {})
    head = {"index": chunk.index, "type": "function", "function": function}
    return head | ({"id": chunk.id} if chunk.id else {})


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }


def _error(behaviour: Behaviour, keys: str) -> dict[str, Any]:
    failure = behaviour.failure
    assert failure is not None
    return {"error": {"message": f"{failure.message} (you sent {keys})", "type": "error", "code": failure.status}}
