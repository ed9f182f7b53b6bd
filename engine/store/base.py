"""The protocol of a session store: sessions, runs and events, and the processes that share the store.

A store keeps sessions, their runs, and the events of each run exactly as a record has them. A run writes batches of
events; each batch carries the changes of its run and session that follow from the events, so that all of them are
committed in one transaction. Times are ISO 8601 in UTC with milliseconds, as in records.

Several processes may share a store. Each one joins it and renews a lease. While a session runs it has a holder, so that
only one process works on it at a time. Once a store object has joined, every write of it checks that its process is
still a member: after an eviction it raises LeaseLost and writes nothing.

Each claim of a session gets a fencing token, a number that is higher than those of all claims before it. What is
written for a claim is refused once there is a later one, even if the same process has made both.

    StoreError (an OSError)          the store cannot do it: the disk is full, the database is away
    ├── LeaseLost (and a RunLost)    this process was evicted
    ├── SessionLocked                another process holds the session, or its run is over
    ├── SequenceConflict             events do not continue what is stored
    └── SessionBusy                  the session is running or queued
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, Protocol

from msgspec import Struct, field

from ..decision import Image, Outcome, Question, UserMessage
from ..decision.events import RunStarted
from ..decision.wrong_attributes import explained_attributes
from ..decision.wrong_calls import CheckedStruct, ExplainedStruct
from ..durability import RunLost

__all__ = [
    "GOING", "LEASE", "Archive", "EventBatch", "LeaseLost", "Membership", "NewSession", "Orphan", "Overview", "Page",
    "Process", "QueuedRun", "SequenceConflict", "SessionBusy", "SessionFilter", "SessionLocked", "SessionStatus",
    "Store", "StoreError", "StoredMessage", "StoredProcess", "StoredRun", "StoredSession",
]  # fmt: skip

SessionStatus = Literal[
    "queued", "running", "completed", "exhausted", "failed", "cancelled", "awaiting_input", "interrupted"
]
"""Status of a run, and of the session whose latest run it is. Before the run ends it is `queued` (waits for a process),
`running`, or `interrupted` (its process died or gave up, and nothing continues the run by itself)."""
GOING = ("queued", "running")
"""A session with one of these statuses has a run that a process executes or is to execute."""
PAGE_FORMAT = 3
"""The newest format of pages that this process reads, `Process.about["pages"]`. Pages of format 2 leave out texts that
their deltas have; those of format 3 may be compressed, too."""
LEASE = 15.0
"""Default of `Process.lease_seconds`: the seconds after its last heartbeat during which a process counts as alive."""


@explained_attributes
class StoreError(OSError):
    """The store could not do what was asked, because the disk is full or the database is away, for example.

    The text says what is wrong.
    """


class LeaseLost(StoreError, RunLost):
    """The writing process was evicted: others may have taken its sessions, and it can write nothing more."""


class SessionLocked(StoreError):
    """The session cannot be taken: another process holds it, or the run is over or not the session's latest one."""


class SessionDeleted(StoreError):
    """The session, or the run, was deleted: nothing more can be written for it."""


class SequenceConflict(StoreError):
    """Events do not continue what is stored: another process continued the run, or the database lost events."""


class SessionBusy(StoreError):
    """The session is running or queued already."""


Archive = Callable[[Sequence[str]], Awaitable[Mapping[str, int]]]
"""Keeps sessions elsewhere before they are deleted. Takes their ids, and returns those that are kept now, each with
`StoredSession.token` as it was."""


class NewSession(ExplainedStruct, frozen=True, kw_only=True):
    """A session about to start."""

    id: str
    owner: str
    agent: str
    title: str
    """A title for people: the beginning of its first prompt."""
    created_at: str
    metadata: dict[str, Any] = {}
    """Metadata that the functions of its runs get with their context."""
    parent: str | None = None
    """For a sub-agent: the session whose call runs it."""


