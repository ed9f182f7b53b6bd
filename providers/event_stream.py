"""Base class of the parsers of streamed responses: bytes in, chunks out, without I/O.

The bytes may be cut anywhere. A parser reads server-sent events and merges neighbouring deltas of one block; a wire
format adds `read_event`, which turns the data of one event into chunks.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import msgspec

from ..decision import AnyChunk, FinishReason, Usage, UsageReport
from ..decision.delta_merger import DeltaMerger
from ..decision.finish_words import NO_WORDS
from .error_replies import build_error, parse_error_body, parse_error_value
from .errors import ProtocolError, ProviderError
from .loose_json import decode_loosely, with_json_numbers
from .sse_decoder import ErrorEvent, SSEDecoder
from .surrogate_pairs import EncodableEvents, encodable, is_encodable

SHOWN = 200
"""Maximum number of bytes of an unreadable event that a message quotes."""

DONE = "[DONE]"
"""Data of the event that ends a stream of chat completions."""
_DECODER = json.JSONDecoder()
_NO_WHITESPACE = re.compile(r"\S")

LEFT_TO_CLIENT = "{}: for a client to run"
"""Finish word given to a response that waits for something that only another client can do."""


def titled(kind: str, name: str) -> str:
    """Return the type of an item or block, followed by its name if it has one, for messages."""
    return f"{kind} ({name})" if name else kind


class EventStream(ABC):
    """Parser of one response. `words`: the user's finish words, which take precedence over those of the table."""

    def __init__(self, words: Mapping[str, FinishReason] = NO_WORDS) -> None:
        self._words = words
        self._events = SSEDecoder()
        self._encodable = EncodableEvents()
        self._merger = DeltaMerger()
        self._error: ProviderError | None = None
        self.begun = False
        """Whether anything but white space has been received."""
        self.finished = False
        """Whether the finish reason has been received: only the usage can still be missing."""
        self.done = False
        """Whether the rest of the stream can be ignored."""

    @property
    def whole(self) -> bool:
        """Whether finish reason and usage have been received, so that nothing is missing whoever leaves now."""
        return self.done

    @abstractmethod
    def read_event(self, data: bytes, chunks: list[AnyChunk]) -> None:
        """Turn the data of one event into chunks, and append them to `chunks`.

        Raises ProviderError if the event reports an error, and ProtocolError before it appends anything if the data is
        not JSON. It is then called again with what can be read of the data.
        """

    @abstractmethod
    def read_end(self, chunks: list[AnyChunk]) -> None:
        """Handle the end of a body that had no finish reason: append its last chunks, or raise ProviderError."""

    @abstractmethod
    def read_body(self, body: bytes) -> list[AnyChunk]:
        """Return the chunks of a response that was not streamed. Raises ProviderError."""

    def read_whole(self, body: bytes) -> list[AnyChunk]:
        """Return the chunks of an unstreamed response, given as it was received. Raises ProviderError."""
        body = encodable(body)
        try:
            return self.read_body(body)
        except ProtocolError:
            if (mended := with_json_numbers(body)) is body:
                raise
            return self.read_body(mended)

    def feed(self, block: bytes) -> list[AnyChunk]:
        """Return the chunks that this block completes, with neighbouring deltas merged.

        An error after some chunks is raised by `end`.
        """
        chunks: list[AnyChunk] = []
        self.begun = self.begun or bool(block.strip())
        try:
            self._take(self._events.feed(block), chunks)
        except ProviderError as error:
            if not chunks:
                raise
            self._error, self.done = error, True
        return self._merger.merge(chunks)

    def end(self) -> list[AnyChunk]:
        """Return the last chunks. Call it when the body has ended.

        Raises Interrupted if the response is incomplete, and ProtocolError if it is in another format.
        """
        if self._error is not None:
            raise self._error
        chunks: list[AnyChunk] = []
        if not self.done:
            rest = self._events.end()
            with suppress(ProtocolError):  # half a chunk; completeness is checked below
                self._take(rest, chunks)
                for data in self._encodable.end():
                    self.read_event(data, chunks)
        if not self.finished:
            self.read_end(chunks)
        return chunks

    def _take(self, events: list[bytes], chunks: list[AnyChunk]) -> None:
        waiting = self._encodable.held
        for data in events:
            if self.done:
                return
            if waiting or type(data) is ErrorEvent:
                self._read_all(self._mended(data), chunks)
                continue
            try:
                self.read_event(data, chunks)  # fast path: nearly all events can be read as they are
            except ProtocolError:
                mended = self._mended(data)
                if mended == [data]:
                    raise
                self._read_all(mended, chunks)

    def _mended(self, data: bytes) -> list[bytes]:
        """Return what can be read now of an unreadable event, or of one that arrived while others waited for it."""
        events = [value for ready in self._encodable.feed([data]) for value in json_values(ready)]
        return [event if type(event) is ErrorEvent else with_json_numbers(event) for event in events]

    def _read_all(self, events: list[bytes], chunks: list[AnyChunk]) -> None:
        for data in events:
            if type(data) is not ErrorEvent:
                self.read_event(data, chunks)
            elif not self.finished:  # after the finish reason, only the usage can be missing
                raise build_error(parse_error_body(data), where=IN_STREAM)


def is_json(block: bytes) -> bool:
    """Return whether a body is a JSON value, whatever its content type. An event stream cannot begin like one."""
    return block.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"[")


IN_STREAM = "error in the stream: "


def stream_error(value: Any) -> ProviderError:
    """Return the error that a server sent in place of an event. `value`: the event's data, decoded."""
    return build_error(parse_error_value(value), where=IN_STREAM)


def loads(data: bytes) -> Any:
    """Decode JSON with the numbers that JSON does not have; None if it is not JSON, or has half a surrogate pair."""
    try:
        return json.loads(data) if is_encodable(data) else None
    except (ValueError, RecursionError):
        return None


def json_values(data: bytes) -> list[bytes]:
    """Return each JSON object of an event that holds several, from servers that send no blank line between two events.

    For any other event, return the data itself.
    """
    values: list[bytes] = []
    text, at = data.decode("utf-8", "replace").rstrip(), 0
    try:
        while at < len(text) and not text.startswith(DONE, at):
            value, end = _DECODER.raw_decode(text, at)
            if not isinstance(value, dict):
                return [data]
            values.append(text[at:end].encode())
            found = _NO_WHITESPACE.search(text, end)
            at = found.start() if found else len(text)
    except (ValueError, RecursionError):
        return [data]
    if at < len(text):
        values.append(DONE.encode())
    return values if len(values) > 1 else [data]


def usage_report(raw: msgspec.Raw, read: Callable[[dict[str, Any]], Usage | None]) -> list[AnyChunk]:
    """Return a report of an event's usage; empty if the event has no usage that can be read.

    It is decoded separately from the rest of the event, so that a bad number in it does not make the event unreadable.
    """
    counted = decode_loosely(bytes(raw)) if bytes(raw) else None
    usage = read(counted) if isinstance(counted, dict) else None
    return [] if usage is None else [UsageReport(usage)]


def details_of(usage: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return the parts of a count, which usage reports hold as an object; empty if there are none."""
    found = usage.get(name)
    return found if isinstance(found, dict) else {}


def quoted(data: bytes) -> str:
    """Return the beginning of unreadable data, for a message that quotes it."""
    return repr(data[:SHOWN].decode("utf-8", "replace"))
