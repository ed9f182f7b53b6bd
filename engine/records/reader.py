"""Read a whole record into memory: to replay it, or to continue its session. `scan.py` reads one as a stream."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from itertools import chain, islice
from mmap import ACCESS_READ, mmap

import msgspec
from msgspec import Struct

from ..decision import Event, WrongUse
from ..decision.events import ResponseFinished, RunFinished, RunStarted, is_copied
from ..decision.wrong_calls import ExplainedStruct, explained
from .attachments import AttachmentReader
from .deduplication import MessageRestorer, missing_deltas
from .files import line_batches
from .format import (
    DECODE_ERRORS,
    NO_RUN,
    BadLine,
    DrainedChunk,
    Header,
    begins_record,
    parse_header,
    parse_line,
    rewrite_line,
)
from .parts_line import PartsLine


class LineReader:
    """Decoder of the lines of a record, or of one stored run, in order. It restores what the lines leave out."""

    def __init__(self) -> None:
        self._first: RunStarted | None = None
        self._messages = MessageRestorer()

    def parse(self, line: bytes) -> Iterable[Header | DrainedChunk | Event | BadLine]:
        """Decode the next line: usually one event, or the reason why it cannot be decoded.

        A response that lacks deltas keeps its `deltas`.
        """
        parsed = parse_line(line, self._first)
        if isinstance(parsed, PartsLine):
            self._messages.hold(parsed)
            return parsed.events()
        if isinstance(parsed, str | Header | DrainedChunk):
            return (parsed,)
        if self._first is None and isinstance(parsed, RunStarted):
            self._first = parsed
        return (self._messages.feed(parsed),)


class RecordedRun(Struct, kw_only=True):
    """A run of a record."""

    events: list[Event]
    """The events of the run in order, from RUN_STARTED on."""
    after_cut: list[DrainedChunk]
    """Chunks that were read after a response was cut."""

    @property
    def started(self) -> RunStarted:
        """The first event."""
        first = self.events[0]
        assert isinstance(first, RunStarted)
        return first

    @property
    def finished(self) -> RunFinished | None:
        """The terminal event; None if the process was killed before the run ended."""
        last = self.events[-1]
        return last if isinstance(last, RunFinished) else None

    @property
    def is_copy(self) -> bool:
        """Whether a fork copied the whole run."""
        return is_copied(self.events[-1], self.started)

    @property
    def copies(self) -> RecordedRun | None:
        """The part that a fork copied from its origin; None for a run that is not a fork."""
        if self.started.origin is None:
            return None
        return RecordedRun(events=[event for event in self.events if is_copied(event, self.started)], after_cut=[])

    @property
    def own(self) -> RecordedRun:
        """The run without what a fork copied, except RUN_STARTED; the run itself if it is not a fork."""
        if self.started.origin is None:
            return self
        own = [event for event in self.events if not is_copied(event, self.started)]
        return RecordedRun(events=[self.events[0], *own], after_cut=self.after_cut)


class SessionRecord(ExplainedStruct, kw_only=True):
    """A record in memory."""

    path: str
    """Path of the file."""
    header: Header
    """The first line: the session's id, and when and with which version it began."""
    runs: list[RecordedRun]
    """The runs in order, one at least."""
    damaged: list[int]
    """Numbers of the lines that could not be decoded, from 1."""
    missing: list[str] = []
    """Hashes of missing attachments. Results that had them keep the beginning of their text, with a note."""


