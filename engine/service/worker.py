"""Doing what a queue hands out: a run that begins here, or that goes on here because its process died."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from time import monotonic
from typing import Any

from .._logging import log_warning
from ..decision import WrongUse
from ..durability import Job, RunLost, StepKey, Steps
from ..engine import Engine
from ..session import Session
from ..store.base import GOING, Held, Store, StoredSession, StoreError
from .active import ActiveSession, ActiveSessions
from .admission import Admission
from .dispatch import RunInput
from .errors import Refusal
from .history import load_session
from .membership import LeaseKeeper
from .supervisor import RunSupervisor

RETRY_SECONDS = 0.5
"""Seconds between two looks at a session that somebody else still holds, or at a store that is away."""


class QueueWorker:
    """Does jobs in this process, any number at once."""

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
        self.unfinished: list[Job] = []
        """Jobs that this process was given and leaves to others."""
        self.finished: deque[tuple[float, str]] = deque()
        """Runs that are over, and when they were: the queue may forget them once it knows that, too."""

    async def run_job(self, job: Job, steps: Steps) -> None:
        """Make the run of a job, and return once the store has its end. Raises RunLost."""
        while True:
            try:
                if await self._run_once(job, steps):
                    self.finished.append((monotonic(), job.run_id))
                return
            except RunLost as error:
                await self._hand_back(job)
                raise RunLost(str(error)) from None
            except StoreError as error:  # away: the run waits for it, whatever it takes
                log_warning("a run waits for the store", run_id=job.run_id, error=str(error))
            await asyncio.sleep(RETRY_SECONDS)

    async def _run_once(self, job: Job, steps: Steps) -> bool:
        """Do it once; whether the run is over. One that was set aside is not: somebody may resume it at any time."""
        stored = await self._claim(job)
        if stored is None:
            found = await self._store.run(job.run_id)
            return found is None or found.status not in (*GOING, "interrupted")
        active = ActiveSession(job.session_id, stored.owner, job.agent)
        self._active_sessions.add(active)
        try:
            session, engine = await self._load(job, steps)
            run_input = RunInput(opening=job.opening, text=job.text, call_id=job.call_id)
            if session.interrupted:
                run_input = RunInput(opening="resume")
            run = run_input.begin(session, job.run_id)
            await self._supervisor.start_run(active, session, engine, lambda: run, job.heard)
        except (WrongUse, Refusal) as error:
            log_warning("a run cannot go on", run_id=job.run_id, session_id=job.session_id, error=str(error))
            await self._store.set_aside(job.session_id, str(error))
            return False
        finally:
            self._supervisor.release(active)
        await active.ended.wait()
        if active.lost_reason is not None:
            raise RunLost(active.lost_reason)
        return True

    async def _claim(self, job: Job) -> StoredSession | None:
        """The session, held by this process; None if there is nothing left to do. Raises StoreError, RunLost."""
        while not self._active_sessions.stopping:
            here = self._active_sessions.by_session(job.session_id)
            if here is not None:  # the same process gets a run again that it is about to lose
                await here.ended.wait()
            run = await self._store.run(job.run_id)
            if run is None or run.status not in GOING:
                return None
            try:
                return await self._store.claim(job.session_id, job.run_id)
            except Held:
                await asyncio.sleep(RETRY_SECONDS)
        raise RunLost("this process stops")

    async def _hand_back(self, job: Job) -> None:
        """Leave a run to others. If this process stops they are told once it takes nothing more (`left`)."""
        if self._active_sessions.stopping:
            self.unfinished.append(job)
        elif not self._lease_keeper.evicted.is_set():
            with suppress(StoreError):  # then it is looked for after a while
                await self._store.requeue([job.session_id])  # the queue has given it to somebody else

    async def _load(self, job: Job, steps: Steps) -> tuple[Session, Engine]:
        _, engine = self._admission.agent(job.agent)
        session = await load_session(self._store, engine, job.session_id)
        session.steps = FencedSteps(steps, self._lease_keeper)
        return session, engine


class FencedSteps:
    """Steps whose work begins only while this process certainly has its place.

    The queue is asked whose the run is before it begins a step. A process that freezes between its answer and the work
    would do the work when it wakes, though somebody else has done it long since; here nothing is waited for in between.
    """

    def __init__(self, steps: Steps, lease_keeper: LeaseKeeper) -> None:
        self._steps = steps
        self._lease_keeper = lease_keeper

    async def step(self, key: StepKey, work: Callable[[], Awaitable[Any]]) -> Any:
        """See `Steps.step`."""

        async def fenced() -> Any:
            await self._lease_keeper.check_ownership()
            return await work()

        return await self._steps.step(key, fenced)
