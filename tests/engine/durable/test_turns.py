"""Runs that wait begin by turns of their owners, no more of one owner run at once than may, and none is lost.

Which runs other processes were given is told page by page.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from dbos import DBOS
from endstop.durable import Job, Steps
from endstop.durable.dbos import Dbos, turns
from sqlalchemy import create_engine, event, text

from ...postgres import Server

SECONDS = 60.0


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest) -> str:
    if request.param == "sqlite":
        return str(request.getfixturevalue("path"))
    server: Server = request.getfixturevalue("postgres")
    url = server.url(request.getfixturevalue("database"))
    DBOS.reset_system_database(system_database_url=url, truncate=True)
    return url


@asynccontextmanager
async def opened(url: str, **settings: Any) -> AsyncIterator[Dbos]:
    queue = Dbos(url, poll_seconds=0.01, **settings)
    await queue.open()
    yield queue
    await queue.close()


def jobs(owner: str, count: int) -> list[Job]:
    named = [f"{owner}-{number}" for number in range(count)]
    return [Job(run_id=id, session_id=id, agent="main", opening="prompt", owner=owner) for id in named]


async def submit(queue: Dbos, *given: Job) -> None:
    for job in given:
        await queue.submit(job)


async def until(so: Callable[[], bool]) -> None:
    async with asyncio.timeout(SECONDS):
        while not so():
            await asyncio.sleep(0.005)


def execute(url: str, statement: str) -> None:
    """Change DBOS's tables behind its back; `rows` is the name of the one of its runs."""
    postgresql = url.startswith("postgresql")
    engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:") if postgresql else f"sqlite:///{url}")
    with engine.begin() as connection:
        connection.execute(text(statement.replace("rows", ("dbos." if postgresql else "") + "workflow_status")))
    engine.dispose()


