"""Compressed pages: read as they were handed in, told when damaged, and only where every process reads them."""

from __future__ import annotations

import hashlib
import sqlite3
from contextlib import closing, nullcontext

import pytest
from alembic import command
from endstop import Engine
from endstop.providers import Scripted
from endstop.service.service import Service
from endstop.store import database
from endstop.store.base import StoreError
from endstop.store.database_schema import VERSION_TABLE
from endstop.store.page_codec import DICTIONARY, compress_page, expand_page
from endstop.store.sql import SqlStore
from endstop.store.url import store_at
from sqlalchemy import text

from ..temporary_store import TemporaryStore
from .made import all_pages, batch, beginning, ending, lines, seqs, session
from .others import process

DIGEST = "716669f4be1858d497d2b4ac0305255f1b49ba0264c79aad95ade453ad0ad077"
SIZES = "SELECT length(lines), size FROM endstop_pages ORDER BY first_seq"


def test_the_dictionary_is_never_edited() -> None:
    whole = hashlib.sha256(DICTIONARY.read_bytes()).hexdigest()
    assert whole == DIGEST, "with another dictionary no stored page could be read"


@pytest.mark.parametrize("page", [b"", b"x", lines(1, 3), DICTIONARY.read_bytes(), bytes(range(256)) * 1000])
def test_a_page_is_read_as_it_was_written(page: bytes) -> None:
    assert expand_page(compress_page(page), len(page)) == page


@pytest.mark.parametrize("harm", ["flip", "cut", "more", "size"])
def test_a_damaged_page_is_an_error(harm: str) -> None:
    page = lines(1, 30, filler="something that no other page says")
    frame, size = compress_page(page), len(page)
    frame = {"flip": b"\xff" * 8 + frame[8:], "cut": frame[:-3], "more": compress_page(2 * page)}.get(harm, frame)
    with pytest.raises(StoreError, match="damaged"):
        expand_page(frame, size + (harm == "size"))


async def test_a_run_of_which_some_pages_are_compressed_is_read_byte_for_byte(store: SqlStore) -> None:
    await store.add(session())
    written = [lines(1, 20), lines(21, 40), lines(41, 60), b"\x00\xfe\x91\n"]
    await store.commit(beginning(20, lines=written[0]))
    await store.commit(batch(21, 40, lines=written[1], compress=True))
    await store.commit(batch(41, 60, lines=written[2], compress=True))
    await store.commit(ending(61, 61, lines=written[3], compress=True))
    assert [page.lines for page in await all_pages(store)] == written
    with store._database.read_engine.connect() as connection:
        stored = connection.execute(text(SIZES)).all()
    assert [size for _, size in stored] == [None, len(written[1]), len(written[2]), None], "the last would be longer"
    assert stored[1][0] < len(written[1]) / 4


async def test_a_compressed_batch_that_is_submitted_again_is_no_conflict(store: SqlStore) -> None:
    await store.add(session())
    await store.commit(beginning(2, compress=True))
    await store.commit(batch(3, 20, compress=True))
    await store.commit(batch(3, 25, compress=True))
    assert b"".join(page.lines for page in await all_pages(store)) == lines(1, 25)


@pytest.mark.parametrize("compress", [False, True])
async def test_a_downgrade_leaves_no_page_that_cannot_be_read(store: SqlStore, compress: bool) -> None:
    await store.add(session())
    await store.commit(beginning(20, compress=compress))
    with store._database.lease_engine.connect() as connection, connection.begin() as transaction:
        configured = {"connection": connection, "version_table": VERSION_TABLE}
        with pytest.raises(RuntimeError, match="compressed") if compress else nullcontext():
            command.downgrade(database._config(configure=configured), "0006")
        transaction.rollback()  # later tests get these tables, too
    assert seqs(await all_pages(store)) == list(range(1, 21))


@pytest.mark.parametrize(("reads", "compressed"), [("2", False), ("3", True)])
async def test_pages_are_compressed_once_every_process_reads_them(reads: str, compressed: bool) -> None:
    store = TemporaryStore()
    other = store_at(store.path)
    await other.open()
    await other.join(process("other", about={"pages": reads}))
    async with Service(Engine(Scripted("One.")), store=store, grace=0) as service:
        started = await service.start("1")
        await service.outcome(started.run_id or "", wait=5)
        pages = await store.pages(started.run_id or "")
    await other.close()
    assert b"".join(page.lines for page in pages).startswith(b'{"type":"RUN_STARTED"')
    with closing(sqlite3.connect(store.path)) as connection:
        assert any(size is not None for _, size in connection.execute(SIZES)) is compressed
