"""The log of one run: number an event, date it, fold it, hand it on. The only thing that changes a run."""

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
from .records.writer import RecordWriter

E = TypeVar("E", bound=Event)


class Log:
    """Append-only. `sinks` get every event in order and must not wait: record, bus.

    The transcript comes before them, and is not told the parts of a stream, which are most of all events.
    """

    def __init__(
        self, clock: Clock, transcript: Callable[[Event], None], sinks: Sequence[Callable[[Event], None]]
    ) -> None:
        self.facts = Facts()
        self.finished = False
        """True once the terminal event is in, or the run is lost: nothing may follow."""
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

    def go_on(self, facts: Facts, seq: int, t: int) -> None:
        """Take up a run that was interrupted after event `seq`, `t` milliseconds after it began."""
        self.facts, self._seq = facts, seq
        self._began = self._now() - t / 1000

    def tell(self, sink: Callable[[Event], None]) -> None:
        """Hand every further event to this one, too. It must neither wait nor raise."""
        self._sinks = (*self._sinks, sink)

    @contextmanager
    def overheard(self, kinds: Collection[type]) -> Iterator[list[Event]]:
        """The events of these kinds that are added inside."""
        heard: list[Event] = []

        def hear(event: Event) -> None:
            if type(event) in kinds:
                heard.append(event)

        self.tell(hear)
        try:
            yield heard
        finally:
            self._sinks = tuple(sink for sink in self._sinks if sink is not hear)

    def close(self, lost: RunLost) -> None:
        """Let nothing be added any more: another process writes this run now."""
        self._lost, self.finished = lost, True

    def append(self, event: E) -> E:
        """Add an event; returns it with its number and time. Raises RunLost once another process has the run."""
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


# Where the events of a run are written as they happen: a record file, or whatever keeps sessions for a server.
#
# Writing never waits. `flush` is awaited before every side effect, and returns once what was written outlives this
# process; so whoever reads the journal after a crash finds everything that was acted on.


class Journal(Protocol):
    """Takes the events of one session, one run after another."""

    @property
    def path(self) -> str | None:
        """The file that it writes, for functions that look at the record so far; None if there is none."""
        ...

    def write(self, event: Event | DrainedChunk) -> None:
        """Take an event. Returns at once."""
        ...

    async def flush(self) -> None:
        """Wait until all that was written is kept. Raises OSError, once, if it cannot be; the run then ends by it."""
        ...

    def close(self) -> None:
        """The run is over. Nothing is written before the next one begins."""
        ...


class FileJournal:
    """A record file, open for one run."""

    def __init__(self, writer: RecordWriter) -> None:
        self._writer = writer
        self.path: str | None = str(writer.path)
        self.write = writer.write
        self.close = writer.close

    async def flush(self) -> None:
        """Hand everything to the operating system, which is quick enough not to be waited for."""
        self._writer.flush()


RecordTarget = str | os.PathLike[str] | Journal | None
"""Where a session's events are to be kept: a file, a journal, or nowhere."""


@contextmanager
def open_journal(
    target: RecordTarget, session_id: str, clock: Clock, *, redact: Redact | None, attach_above: int | None
) -> Iterator[Journal | None]:
    """The journal for one run: no file stays open in a session that rests. Raises WrongUse."""
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
