"""Formats of pages: a process that does not read what is written cannot join, whenever it tries."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from alembic import command
from endstop.store import database, leases
from endstop.store.base import PAGE_FORMAT, Store, StoreError
from endstop.store.database_schema import VERSION_TABLE
from endstop.store.sql import SqlStore
from endstop.store.url import store_at
from sqlalchemy import NullPool, create_engine, event, text
from sqlalchemy.exc import IntegrityError

from ...postgres import Server
from .others import SECONDS, process, refused

NEW = {"pages": str(PAGE_FORMAT)}
OLDER = "INSERT INTO endstop_processes (id, kind, host, pid, started_at, until, lease_ms, version, about)"
"""What a process executes to join whose version knows no formats; its pages are of format 2 at most."""
VALUES = "VALUES ('old', 'worker', 'nowhere', 1, '2026-11-21T05:21:14.280+00:00', 0, 5000, '0.2.0', '{}')"


async def test_once_all_read_the_newest_format_a_process_that_does_not_cannot_join(any_store: Store) -> None:
    await any_store.join(process("new", about=NEW))
    await any_store.join(process("old", about={"pages": "2"}))
    assert not await any_store.settle_page_format()
    await any_store.evict("old", even_alive=True)  # it sleeps
    assert await any_store.settle_page_format()
    for about in ({"pages": "2"}, {}):  # it wakes up and joins again, under another name
        reason = await refused(StoreError, any_store.join(process("awake", about=about)))
        assert "foreign key constraint" in reason.lower()
    await any_store.join(process("another", about=NEW))
    assert await any_store.settle_page_format()
    assert {member.id for member in await any_store.processes()} == {"new", "another"}


async def test_a_process_that_joins_while_the_format_is_settled_is_seen(url: str) -> None:
    store = store_at(url)
    await store.open()
    with store._database.write_engine.connect() as connection, connection.begin() as joining:
        leases.join(process("old", about={}), connection)
        settling = asyncio.create_task(store.settle_page_format())
        async with asyncio.timeout(SECONDS):
            while not _waits(store):
                await asyncio.sleep(0.005)
        joining.commit()
    assert not await settling
    await store.close()


@pytest.fixture
def before(postgres: Server) -> Iterator[SqlStore]:
    """A store whose tables are those of a version that knew no formats, and whose older process is at work."""
    store = store_at(postgres.url(postgres.new_database()))
    store._database.prepare()
    with store._database.write_engine.begin() as connection:
        configured = {"connection": connection, "version_table": VERSION_TABLE}
        command.downgrade(database._config(configure=configured), "0005")
        connection.execute(text(f"{OLDER} {VALUES}"))
    yield store
    store._database.dispose()


async def test_an_older_process_that_is_at_work_has_the_oldest_format(before: SqlStore) -> None:
    await before.open()
    await before.join(process("new", about=NEW))
    assert not await before.settle_page_format()
    await before.evict("old", even_alive=True)
    assert await before.settle_page_format()
    with (
        pytest.raises(IntegrityError, match="restart_this_process_as_the_newer_version"),
        before._database.lease_engine.begin() as connection,
    ):
        connection.execute(text(f"{OLDER} {VALUES}"))
    await before.close()


def test_each_migration_locks_one_table_in_use_and_no_further_later_on(before: SqlStore) -> None:
    """Otherwise there are deadlocks: who writes locks several tables, too, and reads one before it writes to it."""
    count, latest = 0, False
    while not latest:
        with before._database.write_engine.begin() as connection:
            held: list[set[tuple[str, str]]] = []
            event.listen(connection, "after_cursor_execute", lambda *given: held.append(_locked(given[1])))  # noqa: B023
            latest = database.migrate(connection, "it")
        count += 1
        locks = [each for each in held if each]
        assert {table for each in locks for table, _ in each} == {next(iter(locks[0]))[0]}
        alone = [any(mode == "AccessExclusiveLock" for _, mode in each) for each in locks]
        assert alone[0] == alone[-1], "it keeps readers from the table from its first lock on, or never"
    assert count == 6


async def test_a_migration_lets_others_pass_and_tries_again(before: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "LOCK_SECONDS", 0.3)
    with _dumping(before):
        opening = asyncio.create_task(before.open())
        async with asyncio.timeout(SECONDS):
            while not _waits(before):
                await asyncio.sleep(0.005)
            while _waits(before):
                await asyncio.sleep(0.005)
    await opening
    await before.close()


async def test_a_migration_gives_up_in_the_end(before: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "LOCK_SECONDS", 0.1)
    monkeypatch.setattr(database, "LOCK_ATTEMPTS", 2)
    with _dumping(before):
        async with asyncio.timeout(SECONDS):
            assert "in use, by a backup" in await refused(StoreError, before.open())
    await before.open()
    await before.close()


@contextmanager
def _dumping(store: SqlStore) -> Iterator[None]:
    """Somebody reads a table for as long as this lasts, as pg_dump does."""
    with create_engine(store._database.write_engine.url, poolclass=NullPool).begin() as connection:
        connection.execute(text("LOCK TABLE endstop_processes IN ACCESS SHARE MODE"))
        yield


def _waits(store: SqlStore) -> bool:
    """Whether somebody waits for a lock of another in this database."""
    query = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    with store._database.read_engine.connect() as connection:
        return connection.execute(text(query)).first() is not None


def _locked(cursor: Any) -> set[tuple[str, str]]:
    """The tables that this transaction keeps from others, and how: who writes takes no such lock."""
    query = """SELECT relname, mode FROM pg_locks JOIN pg_class ON pg_class.oid = relation
        WHERE pid = pg_backend_pid() AND relkind = 'r' AND relname LIKE 'endstop%'
        AND mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
        AND relname NOT IN ('endstop_schema', 'endstop_page_formats')"""
    return set(cursor.connection.execute(query).fetchall())
