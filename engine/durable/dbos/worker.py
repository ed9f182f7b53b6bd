"""The worker: runs DBOS in this process, and stores steps with it.

Whether a run still belongs to this process is not asked here: the store says that before each side effect. DBOS has a
token of its own for each execution, and stores the results of the latest one alone.
"""

from __future__ import annotations

import asyncio
import contextvars
import json
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

import anyio
import msgspec
from dbos import DBOS, error
from sqlalchemy.exc import DBAPIError

from ...decision import WrongUse
from ...durability import Job, ResultNotStored, RunLost, StepKey, Work
from ...providers._logging import log_warning
from .client import (
    APPLICATION,
    IDLE_IN_TRANSACTION,
    VERSION,
    WORKFLOW,
    DbosConnection,
    JsonSerializer,
    JsonText,
    encode_json,
    escape_name,
    map_errors,
)

_CONNECTIONS = 5
_IDLE_SECONDS = 0.2
_REMEMBERED = 1_000
"""How many of the latest runs are remembered."""
_PATIENCE = 5.0
"""Seconds that cancelled work gets to end when `working` is left."""
LARGEST = 64_000_000
"""The largest result, in characters of JSON. PostgreSQL would accept more, but resuming a run reads all its results."""
_LOST_ERRORS = (
    error.DBOSNonExistentWorkflowError,
    error.DBOSStepNondeterminismError,
    error.DBOSUnexpectedStepError,
    error.DBOSWorkflowCancelledError,
    error.DBOSWorkflowConflictIDError,
)
T = TypeVar("T")
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 10.0


class _Left(BaseException):
    """Ends an execution without an outcome: DBOS stores only an Exception, so the run stays open."""


