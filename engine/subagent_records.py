"""Where sessions of sub-agents are kept: in files beside the caller's record, or where a server keeps its sessions.

A sub-agent's session has an id that follows from its call, so it is found again after the death of the process, and
when the user has answered what it had asked.
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
    """Keeps the sessions of sub-agents of one session. `name`: that of their tool."""

    def target(self, name: str, session_id: str) -> RecordTarget:
        """Where the events of this session go; None if `kept` says it for each run."""
        ...

    def path(self, name: str, session_id: str) -> str:
        """Path of its record, from the folder of the caller's; empty if it is no file."""
        ...

    async def runs(self, name: str, session_id: str) -> Sequence[RecordedRun]:
        """The runs of this session that have begun; none if it is new."""
        ...

    def kept(
        self, session: Session, run: Run, config: RunConfig, title: str
    ) -> AbstractAsyncContextManager[Callable[[], None]]:
        """Keep what this run does, until the block ends. Gives what is to be called once the run has begun.

        title: what people recognise a new session by.
        """
        ...


class SubagentFolder:
    """A folder beside the caller's record, which is the file `record`."""

    def __init__(self, record: str) -> None:
        self._folder = subagents_folder(record)

    def target(self, name: str, session_id: str) -> Path:
        """The file of this session; it need not exist yet."""
        return self._folder / subagent_file(name, session_id)

    def path(self, name: str, session_id: str) -> str:
        """See `SubagentRecords`."""
        return f"{self._folder.name}/{self.target(name, session_id).name}"

    async def runs(self, name: str, session_id: str) -> Sequence[RecordedRun]:
        """Return the runs of this session that have begun; none if it is new.

        Makes the folder of its record, so that it can begin. A record of which not even the first line was written to
        its end holds nothing: it is removed, and the session begins anew.
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
        """Nothing to do: the session writes its record."""
        return nothing_to_keep()


def _has_whole_line(path: Path) -> bool:
    """Return whether the first line of a file ends in a line feed; False if there is no such file."""
    try:
        with path.open("rb") as file:
            return file.readline().endswith(b"\n")
    except FileNotFoundError:
        return False


def nothing_to_keep() -> AbstractAsyncContextManager[Callable[[], None]]:
    """The context of a run of which no more is kept than its session does by itself."""
    return nullcontext(lambda: None)