class StoredSession(ExplainedStruct, frozen=True, kw_only=True):
    """A session, as read from the store."""

    id: str
    owner: str
    agent: str
    title: str
    status: SessionStatus
    stop_reason: str | None
    created_at: str
    updated_at: str
    run_id: str | None
    """Id of the latest run; None before the first."""
    runs: int
    """How many runs it has."""
    steps: int
    """How many steps all its runs have together."""
    questions: tuple[Question, ...] = ()
    """The questions that are open."""
    holder: str | None = None
    """The process that holds it, while it runs or is about to. It may be dead: see `Store.orphans`."""
    trouble: str | None = None
    """For an `interrupted` session: why it does not continue by itself, for people."""
    token: int = 0
    """The token of its latest claim, which grows with each claim; 0: nobody has claimed it."""
    metadata: dict[str, Any] = {}
    """Metadata that the functions of its runs get with their context."""
    parent: str | None = None
    """For a sub-agent: the session whose call runs it, which alone starts its runs."""


class SessionFilter(CheckedStruct, frozen=True, kw_only=True):
    """Which sessions to list. None: any."""

    parent: str | None = None
    """The sub-agents of this session. None: sessions that are not sub-agents."""

    owner: str | None = None
    status: SessionStatus | None = None
    agent: str | None = None
    limit: int = 50
    """The largest number of sessions on the page."""
    before: str | None = None
    """The cursor of the page, as returned with the previous page. None: the first page."""


class StoredRun(ExplainedStruct, frozen=True, kw_only=True):
    """A run, as read from the store."""

    id: str
    session_id: str
    number: int
    """Its number in the session, from 1."""
    status: SessionStatus
    stop_reason: str | None
    prompt: str | None
    """None if it started with an answer."""
    started_at: str
    finished_at: str | None
    last_seq: int
    """The sequence number of its latest stored event."""
    outcome: Outcome | None
    resumed_at: tuple[int, ...] = ()
    """The sequence numbers of its RUN_RESUMED events. From each of them on, numbers may have been used before, for
    events that readers saw and the store never got."""
    cancel: str | None = None
    """The cause given with the first request to cancel it. None: nobody has requested it."""
    job: str | None = None
    """`QueuedRun.job`, until the run starts."""


class QueuedRun(ExplainedStruct, frozen=True, kw_only=True):
    """A run to put into the queue."""

    session_id: str
    run_id: str
    """The id of a new run, or of the session's latest one, if that is interrupted and is to be resumed."""
    prompt: str | None
    """None if it starts with an answer. A run that is resumed keeps its own."""
    at: str
    """When it was requested."""
    new: NewSession | None = None
    """The session to create along with its first run."""
    job: str | None = None
    """A text that the store only keeps and `Store.queued` returns until the run starts. The service puts the `Job` for
    the queue here, as JSON."""


@explained_attributes
class EventBatch(Struct, frozen=True, kw_only=True):
    """Consecutive events of one run, and the changes that follow from them.

    The first batch of a run has `started`, the last one `finished`. A batch with neither only adds events, or resumes
    an interrupted run (`resumed`).
    """

    session_id: str
    run_id: str
    first_seq: int
    last_seq: int
    lines: bytes
    """The events as lines of a record, each with its newline."""
    compress: bool = False
    """Whether the store may keep them in a form that processes of versions before format 3 of pages cannot read
    (`PAGE_FORMAT`). What is read from it is the same."""
    at: str
    """When the batch was submitted."""
    started: RunStarted | None = None
    resumed: bool = False
    finished: Outcome | None = None
    questions: tuple[Question, ...] = ()
    """Open questions at the end of the run; only with `finished`."""
    delivered: tuple[str, ...] = ()
    """Ids of messages that the run has received."""
    token: int | None = None
    """The token of the claim for which this is written. None: a batch that starts or resumes a run claims the session;
    for another one any claim of this process will do."""


@explained_attributes
class Page(Struct, frozen=True):
    """Consecutive events of one run, as lines of a record."""

    run_id: str
    first_seq: int
    last_seq: int
    lines: bytes


class StoredMessage(ExplainedStruct, frozen=True, kw_only=True):
    """A message of a user to a session that is running, kept until a run receives it."""

    id: str
    session_id: str
    text: str
    created_at: str
    images: tuple[Image, ...] = ()

    @property
    def said(self) -> UserMessage:
        """The message as a run takes it."""
        return UserMessage(self.text, self.images)


class Process(ExplainedStruct, frozen=True, kw_only=True):
    """A process that shares the store. Made by `leases.this_process`."""

    id: str
    """Never used before by another process: letters, digits, `-`, `_`, `.` and `:`."""
    kind: str
    """`service`, `serve`, `worker` or `erase`."""
    host: str
    pid: int
    started_at: str
    lease_seconds: float
    """How long it is believed to be alive after its last heartbeat."""
    version: str
    about: dict[str, str] = field(default_factory=dict)
    """More for people to read; `boot`, `namespace` and `start`, by which `is_gone` recognises the process; and `pages`,
    the format of pages that it reads (`PAGE_FORMAT`)."""


