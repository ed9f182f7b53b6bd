"""What docs/guides/store.md says of keeping: a backup is a store, and room that comes free is used again."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest_asyncio
from endstop.store.database import READERS
from endstop.store.sql import SqlStore
from endstop.store.url import store_at
from sqlalchemy import text

from ...postgres import Server
from .made import all_pages, batch, beginning, ended, lines, seqs, session
from .others import Ear, evict_and_interrupt, process


@pytest_asyncio.fixture
async def file(tmp_path: Path) -> AsyncIterator[tuple[SqlStore, Path]]:
    """An open store in a file."""
    path = tmp_path / "sessions.db"
    store = store_at(path)
    await store.open()
    yield store, path
    await store.close()


async def test_a_backup_that_is_made_while_a_run_goes_on_is_a_store(file: tuple[SqlStore, Path]) -> None:
    store, path = file
    await store.add(session())
    await store.commit(beginning(1))
    going = True

    async def write() -> int:
        seq = 1
        while going:
            seq += 1
            await store.commit(batch(seq, seq))
        return seq

    def back_up() -> None:
        with closing(sqlite3.connect(path)) as database:
            database.execute("VACUUM INTO ?", (str(path.with_name("backup.db")),))

    writing = asyncio.create_task(write())
    await asyncio.to_thread(back_up)
    going = False
    last = await writing
    copy = store_at(path.with_name("backup.db"))
    await copy.open()
    found = seqs(await all_pages(copy))
    assert found == list(range(1, len(found) + 1))
    assert 1 <= len(found) <= last
    assert await evict_and_interrupt(copy) == 1
    await copy.close()


async def test_room_that_comes_free_is_used_again(file: tuple[SqlStore, Path]) -> None:
    store, path = file
    sizes = []
    for again in range(4):
        for number in range(20):
            id = f"session_{again}_{number}"
            await ended(store, id)
            await store.add(session(f"other_{again}_{number}"))
            name = f"run_{again}_{number}"
            await store.commit(
                beginning(2, run=name, of=f"other_{again}_{number}", lines=lines(1, 2, filler="y" * 30_000))
            )
        with closing(sqlite3.connect(path)) as database:
            sizes.append(database.execute("PRAGMA page_count").fetchone()[0])
        assert await store.forget(keep=0) == 20
        for number in range(20):
            await store.delete(f"other_{again}_{number}")
    assert sizes[0] > 100
    assert max(sizes) <= 1.05 * sizes[0]


async def test_postgresql_is_used_by_so_many_connections_and_no_more(postgres: Server) -> None:
    name = postgres.new_database()
    store = store_at(postgres.url(name))
    await store.open()
    await asyncio.gather(*(ended(store, f"session_{number}") for number in range(20)))
    await asyncio.gather(*(store.session("session_1") for _ in range(100)))
    with store._database.read_engine.connect() as connection:
        query = text("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'endstop' AND datname = :name")
        assert connection.execute(query, {"name": name}).scalar_one() == READERS + 1 == 5
        await store.join(process())
        ear = Ear(store)
        await ear.until(lambda: ear.heard == [None])
        connection.rollback()  # the view is a snapshot
        assert connection.execute(query, {"name": name}).scalar_one() == 7
    await store.close()
