"""A store for tests of what stands on stores: SQLite in a temporary file, made in milliseconds."""

from __future__ import annotations

import itertools
import shutil
import sqlite3
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from functools import cache
from pathlib import Path

from endstop.store.base import Store
from endstop.store.database import Sqlite
from endstop.store.sql import SqlStore
from sqlalchemy import event

_FOLDER = tempfile.TemporaryDirectory(prefix="endstop-stores-")
_NUMBERS = itertools.count()


class TemporaryStore(SqlStore):
    """An empty store in a file of its own, deleted when the process ends. Nothing waits for the disk."""

    def __init__(self, template: Path | None = None) -> None:
        self.path = _new_path()
        shutil.copyfile(template or empty_file(), self.path)
        database = Sqlite(self.path)
        for engine in (database.write_engine, database.lease_engine):
            event.listen(engine, "connect", _without_sync)
        super().__init__(database)

    def copy(self) -> TemporaryStore:
        """Another store, with all that this one holds at this moment."""
        path = _new_path()
        with closing(sqlite3.connect(self.path)) as ours, closing(sqlite3.connect(path)) as theirs:
            ours.backup(theirs)
        return TemporaryStore(path)

    async def settle(self) -> None:
        """Let everybody come as far as they can, those included who wait for an answer of this store."""
        for _ in range(20):
            await self.runs("nobody")

    def execute(self, sql: str, *values: object) -> None:
        """Change the tables behind the store's back."""
        with closing(sqlite3.connect(self.path, isolation_level=None)) as database:
            database.execute(sql, values)


@asynccontextmanager
async def opened(store: Store) -> AsyncIterator[None]:
    """Have a store open that nobody else has open: a service closes its store when it ends."""
    await store.open()
    try:
        yield
    finally:
        await store.close()


def _new_path() -> Path:
    return Path(_FOLDER.name) / f"{next(_NUMBERS)}.sqlite"


@cache
def empty_file() -> Path:
    """A file with empty tables: to make them takes a hundred times as long as to copy them."""
    path = _new_path()
    database = Sqlite(path)
    database.prepare()
    database.dispose()
    return path


def _without_sync(connection: sqlite3.Connection, _record: object) -> None:
    connection.execute("PRAGMA synchronous = OFF")
