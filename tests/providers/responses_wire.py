"""OpenAI's Responses API on loopback: events that a test names, and the conformance kit's behaviours as its events."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from endstop.decision import AnyChunk, FinishReport
from endstop.testing.conformance.providers import Endpoint as ChatEndpoint
from endstop.testing.conformance.providers import ProviderCase
from endstop.testing.wires import RESPONSES

from .endpoint import Reply

WORDS = {"stop": "completed", "tool_calls": "completed", "length": "max_output_tokens"}
"""What this API says where chat completions say something else."""


def event(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": kind, **fields}


def framed(events: Iterable[dict[str, Any]]) -> list[bytes]:
    return [f"event: {one['type']}\ndata: {json.dumps(one)}\n\n".encode() for one in events]


def completed(output: Sequence[dict[str, Any]] = (), status: str = "completed", **fields: Any) -> dict[str, Any]:
    """The last event of a response."""
    response = {"id": "resp_1", "object": "response", "status": status, "output": list(output), **fields}
    return event(f"response.{status}", response=response)


def added(index: int, item: dict[str, Any]) -> dict[str, Any]:
    return event("response.output_item.added", output_index=index, item=item)


def done(index: int, item: dict[str, Any]) -> dict[str, Any]:
    return event("response.output_item.done", output_index=index, item=item)


def text(index: int, delta: str) -> dict[str, Any]:
    return event("response.output_text.delta", output_index=index, content_index=0, delta=delta, logprobs=[])


def message(*texts: str, **fields: Any) -> dict[str, Any]:
    parts = [{"type": "output_text", "text": one, "annotations": []} for one in texts]
    return {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": parts, **fields}


def call(name: str, arguments: str, call_id: str = "call_1", **fields: Any) -> dict[str, Any]:
    head = {"id": f"fc_{call_id}", "type": "function_call", "status": "completed"}
    return {**head, "call_id": call_id, "name": name, "arguments": arguments, **fields}


def replied(*events: dict[str, Any]) -> Reply:
    """A reply with these events."""
    return Reply(pieces=framed(events))


def items(*output: dict[str, Any], **fields: Any) -> Reply:
    """A reply with these items, each of which is there at once, and the end of the response."""
    return replied(*(done(index, item) for index, item in enumerate(output)), completed(output, **fields))


# ---- the behaviours of the conformance kit


def in_words_of_this_api(case: ProviderCase) -> ProviderCase:
    """The case with the finish words that this API has."""
    return replace(case, script=tuple(replace(b, says=tuple(map(_worded, b.says))) for b in case.script))


def _worded(chunk: AnyChunk) -> AnyChunk:
    return FinishReport(chunk.reason, WORDS.get(chunk.raw, chunk.raw)) if isinstance(chunk, FinishReport) else chunk


class ResponsesEndpoint(ChatEndpoint):
    """Plays the behaviours of the kit as streamed responses."""

    wire = RESPONSES
