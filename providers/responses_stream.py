"""Parser for OpenAI's streamed responses (Responses API): bytes in, chunks out.

A response is a list of items: messages, reasoning, function calls, and reports of the provider's tools. Texts and
arguments arrive in deltas, and each item is sent again as a whole when it is done. Servers differ: content missing
from the deltas is taken from the whole item, and missing items are taken from the finished response. Source: OpenAI
API reference, "Responses", "Streaming events".
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from ..decision import (
    AnyChunk,
    FinishReason,
    FinishReport,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    Usage,
)
from ..decision.finish_words import NO_WORDS, parse_finish_reason
from ..decision.reported_usage import reported_usage
from .chat_stream import reported_cost, whole_output
from .errors import Interrupted, ProtocolError
from .event_stream import (
    LEFT_TO_CLIENT,
    EventStream,
    details_of,
    loads,
    quoted,
    stream_error,
    usage_report,
)
from .loose_json import decode_loosely
from .responses_format import (
    BREAK,
    CUSTOM_INPUT,
    Item,
    keep_item,
    parts_of,
    report_citations,
    report_item,
    text_of,
    title_of,
    waits_for_client,
)
from .surrogate_pairs import encodable

TEXT = "response.output_text.delta"
NONE: Any = object()
"""Marks that there is no item yet. None cannot, because a server may leave out the indexes of all items."""


class _Event(Struct, gc=False):
    """One event. Any field may be missing or not of the documented type."""

    type: str | None = None
    output_index: int | None = None
    item_id: Any = None
    delta: Any = None
    summary_index: Any = None
    content_index: Any = None
    item: msgspec.Raw = msgspec.Raw()
    response: msgspec.Raw = msgspec.Raw()


class _Response(Struct, gc=False):
    status: Any = None
    error: Any = None
    incomplete_details: Any = None
    usage: msgspec.Raw = msgspec.Raw()
    output: msgspec.Raw = msgspec.Raw()


_decode = msgspec.json.Decoder(_Event).decode
_decode_response = msgspec.json.Decoder(_Response).decode


class ResponsesStream(EventStream):
    """Parser of one response.

    custom: names of custom tools whose calls the engine runs. runs_items: whether the client acts on items other than
    functions and custom tools. If False, a response that waits for that ends with an error that names the item.
    """

    def __init__(
        self,
        words: Mapping[str, FinishReason] = NO_WORDS,
        custom: frozenset[str] = frozenset(),
        *,
        runs_items: bool = True,
    ) -> None:
        super().__init__(words)
        self._custom = custom
        self._runs_items = runs_items
        self._waiting: dict[str, Item] = {}
        """Items that wait for the client, by the id that a reply to them would name."""
        self._custom_waiting: list[str] = []
        """Ids of the custom tool calls among them."""
        self._indexes: dict[Any, int] = {}
        """Indexes by item id, for servers that send no indexes."""
        self._received: dict[int, list[str]] = {}
        """The deltas received for each item, by its index."""
        self._begun: set[int] = set()
        """Indexes of the calls that have been announced."""
        self._whole: set[int] = set()
        """Indexes of the items that are done."""
        self._heard: set[tuple[str, str]] = set()
        """Keys of the calls that have been announced and of the items that are done; see `_key_of`."""
        self._message: Any = NONE
        """Index of the message to which the latest text belongs."""
        self._texts: list[str] = []
        """The deltas of that message."""
        self._thought: Any = NONE
        """Item and part to which the latest reasoning belongs."""
        self._refused = False
        self._is_ours = False
        """Whether an event of this wire format has been received."""
        self._foreign = b""

    # ---- the body

    def read_event(self, data: bytes, chunks: list[AnyChunk]) -> None:
        """Turn one event into chunks, and append them to `chunks`."""
        try:
            event = _decode(data)
        except (msgspec.DecodeError, RecursionError, ValueError) as error:
            if data[:6] == b"[DONE]":
                self.done = True
                return
            event = _decode_event_loosely(data, error)
        kind, index = event.type, event.output_index
        if kind == TEXT and index == self._message and event.delta and type(event.delta) is str:  # most events
            self._texts.append(event.delta)
            chunks.append(TextDelta(event.delta))
            return
        if index is None:
            index = self._index_of(event)
        read = _READERS.get(kind) if kind is not None else None
        if read is not None:
            self._is_ours = True
            read(self, index, event, chunks)
        elif kind == "response.error" and not self.finished:
            raise stream_error(decode_loosely(data))
        elif kind is not None and kind.startswith("response."):
            self._is_ours = True
        elif not self.finished:
            self._read_foreign(data)

    def _index_of(self, event: _Event) -> int:
        id = event.item_id if isinstance(event.item_id, str) else text_of(_mapping(event.item), "id")
        return self._indexes.setdefault(id, len(self._indexes))

    def _read_foreign(self, data: bytes) -> None:
        value = decode_loosely(data)
        if _is_error(value):
            raise stream_error(value)
        self._foreign = self._foreign or data

    def read_end(self, chunks: list[AnyChunk]) -> None:
        """Raise Interrupted, or ProtocolError for another format: the event that ends a response is missing."""
        if self._foreign and not self._is_ours:
            raise ProtocolError(f"the stream is not in the format of the Responses API: {quoted(self._foreign)}")
        raise Interrupted("the stream ended without the end of the response")

    def read_body(self, body: bytes) -> list[AnyChunk]:
        """Return the chunks of a response that was not streamed."""
        value = decode_loosely(body)
        if not isinstance(value, dict) or not isinstance(value.get("output"), list):
            if _is_error(value):
                raise stream_error(value)
            raise ProtocolError(f"the response is neither a stream nor of the Responses API: {quoted(body)}")
        chunks: list[AnyChunk] = []
        self._finish(_decode_response(body), "", chunks)
        return chunks

    # ---- deltas

    def _read_text(self, index: int, event: _Event, chunks: list[AnyChunk]) -> None:
        text = event.delta
        if type(text) is str and text:
            if index != self._message:
                self._begin_text(index, chunks)
            self._texts.append(text)
            chunks.append(TextDelta(text))

    def _begin_text(self, index: int, chunks: list[AnyChunk]) -> None:
        if self._message is not NONE:
            chunks.append(TextDelta(BREAK))
        self._message = index
        self._texts = self._received.setdefault(index, [])

    def _read_refusal(self, index: int, event: _Event, chunks: list[AnyChunk]) -> None:
        self._refused = True
        self._read_text(index, event, chunks)

    def _read_reasoning(self, index: int, event: _Event, chunks: list[AnyChunk]) -> None:
        text = event.delta
        if type(text) is str and text:
            self._received.setdefault(index, []).append(text)
            self._think((index, event.summary_index, event.content_index), text, chunks)

    def _think(self, place: tuple[Any, Any, Any], text: str, chunks: list[AnyChunk]) -> None:
        if place != self._thought:
            if self._thought is not NONE:
                chunks.append(ReasoningDelta(BREAK))
            self._thought = place
        chunks.append(ReasoningDelta(text))

    def _read_arguments(self, index: int, event: _Event, chunks: list[AnyChunk]) -> None:
        text = event.delta
        if type(text) is str and text:
            self._received.setdefault(index, []).append(text)
            chunks.append(ToolCallDelta(index, arguments=text))

    def _read_input(self, index: int, event: _Event, chunks: list[AnyChunk]) -> None:
        """Append more of the free text for a custom tool of the engine, as part of a JSON string."""
        text = event.delta
        if index in self._begun and type(text) is str and text:
            self._received.setdefault(index, []).append(text)
            chunks.append(ToolCallDelta(index, arguments=json.dumps(text, ensure_ascii=False)[1:-1], whole=False))

    # ---- items

    def _read_item_added(self, index: int, event: _Event, chunks: list[AnyChunk]) -> None:
        item = _mapping(event.item)
        if self._is_call(item):
            self._begin_call(index, item, chunks)

    def _is_call(self, item: Item) -> bool:
        kind = item.get("type")
        return kind == "function_call" or (kind == "custom_tool_call" and text_of(item, "name") in self._custom)

    def _begin_call(self, index: int, item: Item, chunks: list[AnyChunk]) -> None:
        if index in self._begun:
            return
        self._begun.add(index)
        self._heard.add(_key_of(item))
        is_custom = item.get("type") == "custom_tool_call"
        id, name = text_of(item, "call_id") or text_of(item, "id"), text_of(item, "name")
        begin = f'{{"{CUSTOM_INPUT}": "' if is_custom else ""
        chunks.append(ToolCallDelta(index, id, name, begin, whole=False if is_custom else None))

    def _read_item_done(self, index: int, event: _Event, chunks: list[AnyChunk]) -> None:
        self._end_item(index, encodable(bytes(event.item)), chunks)

    def _end_item(self, index: int, raw: bytes, chunks: list[AnyChunk]) -> None:
        """Append the parts of a finished item that no delta brought, and the item itself if it must be sent back."""
        item = _mapping(raw)
        if not item or index in self._whole:
            return
        self._whole.add(index)
        self._heard.add(_key_of(item))
        if self._is_call(item):
            self._end_call(index, item, chunks)
        elif item.get("type") == "message":
            self._end_message(index, item, chunks)
        elif item.get("type") == "reasoning":
            self._end_reasoning(index, item, chunks)
        else:
            chunks += report_item(item)
        self._note_waiting(item)
        if text_of(item, "name") not in self._custom:
            chunks += keep_item(item, raw)

    def _note_waiting(self, item: Item) -> None:
        """Note an item that waits for the client, or remove an earlier one that no longer waits."""
        kind, id = text_of(item, "type"), text_of(item, "call_id") or text_of(item, "id")
        if kind == "message":  # a custom tool of the provider: the model has gone on with its result
            for called in self._custom_waiting:
                if self._waiting.get(called, {}).get("type") == "custom_tool_call":
                    del self._waiting[called]
            self._custom_waiting = []
        elif kind.endswith("_output"):
            self._waiting.pop(id, None)
        elif self._is_call(item):
            for caller in _mapping_of(item.get("caller")).values():  # a program of the provider waits for this call
                self._waiting.pop(str(caller), None)
        elif kind != "reasoning" and waits_for_client(item):
            self._waiting[id] = item
            if kind == "custom_tool_call":
                self._custom_waiting.append(id)

    def _missing(self, index: int, texts: Sequence[str]) -> list[tuple[int, str]]:
        """Return the ends of an item's texts that no delta brought, each with the number of its text.

        Returns nothing if the deltas differ from the texts, because text that was shown cannot be retracted.
        """
        received = "".join(self._received.get(index, ()))
        left, missing = len(received), []
        for number, text in enumerate(texts if "".join(texts).startswith(received) else ()):
            if rest := text[left:]:
                missing.append((number, rest))
            left = max(0, left - len(text))
        return missing

    def _end_call(self, index: int, item: Item, chunks: list[AnyChunk]) -> None:
        self._begin_call(index, item, chunks)
        if item.get("type") == "custom_tool_call":
            rest = "".join(text for _, text in self._missing(index, [text_of(item, "input")]))
            chunks.append(ToolCallDelta(index, arguments=json.dumps(rest, ensure_ascii=False)[1:-1] + '"}', whole=True))
            return
        arguments = text_of(item, "arguments")
        chunks += [ToolCallDelta(index, arguments=rest) for _, rest in self._missing(index, [arguments])]
        if arguments.strip() in ("", "{}") and item.get("status") == "completed":
            chunks.append(ToolCallDelta(index, whole=True))  # otherwise it is known only at the end of the response

    def _end_message(self, index: int, item: Item, chunks: list[AnyChunk]) -> None:
        parts = parts_of(item, "content")
        self._refused = self._refused or any(part.get("type") == "refusal" for part in parts)
        for _, rest in self._missing(index, [text_of(part, "text") or text_of(part, "refusal") for part in parts]):
            if index != self._message:
                self._begin_text(index, chunks)
            chunks.append(TextDelta(rest))
        if cited := [cited for part in parts for cited in parts_of(part, "annotations")]:
            chunks += report_citations(text_of(item, "id"), cited)

    def _end_reasoning(self, index: int, item: Item, chunks: list[AnyChunk]) -> None:
        parts = [*parts_of(item, "summary"), *parts_of(item, "content")]
        for number, rest in self._missing(index, [text_of(part, "text") for part in parts]):
            self._think((index, number, None), rest, chunks)

    # ---- the end of the response

    def _read_end_of_response(self, index: int, event: _Event, chunks: list[AnyChunk]) -> None:
        try:
            response = _decode_response(encodable(bytes(event.response)))
        except (msgspec.DecodeError, RecursionError, ValueError):
            response = _Response()
        self._finish(response, str(event.type).removeprefix("response."), chunks)

    def _finish(self, response: _Response, status: str, chunks: list[AnyChunk]) -> None:
        """Append the end of the response. `status`: the event's status, used if the response has none."""
        is_first = not self._whole and not self._received
        for index, raw in enumerate(_raw_items(response.output), max(self._whole | self._begun, default=-1) + 1):
            if is_first or self._is_unheard(_mapping(raw)):
                self._end_item(index, raw, chunks)
        usage = usage_report(response.usage, _usage)
        word = response.status if isinstance(response.status, str) and response.status else status
        if word == "failed" or (response.error and word != "completed"):
            chunks += usage
            raise stream_error(response.error or {"message": "the response failed, without a reason"})
        self.finished = self.done = True
        chunks += [self._finish_report(word, response.incomplete_details), *usage]

    def _is_unheard(self, item: Item) -> bool:
        """Return whether an item of the finished response is a call or about a tool, and was in no earlier event."""
        return item.get("type") not in ("message", "reasoning") and _key_of(item) not in self._heard

    def _finish_report(self, word: str, details: Any) -> FinishReport:
        if word == "incomplete" and isinstance(details, dict) and isinstance(details.get("reason"), str):
            word = details["reason"] or word
        reason = self._words.get(word)
        if reason is None:
            reason = parse_finish_reason(word)
            if reason == "stop":
                reason = "content_filter" if self._refused else "tool_calls" if self._begun else "stop"
                if self._waiting and not self._runs_items:
                    return FinishReport(
                        "error", LEFT_TO_CLIENT.format(", ".join(map(title_of, self._waiting.values())))
                    )
        return FinishReport(reason, word)


