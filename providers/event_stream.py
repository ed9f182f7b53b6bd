"""Base of the parsers of streamed responses: bytes in, chunks out, without I/O.

The bytes may be cut anywhere. A parser reads server-sent events and merges neighbouring deltas of one block; a wire
format adds `read_event`, which turns the data of one event into chunks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TypeVar

import msgspec

from ..decision import AnyChunk, FinishReason, Usage, UsageReport
from ..decision.delta_merger import DeltaMerger
from ..decision.finish_words import NO_WORDS
from .error_replies import build_error, parse_error_body, parse_error_value
from .errors import ProtocolError, ProviderError
from .sse_decoder import ErrorEvent, SSEDecoder
from .surrogate_pairs import encodable

SHOWN = 200
"""Bytes of an unreadable event that a message quotes."""

LEFT_TO_CLIENT = "{}: for a client to run"
"""Stands for the finish word of a response that waits for something that only another client can do."""

T = TypeVar("T")


class EventStream(ABC):
    """Parses one response. `words`: the user's finish words, which precede those of `FINISH_WORDS`."""

    def __init__(self, words: Mapping[str, FinishReason] = NO_WORDS) -> None:
        self._words = words
        self._events = SSEDecoder()
        self._merger = DeltaMerger()
        self._error: ProviderError | None = None
        self.begun = False
        """Whether anything but white space has been received."""
        self.finished = False
        """Whether the finish reason has been received: only the usage can still be missing."""
        self.done = False
        """Whether nothing that follows is of interest."""

    @abstractmethod
    def read_event(self, data: bytes, chunks: list[AnyChunk]) -> None:
        """Turn the data of one event into chunks, and append them to `chunks`.

        Raises ProviderError if the event reports an error, or cannot be read.
        """

    @abstractmethod
    def read_end(self, chunks: list[AnyChunk]) -> None:
        """Handle the end of a body that had no finish reason: append its last chunks, or raise ProviderError."""

    @abstractmethod
    def read_body(self, body: bytes) -> list[AnyChunk]:
        """Return the chunks of a response that was not streamed. Raises ProviderError."""

    def read_whole(self, body: bytes) -> list[AnyChunk]:
        """Return the chunks of a response that was not streamed, as it was received. Raises ProviderError."""
        return self.read_body(encodable(body))

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

        Raises Interrupted if the response is incomplete, ProtocolError if it is in another format.
        """
        if self._error is not None:
            raise self._error
        chunks: list[AnyChunk] = []
        rest = self._events.end()
        with suppress(ProtocolError):  # half a chunk; completeness is checked below
            self._take(rest, chunks)
        if not self.finished:
            self.read_end(chunks)
        return chunks

    def _take(self, events: list[bytes], chunks: list[AnyChunk]) -> None:
        for data in events:
            if self.done:
                return
            if type(data) is not ErrorEvent:
                self.read_event(data, chunks)
            elif not self.finished:  # after the finish only the usage can be missing
                raise build_error(parse_error_body(data), where=IN_STREAM)


def is_json(block: bytes) -> bool:
    """Whether a body is a JSON value, whatever its content type: an event stream cannot begin like this."""
    return block.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"[")


IN_STREAM = "error in the stream: "


def stream_error(value: Any) -> ProviderError:
    """Return the error that a server sent in place of an event. `value`: the event's data, decoded."""
    return build_error(parse_error_value(value), where=IN_STREAM)


def decode_loosely(data: bytes) -> Any:
    """Decode any JSON value; None if the data is not JSON."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return None


def usage_report(
    raw: msgspec.Raw, decode: Callable[[msgspec.Raw], T | None], read: Callable[[T], Usage]
) -> list[AnyChunk]:
    """Return a report of an event's token counts; nothing if it has none, or none that can be read.

    They are decoded apart from the rest of the event, so that a bad number in them does not make the event unreadable.
    """
    try:
        counted = decode(raw) if bytes(raw) else None
    except msgspec.DecodeError:
        return []
    return [] if counted is None else [UsageReport(read(counted))]


def quoted(data: bytes) -> str:
    """Return the beginning of data that cannot be read, to quote it in a message."""
    return repr(data[:SHOWN].decode("utf-8", "replace"))
