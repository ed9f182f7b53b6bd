"""Where runs are asked for that a queue hands out: they begin wherever a process takes them.

The store has a run before the queue does, and all that its job needs. So whoever dies in between leaves a run that
waits, and that the others put into the queue after a while.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Literal

import msgspec
from msgspec import Struct

from .._logging import complain
from ..durability import Job, Queue
from ..engine import Engine
from ..records.format import encoded
from ..run import Run, new_run_id
from ..session import Session
from ..store.base import Crowded, Message, NewSession, NotAtRest, Orphan, QueuedRun, Store, StoredSession
from .active import Live, Lives
from .admission import Admission, kept
from .errors import Conflict, busy, too_many_of_yours
from .history import recalled
from .queries import Shelf
from .supervisor import Driver, clock_of

# Beginning a session's runs in this process, as soon as they are asked for.

REST_SECONDS = 5.0
"""So long the store of a run that is over may take until its session is called busy."""


class Asked(Struct, frozen=True, kw_only=True):
    """What a session's next run begins with."""

    opening: Literal["prompt", "answer", "resume"]
    text: str = ""
    call_id: str = ""
    """With `answer`: whose question it answers."""

    @property
    def answering(self) -> str | None:
        """The question that is answered."""
        return self.call_id if self.opening == "answer" else None

    def begin(self, session: Session, run_id: str | None = None) -> Run:
        """The run. Raises WrongUse."""
        match self.opening:
            case "prompt":
                return session.start(self.text, run_id=run_id)
            case "answer":
                return session.start_answer(self.call_id, self.text, run_id=run_id)
            case "resume":
                return session.start_resumed()


async def check_is_new(store: Store, session_id: str) -> None:
    """Refuse a name that a session has already. Raises Conflict."""
    if await store.session(session_id) is not None:
        raise Conflict("exists", f"there is a session {session_id!r} already: go on with it, or name another")


def check_may_begin(session: StoredSession, asked: Asked) -> None:
    """Refuse what the session's state forbids. Raises Conflict."""
    id, status = session.id, session.status
    if status == "interrupted" and asked.opening != "resume":
        raise Conflict("interrupted", f"session {id}: its run was interrupted: resume it first")
    if status != "interrupted" and asked.opening == "resume":
        raise Conflict("not_interrupted", f"session {id} is {status}: somebody has just resumed it")
    if asked.answering not in (None, *(question.call_id for question in session.questions)):
        raise Conflict("answered", f"session {id}: somebody has just answered this question")


class Here:
    """Runs begin in this process."""

    def __init__(self, shelf: Shelf, lives: Lives, admission: Admission, driver: Driver) -> None:
        self._shelf = shelf
        self._lives = lives
        self._admission = admission
        self._driver = driver

    async def first(self, new: NewSession, engine: Engine, prompt: str, *, named: bool) -> StoredSession:
        """A new session with its first run; returns once its beginning is stored."""
        live = self._admission.admit(new.id, new.owner, new.agent)
        return await self._driver.through(self._first(live, engine, new, prompt, named=named))

    async def next(self, session_id: str, owner: str | None, asked: Asked) -> StoredSession:
        """A session's next run; returns once its beginning is stored."""
        stored = await self.at_rest(session_id, owner)
        live = self._admission.admit(session_id, stored.owner, stored.agent, asked.answering)
        return await self._driver.through(self._next(live, asked))

    async def at_rest(self, session_id: str, owner: str | None) -> StoredSession:
        """The session; where readers know that its run is over, once the store knows it, too."""
        stored = await self._shelf.session(session_id, owner=owner)
        live = self._lives.of_session(session_id)
        if live is None or live.run is None or not live.run.finished:
            return stored
        with suppress(TimeoutError):
            await asyncio.wait_for(live.ended.wait(), REST_SECONDS)
        return await self._shelf.session(session_id, owner=owner)

    async def forget(self, session_id: str) -> None:
        """Forget a session that rests."""
        await self._shelf.store.delete(session_id)

    async def _first(self, live: Live, engine: Engine, new: NewSession, prompt: str, *, named: bool) -> StoredSession:
        store = self._shelf.store
        session = engine.session(new.id)
        try:
            if named:
                await check_is_new(store, new.id)
            await store.add(new)
            try:
                await self._driver.drive(live, session, engine, lambda: session.start(prompt))
            except BaseException:
                if not live.taken:
                    await self._driver.withdraw(live)
                raise
        finally:
            self._driver.release(live)
        return await self._shelf.session(new.id)

    async def _next(self, live: Live, asked: Asked) -> StoredSession:
        id = live.session_id
        try:
            stored = await self._shelf.session(id)
            check_may_begin(stored, asked)
            _, engine = self._admission.agent(stored.agent)
            session = await recalled(self._shelf.store, engine, id)
            await self._driver.drive(live, session, engine, lambda: asked.begin(session))
        finally:
            self._driver.release(live)
        return await self._shelf.session(id)


LOOKED_AT = 50
"""Runs that have waited for longest, which are looked at each time: a long queue is no reason to doubt all of it."""


