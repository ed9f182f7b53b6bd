"""The worker of a queue: starts runs in this process, and continues runs whose process died."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from time import monotonic
from typing import Any, NoReturn
from weakref import WeakValueDictionary

from ..decision import WrongUse
from ..dependencies import DepsFailed
from ..durability import Job, ProviderAway, RunLost, StepKey, Steps
from ..engine import Engine
from ..providers._logging import log, log_warning
from ..session import Session
from ..store.base import GOING, SessionLocked, Store, StoredSession, StoreError
from .active import ActiveSession, ActiveSessions
from .admission import Admission
from .dispatch import RunInput, waiting_job
from .errors import Refusal
from .event_buffer import WAITS
from .history import load_runs
from .membership import LeaseKeeper
from .ownership import RunOwnership
from .service_metrics import PUT_BACK
from .supervisor import RunSupervisor

RETRY_SECONDS = 0.5
"""Seconds between attempts to claim a session that another process holds, or to reach the store."""
NO_DEPS = "what the run needs (deps) could not be made: the log of its process has the reason"
"""Reason that is stored for a run whose `deps` factory failed. The error itself is not stored: it may hold secrets."""
CLAIMED_AGAIN = "the queue gave the run to this process again"
"""Why an execution stops whose run the same process has claimed once more."""


class QueueWorker:
    """Worker that executes the jobs that the queue gives to this process, several at a time."""

    def __init__(
        self,
        store: Store,
        active_sessions: ActiveSessions,
        admission: Admission,
        supervisor: RunSupervisor,
        lease_keeper: LeaseKeeper,
    ) -> None:
        self._store = store
        self._active_sessions = active_sessions
        self._admission = admission
        self._supervisor = supervisor
        self._lease_keeper = lease_keeper
        self._latest: WeakValueDictionary[str, RunOwnership] = WeakValueDictionary()
        """The latest claim of this process to each session that it works on."""
        self.unfinished: list[Job] = []
        """Jobs that this process leaves to others because it is stopping."""
        self.finished: deque[tuple[float, str]] = deque()
        """Runs of this process's jobs that are over: the `monotonic` time at which it found that, and the run's id.
        `Lifecycle` deletes them from the queue a while later, when the queue has noticed their end."""

    async def run_job(self, job: Job, steps: Steps) -> None:
        """Execute a job; returns once the end of its run is stored, or the run is interrupted until a user resumes it.

        Raises RunLost if another process has to continue the run.
        """
        while True:
            ownership = RunOwnership(self._lease_keeper.held)
            try:
                if await self._run_once(job, steps, ownership):
                    self.finished.append((monotonic(), job.run_id))
                return
            except RunLost as error:
                await self._hand_back(job, ownership)
                raise RunLost(str(error)) from None
            except StoreError as error:  # unreachable: the run waits, however long
                self._supervisor.outages[WAITS].failed(run_id=job.run_id, error=str(error))
            await asyncio.sleep(RETRY_SECONDS)

    async def end_cancelled(self, session: StoredSession) -> bool:
        """End a queued run that was cancelled, without its turn and without a worker; True if it is over.

        False if another process has begun it, or if it cannot end here, because its agent does not start or because it
        was in the middle of a step: then it stays queued, and ends when a worker takes it. While the store is away, it
        waits.
        """
        while True:
            ownership = RunOwnership(self._lease_keeper.held)
            try:
                return await self._end_once(session, ownership)
            except StoreError as error:
                self._supervisor.outages[WAITS].failed(run_id=session.run_id, error=str(error))
            await asyncio.sleep(RETRY_SECONDS)

    async def _end_once(self, session: StoredSession, ownership: RunOwnership) -> bool:
        run = await self._store.run(session.run_id or "")
        if run is None or run.status != "queued" or run.cancel is None:
            return False
        job = waiting_job(session.id, session.agent, session.owner, run.id, run.job)
        try:
            stored = await self._store.claim(session.id, run.id)
        except SessionLocked:
            return False
        try:
            await self._supersede(job, ownership, stored.token)
            return await self._execute(job, stored, NoSteps(), ownership)
        except (WrongUse, Refusal, DepsFailed, RunLost) as error:
            log(
                logging.INFO,
                "a cancelled run is left to a worker",
                {"run_id": run.id, "session_id": session.id, "error": str(error)},
            )
            await self._store.requeue([session.id], token=ownership.token)
            return False

    async def _run_once(self, job: Job, steps: Steps, ownership: RunOwnership) -> bool:
        """Try once to execute a job; True if its run is over. An interrupted run is not: a user may resume it."""
        stored = await self._claim(job, ownership)
        if stored is None:
            found = await self._store.run(job.run_id)
            return found is None or found.status not in (*GOING, "interrupted")
        try:
            return await self._execute(job, stored, steps, ownership)
        except (WrongUse, Refusal) as error:
            log_warning("a run cannot be continued", run_id=job.run_id, session_id=job.session_id, error=str(error))
            await self._store.mark_interrupted(job.session_id, str(error), token=ownership.token)
        except DepsFailed as error:
            log_warning("a run cannot begin", run_id=job.run_id, session_id=job.session_id, error=str(error))
            await self._store.mark_interrupted(job.session_id, NO_DEPS, token=ownership.token)
        return False

    async def _execute(self, job: Job, stored: StoredSession, steps: Steps, ownership: RunOwnership) -> bool:
        """Execute a job whose session this process has claimed; as `_run_once`."""
        active = ActiveSession(job.session_id, stored.owner, job.agent, ownership=ownership)
        self._active_sessions.add(active)
        try:
            session, engine = await self._load(job, stored, OwnedSteps(steps, active))
            run_input = RunInput(opening="resume") if session.interrupted else RunInput.of_job(job)
            run = run_input.start(session, job.run_id)
            await self._supervisor.start_run(active, session, engine, lambda: run, job.heard)
        finally:
            self._supervisor.release(active)
        await active.ended.wait()
        ownership.raise_if_lost()
        return not active.interrupted

    async def _claim(self, job: Job, ownership: RunOwnership) -> StoredSession | None:
        """Claim the session for this process; None if the run is over. Raises StoreError, and RunLost when stopping."""
        while not self._active_sessions.stopping:
            here = self._active_sessions.by_session(job.session_id)
            if here is not None and here.run is not None and here.run.finished:
                await here.ended.wait()  # its end is about to be stored
            run = await self._store.run(job.run_id)
            if run is None or run.status not in GOING:
                return None
            try:
                stored = await self._store.claim(job.session_id, job.run_id)
            except SessionLocked:
                await asyncio.sleep(RETRY_SECONDS)
                continue
            await self._supersede(job, ownership, stored.token)
            return stored
        raise RunLost("this process is stopping")

    async def _supersede(self, job: Job, ownership: RunOwnership, token: int) -> None:
        """Let earlier claims of this process to the same session end, as the queue has given it the run again.

        The store refuses what they write from now on; here they begin no more side effects. Raises RunLost if the
        queue does so once more meanwhile.
        """
        ownership.token = token
        before = self._latest.get(job.session_id)
        if before is not None and (before.token or 0) > token:
            raise ownership.lose(CLAIMED_AGAIN)
        self._latest[job.session_id] = ownership
        if before is not None:
            before.lose(CLAIMED_AGAIN)
        while (here := self._active_sessions.by_session(job.session_id)) is not None:
            here.give_up(CLAIMED_AGAIN)
            await here.ended.wait()
        ownership.raise_if_lost()

    async def _hand_back(self, job: Job, ownership: RunOwnership) -> None:
        """Mark a run that this process lost as queued in the store, for another process to continue.

        A process that is stopping does that later, once it accepts no more jobs (`unfinished`). One that was evicted
        cannot write to the store; a process that finds its orphans does it.
        """
        if self._active_sessions.stopping:
            self.unfinished.append(job)
        elif ownership.token is not None and not (ownership.lease and ownership.lease.evicted.is_set()):
            with suppress(StoreError):  # then resubmit_lost finds it after a while
                # for the process that the queue gave the job to, unless that was this one: it has claimed it by then
                back = await self._store.requeue([job.session_id], token=ownership.token)
                self._supervisor.metrics.add(PUT_BACK, "lost", amount=len(back))

    async def _load(self, job: Job, stored: StoredSession, steps: Steps) -> tuple[Session, Engine]:
        _, engine = self._admission.agent(job.agent)
        session = await load_runs(await self._admission.session(engine, stored), self._store)
        session.steps, session.history = steps, job.history
        return session, engine


class NoSteps:
    """Steps of a run that ends before its next one."""

    async def step(self, key: StepKey, work: Callable[[], Awaitable[Any]]) -> Any:
        """Implement `Steps.step`: leave the run to a process that works on the queue."""
        raise RunLost(f"step {key} needs a worker")


class OwnedSteps:
    """Steps that do their work only while this process certainly owns the run.

    The queue may have been asked for long before the work starts. A process that freezes in between would do the work
    when it wakes up, long after another process has done it. So ownership is checked last, right before the work.

    If the queue has given the run to another process, which cannot claim it as long as this one holds it, it refuses
    results of this one. The store decides: a result that was refused is used and recorded, so that nobody does that
    work again, and this process gives the run up before its next step.
    """

    def __init__(self, steps: Steps, active: ActiveSession) -> None:
        self._steps = steps
        self._active = active
        self._refused: str | None = None
        """Why the queue keeps no more results of this execution; None: it does."""

    async def step(self, key: StepKey, work: Callable[[], Awaitable[Any]]) -> Any:
        """Implement `Steps.step`."""
        ownership, results = self._active.ownership, list[Any]()

        async def owned() -> Any:
            await ownership.check()
            results.append(await work())
            return results[0]

        if self._refused is not None:
            await self._give_up(self._refused)
        try:
            return await self._steps.step(key, owned)
        except ProviderAway:
            raise
        except RunLost as lost:
            if not results:
                raise ownership.lose(str(lost)) from None
            await ownership.check()
            self._refused = str(lost)
            return results[0]

    async def _give_up(self, why: str) -> NoReturn:
        """Store what the queue has refused to keep, and raise RunLost."""
        if self._active.buffer is not None:
            await self._active.buffer.flush()
        raise self._active.ownership.lose(why)
