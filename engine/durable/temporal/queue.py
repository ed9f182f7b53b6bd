"""Temporal: a queue of runs on a Temporal server.

A run is a workflow with one long activity; the workflow has the id of the run. The server gives the activity to a
process that polls for one, and to another process if no heartbeat arrives for the length of a lease: so it recovers
from a dead process without help. The results of steps are stored in the activity's heartbeats (`worker.py`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

import msgspec

from ...decision import WrongUse
from ...decision.errors import missing_extra
from ...decision.wrong_calls import checked
from ...durability import GivenRun, Job, Work
from .worker import RunConsumer

if TYPE_CHECKING:
    from .client import TemporalConnection

LONGEST_JOB = 2_000_000
"""The largest job, in bytes; the limit of the server is 2 MiB."""
_TRIES = 5


@checked
class Temporal:
    """Runs queued and made durable by a Temporal server.

    address: host and port. namespace: must exist on the server. task_queue: a worker gets only runs that were submitted
    to the task queue of the same name; run ids are unique in the whole namespace. lease: seconds without a heartbeat
    after which a run is given to another process; at least 1. api_key, tls: what the server requires.

    `at_once` limits the runs of one process. Temporal cannot limit the activities of all processes together, nor those
    of one owner, so there is no such setting. A server with fairness (`matching.enableFairness`) gives out waiting runs
    by turns of their owners; others in the order in which they came. A result of more than 2 MB is not kept
    (ResultNotStored): the server would refuse it. The results of a run's latest two steps are kept, and those older
    ones that fit into 128 kB. Raises WrongUse for settings that can never work, such as a missing driver.
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
            raise WrongUse(f"Temporal({address!r}) is not the address of a Temporal server: give HOST:PORT")
        if not 1.0 <= lease <= 3600.0:
            raise WrongUse(f"Temporal(lease={lease}) must be from 1 to 3600 seconds")
        if find_spec("temporalio") is None:
            raise missing_extra("Temporal needs its driver", "temporal")
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
        """Implement `Queue.open`. Raises WrongUse also if the namespace does not exist."""
        from .client import TemporalConnection

        self._connection = await TemporalConnection.connect(
            self.address, self.namespace, self.task_queue, api_key=self._api_key, tls=self._tls
        )

    async def close(self) -> None:
        """Implement `Queue.close`."""
        self._connection = None

    async def ping(self) -> None:
        """Implement `Reachable.ping`."""
        await self._opened.ping()

    async def submit(self, job: Job) -> None:
        """Implement `Queue.submit`. Raises WrongUse for a job of more than 2 MB."""
        data = msgspec.json.encode(job)
        if len(data) > LONGEST_JOB:
            raise WrongUse(f"the job of run {job.run_id} has {len(data):,} bytes, and Temporal accepts {LONGEST_JOB:,}")
        connection = self._opened
        for _ in range(_TRIES):  # another process may be submitting the same run
            started = await connection.start(job.run_id, data, self.lease, job.owner)
            if started or not await connection.close_ended(job.run_id):
                return

    async def recover(self, run_id: str) -> None:
        """Implement `Queue.recover`.

        The runs of the dead process are reassigned immediately, not only after the lease.
        """
        await self._opened.give_up(run_id)

    async def lost(self, run_ids: Sequence[str], seconds: float) -> list[str]:
        """Implement `Queue.lost`.

        A run that was given to a process is not lost, whenever that was: if the process is dead the server notices it.
        """
        connection = self._opened
        return [run_id for run_id in run_ids if await connection.is_lost(run_id)]

    async def given_to_others(self, processes: Sequence[str], after: GivenRun | None = None) -> list[GivenRun]:
        """Implement `Queue.given_to_others`: there are none.

        The server gives the run of a dead process to another one, which finds that it is over and ends its workflow.
        What has ended is deleted after the namespace's retention.
        """
        return []

    async def drop(self, *run_ids: str) -> None:
        """Implement `Queue.drop`.

        Terminates each workflow; the process that has the run learns of it at its next heartbeat.
        """
        for run_id in run_ids:
            await self._opened.forget(run_id)

    def working(self, process: str, work: Work, *, at_once: int) -> AbstractAsyncContextManager[None]:
        """Implement `Queue.working`. Unfinished runs are reassigned after the lease, or by `recover`."""
        if at_once < 1:
            raise WrongUse(f"at_once={at_once}: must be 1 or more")
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
