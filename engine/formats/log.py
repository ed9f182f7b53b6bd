"""The log of one imported run: numbers an event, dates it, folds it, hands it on, as the engine's does."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from ..decision import Event, Facts, fold
from ..decision.events import STREAM_PARTS

Sink = Callable[[Event], None]


class RunLog:
    """Append-only; time only goes forward. `start` is when the run began, in seconds since 1970, if that is known."""

    def __init__(self, sink: Sink, start: float | None) -> None:
        self.facts = Facts()
        self._sink = sink
        self._start = start
        self._seq = 0
        self._t = 0

    def reach(self, t: float | None) -> None:
        """It is so late now, in seconds since 1970."""
        if t is not None and self._start is not None:
            self._t = max(self._t, round((t - self._start) * 1000))

    def append(self, event: Event) -> None:
        """Add an event."""
        self._seq += 1
        stamped = replace(event, seq=self._seq, t=self._t)
        if type(stamped) not in STREAM_PARTS:
            self.facts = fold(self.facts, stamped)
        self._sink(stamped)