_READERS: dict[str, Callable[[ResponsesStream, int, _Event, list[AnyChunk]], None]] = {
    TEXT: ResponsesStream._read_text,
    "response.function_call_arguments.delta": ResponsesStream._read_arguments,
    "response.reasoning_summary_text.delta": ResponsesStream._read_reasoning,
    "response.reasoning_text.delta": ResponsesStream._read_reasoning,
    "response.refusal.delta": ResponsesStream._read_refusal,
    "response.custom_tool_call_input.delta": ResponsesStream._read_input,
    "response.output_item.added": ResponsesStream._read_item_added,
    "response.output_item.done": ResponsesStream._read_item_done,
    "response.completed": ResponsesStream._read_end_of_response,
    "response.incomplete": ResponsesStream._read_end_of_response,
    "response.failed": ResponsesStream._read_end_of_response,
    "response.cancelled": ResponsesStream._read_end_of_response,
}
"""The method that reads each kind of event. Other kinds only show that the stream is in this format."""


def _mapping_of(value: Any) -> Item:
    return value if isinstance(value, dict) else {}


def _key_of(item: Item) -> tuple[str, str]:
    """Return the type of an item, and the id by which a reply names it or, without that, its own id."""
    return text_of(item, "type"), text_of(item, "call_id") or text_of(item, "id")


