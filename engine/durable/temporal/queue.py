"""The queue of a Temporal server, as `Queue` and `Steps` want it.

A run is a workflow with one long activity, and the id of the run is its id. The server gives the activity to a process
that asks for one, and to another one when it has heard nothing of it for the length of a lease: that is how it gets
over a dead process, by itself. What steps gave is kept with the activity's heartbeats (`attempt.py`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

import msgspec

from ...decision import WrongUse
from ...durability import Job, Work
from .worker import RunConsumer

if TYPE_CHECKING:
    from .client import TemporalConnection

LONGEST_JOB = 2_000_000
"""Bytes of a job; the server takes 2 MiB."""
_TRIES = 5


class Temporal:
    """Runs in the hands of a Temporal server.

    address: host and port. namespace: there must be one of that name. task_queue: who works takes the runs that were
    submitted to the same one; run ids are unique in the whole namespace. lease: seconds without a sign of life after
    which a run is given to another process; at least 1. api_key, tls: as the server asks for them.

    `at_once` limits the runs of one process. Temporal knows no limit to the activities that are under way in all
    processes together, so that is not offered.
    A result of more than 2 MB is not kept (ResultNotStored): the server would refuse it. The results of a run's latest
    two steps are kept, and of the older ones as many as fit into 128 kB.
    Raises WrongUse for what can never work, as a missing driver.
    """

    def __init__(
        self,
        address: str = "127.0.0.1:7233",
        *,
        namespace: str = "default",
        task_queue: str = "endstop",
        lease: float = 15.0,
        api_key: str | None = None,
        tls: bool | None = None,
    ) -> None:
        for name, text in (("address", address), ("namespace", namespace), ("task_queue", task_queue)):
            if not text.strip():
                raise WrongUse(f"Temporal({name}={text!r}) is empty")
        if "://" in address or ":" not in address:
            raise WrongUse(f"Temporal({address!r}) is no address of a Temporal server: give HOST:PORT")
        if not 1.0 <= lease <= 3600.0:
            raise WrongUse(f"Temporal(lease={lease}) must be from 1 to 3600 seconds")
        if find_spec("temporalio") is None:
            raise WrongUse('Temporal needs its driver: pip install "endstop[temporal]"')
        self.address = address
        self.namespace = namespace
        self.task_queue = task_queue
        self.lease = lease
        self._api_key = api_key
        self._tls = tls
        self._connection: TemporalConnection | None = None

    def __repr__(self) -> str:
        return f"Temporal({self.address!r}, namespace={self.namespace!r}, task_queue={self.task_queue!r})"

    async def open(self) -> None:
        """See `Queue`. WrongUse also for a namespace that is not there."""
        from .client import TemporalConnection

        self._connection = await TemporalConnection.connect(
            self.address, self.namespace, self.task_queue, api_key=self._api_key, tls=self._tls
        )

    async def close(self) -> None:
        """See `Queue`."""
        self._connection = None

    async def submit(self, job: Job) -> None:
        """See `Queue`. WrongUse for a job of more than 2 MB."""
        data = msgspec.json.encode(job)
        if len(data) > LONGEST_JOB:
            raise WrongUse(f"the job of run {job.run_id} has {len(data):,} bytes, and Temporal takes {LONGEST_JOB:,}")
        connection = self._opened
        for _ in range(_TRIES):  # another process may be submitting the same run
            if await connection.start(job.run_id, data, self.lease) or not await connection.close_ended(job.run_id):
                return

    async def recover(self, run_id: str) -> None:
        """See `Queue`. What the dead process had under way is given away at once, and not after the lease."""
        await self._opened.give_up(run_id)

    async def drop(self, run_id: str) -> None:
        """See `Queue`. Its workflow is terminated; a process that has the run hears of it with its next heartbeat."""
        await self._opened.forget(run_id)

    def working(self, process: str, work: Work, *, at_once: int) -> AbstractAsyncContextManager[None]:
        """See `Queue`. What is unfinished when it is left is given to another process after the lease, or `recover`."""
        if at_once < 1:
            raise WrongUse(f"at_once={at_once}: a process that works has at least one run at once")
        return self._working(process, work, at_once)

    @asynccontextmanager
    async def _working(self, process: str, work: Work, at_once: int) -> AsyncIterator[None]:
        poller = self._opened.poller(process)
        async with poller.serve_workflows(), RunConsumer(poller, work, at_once).running():
            yield

    @property
    def _opened(self) -> TemporalConnection:
        if self._connection is None:
            raise WrongUse(f"{self!r} is not open: `await queue.open()` first")
        return self._connection