class Office:
    """Does runs: notes which begin, in order, and holds them until `go` is set."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.now: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.go = asyncio.Event()

    async def work(self, job: Job, steps: Steps) -> None:
        self.begun.append(job.run_id)
        self.now[job.owner] += 1
        self.most |= self.now
        await self.go.wait()
        await asyncio.sleep(0.01)  # longer than a poll, so that more would begin if more might
        self.now[job.owner] -= 1


async def test_of_each_owner_one_run_begins_and_then_of_each_a_second_one(url: str) -> None:
    office = Office()
    async with opened(url) as queue:
        await submit(queue, *jobs("alice", 7))
        async with queue.working("process", office.work, at_once=1):
            await until(lambda: len(office.begun) == 1)
            await submit(queue, *jobs("bob", 3), *jobs("carol", 1))
            office.go.set()
            await until(lambda: len(office.begun) == 11)
    assert office.begun == [
        *("alice-0", "alice-1", "bob-0", "carol-0", "alice-2", "bob-1", "alice-3", "bob-2"),
        *("alice-4", "alice-5", "alice-6"),
    ]


@pytest.mark.parametrize("together", [False, True], ids=["one by one", "at once"])
@pytest.mark.parametrize("flood", [60, pytest.param(260, marks=pytest.mark.long)])
async def test_five_runs_begin_among_the_next_ones_behind_a_flood_of_another_owner(
    url: str, flood: int, together: bool
) -> None:
    office, at_once = Office(), 10
    async with opened(url) as queue:
        if together:
            await asyncio.gather(*map(queue.submit, jobs("alice", flood)))
        else:
            await submit(queue, *jobs("alice", flood))
        async with queue.working("process", office.work, at_once=at_once):
            await until(lambda: len(office.begun) == at_once)
            await submit(queue, *jobs("bob", 5))
            office.go.set()
            await until(lambda: len(office.begun) == flood + 5)
    after = office.begun[at_once:]
    assert max(after.index(job.run_id) for job in jobs("bob", 5)) < 10 + at_once  # those of one poll begin at once
    assert len({*office.begun}) == flood + 5


async def test_an_owner_whose_turn_came_is_not_overtaken_by_others_that_come_later(url: str) -> None:
    office = Office()
    async with opened(url) as queue:
        await submit(queue, *jobs("alice", 3))
        async with queue.working("process", office.work, at_once=1):
            await until(lambda: len(office.begun) == 1)
            await submit(queue, *jobs("bob", 1), *jobs("carol", 1), *jobs("dan", 1))
            office.go.set()
            await until(lambda: len(office.begun) == 6)
    assert office.begun == ["alice-0", "alice-1", "bob-0", "carol-0", "dan-0", "alice-2"]


async def test_of_one_owner_no_more_run_at_once_than_may_and_others_run_beside_them(url: str) -> None:
    office = Office()
    async with opened(url, running_each=2) as queue:
        await submit(queue, *jobs("alice", 6))
        async with queue.working("process", office.work, at_once=8):
            await until(lambda: len(office.begun) == 2)
            await submit(queue, *jobs("bob", 3))
            await until(lambda: len(office.begun) == 4)
            assert office.now == {"alice": 2, "bob": 2}
            office.go.set()
            await until(lambda: len(office.begun) == 9)
    assert office.most == {"alice": 2, "bob": 2}


async def test_runs_that_an_older_version_queued_begin_also_with_a_limit_for_each_owner(url: str) -> None:
    office = Office()
    office.go.set()
    async with opened(url, running_each=1) as queue:
        await submit(queue, *jobs("alice", 2))
        execute(url, "UPDATE rows SET queue_partition_key = NULL, priority = 0")
        async with queue.working("process", office.work, at_once=4):
            await until(lambda: len(office.begun) == 2)


async def test_a_run_that_was_just_given_to_a_process_is_not_lost_and_one_given_long_ago_is(url: str) -> None:
    office = Office()
    (given, waits) = jobs("alice", 2)
    ids = [given.run_id, waits.run_id, "unknown"]
    async with opened(url) as queue:
        await submit(queue, given, waits)
        async with queue.working("process", office.work, at_once=1):
            await until(lambda: len(office.begun) == 1)
            assert await queue.lost(ids, 30.0) == ["unknown"]
            execute(url, "UPDATE rows SET started_at_epoch_ms = started_at_epoch_ms - 40000 WHERE status = 'PENDING'")
            assert await queue.lost(ids, 30.0) == [given.run_id, "unknown"]
            office.go.set()
            await until(lambda: len(office.begun) == 2)


async def test_what_other_processes_were_given_is_told_page_by_page_and_nothing_of_others(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "_PAGE", 2)
    office = Office()
    async with opened(url) as queue, opened(url, queue="another") as another:
        for name, its in (("ann", queue), ("bob", another)):
            await submit(its, *jobs(name, 5))
            async with its.working(f"process of {name}", office.work, at_once=5):
                await until(lambda name=name: sum(run.startswith(name) for run in office.begun) == 5)  # type: ignore[misc]
        await submit(queue, *jobs("carol", 1))
        await queue.recover("ann-4")
        execute(url, "UPDATE rows SET started_at_epoch_ms = 7 WHERE workflow_uuid LIKE 'ann%' AND status = 'PENDING'")
        execute(url, "UPDATE rows SET status = 'SUCCESS' WHERE workflow_uuid = 'ann-1'")
        pages = [await queue.given_to_others(["process"])]
        for _ in range(2):
            pages.append(await queue.given_to_others(["process"], pages[-1][-1]))
        told = [[(run.run_id, run.at, run.ended) for run in page] for page in pages]
        assert told == [[("ann-0", 7, False), ("ann-1", 7, True)], [("ann-2", 7, False), ("ann-3", 7, False)], []]
        assert await queue.given_to_others(["process of ann"]) == []
        execute(url, "UPDATE rows SET application_name = 'theirs' WHERE workflow_uuid = 'ann-0'")
        assert [run.run_id for run in await queue.given_to_others([])] == ["ann-1", "ann-2"]


async def test_what_other_processes_were_given_is_found_by_an_index_however_many_runs_wait(url: str) -> None:
    columns = "workflow_uuid, status, name, queue_name, application_name, created_at, updated_at, priority"
    numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)"
    waiting = "SELECT 'waits' || i, 'ENQUEUED', 'endstop.run', 'endstop', 'endstop', i, i, 1 FROM n"
    office, asked = Office(), list[tuple[str, Any]]()

    def note(connection: Any, cursor: Any, sql: str, parameters: Any, context: Any, more: bool) -> None:
        asked.append((sql, parameters))

    async with opened(url) as queue:
        await submit(queue, *jobs("ann", 1))
        async with queue.working("process of ann", office.work, at_once=1):
            await until(lambda: len(office.begun) == 1)
        execute(url, f"{numbers} INSERT INTO rows ({columns}) {waiting}")
        execute(url, "ANALYZE rows")
        engine = queue._open._queued._system.engine
        event.listen(engine, "before_cursor_execute", note)
        (given,) = await queue.given_to_others(["process"])
        assert await queue.given_to_others(["process"], given) == []
        event.remove(engine, "before_cursor_execute", note)
        plans = []
        with engine.begin() as connection:
            how = "EXPLAIN QUERY PLAN" if engine.dialect.name == "sqlite" else "EXPLAIN"
            for sql, parameters in [one for one in asked if "executor_id" in one[0]]:
                plans.append(str(connection.exec_driver_sql(f"{how} {sql}", parameters).fetchall()))
    assert len(plans) == 2
    assert [plan for plan in plans if "idx_workflow_status_started_at" not in plan] == []
