"""Several processes with one store: what they are, what becomes of the sessions of one that dies, what they are told.

Each process enrols and renews its lease, and a session has a holder while it runs, so that of two processes only one
has it at a time. Once a store object has enrolled, everything that it writes raises LeaseLost, and is not written, if
its process was given up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct, field


class Process(Struct, frozen=True, kw_only=True):
    """A process that holds sessions, and what is known of where it runs. Made by `process.this_process`."""

    id: str
    """No other process was ever called so: letters, digits, `-`, `_`, `.` and `:`."""
    kind: str
    """`service`, `serve` or `worker`."""
    host: str
    pid: int
    started_at: str
    lease_seconds: float
    """How long it is believed to be alive after it was last heard of."""
    version: str
    about: dict[str, str] = field(default_factory=dict)
    """Whatever else people may want to know, and `boot`, `namespace` and `start`, by which `is_gone` knows it."""


class StoredProcess(Process, frozen=True, kw_only=True):
    """A process as the store has it, by the clock of the database."""

    alive: bool
    """Whether its lease goes on."""
    left: float
    """Seconds until it is over; below 0: since when it is."""


class Orphan(Struct, frozen=True, kw_only=True):
    """A session that nobody has, though its run is `running` or `queued`."""

    session_id: str
    run_id: str | None
    """Its latest run. None: there is none; its process died before it began."""
    agent: str
    job: str | None = None
    """Of a queued run: what was handed in with it."""


class Enrolled(Protocol):
    """What a store does for the processes that have it open. All methods raise StoreError if it cannot be reached."""

    async def enrol(self, process: Process) -> None:
        """Let this process be known. From now on, until it is closed, this store object writes as that process."""
        ...

    async def renew(self, process_id: str) -> bool:
        """Begin the lease anew; False if the process was given up. Comes back within seconds, also in an outage."""
        ...

    async def leave(self, process_id: str) -> None:
        """The process holds nothing any more, and is not known any more. What it still writes raises LeaseLost."""
        ...

    async def processes(self) -> list[StoredProcess]:
        """All that are known, in the order in which they started."""
        ...

    async def give_up(self, process_id: str, *, even_alive: bool = False) -> bool:
        """Forget a process whose lease is over, so that it can write nothing more; whether that was so.

        even_alive: also if its lease goes on, because it is known to be gone. What it is writing at this moment is
        waited for, and is either there completely afterwards or will never be.
        """
        ...

    async def orphans(self) -> list[Orphan]:
        """Sessions that are `running`, and whose holder is not known (any more)."""
        ...

    async def interrupt(self, session_ids: Sequence[str], trouble: str | None = None) -> int:
        """Mark those of these that are still orphans as `interrupted`; gives how many.

        Sessions without a run are forgotten: nobody was told of them, and there is nothing that could go on.
        """
        ...

    async def requeue(self, session_ids: Sequence[str]) -> list[str]:
        """Let those of these wait again that are orphans, or that this process holds; gives which those are.

        Such a run goes on where it stood. Of several processes that do it at once, each session is given to one.
        """
        ...

    async def set_aside(self, session_id: str, why: str) -> None:
        """Mark a session that this process holds as `interrupted`, with the reason for people (`trouble`)."""
        ...

    async def queued(self, older_than_seconds: float = 0.0) -> list[Orphan]:
        """Runs that have been waiting for longer than that, and that no known process has claimed; oldest first."""
        ...

    async def ask_cancel(self, session_id: str, cause: str) -> bool:
        """Note on the session's run that it is to be cancelled, for whoever has it or will have it.

        Only the first cause counts. False if the session neither runs nor waits.
        """
        ...

    def listen(self, told: Callable[[frozenset[str] | None], None]) -> None:
        """From now until it is closed, call this in the running event loop when others have changed sessions.

        told: gets the sessions' ids, or None if any may have changed: in the beginning, and whenever news may have
            been lost. Must not wait or raise. A store that only one process can have open calls it never.
        """
        ...
