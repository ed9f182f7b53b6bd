"""Databases for durable engines. Processes of the suite are forked from one that has imported what takes long."""

from __future__ import annotations

import multiprocessing
import shutil
from pathlib import Path

import pytest
from endstop.durable.dbos import Dbos

from ...postgres import Server

multiprocessing.set_forkserver_preload(
    [
        *("endstop.testing.conformance.durable.harness", "endstop.durable.dbos.worker", "structlog"),
        *("endstop.durable.temporal.client", "endstop.durable.temporal.worker"),
        *("anyio._backends._asyncio", "dbos._sys_db_postgres", "dbos._sys_db_sqlite"),  # what they import at work
    ]
)


@pytest.fixture(scope="module")
def database(postgres: Server) -> str:
    return postgres.new_database()


@pytest.fixture
async def made(tmp_path_factory: pytest.TempPathFactory, _made: list[Path]) -> Path:
    """A file of SQLite with DBOS's tables and nothing in them; making them takes longer than most cases."""
    if not _made:
        path = tmp_path_factory.mktemp("made") / "dbos.sqlite"
        queue = Dbos(path)
        await queue.open()
        await queue.close()
        _made.append(path)
    return _made[0]


@pytest.fixture(scope="module")
def _made() -> list[Path]:
    return []


@pytest.fixture
def path(made: Path, tmp_path: Path) -> Path:
    shutil.copy(made, tmp_path / "dbos.sqlite")
    return tmp_path / "dbos.sqlite"
