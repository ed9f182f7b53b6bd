"""The connection to a Temporal server: submitting runs, polling for them, and the workflow of a run.

Activities are polled with the plain API and not by the SDK's worker, which chooses when to send a heartbeat and does
not report whether it arrived. Imported when a queue is opened.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from hashlib import sha256
from typing import Literal, TypeVar

from temporalio import workflow
from temporalio.api.common.v1 import Payload, Payloads
from temporalio.api.enums.v1 import EventType, PendingActivityState
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import (
    DescribeNamespaceRequest,
    PollActivityTaskQueueRequest,
    PollActivityTaskQueueResponse,
)
from temporalio.client import (
    AsyncActivityCancelledError,
    AsyncActivityHandle,
    Client,
    WorkflowExecutionStatus,
    WorkflowHandle,
)
from temporalio.common import Priority, RawValue, RetryPolicy, WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import ApplicationError, WorkflowAlreadyStartedError
from temporalio.runtime import LogForwardingConfig, LoggingConfig, Runtime, TelemetryConfig, TelemetryFilter
from temporalio.service import PayloadLimitsConfig, RetryConfig, RPCError, RPCStatusCode
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from ...decision import WrongUse
from ...providers._outage import Outage

_T = TypeVar("_T")

_WORKFLOW_TASK = timedelta(seconds=3)
"""How long a process may take to answer a workflow task, which normally takes milliseconds; then the server considers
the process dead."""
_ENDED = {
    EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED,
    EventType.EVENT_TYPE_ACTIVITY_TASK_FAILED,
    EventType.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT,
    EventType.EVENT_TYPE_ACTIVITY_TASK_CANCELED,
}
_REFUSED = {
    RPCStatusCode.INVALID_ARGUMENT: "refuses it",
    RPCStatusCode.NOT_FOUND: "has none: create it (`temporal operator namespace create`), or name another one",
    RPCStatusCode.PERMISSION_DENIED: "does not permit it",
    RPCStatusCode.UNAUTHENTICATED: "requires an API key, or another one",
    RPCStatusCode.UNIMPLEMENTED: "cannot do it: it is too old, or not a Temporal server",
}
"""Errors that a retry cannot fix."""
NAME = "endstop_run"
"""The type of the workflow, and of its activity."""
ACTIVITY = "run"
"""The id of its activity."""
_EVER = timedelta(days=3650)
"""Temporal requires a time limit; the policy of a run limits how long it may take."""
_AT_ONCE = timedelta(milliseconds=10)
CALL = timedelta(seconds=10)
"""The time limit of a call."""
POLL = timedelta(seconds=20)
"""How long one poll for a run waits. For this long a frozen process can still be given one."""
_AGAIN_SECONDS = 0.25
Whereabouts = Literal["waiting", "here", "elsewhere"]
"""Where an attempt is: in no process yet, in this one or in another one."""
_STARTED = PendingActivityState.PENDING_ACTIVITY_STATE_STARTED


class RunNotFound(Exception):
    """The run is not in the queue, or not running."""


class TemporalConnection:
    """An open connection, to submit and drop runs."""

    def __init__(self, client: Client, task_queue: str) -> None:
        self._client = client
        self._task_queue = task_queue

    @classmethod
    async def connect(
        cls, address: str, namespace: str, task_queue: str, *, api_key: str | None, tls: bool | None
    ) -> TemporalConnection:
        """Connect, and check that the namespace exists. Raises WrongUse and ConnectionError."""
        try:
            client = await Client.connect(
                address,
                namespace=namespace,
                api_key=api_key,
                tls=tls,
                runtime=_runtime(),
                retry_config=RetryConfig(max_interval_millis=500, max_retries=50),  # a lease must not end between two
                payload_limits=PayloadLimitsConfig(payloads_warn_size=0),  # results have a separate limit
            )
        except (RuntimeError, RPCError) as error:
            raise unreachable(address, error) from None
        except ValueError as error:
            raise WrongUse(f"address={address!r} is not one of a Temporal server ({error}): give HOST:PORT") from None
        connection = cls(client, task_queue)
        request = DescribeNamespaceRequest(namespace=namespace)
        try:
            await connection._call(
                f"namespace {namespace!r}", client.workflow_service.describe_namespace(request, retry=True)
            )
        except RunNotFound as gone:
            raise WrongUse(f"{gone}: the Temporal server {_REFUSED[RPCStatusCode.NOT_FOUND]}") from None
        return connection

    async def ping(self) -> None:
        """Return once the server has answered. Raises ConnectionError."""
        service = self._client.service_client
        try:
            await service.check_health(timeout=CALL)
        except RPCError as error:
            raise unreachable(service.config.target_host, error) from None

    def poller(self, process: str) -> ActivityPoller:
        """Return the calls with which a process claims runs under this name, as an `ActivityPoller`."""
        return ActivityPoller(self._client, self._task_queue, process)

    async def start(self, run_id: str, job: bytes, lease: float, owner: str) -> bool:
        """Start the workflow of a run; False if an open one with this id exists, even if its work has ended.

        A server with fairness gives out the activities of its owners in turn; others ignore it.
        """
        starting = self._client.start_workflow(
            NAME,
            args=[raw_json(job), lease],
            id=run_id,
            task_queue=self._task_queue,
            task_timeout=_WORKFLOW_TASK,
            priority=Priority(fairness_key=_fairness_key(owner)),
            id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
            id_conflict_policy=WorkflowIDConflictPolicy.FAIL,
        )
        try:
            await self._call(f"run {run_id}", starting)
        except WorkflowAlreadyStartedError:
            return False
        return True

    async def close_ended(self, run_id: str) -> bool:
        """Terminate the open workflow of a run whose work has ended; False if the work has not ended."""
        with suppress(RunNotFound):
            newest = await self._call(f"run {run_id}", self._client.get_workflow_handle(run_id).describe())
            one = self._client.get_workflow_handle(run_id, run_id=newest.run_id)
            if not await self._call(f"run {run_id}", _has_ended(one)):
                return False
            await self._call(f"run {run_id}", one.terminate("its work has ended, and it was submitted again"))
        return True

    async def is_lost(self, run_id: str) -> bool:
        """Return whether the run has no open workflow, or one whose work is with nobody and is not about to be."""
        try:
            described = await self._call(f"run {run_id}", self._client.get_workflow_handle(run_id).describe())
        except RunNotFound:
            return True
        return described.status is not WorkflowExecutionStatus.RUNNING

    async def give_up(self, run_id: str) -> None:
        """Fail the current attempt at a run whose process is dead: the server starts the next attempt immediately."""
        attempt = self._client.get_async_activity_handle(workflow_id=run_id, run_id=None, activity_id=ACTIVITY)
        error = ApplicationError("its process is dead", type="Dead")
        with suppress(RunNotFound):
            await self._call(f"run {run_id}", attempt.fail(error, rpc_timeout=CALL))

    async def forget(self, run_id: str) -> None:
        """Terminate the workflow of a run."""
        with suppress(RunNotFound):
            await self._call(f"run {run_id}", self._client.get_workflow_handle(run_id).terminate("dropped"))

    async def _call(self, what: str, call: Awaitable[_T]) -> _T:
        try:
            return await call
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                raise RunNotFound(what) from None
            if error.status in _REFUSED:
                raise WrongUse(f"{what}: the Temporal server {_REFUSED[error.status]} ({error.message})") from None
            raise unreachable(self._client.service_client.config.target_host, error) from None


def _fairness_key(owner: str) -> str:
    """Return a key of at most 64 bytes, which is Temporal's limit."""
    return owner if len(owner.encode(errors="replace")) <= 64 else sha256(owner.encode(errors="replace")).hexdigest()


