"""The worker: runs DBOS in this process, and stores steps with it.

This module does not check whether a run still belongs to this process: the store does, before each side effect. DBOS
has its own token for each execution, and stores the results of the latest one only.
"""

from __future__ import annotations

import asyncio
import contextvars
import json
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from itertools import count
from time import monotonic, time
from typing import Any, TypeVar
from weakref import WeakValueDictionary

import anyio
import msgspec
from dbos import DBOS

from ...decision import WrongUse
from ...durability import Job, ResultNotStored, RunLost, StepKey, Work
from ...providers._logging import log_warning
from ...store.base import StoreError
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
from .step_results import Execution, StepResult, StepResults

_CONNECTIONS = 5
_IDLE_SECONDS = 0.2
_REMEMBERED = 1_000
"""How many of the latest runs are remembered."""
_PATIENCE = 5.0
"""Seconds that cancelled work gets to end when `working` is left."""
LARGEST = 64_000_000
"""The largest result, in characters of JSON. PostgreSQL would accept more, but resuming a run reads all its results."""
ASK_SECONDS = 0.05
"""Seconds after the latest answer of the database from which a step asks whether its run is still this execution's,
before the work. Sooner it does not, unless this process has given the run away itself: within these no other process
takes a run and stores a result. So the calls of a response ask once, and not each. A result is refused either way."""
LEFT = "this process does not work on the queue any more"
T = TypeVar("T")
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 10.0


class _Left(BaseException):
    """Raised to end an execution without an outcome: DBOS stores only an Exception, so the run stays open."""


class DbosWorker:
    """Worker that claims jobs of one queue and executes them. One per process, like DBOS."""

    current: DbosWorker | None = None

    def __init__(
        self,
        connection: DbosConnection,
        queue: str,
        process: str,
        work: Work,
        *,
        at_once: int,
        in_all: int | None,
        each: int | None,
    ) -> None:
        self._connection = connection
        self._queue = queue
        self._process = process
        self._work = work
        self._at_once = at_once
        self._in_all = in_all
        self._each = each
        self._context = contextvars.copy_context()
        """Work runs in the context of whoever entered `working`, so that tools do not see the context of DBOS."""
        self._leaving = False
        self.left = False
        """Whether no step starts any more, as this process does not work on the queue any more."""
        self._executing: dict[str, asyncio.Task[Any]] = {}
        """By run id: its latest execution in this process."""
        self._steps: WeakValueDictionary[str, DbosSteps] = WeakValueDictionary()
        """By run id: the steps of its latest execution in this process."""
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
                    # polling for messages between workflows, which we do not use; DBOS waits for it when it ends
                    "notification_listener_polling_interval_sec": _IDLE_SECONDS,
                    "notification_coalesce_sec": _IDLE_SECONDS,
                }
            )
            if DBOS.executor_id != self._process:
                raise WrongUse("another part of this process uses DBOS: start the worker in a separate process")
            try:
                DBOS.listen_queues([self._queue])
                DBOS.launch()
                self._results = StepResults(self._dbos._sys_db.engine, self._connection.url, self._process)
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
        # private, because DBOS lets only its client choose: while the database is away its threads retry forever,
        # and a process ends only after its threads
        self._dbos._sys_db._retry_connection_errors = False
        loop = asyncio.get_running_loop()
        own = ThreadPoolExecutor(1)  # not the loop's executor, which now belongs to DBOS and ends with it
        try:
            await loop.run_in_executor(own, self._results.close)
            await loop.run_in_executor(own, DBOS.destroy)
        finally:
            own.shutdown(wait=False)  # while the database hangs, so does its thread: a cancelled caller leaves it
        loop.set_default_executor(ThreadPoolExecutor())
        with suppress(ConnectionError):  # they are then recovered like the runs of a dead process
            for run in await self._connection.running(self._queue, self._process):
                if run not in begun:  # DBOS took it while it was being shut down
                    await self._connection.requeue(self._queue, run)

    async def execute(self, given: dict[str, Any]) -> None:
        """Execute a run; called by DBOS."""
        job = _job_of(given)
        task = asyncio.current_task()
        assert task is not None, "DBOS runs a workflow in a separate task"
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

    def given_away(self, run: str) -> None:
        """Note that this process has given a run away: its next step here asks the database first."""
        if run in self._steps:
            self._steps[run].ask_from = 0.0

    async def _is_one_too_many(self, run: str) -> bool:
        """Return whether executing this run would exceed a limit. DBOS enforces the limits, with two exceptions.

        `at_once` is stored with the queue, and another process may have set it higher than this one; and in SQLite DBOS
        counts the runs in execution before it locks the file, so that two processes can both take the last place.
        """
        if self._leaving or (len(self._executing) >= self._at_once and run not in self._executing):
            return True
        if not self._connection.url.is_a_file:
            return False
        if self._in_all is not None and run not in (await self._running())[: self._in_all]:
            return True
        return self._each is not None and run not in (await self._running(beside=run))[: self._each]

    async def _running(self, beside: str | None = None) -> list[str]:
        return await retry_transient(lambda: self._connection.running(self._queue, beside=beside))

    async def _refuse(self, run: str) -> None:
        """Put the run back into the queue, and end this execution. While leaving, `_leave` puts it back."""
        if not self._leaving:
            await retry_transient(lambda: self._connection.requeue(self._queue, run))
        raise _Left

    async def _do(self, job: Job) -> None:
        try:
            asked = monotonic()
            execution = await self._results.begin(job.run_id)
            steps = DbosSteps(self, self._results, job.run_id, execution, asked)
            self._steps[job.run_id] = steps
            await asyncio.get_running_loop().create_task(
                self._make(job, steps), name=f"endstop dbos run {job.run_id}", context=self._context.copy()
            )
            await self._results.check(job.run_id, execution.owner)  # otherwise DBOS would wait for the other execution
        except RunLost:
            raise _Left from None
        except asyncio.CancelledError:
            raise _Left from None
        except Exception as error:
            log_warning("the work of a run failed", run=job.run_id, error=repr(error))
            raise

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


