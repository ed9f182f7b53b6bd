"""The event log of one run: `Log` numbers an event, dates it, folds it into the facts and passes it on.

It also judges the progress of each step and writes that into the step's STEP_FINISHED.

Nothing else changes a run.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol, TypeVar

from msgspec.structs import replace

from .decision import Event, Facts, StepJudge, fold
from .decision.events import (
    STREAM_PARTS,
    AttemptStarted,
    ResponseFinished,
    RunFinished,
    StepFinished,
    StepStarted,
    ToolExecutionStarted,
)
from .decision.step_history import StepHistory
from .decision.step_judge import JUDGED_EVENTS
from .durability import ResumeRefused, RunLost
from .providers.clock import Clock
from .providers.surrogate_pairs import with_whole_characters

WITHIN_STEP: frozenset[type] = frozenset(
    {StepStarted, AttemptStarted, ResponseFinished, ToolExecutionStarted, StepFinished}
)
"""Events of each step that hold no words of users, hooks and tools. A provider's parser takes care of the characters of
its own words."""
E = TypeVar("E", bound=Event)


class Past(Protocol):
    """Events that the record of a run already holds, and that the run is about to append again."""

    def take(self, event: Event) -> Sequence[Event]:
        """Return the recorded form of this event, after other events that belong to it; empty if it is a new event."""
        ...

    def end(self, new: Event | str) -> tuple[Sequence[Event], Sequence[Event]]:
        """Return the recorded events, and the new ones, that precede this new event or effect (its name).

        Raises ResumeRefused if the run would differ from its record although it must not.
        """
        ...

    @property
    def passed(self) -> bool:
        """Whether the run has gone beyond its record. Single events may still be recorded already."""
        ...

    @property
    def ended(self) -> bool:
        """Whether no later event can be recorded already."""
        ...


class Log:
    """Append-only log of a run. `sinks` (record, bus) get every event in order and must not wait.

    `transcript` gets each event before them, except stream parts (deltas), by far the most frequent events.
    """

    def __init__(
        self, clock: Clock, transcript: Callable[[Event], None], sinks: Sequence[Callable[[Event], None]]
    ) -> None:
        self.facts = Facts()
        self.finished = False
        """True once the terminal event is in the log, or another process has the run: nothing may follow."""
        self._closed_by: Exception | None = None
        self._past: Past | None = None
        self._seq = 0
        self._now = clock.now
        self._began = clock.now()
        self._judge = StepJudge()
        self.on_caught_up: Callable[[], None] = lambda: None
        """Called when `catching_up` becomes false."""
        self._transcript = transcript
        self._sinks = tuple(sinks)

    @property
    def elapsed(self) -> float:
        """Seconds since the run began, without the time in which no process executed it."""
        return self.facts.t / 1000 if self.catching_up else self._now() - self._began

    def continue_from(
        self, facts: Facts, history: StepHistory, past: Past | None, *, seq: int, t: int, finished: bool = False
    ) -> None:
        """Continue a run from these facts although its record goes on until its event `seq`, at `t`, with `past`.

        history: the history of the steps up to there. An event that the record holds changes the facts again, but is
        not passed to the sinks. Without `past` these are the facts after that event. finished: whether it is the
        terminal one.
        """
        self.facts, self._past, self._seq, self.finished = facts, past, seq, finished
        self._began = self._now() - t / 1000
        self._judge = StepJudge(history)

    @property
    def history(self) -> StepHistory:
        """The history of the steps so far."""
        return self._judge.history

    @property
    def seq(self) -> int:
        """The number of the latest event."""
        return self._seq

    @property
    def has_past(self) -> bool:
        """Whether appended events may be recorded already."""
        return self._past is not None

    @property
    def catching_up(self) -> bool:
        """Whether the run repeats what a process that died has recorded, and has not yet done anything new."""
        return self._past is not None and not self._past.passed

    def end_past(self, new: Event | str) -> None:
        """Go beyond the record, if there is one, with this event or with an effect about to be done (its name).

        Raises ResumeRefused if the run would differ from its record although it must not.
        """
        past = self._past
        if past is None:
            return
        caught_up = self.catching_up
        try:
            recorded, unrecorded = past.end(new)
        except ResumeRefused as refused:
            self.close(refused)
            raise
        for one in recorded:
            self._apply(one)
        self._past = None
        for one in unrecorded:
            self.append(one)
        self._past = None if past.ended else past
        if caught_up:
            self.on_caught_up()

    def add_sink(self, sink: Callable[[Event], None]) -> None:
        """Add a sink that gets every later event. It must neither wait nor raise."""
        self._sinks = (*self._sinks, sink)

    @contextmanager
    def captured(self, kinds: Collection[type]) -> Iterator[list[Event]]:
        """Yield a list that collects all events of these types appended inside the block."""
        events: list[Event] = []

        def capture(event: Event) -> None:
            if type(event) in kinds:
                events.append(event)

        self.add_sink(capture)
        try:
            yield events
        finally:
            self._sinks = tuple(sink for sink in self._sinks if sink is not capture)

    def close(self, reason: RunLost | ResumeRefused) -> None:
        """Refuse every later event by raising `reason`: another process writes this run, or it may not continue."""
        self._closed_by, self.finished = reason, True

    def append(self, event: E) -> E:
        """Append an event and return it with its number and time, as it is recorded.

        Raises RunLost once another process has the run, and ResumeRefused (see `end_past`).
        """
        if self._past is not None or self.finished:
            recorded = self._take_recorded(event)
            if recorded is not None:
                return recorded
        self._seq += 1
        stamped = replace(event, seq=self._seq, t=int((self._now() - self._began) * 1000 + 0.5))
        if type(stamped) not in STREAM_PARTS:
            self.finished = type(stamped) is RunFinished
            stamped = self._apply(stamped if type(stamped) in WITHIN_STEP else with_whole_characters(stamped))
        for sink in self._sinks:
            sink(stamped)
        return stamped

    def _take_recorded(self, event: E) -> E | None:
        """Return the event as the record of the run already holds it; None if it is a new one."""
        if self.finished:
            if self._closed_by is not None:
                raise self._closed_by
            raise RuntimeError(f"{type(event).__name__} after the terminal event of the run")
        recorded = () if self._past is None else self._past.take(event)
        applied = [self._apply(one) for one in recorded]
        if applied:
            return applied[-1]  # type: ignore[return-value]  # it has the type of `event`
        self.end_past(event)
        return None

    def _apply(self, event: E) -> E:
        """Fold an event and return it. The end of a step is returned with the judgement of that step."""
        if type(event) in JUDGED_EVENTS:
            event = self._judge.feed(self.facts, event)
        self.facts = fold(self.facts, event)
        self._transcript(event)
        return event
