"""The record of a session: JSON Lines, a header, then its runs, each from RUN_STARTED to its terminal event.

A line is written as soon as its event has happened and handed to the operating system before the next side effect,
so that a killed process loses nothing it acted on. A torn last line costs that line only.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from contextlib import suppress

from msgspec import Struct

from ..decision import Event, WrongUse
from ..decision.events import RunFinished, RunStarted, ToolCallResult
from .attachments import AttachmentReader
from .files import line_batches
from .format import HEADER_PREFIX, NO_RUN, DrainedChunk, Header, parse_header, parse_line


class RecordedRun(Struct, kw_only=True):
    """One run of a record."""

    events: list[Event]
    after_cut: list[DrainedChunk]

    @property
    def started(self) -> RunStarted:
        """Its first event."""
        first = self.events[0]
        assert isinstance(first, RunStarted)
        return first

    @property
    def finished(self) -> RunFinished | None:
        """Its terminal event; None if the process was killed before."""
        last = self.events[-1]
        return last if isinstance(last, RunFinished) else None


class SessionRecord(Struct, kw_only=True):
    """A record as read."""

    path: str
    header: Header
    runs: list[RecordedRun]
    damaged: list[int]
    """Numbers of the lines that could not be read."""
    missing: list[str] = []
    """Attachments that are not there; what they held is missing in the results, and said there."""


def read_record(path: str | os.PathLike[str]) -> SessionRecord:
    """Read a whole record, compressed or not, with its attachments.

    Raises WrongUse if it is none, is newer, or has lost events in the middle.
    """
    runs: list[RecordedRun] = []
    damaged: list[int] = []
    number = 0
    header: Header | None = None
    attachments = AttachmentReader(path)
    for lines in line_batches(path):
        header = header or parse_header(path, lines[0])
        for line in lines:
            number += 1
            said = parse_line(line)
            if isinstance(said, str):
                damaged += [number] * (said == "damaged")
            elif isinstance(said, RunStarted):
                runs.append(RecordedRun(events=[said], after_cut=[]))
            elif isinstance(said, DrainedChunk):
                if runs:
                    runs[-1].after_cut.append(said)
            elif not isinstance(said, Header):
                if not runs:
                    raise WrongUse(f"{path}, line {number}: an event before any RUN_STARTED")
                runs[-1].events.append(attachments.restore(said) if isinstance(said, ToolCallResult) else said)
    header = header or parse_header(path, b"")
    if not runs:
        raise WrongUse(f"{path}: {NO_RUN}")
    for run in runs:
        _check_whole(path, run.events, damaged)
    return SessionRecord(path=str(path), header=header, runs=runs, damaged=damaged, missing=attachments.missing)


def read_header(path: str | os.PathLike[str]) -> Header:
    """The header of a record. Raises WrongUse if the file is missing, is no record or is newer."""
    with suppress(OSError):
        if stat.S_ISFIFO(os.stat(path).st_mode):
            raise WrongUse(f"{path} is a pipe, and a record is read more than once: write it to a file first")
    return parse_header(path, next(line_batches(path), [b""])[0])


def is_record(path: str | os.PathLike[str]) -> bool:
    """Whether a file begins as a record does, compressed or not, of whatever version. Raises WrongUse if unreadable."""
    return next(line_batches(path), [b""])[0].startswith(HEADER_PREFIX)


def _check_whole(path: str | os.PathLike[str], events: Iterable[Event], damaged: list[int]) -> None:
    expected = 0
    for event in events:
        expected += 1
        if event.seq > expected and damaged:
            lines = ", ".join(map(str, damaged))
            raise WrongUse(
                f"{path}: events {expected} to {event.seq - 1} of a run are lost (damaged line {lines}): mend these "
                "lines or take the file from a backup; the runs before that line are whole"
            )
        expected = event.seq
