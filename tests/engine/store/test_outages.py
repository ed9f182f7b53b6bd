"""A lease does not depend on how long others write, nor does anybody wait for ever for a process that is stuck."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from endstop.store import leases
from endstop.store.base import LeaseLost, StoreError
from endstop.store.transaction import Claims
from endstop.store.url import store_at

from ...postgres import Server
from .made import batch, beginning, session
from .others import evict_and_interrupt, process, refused, stored


async def test_a_lease_is_renewed_while_its_process_is_in_the_middle_of_a_transaction(url: str) -> None:
    store = store_at(url)
    await store.open()
    await store.join(one := process("one"))
    with store._database.write_engine.begin() as connection:
        Claims(connection, one).fence()
        assert await store.heartbeat("one")  # a statement that waited for the transaction would have been ended
    await store.close()


async def test_giving_up_waits_for_what_is_being_written_and_writing_for_the_giving_up(url: str) -> None:
    writer, judge = store_at(url), store_at(url)
    await writer.open()
    await judge.open()
    await writer.join(one := process("one"))
    with writer._database.write_engine.begin() as connection:
        Claims(connection, one).fence()
        giving_up = asyncio.create_task(judge.evict("one", even_alive=True))
        await asyncio.wait([giving_up], timeout=0.2)
        assert not giving_up.done()
    assert await giving_up
    await writer.join(process("two"))
    with judge._database.lease_engine.begin() as connection:
        assert leases.evict("two", True, connection)
        writing = asyncio.create_task(writer.add(session()))
        await asyncio.wait([writing], timeout=0.2)
        assert not writing.done()
    await refused(LeaseLost, writing)
    assert await judge.session("session_1") is None
    await writer.close()
    await judge.close()


async def test_a_process_that_sleeps_in_a_transaction_holds_up_others_no_longer_than_its_lease(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asleep, judge = store_at(url), store_at(url)
    await asleep.open()
    await judge.open()
    await asleep.join(one := process("one", lease=1))
    await asleep.add(session())
    await asleep.commit(beginning(2))
    connection = asleep._database.write_engine.connect()
    Claims(connection, one).fence()
    assert await judge.evict("one", even_alive=True)  # within the time that a statement gets
    assert await evict_and_interrupt(judge) == 1
    connection.invalidate()
    connection.close()
    await refused(LeaseLost, asleep.commit(batch(3, 3)))
    await asleep.close()
    await judge.close()


async def test_a_process_that_cannot_be_given_up_now_does_not_keep_others_from_it(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "LEASE_TIMEOUT_SECONDS", 1)
    asleep, judge = store_at(url), store_at(url)
    await asleep.open()
    await judge.open()
    stuck = process("stuck", lease=60)
    for one in (stuck, process("dead")):
        await asleep.join(one)
        await asleep.add(session(f"of_{one.id}"))
        await asleep.commit(beginning(2, run=f"run_{one.id}", of=f"of_{one.id}"))
    with asleep._database.lease_engine.begin() as connection:
        connection.exec_driver_sql("UPDATE endstop_processes SET until = 0")
    with asleep._database.write_engine.begin() as connection:
        Claims(connection, stuck).fence()
        assert "takes too long" in await refused(StoreError, judge.evict("stuck"))
        assert await evict_and_interrupt(judge) == 1
    assert (await stored(judge, "of_stuck")).status == "running"
    assert await evict_and_interrupt(judge) == 1
    await asleep.close()
    await judge.close()


async def test_who_cannot_reach_the_database_is_told_so_and_not_only_that_there_was_no_answer(
    mortal: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "ANSWER_SECONDS", 60)
    store = store_at(mortal.url(mortal.new_database()))
    await store.open()
    await store.join(process("one"))
    await asyncio.to_thread(mortal.kill)
    assert "cannot be reached" in await refused(StoreError, store.heartbeat("one"))
    assert "cannot be reached" in await refused(StoreError, store.processes())
    await refused(StoreError, store.evict("one"))
    await asyncio.to_thread(mortal.start)
    assert await store.heartbeat("one")
    await store.close()


async def test_a_database_that_does_not_answer_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = store_at(tmp_path / "store.sqlite")
    await store.open()
    await store.join(process("one"))
    with (
        closing(sqlite3.connect(tmp_path / "store.sqlite", isolation_level=None)) as other,
        monkeypatch.context() as short,
    ):
        short.setattr(leases, "ANSWER_SECONDS", 0.05)
        other.execute("BEGIN IMMEDIATE")
        assert "no answer within 0.05 seconds" in await refused(StoreError, store.heartbeat("one"))
    assert await store.heartbeat("one")
    await store.close()
    await refused(StoreError, store.heartbeat("one"))


async def test_no_statement_goes_into_a_pipeline_in_which_a_frozen_process_would_keep_its_locks_for_ever(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipelines: list[Any] = []  # no timeout of PostgreSQL ends a transaction in the middle of one
    monkeypatch.setattr(psycopg.Pipeline, "__enter__", lambda self: pipelines.append(self))
    store, runs = store_at(url), [str(number) for number in range(10)]
    await store.open()
    await store.join(process("one"))
    for run in runs:
        await store.add(session(run))
    await asyncio.gather(*(store.commit(beginning(2, run=run, of=run)) for run in runs))  # several in one transaction
    await asyncio.gather(*(store.commit(batch(3, 3, run=run, of=run)) for run in runs))
    await store.close()
    assert pipelines == []
