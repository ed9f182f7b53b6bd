"""Dbos: a queue of runs on DBOS."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

from ...decision import WrongUse
from ...decision.errors import missing_extra
from ...decision.wrong_calls import checked
from ...durability import GivenRun, Job, Work

if TYPE_CHECKING:
    from .client import DbosConnection
    from .worker import DbosWorker


@checked
class Dbos:
    """Runs queued and made durable by DBOS, in a PostgreSQL database, or in a SQLite file on one machine.

    Needs `pip install "endstop[dbos]"`. Processes that work on one queue share the database, which also
    stores the queue's limits, `at_once` of `working`, `running_in_all` and `running_each`: the process that entered
    `working` last sets them for all.

    Waiting runs begin by turns of their owners (`Job.owner`): of each owner one, then of each a second one, and so on;
    with `running_each`, owners whose runs may begin are taken in random order.
    """

    def __init__(
        self,
        url: str | os.PathLike[str],
        *,
        running_in_all: int | None = None,
        running_each: int | None = None,
        queue: str = "endstop",
        poll_seconds: float = 0.2,
    ) -> None:
        """Create the queue without connecting. Raises WrongUse for settings that can never work or a missing package.

        url: `postgresql://...`, a path, or `sqlite:///path`. running_in_all: how many runs may be executed at the
        same time in all processes together; None for no limit. running_each: how many of those of one owner; more
        wait. queue: its name; a database may have several queues. poll_seconds: how often a process looks for jobs.
        """
        for name, most in (("running_in_all", running_in_all), ("running_each", running_each)):
            if most is not None and most < 1:
                raise WrongUse(f"{name}={most} would never start a run: give 1 or more, or None")
        if not 0 < poll_seconds < 3600:
            raise WrongUse(f"poll_seconds={poll_seconds} is out of range: give seconds, above 0 and below 3600")
        if not queue.strip() or queue.startswith("_dbos_") or "\0" in queue:
            raise WrongUse(f"queue={queue!r} cannot name a queue: it is blank, or begins with _dbos_")
        if find_spec("dbos") is None:
            raise missing_extra("DBOS is not installed", "dbos")
        from .database_url import parse_database_url

        self._url = parse_database_url(url)
        self._in_all, self._each = running_in_all, running_each
        self._queue = queue
        self._poll_seconds = poll_seconds
        self._connection: DbosConnection | None = None
        self._worker: DbosWorker | None = None

    def __repr__(self) -> str:
        return f"Dbos({self._url.shown!r}, queue={self._queue!r})"

    @staticmethod
    def has_tables(url: str | os.PathLike[str]) -> bool:
        """Return whether DBOS has its tables in a database, and create none; blocks.

        url: as for the class. Raises ConnectionError if the database cannot be reached.
        """
        from .database_url import parse_database_url

        return parse_database_url(url).has_tables()

    async def open(self) -> None:
        """Connect, and create DBOS's tables if they do not exist; see `Queue.open`."""
        from .client import DbosConnection

        if self._connection is None:
            self._connection = await DbosConnection.connect(self._url)

    async def close(self) -> None:
        """Close all connections."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    async def ping(self) -> None:
        """Implement `Reachable.ping`."""
        await self._open.ping()

    async def submit(self, job: Job) -> None:
        """Put a run into the queue; see `Queue.submit`."""
        await self._open.enqueue(self._queue, job)

    @asynccontextmanager
    async def working(self, process: str, work: Work, *, at_once: int) -> AsyncIterator[None]:
        """Claim jobs and execute them in this event loop; see `Queue.working`.

        DBOS can run once in a process: raises WrongUse if it is running already.
        """
        from .worker import DbosWorker

        if at_once < 1:
            raise WrongUse(f"at_once={at_once} would never start a run: give 1 or more")
        connection = self._open
        in_all, each = self._in_all, self._each
        await connection.register(
            self._queue, at_once=at_once, in_all=in_all, each=each, poll_seconds=self._poll_seconds
        )
        worker = DbosWorker(connection, self._queue, process, work, at_once=at_once, in_all=in_all, each=each)
        async with worker.running():
            self._worker = worker
            try:
                yield
            finally:
                self._worker = None

    async def recover(self, run_id: str) -> None:
        """Give a run whose process is dead to another one; see `Queue.recover`."""
        await self._open.requeue(self._queue, run_id)
        self._given_away(run_id)

    async def lost(self, run_ids: Sequence[str], seconds: float) -> list[str]:
        """Return which of these runs nobody will execute; see `Queue.lost`."""
        return await self._open.lost(run_ids, seconds)

    async def given_to_others(self, processes: Sequence[str], after: GivenRun | None = None) -> list[GivenRun]:
        """Return runs of this queue that were given to a process that is not one of these."""
        return await self._open.given_to_others(self._queue, processes, after)

    async def drop(self, *run_ids: str) -> None:
        """Delete runs and their stored results; see `Queue.drop`."""
        await self._open.delete(run_ids)
        for run_id in run_ids:
            self._given_away(run_id)

    def _given_away(self, run_id: str) -> None:
        if self._worker is not None:
            self._worker.given_away(run_id)

    @property
    def _open(self) -> DbosConnection:
        if self._connection is None:
            raise WrongUse(f"{self!r} is not open: `await queue.open()` first")
        return self._connection