class Desk:
    """Puts runs into the store and into the queue."""

    def __init__(self, shelf: Shelf, queue: Queue, admission: Admission, driver: Driver) -> None:
        self._shelf = shelf
        self._store = shelf.store
        self._queue = queue
        self._admission = admission
        self._driver = driver

    async def first(self, new: NewSession, engine: Engine, prompt: str, *, named: bool) -> StoredSession:
        """A new session with its first run; returns once no crash can lose it."""
        self._admission.check_open()
        if named:
            await check_is_new(self._store, new.id)
        job = Job(run_id=new_run_id(), session_id=new.id, agent=new.agent, opening="prompt", text=prompt)
        return await self._driver.through(self._admitted(job, engine, new))

    async def next(self, session_id: str, owner: str | None, asked: Asked) -> StoredSession:
        """A session's next run; returns once no crash can lose it."""
        self._admission.check_open()
        stored = await self._shelf.session(session_id, owner=owner)
        check_may_begin(stored, asked)
        _, engine = self._admission.agent(stored.agent)
        return await self._driver.through(self._admitted(await self._job(stored, asked), engine))

    async def at_rest(self, session_id: str, owner: str | None) -> StoredSession:
        """The session as the store knows it: nobody knows more of it."""
        return await self._shelf.session(session_id, owner=owner)

    async def hear(self, before: Live, messages: list[Message]) -> None:
        """A run whose prompt are messages that the session's run before did not hear."""
        _, engine = self._admission.agent(before.agent)
        job = Job(
            run_id=new_run_id(),
            session_id=before.session_id,
            agent=before.agent,
            opening="prompt",
            text=before.prompt_of(messages),
            heard=tuple(message.id for message in messages),
        )
        await self._put(job, engine)

    async def forget(self, session_id: str) -> None:
        """Forget a session that rests, with what the queue may still keep of its runs."""
        runs = await self._store.runs(session_id)
        await self._store.delete(session_id)
        with suppress(ConnectionError):
            for run in runs:
                await self._queue.drop(run.id)

    async def adopt(self, orphans: Sequence[Orphan]) -> None:
        """Let other processes go on with runs whose own one died."""
        waiting = await self._store.requeue([orphan.session_id for orphan in orphans])
        for orphan in orphans:
            if orphan.session_id in waiting:
                complain("a run goes on elsewhere", run_id=orphan.run_id, session_id=orphan.session_id)
                await self._recover(orphan)

    async def hand_over(self, jobs: Sequence[Job]) -> None:
        """Let other processes go on with what this one leaves."""
        try:
            await self._store.requeue([job.session_id for job in jobs])
            for job in jobs:
                await self._queue.recover(job.run_id)
        except OSError as error:  # they find out once its lease is over
            complain("the others are not told what is left", error=str(error))

    async def look_for_stray(self, seconds: float) -> None:
        """See to runs that have waited for so long: perhaps nobody has put them into the queue."""
        for orphan in (await self._store.queued(seconds))[:LOOKED_AT]:
            await self._recover(orphan)

    async def _recover(self, orphan: Orphan) -> None:
        assert orphan.run_id is not None
        if orphan.job is not None:
            job = msgspec.json.decode(orphan.job, type=Job)
        else:
            job = Job(run_id=orphan.run_id, session_id=orphan.session_id, agent=orphan.agent, opening="resume")
        try:
            await self._queue.recover(orphan.run_id)
            await self._queue.submit(job)
        except ConnectionError as error:  # it is looked for again
            complain("a run is not in the queue yet", run_id=job.run_id, error=str(error))

    async def _job(self, stored: StoredSession, asked: Asked) -> Job:
        """The job of a run; one that was interrupted before it had begun gets its own again."""
        run = await self._store.run(stored.run_id or "") if asked.opening == "resume" else None
        if run is not None and run.job is not None:
            return msgspec.json.decode(run.job, type=Job)
        return Job(
            run_id=new_run_id() if run is None else run.id,
            session_id=stored.id,
            agent=stored.agent,
            opening=asked.opening,
            text=asked.text,
            call_id=asked.call_id,
        )

    async def _admitted(self, job: Job, engine: Engine, new: NewSession | None = None) -> StoredSession:
        """A run that somebody asks for: one that begins by itself goes on where one of its owner's has just ended."""
        most_each = self._admission.most_each
        try:
            return await self._put(job, engine, new, most_each=most_each)
        except Crowded:
            raise too_many_of_yours(most_each or 0) from None

    async def _put(
        self, job: Job, engine: Engine, new: NewSession | None = None, *, most_each: int | None = None
    ) -> StoredSession:
        prompt = kept(job.text, engine.redact) if job.opening == "prompt" else None
        queued = QueuedRun(
            session_id=job.session_id,
            run_id=job.run_id,
            prompt=prompt,
            at=clock_of(engine)(),
            new=new,
            job=encoded(job).decode(),
            most_each=most_each,
        )
        try:
            await self._store.queue(queued)
        except NotAtRest:
            raise busy(job.session_id) from None
        try:
            await self._queue.submit(job)
        except ConnectionError as error:
            complain("a run is not in the queue yet", run_id=job.run_id, error=str(error))
        return await self._shelf.session(job.session_id)
