"""The tables: made by migrations, as the code knows them, by one of many processes, and never touched if newer."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
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
import asyncio, sys
from endstop.store.url import store_at
from endstop.store.base import NewSession

async def main(place, id):
    store = store_at(place)
    print("ready", flush=True)
    sys.stdin.readline()
    await store.open()
    await store.add(NewSession(id=id, owner="o", agent="a", title="t", created_at="2026-11-21T05:21:14.280+00:00"))
    await store.close()

asyncio.run(main(*sys.argv[1:]))
"""


def test_the_migrations_make_the_tables_that_the_code_knows(store: SqlStore) -> None:
    def differ(context: MigrationContext, there: Any, ours: Any, type_there: Any, our_type: Any) -> bool:
        return bool(type_there.compile(context.dialect) != our_type.compile(context.dialect))

    with store._database.write_engine.connect() as connection:
        options = {"version_table": VERSION_TABLE, "compare_type": differ}
        assert compare_metadata(MigrationContext.configure(connection, opts=options), METADATA) == []


async def test_processes_that_open_a_new_database_at_once_do_not_collide(place: str) -> None:
    def start(number: int) -> subprocess.Popen[str]:
        command = [sys.executable, "-W", "error", "-c", textwrap.dedent(OPENS), place, f"session_{number}"]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)

    def end(process: subprocess.Popen[str]) -> str:
        return process.communicate("\n", timeout=60)[1]

    with ThreadPoolExecutor(4) as threads:
        processes = list(threads.map(start, range(4)))
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        assert list(threads.map(end, processes)) == [""] * 4
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
