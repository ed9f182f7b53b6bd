"""Decoder for server-sent events: blocks of bytes in, the events' data out (WHATWG HTML, section 9.2)."""

from __future__ import annotations

import re

from .errors import ProtocolError
from .surrogate_pairs import BACKSLASH, EncodableEvents

LARGEST_EVENT = 32 * 1024 * 1024
"""Bytes that one event may have; a larger one is an error."""

USUAL_EVENT = re.compile(rb"(?:event: (?!\s*error).*\n)?data: (.+)\n\n|[\s\S]+")
"""An event with one line of data, and before it perhaps a name that is not an error's. In any other it finds b""."""


class ErrorEvent(bytes):
    """Data of an event that reports an error: `event: error`, or a field named `error`, as llama.cpp sends it."""


class SSEDecoder:
    """Feed it blocks of bytes, cut anywhere; it returns the data of each complete event.

    The data can be decoded as UTF-8, and so can its texts if it is JSON: see `EncodableEvents`.
    """

    def __init__(self) -> None:
        self._tail = b""
        self._seen_field = False
        self._encodable = EncodableEvents()

    def feed(self, block: bytes) -> list[bytes]:
        """Return the data of the events completed by this block. Raises ProtocolError for another format."""
        within_line = b"\n" not in block and b"\r" not in block and not self._tail.endswith(b"\r")
        data = self._tail + block if self._tail else block
        found: list[bytes] = []
        if within_line and self._seen_field:
            self._tail = data  # no line ends in this block, so no event does
        else:
            found, self._tail = self._complete(data)
        if len(self._tail) > LARGEST_EVENT:
            raise ProtocolError(f"an event of the stream is larger than {LARGEST_EVENT} bytes")
        if found and (BACKSLASH in data or not data.isascii() or self._encodable.held):
            return self._encodable.feed(found)
        return found

    def _complete(self, data: bytes) -> tuple[list[bytes], bytes]:
        """Return the data of the events that are complete in `data`, and the bytes behind them."""
        if not self._seen_field:
            data = data.removeprefix(b"\xef\xbb\xbf")
        if b"\r" in data:
            data = self._newlines(data)
        end = data.rfind(b"\n\n") + 2
        found: list[bytes] = USUAL_EVENT.findall(data, 0, end)  # a third of the time that looking at each line takes
        if found and all(found):
            self._seen_field = True
            return found, data[end:]
        return self._split(data)

    def end(self) -> list[bytes]:
        """Call it when the stream has ended. Returns the data of a last event that no blank line has ended."""
        rest, self._tail = self._tail, b""
        if not self._seen_field:
            self._check_start(rest, whole=True)
        last = [found] if (found := _data(rest.replace(b"\r", b"\n"))) else []
        return [*self._encodable.feed(last), *self._encodable.end()]

    def _split(self, data: bytes) -> tuple[list[bytes], bytes]:
        """The data of complete events of any form, and the rest."""
        *events, rest = data.split(b"\n\n")
        if not self._seen_field:
            start = next(filter(bytes.strip, events), b"")
            self._check_start(start or rest, whole=bool(start))
        return [*filter(None, map(_data, events))], rest

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


def _data(event: bytes) -> bytes:
    failed = False
    lines: list[bytes] = []
    for line in event.split(b"\n"):
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name in (b"data", b"error"):
            lines.append(value)
        failed = failed or name == b"error" or (name == b"event" and value.strip() == b"error")
    if not lines and event.lstrip()[:1] in (b"{", b"["):  # a gateway's own error, behind what it passed on
        return ErrorEvent(event)
    data = b"\n".join(lines)
    return ErrorEvent(data) if failed and data else data
