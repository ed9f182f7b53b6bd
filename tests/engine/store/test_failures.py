"""A disk that is full, a server that dies, a process that is killed: what is committed stays, the rest is told."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from endstop.store import database, writer
from endstop.store.base import SequenceConflict, StoreError
from endstop.store.database import Sqlite
from endstop.store.sql import SqlStore
from endstop.store.url import store_at

from ...postgres import Server
from .made import all_pages, batch, beginning, lines, seqs, session
from .others import evict_and_interrupt

KILLED = """
import asyncio, sys
from endstop.store.url import store_at
from tests.engine.store.made import batch, beginning, session

async def run(store, number):
    id = f"session_{number}"
    await store.add(session(id))
    await store.commit(beginning(1, run=f"run_{number}", of=id))
    for seq in range(2, 1_000_000):
        await store.commit(batch(seq, seq, run=f"run_{number}", of=id))
        print(number, seq, flush=True)

async def main(place):
    store = store_at(place)
    await store.open()
    await asyncio.gather(*(run(store, number) for number in range(5)))

asyncio.run(main(sys.argv[1]))
"""
ROOT = Path(__file__).parents[3]


async def _filled(store: SqlStore) -> int:
    """Hand in batches until the disk is full; the number of the last one that was taken."""
    await store.add(session())
    await store.commit(beginning(1))
    for seq in range(2, 1000):
        (failed,) = await asyncio.gather(
            store.commit(batch(seq, seq, lines=lines(seq, seq, filler="y" * 20_000))), return_exceptions=True
        )
        if not isinstance(failed, int):
            assert isinstance(failed, StoreError)
            assert "no space left" in str(failed)
            return seq - 1
    raise AssertionError("it never was full")


async def test_a_full_disk_is_told_and_once_there_is_room_the_run_goes_on_without_a_hole(tmp_path: Path) -> None:
    store = store_at(tmp_path / "store.sqlite")
    await store.open()
    with store._database.write_engine.connect() as connection:  # the one connection that writes
        connection.exec_driver_sql("PRAGMA max_page_count = 100")
    last = await _filled(store)
    big, small = (
        batch(last + 1, last + 1, lines=lines(last + 1, last + 1, filler="y" * 20_000)),
        batch(last + 2, last + 2),
    )
    results = await asyncio.gather(store.commit(big), store.commit(small), return_exceptions=True)
    assert [type(result) for result in results] == [StoreError, SequenceConflict]  # the small one would leave a hole
    assert seqs(await all_pages(store)) == list(range(1, last + 1))
    with store._database.write_engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA max_page_count = 100000")
    await store.commit(big)
    await store.commit(small)
    assert seqs(await all_pages(store)) == list(range(1, last + 3))
    await store.close()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("only root may mount a small disk")
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("root may not mount a small disk here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


async def test_a_disk_that_is_really_full_is_told_and_what_was_committed_is_read_again(small_disk: Path) -> None:
    store = store_at(small_disk / "store.sqlite")
    await store.open()
    last = await _filled(store)
    assert seqs(await all_pages(store)) == list(range(1, last + 1))
    await store.close()
    await store.open()
    assert seqs(await all_pages(store)) == list(range(1, last + 1))
    await store.close()


async def test_a_full_disk_does_not_take_the_service_down_and_deleting_makes_room(tmp_path: Path) -> None:
    store = store_at(tmp_path / "store.sqlite")
    await store.open()
    with store._database.write_engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA max_page_count = 100")
    await _filled(store)
    assert await store.delete("session_1")
    await store.add(session("session_2"))
    await store.commit(beginning(2, run="run_2", of="session_2"))
    assert seqs(await all_pages(store, "run_2")) == [1, 2]
    await store.close()


async def test_another_process_that_holds_the_lock_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "TIMEOUT_SECONDS", 0.05)
    store = SqlStore(Sqlite(tmp_path / "store.sqlite"), patience=0)
    await store.open()
    await store.add(session())
    with closing(sqlite3.connect(tmp_path / "store.sqlite", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        results = await asyncio.gather(
            store.commit(beginning(1)), store.add(session("session_2")), return_exceptions=True
        )
        assert all("another process keeps writing" in str(result) for result in results)
        assert await store.session("session_1") is not None
    await store.commit(beginning(1))
    assert seqs(await all_pages(store)) == [1]
    await store.close()


async def test_a_database_server_that_is_killed_costs_nothing_that_was_committed(mortal: Server) -> None:
    place = store_at(mortal.url(mortal.new_database()))
    store = SqlStore(place._database, patience=0)
    await store.open()
    for number in range(5):
        await store.add(session(f"session_{number}"))
        await store.commit(beginning(1, run=f"run_{number}", of=f"session_{number}"))
    taken = [1] * 5
    killed = asyncio.Event()

    async def write(number: int) -> str:
        while True:
            if taken[number] == 20:
                killed.set()
            seq = taken[number] + 1
            try:
                await store.commit(batch(seq, seq, run=f"run_{number}", of=f"session_{number}"))
            except StoreError as error:
                return str(error)
            taken[number] = seq

    writing = asyncio.gather(*map(write, range(5)))
    await killed.wait()
    await asyncio.to_thread(mortal.kill)
    for said in await writing:
        assert "cannot be reached" in said or "is stopping or starting" in said
        assert "tests:***@" in said
    with pytest.raises(StoreError, match="cannot be reached"):
        await store.run("run_0")
    await asyncio.to_thread(mortal.start)
    for number in range(5):
        # The batch that was refused may be there nevertheless, if the server died right after it; then it counts.
        seq = taken[number] + 1
        await store.commit(batch(seq, seq, run=f"run_{number}", of=f"session_{number}"))
        assert seqs(await all_pages(store, f"run_{number}")) == list(range(1, seq + 1))
    await store.close()


async def test_a_short_restart_of_the_database_server_is_only_waited_for(mortal: Server) -> None:
    store = store_at(mortal.url(mortal.new_database()))
    await store.open()
    await store.add(session())
    await store.commit(beginning(1))
    await asyncio.to_thread(mortal.kill)
    waiting = asyncio.gather(*(store.commit(batch(seq, seq)) for seq in range(2, 30)))
    await asyncio.to_thread(mortal.start)
    await waiting
    assert seqs(await all_pages(store)) == list(range(1, 30))
    await store.close()


async def test_a_store_can_be_closed_while_its_database_is_away(mortal: Server) -> None:
    store = store_at(mortal.url(mortal.new_database()))
    await store.open()
    await asyncio.to_thread(mortal.kill)
    waiting = asyncio.ensure_future(store.add(session()))
    await asyncio.sleep(0)
    async with asyncio.timeout(writer.RETRY_SECONDS / 2):
        await store.close()
        with pytest.raises(StoreError, match="cannot be reached"):
            await waiting


async def test_what_was_committed_when_the_process_is_killed_is_all_there(place: str) -> None:
    command = [sys.executable, "-c", KILLED, place]
    child = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    assert child.stdout is not None
    told = [child.stdout.readline() for _ in range(500)]
    child.send_signal(signal.SIGKILL)
    told += child.stdout.readlines()
    child.wait(60)
    child.stdout.close()
    last: dict[str, int] = {}
    for line in told:
        if line.endswith("\n"):
            number, seq = line.split()
            last[number] = int(seq)
    store = store_at(place)
    await store.open()
    assert await evict_and_interrupt(store) == 5
    for number, seq in last.items():
        found = seqs(await all_pages(store, f"run_{number}"))
        assert found == list(range(1, len(found) + 1))
        assert len(found) in (seq, seq + 1)  # one more may have been committed and not told any more
    await store.close()
