"""The conformance kit's endpoint in Gemini's wire format, and replies of Gemini's for other tests."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

from endstop.decision import AnyChunk, FinishReport, ReasoningDelta, TextDelta, ToolCallDelta, Usage, UsageReport
from endstop.providers import Gemini
from endstop.testing.conformance.providers import Behaviour, Endpoint

from .endpoint import Reply


class GeminiEndpoint(Endpoint):
    """Plays behaviours as `streamGenerateContent` does, which sends each call in one piece."""

    cannot: ClassVar[frozenset[str]] = frozenset({"fragments", "refusals"})

    def events(self, behaviour: Behaviour, keys: str) -> Iterable[bytes]:
        """The server-sent events of one answer."""
        for value in _values(behaviour.says):
            yield event(value)
        if behaviour.ends == "error":
            failure = behaviour.failure
            assert failure is not None
            error = {"code": failure.status, "message": f"{failure.message} (you sent {keys})", "status": "UNKNOWN"}
            yield event({"error": error})
        elif behaviour.ends == "garbled":
            yield f'data: {{"candidates": [{{"content": {keys}\n\n'.encode()


def gemini_to(endpoint: GeminiEndpoint) -> Gemini:
    return Gemini("gemini-conformance", api_key=endpoint.key, base_url=endpoint.url, read_timeout=endpoint.timeout)


def event(value: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(value, ensure_ascii=False).encode() + b"\n\n"


def parts(*values: dict[str, Any], **candidate: Any) -> dict[str, Any]:
    """One streamed response with these parts."""
    return {"candidates": [{"content": {"role": "model", "parts": list(values)}, **candidate}]}


def finish(word: str, **usage: int) -> dict[str, Any]:
    return {"candidates": [{"finishReason": word}], **({"usageMetadata": usage} if usage else {})}


def gemini(*values: dict[str, Any], ends: str = "whole") -> Reply:
    """A reply with one event for each value."""
    return Reply(pieces=[event(value) for value in values], ends=ends)


def _values(chunks: Iterable[AnyChunk]) -> Iterator[dict[str, Any]]:
    calls: dict[int, ToolCallDelta] = {}
    for chunk in chunks:
        match chunk:
            case ToolCallDelta(index, id, name, arguments):
                begun = calls.get(index) or ToolCallDelta(index, id, name)
                calls[index] = ToolCallDelta(index, begun.id, begun.name, begun.arguments + arguments)
                continue
            case FinishReport(reason, raw):
                yield from (parts(_call(call)) for call in calls.values())
                yield finish(raw or reason)
            case TextDelta(text):
                yield parts({"text": text})
            case ReasoningDelta(text, signature):
                yield parts({"text": text, "thought": True} | ({"thoughtSignature": signature} if signature else {}))
            case UsageReport(usage):
                yield {"usageMetadata": _usage(usage)}
            case _:
                raise TypeError(f"Gemini's format cannot express {chunk!r}")


def _call(call: ToolCallDelta) -> dict[str, Any]:
    function = {"name": call.name, "args": json.loads(call.arguments or "{}")}
    return {"functionCall": function | ({"id": call.id} if call.id else {})}


def _usage(usage: Usage) -> dict[str, int]:
    output = usage.output_tokens - usage.reasoning_tokens
    return {
        "promptTokenCount": usage.input_tokens,
        "candidatesTokenCount": output,
        "thoughtsTokenCount": usage.reasoning_tokens,
        "cachedContentTokenCount": usage.cached_tokens,
        "totalTokenCount": usage.input_tokens + usage.output_tokens,
    }
