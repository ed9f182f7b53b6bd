"""What could not be read, wholly or in part, among many records."""

from __future__ import annotations

from msgspec import Struct


class BadRecord(Struct, frozen=True):
    """A file that could not be read, and why."""

    record: str
    why: str


def read_in_part(record: str, damaged: int, lost: int, done: str) -> BadRecord | None:
    """A record of which some lines are damaged or some events lost; None if it is whole. `done`: what was done."""
    if not (damaged or lost):
        return None
    missing = f", and {lost} events are missing" if lost else ""
    return BadRecord(record, f"{damaged} of its lines cannot be read{missing}; it was {done} without them")
