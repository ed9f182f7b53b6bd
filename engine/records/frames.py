"""Events for readers, as lines of a record; and a record file, which may grow, as such lines."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from types import TracebackType

import msgspec
from msgspec import Struct

from ..decision import Event, WrongUse
from ..decision.call_judgement import CallJudgement
from ..decision.events import ResponseFinished, RunStarted
from ..decision.wrong_attributes import explained_attributes
from .attachments import SCHEME, AttachmentReader
from .compression import BLOCK, GZIP_MAGIC, MAGIC, CorruptData, decompress
from .deduplication import MessageRestorer, is_part
from .files import MAX_LINE_BYTES
from .format import (
    BYTE_ORDER_MARK,
    DECODE_ERRORS,
    Header,
    decode_generic,
    decode_run_started,
    encode_line,
    parse_header,
    rewrite_line,
)
from .parts_line import PARTS_TAG, PartsLine
from .scan import MAX_LOST_EVENTS

_NO_EVENTS = frozenset({"HEADER", "AFTER_CUT"})
_SHORTENED = frozenset({"RESPONSE_FINISHED", "RUN_FINISHED"})
"""Types of events, in addition to RUN_STARTED, whose lines leave something out."""
_ATTACHED = (b'"attached":"', f'"url":"{SCHEME}'.encode())


@explained_attributes
class Frame(Struct, frozen=True):
    """One event for a reader."""

    run_id: str
    seq: int
    line: bytes
    """The event as a line of a record, without the newline."""
    last: bool = False
    """Whether it is the last event of its run, `RUN_FINISHED`."""
    resumed: int = 0
    """Number of times the run had been resumed before this event."""
    judged: CallJudgement | None = None
    """For a result: what is known of the call. It is not part of the event."""


@explained_attributes
class Gap(Struct, frozen=True):
    """Marker in place of lost events."""

    run_id: str
    missed: int
    """Number of lost events."""
    next_seq: int
    """Number of the next event."""


Frames = Sequence[Frame | Gap]
"""Frames that a reader gets at a time; empty while nothing happens."""


class _Line(Struct):
    type: str = ""
    seq: int = 0


_decode_line = msgspec.json.Decoder(_Line).decode
_OURS = b'{"type":"'
"""First bytes of a line that endstop's encoder wrote."""


