"""The conformance suite on DBOS, in a file of SQLite and in PostgreSQL."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from dbos import DBOS
from endstop.durable.conformance import CASES, Adapter, Case, check

from ...postgres import PASSWORD, Server
from .chosen import cases

POLL = 0.02


def dbos(url: str, away: str) -> Adapter:
    return Adapter(
        make="endstop.durable.dbos:Dbos",
        arguments={"url": url, "poll_seconds": POLL},
        limited={"running_in_all": 2},
        away={"url": away},
        secret=PASSWORD,
    )


@pytest.mark.parametrize("case", cases())
async def test_a_file_of_sqlite(case: Case, made: Path, tmp_path: Path) -> None:
    path = tmp_path / "dbos.sqlite"
    shutil.copy(made, path)
    # a process that is frozen while it writes holds the lock that all others wait for
    await check(case, dbos(str(path), str(tmp_path / "nowhere" / "dbos.sqlite")), cannot={"freezing"})


@pytest.mark.parametrize("case", CASES, ids=str)
async def test_postgresql(case: Case, postgres: Server, database: str) -> None:
    url = postgres.url(database)
    DBOS.reset_system_database(system_database_url=url, truncate=True)
    await check(case, dbos(url, url.replace(f":{postgres.port}/", ":1/")))
