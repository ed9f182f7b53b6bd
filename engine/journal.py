"""Journals: what keeps the events of a session where they outlive the process, a record file or the store of a server.

Writing never waits. `flush` is awaited before every side effect and returns once what was written is safe, so whoever
reads the journal after a crash finds everything that was acted on.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from ._version import __version__
from .decision import Event
from .providers.clock import Clock
from .records.format import DrainedChunk, Redact

if TYPE_CHECKING:
    from .records.recorder import RecordWriter


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
        from .records.recorder import RecordWriter

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
