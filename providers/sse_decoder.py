"""Decoder for server-sent events: blocks of bytes in, the events' data out (WHATWG HTML, section 9.2)."""

from __future__ import annotations

import re

from .errors import ProtocolError

LARGEST_EVENT = 32 * 1024 * 1024
"""Maximum size of an event in bytes; a larger one is an error."""

WHITE_SPACE = b" \t\n\r\x0b\x0c"
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_SHOWN_BY = 16
"""Number of bytes at the start that show whether these are events, if the first one does not end before."""
USUAL_EVENT = re.compile(rb"(?:event: (?!\s*error).*\n)?data: (.+)\n\n|[\s\S]+")
"""Matches an event with one line of data, optionally after a name other than an error's. In any other it finds b""."""


class ErrorEvent(bytes):
    """Data of an event that reports an error: `event: error`, or a field named `error`, which llama.cpp sends."""


class SSEDecoder:
    """Decoder of blocks of bytes, cut anywhere, that returns the data of each complete event."""

    def __init__(self) -> None:
        self._started = False
        """Whether the stream has begun like a stream of events."""
        self._line: list[bytes] = []
        """Blocks of an unfinished line; before the stream has begun, everything received."""
        self._after_return = False
        """Whether the last block ended with a carriage return. A following line feed belongs to it."""
        self._data: list[bytes] = []
        """Data of the unfinished event."""
        self._bare: list[bytes] = []
        """Lines of that event that are JSON without a field name."""
        self._failed = False
        """Whether that event reports an error."""
        self._open = False
        """Whether a line of that event with content has been read."""
        self._size = 0
        """Number of bytes since the last event ended."""

    def feed(self, block: bytes) -> list[bytes]:
        """Return the data of the events completed by this block. Raises ProtocolError for another format."""
        if self._after_return or b"\r" in block:
            block = self._with_line_feeds(block)
        if not self._started:
            block = self._begin(block)
        if b"\n" not in block:
            return self._hold(block)
        data = b"".join((*self._line, block)) if self._line else block
        end = data.rfind(b"\n\n") + 2
        if end > 1 and not self._open:
            found: list[bytes] = USUAL_EVENT.findall(data, 0, end)  # takes a third of the time of examining each line
            if all(found):
                self._size = 0
                self._line.clear()
                if rest := data[end:]:
                    self._hold(rest)
                return found
        return self._read_lines(data)

    def end(self) -> list[bytes]:
        """Return the data of a last event that no blank line has ended. Call it when the stream has ended."""
        if not self._started:
            self._check_start(b"".join(self._line).lstrip())
        return self._read_lines(b"".join(self._line) + b"\n\n")

    def _begin(self, block: bytes) -> bytes:
        """Return everything received, once its first bytes show that these are events; empty before that."""
        block = b"".join((*self._line, block))
        text = block.lstrip(WHITE_SPACE + BYTE_ORDER_MARK)
        before = block[: len(block) - len(text)]
        block = block[len(before.rstrip(WHITE_SPACE)) :]  # strip byte order marks, of which some servers send several
        if len(text) < _SHOWN_BY and (not text or b"\n\n" not in text):
            self._line = [block[-len(text) - 1 :]]  # one white-space character is as good as many
            return b""
        self._check_start(text)
        self._line, self._started = [], True
        return block

    def _hold(self, rest: bytes) -> list[bytes]:
        """Keep part of an event. It has no whole line, or follows an event that has just ended."""
        if rest:
            self._line.append(rest)
            self._size += len(rest)
            if self._size > LARGEST_EVENT:
                raise ProtocolError(f"an event of the stream is larger than {LARGEST_EVENT} bytes")
        return []

    def _read_lines(self, data: bytes) -> list[bytes]:
        """Return the data of the events that these lines complete."""
        *lines, rest = data.split(b"\n")
        self._size += len(data) - sum(map(len, self._line)) - len(rest)
        found: list[bytes] = []
        for line in lines:
            if line:
                self._read_line(line)
                continue
            if joined := b"\n".join(self._data or self._bare):
                found.append(joined if self._data and not self._failed else ErrorEvent(joined))
            self._data, self._bare, self._failed, self._open, self._size = [], [], False, False, 0
        self._line = []
        return [*found, *self._hold(rest)]

    def _read_line(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        if name in (b"data", b"error"):
            self._data.append(value.removeprefix(b" "))
            self._open = True
        if name == b"error" or (name == b"event" and value.strip() == b"error"):
            self._failed = self._open = True
        elif self._bare or line.lstrip()[:1] in (b"{", b"["):  # a gateway's own error after the data it passed on
            self._bare.append(line)
            self._open = True

    def _with_line_feeds(self, block: bytes) -> bytes:
        """Return the block with each line ending as a line feed."""
        if self._after_return and block:
            block = block.removeprefix(b"\n")
            self._after_return = False
        self._after_return = self._after_return or block.endswith(b"\r")
        return block.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _check_start(self, text: bytes) -> None:
        name = text.split(b"\n", 1)[0].split(b":", 1)[0]
        if name not in (b"", b"data", b"event", b"id", b"retry", b"error"):
            shown = text[:200].decode("utf-8", "replace")
            raise ProtocolError(f"the response is not an event stream; it begins with: {shown!r}")
