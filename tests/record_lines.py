"""In which line of a record an event stands: a line may hold several (`endstop.records.parts_line`)."""

from __future__ import annotations

import json
from pathlib import Path


def lines_before(record: Path, seq: int) -> list[bytes]:
    """The header, and the lines of the first run before the one that holds this event."""
    header, *lines = record.read_bytes().splitlines(keepends=True)
    kept = [header]
    for line in lines:
        fields = json.loads(line)
        if fields["seq"] + fields.get("count", 1) > seq:
            return kept
        kept.append(line)
    raise AssertionError(f"{record} has no event {seq}")
