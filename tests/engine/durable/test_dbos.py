"""Runs on DBOS: the conformance suite, in a file of SQLite and in PostgreSQL, and what is DBOS's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from endstop.engine.durable.conformance import CASES, Adapter, Case, check

from ...postgres import PASSWORD, Server, server

POLL = 0.02


@pytest.fixture(scope="module")
def postgres() -> Iterator[Server]:
    with server() as running:
        yield running


def dbos(url: str, away: str) -> Adapter:
    return Adapter(
        make="endstop.engine.durable.dbos:Dbos",
        arguments={"url": url, "poll_seconds": POLL},
        limited={"running_in_all": 2},
        away={"url": away},
        secret=PASSWORD,
    )


@pytest.mark.parametrize("case", CASES, ids=str)
async def test_a_file_of_sqlite(case: Case, tmp_path: Path) -> None:
    await check(case, dbos(str(tmp_path / "dbos.sqlite"), str(tmp_path / "nowhere" / "dbos.sqlite")))


@pytest.mark.parametrize("case", CASES, ids=str)
async def test_postgresql(case: Case, postgres: Server) -> None:
    url = postgres.url(postgres.new_database())
    await check(case, dbos(url, url.replace(f":{postgres.port}/", ":1/")))
