"""Decoder for server-sent events: blocks of bytes in, the events' data out (WHATWG HTML, section 9.2)."""

from __future__ import annotations

import re

from .errors import ProtocolError

LARGEST_EVENT = 32 * 1024 * 1024
"""Bytes that one event may have; a larger one is an error."""

WHITE_SPACE = b" \t\n\r\x0b\x0c"
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_SHOWN_BY = 16
"""Bytes that show whether these are events, if there are so many before the first one ends."""
USUAL_EVENT = re.compile(rb"(?:event: (?!\s*error).*\n)?data: (.+)\n\n|[\s\S]+")
"""An event with one line of data, and before it perhaps a name that is not an error's. In any other it finds b""."""


class ErrorEvent(bytes):
    """Data of an event that reports an error: `event: error`, or a field named `error`, as llama.cpp sends it."""


class SSEDecoder:
    """Feed it blocks of bytes, cut anywhere; it returns the data of each complete event."""

    def __init__(self) -> None:
        self._started = False
        """Whether the stream has begun as one of events does."""
        self._line: list[bytes] = []
        """Blocks of a line that has not ended; before the stream has begun, all that has come."""
        self._after_return = False
        """Whether the last block ended with a carriage return. A line feed after it belongs to it."""
        self._data: list[bytes] = []
        """Data of the event that has not ended."""
        self._bare: list[bytes] = []
        """Lines of that event that are JSON without the name of a field."""
        self._failed = False
        """Whether that event reports an error."""
        self._open = False
        """Whether lines of that event have been read that say something."""
        self._size = 0
        """Bytes since the last event ended."""

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
            found: list[bytes] = USUAL_EVENT.findall(data, 0, end)  # in a third of the time of looking at each line
            if all(found):
                self._size = 0
                self._line.clear()
                if rest := data[end:]:
                    self._hold(rest)
                return found
        return self._read_lines(data)

    def end(self) -> list[bytes]:
        """Call it when the stream has ended. Returns the data of a last event that no blank line has ended."""
        if not self._started:
            self._check_start(b"".join(self._line).lstrip())
        return self._read_lines(b"".join(self._line) + b"\n\n")

    def _begin(self, block: bytes) -> bytes:
        """All that has come, once its first bytes show that these are events; nothing before that."""
        block = b"".join((*self._line, block))
        text = block.lstrip(WHITE_SPACE + BYTE_ORDER_MARK)
        before = block[: len(block) - len(text)]
        block = block[len(before.rstrip(WHITE_SPACE)) :]  # without byte order marks, of which some servers send several
        if len(text) < _SHOWN_BY and (not text or b"\n\n" not in text):
            self._line = [block[-len(text) - 1 :]]  # of white space, one sign is as good as many
            return b""
        self._check_start(text)
        self._line, self._started = [], True
        return block

    def _hold(self, rest: bytes) -> list[bytes]:
        """Keep a part of an event. It holds no whole line, or follows an event that has just ended."""
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
        begun = len(self._data)
        for line in lines:
            if line:
                self._read_line(line)
                continue
            if joined := b"\n".join(self._data or self._bare):
                found.append(joined if self._data and not self._failed else ErrorEvent(joined))
            self._data, self._bare, self._failed, self._open, self._size = [], [], False, False, 0
            begun = 0
        if len(self._data) > begun + 1:  # so that the end of the event has no more to join than there were blocks
            self._data[begun:] = [b"\n".join(self._data[begun:])]
        self._line = []
        return [*found, *self._hold(rest)]

    def _read_line(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        if name in (b"data", b"error"):
            self._data.append(value.removeprefix(b" "))
            self._open = True
        if name == b"error" or (name == b"event" and value.strip() == b"error"):
            self._failed = self._open = True
        elif self._bare or line.lstrip()[:1] in (b"{", b"["):  # a gateway's own error, behind what it passed on
            self._bare.append(line)
            self._open = True

    def _with_line_feeds(self, block: bytes) -> bytes:
        """The block with a line feed for each end of a line."""
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