class DbosWorker:
    """Claims jobs of one queue and executes them. One per process, like DBOS itself."""

    current: DbosWorker | None = None

    def __init__(
        self, connection: DbosConnection, queue: str, process: str, work: Work, *, at_once: int, in_all: int | None
    ) -> None:
        self._connection = connection
        self._queue = queue
        self._process = process
        self._work = work
        self._at_once = at_once
        self._in_all = in_all
        self._context = contextvars.copy_context()
        """Work runs in the context of whoever entered `working`, so that tools do not see the context of DBOS."""
        self._leaving = False
        self.left = False
        """Whether no step starts any more, as this process does not work on the queue any more."""
        self._executing: dict[str, asyncio.Task[Any]] = {}
        """The latest execution of each run here."""
        self._latest: deque[str] = deque(maxlen=_REMEMBERED)
        """Ids of the runs that this process began most recently. DBOS records the end of a run a moment after it: until
        then it still lists the run as being executed, and `_leave` must not put it back into the queue."""
        self._tasks: set[asyncio.Task[Any]] = set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Claim and execute jobs while the context is open."""
        if DbosWorker.current is not None:
            raise WrongUse("this process works on a DBOS queue already, and DBOS can run once in a process")
        DbosWorker.current = self
        try:
            self._launch()
            try:
                yield
            finally:
                with anyio.CancelScope(shield=True):
                    await self._leave()
        finally:
            DbosWorker.current = None

    def _launch(self) -> None:
        """Start DBOS in this thread: it uses the event loop that is running here."""
        with map_errors(self._connection.url):
            self._dbos = DBOS(
                config={
                    "name": APPLICATION,
                    "application_version": VERSION,
                    "executor_id": self._process,
                    "system_database_url": self._connection.url.url,
                    "sys_db_pool_size": _CONNECTIONS,
                    "sys_db_idle_transaction_timeout_sec": IDLE_IN_TRANSACTION,
                    "serializer": JsonSerializer(),
                    "run_migrations": False,
                    "enable_otlp": False,
                    "log_level": "WARNING",
                    # how often it looks for messages between workflows, which we have none of; DBOS's end waits for it
                    "notification_listener_polling_interval_sec": _IDLE_SECONDS,
                    "notification_coalesce_sec": _IDLE_SECONDS,
                }
            )
            if DBOS.executor_id != self._process:
                raise WrongUse("another part of this process uses DBOS: start the worker in a process of its own")
            try:
                DBOS.listen_queues([self._queue])
                DBOS.launch()
            except BaseException:
                DBOS.destroy()
                raise

    async def _leave(self) -> None:
        self._leaving = True
        begun = {*self._executing, *self._latest}
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_PATIENCE)
        self.left = True
        # private, because DBOS lets only its client choose: while the database is away its threads ask again for ever,
        # and a process ends only after its threads
        self._dbos._sys_db._retry_connection_errors = False
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(1) as own:  # not the loop's: that one is DBOS's by now, and ends with it
            await loop.run_in_executor(own, DBOS.destroy)
        loop.set_default_executor(ThreadPoolExecutor())
        with suppress(ConnectionError):  # then they are recovered like the runs of a process that died
            for run in await self._connection.running(self._queue, self._process):
                if run not in begun:  # DBOS took it while it was being shut down
                    await self._connection.requeue(self._queue, run)

    async def execute(self, given: dict[str, Any]) -> None:
        """Execute a run; called by DBOS."""
        job = _job_of(given)
        task = asyncio.current_task()
        assert task is not None, "DBOS runs a workflow in a task of its own"
        if await self._is_one_too_many(job.run_id):
            await self._refuse(job.run_id)
        self._latest.append(job.run_id)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self._executing[job.run_id] = task
        try:
            await self._do(job)
        finally:
            if self._executing.get(job.run_id) is task:
                del self._executing[job.run_id]

    async def _is_one_too_many(self, run: str) -> bool:
        """Whether executing this run would exceed a limit. DBOS enforces the limits, with two exceptions.

        `at_once` is stored with the queue, and another process may have set it higher than ours; and in SQLite DBOS
        counts the runs in execution before it locks the file, so that two processes can both take the last place.
        """
        if self._leaving or (len(self._executing) >= self._at_once and run not in self._executing):
            return True
        if self._in_all is None or not self._connection.url.is_a_file:
            return False
        return run not in (await retry_transient(lambda: self._connection.running(self._queue)))[: self._in_all]

    async def _refuse(self, run: str) -> None:
        """Put the run back into the queue, and end this execution. While leaving, `_leave` puts it back."""
        if not self._leaving:
            await retry_transient(lambda: self._connection.requeue(self._queue, run))
        raise _Left

    async def _do(self, job: Job) -> None:
        try:
            await self.check_assigned(job.run_id)
            kept, upto = await retry_transient(lambda: self._connection.results_of(job.run_id))
            steps = DbosSteps(self, job.run_id, kept, upto)
            await asyncio.get_running_loop().create_task(self._make(job, steps), context=self._context.copy())
            await self.check_assigned(job.run_id)  # otherwise DBOS would wait for the other execution to end
        except RunLost:
            raise _Left from None
        except asyncio.CancelledError:
            raise _Left from None
        except Exception as error:
            log_warning("the work of a run failed", run=job.run_id, error=repr(error))
            raise

    async def check_assigned(self, run: str) -> None:
        """Raises RunLost unless DBOS has this process execute the run. Waits while the database is away."""
        status = await retry_transient(lambda: self._connection.status(run))
        if status is None or status.status != "PENDING" or status.executor_id != self._process:
            raise RunLost(f"DBOS has given the run {run} to another process, or it was dropped")

    async def _make(self, job: Job, steps: DbosSteps) -> None:
        await self._work(job, steps)


def _job_of(given: dict[str, Any]) -> Job:
    try:
        return msgspec.convert(given, Job)
    except msgspec.ValidationError as error:
        log_warning("the work of a run failed", run=str(DBOS.workflow_id), error=repr(error))
        raise


@DBOS.workflow(name=WORKFLOW, max_recovery_attempts=None)
async def _run(given: dict[str, Any]) -> None:
    worker = DbosWorker.current
    if worker is None:
        raise _Left
    await worker.execute(given)


class _NoOutcome(BaseException):
    """Ends a DBOS step without an outcome: DBOS stores only an Exception."""


class DbosSteps:
    """The steps of one execution of a run.

    DBOS identifies a step by its number, which would have to be counted in the same order on every execution. We
    identify it by its name: all results are read when the execution starts, and new steps get unused numbers.

    kept: the stored results, by step name. upto: the highest number of a stored step.
    """

    def __init__(self, worker: DbosWorker, run: str, kept: dict[str, Any], upto: int) -> None:
        self._worker = worker
        self._run = run
        self._kept = {name: encode_json(result) for name, result in kept.items()}
        self._locks: dict[str, asyncio.Lock] = {}
        self._workflow = contextvars.copy_context()
        """The context in which DBOS knows its workflow; the work itself runs in the context of its caller."""
        while upto and DBOS.reserve_step().step_id < upto:
            pass

    async def step(self, key: StepKey, work: Callable[[], Awaitable[Any]]) -> Any:
        """See `Steps.step`."""
        name = escape_name(str(key))
        async with self._locks.setdefault(name, asyncio.Lock()):
            if name not in self._kept:
                return await self._make(name, work)
        return json.loads(self._kept[name])

    async def _make(self, name: str, work: Callable[[], Awaitable[Any]]) -> Any:
        loop = asyncio.get_running_loop()
        begun: asyncio.Future[None] = loop.create_future()
        made: asyncio.Future[JsonText] = loop.create_future()

        async def outcome() -> JsonText:
            begun.set_result(None)
            return await made

        async def keep() -> None:
            await DBOS.run_step_async({"name": name}, outcome)

        # DBOS's part is a task in DBOS's context, so that `work` runs here, in the context and the scopes of its
        # caller, and so that a cancellation of the work is none of DBOS's
        keeping = loop.create_task(keep(), context=self._workflow.copy())
        try:
            if self._worker.left:
                raise RunLost("this process does not work on the queue any more")
            await asyncio.wait((begun, keeping), return_when=asyncio.FIRST_COMPLETED)
            if not begun.done():
                await self._until_kept(keeping)
                raise RunLost(f"another process has done the step {name}")
            result = await work()
            text = _text_of(result)
        except BaseException:
            if not made.done():
                made.set_exception(_NoOutcome())
            keeping.add_done_callback(_ignore_outcome)
            made.add_done_callback(_ignore_outcome)
            raise
        made.set_result(text)
        await self._until_kept(keeping)
        self._kept[name] = text
        return result

    async def _until_kept(self, keeping: asyncio.Task[None]) -> None:
        keeping.add_done_callback(_ignore_outcome)
        try:
            await asyncio.shield(keeping)
        except _LOST_ERRORS as taken:
            raise RunLost(str(taken)) from None
        except DBAPIError as refused:
            raise ResultNotStored(f"the database did not take the result: {refused.orig}") from None
        except AssertionError:  # raised by DBOS if the row of the run was deleted
            await self._worker.check_assigned(self._run)
            raise


def _text_of(result: Any) -> JsonText:
    try:
        text = encode_json(result)
    except (TypeError, ValueError, RecursionError) as refused:
        raise ResultNotStored(f"the result cannot be written as JSON: {refused}") from None
    if len(text) > LARGEST:
        raise ResultNotStored(f"the result has {len(text):,} letters as JSON, and {LARGEST:,} can be kept")
    return text


def _ignore_outcome(future: asyncio.Future[Any]) -> None:
    """Mark its exception as retrieved: nobody may be waiting for it any more."""
    if not future.cancelled():
        future.exception()


async def retry_transient(ask: Callable[[], Awaitable[T]]) -> T:
    """Call until the database answers: a running run waits for it, as DBOS itself does."""
    pause = _FIRST_PAUSE
    while True:
        try:
            return await ask()
        except ConnectionError:
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