class StoredProcess(Process, frozen=True, kw_only=True):
    """A process as read from the store, with what is left of its lease by the clock of the database."""

    alive: bool
    """Whether its lease is still valid."""
    seconds_left: float
    """Seconds until the lease expires; negative: since it expired."""


class Overview(ExplainedStruct, frozen=True, kw_only=True):
    """Numbers of all processes on the store together, at one moment."""

    sessions: dict[SessionStatus, int]
    """How many sessions are `queued`, `running`, `awaiting_input` and `interrupted`. Sub-agents are not counted, and
    neither are sessions that have ended: there may be millions."""
    oldest_queued_seconds: float | None
    """For how long the session has been queued that waits longest, by the clock of the database. None: none waits."""
    processes: tuple[StoredProcess, ...]
    """All members, in the order in which they started."""


class Orphan(ExplainedStruct, frozen=True, kw_only=True):
    """A session that is `running` or `queued`, and that no known process holds."""

    session_id: str
    run_id: str | None
    """The latest run. None: its process died before it stored one."""
    agent: str
    owner: str = ""
    job: str | None = None
    """For a queued run: its `QueuedRun.job`."""


class Membership(Protocol):
    """The part of a store for sharing it: the processes that share it, the sessions they hold, and their queue.

    All methods raise StoreError if the store cannot be reached.
    """

    async def join(self, process: Process) -> None:
        """Add this process to the members. From now on, until it is closed, this store object writes as that process.

        A process that is a member already gets a new lease.
        """
        ...

    async def heartbeat(self, process_id: str) -> bool:
        """Renew the lease; False if the process was evicted. Returns within seconds, also in an outage."""
        ...

    async def leave(self, process_id: str) -> None:
        """Remove the process from the members. Whatever it still writes raises LeaseLost."""
        ...

    async def processes(self) -> list[StoredProcess]:
        """Return all members, in the order in which they started."""
        ...

    async def settle_page_format(self) -> bool:
        """Return whether every member reads pages of `PAGE_FORMAT`: pages may be written so from now on.

        Then a process that does not read them can no longer join: `join` raises StoreError for it.
        """
        ...

    async def overview(self) -> Overview:
        """Return how many sessions wait or run, and all members. It is read as sessions are, not as leases."""
        ...

    async def evict(self, process_id: str, *, even_alive: bool = False) -> bool:
        """Remove a process whose lease has expired, so that it can write nothing more; True if it was removed.

        even_alive: also if the lease is valid, because the process is known to be dead. If the process is writing at
        this moment, this waits: its write is either complete afterwards, or will never happen.
        """
        ...

    async def orphans(self) -> list[Orphan]:
        """Return the sessions that are `running` and whose holder is not a member (any more).

        No sub-agents: see below.
        """
        ...

    async def interrupt_orphans(self, session_ids: Sequence[str], trouble: str | None = None) -> int:
        """Mark those of these sessions that are still orphans as `interrupted`; returns how many.

        Orphans without a run are deleted: nobody was told of them, and there is nothing to continue. Sub-agents whose
        process is gone are marked, too; they go on with their callers.
        """
        ...

    async def requeue(self, session_ids: Sequence[str], *, token: int | None = None) -> list[str]:
        """Queue those of these sessions again that are orphans or that this process holds; returns which.

        Such a run continues where it stopped. If several processes do this at the same time, each session goes to one
        of them. token: only sessions whose latest claim has this token and is one of this process.
        """
        ...

    async def mark_interrupted(self, session_id: str, why: str, *, token: int | None = None) -> None:
        """Mark a session that this process holds as `interrupted`, with the reason for people (`trouble`).

        token: only if its latest claim has this token.
        """
        ...

    async def queued(self, older_than_seconds: float = 0.0) -> list[Orphan]:
        """Return runs that have been queued for `older_than_seconds` and that no member has claimed; oldest first."""
        ...

    async def statuses(self, run_ids: Sequence[str]) -> dict[str, SessionStatus]:
        """Return the status of each of these runs that is stored, by its id."""
        ...

    async def request_cancel(self, session_id: str, cause: str) -> bool:
        """Store on the session's run that it is to be cancelled, for the process that executes it or will.

        Only the first cause counts. False if the session is neither running nor queued.
        """
        ...

    def listen(self, on_change: Callable[[frozenset[str] | None], None]) -> None:
        """Call `on_change` when other processes have changed sessions, from now until the store is closed.

        on_change: called in the running event loop with the ids of the sessions, or with None if any session may have
            changed: at the beginning, and whenever notifications may have been lost. It must not block or raise. A
            store without notifications (SQLite) looks twice a second, and then calls it with None.
        """
        ...