@explained
def read_record(path: str | os.PathLike[str]) -> SessionRecord:
    """Read a record, compressed or not, with its attachments.

    path: the file. Those of attachments are found next to it.

    Raises WrongUse if the file cannot be read, is not a record, has a newer major version, holds no run, or has lost
    events in the middle of a run. A damaged last line costs only that line.
    """
    runs: list[RecordedRun] = []
    damaged: list[int] = []
    number = 0
    header: Header | None = None
    attachments, reader = AttachmentReader(path), LineReader()
    for lines in line_batches(path):
        header = header or parse_header(path, lines)
        for line in lines:
            number += 1
            for parsed in reader.parse(line):
                if isinstance(parsed, str):
                    damaged += [number] * (parsed == "damaged")
                elif isinstance(parsed, RunStarted):
                    runs.append(RecordedRun(events=[attachments.restore(parsed)], after_cut=[]))
                elif isinstance(parsed, DrainedChunk):
                    if runs:
                        runs[-1].after_cut.append(parsed)
                elif not isinstance(parsed, Header):
                    if not runs:
                        raise WrongUse(f"{path}, line {number}: an event before any RUN_STARTED")
                    runs[-1].events.append(attachments.restore(parsed))
    header = header or parse_header(path, ())
    if not runs:
        raise WrongUse(f"{path}: {NO_RUN}")
    for run in runs:
        _check_complete(path, run.events, damaged)
    return SessionRecord(path=str(path), header=header, runs=runs, damaged=damaged, missing=attachments.missing)


def read_header(path: str | os.PathLike[str]) -> Header:
    """Read the header of a record. Raises WrongUse if the file cannot be read, is not a record, or is newer."""
    with suppress(OSError):
        if stat.S_ISFIFO(os.stat(path).st_mode):
            raise WrongUse(f"{path} is a pipe, but a record is read more than once: write it to a file first")
    return parse_header(path, next(line_batches(path), []))


def read_beginning(path: str | os.PathLike[str]) -> tuple[Header, RunStarted | None]:
    """Read the header of a record, and its first run if that is the next line. Raises like `read_header`."""
    return read_header(path), read_first_run(path)


def read_first_run(path: str | os.PathLike[str]) -> RunStarted | None:
    """Read the first run of a record if that is the line after its header. Raises WrongUse if it cannot be read."""
    lines = list(islice(filter(bytes.strip, chain.from_iterable(line_batches(path))), 2))
    first = parse_line(lines[1]) if len(lines) > 1 else None
    return first if isinstance(first, RunStarted) else None


def is_record(path: str | os.PathLike[str]) -> bool:
    """Return whether a file begins like a record of any version, compressed or not. Raises WrongUse if unreadable."""
    return begins_record(next(line_batches(path), []))


def last_seq(path: str | os.PathLike[str]) -> int | None:
    """Return the number of the last event in an uncompressed record, read from its end; None if there is none."""
    last = last_event(path)
    return None if last is None else last[1]


def last_event(path: str | os.PathLike[str]) -> tuple[str | None, int] | None:
    """Return the run that the last event of an uncompressed record ends, if any, and the event's number."""
    with open(path, "rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as content:
        end = len(content)
        while end > 0:
            begin = content.rfind(b"\n", 0, end - 1) + 1
            with suppress(*DECODE_ERRORS):
                event = _decode_numbered(rewrite_line(content[begin:end]))
                if event.seq is not None:
                    return None if event.outcome is None else event.outcome.run_id, event.seq + event.count - 1
            end = begin
    return None


class _Ended(Struct):
    run_id: str


class _Numbered(Struct):
    seq: int | None = None
    count: int = 1
    """Number of events in the line (`parts_line.py`)."""
    outcome: _Ended | None = None


_decode_numbered = msgspec.json.Decoder(_Numbered).decode


def _check_complete(path: str | os.PathLike[str], events: Iterable[Event], damaged: list[int]) -> None:
    """Raise WrongUse if events are missing because of a damaged line, or deltas of a message are missing."""
    expected = 0
    for event in events:
        expected += 1
        if event.seq > expected and damaged:
            lines = ", ".join(map(str, damaged))
            raise WrongUse(
                f"{path}: events {expected} to {event.seq - 1} of a run are missing (damaged line {lines}): repair "
                "these lines or restore the file from a backup; the runs before them are intact"
            )
        expected = event.seq
        if isinstance(event, ResponseFinished) and event.deltas is not None:
            raise WrongUse(f"{path}: {missing_deltas(event)}: restore the file from a backup")
