"""Read a record as a stream of events, in memory that does not depend on its size.

`read_record`, for replays and for continuing a session, refuses a record that has lost events. A scan skips damaged
parts and counts them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from ..decision import Event, WrongUse
from ..decision.events import STREAM_PARTS, ResponseFinished, RunFinished, RunStarted
from ..decision.wrong_calls import checked, explained
from .attachments import MAY_HOLD_IMAGES, AttachmentReader
from .deduplication import MESSAGE_PARTS, MessageRestorer
from .files import line_batches
from .format import (
    DECODE_ERRORS,
    NO_RUN,
    REDACTION_MARK,
    RUN_STARTED_PREFIX,
    DrainedChunk,
    Header,
    decode_generic,
    decode_run_started,
    leaves_out,
    parse_header,
    parse_line,
)
from .parts_line import PartsLine

__all__ = ["Scan", "scan"]

MAX_DAMAGED_NUMBERS = 100
"""Most line numbers that `Scan.damaged` lists."""
MAX_LOST_EVENTS = 10_000_000
"""A gap of this size or more between event numbers means that the number is damaged, not that events are missing."""
_PREFIX_BYTES = 20
"""Number of first bytes of a line that identify a stream part: `{"type":"` and enough of the type to be unique."""
_PARTS = frozenset(
    f'{{"type":"{kind.__struct_config__.tag}'.encode()[:_PREFIX_BYTES] for kind in cast(Any, STREAM_PARTS)
)
_OF_MESSAGES = frozenset(
    f'{{"type":"{kind.__struct_config__.tag}'.encode()[:_PREFIX_BYTES] for kind in cast(Any, MESSAGE_PARTS)
)
_REDACTED = REDACTION_MARK.encode()
_STARTED = RUN_STARTED_PREFIX[:_PREFIX_BYTES]


@checked
class Scan:
    """Iterable of a record's events, in order. It can be iterated more than once.

    The counts below are those of the latest iteration, and complete when it has ended. Iterating raises WrongUse if the
    file cannot be read, is not a record, has a newer major version, or holds no run.
    """

    header: Header
    """The header of the record. An iteration sets it before it yields the first event."""

    def __init__(self, path: str | os.PathLike[str], *, parts: bool = False, attachments: bool = False) -> None:
        self.path = Path(path)
        self.damaged: list[int] = []
        """Numbers of damaged lines, from 1; at most `MAX_DAMAGED_NUMBERS`. A line is damaged if it cannot be decoded,
        or if its event is repeated or does not belong to a run.
        """
        self.damaged_lines = 0
        """The number of damaged lines."""
        self.lost = 0
        """The number of events that are missing in the middle of runs, by the gaps in their numbers."""
        self.incomplete = 0
        """The number of responses whose message lacks a part, because the events that held it are missing. They are
        yielded with the rest of the message, and keep their `deltas`."""
        self.redacted = False
        """Whether texts were redacted, when they were recorded or in a copy."""
        self.missing: list[str] = []
        """With `attachments=True`: hashes of missing ones; at most `attachments.MAX_MISSING_NAMES`."""
        self._parts = parts
        self._attachments = attachments

    def __iter__(self) -> Iterator[Event]:
        self.damaged, self.damaged_lines, self.lost, self.incomplete, self.redacted = [], 0, 0, 0, False
        parts, skipped = self._parts, frozenset[bytes]() if self._parts else _PARTS
        number = runs = 0
        run_id = ""
        last = skipped_lines = 0  # the number of the latest event, and of lines skipped since
        in_run = False
        first: RunStarted | None = None
        messages = MessageRestorer()
        hold_line = messages.hold_line
        held = frozenset[bytes]()
        attachments = AttachmentReader(self.path) if self._attachments else None
        event: Any  # types are compared instead of matched, because most of the time of a scan is spent here
        for lines in line_batches(self.path):
            if not number:
                self.header = parse_header(self.path, lines)
                held = _OF_MESSAGES if leaves_out(self.header) else held
            for line in lines:
                number += 1
                begins = line[:_PREFIX_BYTES]
                if begins in skipped:
                    skipped_lines += 1
                    if begins in held:
                        self.redacted = self.redacted or _REDACTED in line
                        hold_line(line)
                    continue
                self.redacted = self.redacted or _REDACTED in line
                try:
                    event = decode_run_started(line, first) if begins == _STARTED else decode_generic(line, first)
                except DECODE_ERRORS:
                    event = parse_line(line, first)
                    if isinstance(event, str):
                        skipped_lines += event == "unknown"
                        if event == "damaged":
                            self._add_damaged(number)
                        continue
                kind = type(event)
                if kind is RunStarted:
                    if event.run_id == run_id:
                        self._add_damaged(number)
                        continue
                    run_id, last, skipped_lines, in_run = event.run_id, event.seq, 0, True
                    runs += 1
                    self.redacted = self.redacted or "redaction" in event.functions
                    first = first or event
                    messages.feed(event)
                    yield event if attachments is None else attachments.restore(event)
                elif kind is Header or kind is DrainedChunk:
                    pass
                elif not (in_run and last < event.seq < last + MAX_LOST_EVENTS):
                    self._add_damaged(number)
                else:
                    if event.seq > last + skipped_lines + 1:
                        self.lost += event.seq - last - skipped_lines - 1
                    skipped_lines = 0
                    if kind is PartsLine:
                        last = event.last
                        messages.hold(event)
                        yield from event.events(deltas=parts)
                        continue
                    last = event.seq
                    in_run = kind is not RunFinished
                    if kind in STREAM_PARTS:
                        messages.feed(event)
                        if not parts:  # written by another program: it does not begin like endstop's lines
                            continue
                    elif kind is ResponseFinished:
                        event = messages.restore(event)
                        self.incomplete += event.deltas is not None
                    elif attachments is not None and kind in MAY_HOLD_IMAGES:
                        event = attachments.restore(event)
                    yield event
        self.missing = [] if attachments is None else attachments.missing
        if not number:
            self.header = parse_header(self.path, ())
        if not runs:
            raise WrongUse(f"{self.path}: {NO_RUN}")

    def _add_damaged(self, number: int) -> None:
        self.damaged_lines += 1
        if len(self.damaged) < MAX_DAMAGED_NUMBERS:
            self.damaged.append(number)


@explained
def scan(path: str | os.PathLike[str], *, parts: bool = False, attachments: bool = False) -> Scan:
    """Return the events of a record as a stream.

    parts: whether to include stream parts (deltas), which are most events of a record. Without them a scan is several
        times as fast: their lines are recognised by their first bytes and never decoded.
    attachments: whether to load attachments. Otherwise a result has only the beginning of an attached text.
    """
    return Scan(path, parts=parts, attachments=attachments)