class Store(Membership, Protocol):
    """Where sessions are kept. All methods raise StoreError if the store cannot be reached or its disk is full.

    Those that write raise LeaseLost, and write nothing, if the process of this object was evicted.
    """

    async def open(self) -> None:
        """Connect, and bring the schema up to date. Raises WrongUse if it is newer than this endstop."""
        ...

    async def close(self) -> None:
        """Finish pending writes and close every connection."""
        ...

    async def add(self, session: NewSession) -> None:
        """Store a new session, `running` and held by this process."""
        ...

    async def commit(self, batch: EventBatch) -> int:
        """Write a batch; returns once a crash of this process cannot lose it. Batches of a run come in order.

        A batch that starts or resumes a run makes this process the holder of the session; one that ends a run leaves
        the session without a holder. Returns the token of the claim for which it was written. Raises SessionLocked if
        another process holds the session, `batch.token` is not the token of its latest claim or another run of it is
        queued, and SequenceConflict if the events do not continue what is stored.
        """
        ...

    async def session(self, id: str) -> StoredSession | None:
        """Return the session with this id."""
        ...

    async def sessions(self, wanted: SessionFilter = SessionFilter()) -> tuple[list[StoredSession], str | None]:  # noqa: B008  frozen
        """Return a page of sessions, newest first, and the cursor of the next page.

        Raises WrongUse for an invalid cursor.
        """
        ...

    async def run(self, id: str) -> StoredRun | None:
        """Return the run with this id."""
        ...

    async def runs(self, session_id: str) -> list[StoredRun]:
        """Return all runs of a session, in order."""
        ...

    async def pages(self, run_id: str, *, after: int = 0, limit: int = 64) -> list[Page]:
        """Return the first pages of a run with events after number `after`; the first page may begin before it."""
        ...

    async def add_message(self, message: StoredMessage) -> None:
        """Keep a message of a user until a run receives it."""
        ...

    async def undelivered_messages(self, session_id: str) -> list[StoredMessage]:
        """Return messages that no run has received yet, in order."""
        ...

    async def delete_messages(self, session_id: str) -> None:
        """Delete the messages that no run has received."""
        ...

    async def delete(self, session_id: str) -> bool:
        """Delete a session with all that belongs to it, its sub-agents included; False if there is none."""
        ...

    async def forget(
        self, *, before: str | None = None, keep: int | None = None, archive: Archive | None = None
    ) -> int:
        """Delete ended sessions: those last updated before a time, and all but the `keep` latest; returns how many.

        Sessions that are queued, running, interrupted or awaiting input stay. archive: awaited before sessions are
        deleted; those that it has not archived stay, and so do those with a later claim than it has seen. What it
        raises is raised, and nothing more is deleted.
        """
        ...

    async def delete_idle(self, sessions: Sequence[StoredSession]) -> list[str]:
        """Delete those of these sessions that no process works on, sub-agents included; returns the ids of which.

        Deleted are sessions that have ended, are interrupted or await input, and those that are queued or running if no
        member holds them. A session that has another run or another claim than the one given here stays.
        """
        ...

    async def claim(self, session_id: str, run_id: str) -> StoredSession:
        """Make this process the holder of a session, in order to execute its latest run; returns the session.

        The status stays until a batch changes it. The claim has a new token, also if this process holds the session
        already: whatever executed the run under the earlier claim can write nothing more for it. Raises SessionLocked
        if another member holds it, alive or not, or if the run is over or not the latest one.
        """
        ...

    async def queue(self, run: QueuedRun) -> None:
        """Queue a run: it and its session become `queued`, and nobody holds the session. Idempotent.

        Raises SessionBusy if the session is running (not counting one that was just created for this run) or another
        run of it is queued.
        """
        ...
