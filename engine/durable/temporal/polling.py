"""The connection to a Temporal server, as a process that works has it: it asks for runs, and says what becomes of them.

Runs are asked for with the plain call, and not by the SDK's own worker: that one sends heartbeats when it thinks fit,
and says nothing of their arrival.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from temporalio.api.common.v1 import Payload, Payloads
from temporalio.api.enums.v1 import PendingActivityState
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import PollActivityTaskQueueRequest, PollActivityTaskQueueResponse
from temporalio.client import AsyncActivityCancelledError, AsyncActivityHandle, Client
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from ..._logging import complain
from .workflow import NAME, RunWorkflow

CALL = timedelta(seconds=10)
"""How long the server may take to answer a call."""
POLL = timedelta(seconds=20)
"""How long one request for a run waits. A process that is stopped, and not ended, can be given one for so long."""
_AGAIN_SECONDS = 0.25
Place = Literal["waiting", "here", "elsewhere"]
"""Where an attempt is: in no process, in this one or in another."""
_STARTED = PendingActivityState.PENDING_ACTIVITY_STATE_STARTED


@dataclass(frozen=True)
class Task:
    """An attempt at a run, given to this process."""

    token: bytes
    run_id: str
    execution: str
    """Which of the workflows with this run's id; a run that was submitted anew has another one."""
    number: int
    """From 1 in its execution."""
    lease: float
    """Seconds."""
    job: bytes
    kept: tuple[bytes, ...]


class Polling:
    """What a process asks that works. All calls but `poll` wait for the server while it is away."""

    def __init__(self, client: Client, task_queue: str, process: str) -> None:
        self._client = client
        self._task_queue = task_queue
        self._process = process
        self._waiting = False

    @asynccontextmanager
    async def keeping(self) -> AsyncIterator[None]:
        """Do what the workflows of this task queue need. They are a few lines, and import nothing that has effects."""
        async with Worker(
            self._client,
            task_queue=self._task_queue,
            workflows=[RunWorkflow],
            identity=self._process,
            workflow_runner=UnsandboxedWorkflowRunner(),  # the sandbox would import the engine anew for every run
            max_cached_workflows=0,  # a cached one stays its process's for seconds after its death
        ):
            yield

    async def poll(self) -> Task | None:
        """Wait for a run; None if there is none for a while, or the server is away."""
        queue = TaskQueue(name=self._task_queue)
        request = PollActivityTaskQueueRequest(
            namespace=self._client.namespace, task_queue=queue, identity=self._process
        )
        try:
            got = await self._client.workflow_service.poll_activity_task_queue(request, timeout=POLL)
        except RPCError as error:
            if error.status not in (RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.CANCELLED):
                await self._wait(error)
            return None
        self._waiting = False
        return await self._task(got) if got.activity_type.name == NAME else None

    async def _task(self, got: PollActivityTaskQueueResponse) -> Task:
        (job,) = await self._read(got.input)
        return Task(
            token=got.task_token,
            run_id=got.workflow_execution.workflow_id,
            execution=got.workflow_execution.run_id,
            number=got.attempt,
            lease=got.heartbeat_timeout.ToTimedelta().total_seconds(),
            job=job,
            kept=tuple(await self._read(got.heartbeat_details)),
        )

    async def renew(self, task: Task, carried: Sequence[bytes]) -> bool:
        """Renew an attempt's lease, and keep this; False if the run is no longer given to it."""
        details = [raw(data) for data in carried]
        return await self._insisted(task, lambda attempt: attempt.heartbeat(*details, rpc_timeout=CALL))

    async def complete(self, task: Task) -> None:
        """Say that the work has returned."""
        await self._insisted(task, lambda attempt: attempt.complete(rpc_timeout=CALL))

    async def fail(self, task: Task, reason: str) -> None:
        """Say that the work has raised: it is over."""
        error = ApplicationError(reason, non_retryable=True)
        await self._insisted(task, lambda attempt: attempt.fail(error, rpc_timeout=CALL))

    async def give_back(self, task: Task, reason: str, seconds: float) -> None:
        """Have the run given to somebody else, so much later."""
        error = ApplicationError(reason, next_retry_delay=timedelta(seconds=seconds))
        await self._insisted(task, lambda attempt: attempt.fail(error, rpc_timeout=CALL))

    async def whereabouts(self, task: Task) -> tuple[int, Place] | None:
        """The number of a run's newest attempt, and where it is; None if the run has ended, or was dropped."""
        handle = self._client.get_workflow_handle(task.run_id, run_id=task.execution)
        while True:
            try:
                described = await handle.describe(rpc_timeout=CALL)
            except RPCError as error:
                if error.status is RPCStatusCode.NOT_FOUND:
                    return None
                await self._wait(error)
            else:
                for one in described.raw_description.pending_activities:
                    there: Place = "here" if one.last_worker_identity == self._process else "elsewhere"
                    return one.attempt, there if one.state == _STARTED else "waiting"
                return None

    async def _insisted(self, task: Task, call: Callable[[AsyncActivityHandle], Awaitable[None]]) -> bool:
        """Call until the server answers; False if it says that the run is no longer given to this attempt."""
        attempt = self._client.get_async_activity_handle(task_token=task.token)
        while True:
            try:
                await call(attempt)
            except AsyncActivityCancelledError:  # by somebody who is no process of ours
                return False
            except RPCError as error:
                if error.status is RPCStatusCode.NOT_FOUND:
                    return False
                await self._wait(error)
            else:
                self._waiting = False
                return True

    async def _wait(self, error: RPCError) -> None:
        if not self._waiting:  # said once, for however long it is away
            self._waiting = True
            complain("runs stand still", reason=str(away(self._client.service_client.config.target_host, error)))
        await asyncio.sleep(_AGAIN_SECONDS)

    async def _read(self, payloads: Payloads) -> list[bytes]:
        decoded = await self._client.data_converter.decode(payloads.payloads, [RawValue] * len(payloads.payloads))
        return [value.payload.data for value in decoded]


def raw(data: bytes) -> RawValue:
    """JSON that is written already, as it is sent."""
    return RawValue(Payload(metadata={"encoding": b"json/plain"}, data=data))


def away(address: str, error: Exception) -> ConnectionError:
    """What is raised, and said, while nobody answers."""
    said = error.message if isinstance(error, RPCError) else str(error)
    return ConnectionError(f"no Temporal server answers at {address}: start it, or give its address ({said})")
