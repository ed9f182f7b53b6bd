"""What a store of sessions is asked for: the words that it and the service share.

A store keeps sessions, their runs, and the runs' events as they stand in a record. What a run does comes in as
batches of lines, each with what follows from it for the run and the session, so that both change in one transaction.
Times are ISO 8601 in UTC with milliseconds, as in records.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, Protocol

from msgspec import Struct, field

from ..decision import Outcome, Question
from ..decision.events import RunStarted
from ..durability import RunLost

# Several processes with one store: what they are, what becomes of the sessions of one that dies, what they are told.
#
# Each process enrols and renews its lease, and a session has a holder while it runs, so that of two processes only
# one has it at a time. Once a store object has enrolled, everything that it writes raises LeaseLost, and is not
# written, if its process was given up.

LEASE = 15.0
"""Seconds for which a process that is not heard of is believed to be alive."""


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
    seconds_left: float
    """Seconds until it is over; below 0: since when it is."""


class Orphan(Struct, frozen=True, kw_only=True):
    """A session that nobody has, though its run is `running` or `queued`."""

    session_id: str
    run_id: str | None
    """Its latest run. None: there is none; its process died before it began."""
    agent: str
    job: str | None = None
    """Of a queued run: what was handed in with it."""


class Membership(Protocol):
    """What a store does for the processes that have it open. All methods raise StoreError if it cannot be reached."""

    async def join(self, process: Process) -> None:
        """Let this process be known. From now on, until it is closed, this store object writes as that process."""
        ...

    async def heartbeat(self, process_id: str) -> bool:
        """Begin the lease anew; False if the process was given up. Comes back within seconds, also in an outage."""
        ...

    async def leave(self, process_id: str) -> None:
        """The process holds nothing any more, and is not known any more. What it still writes raises LeaseLost."""
        ...

    async def processes(self) -> list[StoredProcess]:
        """All that are known, in the order in which they started."""
        ...

    async def evict(self, process_id: str, *, even_alive: bool = False) -> bool:
        """Forget a process whose lease is over, so that it can write nothing more; whether that was so.

        even_alive: also if its lease goes on, because it is known to be gone. What it is writing at this moment is
        waited for, and is either there completely afterwards or will never be.
        """
        ...

    async def orphans(self) -> list[Orphan]:
        """Sessions that are `running`, and whose holder is not known (any more)."""
        ...

    async def interrupt_orphans(self, session_ids: Sequence[str], trouble: str | None = None) -> int:
        """Mark those of these that are still orphans as `interrupted`; gives how many.

        Sessions without a run are forgotten: nobody was told of them, and there is nothing that could go on.
        """
        ...

    async def requeue(self, session_ids: Sequence[str]) -> list[str]:
        """Let those of these wait again that are orphans, or that this process holds; gives which those are.

        Such a run goes on where it stood. Of several processes that do it at once, each session is given to one.
        """
        ...

    async def mark_interrupted(self, session_id: str, why: str) -> None:
        """Mark a session that this process holds as `interrupted`, with the reason for people (`trouble`)."""
        ...

    async def queued(self, older_than_seconds: float = 0.0) -> list[Orphan]:
        """Runs that have been waiting for longer than that, and that no known process has claimed; oldest first."""
        ...

    async def request_cancel(self, session_id: str, cause: str) -> bool:
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


__all__ = [
    "GOING",
    "EventBatch",
    "LeaseLost",
    "Membership",
    "NewSession",
    "Orphan",
    "OwnerLimitReached",
    "Page",
    "Process",
    "QueuedRun",
    "SequenceConflict",
    "SessionBusy",
    "SessionFilter",
    "SessionLocked",
    "SessionStatus",
    "Store",
    "StoreError",
    "StoredMessage",
    "StoredProcess",
    "StoredRun",
    "StoredSession",
]  # fmt: skip

SessionStatus = Literal[
    "queued", "running", "completed", "exhausted", "failed", "cancelled", "awaiting_input", "interrupted"
]
"""A run's status once it has ended; before that `queued` while it waits for a process, then `running`, or
`interrupted` if the process that ran it died."""
GOING = ("queued", "running")
"""With such a status a session has a run that has not ended."""


class NewSession(Struct, frozen=True, kw_only=True):
    """A session about to begin."""

    id: str
    owner: str
    agent: str
    title: str
    """What people know it by: the beginning of its first prompt."""
    created_at: str


class StoredSession(Struct, frozen=True, kw_only=True):
    """A session as the store has it."""

    id: str
    owner: str
    agent: str
    title: str
    status: SessionStatus
    stop_reason: str | None
    created_at: str
    updated_at: str
    run_id: str | None
    """Its latest run."""
    runs: int
    """How many there are."""
    steps: int
    """Of all its runs."""
    questions: tuple[Question, ...] = ()
    """Those that are open."""
    holder: str | None = None
    """The process that has it, while it runs or is about to. That process may be gone: see `Store.orphans`."""
    trouble: str | None = None
    """With `interrupted`: why it does not go on by itself, for people."""


class SessionFilter(Struct, frozen=True, kw_only=True):
    """Which sessions are asked for; None for any."""

    owner: str | None = None
    status: SessionStatus | None = None
    agent: str | None = None
    limit: int = 50
    """How many at the most."""
    before: str | None = None
    """Where the page before ended."""


class StoredRun(Struct, frozen=True, kw_only=True):
    """A run as the store has it."""

    id: str
    session_id: str
    number: int
    """From 1 in its session."""
    status: SessionStatus
    stop_reason: str | None
    prompt: str | None
    """None if it went on after an answer."""
    started_at: str
    finished_at: str | None
    last_seq: int
    """The number of its latest event that is stored."""
    outcome: Outcome | None
    resumed_at: tuple[int, ...] = ()
    """The numbers of its events RUN_RESUMED: from each of them on, numbers may have been used before, for events that
    readers saw and the store never had."""
    cancel: str | None = None
    """Why it is to be cancelled, if somebody has asked for that."""
    job: str | None = None
    """What was handed in with it when it was queued, until it begins."""


class QueuedRun(Struct, frozen=True, kw_only=True):
    """A run that is to wait for a process."""

    session_id: str
    run_id: str
    """That of a new run, or of the session's latest one if that is interrupted and is to be resumed."""
    prompt: str | None
    """None if it goes on after an answer. Of a run that is to be resumed it transaction nothing."""
    at: str
    """When it was asked for."""
    new: NewSession | None = None
    """The session, if it is made along with its first run."""
    job: str | None = None
    """What `Store.queued` is to give back until the run begins."""
    owner_limit: int | None = None
    """How many sessions of its owner may be queued or running, this one included; None for any number."""


