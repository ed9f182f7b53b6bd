"""A durable engine as small as can be, in one file of SQLite: what the conformance suite itself is tried on."""

from __future__ import annotations

import asyncio
import fcntl
import json
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from endstop.durability import Work
from endstop.durable import GivenRun, Job, RunLost, StepKey, Steps

TABLES = """
CREATE TABLE IF NOT EXISTS jobs (run TEXT PRIMARY KEY, job TEXT, state TEXT, owner TEXT, term INTEGER);
CREATE TABLE IF NOT EXISTS results (run TEXT, key TEXT, result TEXT, PRIMARY KEY (run, key));
"""


class Plain:
    """`fault` names what it does wrong, so that a case can be seen to bite."""

    def __init__(self, path: str, *, limit: int | None = None, fault: str = "") -> None:
        self.path = path
        self.limit = limit
        self.fault = fault
        self._database: sqlite3.Connection | None = None

    async def open(self) -> None:
        if self.fault == "prints":
            print("welcome", flush=True)
        try:
            with open(f"{self.path}.lock", "w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)  # SQLite does not wait for another who goes into WAL mode, too
                self._database = sqlite3.connect(self.path, timeout=30)
                self._database.execute("PRAGMA journal_mode = WAL")  # who is frozen while it reads holds up nobody
                self._database.execute("PRAGMA synchronous = OFF")
                self._database.executescript(TABLES)
        except (OSError, sqlite3.OperationalError):
            if self.fault != "away silent":
                raise ConnectionError(f"{self.path}: cannot be opened as a database") from None

    async def close(self) -> None:
        database, self._database = self._database, None
        if database is not None:
            database.close()

    async def submit(self, job: Job) -> None:
        text = msgspec.json.encode(job).decode()
        self.do("INSERT OR IGNORE INTO jobs VALUES (?, ?, 'ended', '', 0)", job.run_id, text)
        states = "('ended')" if self.fault != "submitted twice" else "('ended', 'working')"
        if self.fault == "no job twice":
            states = "('nothing')"
            self.do("UPDATE jobs SET state = 'waiting' WHERE run = ? AND owner = ''", job.run_id)
        again = f"UPDATE jobs SET state = 'waiting', job = ? WHERE run = ? AND state IN {states}"
        self.do(again, text, job.run_id)

    async def recover(self, run_id: str) -> None:
        states = "('working')" if self.fault != "recovers all" else "('working', 'ended')"
        self.do(f"UPDATE jobs SET state = 'waiting', term = term + 1 WHERE run = ? AND state IN {states}", run_id)

    async def lost(self, run_ids: Sequence[str], seconds: float) -> list[str]:
        states = "('waiting')" if self.fault == "loses what is in work" else "('waiting', 'working')"
        there = {row[0] for row in self.do(f"SELECT run FROM jobs WHERE state IN {states}")}
        return [run_id for run_id in run_ids if run_id not in there]

    async def given_to_others(self, processes: Sequence[str], after: GivenRun | None = None) -> list[GivenRun]:
        states = "('waiting')" if self.fault != "gives what waits" else "('nothing')"
        known = [] if self.fault == "gives what is in work" else processes
        rows = self.do(
            f"SELECT run, state FROM jobs WHERE state NOT IN {states} AND run > ? AND owner NOT IN"
            " (SELECT value FROM json_each(?)) ORDER BY run LIMIT 100",
            "" if after is None else after.run_id,
            json.dumps(list(known)),
        )
        return [GivenRun(run, 0, state == "ended") for run, state in rows]

    async def drop(self, *run_ids: str) -> None:
        for run_id in run_ids:
            self.do("DELETE FROM jobs WHERE run = ?", run_id)
            if self.fault != "keeps what was dropped":
                self.do("DELETE FROM results WHERE run = ?", run_id)

    @asynccontextmanager
    async def working(self, process: str, work: Work, *, at_once: int) -> AsyncIterator[None]:
        tasks: set[asyncio.Task[None]] = set()

        async def take() -> None:
            while True:
                tasks.difference_update([task for task in tasks if task.done()])
                if len(tasks) < at_once or self.fault == "no at_once":
                    found = self._take(process)
                    if found:
                        tasks.add(asyncio.ensure_future(self._work(*found, work)))
                        continue
                await asyncio.sleep(0.02)

        taking = asyncio.ensure_future(take())
        try:
            yield
        finally:
            for task in (taking, *tasks):
                task.cancel()
            await asyncio.gather(taking, *tasks, return_exceptions=True)

    def _take(self, process: str) -> tuple[Job, int] | None:
        if not self.do("SELECT 1 FROM jobs WHERE state = 'waiting' LIMIT 1"):
            return None  # who is frozen while it writes holds up all others, so that is not done for nothing
        room = "" if self.limit is None else f"AND (SELECT count(*) FROM jobs WHERE state = 'working') < {self.limit}"
        rows = self.do(
            "UPDATE jobs SET state = 'working', owner = ?, term = term + 1 WHERE state = 'waiting' AND run ="
            f" (SELECT run FROM jobs WHERE state = 'waiting' {room} LIMIT 1) RETURNING job, term",
            process,
        )
        return (msgspec.json.decode(rows[0][0], type=Job), rows[0][1]) if rows else None

    async def _work(self, job: Job, term: int, work: Work) -> None:
        try:
            await work(job, PlainSteps(self, job.run_id, term))
        except RunLost:
            return  # it is for whoever recovers it
        except Exception:
            if self.fault == "stops at errors":
                await asyncio.Event().wait()
        self.do("UPDATE jobs SET state = 'ended' WHERE run = ? AND term = ?", job.run_id, term)

    def do(self, statement: str, *values: Any) -> list[Any]:
        assert self._database is not None
        rows = self._database.execute(statement, values).fetchall()
        self._database.commit()
        return rows


class PlainSteps(Steps):
    """The steps of a run in its `term`."""

    def __init__(self, queue: Plain, run: str, term: int) -> None:
        self.queue, self.run, self.term = queue, run, term

    async def step(self, key: StepKey, work: Callable[[], Awaitable[Any]]) -> Any:
        name = f"{key.run}/{key.step}" if self.queue.fault == "mixes calls" else str(key)
        self._check()
        kept = self.queue.do("SELECT result FROM results WHERE run = ? AND key = ?", self.run, name)
        if kept and self.queue.fault != "keeps nothing":
            return json.loads(kept[0][0])
        try:
            result = await work()
        except Exception as error:
            if self.queue.fault == "wraps errors":
                raise RuntimeError(str(error)) from error
            if self.queue.fault == "keeps errors":
                self._keep(name, None)
            raise
        self._check()
        self._keep(name, result)
        return result

    def _keep(self, name: str, result: Any) -> None:
        text = json.dumps(result)
        if self.queue.fault == "no NUL":
            text = text.replace('"\\u0000"', '""')
        if self.queue.fault == "whole floats":
            text = text.replace("1.0,", "1,")
        self.queue.do("INSERT OR REPLACE INTO results VALUES (?, ?, ?)", self.run, name, text)

    def _check(self) -> None:
        rows = self.queue.do("SELECT term FROM jobs WHERE run = ?", self.run)
        if self.queue.fault != "never lost" and (not rows or rows[0][0] != self.term):
            raise RunLost(self.run)
