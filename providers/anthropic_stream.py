"""Parser for Anthropic's streamed messages: bytes in, chunks out.

A response is a list of content blocks, each with a start, deltas and a stop. Texts, thinking and calls of our tools
become chunks as they arrive. Everything else is kept unchanged, because the vendor wants it back: see
`anthropic_format.py`. Source: Anthropic API reference, "Streaming messages".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from ..decision import (
    AnyChunk,
    FinishReason,
    FinishReport,
    ProviderToolReport,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    Usage,
    UsageReport,
)
from ..decision.assembler import GrowingText
from ..decision.finish_words import NO_WORDS, parse_finish_reason
from ..decision.reported_usage import reported_usage, sum_of_counts, token_count
from .errors import Interrupted, ProtocolError
from .event_stream import LEFT_TO_CLIENT, EventStream, details_of, loads, quoted, stream_error, titled
from .loose_json import decode_loosely
from .surrogate_pairs import encodable

VENDOR = "anthropic"
"""Name of this wire format in `Reasoning.vendor`."""
CITATION = "citation"
"""`ProviderToolReport.name` of a citation, which names the source of a piece of text."""
REFUSAL = "refusal"
"""`ProviderToolReport.name` of the details of a refusal: its category and an explanation."""
TEXT, THINKING, CALL = "text", "thinking", "tool_use"
COUNTED = ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
RUN_BY_VENDOR = frozenset({"server_tool_use", "mcp_tool_use"})
"""Types of the blocks that call tools run by the vendor."""
PLAIN_CALL = frozenset({"type", "id", "name", "input"})
"""Fields of a call that a request restores from the call itself."""


class _Wire(Struct, gc=False):
    """Short-lived objects decoded from the wire, not tracked by the garbage collector."""


class _Delta(_Wire):
    type: str | None = None
    text: str | None = None
    partial_json: str | None = None
    thinking: str | None = None
    signature: str | None = None
    stop_reason: str | None = None


class _Event(_Wire):
    type: str | None = None
    index: int | None = None
    delta: _Delta | None = None
    content_block: msgspec.Raw = msgspec.Raw()
    message: msgspec.Raw = msgspec.Raw()
    usage: msgspec.Raw = msgspec.Raw()


_decode = msgspec.json.Decoder(_Event).decode


class _Block:
    """One content block, as far as it has arrived."""

    __slots__ = ("arguments", "citations", "fields", "grown", "kind", "raw", "signature")

    def __init__(self, fields: dict[str, Any], raw: bytes) -> None:
        self.fields = fields
        self.raw = raw
        """Its JSON as it was sent; empty once something was added to it."""
        self.kind: str = str(fields.get("type") or "")
        self.arguments: list[str] = []
        """Pieces of the JSON text of its input."""
        self.citations: list[Any] = list_of(fields.get("citations"))
        self.grown: dict[str, list[str]] = {}
        """Pieces that were added to other texts among its fields."""
        self.signature = GrowingText(_string(fields.get("signature")))


class AnthropicStream(EventStream):
    """Parser of one streamed response.

    runs_items: whether the client runs tools whose calls are not `tool_use` blocks. If False, a response that waits for
    such a tool ends with an error that names the block.
    """

    def __init__(self, words: Mapping[str, FinishReason] = NO_WORDS, *, runs_items: bool = True) -> None:
        super().__init__(words)
        self._runs_items = runs_items
        self._waiting: dict[str, tuple[str, str]] = {}
        """Blocks that may wait for the client, by id: their types and the names in them."""
        self._calls = 0
        """Number of the calls of our tools."""
        self._blocks: dict[int, _Block] = {}
        self._counts: dict[str, int] = {}
        """The latest counts of tokens. Each is a total for the whole response; a later event may lack some."""
        self._message: dict[str, Any] = {}
        """The message as its first event had it, usually without content."""
        self._has_content = False
        self._foreign = b""
        self._names: dict[str, str] = {}
        """Names of the tools that the vendor runs, by the id of their use."""
        self._after_text = False
        """Whether the latest block is a text without citations. An item then separates it from a text that follows."""

    # ---- events

    def read_event(self, data: bytes, chunks: list[AnyChunk]) -> None:
        """Turn one event into chunks, and append them to `chunks`."""
        try:
            event = _decode(data)
        except (msgspec.DecodeError, RecursionError, ValueError) as error:
            data = _mended(data, error)
            event = _decode(data)
        kind = event.type
        if kind == "content_block_delta":
            if (delta := event.delta) is None:
                return
            if delta.type == "text_delta":  # first and here: nearly all events are text
                if delta.text:
                    chunks.append(TextDelta(delta.text))
            else:
                self._add_delta(event.index or 0, delta, data, chunks)
        elif kind == "content_block_start":
            raw = encodable(bytes(event.content_block))
            self._start_block(event.index or 0, _fields(raw), chunks, raw)
        elif kind == "content_block_stop":
            self._stop_block(event.index or 0, chunks)
        elif kind == "message_start":
            self._start_message(_fields(event.message), chunks)
        elif kind == "message_delta":
            self._end_message(data, event, chunks)
        elif kind == "message_stop":
            if not self.finished and self._message.get("stop_reason"):  # the whole text came with the block's start
                self._finish(self._message, chunks)
            self.done = self.finished
        elif kind == "error" or (kind is None and self._message and "error" in _fields(msgspec.Raw(data))):
            if not self.finished:
                raise stream_error(decode_loosely(data))
        elif kind != "ping":
            self._foreign = self._foreign or data

    def read_end(self, chunks: list[AnyChunk]) -> None:
        """Raise Interrupted, or ProtocolError for another format: a response without a stop reason is incomplete."""
        if self._foreign and not self._message:
            if isinstance(value := decode_loosely(self._foreign), dict) and value.get("error"):
                raise stream_error(value)
            raise ProtocolError(f"the stream is not in the format of Anthropic's messages: {quoted(self._foreign)}")
        raise Interrupted("the stream ended without a stop reason")

    def read_body(self, body: bytes) -> list[AnyChunk]:
        """Return the chunks of a response that was not streamed."""
        message = decode_loosely(body)
        if isinstance(message, dict) and (message.get("type") == "error" or message.get("error")):
            raise stream_error(message)
        if not isinstance(message, dict) or not isinstance(message.get("content"), list):
            raise ProtocolError(f"the response is neither a stream nor a message: {quoted(body)}")
        chunks: list[AnyChunk] = []
        self._start_message(message, chunks)
        self._finish(message, chunks)
        return chunks

    def _start_message(self, message: dict[str, Any], chunks: list[AnyChunk]) -> None:
        """Read the start of a message, which some servers send twice.

        Raises Interrupted if another message starts in the middle of this one: some servers do that when they retry.
        """
        before, self._message = self._message, message
        if before and self._has_content and before.get("id") != message.get("id"):
            raise Interrupted("the server began another message in the middle of this one")
        for index, fields in enumerate([] if before else list_of(message.get("content"))):
            if isinstance(fields, dict):
                self._start_block(index, fields, chunks)
                self._stop_block(index, chunks)
        self._count(message.get("usage"), chunks)

    def _end_message(self, data: bytes, event: _Event, chunks: list[AnyChunk]) -> None:
        """Read the stop reason, its details (which most responses lack) and the final usage."""
        if event.delta is not None and event.delta.stop_reason:
            whole = decode_loosely(data)
            self._finish(whole["delta"] if isinstance(whole, dict) else {}, chunks)
        self._count(_fields(event.usage), chunks)

    def _finish(self, end: dict[str, Any], chunks: list[AnyChunk]) -> None:
        details = end.get("stop_details")
        if isinstance(details, dict) and details.get("type") == REFUSAL:
            chunks.append(ProviderToolReport("", REFUSAL, result=_encode(details)))
        for index in [*self._blocks]:
            self._stop_block(index, chunks)
        raw = _string(end.get("stop_reason"))
        self.finished = True
        chunks.append(self._finish_report(parse_finish_reason(raw, self._words), raw))

    def _finish_report(self, reason: FinishReason, raw: str) -> FinishReport:
        """Return the finish, which is an error if the response waits for something that only another client can do.

        The vendor continues with its own tools by itself, in a later response if necessary. It waits for the client if
        it says so (`tool_use`) without calling any of our tools, or if the block is not of one of its own kinds.
        """
        unknown = [block for block in self._waiting.values() if block[0] not in RUN_BY_VENDOR]
        waiting = unknown if self._calls or reason != "tool_calls" else [*self._waiting.values()]
        if waiting and not self._runs_items and reason in ("stop", "tool_calls"):
            return FinishReport("error", LEFT_TO_CLIENT.format(", ".join(titled(*block) for block in waiting)))
        return FinishReport(reason, raw)

    def _count(self, usage: Any, chunks: list[AnyChunk]) -> None:
        if not isinstance(usage, dict):
            return
        found = {name: usage.get(name) for name in COUNTED}
        found["thinking_tokens"] = details_of(usage, "output_tokens_details").get("thinking_tokens")
        counts = {name: count for name, value in found.items() if (count := token_count(value)) is not None}
        self._counts |= counts
        if counts and (reported := self._usage()) is not None:
            chunks.append(UsageReport(reported))

    def _usage(self) -> Usage | None:
        """Return the usage. The vendor counts new, cached and cache-writing input separately; here they are summed."""
        new, output, *cached = map(self._counts.get, COUNTED)
        return reported_usage(
            None if new is None else sum_of_counts(new, *cached),
            output,
            cached=self._counts.get(COUNTED[3]),
            reasoning=self._counts.get("thinking_tokens"),
        )

    # ---- content blocks

    def _start_block(self, index: int, fields: dict[str, Any], chunks: list[AnyChunk], raw: bytes = b"") -> None:
        block = self._blocks[index] = _Block(fields, raw)
        self._has_content = True
        after_text, self._after_text = self._after_text, False
        if block.kind == TEXT:
            if after_text:
                chunks.append(_item({"type": TEXT}))
            if text := _string(fields.get("text")):
                chunks.append(TextDelta(text))
        elif block.kind == THINKING:
            if thinking := _string(fields.get("thinking")):
                chunks.append(ReasoningDelta(thinking))
        elif block.kind == CALL:
            chunks.append(ToolCallDelta(index, _string(fields.get("id")), _string(fields.get("name"))))

    def _add_delta(self, index: int, delta: _Delta, data: bytes, chunks: list[AnyChunk]) -> None:
        kind = delta.type
        if kind == "input_json_delta":
            if delta.partial_json:
                self._add_input(index, delta.partial_json, chunks)
        elif kind == "thinking_delta":
            if delta.thinking:
                chunks.append(ReasoningDelta(delta.thinking))
        elif index in self._blocks:
            self._add_other(self._blocks[index], delta, _fields_of(data, "delta"))

    def _add_input(self, index: int, text: str, chunks: list[AnyChunk]) -> None:
        block = self._blocks.get(index)
        if block is None:  # a fragment without a start: the assembler reports what is missing
            chunks.append(ToolCallDelta(index, arguments=text))
            return
        block.arguments.append(text)
        if block.kind == CALL:
            chunks.append(ToolCallDelta(index, arguments=text))

    def _add_other(self, block: _Block, delta: _Delta, fields: dict[str, Any]) -> None:
        if delta.type == "signature_delta":
            block.signature.add(delta.signature or "")
        elif delta.type == "citations_delta":
            block.citations.append(fields.get("citation"))
        else:  # part of a block that only its vendor understands
            for name, value in fields.items():
                if name == "type":
                    continue
                block.raw = b""
                if isinstance(value, str) and isinstance(block.fields.get(name), str):
                    block.grown.setdefault(name, []).append(value)
                else:
                    block.fields[name] = value
                    block.grown.pop(name, None)

    def _stop_block(self, index: int, chunks: list[AnyChunk]) -> None:
        block = self._blocks.pop(index, None)
        if block is None:
            return
        for name, pieces in block.grown.items():
            block.fields[name] += "".join(pieces)
        if block.kind == TEXT:
            self._stop_text(block, chunks)
        elif block.kind == THINKING:
            if signature := str(block.signature):
                chunks.append(ReasoningDelta(signature=signature, vendor=VENDOR))
        elif block.kind == CALL:
            self._stop_call(index, block, chunks)
        elif block.kind:
            self._stop_other(block, chunks)

    def _stop_text(self, block: _Block, chunks: list[AnyChunk]) -> None:
        citations = [citation for citation in block.citations if isinstance(citation, dict)]
        chunks += [ProviderToolReport("", CITATION, result=_encode(citation)) for citation in citations]
        if citations:
            chunks.append(_item({"type": TEXT, "citations": citations}))
        self._after_text = not citations

    def _stop_call(self, index: int, block: _Block, chunks: list[AnyChunk]) -> None:
        given = block.fields.get("input")
        if given and not block.arguments:  # the whole call came with the block's start
            chunks.append(ToolCallDelta(index, arguments=_encode(given)))
        self._calls += 1
        self._waiting.pop(_string(_mapping(block.fields.get("caller")).get("tool_id")), None)
        further = {name: value for name, value in block.fields.items() if name not in PLAIN_CALL and value}
        if further and further != {"caller": {"type": "direct"}}:
            chunks.append(_item({"type": CALL, **further}))

    def _stop_other(self, block: _Block, chunks: list[AnyChunk]) -> None:
        """End a block that only the vendor reads: report it if it is about a tool, and keep it for the next request."""
        fields = block.fields
        if block.arguments:
            block.raw, fields = b"", {**fields, "input": _json("".join(block.arguments))}
        self._note_waiting(block.kind, fields)
        if block.kind.endswith("_tool_use"):
            id, name = _string(fields.get("id")), _string(fields.get("name"))
            self._names[id] = name
            given = "".join(block.arguments) or _encode(fields.get("input") or {})
            chunks.append(ProviderToolReport(id, name, arguments=given))
        elif block.kind.endswith("_tool_result"):
            id = _string(fields.get("tool_use_id"))
            name = self._names.get(id) or block.kind.removesuffix("_tool_result")
            chunks.append(ProviderToolReport(id, name, result=_encode(fields.get("content"))))
        whole = block.raw.decode() if block.raw else _encode(fields)
        chunks.append(ReasoningDelta(signature=whole, redacted=True, vendor=VENDOR))

    def _note_waiting(self, kind: str, fields: dict[str, Any]) -> None:
        """Note a block that may wait for the client, or that holds the result of an earlier one."""
        if answered := _string(fields.get("tool_use_id")):
            self._waiting.pop(answered, None)
        elif "content" not in fields and ("id" in fields or kind.endswith(("_use", "_request"))):
            self._waiting[_string(fields.get("id")) or kind] = kind, _string(fields.get("name"))


def _item(fields: dict[str, Any]) -> ReasoningDelta:
    """Return an item that is sent back unchanged: a whole block, or its fields other than the text or call."""
    return ReasoningDelta(signature=_encode(fields), redacted=True, vendor=VENDOR)


def _mended(data: bytes, error: Exception) -> bytes:
    """Return a malformed event without its unreadable fields. Raises ProtocolError if it is not a JSON object."""
    try:
        value = loads(data)
        if not isinstance(value, dict):
            raise TypeError
        index, delta = str(value.get("index")), value.get("delta")
        value["index"] = int(index) if index.isascii() and index.isdigit() and len(index) < 10 else 0
        value["type"] = _string(value.get("type"))
        kept = delta.items() if isinstance(delta, dict) else ()
        value["delta"] = {name: part for name, part in kept if isinstance(part, str) or name not in _STRINGS}
        return msgspec.json.encode(value)
    except (ValueError, TypeError, RecursionError):
        raise ProtocolError(f"an event of the stream cannot be read ({error}): {quoted(data)}") from error


_STRINGS = frozenset(_Delta.__struct_fields__)


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _fields(raw: bytes | msgspec.Raw) -> dict[str, Any]:
    value = decode_loosely(bytes(raw)) if bytes(raw) else None
    return value if isinstance(value, dict) else {}


def _fields_of(data: bytes, name: str) -> dict[str, Any]:
    """Return an object of an event with all its fields, including those that `_Event` leaves out; or an empty one."""
    value = decode_loosely(data)
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}


def _json(text: str) -> Any:
    """Return JSON text as raw JSON. Invalid text becomes an empty object, which the vendor accepts in the block."""
    encoded = encodable(text.encode())
    return {} if decode_loosely(encoded) is None else msgspec.Raw(encoded)


def _encode(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _string(value: Any) -> str:
    return value if isinstance(value, str) else ""


def list_of(value: Any) -> list[Any]:
    """Return a copy of the value if it is a list, otherwise an empty list."""
    return [*value] if isinstance(value, list) else []
