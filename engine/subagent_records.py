"""Storage of sub-agents' sessions: in files next to the caller's record, or where a server keeps its sessions.

A sub-agent's session has an id derived from its call, so it is found again after the process died, and when the user
has answered its questions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path
from typing import Protocol

from .config import RunConfig
from .journal import RecordTarget
from .records.files import subagent_file, subagents_folder
from .records.reader import RecordedRun, read_beginning, read_record
from .run import Run
from .session import Session


class SubagentRecords(Protocol):
    """Store of the sub-agents' sessions of one session. `name`: that of their tool."""

    def target(self, name: str, session_id: str) -> RecordTarget:
        """Return the destination of this session's events; None if `kept` decides it for each run."""
        ...

    def path(self, name: str, session_id: str) -> str:
        """Return the path of its record, relative to the folder of the caller's record; empty if it is not a file."""
        ...

    async def runs(self, name: str, session_id: str) -> Sequence[RecordedRun]:
        """Return the runs of this session that have begun; none if it is new."""
        ...

    def kept(
        self, session: Session, run: Run, config: RunConfig, title: str
    ) -> AbstractAsyncContextManager[Callable[[], None]]:
        """Keep what this run does until the block ends. The value is a function to call once the run has begun.

        title: a title by which people recognise a new session.
        """
        ...


class SubagentFolder:
    """Folder next to the caller's record, which is the file `record`."""

    def __init__(self, record: str) -> None:
        self._folder = subagents_folder(record)

    def target(self, name: str, session_id: str) -> Path:
        """Return the file of this session, which need not exist yet."""
        return self._folder / subagent_file(name, session_id)

    def path(self, name: str, session_id: str) -> str:
        """Return the path of its record, relative to the folder of the caller's record."""
        return f"{self._folder.name}/{self.target(name, session_id).name}"

    async def runs(self, name: str, session_id: str) -> Sequence[RecordedRun]:
        """Return the runs of this session that have begun; none if it is new.

        Creates the folder of its record, so that it can begin. A record whose first line is incomplete holds nothing:
        it is removed, and the session starts over.
        """
        record = self.target(name, session_id)
        if not _has_whole_line(record):
            record.unlink(missing_ok=True)
            record.parent.mkdir(parents=True, exist_ok=True)
            return ()
        return () if read_beginning(record)[1] is None else read_record(record).runs

    def kept(
        self, session: Session, run: Run, config: RunConfig, title: str
    ) -> AbstractAsyncContextManager[Callable[[], None]]:
        """Keep nothing, because the session writes its record."""
        return nothing_to_keep()


def _has_whole_line(path: Path) -> bool:
    """Return whether the first line of a file ends in a line feed; False if there is no such file."""
    try:
        with path.open("rb") as file:
            return file.readline().endswith(b"\n")
    except FileNotFoundError:
        return False


def nothing_to_keep() -> AbstractAsyncContextManager[Callable[[], None]]:
    """Return a context for a run of which nothing is kept beyond what its session keeps by itself."""
    return nullcontext(lambda: None)
