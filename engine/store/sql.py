"""The store in a database: writes go through one thread, reads through a few."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from typing import Concatenate, ParamSpec, TypeVar

from sqlalchemy import Connection

from ...decision import WrongUse
from . import reads
from .changes import Changes
from .database import READERS, Database
from .store import Batch, Message, NewSession, Page, StoredRun, StoredSession, StoreError, Wanted
from .trouble import CAUGHT
from .writer import PATIENCE, Writer

AT_ONCE = 50
"""Sessions that are forgotten in one transaction, so that nobody waits long for it."""

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

    @property
    def shown(self) -> str:
        """Where it is, for people; without a password."""
        return self._database.shown

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

    async def close(self) -> None:
        """Write what was handed in, and let go of every connection."""
        threads, self._threads = self._threads, None
        writer, self._writer = self._writer, None
        if threads is not None:
            await asyncio.to_thread(self._close, writer, threads)

    async def add(self, session: NewSession) -> None:
        """Keep a new session."""
        await self._writing.write(lambda changes: changes.add(session))

    async def commit(self, batch: Batch) -> None:
        """Write a batch. One that is stored already, exactly so, counts as written."""
        await self._writing.write(lambda changes: changes.commit(batch), len(batch.lines))

    async def session(self, id: str) -> StoredSession | None:
        """The session of this id."""
        return await self._read(reads.session, id)

    async def sessions(self, wanted: Wanted = Wanted()) -> tuple[list[StoredSession], str | None]:  # noqa: B008  frozen
        """Sessions, newest first, and where the next page begins."""
        limit = wanted.limit
        if not 1 <= limit <= reads.MOST:
            raise WrongUse(f"limit is {limit}, and must be from 1 to {reads.MOST}")
        place = None if wanted.before is None else reads.place_of(wanted.before)
        found = await self._read(reads.sessions, wanted, limit + 1, place)
        return found[:limit], reads.cursor_of(found[limit - 1]) if len(found) > limit else None

    async def run(self, id: str) -> StoredRun | None:
        """The run of this id."""
        return await self._read(reads.run, id)

    async def runs(self, session_id: str) -> list[StoredRun]:
        """All runs of a session, in order."""
        return await self._read(reads.runs, session_id)

    async def pages(self, run_id: str, *, after: int = 0, limit: int = 64) -> list[Page]:
        """The first pages that hold events after `after`: fewer than `limit` also where they are large."""
        return await self._read(reads.pages, run_id, after, limit)

    async def say(self, message: Message) -> None:
        """Keep what a user said."""
        await self._writing.write(lambda changes: changes.say(message))

    async def unheard(self, session_id: str) -> list[Message]:
        """What no run has heard yet, in order."""
        return await self._read(reads.unheard, session_id)

    async def drop_messages(self, session_id: str) -> None:
        """Forget what no run has heard."""
        await self._writing.write(lambda changes: changes.drop_messages(session_id))

    async def interrupt_running(self) -> int:
        """Mark what is still `running` as `interrupted`."""
        count: int = await self._writing.write(lambda changes: changes.interrupt_running())
        return count

    async def delete(self, session_id: str) -> bool:
        """Forget a session with all that belongs to it."""
        count: int = await self._writing.write(lambda changes: changes.delete([session_id]))
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

    @property
    def _writing(self) -> Writer:
        if self._writer is None:
            raise StoreError(f"{self._database.shown} is not open")
        return self._writer

    async def _read(self, read: Callable[Concatenate[Connection, P], T], *args: P.args, **named: P.kwargs) -> T:
        def reading() -> T:
            with self._database.reading.begin() as connection:
                return read(connection, *args, **named)

        return await self._in_thread(reading)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        if self._threads is None:
            raise StoreError(f"{self._database.shown} is not open")
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        except StoreError:
            raise
        except CAUGHT as error:
            raise self._database.told(error) from None

    def _close(self, writer: Writer | None, threads: ThreadPoolExecutor) -> None:
        if writer is not None:
            writer.close()
        threads.shutdown()
        self._database.dispose()


def _forget(ids: Sequence[str], changes: Changes) -> int:
    return changes.delete(ids, ended=True)


def _as_stored(time: str) -> str:
    """A time as it is stored: ISO 8601 in UTC with milliseconds. Raises WrongUse if it is none."""
    try:
        read = datetime.fromisoformat(time)
    except ValueError:
        raise WrongUse(f"{time[:100]!r} is no time: give it as 2026-11-21T05:21:14.280+00:00") from None
    return (read if read.tzinfo else read.replace(tzinfo=UTC)).astimezone(UTC).isoformat(timespec="milliseconds")