async def _has_ended(handle: WorkflowHandle[object, object]) -> bool:
    return any([event.event_type in _ENDED async for event in handle.fetch_history_events()])


@cache
def _runtime() -> Runtime:
    """Return the runtime of this process, which logs to Python's `logging`; the default one prints to stdout."""
    complaints = TelemetryFilter(core_level="ERROR", other_level="ERROR")
    forwarded = LogForwardingConfig(logging.getLogger("temporalio"))
    return Runtime(telemetry=TelemetryConfig(logging=LoggingConfig(complaints, forwarding=forwarded)))


@dataclass(frozen=True)
class ActivityTask:
    """An attempt at a run that the server gave to this process."""

    token: bytes
    run_id: str
    execution: str
    """The workflow execution: a run that is submitted again gets a new one."""
    number: int
    """Number of the attempt, from 1 in its execution."""
    lease: float
    """Seconds without a heartbeat after which the server gives the run to another process."""
    job: bytes
    """The `Job`, as JSON."""
    kept: tuple[bytes, ...]
    """The results of steps that the latest heartbeat of an earlier attempt stored."""


class ActivityPoller:
    """The calls with which a process claims runs, renews their leases and reports how they ended.

    While the server cannot be reached, `poll` returns None; all others retry until it answers.
    """

    def __init__(self, client: Client, task_queue: str, process: str) -> None:
        self._client = client
        self._task_queue = task_queue
        self._process = process
        self._outage = Outage("runs stand still")

    @asynccontextmanager
    async def serve_workflows(self) -> AsyncIterator[None]:
        """Process the workflow tasks of this task queue (`RunWorkflow`) while the context is open."""
        async with Worker(
            self._client,
            task_queue=self._task_queue,
            workflows=[RunWorkflow],
            identity=self._process,
            workflow_runner=UnsandboxedWorkflowRunner(),  # the sandbox would import the engine again for every run
            max_cached_workflows=0,  # a cached workflow stays with its process for seconds after the process died
        ):
            yield

    async def poll(self) -> ActivityTask | None:
        """Wait up to `POLL` for a run; None if none came, or if the server cannot be reached."""
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
        self._outage.over()
        return await self._task(got) if got.activity_type.name == NAME else None

    async def _task(self, got: PollActivityTaskQueueResponse) -> ActivityTask:
        (job,) = await self._read(got.input)
        return ActivityTask(
            token=got.task_token,
            run_id=got.workflow_execution.workflow_id,
            execution=got.workflow_execution.run_id,
            number=got.attempt,
            lease=got.heartbeat_timeout.ToTimedelta().total_seconds(),
            job=job,
            kept=tuple(await self._read(got.heartbeat_details)),
        )

    async def renew(self, task: ActivityTask, carried: Sequence[bytes]) -> bool:
        """Renew the lease of an attempt, and store these results; False if the attempt lost the run."""
        details = [raw_json(data) for data in carried]
        return await self._retry(task, lambda attempt: attempt.heartbeat(*details, rpc_timeout=CALL))

    async def complete(self, task: ActivityTask) -> None:
        """Report that the work of a run has returned: the run is over."""
        await self._retry(task, lambda attempt: attempt.complete(rpc_timeout=CALL))

    async def fail(self, task: ActivityTask, reason: str) -> None:
        """Report that the work of a run has raised: the run is over."""
        error = ApplicationError(reason, non_retryable=True)
        await self._retry(task, lambda attempt: attempt.fail(error, rpc_timeout=CALL))

    async def release(self, task: ActivityTask, reason: str, seconds: float) -> None:
        """Return the run to the queue; another process gets it after this many seconds."""
        error = ApplicationError(reason, next_retry_delay=timedelta(seconds=seconds))
        await self._retry(task, lambda attempt: attempt.fail(error, rpc_timeout=CALL))

    async def latest_attempt(self, task: ActivityTask) -> tuple[int, Whereabouts] | None:
        """Return the number and the place of a run's latest attempt; None if the run has ended or was dropped."""
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
                    there: Whereabouts = "here" if one.last_worker_identity == self._process else "elsewhere"
                    return one.attempt, there if one.state == _STARTED else "waiting"
                return None

    async def _retry(self, task: ActivityTask, call: Callable[[AsyncActivityHandle], Awaitable[None]]) -> bool:
        """Call until the server answers; False if the attempt has lost the run."""
        attempt = self._client.get_async_activity_handle(task_token=task.token)
        while True:
            try:
                await call(attempt)
            except AsyncActivityCancelledError:  # by an operator, not by endstop
                return False
            except RPCError as error:
                if error.status is RPCStatusCode.NOT_FOUND:
                    return False
                await self._wait(error)
            else:
                self._outage.over()
                return True

    async def _wait(self, error: RPCError) -> None:
        self._outage.failed(reason=str(unreachable(self._client.service_client.config.target_host, error)))
        await asyncio.sleep(_AGAIN_SECONDS)

    async def _read(self, payloads: Payloads) -> list[bytes]:
        decoded = await self._client.data_converter.decode(payloads.payloads, [RawValue] * len(payloads.payloads))
        return [value.payload.data for value in decoded]


def raw_json(data: bytes) -> RawValue:
    """Return a payload of JSON that is already encoded."""
    return RawValue(Payload(metadata={"encoding": b"json/plain"}, data=data))


def unreachable(address: str, error: Exception) -> ConnectionError:
    """Return the error for a server that does not answer."""
    said = error.message if isinstance(error, RPCError) else str(error)
    return ConnectionError(f"no Temporal server answers at {address}: start it, or give its address ({said})")


@workflow.defn(name=NAME)
class RunWorkflow:
    """The workflow of a run: one activity, retried until it ends.

    Another process gets the activity as soon as `lease` seconds have passed without a heartbeat. The run itself cannot
    be a workflow: Temporal re-executes workflows from their history, so they must not use a clock or do I/O.
    """

    @workflow.run
    async def run(self, job: RawValue, lease: float) -> None:
        """Return when the work has returned; fail if it has raised."""
        await workflow.execute_activity(
            NAME,
            job,
            activity_id=ACTIVITY,
            start_to_close_timeout=_EVER,
            heartbeat_timeout=timedelta(seconds=lease),
            retry_policy=RetryPolicy(initial_interval=_AT_ONCE, backoff_coefficient=1, maximum_interval=_AT_ONCE),
        )
