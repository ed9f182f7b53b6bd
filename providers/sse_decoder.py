"""Decoder for server-sent events: blocks of bytes in, the events' data out (WHATWG HTML, section 9.2)."""

from __future__ import annotations

from .errors import ProtocolError

LARGEST_EVENT = 32 * 1024 * 1024
"""Bytes that one event may have; a larger one is an error."""


class ErrorEvent(bytes):
    """Data of an event that reports an error: `event: error`, or a field named `error`, as llama.cpp sends it."""


class SSEDecoder:
    """Feed it blocks of bytes, cut anywhere; it returns the data of each complete event."""

    def __init__(self) -> None:
        self._tail = b""
        self._seen_field = False

    def feed(self, block: bytes) -> list[bytes]:
        """Return the data of the events completed by this block. Raises ProtocolError for another format."""
        data = self._tail + block if self._tail else block
        if not self._seen_field:
            data = data.removeprefix(b"\xef\xbb\xbf")
        if b"\r" in data:
            data = self._newlines(data)
        *events, self._tail = data.split(b"\n\n")
        if len(self._tail) > LARGEST_EVENT:
            raise ProtocolError(f"an event of the stream is larger than {LARGEST_EVENT} bytes")
        if not self._seen_field:
            start = next(filter(bytes.strip, events), b"")
            self._check_start(start or self._tail, whole=bool(start))
        lines = data.count(b"\n") - self._tail.count(b"\n")  # counted per block: looking into each event costs more
        one_line_each = lines == 2 * len(events)
        if lines == 3 * len(events) and (named := _named_data(events)) is not None:
            return named
        found = [event[6:] if one_line_each and event[:6] == b"data: " else _data(event) for event in events]
        return [data for data in found if data]

    def end(self) -> list[bytes]:
        """Call it when the stream has ended. Returns the data of a last event that no blank line has ended."""
        rest, self._tail = self._tail, b""
        if not self._seen_field:
            self._check_start(rest, whole=True)
        return [found] if (found := _data(rest.replace(b"\r", b"\n"))) else []

    def _newlines(self, data: bytes) -> bytes:
        held = b"\r" if data.endswith(b"\r") else b""  # the next block may start with its line feed
        body = data[:-1] if held else data
        return body.replace(b"\r\n", b"\n").replace(b"\r", b"\n") + held

    def _check_start(self, start: bytes, whole: bool) -> None:
        text = start.lstrip()
        if not text or (not whole and len(text) < 16):
            return
        name = text.split(b"\n", 1)[0].split(b":", 1)[0]
        if name not in (b"", b"data", b"event", b"id", b"retry", b"error"):
            shown = text[:200].decode("utf-8", "replace")
            raise ProtocolError(f"the response is not an event stream; it begins with: {shown!r}")
        self._seen_field = True


def _named_data(events: list[bytes]) -> list[bytes] | None:
    """The data of events that all have a name and one line of data, as most vendors send them; None for others.

    They must have two lines each on average: one that has more is then beside one that has less.
    """
    found = []
    for event in events:
        name, divided, data = event.partition(b"\ndata: ")
        if not divided or not data or name[:7] != b"event: " or b"error" in name:
            return None
        found.append(data)
    return found


def _data(event: bytes) -> bytes:
    if event.startswith(b"data: ") and b"\n" not in event:
        return event[6:]
    failed = False
    lines: list[bytes] = []
    for line in event.split(b"\n"):
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name in (b"data", b"error"):
            lines.append(value)
        failed = failed or name == b"error" or (name == b"event" and value.strip() == b"error")
    data = b"\n".join(lines)
    return ErrorEvent(data) if failed and data else data
