"""What is DBOS's own: its tables, its threads, its words, its errors."""

from __future__ import annotations

import asyncio
import contextvars
import io
import logging
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import structlog
from dbos import DBOS, DBOSClient
from endstop.decision import WrongUse
from endstop.engine.durable import Job, LostRun, NotKept, StepKey, Steps
from endstop.engine.durable.dbos import Dbos
from endstop.engine.durable.dbos.place import place_of
from sqlalchemy import create_engine, text

from ...postgres import PASSWORD, Server

Work = Callable[[Job, Steps], Awaitable[None]]


def job(run: str = "run") -> Job:
    return Job(run_id=run, session_id="session", agent="agent", opening="prompt", text="a prompt with \u0000")


def key(step: int, run: str = "run") -> StepKey:
    return StepKey("session", run, step)


async def giving(value: Any) -> Any:
    return value


@pytest.fixture
def path(made: Path, tmp_path: Path) -> Path:
    shutil.copy(made, tmp_path / "dbos.sqlite")
    return tmp_path / "dbos.sqlite"


@asynccontextmanager
async def opened(url: str | Path, **options: Any) -> AsyncIterator[Dbos]:
    queue = Dbos(url, poll_seconds=0.02, **options)
    await queue.open()
    try:
        yield queue
    finally:
        await queue.close()


async def done(queue: Dbos, work: Work, *runs: str, process: str = "process", at_once: int = 4) -> None:
    """The work of these runs, done here; what it raises is raised."""
    left = set(runs)
    ended = asyncio.Event()
    raised: list[Exception] = []

    async def watched(job: Job, steps: Steps) -> None:
        try:
            await work(job, steps)
        except Exception as error:
            raised.append(error)
        left.discard(job.run_id)
        if not left or raised:
            ended.set()

    for run in runs:
        await queue.submit(job(run))
    async with queue.working(process, watched, at_once=at_once):
        await asyncio.wait_for(ended.wait(), 60)
    for error in raised:
        raise error


def rows(path: Path, statement: str) -> list[Any]:
    engine = create_engine(place_of(path).url)
    try:
        with engine.begin() as connection:
            found = connection.execute(text(statement))
            return list(found.fetchall()) if found.returns_rows else []
    finally:
        engine.dispose()


async def test_nothing_in_its_tables_is_pickled(path: Path) -> None:
    async def work(job: Job, steps: Steps) -> None:
        assert await steps.step(key(1), lambda: giving({"a": ["result", None]})) == {"a": ["result", None]}

    async def breaks(job: Job, steps: Steps) -> None:
        raise ValueError("broken", object())

    async with opened(path) as queue:
        await done(queue, work, "run")
        with pytest.raises(ValueError, match="broken"):
            await done(queue, breaks, "broken")
        await queue.submit(job("waits"))
    tables = [name for (name,) in rows(path, "SELECT name FROM sqlite_master WHERE type = 'table'")]
    assert {"workflow_status", "workflow_input", "operation_outputs", "workflow_output"} <= set(tables)
    values = [value for table in tables for row in rows(path, f"SELECT * FROM {table}") for value in row]
    texts = [value for value in values if isinstance(value, str)]
    assert any("a prompt with" in one for one in texts)
    assert any('"result"' in one for one in texts)
    assert not [one for one in values if isinstance(one, bytes)]
    assert not [one for one in texts if one.startswith("gA") or "pickle" in one]
    for table in ("workflow_status", "operation_outputs"):
        assert {name for (name,) in rows(path, f"SELECT serialization FROM {table}")} == {"endstop_json"}


async def test_its_threads_end_and_the_loop_has_threads_of_its_own_again(path: Path) -> None:
    before = set(threading.enumerate())

    async def work(job: Job, steps: Steps) -> None:
        await steps.step(key(1), lambda: giving(1))

    for run in ("one", "two"):
        async with opened(path) as queue:
            await done(queue, work, run, process=run)
    assert [one for one in set(threading.enumerate()) - before if one.name.startswith(("dbos", "queue-worker"))] == []
    assert await asyncio.to_thread(lambda: 3) == 3
    await asyncio.get_running_loop().shutdown_default_executor()
    assert set(threading.enumerate()) <= before


