"""Processes with one PostgreSQL database hear of what the others change."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio
from endstop.store import notify as listening
from endstop.store.sql import SqlStore
from endstop.store.transaction import MAX_NOTIFY_BYTES, _notifications
from endstop.store.url import store_at

from ...postgres import Server
from .made import batch, beginning, ended, ending, message, session
from .others import Ear, process, waiting

END_LISTENERS = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query = 'LISTEN endstop'"


@asynccontextmanager
async def two_processes(place: str) -> AsyncIterator[tuple[SqlStore, SqlStore]]:
    """Two processes with one store."""
    async with AsyncExitStack() as stack:
        stores = []
        for id in ("one", "two"):
            store = store_at(place)
            await store.open()
            stack.push_async_callback(store.close)
            await store.join(process(id))
            stores.append(store)
        yield stores[0], stores[1]


@pytest_asyncio.fixture
async def two(url: str) -> AsyncIterator[tuple[SqlStore, SqlStore]]:
    """Two processes with one database of PostgreSQL."""
    async with two_processes(url) as stores:
        yield stores


async def test_whatever_changes_a_session_is_told_to_others_and_not_to_oneself(two: tuple[SqlStore, SqlStore]) -> None:
    one, other = two
    mine, ear = Ear(one), Ear(other)
    for each in (mine, ear):
        await each.until(lambda each=each: each.heard == [None])  # type: ignore[misc]

    async def told(work: object) -> None:
        ear.heard.clear()
        await work  # type: ignore[misc]
        await ear.until(lambda: ear.ids == {"session_1"})

    await told(one.queue(waiting(new=session())))
    await told(one.request_cancel("session_1", "user"))
    await told(one.claim("session_1", "run_1"))
    await told(one.requeue(["session_1"]))
    await told(one.commit(beginning(2)))
    await told(one.add_message(message()))
    await told(one.commit(batch(3, 3)))
    await told(one.commit(ending(4, 4)))
    await told(one.delete("session_1"))
    await other.add(session("session_2"))
    await other.commit(beginning(2, run="run_2", of="session_2"))
    await mine.until(lambda: mine.ids == {"session_2"})
    assert None not in ear.heard
    assert mine.heard[0] is None
    assert None not in mine.heard[1:]


async def test_orphans_that_are_interrupted_are_told(two: tuple[SqlStore, SqlStore]) -> None:
    one, other = two
    await one.add(session())
    await one.commit(beginning(2))
    await other.evict("one", even_alive=True)
    ear = Ear(one)
    await ear.until(lambda: ear.heard == [None])
    assert await other.interrupt_orphans(["session_1"]) == 1
    await ear.until(lambda: ear.ids == {"session_1"})


async def test_who_has_not_enrolled_tells_nothing_and_hears_everybody(url: str) -> None:
    reader, silent, loud = store_at(url), store_at(url), store_at(url)
    for store in (reader, silent, loud):
        await store.open()
    await loud.join(process("loud"))
    ear = Ear(reader)
    await ear.until(lambda: ear.heard == [None])
    await ended(silent, "unheard")
    await ended(loud, "heard")
    await ear.until(lambda: bool(ear.ids))
    assert ear.ids == {"heard"}
    for store in (reader, silent, loud):
        await store.close()


async def test_a_connection_that_was_lost_is_made_anew_and_anything_may_have_changed(
    two: tuple[SqlStore, SqlStore], postgres: Server
) -> None:
    one, other = two
    ear = Ear(other)
    for time in (1, 2, 3):
        await ear.until(lambda time=time: ear.heard.count(None) == time)  # type: ignore[misc]
        await asyncio.to_thread(postgres.execute, END_LISTENERS)
    await ear.until(lambda: ear.heard.count(None) == 4)
    await ended(one, "session_1")
    await ear.until(lambda: ear.ids == {"session_1"})


async def test_a_database_that_was_away_is_heard_again(mortal: Server) -> None:
    url = mortal.url(mortal.new_database())
    one, other = store_at(url), store_at(url)
    for store, id in ((one, "one"), (other, "two")):
        await store.open()
        await store.join(process(id))
    ear = Ear(other)
    await ear.until(lambda: ear.heard == [None])
    await asyncio.to_thread(mortal.kill)
    await asyncio.to_thread(mortal.start)
    await ear.until(lambda: ear.heard == [None, None])
    await ended(one, "session_1")
    await ear.until(lambda: ear.ids == {"session_1"})
    await one.close()
    await other.close()


async def test_a_listener_is_closed_at_once_also_while_the_database_is_away(mortal: Server) -> None:
    store = store_at(mortal.url(mortal.new_database()))
    await store.open()
    ear = Ear(store)
    await ear.until(lambda: ear.heard == [None])
    await asyncio.to_thread(mortal.kill)
    async with asyncio.timeout(2 * listening.CLOSE_SECONDS + 1):
        await store.close()
    assert ear.heard == [None]


async def test_more_sessions_than_one_piece_of_news_can_name_are_all_told(two: tuple[SqlStore, SqlStore]) -> None:
    one, other = two
    ear = Ear(other)
    await ear.until(lambda: ear.heard == [None])
    ids = {f"{'s' * 90}_{number}" for number in range(300)}
    await asyncio.gather(*(one.add(session(id)) for id in ids))
    await asyncio.gather(*(one.commit(beginning(1, run=f"run_{id}", of=id)) for id in ids))
    await ear.until(lambda: ear.ids == ids)
    pieces = list(_notifications("one", ids))
    assert all(len(piece) <= MAX_NOTIFY_BYTES for piece in pieces)
    assert {id for piece in pieces for id in piece.split()[1:]} == ids
    assert {piece.split()[0] for piece in pieces} == {"one"}


async def test_a_session_whose_name_cannot_be_told_may_be_any(two: tuple[SqlStore, SqlStore]) -> None:
    one, other = two
    ear = Ear(other)
    await ear.until(lambda: ear.heard == [None])
    await ended(one, "two words\0")
    await ear.until(lambda: len(ear.heard) > 1)
    assert ear.heard[-1] is None


async def test_what_somebody_else_says_on_the_channel_does_no_harm(
    two: tuple[SqlStore, SqlStore], postgres: Server
) -> None:
    one, other = two
    ear = Ear(other)
    await ear.until(lambda: ear.heard == [None])
    database = str(other._database.read_engine.url.database)
    await asyncio.to_thread(postgres.execute, "NOTIFY endstop", database)
    await ended(one, "session_1")
    await ear.until(lambda: ear.ids == {"session_1"})


async def test_where_only_one_process_is_nothing_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "LOOK_SECONDS", 0.001)
    store = store_at(str(tmp_path / "s.db"))
    await store.open()
    ear = Ear(store)
    await store.join(process("one"))
    for number in range(20):
        await ended(store, f"session_{number}")
    await store.close()
    assert ear.heard == []


@pytest_asyncio.fixture
async def two_files(tmp_path: Path) -> AsyncIterator[tuple[SqlStore, SqlStore]]:
    """Two processes with one file of SQLite."""
    async with two_processes(str(tmp_path / "s.db")) as stores:
        yield stores


async def test_two_processes_on_one_sqlite_file_hear_of_each_other(
    two_files: tuple[SqlStore, SqlStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, "LOOK_SECONDS", 0.001)
    one, other = two_files
    ear = Ear(one)
    await ear.until(lambda: ear.heard == [None])  # at the beginning
    await ended(other, "session_1")
    await ear.until(lambda: len(ear.heard) > 1)
    assert set(ear.heard) == {None}


async def test_what_a_process_wrote_before_it_left_is_heard(
    two_files: tuple[SqlStore, SqlStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, "LOOK_SECONDS", 0.2)  # it writes and leaves between two looks
    one, other = two_files
    ear = Ear(one)
    await ear.until(lambda: ear.heard == [None])
    await ended(other, "session_1")
    await other.leave("two")
    await ear.until(lambda: len(ear.heard) > 1)
