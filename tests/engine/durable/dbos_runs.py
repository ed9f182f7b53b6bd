"""Runs on DBOS in this process, for tests of what is DBOS's own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from endstop.durable import Job, StepKey, Steps
from endstop.durable.dbos import Dbos
from endstop.durable.dbos.database_url import parse_database_url
from sqlalchemy import create_engine, text

Work = Callable[[Job, Steps], Awaitable[None]]


def job(run: str = "run") -> Job:
    return Job(run_id=run, session_id="session", agent="agent", opening="prompt", text="a prompt with \u0000")


def key(step: int, run: str = "run") -> StepKey:
    return StepKey("session", run, step)


async def giving(value: Any) -> Any:
    return value


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
    engine = create_engine(parse_database_url(path).url)
    try:
        with engine.begin() as connection:
            found = connection.execute(text(statement))
            return list(found.fetchall()) if found.returns_rows else []
    finally:
        engine.dispose()


async def until(seen: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not seen():
            await asyncio.sleep(0.01)
