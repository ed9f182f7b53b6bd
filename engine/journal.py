"""Where the events of a run are written as they happen: a record file, or whatever keeps sessions for a server.

Writing never waits. `flush` is awaited before every side effect, and returns once what was written outlives this
process; so whoever reads the journal after a crash finds everything that was acted on.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from ._version import __version__
from .decision import Event
from .records.format import AfterCut
from .records.reader import RecordWriter

if TYPE_CHECKING:
    from .engine import Engine


class Journal(Protocol):
    """Takes the events of one session, one run after another."""

    @property
    def path(self) -> str | None:
        """The file that it writes, for functions that look at the record so far; None if there is none."""
        ...

    def write(self, event: Event | AfterCut) -> None:
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


Kept = str | os.PathLike[str] | Journal | None
"""Where a session's events are to be kept: a file, a journal, or nowhere."""


@contextmanager
def journal_of(kept: Kept, engine: Engine, session_id: str) -> Iterator[Journal | None]:
    """The journal for one run: no file stays open in a session that rests. Raises WrongUse."""
    journal: Journal | None
    if isinstance(kept, str | os.PathLike):
        now = engine.clock.wall().isoformat(timespec="milliseconds")
        redact, above = engine.redact, engine.attach_above
        journal = FileJournal(RecordWriter(kept, session_id, now, __version__, redact=redact, attach_above=above))
    else:
        journal = kept
    try:
        yield journal
    finally:
        if journal is not None:
            journal.close()
