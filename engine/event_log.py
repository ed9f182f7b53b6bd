"""The event log of one run, and the journal that keeps its events.

`Log` numbers an event, dates it, folds it into the facts and hands it on; nothing else changes a run. A `Journal`
writes events where they outlive the process: a record file, or the store of a server. Writing never waits. `flush` is
awaited before every side effect and returns once what was written is safe, so whoever reads the journal after a crash
finds everything that was acted on.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol, TypeVar

from msgspec.structs import replace

from ._version import __version__
from .decision import Event, Facts, fold
from .decision.events import STREAM_PARTS, RunFinished
from .durability import RunLost
from .providers.clock import Clock
from .records.event_redaction import Redact
from .records.format import DrainedChunk
from .records.recorder import RecordWriter

E = TypeVar("E", bound=Event)


class Log:
    """The append-only log of a run. `sinks` (record, bus) get every event in order and must not wait.

    `transcript` gets each event before them, except stream parts (deltas), which are by far the most events.
    """

    def __init__(
        self, clock: Clock, transcript: Callable[[Event], None], sinks: Sequence[Callable[[Event], None]]
    ) -> None:
        self.facts = Facts()
        self.finished = False
        """True once the terminal event is in, or another process has the run: nothing may follow."""
        self._lost: RunLost | None = None
        self._seq = 0
        self._now = clock.now
        self._began = clock.now()
        self._transcript = transcript
        self._sinks = tuple(sinks)

    @property
    def elapsed(self) -> float:
        """Seconds since the run began."""
        return self._now() - self._began

    def continue_after(self, facts: Facts, seq: int, t: int) -> None:
        """Continue a run that was interrupted after event `seq`, `t` milliseconds after it began."""
        self.facts, self._seq = facts, seq
        self._began = self._now() - t / 1000

    def add_sink(self, sink: Callable[[Event], None]) -> None:
        """Hand every later event to this sink, too. It must neither wait nor raise."""
        self._sinks = (*self._sinks, sink)

    @contextmanager
    def captured(self, kinds: Collection[type]) -> Iterator[list[Event]]:
        """Yield a list, to which all events of these types are added that are appended inside the block."""
        events: list[Event] = []

        def capture(event: Event) -> None:
            if type(event) in kinds:
                events.append(event)

        self.add_sink(capture)
        try:
            yield events
        finally:
            self._sinks = tuple(sink for sink in self._sinks if sink is not capture)

    def close(self, lost: RunLost) -> None:
        """Refuse every later event: another process writes this run now."""
        self._lost, self.finished = lost, True

    def append(self, event: E) -> E:
        """Append an event; returns it with its number and time. Raises RunLost once another process has the run."""
        if self.finished:
            if self._lost is not None:
                raise self._lost
            raise RuntimeError(f"{type(event).__name__} after the terminal event of the run")
        self._seq += 1
        stamped = replace(event, seq=self._seq, t=int((self._now() - self._began) * 1000 + 0.5))
        if type(stamped) not in STREAM_PARTS:
            self.facts = fold(self.facts, stamped)
            self.finished = type(stamped) is RunFinished
            self._transcript(stamped)
        for sink in self._sinks:
            sink(stamped)
        return stamped


class Journal(Protocol):
    """Takes the events of one session, one run after another."""

    @property
    def path(self) -> str | None:
        """The file that it writes, for hooks that read the record so far; None if it writes no file."""
        ...

    def write(self, event: Event | DrainedChunk) -> None:
        """Write an event. Returns at once."""
        ...

    async def flush(self) -> None:
        """Wait until everything written is safe. Raises OSError once if it cannot be, which ends the run."""
        ...

    def close(self) -> None:
        """Called at the end of each run. Nothing is written until the next run begins."""
        ...


class FileJournal:
    """A record file, open for one run."""

    def __init__(self, writer: RecordWriter) -> None:
        self._writer = writer
        self.path: str | None = str(writer.path)
        self.write = writer.write
        self.close = writer.close

    async def flush(self) -> None:
        """Hand everything to the operating system: quick enough to do without waiting."""
        self._writer.flush()


RecordTarget = str | os.PathLike[str] | Journal | None
"""Where a session's events go: a file, a journal, or nowhere."""


@contextmanager
def open_journal(
    target: RecordTarget, session_id: str, clock: Clock, *, redact: Redact | None, attach_above: int | None
) -> Iterator[Journal | None]:
    """The journal for one run; a session between two runs has no open file. Raises WrongUse."""
    journal: Journal | None
    if isinstance(target, str | os.PathLike):
        now = clock.wall().isoformat(timespec="milliseconds")
        writer = RecordWriter(target, session_id, now, __version__, redact=redact, attach_above=attach_above)
        journal = FileJournal(writer)
    else:
        journal = target
    try:
        yield journal
    finally:
        if journal is not None:
            journal.close()
