"""The connection to a Temporal server: what anybody asks of its queue. Imported when it is opened."""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from contextlib import suppress
from datetime import timedelta
from functools import cache
from typing import TypeVar

from temporalio.api.enums.v1 import EventType
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client, WorkflowHandle
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import ApplicationError, WorkflowAlreadyStartedError
from temporalio.runtime import LogForwardingConfig, LoggingConfig, Runtime, TelemetryConfig, TelemetryFilter
from temporalio.service import PayloadLimitsConfig, RetryConfig, RPCError, RPCStatusCode

from ...decision import WrongUse
from .polling import CALL, Polling, away, raw
from .workflow import ACTIVITY, NAME

_T = TypeVar("_T")

_WORKFLOW_TASK = timedelta(seconds=3)
"""After this the server takes a process for dead that has said nothing about a workflow; it needs milliseconds."""
_ENDED = {
    EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED,
    EventType.EVENT_TYPE_ACTIVITY_TASK_FAILED,
    EventType.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT,
    EventType.EVENT_TYPE_ACTIVITY_TASK_CANCELED,
}
_REFUSED = {
    RPCStatusCode.INVALID_ARGUMENT: "refuses it",
    RPCStatusCode.NOT_FOUND: "has none: make it (`temporal operator namespace create`), or name another one",
    RPCStatusCode.PERMISSION_DENIED: "does not permit it",
    RPCStatusCode.UNAUTHENTICATED: "asks for an API key, or another one",
    RPCStatusCode.UNIMPLEMENTED: "cannot do it: it is too old, or no Temporal server",
}
"""What trying again will never change."""


class Gone(Exception):
    """There is no such run in the queue, or it is not in work."""


class Link:
    """An open connection."""

    def __init__(self, client: Client, task_queue: str) -> None:
        self._client = client
        self._task_queue = task_queue

    @classmethod
    async def connect(
        cls, address: str, namespace: str, task_queue: str, *, api_key: str | None, tls: bool | None
    ) -> Link:
        """Connect, and see that the namespace is there. Raises WrongUse and ConnectionError."""
        try:
            client = await Client.connect(
                address,
                namespace=namespace,
                api_key=api_key,
                tls=tls,
                runtime=_runtime(),
                retry_config=RetryConfig(max_interval_millis=500, max_retries=50),  # a lease must not end between two
                payload_limits=PayloadLimitsConfig(payloads_warn_size=0),  # results have a limit of their own
            )
        except (RuntimeError, RPCError) as error:
            raise away(address, error) from None
        except ValueError as error:
            raise WrongUse(f"address={address!r} is not one of a Temporal server ({error}): give HOST:PORT") from None
        link = cls(client, task_queue)
        request = DescribeNamespaceRequest(namespace=namespace)
        try:
            await link._asked(
                f"namespace {namespace!r}", client.workflow_service.describe_namespace(request, retry=True)
            )
        except Gone as gone:
            raise WrongUse(f"{gone}: the Temporal server {_REFUSED[RPCStatusCode.NOT_FOUND]}") from None
        return link

    def polling(self, process: str) -> Polling:
        """Its side for a process that works."""
        return Polling(self._client, self._task_queue, process)

    async def start(self, run_id: str, job: bytes, lease: float) -> bool:
        """Have a run wait for a process; False if there is one of this id, whether its work is to come or has ended."""
        starting = self._client.start_workflow(
            NAME,
            args=[raw(job), lease],
            id=run_id,
            task_queue=self._task_queue,
            task_timeout=_WORKFLOW_TASK,
            id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
            id_conflict_policy=WorkflowIDConflictPolicy.FAIL,
        )
        try:
            await self._asked(f"run {run_id}", starting)
        except WorkflowAlreadyStartedError:
            return False
        return True

    async def clear_away(self, run_id: str) -> bool:
        """Close the workflow of a run whose work has ended, if no process has yet; False if it is to come or at it."""
        with suppress(Gone):
            newest = await self._asked(f"run {run_id}", self._client.get_workflow_handle(run_id).describe())
            one = self._client.get_workflow_handle(run_id, run_id=newest.run_id)
            if not await self._asked(f"run {run_id}", _has_ended(one)):
                return False
            await self._asked(f"run {run_id}", one.terminate("its work has ended, and it was submitted anew"))
        return True

    async def give_up(self, run_id: str) -> None:
        """End the attempt that is under way as one that failed: the next one begins at once."""
        attempt = self._client.get_async_activity_handle(workflow_id=run_id, run_id=None, activity_id=ACTIVITY)
        error = ApplicationError("its process is dead", type="Dead")
        with suppress(Gone):
            await self._asked(f"run {run_id}", attempt.fail(error, rpc_timeout=CALL))

    async def forget(self, run_id: str) -> None:
        """Close the workflow of a run, wherever it is."""
        with suppress(Gone):
            await self._asked(f"run {run_id}", self._client.get_workflow_handle(run_id).terminate("dropped"))

    async def _asked(self, what: str, call: Awaitable[_T]) -> _T:
        try:
            return await call
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                raise Gone(what) from None
            if error.status in _REFUSED:
                raise WrongUse(f"{what}: the Temporal server {_REFUSED[error.status]} ({error.message})") from None
            raise away(self._client.service_client.config.target_host, error) from None


async def _has_ended(handle: WorkflowHandle[object, object]) -> bool:
    return any([event.event_type in _ENDED async for event in handle.fetch_history_events()])


@cache
def _runtime() -> Runtime:
    """One for the process. What it complains of goes to Python's `logging`: by itself it prints to standard output."""
    complaints = TelemetryFilter(core_level="ERROR", other_level="ERROR")
    forwarded = LogForwardingConfig(logging.getLogger("temporalio"))
    return Runtime(telemetry=TelemetryConfig(logging=LoggingConfig(complaints, forwarding=forwarded)))
