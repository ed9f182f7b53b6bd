"""How results of steps come into DBOS's table: many in one transaction, each once, whatever breaks."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from endstop.decision import WrongUse
from endstop.durable import Job, RunLost, Steps
from endstop.durable.dbos.step_results import StepResults
from sqlalchemy.exc import OperationalError

from .dbos_runs import done, giving, key, opened, rows

WRITE = StepResults._write_in_one


async def test_results_that_come_while_others_are_written_are_one_transaction(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[int] = []
    first, waiting = threading.Event(), threading.Event()

    def slowly(self: StepResults, writes: Sequence[Any], *, check_first: bool) -> None:
        if any(write.change.result is not None for write in writes):
            written.append(len(writes))
            first.set()
            assert waiting.wait(60)
        WRITE(self, writes, check_first=check_first)

    monkeypatch.setattr(StepResults, "_write_in_one", slowly)

    async def work(job: Job, steps: Steps) -> None:
        one = asyncio.create_task(steps.step(key(1), lambda: giving(1)))
        assert await asyncio.to_thread(first.wait, 60)
        others = [asyncio.create_task(steps.step(key(number), lambda: giving("x"))) for number in range(2, 22)]
        await asyncio.sleep(0)  # each has begun,
        await asyncio.sleep(0)  # and its work has ended
        waiting.set()
        await asyncio.gather(one, *others)

    async with opened(path) as queue:
        await done(queue, work, "run")
    assert written == [1, 20]
    assert rows(path, "SELECT count(*), count(DISTINCT function_id) FROM operation_outputs") == [(21, 21)]


async def test_a_result_whose_commit_was_not_confirmed_is_stored_once(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    breaks = [True]

    def breaking(self: StepResults, writes: Sequence[Any], *, check_first: bool) -> None:
        WRITE(self, writes, check_first=check_first)
        if breaks and any(write.change.result is not None for write in writes):
            breaks.pop()
            raise OperationalError("COMMIT", {}, Exception("the server closed the connection"))

    monkeypatch.setattr(StepResults, "_write_in_one", breaking)

    async def work(job: Job, steps: Steps) -> None:
        assert await steps.step(key(1), lambda: giving("once")) == "once"
        assert await steps.step(key(2), lambda: giving("next")) == "next"

    async with opened(path) as queue:
        await done(queue, work, "run")
    assert not breaks
    assert rows(path, "SELECT function_id, output FROM operation_outputs") == [(1, '"once"'), (2, '"next"')]


async def test_a_step_that_stands_in_the_place_of_another_one_loses_the_run(path: Path) -> None:
    async def work(job: Job, steps: Steps) -> None:
        columns = "workflow_uuid, function_id, function_name, output, retention_timestamp"
        rows(path, f"INSERT INTO operation_outputs ({columns}) VALUES ('run', 1, 'another', '1', 0)")
        with pytest.raises(RunLost, match="another execution of the run run has done the step run/1/"):
            await steps.step(key(1), lambda: giving(1))

    async with opened(path) as queue:
        await done(queue, work, "run")
    assert rows(path, "SELECT function_name FROM operation_outputs") == [("another",)]


async def test_a_run_that_this_process_gives_away_begins_no_more_work(path: Path) -> None:
    worked: list[int] = []

    async def work(job: Job, steps: Steps) -> None:
        await steps.step(key(1), lambda: giving(1))
        await queue.drop("run")
        with pytest.raises(RunLost):
            await steps.step(key(2), lambda: giving(worked.append(2)))

    async with opened(path) as queue:
        await done(queue, work, "run")
    assert worked == []


async def test_tables_of_another_version_of_dbos_are_refused_before_a_run_begins(path: Path) -> None:
    async with opened(path) as queue:
        rows(path, "ALTER TABLE operation_outputs RENAME COLUMN retention_timestamp TO kept_until")
        with pytest.raises(WrongUse, match=r"no retention_timestamp in its table operation_outputs.*install dbos 3\.4"):
            await done(queue, work_of_one_step, "run")
        rows(path, "ALTER TABLE operation_outputs RENAME COLUMN kept_until TO retention_timestamp")
        await done(queue, work_of_one_step, "another")


async def work_of_one_step(job: Job, steps: Steps) -> None:
    await steps.step(key(1), lambda: giving(1))