class DbosSteps:
    """The steps of one execution of a run.

    DBOS identifies a step by its number, which would have to be counted in the same order on every execution. We
    identify it by its name: all results are read when the execution starts, and new steps get unused numbers.
    """

    def __init__(self, worker: DbosWorker, results: StepResults, run: str, execution: Execution, asked: float) -> None:
        self._worker = worker
        self._results = results
        self._run = run
        self._owner = execution.owner
        self._stored = execution.results
        self._numbers = count(execution.last + 1)
        self._locks: dict[str, asyncio.Lock] = {}
        self.ask_from = asked + ASK_SECONDS
        """`monotonic()` from which a step asks, before its work, whether the run is still this execution's."""

    async def step(self, key: StepKey, work: Callable[[], Awaitable[Any]]) -> Any:
        """Implement `Steps.step`."""
        name = escape_name(str(key))
        async with self._locks.setdefault(name, asyncio.Lock()):
            if name not in self._stored:
                return await self._make(name, work)
        return json.loads(self._stored[name])

    async def _make(self, name: str, work: Callable[[], Awaitable[Any]]) -> Any:
        if self._worker.left:
            raise RunLost(LEFT)
        if monotonic() >= self.ask_from:
            await self._answered(self._results.check(self._run, self._owner))
        began = int(time() * 1000)
        result = await work()
        text = _text_of(result)
        made = StepResult(next(self._numbers), name, text, began)
        await self._answered(self._results.store(self._run, self._owner, made))
        self._stored[name] = text
        return result

    async def _answered(self, question: Awaitable[None]) -> None:
        asked = monotonic()
        try:
            await question
        except StoreError:  # the thread was closed
            raise RunLost(LEFT) from None
        self.ask_from = asked + ASK_SECONDS


def _text_of(result: Any) -> JsonText:
    try:
        text = encode_json(result)
    except (TypeError, ValueError, RecursionError) as refused:
        raise ResultNotStored(f"the result cannot be written as JSON: {refused}") from None
    if len(text) > LARGEST:
        raise ResultNotStored(f"the result has {len(text):,} letters as JSON, and {LARGEST:,} can be kept")
    return text


async def retry_transient(ask: Callable[[], Awaitable[T]]) -> T:
    """Call until the database answers: a running run waits for it, as DBOS itself does."""
    pause = _FIRST_PAUSE
    while True:
        try:
            return await ask()
        except ConnectionError:
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