async def test_work_sees_nothing_of_dbos_and_the_context_of_who_entered(path: Path) -> None:
    entered = contextvars.ContextVar("entered", default="nothing")
    asked = contextvars.ContextVar("asked", default="nothing")
    seen: list[Any] = []

    async def step() -> None:
        seen.append((DBOS.workflow_id, entered.get(), asked.get()))

    async def work(job: Job, steps: Steps) -> None:
        asked.set("by the work")
        task = asyncio.current_task()
        await steps.step(key(1), step)
        assert asyncio.current_task() is task
        # a task that was made elsewhere, as the engine's are
        await asyncio.get_running_loop().create_task(steps.step(key(2), step), context=contextvars.Context())

    entered.set("by the test")
    async with opened(path) as queue:
        await done(queue, work, "run")
    assert seen == [(None, "by the test", "by the work"), (None, "nothing", "nothing")]


async def test_a_step_that_is_asked_for_twice_at_once_happens_once(path: Path) -> None:
    worked: list[int] = []

    async def slow() -> str:
        worked.append(1)
        await asyncio.sleep(0.05)
        return "result"

    async def work(job: Job, steps: Steps) -> None:
        assert await asyncio.gather(*(steps.step(key(1), slow) for _ in range(3))) == ["result"] * 3

    async with opened(path) as queue:
        await done(queue, work, "run")
    assert worked == [1]


