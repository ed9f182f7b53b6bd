"""The store in a database: one thread writes, a few threads read, and one renews the lease.

`Store` documents the methods; a docstring here adds only what is special to a database.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from typing import Concatenate, ParamSpec, TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from ..decision import WrongUse
from . import leases, queries
from .base import (
    Archive,
    EventBatch,
    NewSession,
    Orphan,
    Overview,
    Page,
    Process,
    QueuedRun,
    SessionFilter,
    SessionStatus,
    StoredMessage,
    StoredProcess,
    StoredRun,
    StoredSession,
    StoreError,
)
from .database import DATABASE_ERRORS, READERS, Database
from .leases import LeaseThread
from .notify import ChangeWatcher, Listener, OnChange
from .transaction import Transaction
from .writer import RETRY_SECONDS, Writer

CHUNK = 50
"""How many sessions are deleted, interrupted or queued again in one transaction, so that other writes wait only a
little."""

SKIP = 5_000
"""How many ended sessions one query passes over, so that none takes long."""

P = ParamSpec("P")
T = TypeVar("T")


class SqlStore:
    """Sessions in SQLite or PostgreSQL. Made by `store_at`.

    patience: seconds for which writes wait for a database that is away before they raise StoreError.
    """

    def __init__(self, database: Database, *, patience: float = RETRY_SECONDS) -> None:
        self._database = database
        self._patience = patience
        self._writer: Writer | None = None
        self._readers: ThreadPoolExecutor | None = None
        self._lease_thread: LeaseThread | None = None
        self._listeners: list[Listener | ChangeWatcher] = []

    @property
    def display_name(self) -> str:
        """The path or URL, for people; without a password."""
        return self._database.display_name

    async def open(self) -> None:
        """Connect, and bring the schema up to date. Raises WrongUse if it is newer, or if this is not a store."""
        if self._writer is None:
            self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="endstop-store-reader")
            try:
                await self._in_thread(self._database.prepare)
            except BaseException:
                await self.close()
                raise
            self._writer = Writer(self._database, self._patience)
            self._lease_thread = LeaseThread(self._database)

    async def close(self) -> None:
        """Finish pending writes and close every connection. It can be opened again."""
        readers, self._readers = self._readers, None
        writer, self._writer = self._writer, None
        lease_thread, self._lease_thread = self._lease_thread, None
        listeners, self._listeners = self._listeners, []
        if readers is not None:
            await asyncio.to_thread(self._close, writer, readers, lease_thread, listeners)

    # ---- sessions and runs

    async def add(self, session: NewSession) -> None:
        """Implement `Store.add`."""
        await self._write(lambda transaction: transaction.add(session))

    async def commit(self, batch: EventBatch) -> int:
        """Implement `Store.commit`. Idempotent: writing the same events twice is a no-op."""
        return await self._write(lambda transaction: transaction.commit(batch), len(batch.lines))

    async def session(self, id: str) -> StoredSession | None:
        """Implement `Store.session`."""
        return await self._read(queries.session, id)

    async def sessions(self, wanted: SessionFilter = SessionFilter()) -> tuple[list[StoredSession], str | None]:  # noqa: B008  frozen
        """Implement `Store.sessions`. Raises WrongUse also for a limit that is not from 1 to 1000."""
        limit = wanted.limit
        if not 1 <= limit <= queries.MAX_ROWS:
            raise WrongUse(f"limit is {limit}, and must be from 1 to {queries.MAX_ROWS}")
        cursor = None if wanted.before is None else queries.parse_cursor(wanted.before)
        found = await self._read(queries.sessions, wanted, limit + 1, cursor)
        return found[:limit], queries.make_cursor(found[limit - 1]) if len(found) > limit else None

    async def run(self, id: str) -> StoredRun | None:
        """Implement `Store.run`."""
        return await self._read(queries.run, id)

    async def runs(self, session_id: str) -> list[StoredRun]:
        """Implement `Store.runs`."""
        return await self._read(queries.runs, session_id)

    async def pages(self, run_id: str, *, after: int = 0, limit: int = 64) -> list[Page]:
        """Implement `Store.pages`. Returns fewer than `limit` pages if they are large."""
        return await self._read(queries.pages, run_id, after, limit)

    async def delete(self, session_id: str) -> bool:
        """Implement `Store.delete`."""
        return await self._write(lambda transaction: transaction.delete([session_id])) > 0

    async def forget(
        self, *, before: str | None = None, keep: int | None = None, archive: Archive | None = None
    ) -> int:
        """Implement `Store.forget`. Raises WrongUse if `before` is not a time or `keep` is negative."""
        if keep is not None and keep < 0:
            raise WrongUse(f"keep is {keep}, and must be 0 or more")
        last = [] if before is None else [(_normalize_time(before), "")]
        if keep is not None and (beyond := await self._latest_beyond(keep)):
            last.append(beyond)
        count = 0
        while last and (ids := await self._read(queries.expired, max(last), CHUNK)):
            tokens = None if archive is None else await archive(ids)
            deleted = await self._write(partial(Transaction.delete_ended, ids=ids, tokens=tokens))
            count += deleted
            if not deleted:  # another process has deleted them, or they could not be archived
                break
        return count

    async def delete_idle(self, sessions: Sequence[StoredSession]) -> list[str]:
        """Implement `Store.delete_idle`. At most `CHUNK` sessions are deleted in one transaction."""
        ids: list[str] = []
        for chunk in _chunks(sessions):
            ids += await self._write(partial(Transaction.delete_idle, sessions=chunk))
        return ids

    async def _latest_beyond(self, keep: int) -> tuple[str, str] | None:
        """Return `updated_at` and id of the latest ended session that is not among the `keep` latest; None: all are."""
        last = await self._read(queries.ended_before, None, min(keep, SKIP))
        for skipped in range(SKIP, keep, SKIP):
            last = last and await self._read(queries.ended_before, last, min(keep - skipped, SKIP))
        return last

    # ---- messages

    async def add_message(self, message: StoredMessage) -> None:
        """Implement `Store.add_message`."""
        await self._write(lambda transaction: transaction.add_message(message))

    async def undelivered_messages(self, session_id: str) -> list[StoredMessage]:
        """Implement `Store.undelivered_messages`."""
        return await self._read(queries.undelivered_messages, session_id)

    async def delete_messages(self, session_id: str) -> None:
        """Implement `Store.delete_messages`."""
        await self._write(lambda transaction: transaction.delete_messages(session_id))

    # ---- the queue, and who holds a session

    async def claim(self, session_id: str, run_id: str) -> StoredSession:
        """Implement `Store.claim`. Raises WrongUse if this process has not joined."""
        if self._open_writer.process is None:
            raise WrongUse("only a process that has joined can claim a session: call `join` first")
        return await self._write(partial(_claim, session_id, run_id))

    async def queue(self, run: QueuedRun) -> None:
        """Implement `Store.queue`."""
        await self._write(lambda transaction: transaction.claims.queue(run))

    async def queued(self, older_than_seconds: float = 0.0) -> list[Orphan]:
        """Implement `Membership.queued`."""
        return await self._read(queries.queued, int(older_than_seconds * 1000))

    async def requeue(self, session_ids: Sequence[str], *, token: int | None = None) -> list[str]:
        """Implement `Membership.requeue`."""
        ids: list[str] = []
        for chunk in _chunks(session_ids):
            ids += await self._write(partial(_requeue, chunk, token))
        return ids

    async def orphans(self) -> list[Orphan]:
        """Implement `Membership.orphans`."""
        return await self._read(queries.orphans)

    async def interrupt_orphans(self, session_ids: Sequence[str], trouble: str | None = None) -> int:
        """Implement `Membership.interrupt_orphans`."""
        count = 0
        for chunk in _chunks(session_ids):
            count += await self._write(partial(_interrupt_orphans, chunk, trouble))
        return count

    async def mark_interrupted(self, session_id: str, why: str, *, token: int | None = None) -> None:
        """Implement `Membership.mark_interrupted`."""
        await self._write(lambda transaction: transaction.claims.mark_interrupted(session_id, why, token))

    async def statuses(self, run_ids: Sequence[str]) -> dict[str, SessionStatus]:
        """Implement `Membership.statuses`."""
        return await self._read(queries.statuses, run_ids)

    async def request_cancel(self, session_id: str, cause: str) -> bool:
        """Implement `Membership.request_cancel`."""
        return await self._write(lambda transaction: transaction.claims.request_cancel(session_id, cause))

    # ---- processes

    async def join(self, process: Process) -> None:
        """Implement `Membership.join`."""
        writer = self._open_writer
        await self._open_lease_thread.join(process)
        writer.process = process

    async def heartbeat(self, process_id: str) -> bool:
        """Implement `Membership.heartbeat`."""
        return await self._lease(partial(leases.heartbeat, process_id))

    async def leave(self, process_id: str) -> None:
        """Implement `Membership.leave`."""
        await self._lease(partial(leases.evict, process_id, True))

    async def processes(self) -> list[StoredProcess]:
        """Implement `Membership.processes`."""
        return await self._lease(leases.processes)

    async def settle_page_format(self) -> bool:
        """Implement `Membership.settle_page_format`."""
        return await self._lease(leases.settle_page_format)

    async def overview(self) -> Overview:
        """Implement `Membership.overview`."""
        return await self._read(queries.overview)

    async def evict(self, process_id: str, *, even_alive: bool = False) -> bool:
        """Implement `Membership.evict`."""
        return await self._lease(partial(leases.evict, process_id, even_alive))

    def listen(self, on_change: OnChange) -> None:
        """Implement `Membership.listen`."""
        writer = self._open_writer
        if self._database.listen_engine is None:
            self._listeners.append(ChangeWatcher(self._database.read_engine, on_change))
        else:
            self._listeners.append(Listener(self._database.listen_engine, on_change, lambda: writer.process_id))

    # ---- inside

    @property
    def _open_writer(self) -> Writer:
        if self._writer is None:
            raise StoreError(f"{self._database.display_name} is not open")
        return self._writer

    async def _write(self, change: Callable[[Transaction], T], size: int = 0) -> T:
        return await self._open_writer.write(change, size)

    @property
    def _open_lease_thread(self) -> leases.LeaseThread:
        if self._lease_thread is None:
            raise StoreError(f"{self._database.display_name} is not open")
        return self._lease_thread

    async def _lease(self, change: Callable[[Connection], T]) -> T:
        return await self._open_lease_thread.run(change)

    async def _read(self, read: Callable[Concatenate[Connection, P], T], *args: P.args, **named: P.kwargs) -> T:
        def reading() -> T:
            with self._database.read_engine.begin() as connection:
                return read(connection, *args, **named)

        return await self._in_thread(partial(_retry_disconnected, reading))

    async def _in_thread(self, work: Callable[[], T]) -> T:
        if self._readers is None:
            raise StoreError(f"{self._database.display_name} is not open")
        try:
            return await asyncio.get_running_loop().run_in_executor(self._readers, work)
        except StoreError:
            raise
        except DATABASE_ERRORS as error:
            raise self._database.map_error(error) from None

    def _close(
        self,
        writer: Writer | None,
        readers: ThreadPoolExecutor,
        lease_thread: LeaseThread | None,
        listeners: Sequence[Listener | ChangeWatcher],
    ) -> None:
        for listener in listeners:
            listener.close()
        if writer is not None:
            writer.close()
        readers.shutdown()
        if lease_thread is not None:
            lease_thread.close()
        self._database.dispose()


def _retry_disconnected(read: Callable[[], T]) -> T:
    """Read, and once more if the connection turns out to be closed: then the pool replaces all that it has.

    This is cheaper than a test of the connection before each read.
    """
    try:
        return read()
    except DBAPIError as error:
        if not error.connection_invalidated:
            raise
    return read()


def _claim(session_id: str, run_id: str, transaction: Transaction) -> StoredSession:
    transaction.claims.claim(session_id, run_id)
    claimed = queries.session(transaction.connection, session_id)
    assert claimed is not None, "its row is locked"
    return claimed


def _requeue(ids: Sequence[str], token: int | None, transaction: Transaction) -> list[str]:
    return transaction.claims.requeue(ids, token)


def _interrupt_orphans(ids: Sequence[str], trouble: str | None, transaction: Transaction) -> int:
    return transaction.claims.interrupt_orphans(ids, trouble)


def _chunks(given: Sequence[T]) -> list[Sequence[T]]:
    return [given[first : first + CHUNK] for first in range(0, len(given), CHUNK)]


def _normalize_time(time: str) -> str:
    """Format a time as the store does: ISO 8601 in UTC with milliseconds. Raises WrongUse if it is not a time."""
    try:
        read = datetime.fromisoformat(time)
    except ValueError:
        raise WrongUse(f"{time[:100]!r} is not a time: write it as 2026-11-21T05:21:14.280+00:00") from None
    return (read if read.tzinfo else read.replace(tzinfo=UTC)).astimezone(UTC).isoformat(timespec="milliseconds")