class RecordFrames:
    """Reader of a record file's events as frames, whole and with their attachments. A context manager, for one thread.

    The file may grow: at its end `read` returns nothing, and later what was added. Damaged lines are left out; missing
    events are replaced by a `Gap`. Memory is bounded by the longest line.

    Raises WrongUse if the file cannot be opened, is not a record, or has a newer major version.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        try:
            self._file = open(path, "rb", buffering=0)  # noqa: SIM115  `close` closes it
        except OSError as error:
            raise WrongUse(f"cannot read the record {path}: {error.strerror or error}") from None
        self._blocks = self._read_blocks()
        self._begun = bytearray()
        """The beginning of a line whose end has not arrived."""
        self._too_long = False
        self._header: Header | None = None
        self._first: RunStarted | None = None
        self._messages = MessageRestorer()
        self._attachments = AttachmentReader(path)
        self._run_id = ""
        self._last = 0

    def __enter__(self) -> RecordFrames:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    @property
    def replaced(self) -> bool:
        """Whether the file was removed, replaced or shortened since it was opened: what was read no longer holds."""
        try:
            now, opened = os.stat(self.path), os.fstat(self._file.fileno())
        except OSError:
            return True
        return (now.st_dev, now.st_ino) != (opened.st_dev, opened.st_ino) or now.st_size < self._file.tell()

    def read(self) -> Frames:
        """Return the frames of the next block of the file that has any; empty at the end of the file.

        Raises WrongUse as the class does, and if the file can no longer be read.
        """
        while (block := next(self._blocks, b"")) != b"":
            frames: list[Frame | Gap] = []
            for line in self._lines(block):
                frames += self._frames(line)
            if frames:
                return frames
        return self._at_end()

    def _read_blocks(self) -> Iterator[bytes]:
        """Yield the blocks of the file, decompressed; an empty block each time the file ends for now."""
        try:
            block = self._file.read(BLOCK)
            if block.startswith((MAGIC, GZIP_MAGIC)):
                yield from decompress(block, self._file)
                return
            while True:
                yield block
                block = self._file.read(BLOCK)
        except CorruptData:
            return
        except OSError as error:
            raise WrongUse(f"cannot read the record {self.path}: {error.strerror or error}") from None

    def _lines(self, block: bytes) -> Iterator[bytes]:
        pieces = block.split(b"\n")
        for place, piece in enumerate(pieces):
            if not self._too_long:
                self._begun += piece
            if len(self._begun) > MAX_LINE_BYTES:
                self._begun.clear()
                self._too_long = True
            if place < len(pieces) - 1:
                line = bytes(self._begun)
                self._begun.clear()
                if not self._too_long:
                    yield line
                self._too_long = False

    def _at_end(self) -> Frames:
        """Return the event of a last line without a newline, if it is whole. A torn or unfinished line is left."""
        if not self._begun:
            return []
        try:
            msgspec.json.decode(self._begun, type=msgspec.Raw)
        except DECODE_ERRORS:
            return []
        line = bytes(self._begun)
        self._begun.clear()
        return list(self._frames(line))

    def _frames(self, line: bytes) -> Iterator[Frame | Gap]:
        """Yield the frame of a line, after a `Gap` if events before it are missing; nothing if it holds no event."""
        if self._header is None:
            line = line.removeprefix(BYTE_ORDER_MARK)
            if line.strip():
                self._header = parse_header(self.path, [line])
            return
        try:
            if not line.startswith(_OURS):
                raise msgspec.DecodeError("another encoder wrote it")
            found = _decode_line(line)
            if found.type in _NO_EVENTS:
                return
            if found.type == PARTS_TAG:
                events = self._parts(line)
            else:
                events = [(found.seq, self._whole(found.type, line.rstrip(b"\r")))]
        except DECODE_ERRORS:
            yield from self._rewritten(line)
            return
        if not self._last < found.seq < self._last + MAX_LOST_EVENTS or not self._run_id:
            return
        if found.seq > self._last + 1:
            yield Gap(self._run_id, found.seq - self._last - 1, found.seq)
        for seq, whole in events:
            self._last = seq
            yield Frame(self._run_id, seq, whole, last=found.type == "RUN_FINISHED")

    def _rewritten(self, line: bytes) -> Iterator[Frame | Gap]:
        """Yield the frame of a line that another JSON encoder wrote; nothing if it is damaged."""
        with suppress(*DECODE_ERRORS):
            ours = rewrite_line(line)
            if ours != line:
                yield from self._frames(ours)

    def _parts(self, line: bytes) -> list[tuple[int, bytes]]:
        """Return the events of a line that has several, each with its number. Raises one of `DECODE_ERRORS`."""
        parts = decode_generic(line)
        assert isinstance(parts, PartsLine)
        self._messages.hold(parts)
        return [(event.seq, encode_line(event)) for event in parts.events()]

    def _whole(self, kind: str, line: bytes) -> bytes:
        """Return the line with what it leaves out. Raises one of `DECODE_ERRORS`."""
        if is_part(line):
            self._messages.hold_line(line)
            return line if b"\r" not in line else encode_line(decode_generic(line))
        event: Event
        if kind == "RUN_STARTED":
            event = decode_run_started(line, self._first)
            if event.run_id == self._run_id:
                raise msgspec.DecodeError("the run has begun already")
            self._first = self._first or event
            self._messages.feed(event)
            self._run_id, self._last = event.run_id, 0
            return encode_line(self._attachments.restore(event))
        if kind in _SHORTENED or b"\r" in line or any(mark in line for mark in _ATTACHED):
            event = decode_generic(line, self._first)  # type: ignore[assignment]
            if isinstance(event, ResponseFinished):
                event = self._messages.restore(event)
            return encode_line(self._attachments.restore(event))
        return line