async def test_what_is_no_json_or_too_long_is_not_kept(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("endstop.engine.durable.dbos.steps.LARGEST", 1000)

    async def work(job: Job, steps: Steps) -> None:
        with pytest.raises(NotKept, match="cannot be written as JSON"):
            await steps.step(key(1), lambda: giving(object()))
        with pytest.raises(NotKept, match="1,002 letters as JSON, and 1,000 can be kept"):
            await steps.step(key(1), lambda: giving("x" * 1000))
        assert await steps.step(key(1), lambda: giving("half a pair: \ud83d")) == "half a pair: \ud83d"

    async with opened(path) as queue:
        await done(queue, work, "run")
    assert [name for (name,) in rows(path, "SELECT function_name FROM operation_outputs")] == ["run/1/"]


async def test_work_that_raises_is_told_and_work_that_lost_its_run_ends_nothing(path: Path) -> None:
    ended = asyncio.Event()
    times: list[str] = []

    async def work(job: Job, steps: Steps) -> None:
        times.append(job.run_id)
        if job.run_id == "breaks":
            raise ValueError("as it happens")
        if len(times) == 2:
            raise LostRun("says the store")
        ended.set()

    with structlog.testing.capture_logs() as logs:
        async with opened(path) as queue:
            await queue.submit(job("breaks"))
            async with queue.working("process", work, at_once=1):
                await until(lambda: times == ["breaks"])
                await queue.submit(job("lost"))
                await until(lambda: times == ["breaks", "lost"])
                await asyncio.sleep(0.2)
                assert rows(path, "SELECT status FROM workflow_status WHERE workflow_uuid = 'lost'") == [("PENDING",)]
                await queue.recover("lost")
                await asyncio.wait_for(ended.wait(), 30)
    assert times == ["breaks", "lost", "lost"]
    told = [(log["log_level"], log["event"], log.get("run"), log.get("error")) for log in logs]
    assert told == [("warning", "the work of a run failed", "breaks", "ValueError('as it happens')")]


async def until(seen: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not seen():
            await asyncio.sleep(0.01)


async def test_a_run_that_was_begun_very_often_is_begun_again(path: Path) -> None:
    async def work(job: Job, steps: Steps) -> None:
        await steps.step(key(1), lambda: giving(1))

    async with opened(path) as queue:
        await queue.submit(job())
        rows(path, "UPDATE workflow_status SET recovery_attempts = 1000")
        await done(queue, work, "run")


async def test_at_once_is_held_though_another_process_has_set_it_higher(path: Path) -> None:
    now: set[str] = set()
    most: list[int] = []

    async def work(job: Job, steps: Steps) -> None:
        now.add(job.run_id)
        most.append(len(now))
        await asyncio.sleep(0.1)
        now.discard(job.run_id)
        if len(most) == 1:
            client = DBOSClient(system_database_url=place_of(path).url, application_name="endstop")
            await client.register_queue_async("endstop", worker_concurrency=3, polling_interval_sec=0.02)
            client.destroy()

    async with opened(path) as queue:
        await done(queue, work, *(f"run-{number}" for number in range(6)), at_once=1)
    assert most == [1] * 6


async def test_dbos_can_be_there_once_in_a_process(path: Path) -> None:
    async def work(job: Job, steps: Steps) -> None:
        """Nothing."""

    async with opened(path) as queue, opened(path, queue="another") as another:
        async with queue.working("one", work, at_once=1):
            with pytest.raises(WrongUse, match="DBOS can be there once in a process"):
                async with another.working("two", work, at_once=1):
                    pass
        theirs = DBOS(config={"name": "theirs", "system_database_url": place_of(path).url})
        with pytest.raises(WrongUse, match="in use in this process already, by something else"):
            async with queue.working("three", work, at_once=1):
                pass
        assert DBOS(config={"name": "ours"}) is theirs
        DBOS.destroy()
        await done(queue, work, "run", process="four")


async def test_queues_of_other_names_have_other_runs(path: Path) -> None:
    taken: list[str] = []

    async def work(job: Job, steps: Steps) -> None:
        taken.append(job.run_id)

    async with opened(path, queue="one") as one, opened(path, queue="two") as two:
        await one.submit(job("of one"))
        await done(two, work, "of two")
        assert taken == ["of two"]
        await done(one, work, "of one")


SILENT = """
import asyncio, sys
seen = []
def hook(event, args):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto"):
        seen.append((event, args[1:] if event == "socket.connect" else args))
sys.addaudithook(hook)
from endstop.engine.durable import Job, StepKey
from endstop.engine.durable.dbos import Dbos

async def main():
    ended = asyncio.Event()
    async def work(job, steps):
        async def one():
            return 1
        await steps.step(StepKey("session", job.run_id, 1), one)
        ended.set()
    queue = Dbos(sys.argv[1])
    await queue.open()
    await queue.submit(Job(run_id="run", session_id="session", agent="agent", opening="prompt"))
    async with queue.working("process", work, at_once=1):
        await asyncio.wait_for(ended.wait(), 60)
    await queue.close()

asyncio.run(main())
assert not seen, seen
"""


def test_it_prints_nothing_and_asks_nobody_in_the_network(path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", SILENT, str(path)], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


async def test_the_password_stands_in_nothing_that_dbos_says(
    postgres: Server, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = io.StringIO()
    logger = logging.getLogger("dbos")
    everything = logging.StreamHandler(said)
    logger.addHandler(everything)
    logger.setLevel(logging.DEBUG)
    monkeypatch.setattr(logger, "setLevel", lambda level: None)
    try:
        url = postgres.url(database)
        DBOS.reset_system_database(system_database_url=url, truncate=True)

        async def work(job: Job, steps: Steps) -> None:
            """Nothing."""

        async with opened(url) as queue:
            assert PASSWORD not in repr(queue)
            await done(queue, work, "run")
    finally:
        logger.removeHandler(everything)
    assert "Initializing DBOS system database" in said.getvalue()
    assert PASSWORD not in said.getvalue()
    assert PASSWORD.replace("/", "%2F") not in said.getvalue()


async def test_a_step_waits_while_the_database_is_away_and_submit_says_so(postgres: Server, database: str) -> None:
    url = postgres.url(database)
    DBOS.reset_system_database(system_database_url=url, truncate=True)
    worked: list[int] = []

    async def work(job: Job, steps: Steps) -> None:
        async def crash() -> str:
            worked.append(1)
            postgres.kill()
            with pytest.raises(ConnectionError) as raised:
                await queue.submit(Job(run_id="next", session_id="s", agent="a", opening="prompt"))
            assert PASSWORD not in str(raised.value)
            asyncio.get_running_loop().call_later(0.2, postgres.start)
            return "kept"

        assert await steps.step(key(1), crash) == "kept"
        assert await steps.step(key(2), lambda: giving(2)) == 2

    with structlog.testing.capture_logs() as logs:
        async with opened(url) as queue:
            await done(queue, work, "run")
    assert worked == [1]
    assert any("Retrying in" in log["said"] for log in logs)


async def test_tables_of_a_newer_dbos_are_taken_as_dbos_takes_them(path: Path) -> None:
    async def work(job: Job, steps: Steps) -> None:
        await steps.step(key(1), lambda: giving(1))

    rows(path, "UPDATE dbos_migrations SET version = 9999")
    async with opened(path) as queue:
        await done(queue, work, "run")


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("mysql://user:secret-word@host/db", r"'mysql://user:\*\*\*@host/db' is no place for DBOS"),
        ("postgresql://user:secret-word@host:x/db", r"'postgresql://user:\*\*\*@host:x/db' cannot be read"),
        ("postgresql://user:secret-word@host:99999/db", r"'postgresql://user:\*\*\*@host:99999/db' cannot be read"),
        ("postgresql://user:secret-word@host", r"'postgresql://user:\*\*\*@host' cannot be read"),
        ("", "'' names no file"),
        (":memory:", "':memory:' names no file"),
    ],
)
def test_what_is_no_database_is_refused_at_once(url: str, told: str) -> None:
    with pytest.raises(WrongUse, match=told) as raised:
        Dbos(url)
    assert "secret-word" not in str(raised.value)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"running_in_all": 0}, "running_in_all=0"),
        ({"poll_seconds": 0}, "poll_seconds=0"),
        ({"queue": "_dbos_x"}, "_dbos_x"),
    ],
)
def test_options_that_can_never_work_are_refused(options: dict[str, Any], told: str) -> None:
    with pytest.raises(WrongUse, match=told):
        Dbos("dbos.sqlite", **options)