class EventBatch(Struct, frozen=True, kw_only=True):
    """Events of one run that follow one another, and what follows from them.

    A run's first batch has `started`, and its last one `finished`. One with neither only adds events, or goes on with
    a run that was interrupted (`resumed`).
    """

    session_id: str
    run_id: str
    first_seq: int
    last_seq: int
    lines: bytes
    """The events as lines of a record, each with its newline."""
    at: str
    """When the batch was handed in."""
    started: RunStarted | None = None
    resumed: bool = False
    finished: Outcome | None = None
    questions: tuple[Question, ...] = ()
    """With `finished`: the questions that are open then."""
    delivered: tuple[str, ...] = ()
    """Ids of messages that the run has taken up."""


class Page(Struct, frozen=True):
    """Events of one run that follow one another, as lines of a record."""

    run_id: str
    first_seq: int
    last_seq: int
    lines: bytes


class StoredMessage(Struct, frozen=True, kw_only=True):
    """What a user said while a run was going, until a run takes it up."""

    id: str
    session_id: str
    text: str
    created_at: str


class Store(Membership, Protocol):
    """Where sessions are kept. All methods raise StoreError if it cannot be reached or takes nothing more.

    Those that write raise LeaseLost, and write nothing, if this object's process has been given up.
    """

    async def open(self) -> None:
        """Connect, and bring the schema up to date. Raises WrongUse if it is newer than this endstop."""
        ...

    async def close(self) -> None:
        """Write what was handed in, and let go of every connection."""
        ...

    async def add(self, session: NewSession) -> None:
        """Keep a new session, with status `running`, held by this process."""
        ...

    async def commit(self, batch: EventBatch) -> None:
        """Write a batch; returns once a crash of this process cannot lose it. Batches of a run come in order.

        One that begins a run, or goes on with one, makes this process the session's holder, and one that ends a run
        leaves the session without one. Raises SessionLocked if another process holds the session, or if another run of it
        is queued.
        """
        ...

    async def session(self, id: str) -> StoredSession | None:
        """The session of this id."""
        ...

    async def sessions(self, wanted: SessionFilter = SessionFilter()) -> tuple[list[StoredSession], str | None]:  # noqa: B008  frozen
        """Sessions, newest first, and where the next page begins. Raises WrongUse if `before` is no such place."""
        ...

    async def run(self, id: str) -> StoredRun | None:
        """The run of this id."""
        ...

    async def runs(self, session_id: str) -> list[StoredRun]:
        """All runs of a session, in order."""
        ...

    async def pages(self, run_id: str, *, after: int = 0, limit: int = 64) -> list[Page]:
        """The first pages of a run that hold events after number `after`; the first may begin before it."""
        ...

    async def add_message(self, message: StoredMessage) -> None:
        """Keep what a user said until a run has heard it."""
        ...

    async def undelivered_messages(self, session_id: str) -> list[StoredMessage]:
        """What no run has heard yet, in order."""
        ...

    async def delete_messages(self, session_id: str) -> None:
        """Forget what no run has heard."""
        ...

    async def delete(self, session_id: str) -> bool:
        """Forget a session with all that belongs to it; whether it was there."""
        ...

    async def forget(self, *, before: str | None = None, keep: int | None = None) -> int:
        """Forget ended sessions: those last updated before a time, and all but the `keep` latest; gives how many.

        Sessions that are queued, running, interrupted or await input stay.
        """
        ...

    async def claim(self, session_id: str, run_id: str) -> StoredSession:
        """Make this process the holder of a session that is to run, with this as its latest run.

        Its status stays, until a batch transaction it. Claiming again what one holds transaction nothing.
        Raises SessionLocked if a process that is known holds it, alive or not; or if the run is over, or not the latest one.
        """
        ...

    async def queue(self, run: QueuedRun) -> None:
        """Let a run wait for a process: it and its session are `queued` then, and nobody holds the session.

        Doing it again for the same run transaction nothing while that waits. Raises SessionBusy if the session is running
        (a run that it has just been made for counts as none), or another run of it waits; OwnerLimitReached if that would be
        more of its owner's sessions than `owner_limit`.
        """
        ...


# What a store says when it does not do what it was asked.
#
# StoreError (an OSError) the store cannot do it ├── LeaseLost (and a RunLost) this process was given up ├── SessionLocked
# another process has the session ├── SequenceConflict events do not go on from what is stored ├── SessionBusy the session runs,
# or waits to run └── OwnerLimitReached its owner has as many such sessions as may be


class StoreError(OSError):
    """The store could not do it: the disk is full, the database is away. What is wrong stands in its text."""


class LeaseLost(StoreError, RunLost):
    """The process that writes was given up: others may have its sessions by now, and it writes nothing more."""


class SessionLocked(StoreError):
    """The session is not to be had: another process holds it, or its run is over or not its latest one."""


class SequenceConflict(StoreError):
    """Events do not go on from what is stored: somebody else has gone on with the run, or the database lost some."""


class SessionBusy(StoreError):
    """The session is running, or queued already."""


class OwnerLimitReached(StoreError):
    """As many sessions of this owner run, or wait to run, as may."""