def _usage(usage: Mapping[str, Any]) -> Usage | None:
    sent, after = usage.get("input_tokens"), details_of(usage, "output_tokens_details")
    return reported_usage(
        sent,
        whole_output(usage, sent, usage.get("output_tokens"), after),
        cached=details_of(usage, "input_tokens_details").get("cached_tokens"),
        reasoning=after.get("reasoning_tokens"),
        cost=reported_cost(usage),
    )


def _raw_items(raw: msgspec.Raw) -> list[bytes]:
    try:
        return [bytes(one) for one in msgspec.json.decode(raw, type=list[msgspec.Raw])]
    except (msgspec.DecodeError, RecursionError, ValueError):
        return []


def _mapping(raw: bytes | msgspec.Raw) -> Item:
    return _mapping_of(decode_loosely(bytes(raw)))


def _decode_event_loosely(data: bytes, error: Exception) -> _Event:
    """Decode a malformed event, with invalid numbers. Raises ProtocolError."""
    value = loads(data)
    if not isinstance(value, dict):
        raise ProtocolError(f"an event of the stream cannot be read ({error}): {quoted(data)}") from error
    names = ("item_id", "delta", "summary_index", "content_index")
    kind, index = value.get("type"), value.get("output_index")
    return _Event(
        **{name: value.get(name) for name in names},
        type=kind if isinstance(kind, str) else None,
        output_index=index if type(index) is int else None,
        item=msgspec.Raw(json.dumps(value.get("item")).encode()),
        response=msgspec.Raw(json.dumps(value.get("response")).encode()),
    )


def _is_error(value: Any) -> bool:
    """Return whether a value in place of an event or response is an error."""
    if not isinstance(value, dict):
        return False
    if value.get("error") or value.get("type") == "error" or value.get("object") == "error":
        return True
    return isinstance(value.get("message"), str) or bool(value.keys() & {"detail", "errors"})
