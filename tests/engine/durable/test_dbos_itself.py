"""What is DBOS's own: its tables, its threads, what it cannot do."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from pathlib import Path
from typing import Any

import pytest
from dbos import DBOS, DBOSClient
from endstop.decision import WrongUse
from endstop.durable import Job, ResultNotStored, RunLost, Steps
from endstop.durable.dbos.database_url import parse_database_url

from ...captured_logs import capture_logs
from ...postgres import Server
from .dbos_runs import done, giving, job, key, opened, rows, until


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
    theirs = [one for one in set(threading.enumerate()) - before if one.name.startswith(("dbos", "queue-worker"))]
    for one in theirs:
        one.join(10)  # DBOS does not wait for a thread that has nothing to do any more
    assert [one for one in theirs if one.is_alive()] == []
    assert await asyncio.to_thread(lambda: 3) == 3
    await asyncio.get_running_loop().shutdown_default_executor()
    for one in set(threading.enumerate()) - before:
        one.join(10)  # one that was told to end
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
    monkeypatch.setattr("endstop.durable.dbos.worker.LARGEST", 1000)

    async def work(job: Job, steps: Steps) -> None:
        with pytest.raises(ResultNotStored, match="cannot be written as JSON"):
            await steps.step(key(1), lambda: giving(object()))
        with pytest.raises(ResultNotStored, match="1,002 letters as JSON, and 1,000 can be kept"):
            await steps.step(key(1), lambda: giving("x" * 1000))
        assert await steps.step(key(1), lambda: giving("half a pair: \ud83d")) == "half a pair: \ud83d"

    async with opened(path) as queue:
        await done(queue, work, "run")
    assert [name for (name,) in rows(path, "SELECT function_name FROM operation_outputs")] == ["run/1/"]


async def test_what_the_database_refuses_is_not_kept_and_happens_again(path: Path) -> None:
    refuse = "SELECT RAISE(ABORT, 'too much for me') WHERE length(NEW.output) > 100"
    rows(path, f"CREATE TRIGGER refuse BEFORE INSERT ON operation_outputs BEGIN {refuse}; END")

    async def work(job: Job, steps: Steps) -> None:
        with pytest.raises(ResultNotStored, match="did not take the result: too much for me"):
            await steps.step(key(1), lambda: giving("x" * 200))
        assert await steps.step(key(1), lambda: giving("why")) == "why"
        assert await steps.step(key(1), lambda: giving("again")) == "why"

    async with opened(path) as queue:
        await done(queue, work, "run")


async def test_a_database_without_an_encoding_keeps_every_text(postgres: Server) -> None:
    name = f"{postgres.new_database()}_ascii"
    postgres.execute(f"CREATE DATABASE {name} ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0")

    async def work(job: Job, steps: Steps) -> None:
        assert await steps.step(key(1), lambda: giving("Grüße, 你好 😀")) == "Grüße, 你好 😀"
        assert await steps.step(key(1), lambda: giving("again")) == "Grüße, 你好 😀"

    async with opened(postgres.url(name)) as queue:
        await done(queue, work, "run")


async def test_a_job_that_cannot_be_read_is_told_and_does_not_stop_the_queue(path: Path) -> None:
    async def work(job: Job, steps: Steps) -> None:
        """Nothing."""

    with capture_logs() as logs:
        async with opened(path) as queue:
            await queue.submit(job("odd"))
            rows(path, """UPDATE workflow_input SET inputs = '{"args": [{"run_id": 1}], "kwargs": {}}'""")
            await done(queue, work, "run")
    assert [(log["event"], log["run"]) for log in logs] == [("the work of a run failed", "odd")]


async def test_work_that_raises_is_told_and_work_that_lost_its_run_ends_nothing(path: Path) -> None:
    ended = asyncio.Event()
    times: list[str] = []

    async def work(job: Job, steps: Steps) -> None:
        times.append(job.run_id)
        if job.run_id == "breaks":
            raise ValueError("as it happens")
        if len(times) == 2:
            raise RunLost("says the store")
        ended.set()

    with capture_logs() as logs:
        async with opened(path) as queue:
            await queue.submit(job("breaks"))
            async with queue.working("process", work, at_once=1):
                await until(lambda: times == ["breaks"])
                await queue.submit(job("lost"))
                await until(lambda: times == ["breaks", "lost"])
                await asyncio.sleep(0.2)
                assert rows(path, "SELECT status FROM workflow_status WHERE workflow_uuid = 'lost'") == [("PENDING",)]
                await queue.recover("lost")
                await asyncio.wait_for(ended.wait(), 60)
    assert times == ["breaks", "lost", "lost"]
    told = [(log["log_level"], log["event"], log.get("run"), log.get("error")) for log in logs]
    assert told == [("warning", "the work of a run failed", "breaks", "ValueError('as it happens')")]


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
            client = DBOSClient(system_database_url=parse_database_url(path).url, application_name="endstop")
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
            with pytest.raises(WrongUse, match="DBOS can run once in a process"):
                async with another.working("two", work, at_once=1):
                    pass
        theirs = DBOS(config={"name": "theirs", "system_database_url": parse_database_url(path).url})
        with pytest.raises(WrongUse, match="another part of this process uses DBOS"):
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


async def test_tables_of_a_newer_dbos_are_taken_as_dbos_takes_them(path: Path) -> None:
    async def work(job: Job, steps: Steps) -> None:
        await steps.step(key(1), lambda: giving(1))

    rows(path, "UPDATE dbos_migrations SET version = 9999")
    async with opened(path) as queue:
        await done(queue, work, "run")
