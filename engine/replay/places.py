"""Where an event stands in its run: what it is, in which step, the how manieth there.

The same event of a record and of its replay has the same place, though their numbers may differ: a replay passes over
what a killed process left unfinished, and an older record lacks events that are written today.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from ..decision import Event
from ..decision import events as ev
from ..records.reader import RecordedRun

Place = tuple[type, int | str, int]


class Beginning(Struct, frozen=True, kw_only=True):
    """The event from which on a replay is shown."""

    run: int
    """The number of its run in the record, from 0."""
    seq: int
    """Its number in that run."""


class Places:
    """Gives each event of a run its place, one after another."""

    def __init__(self) -> None:
        self.step = 0
        """The latest step that began."""
        self._counts: dict[tuple[type, int | str], int] = {}

    def of(self, event: Event) -> Place:
        """The place of the next event. A step that was asked for again, after a kill, has the places of the first."""
        if isinstance(event, ev.StepStarted):
            self._begin(event.step)
        within = event.call_id if isinstance(event, ev.ToolCallResult) else self.step  # parallel calls end in any order
        number = self._counts.get((type(event), within), 0)
        self._counts[type(event), within] = number + 1
        return type(event), within, number

    def _begin(self, step: int) -> None:
        if step <= self.step:
            self._counts = {at: number for at, number in self._counts.items() if at[1] != step}
        self.step = step


class Awaited:
    """Watches for a recorded event to come up in the replay of its run."""

    def __init__(self, recorded: RecordedRun, seq: int) -> None:
        places = Places()
        self._at_or_behind: set[Place] = set()
        self._step = 0
        for event in recorded.events:
            place = places.of(event)
            if event.seq >= seq:
                self._at_or_behind.add(place)
            else:
                self._step = places.step
        self._places = Places()

    @property
    def near(self) -> bool:
        """Whether it may come up in the step that is under way."""
        return self._places.step >= self._step

    def comes(self, event: Event) -> bool:
        """Whether this event, the next of the replay, is that one, or else the first that stands behind it."""
        return self._places.of(event) in self._at_or_behind


def recorded_seq(recorded: RecordedRun, replayed: Iterable[Event]) -> int:
    """The number that the latest of these events of a replay has in the record; 0 if it has none of them."""
    there, here = Places(), Places()
    numbers = {there.of(event): event.seq for event in recorded.events}
    return next((numbers[at] for at in reversed([here.of(event) for event in replayed]) if at in numbers), 0)
