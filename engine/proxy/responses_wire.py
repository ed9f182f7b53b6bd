"""OpenAI's Responses API for the proxy. Source: OpenAI API reference, "Responses" and "Streaming events".

The conversation before a `previous_response_id` is stored at the provider and unknown here: such a run is followed by
what it sends. The provider does not know a response that was cut either, so a run that refers to stored responses is
never cut at a completion, and its requests are not answered here. Only a check of the work does both:
see `unstored_response.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from heapq import heappop, heappush
from itertools import takewhile
from typing import Any

import msgspec

from ..decision import AssistantMessage, ToolCall, ToolSpec, Usage
from ..formats.parsing import as_dict, as_list, as_text
from ..providers.event_stream import EventStream
from ..providers.loose_json import decode_loosely
from ..providers.responses_stream import ResponsesStream
from ..providers.surrogate_pairs import EncodableEvents, encodable
from .chat_wire import function_fields, refusal
from .wire import EVENT_STREAM, OwnReply, ProxyWire, ReplyEnd, ResponseAssembler, WireRequest, is_from_model

_WHOLE_FIELDS = {
    "function_call": ("arguments", "response.function_call_arguments.done"),
    "custom_tool_call": ("input", "response.custom_tool_call_input.done"),
}
"""For an item that arrived in deltas: the field that they fill, and the event that has it whole."""


class ResponsesEnd(ReplyEnd):
    """Ending of a stream of output items."""

    def __init__(self, request: WireRequest) -> None:
        self._response: dict[str, Any] = _response(request, "", [], "in_progress", Usage())
        self._items: dict[int, dict[str, Any]] = {}
        self._open: dict[int, list[bytes]] = {}
        """Deltas of each unfinished item, as they arrived."""
        self._begun: list[int] = []
        """Heap of the negated indexes of the items that have begun; some of them may be done."""
        self._sequence = 0
        self._shift = 0
        """Number of items before those of the further response."""

    @property
    def in_thought(self) -> bool:
        """Whether an item of reasoning is open: what it is sent back with comes at its end."""
        return any(self._items[index].get("type") == "reasoning" for index in self._open)

    def see(self, event: bytes) -> None:
        """Keep the response and its items, and the deltas of an item until it is done."""
        self._sequence += 1
        data = event.partition(b"data:")[2]
        if b".delta" in data[:80]:
            while self._begun and -self._begun[0] not in self._open:
                heappop(self._begun)
            if self._begun:
                self._open[-self._begun[0]].append(data)
            return
        if b"response.created" not in data and b"response.output_item." not in data:
            return
        seen = as_dict(decode_loosely(encodable(data)))
        index = seen.get("output_index")
        match seen.get("type"):
            case "response.created":
                self._response |= as_dict(seen.get("response"))
                self.response_id = as_text(self._response.get("id"))
            case "response.output_item.added" if isinstance(index, int):
                self._items[index], self._open[index] = as_dict(seen.get("item")), []
                heappush(self._begun, -index)
            case "response.output_item.done" if isinstance(index, int):
                self._items[index] = as_dict(seen.get("item"))
                self._open.pop(index, None)
            case _:
                pass

    def ends(self, event: bytes) -> bool:
        """Return whether an event says that the response has ended."""
        kind = event.partition(b"event:")[2].partition(b"\n")[0].strip()
        return kind in (b"response.completed", b"response.incomplete", b"response.failed")

    def add(self, text: str) -> bytes:
        """Return the events of a message with the text."""
        index = max(self._items, default=-1) + 1
        item = _message(f"{self.response_id}_{index}", text)
        events = _message_events(index, item, text)
        first, self._sequence = self._sequence, self._sequence + len(events)
        self._items[index], self._shift = item, index + 1
        return _events(events, first)

    def add_calls(self, calls: Sequence[ToolCall], first: int) -> bytes:
        """Return the ends of the open items, and the events of an item for each call."""
        ends, events = self._end_items(), []
        for index, call in enumerate(calls, max(self._items, default=-1) + 1):
            item = {**_call(call), "id": f"{self.response_id}_{index}", "status": "completed"}
            place = {"item_id": item["id"], "output_index": index}
            kind, text = "response.function_call_arguments", call.arguments
            events += [
                {"type": "response.output_item.added", "output_index": index, "item": {**item, "arguments": ""}},
                {"type": f"{kind}.delta", **place, "delta": text},
                {"type": f"{kind}.done", **place, "arguments": text, "name": call.name},
                {"type": "response.output_item.done", "output_index": index, "item": item},
            ]
            self._items[index] = item
        first, self._sequence = self._sequence, self._sequence + len(events)
        return ends + _events(events, first)

    def go_on(self, event: bytes) -> bytes:
        """Return the event with its place in this response; empty for the beginning of another one."""
        seen = as_dict(decode_loosely(encodable(event.partition(b"data:")[2])))
        kind, index = as_text(seen.get("type")), seen.get("output_index")
        if kind in ("response.created", "response.in_progress") or not kind:
            return b"" if kind else event
        if isinstance(index, int):
            seen["output_index"] = index + self._shift
            if kind == "response.output_item.done":
                self._items[index + self._shift] = as_dict(seen.get("item"))
        whole = as_dict(seen.get("response"))
        if whole:
            before = [item for place, item in sorted(self._items.items()) if place < self._shift]
            seen["response"] = {**whole, "output": [*before, *as_list(whole.get("output"))]}
        self._sequence += 1
        return _events([seen], self._sequence - 1)

    def fail(self, reason: str, detail: str) -> bytes:
        """Return the event of a response that has failed."""
        error = {"code": f"endstop_{reason}", "message": detail}
        response = {"id": f"endstop-{reason}", "object": "response", "status": "failed", "error": error, "output": []}
        return _events([{"type": "response.failed", "response": response}])

    def cut(self, usage: Usage) -> bytes:
        """Return the ends of the open items, and the completed response with all of them."""
        ends = self._end_items()
        output = [item for _, item in sorted(self._items.items())]
        whole = {**self._response, "status": "completed", "output": output, "usage": usage_fields(usage)}
        return ends + _events([{"type": "response.completed", "response": whole}], self._sequence)

    def finish(self, text: str, usage: Usage) -> bytes:
        """Return the ends of the open items, a message with the text, and the end of the response."""
        return self._end_items() + self.add(text) + self.cut(usage)

    def _end_items(self) -> bytes:
        events = [one for index in sorted(self._open) for one in self._end_of_item(index)]
        first, self._sequence = self._sequence, self._sequence + len(events)
        self._open.clear()
        return _events(events, first)

    def _end_of_item(self, index: int) -> Iterable[dict[str, Any]]:
        item = self._items[index]
        events = EncodableEvents()
        text = "".join(map(_delta_of, [*events.feed(self._open[index]), *events.end()]))
        item["status"] = "completed"
        field, kind = _WHOLE_FIELDS.get(as_text(item.get("type")), ("", ""))
        if field:
            item[field] = text
            yield {"type": kind, "item_id": item.get("id", ""), "output_index": index, field: text}
        elif item.get("type") == "message":
            item["content"] = _content(text)
        yield {"type": "response.output_item.done", "output_index": index, "item": item}


def _delta_of(data: bytes) -> str:
    return as_text(as_dict(msgspec.json.decode(data)).get("delta"))


def usage_fields(usage: Usage) -> dict[str, Any]:
    """Return a usage in the form of the Responses API."""
    return {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens},
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.input_tokens + usage.output_tokens,
    }


def _response(request: WireRequest, id: str, output: list[Any], status: str, usage: Usage) -> dict[str, Any]:
    return {
        "id": id,
        "object": "response",
        "created_at": 0,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": request.model,
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": usage_fields(usage),
    }


def _content(text: str) -> list[dict[str, Any]]:
    return [{"type": "output_text", "text": text, "annotations": [], "logprobs": []}]


def _events(events: Iterable[dict[str, Any]], first: int = 0) -> bytes:
    numbered = ({**event, "sequence_number": number} for number, event in enumerate(events, first))
    encoded = ((event["type"].encode(), msgspec.json.encode(event)) for event in numbered)
    return b"".join(b"event: %s\ndata: %s\n\n" % one for one in encoded)


def _reply(request: WireRequest, text: str, id: str, usage: Usage) -> OwnReply:
    item = _message(id, text)
    whole = _response(request, id, [item], "completed", usage)
    if not request.streams:
        return OwnReply(body=msgspec.json.encode(whole))
    begun = {**whole, "status": "in_progress", "output": [], "usage": None}
    events = [
        {"type": "response.created", "response": begun},
        {"type": "response.in_progress", "response": begun},
        *_message_events(0, item, text),
        {"type": "response.completed", "response": whole},
    ]
    return OwnReply(content_type=EVENT_STREAM, body=_events(events))


def _message(id: str, text: str) -> dict[str, Any]:
    head = {"type": "message", "id": f"msg_{id}", "status": "completed", "role": "assistant"}
    return {**head, "content": _content(text)}


def _message_events(index: int, item: dict[str, Any], text: str) -> list[dict[str, Any]]:
    place = {"item_id": item["id"], "output_index": index, "content_index": 0}
    (part,) = item["content"]
    return [
        {"type": "response.output_item.added", "output_index": index, "item": {**item, "content": []}},
        {"type": "response.content_part.added", **place, "part": {**part, "text": ""}},
        {"type": "response.output_text.delta", **place, "delta": text, "logprobs": []},
        {"type": "response.output_text.done", **place, "text": text, "logprobs": []},
        {"type": "response.content_part.done", **place, "part": part},
        {"type": "response.output_item.done", "output_index": index, "item": item},
    ]


def _tool(spec: ToolSpec) -> dict[str, Any]:
    return {"type": "function", **function_fields(spec), "strict": False}


def _without_call(response: dict[str, Any], name: str, text: str) -> None:
    kept = [item for item in response["output"] if item.get("type") != "function_call" or item.get("name") != name]
    response["output"] = [*kept, *([_message(as_text(response.get("id")), text)] if text else [])]


def _claim_items(model: str, message: AssistantMessage, call: ToolCall, result: str) -> list[Any]:
    said = [{"role": "assistant", "content": message.text}] if message.text else []
    return [*said, _call(call), _result(call, result)]


def _add_calls(items: Sequence[Any], at: int, calls: Sequence[ToolCall], result: str) -> list[Any]:
    said = list(takewhile(is_from_model, items[at:]))
    if not any(as_dict(item).get("type") == "function_call" for item in said):
        return [*items]
    rest = items[at + len(said) :]
    return [*items[:at], *said, *map(_call, calls), *(_result(call, result) for call in calls), *rest]


def _call(call: ToolCall) -> dict[str, Any]:
    return {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": call.arguments}


def _result(call: ToolCall, result: str) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call.id, "output": result}


def _add_text_before(response: dict[str, Any], text: str) -> None:
    response["output"] = [_message(f"{as_text(response.get('id'))}_before", text), *response["output"]]


class ResponsesAssembler(ResponseAssembler):
    """Assembler that takes the response from its final event, and items that it lacks from their own events."""

    def __init__(self) -> None:
        super().__init__()
        self._response: dict[str, Any] = {}
        self._items: list[tuple[int, Any]] = []

    def is_error(self, event: Mapping[str, Any]) -> bool:
        """Return whether an event reports that the response has failed."""
        return event.get("type") in ("error", "response.failed") or ("error" in event and "type" not in event)

    def add(self, event: dict[str, Any]) -> None:
        """Add an event."""
        match event.get("type"):
            case "response.output_item.done":
                index = event.get("output_index")
                self._items.append((index if isinstance(index, int) else len(self._items), event.get("item")))
            case "response.completed" | "response.incomplete" | "response.cancelled":
                self._response = as_dict(event.get("response"))
                self.complete = bool(self._response)
            case _:
                pass

    def build(self) -> dict[str, Any]:
        """Return the response."""
        if self._response.get("output"):
            return self._response
        return {**self._response, "output": [item for _, item in sorted(self._items, key=lambda one: one[0])]}


def _open_parser(request: WireRequest) -> EventStream:
    offered = map(as_dict, as_list(request.body.get("tools")))
    custom = frozenset(as_text(tool.get("name")) for tool in offered if tool.get("type") == "custom")
    return ResponsesStream(custom=custom)


RESPONSES = ProxyWire(
    name="responses",
    path=re.compile(r"/responses\Z"),
    items="input",
    system="instructions",
    open_parser=_open_parser,
    open_end=ResponsesEnd,
    reply=_reply,
    refusal=refusal,
    tool=_tool,
    without_call=_without_call,
    claim_items=_claim_items,
    add_calls=_add_calls,
    stores=True,
    add_text_before=_add_text_before,
    open_assembler=ResponsesAssembler,
    stream_fields=lambda body: {"stream": True},
)
