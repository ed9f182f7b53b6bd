"""The tables: made by migrations, as the code knows them, by one of many processes, and never touched if newer."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from endstop.decision import WrongUse
from endstop.store.database_schema import METADATA, VERSION_TABLE
from endstop.store.sql import SqlStore
from endstop.store.url import store_at
from sqlalchemy import text

from .made import session

OPENS = """
import asyncio, gc, os, sys
from endstop.store.url import store_at
from endstop.store.base import NewSession

async def main(store, id):
    await store.open()
    await store.add(NewSession(id=id, owner="o", agent="a", title="t", created_at="2026-11-21T05:21:14.280+00:00"))
    await store.close()

store_at(sys.argv[1])  # imports what it needs
gc.freeze()
held, gate = os.pipe()
here, ready = os.pipe()
children = []
for number in range(4):
    child = os.fork()
    if child == 0:
        os.close(gate)
        store = store_at(sys.argv[1])
        os.write(ready, b"x")
        os.read(held, 1)
        asyncio.run(main(store, f"session_{number}"))
        del store
        gc.collect()  # complains of what was not closed
        os._exit(0)  # to take the interpreter down takes as long as the rest
    children.append(child)
for _ in children:
    os.read(here, 1)
os.close(gate)
sys.exit(any(os.waitpid(child, 0)[1] for child in children))
"""


def test_the_migrations_make_the_tables_that_the_code_knows(store: SqlStore) -> None:
    def differ(context: MigrationContext, there: Any, ours: Any, type_there: Any, our_type: Any) -> bool:
        return bool(type_there.compile(context.dialect) != our_type.compile(context.dialect))

    with store._database.write_engine.connect() as connection:
        options = {"version_table": VERSION_TABLE, "compare_type": differ}
        assert compare_metadata(MigrationContext.configure(connection, opts=options), METADATA) == []


async def test_processes_that_open_a_new_database_at_once_do_not_collide(place: str) -> None:
    command = [sys.executable, "-W", "error", "-c", OPENS, place]
    opened = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False, timeout=60)
    assert (opened.returncode, opened.stdout, opened.stderr) == (0, "", "")
    store = store_at(place)
    await store.open()
    assert len((await store.sessions())[0]) == 4
    await store.close()


async def test_a_schema_of_a_newer_endstop_is_wrong_use_and_is_left_alone(place: str) -> None:
    store = store_at(place)
    await store.open()
    await store.add(session())
    with store._database.write_engine.begin() as connection:
        connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '0099'"))
    with pytest.raises(WrongUse, match=r"newer endstop: its schema is 0099, .* up to 0\d+: upgrade endstop, or name"):
        await store_at(place).open()
    assert await store.session("session_1") is not None
    await store.close()
