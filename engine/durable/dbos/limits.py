"""The limits of a queue."""

from __future__ import annotations

from typing import NamedTuple


class QueueLimits(NamedTuple):
    """How many runs may be executed at the same time in all processes together; None for no limit."""

    in_all: int | None = None
    each: int | None = None
    """How many of one owner."""
