"""The conformance suite on DBOS, in a file of SQLite and in PostgreSQL."""

from __future__ import annotations

import shutil
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from dbos import DBOS
from dbos import _queue as dbos_queue
from endstop.durable.dbos.worker import DbosWorker
from endstop.testing.conformance.durable import CASES, Adapter, DurableCase, check

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
async def test_a_file_of_sqlite(case: DurableCase, made: Path, tmp_path: Path) -> None:
    path = tmp_path / "dbos.sqlite"
    shutil.copy(made, path)
    # a process that is frozen while it writes holds the lock that all others wait for
    await check(case, dbos(str(path), str(tmp_path / "nowhere" / "dbos.sqlite")), cannot={"freezing"})


@pytest.mark.parametrize("case", CASES, ids=str)
async def test_postgresql(case: DurableCase, postgres: Server, database: str) -> None:
    url = postgres.url(database)
    DBOS.reset_system_database(system_database_url=url, truncate=True)
    await check(case, dbos(url, url.replace(f":{postgres.port}/", ":1/")))


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgresql", marks=pytest.mark.long)])
async def test_the_limit_of_one_owner_is_held_as_that_of_all_is(
    kind: str, made: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if kind == "sqlite":
        url = str(tmp_path / "dbos.sqlite")
        shutil.copy(made, url)
    else:
        server: Server = request.getfixturevalue("postgres")
        url = server.url(request.getfixturevalue("database"))
        DBOS.reset_system_database(system_database_url=url, truncate=True)
    (case,) = (case for case in CASES if str(case) == "queue: the limit of all processes is held")
    await check(case, replace(dbos(url, ""), limited={"running_each": 2}))  # the suite's jobs are all of one owner


async def test_a_run_that_dbos_takes_while_it_is_being_ended_goes_back(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "dbos.sqlite"
    shutil.copy(made, path)
    destroy, execute, refused = DBOS.destroy, dbos_queue.execute_dequeued_workflow, threading.Event()

    def execute_until_it_leaves(*given: Any, **named: Any) -> Any:
        """Execute a run that DBOS took; once the worker leaves, fail as if DBOS's threads had ended."""
        assert DbosWorker.current is not None
        if not DbosWorker.current._leaving:
            return execute(*given, **named)
        refused.set()
        raise RuntimeError("cannot schedule new futures after shutdown")

    def slowly() -> None:
        refused.wait(30)
        destroy()

    monkeypatch.setattr(dbos_queue, "execute_dequeued_workflow", execute_until_it_leaves)
    monkeypatch.setattr(DBOS, "destroy", slowly)
    (leaving,) = (case for case in CASES if case.name == "working: leaving it")
    await check(leaving, dbos(str(path), str(tmp_path / "nowhere" / "dbos.sqlite")), cannot={"freezing"})
    assert refused.is_set()
