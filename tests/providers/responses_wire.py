"""OpenAI's Responses API on loopback: events that a test names, and the conformance kit's behaviours as its events."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from endstop.decision import AnyChunk, FinishReport, ReasoningDelta, TextDelta, ToolCallDelta, Usage, UsageReport
from endstop.testing.conformance.providers import Behaviour, ProviderCase
from endstop.testing.conformance.providers import Endpoint as ChatEndpoint

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

    def events(self, behaviour: Behaviour, keys: str) -> Iterator[bytes]:
        """The server-sent events of one answer."""
        yield from framed(_Spoken(behaviour).events())
        failure = behaviour.failure
        if behaviour.ends == "error":
            assert failure is not None
            said = f"{failure.message} (you sent {keys})"
            yield from framed([event("error", code=str(failure.status), message=said, param=None)])
        elif behaviour.ends == "garbled":
            yield f'event: response.output_text.delta\ndata: {{"delta": {keys}\n\n'.encode()


class _Spoken:
    """One behaviour: its items, each with what its deltas brought."""

    def __init__(self, behaviour: Behaviour) -> None:
        self._behaviour = behaviour
        self._items: list[dict[str, Any]] = []
        self._places: dict[str, int] = {}
        self._finish: str | None = None
        self._usage: Usage | None = None

    def events(self) -> Iterator[dict[str, Any]]:
        yield event("response.created", response={"status": "in_progress", "output": [], "usage": None})
        for chunk in self._behaviour.says:
            yield from self._delta(chunk)
        if self._finish is None:
            return
        whole = self._finish == "completed"
        if whole:
            yield from (done(index, {**item, "status": "completed"}) for index, item in enumerate(self._items))
        details = None if whole else {"reason": self._finish}
        status = "completed" if whole else "incomplete"
        yield completed(self._items, status, incomplete_details=details, usage=_usage(self._usage))

    def _delta(self, chunk: AnyChunk) -> Iterator[dict[str, Any]]:
        match chunk:
            case TextDelta(delta):
                kind = "refusal" if self._behaviour.refusing else "output_text"
                yield from self._part("message", {"type": "message", "content": [{"type": kind}]}, kind, delta)
            case ReasoningDelta(text=delta):
                yield from self._part("reasoning", {"type": "reasoning"}, "reasoning_summary_text", delta)
            case ToolCallDelta():
                head = {"type": "function_call", "name": chunk.name, "arguments": ""}
                head |= {"call_id": chunk.id} if chunk.id else {}
                yield from self._part(f"call {chunk.index}", head, "function_call_arguments", chunk.arguments)
            case FinishReport(_, raw):
                self._finish = raw
            case UsageReport(usage):
                self._usage = usage
            case _:
                raise TypeError(f"this format cannot express {chunk!r}")

    def _part(self, place: str, head: dict[str, Any], kind: str, delta: str) -> Iterator[dict[str, Any]]:
        index = self._places.get(place)
        if index is None:
            index = self._places[place] = len(self._items)
            self._items.append(head)
            yield added(index, head)
        if delta:
            yield event(f"response.{kind}.delta", output_index=index, delta=delta)


def _usage(usage: Usage | None) -> dict[str, Any] | None:
    if usage is None:
        return None
    return {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens},
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.input_tokens + usage.output_tokens,
    }