def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = {"pysqlite3"}
    place = "endstop.engine.durable.dbos.place"
    monkeypatch.setattr(f"{place}.find_spec", lambda name: None if name in missing else object())
    monkeypatch.setattr(f"{place}.sqlite3.sqlite_version_info", (3, 41, 2))
    with pytest.raises(
        WrongUse, match=r"DBOS needs SQLite 3\.42, and this Python has .*: pip install pysqlite3-binary"
    ):
        Dbos("dbos.sqlite")
    monkeypatch.setattr(f"{place}.sqlite3.sqlite_version_info", (3, 42, 0))
    assert place_of("dbos.sqlite").url.startswith("sqlite:////")
    missing.add("dbos")
    with pytest.raises(WrongUse, match=r'pip install "endstop\[dbos\]"'):
        Dbos("dbos.sqlite")


async def test_what_is_not_open_says_so(tmp_path: Path) -> None:
    queue = Dbos(tmp_path / "dbos.sqlite")
    with pytest.raises(WrongUse, match=r"is not open: `await queue\.open\(\)` first"):
        await queue.submit(job())
    await queue.close()


async def refused(url: str | Path, error: type[Exception]) -> str:
    queue = Dbos(url)
    with pytest.raises(error) as raised:
        await queue.open()
    await queue.close()
    assert PASSWORD not in str(raised.value)
    return str(raised.value)


async def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("This is a text, and no database at all, however long it goes on.\n" * 100)
    assert "file is not a database: name another file" in await refused(tmp_path / "text", WrongUse)
    folder = await refused(tmp_path, ConnectionError)
    assert folder == f"{tmp_path}: unable to open database file"


async def test_a_server_that_refuses_says_why_and_no_database_is_made(postgres: Server, database: str) -> None:
    told = await refused(postgres.url("nosuch"), ConnectionError)
    assert "there is no such database" in told
    wrong = await refused(postgres.url(database, password="wrong"), ConnectionError)
    assert "refuses this user or password" in wrong
    again = await refused(postgres.url("nosuch"), ConnectionError)
    assert "there is no such database" in again


def test_sqlite_is_new_enough_here() -> None:
    assert sqlite3.sqlite_version_info >= (3, 42) or place_of("x").url.startswith("sqlite+endstop:")
