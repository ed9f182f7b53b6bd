"""A record's events as a stream, in memory that does not depend on the record.

Unlike `read_record`, which is for going on from a record and for replaying it, a scan never refuses a record for what
is damaged in it: it goes on with what can be read, and tells.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from ..decision import Event, WrongUse
from ..decision.events import STREAM_PARTS, RunFinished, RunStarted, ToolCallResult
from .attachments import AttachmentReader
from .files import line_batches
from .format import (
    DECODE_ERRORS,
    NO_RUN,
    RUN_STARTED_PREFIX,
    DrainedChunk,
    Header,
    classify_bad_line,
    decode_generic,
    decode_run_started,
    parse_header,
)

MAX_DAMAGED_NUMBERS = 100
"""Damaged lines whose numbers are kept."""
MAX_LOST_EVENTS = 10_000_000
"""So many events cannot be missing between two lines: then it is the number that is damaged."""
_PREFIX_BYTES = 20
"""Bytes of a line that tell a part of a stream: `{"type":"` and what sets its type apart from all others."""
_PARTS = frozenset(
    f'{{"type":"{kind.__struct_config__.tag}'.encode()[:_PREFIX_BYTES] for kind in cast(Any, STREAM_PARTS)
)
_STARTED = RUN_STARTED_PREFIX[:_PREFIX_BYTES]


class Scan:
    """The events of a record, in order. Iterate it, once or again; what it tells is true once it is through.

    Raises WrongUse, while it is iterated, for what is no record, is newer, is empty or cannot be read.
    """

    header: Header
    """There from the first event on."""

    def __init__(self, path: str | os.PathLike[str], *, parts: bool = False, attachments: bool = False) -> None:
        self.path = Path(path)
        self.damaged: list[int] = []
        """Numbers of the first lines that could not be read, or stand where they cannot belong; at most 100."""
        self.damaged_lines = 0
        """How many there are."""
        self.lost = 0
        """Events that are missing in the middle of runs, by the gaps in their numbers."""
        self.missing: list[str] = []
        """Attachments that are not there, where they were asked for; at most 100."""
        self._parts = parts
        self._attachments = attachments

    def __iter__(self) -> Iterator[Event]:
        self.damaged, self.damaged_lines, self.lost = [], 0, 0
        parts, skipped = self._parts, frozenset[bytes]() if self._parts else _PARTS
        number = runs = 0
        run_id = ""
        last = passed = 0  # the number of the latest event, and how many were passed over since
        going_on = False
        attachments = AttachmentReader(self.path) if self._attachments else None
        event: Any  # told apart by its type alone: this is where the time goes
        for lines in line_batches(self.path):
            if not number:
                self.header = parse_header(self.path, lines[0])
            for line in lines:
                number += 1
                begins = line[:_PREFIX_BYTES]
                if begins in skipped:
                    passed += 1
                    continue
                try:
                    event = decode_generic(line) if begins != _STARTED else decode_run_started(line)
                except DECODE_ERRORS:
                    wrong = classify_bad_line(line)
                    passed += wrong == "unknown"
                    if wrong == "damaged":
                        self._note(number)
                    continue
                kind = type(event)
                if kind is RunStarted:
                    if event.run_id == run_id:
                        self._note(number)
                        continue
                    run_id, last, passed, going_on = event.run_id, event.seq, 0, True
                    runs += 1
                    yield event
                elif kind is Header or kind is DrainedChunk:
                    pass
                elif not (going_on and last < event.seq < last + MAX_LOST_EVENTS):
                    self._note(number)
                else:
                    if event.seq > last + passed + 1:
                        self.lost += event.seq - last - passed - 1
                    last, passed = event.seq, 0
                    going_on = kind is not RunFinished
                    if attachments is not None and kind is ToolCallResult:
                        event = attachments.restore(event)
                    if parts or kind not in STREAM_PARTS:  # one may be written by another hand: then it comes here
                        yield event
        self.missing = [] if attachments is None else attachments.missing
        if not number:
            self.header = parse_header(self.path, b"")
        if not runs:
            raise WrongUse(f"{self.path}: {NO_RUN}")

    def _note(self, number: int) -> None:
        self.damaged_lines += 1
        if len(self.damaged) < MAX_DAMAGED_NUMBERS:
            self.damaged.append(number)


def scan(path: str | os.PathLike[str], *, parts: bool = False, attachments: bool = False) -> Scan:
    """The events of a record as a stream.

    parts: those of streams, too, which are most of all events. Without them it is several times as fast: their lines
        are told by their first bytes and never decoded.
    attachments: bring back what lies in files of its own; otherwise a result has the beginning of its text.
    """
    return Scan(path, parts=parts, attachments=attachments)
