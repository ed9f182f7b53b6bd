"""In which line of a record an event stands: a line may hold several (`endstop.records.parts_line`)."""

from __future__ import annotations

import json
from pathlib import Path


def lines_before(record: Path, seq: int) -> list[bytes]:
    """The header, and the lines of the first run before the one that holds this event."""
    return record.read_bytes().splitlines(keepends=True)[: line_of(record, 0, seq) - 1]


def line_of(record: Path, run: int, seq: int) -> int:
    """The number of the line, from 1 for the header, that holds this event of a run, from 0."""
    number = -1
    for line, text in enumerate(record.read_bytes().splitlines(), 1):
        fields = json.loads(text)
        number += fields["type"] == "RUN_STARTED"
        if number == run and fields["seq"] <= seq < fields["seq"] + fields.get("count", 1):
            return line
    raise AssertionError(f"{record} has no event {seq} in run {run}")
