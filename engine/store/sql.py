"""The store in a database: writes go through one thread, reads through a few."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from typing import Concatenate, ParamSpec, TypeVar

from sqlalchemy import Connection

from ..decision import WrongUse
from . import leases
from . import queries as reads
from .base import (
    EventBatch,
    NewSession,
    Orphan,
    Page,
    Process,
    QueuedRun,
    SessionFilter,
    StoredMessage,
    StoredProcess,
    StoredRun,
    StoredSession,
    StoreError,
)
from .database import DATABASE_ERRORS, READERS, Database
from .leases import Leases
from .notify import Listener, OnChange
from .transaction import Transaction
from .writer import PATIENCE, Writer

AT_ONCE = 50
"""Sessions that are forgotten, or interrupted, in one transaction, so that nobody waits long for it."""

P = ParamSpec("P")
T = TypeVar("T")


class SqlStore:
    """Sessions in SQLite or PostgreSQL. Made by `store_at`; the docstrings of `Store` say what its methods do.

    patience: seconds for which writes wait for a database that is away before they raise StoreError.
    """

    def __init__(self, database: Database, *, patience: float = PATIENCE) -> None:
        self._database = database
        self._patience = patience
        self._writer: Writer | None = None
        self._threads: ThreadPoolExecutor | None = None
        self._leases: Leases | None = None
        self._listeners: list[Listener] = []

    @property
    def display_name(self) -> str:
        """Where it is, for people; without a password."""
        return self._database.display_name

    async def open(self) -> None:
        """Connect, and bring the schema up to date. Raises WrongUse if it is newer, or no store."""
        if self._writer is None:
            self._threads = ThreadPoolExecutor(READERS, thread_name_prefix="endstop-store-reader")
            try:
                await self._in_thread(self._database.prepare)
            except BaseException:
                await self.close()
                raise
            self._writer = Writer(self._database, self._patience)
            self._leases = Leases(self._database)

    async def close(self) -> None:
        """Write what was handed in, and let go of every connection."""
        threads, self._threads = self._threads, None
        writer, self._writer = self._writer, None
        lease, self._leases = self._leases, None
        listeners, self._listeners = self._listeners, []
        if threads is not None:
            await asyncio.to_thread(self._close, writer, threads, lease, listeners)

    async def add(self, session: NewSession) -> None:
        """Keep a new session."""
        await self._writing.write(lambda transaction: transaction.add(session))

    async def commit(self, batch: EventBatch) -> None:
        """Write a batch. One that is stored already, exactly so, counts as written."""
        await self._writing.write(lambda transaction: transaction.commit(batch), len(batch.lines))

    async def session(self, id: str) -> StoredSession | None:
        """The session of this id."""
        return await self._read(reads.session, id)

    async def sessions(self, wanted: SessionFilter = SessionFilter()) -> tuple[list[StoredSession], str | None]:  # noqa: B008  frozen
        """Sessions, newest first, and where the next page begins."""
        limit = wanted.limit
        if not 1 <= limit <= reads.MOST:
            raise WrongUse(f"limit is {limit}, and must be from 1 to {reads.MOST}")
        place = None if wanted.before is None else reads.parse_cursor(wanted.before)
        found = await self._read(reads.sessions, wanted, limit + 1, place)
        return found[:limit], reads.make_cursor(found[limit - 1]) if len(found) > limit else None

    async def run(self, id: str) -> StoredRun | None:
        """The run of this id."""
        return await self._read(reads.run, id)

    async def runs(self, session_id: str) -> list[StoredRun]:
        """All runs of a session, in order."""
        return await self._read(reads.runs, session_id)

    async def pages(self, run_id: str, *, after: int = 0, limit: int = 64) -> list[Page]:
        """The first pages that hold events after `after`: fewer than `limit` also where they are large."""
        return await self._read(reads.pages, run_id, after, limit)

    async def add_message(self, message: StoredMessage) -> None:
        """Keep what a user said."""
        await self._writing.write(lambda transaction: transaction.add_message(message))

    async def undelivered_messages(self, session_id: str) -> list[StoredMessage]:
        """What no run has heard yet, in order."""
        return await self._read(reads.undelivered_messages, session_id)

    async def delete_messages(self, session_id: str) -> None:
        """Forget what no run has heard."""
        await self._writing.write(lambda transaction: transaction.delete_messages(session_id))

    async def delete(self, session_id: str) -> bool:
        """Forget a session with all that belongs to it."""
        count: int = await self._writing.write(lambda transaction: transaction.delete([session_id]))
        return count > 0

    async def forget(self, *, before: str | None = None, keep: int | None = None) -> int:
        """Forget ended sessions. Raises WrongUse if `before` is no time or `keep` is negative."""
        if keep is not None and keep < 0:
            raise WrongUse(f"keep is {keep}, and must be 0 or more")
        time = None if before is None else _as_stored(before)
        count = 0
        while ids := await self._read(reads.old, time, keep, AT_ONCE):
            gone: int = await self._writing.write(partial(_forget, ids))
            count += gone
            if not gone:  # somebody else was quicker
                break
        return count

    async def join(self, process: Process) -> None:
        """Let this process be known, and write as this process."""
        writer = self._writing
        await self._leasing.do(partial(leases.join, process))
        writer.own = process

    async def heartbeat(self, process_id: str) -> bool:
        """Begin the lease anew; False if the process was given up."""
        return await self._leasing.do(partial(leases.heartbeat, process_id))

    async def leave(self, process_id: str) -> None:
        """The process is not known any more."""
        await self._leasing.do(partial(leases.evict, process_id, True))

    async def processes(self) -> list[StoredProcess]:
        """All that are known, in the order in which they started."""
        return await self._leasing.do(leases.processes)

    async def evict(self, process_id: str, *, even_alive: bool = False) -> bool:
        """Forget a process whose lease is over, so that it can write nothing more."""
        return await self._leasing.do(partial(leases.evict, process_id, even_alive))

    async def orphans(self) -> list[Orphan]:
        """Sessions that are `running`, and whose holder is not known."""
        return await self._read(reads.orphans)

    async def interrupt_orphans(self, session_ids: Sequence[str], trouble: str | None = None) -> int:
        """Mark those of these that are still orphans as `interrupted`."""
        count = 0
        for first in range(0, len(session_ids), AT_ONCE):
            ids = session_ids[first : first + AT_ONCE]
            count += await self._writing.write(partial(_interrupt, ids, trouble))
        return count

    async def claim(self, session_id: str, run_id: str) -> StoredSession:
        """Make this process the holder of a session that is to run. Raises WrongUse if it has not enrolled."""
        if self._writing.own is None:
            raise WrongUse("only a process that has enrolled can claim a session: call `join` first")
        claimed: StoredSession = await self._writing.write(partial(_claim, session_id, run_id))
        return claimed

    async def queue(self, run: QueuedRun) -> None:
        """Let a run wait for a process."""
        await self._writing.write(lambda transaction: transaction.ownership.queue(run))

    async def requeue(self, session_ids: Sequence[str]) -> list[str]:
        """Let runs wait again that nobody has, or that this process has."""
        ids: list[str] = []
        for first in range(0, len(session_ids), AT_ONCE):
            ids += await self._writing.write(partial(_requeue, session_ids[first : first + AT_ONCE]))
        return ids

    async def mark_interrupted(self, session_id: str, why: str) -> None:
        """Mark a session of this process as `interrupted`."""
        await self._writing.write(lambda transaction: transaction.ownership.mark_interrupted(session_id, why))

    async def queued(self, older_than_seconds: float = 0.0) -> list[Orphan]:
        """Runs that have been waiting for longer than that, and that no known process has claimed; oldest first."""
        return await self._read(reads.queued, int(older_than_seconds * 1000))

    async def request_cancel(self, session_id: str, cause: str) -> bool:
        """Note on the session's run that it is to be cancelled."""
        asked: bool = await self._writing.write(
            lambda transaction: transaction.ownership.request_cancel(session_id, cause)
        )
        return asked

    def listen(self, told: OnChange) -> None:
        """From now until it is closed, call this when others have changed sessions; on SQLite they never do."""
        writer = self._writing
        if self._database.listen_engine is not None:
            self._listeners.append(Listener(self._database.listen_engine, told, lambda: writer.own_id))

    @property
    def _leasing(self) -> Leases:
        if self._leases is None:
            raise StoreError(f"{self._database.display_name} is not open")
        return self._leases

    @property
    def _writing(self) -> Writer:
        if self._writer is None:
            raise StoreError(f"{self._database.display_name} is not open")
        return self._writer

    async def _read(self, read: Callable[Concatenate[Connection, P], T], *args: P.args, **named: P.kwargs) -> T:
        def reading() -> T:
            with self._database.read_engine.begin() as connection:
                return read(connection, *args, **named)

        return await self._in_thread(reading)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        if self._threads is None:
            raise StoreError(f"{self._database.display_name} is not open")
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        except StoreError:
            raise
        except DATABASE_ERRORS as error:
            raise self._database.map_error(error) from None

    def _close(
        self,
        writer: Writer | None,
        threads: ThreadPoolExecutor,
        lease: Leases | None,
        listeners: Sequence[Listener],
    ) -> None:
        for listener in listeners:
            listener.close()
        if writer is not None:
            writer.close()
        threads.shutdown()
        if lease is not None:
            lease.close()
        self._database.dispose()


def _forget(ids: Sequence[str], transaction: Transaction) -> int:
    return transaction.delete(ids, ended=True)


def _requeue(ids: Sequence[str], transaction: Transaction) -> list[str]:
    return transaction.ownership.requeue(ids)


def _interrupt(ids: Sequence[str], trouble: str | None, transaction: Transaction) -> int:
    return transaction.ownership.interrupt_orphans(ids, trouble)


def _claim(session_id: str, run_id: str, transaction: Transaction) -> StoredSession | None:
    transaction.ownership.claim(session_id, run_id)
    return reads.session(transaction.connection, session_id)


def _as_stored(time: str) -> str:
    """A time as it is stored: ISO 8601 in UTC with milliseconds. Raises WrongUse if it is none."""
    try:
        read = datetime.fromisoformat(time)
    except ValueError:
        raise WrongUse(f"{time[:100]!r} is no time: give it as 2026-11-21T05:21:14.280+00:00") from None
    return (read if read.tzinfo else read.replace(tzinfo=UTC)).astimezone(UTC).isoformat(timespec="milliseconds")
