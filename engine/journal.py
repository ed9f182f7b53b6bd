"""Journals: store the events of a session so that they outlive the process, in a record file or the store of a server.

Writing never waits. `flush` is awaited before every side effect and returns once all written events are safe, so that
after a crash the journal has everything that was acted on.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from .base.version import __version__
from .decision import Event
from .providers.clock import Clock
from .records.format import DrainedChunk, Redact

if TYPE_CHECKING:
    from .records.recorder import RecordWriter


class Journal(Protocol):
    """Store of the events of one session, one run after another."""

    @property
    def path(self) -> str | None:
        """Path of the file that it writes, for hooks that read the record so far; None if it writes no file."""
        ...

    def write(self, event: Event | DrainedChunk) -> None:
        """Write an event. Returns immediately."""
        ...

    async def flush(self) -> None:
        """Wait until everything written is safe. If it cannot be made safe, raises OSError once, which ends the run."""
        ...

    def close(self) -> None:
        """End the journal's run. Nothing is written until the next run begins."""
        ...


class FileJournal:
    """Record file, open for one run."""

    def __init__(self, writer: RecordWriter) -> None:
        self._writer = writer
        self.path: str | None = str(writer.path)
        self.write = writer.write
        self.close = writer.close

    async def flush(self) -> None:
        """Pass everything to the operating system, which is fast enough to do without waiting."""
        self._writer.flush()


RecordTarget = str | os.PathLike[str] | Journal | None
"""Destination of a session's events: a file, a journal, or None."""


@contextmanager
def open_journal(
    target: RecordTarget, session_id: str, clock: Clock, *, redact: Redact | None, attach_above: int | None
) -> Iterator[Journal | None]:
    """Open the journal for one run. Between two runs a session has no open file. Raises WrongUse."""
    journal: Journal | None
    if isinstance(target, str | os.PathLike):
        from .records.recorder import RecordWriter

        now = clock.wall().isoformat(timespec="milliseconds")
        writer = RecordWriter(
            target, session_id, now, __version__, redact=redact, attach_above=attach_above, one_session=True
        )
        journal = FileJournal(writer)
    else:
        journal = target
    try:
        yield journal
    finally:
        if journal is not None:
            journal.close()
