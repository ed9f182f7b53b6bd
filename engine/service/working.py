"""Doing what a queue hands out: a run that begins here, or that goes on here because its process died."""

from __future__ import annotations

import asyncio

from ...decision import WrongUse
from ..durable.queue import Job
from ..durable.steps import LostRun, Steps
from ..engine import Engine
from ..session import Session
from ..store.store import Held, LeaseLost, Store, StoredSession, StoreError
from .admission import Admission
from .beginning import Asked
from .complaints import complain
from .driving import Driver
from .errors import Refusal
from .lives import Live, Lives
from .recalling import recalled
from .shelf import UNDER_WAY
from .tenure import Tenure

PAUSE = 0.5
"""Seconds between two looks at a session that somebody else still holds, or at a store that is away."""


class Hands:
    """Does jobs in this process, any number at once."""

    def __init__(self, store: Store, lives: Lives, admission: Admission, driver: Driver, tenure: Tenure) -> None:
        self._store = store
        self._lives = lives
        self._admission = admission
        self._driver = driver
        self._tenure = tenure

    async def do(self, job: Job, steps: Steps) -> None:
        """Make the run of a job, and return once the store has its end. Raises LostRun."""
        while True:
            try:
                stored = await self._claimed(job)
                if stored is not None:
                    await self._do(job, steps, stored)
                return
            except LeaseLost as error:
                raise LostRun(str(error)) from None
            except StoreError as error:  # away: the run waits for it, whatever it takes
                if self._lives.stopping:
                    raise LostRun(f"this process stops, and the store is away: {error}") from None
            await asyncio.sleep(PAUSE)

    async def _claimed(self, job: Job) -> StoredSession | None:
        """The session, held by this process; None if there is nothing left to do. Raises StoreError, LostRun."""
        while True:
            if self._lives.stopping:
                raise LostRun("this process stops")
            here = self._lives.of_session(job.session_id)
            if here is not None:  # the same process gets a run again that it has just lost
                await here.ended.wait()
            run = await self._store.run(job.run_id)
            if run is None or run.status not in UNDER_WAY:
                return None
            try:
                return await self._store.claim(job.session_id, job.run_id)
            except Held:
                await asyncio.sleep(PAUSE)

    async def _do(self, job: Job, steps: Steps, stored: StoredSession) -> None:
        live = Live(job.session_id, stored.owner, job.agent)
        self._lives.add(live)
        try:
            try:
                session, engine = await self._recalled(job, steps)
                asked = Asked(opening=job.opening, text=job.text, call_id=job.call_id)
                if session.interrupted:
                    asked = Asked(opening="resume")
                run = asked.begin(session, job.run_id)
                await self._driver.drive(live, session, engine, lambda: run, job.heard)
            except (WrongUse, Refusal) as error:
                await self._set_aside(job, str(error))
                return
        finally:
            self._driver.release(live)
        await live.ended.wait()
        if live.lost is not None:
            if not self._lives.stopping and not self._tenure.lost.is_set():
                await self._store.requeue([job.session_id])  # the queue has given it to somebody else
            raise LostRun(live.lost)

    async def _recalled(self, job: Job, steps: Steps) -> tuple[Session, Engine]:
        _, engine = self._admission.agent(job.agent)
        session = await recalled(self._store, engine, job.session_id)
        session.steps = steps
        return session, engine

    async def _set_aside(self, job: Job, why: str) -> None:
        """Its run cannot go on here: keep it for somebody who knows how, and say why."""
        complain("a run cannot go on", run_id=job.run_id, session_id=job.session_id, error=why)
        await self._store.set_aside(job.session_id, why)
