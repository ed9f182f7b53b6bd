"""Dispatchers: they start the runs that callers ask for, in this process or through a queue.

There are two because they promise different things. `LocalDispatcher` starts the run here and returns once its first
event is stored, so that the caller sees why a run could not start. `QueueDispatcher` returns once the run is stored as
queued; a worker starts it, in any process. They share only the checks at the end of this file.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal

import msgspec
from msgspec import Struct

from ..answers import Answer, calls_of, check_answers
from ..approvals import Approve, Deny
from ..base.ids import new_run_id
from ..decision import Image, Message, UserMessage
from ..durability import Job, JobAnswer, Queue
from ..engine import Engine
from ..providers._logging import log, log_warning
from ..recorded_round import may_be_redacted
from ..records.format import encode_line
from ..run import Run
from ..session import Session
from ..store.base import (
    GOING,
    NewSession,
    Orphan,
    QueuedRun,
    SessionBusy,
    SessionLocked,
    Store,
    StoredMessage,
    StoredSession,
)
from ..user_message import user_message
from .active import ActiveSession, ActiveSessions
from .admission import Admission, check_unanswered, redacted
from .errors import Conflict, busy, check_runs_here
from .history import load_runs
from .service_metrics import PUT_BACK
from .session_queries import SessionQueries, session_and_active
from .supervisor import RunSupervisor, clock_of

REST_SECONDS = 5.0
"""Seconds to wait until the end of a finished run is stored; after that the session counts as busy."""


class RunInput(Struct, frozen=True, kw_only=True):
    """The input with which a session's next run starts: a prompt, answers to questions, or nothing (a resumed run)."""

    opening: Literal["prompt", "answer", "resume"]
    text: str = ""
    images: tuple[Image, ...] = ()
    """Images of a prompt."""
    answers: Mapping[str, Answer] = {}
    """By the call ids of the questions; only with `answer`."""

    @classmethod
    def of_job(cls, job: Job) -> RunInput:
        """Return the input with which the run of a job starts."""
        old = JobAnswer(call_id=job.call_id, text=job.text, approved=job.approved, arguments=job.arguments)
        given = job.answers or ((old,) if job.opening == "answer" else ())
        answers = {answer.call_id: _answer_of(answer) for answer in given}
        return cls(opening=job.opening, text=job.text, images=job.images, answers=answers)

    @classmethod
    def of_answers(cls, session: StoredSession, answers: Mapping[str, Answer], engine: Engine) -> RunInput:
        """Return the input of a run that starts with these answers.

        Raises WrongUse if one does not fit its question.
        """
        config, questions = engine.config, session.questions
        redaction = config.functions.get("redaction", ())
        redacted_calls = {call.id for call in calls_of(questions) if may_be_redacted(call, redaction)}
        where = f"session {session.id}"
        given = check_answers(questions, answers, config.toolbox, redacted_calls, where)
        edited = {one.question.call_id: Approve(one.arguments) for one in given if one.arguments is not None}
        return cls(opening="answer", answers={**answers, **edited})

    def start(self, session: Session, run_id: str | None = None) -> Run:
        """Start the run. Raises WrongUse if the session does not allow it."""
        match self.opening:
            case "prompt":
                return session.start(UserMessage(self.text, self.images), run_id=run_id)
            case "answer":
                return session.start_answers(self.answers, run_id=run_id)
            case "resume":
                return session.start_resumed()


class LocalDispatcher:
    """Dispatcher that starts runs in this process immediately."""

    def __init__(
        self, queries: SessionQueries, active_sessions: ActiveSessions, admission: Admission, supervisor: RunSupervisor
    ) -> None:
        self._queries = queries
        self._active_sessions = active_sessions
        self._admission = admission
        self._supervisor = supervisor

    async def start_session(
        self, new: NewSession, engine: Engine, prompt: UserMessage, history: Sequence[Message], *, named: bool
    ) -> StoredSession:
        """Start a new session with its first run; returns once the first event is stored.

        history: the messages with which it begins. named: whether the caller chose the id. Raises Conflict if another
        session has it.
        """
        active = self._admission.admit(new.id, new.owner, new.agent)
        return await self._supervisor.shielded(self._start_session(active, engine, new, prompt, history, named=named))

    async def start_run(self, session_id: str, owner: str | None, run_input: RunInput) -> StoredSession:
        """Start the next run of a session; returns once the first event is stored."""
        stored = await self.session_at_rest(session_id, owner)
        check_runs_here(stored)
        active = self._admission.admit(session_id, stored.owner, stored.agent, run_input.answers)
        return await self._supervisor.shielded(self._start_run(active, run_input))

    async def session_at_rest(self, session_id: str, owner: str | None) -> StoredSession:
        """Return the stored session.

        If its run has just finished, wait until its end is stored, at most `REST_SECONDS`.

        Readers see the end of a run before it is stored, and may ask for the next run immediately.
        """
        stored, active = await session_and_active(self._queries, self._active_sessions, session_id, owner)
        if active is None or active.run is None or not active.run.finished:
            return stored
        with suppress(TimeoutError):
            await asyncio.wait_for(active.ended.wait(), REST_SECONDS)
        return await self._queries.session(session_id, owner=owner)

    async def end_cancelled(self, session: StoredSession) -> StoredSession:
        """Return the session unchanged: the processes that share its queue end its run."""
        return session

    async def delete(self, session_id: str) -> None:
        """Delete a session that is not running."""
        await self._queries.store.delete(session_id)

    async def _start_session(
        self,
        active: ActiveSession,
        engine: Engine,
        new: NewSession,
        prompt: UserMessage,
        history: Sequence[Message],
        *,
        named: bool,
    ) -> StoredSession:
        store = self._queries.store
        try:
            session = await self._admission.session(engine, new, history)
            if named:
                await check_is_new(store, new.id)
            await store.add(new)
            try:
                await self._supervisor.start_run(active, session, engine, lambda: session.start(prompt))
            except BaseException:
                if not active.has_run:
                    await self._supervisor.discard(active)
                raise
        finally:
            self._supervisor.release(active)
        return await self._queries.session(new.id)

    async def _start_run(self, active: ActiveSession, run_input: RunInput) -> StoredSession:
        id = active.session_id
        try:
            stored = await self._queries.session(id)
            check_can_start(stored, run_input)
            _, engine = self._admission.agent(stored.agent)
            session = await load_runs(await self._admission.session(engine, stored), self._queries.store)
            await self._supervisor.start_run(active, session, engine, lambda: run_input.start(session))
        except SessionLocked:  # by another process, which runs it
            raise busy(id) from None
        finally:
            self._supervisor.release(active)
        return await self._queries.session(id)


class QueueDispatcher:
    """Dispatcher that stores runs as queued and submits them to the queue.

    The store gets a run, with its job, before the queue does. If the process dies in between, the run waits in the
    store until `resubmit_lost` of any process finds it.
    """

    def __init__(
        self,
        queries: SessionQueries,
        queue: Queue,
        admission: Admission,
        supervisor: RunSupervisor,
        end_cancelled: Callable[[StoredSession], Coroutine[Any, Any, bool]],
    ) -> None:
        """Create the dispatcher. end_cancelled: ends a queued run in this process; True if it is over."""
        self._queries = queries
        self._end_cancelled = end_cancelled
        self._store = queries.store
        self._queue = queue
        self._admission = admission
        self._supervisor = supervisor
        self._outage = supervisor.outages["a run could not be submitted to the queue yet"]

    async def start_session(
        self, new: NewSession, engine: Engine, prompt: UserMessage, history: Sequence[Message], *, named: bool
    ) -> StoredSession:
        """Store a new session with its first run as queued; from then on no crash can lose it."""
        self._admission.check_open()
        if named:
            await check_is_new(self._store, new.id)
        job = Job(
            run_id=new_run_id(),
            session_id=new.id,
            agent=new.agent,
            opening="prompt",
            text=prompt.text,
            images=prompt.images,
            history=tuple(history),
            owner=new.owner,
        )
        return await self._supervisor.shielded(self._put(job, engine, new))

    async def start_run(self, session_id: str, owner: str | None, run_input: RunInput) -> StoredSession:
        """Store the next run of a session as queued; from then on no crash can lose it."""
        self._admission.check_open()
        stored = await self._queries.session(session_id, owner=owner)
        check_runs_here(stored)
        check_can_start(stored, run_input)
        _, engine = self._admission.agent(stored.agent)
        return await self._supervisor.shielded(self._put(await self._job(stored, run_input), engine))

    async def session_at_rest(self, session_id: str, owner: str | None) -> StoredSession:
        """Return the session as stored: with a queue, no process knows more than the store."""
        return await self._queries.session(session_id, owner=owner)

    async def start_run_for(self, before: ActiveSession, messages: list[StoredMessage]) -> None:
        """Queue a run whose prompt is made of messages that the previous run did not get."""
        _, engine = self._admission.agent(before.agent)
        prompt = before.join_messages(messages)
        job = Job(
            run_id=new_run_id(),
            session_id=before.session_id,
            agent=before.agent,
            opening="prompt",
            text=prompt.text,
            images=prompt.images,
            heard=tuple(message.id for message in messages),
            owner=before.owner,
        )
        await self._put(job, engine)

    async def end_cancelled(self, session: StoredSession) -> StoredSession:
        """End the queued run of a session, which was cancelled, if this process can; returns the session as stored."""
        assert session.run_id is not None
        if await self._supervisor.shielded(self._end_cancelled(session)):
            await self._drop(session.run_id)
        return await self._queries.session(session.id)

    async def delete(self, session_id: str) -> None:
        """Delete a session that is not running, and what the queue still keeps of its runs."""
        runs = await self._store.runs(session_id)
        await self._store.delete(session_id)
        await self._drop(*(run.id for run in runs))

    async def _drop(self, *run_ids: str) -> None:
        """Delete what the queue keeps of runs that are over.

        While the queue is unreachable that stays there: until a worker takes the run, until the worker deletes it that
        ended the run, or once that is no member any more, `drop_left`.
        """
        with suppress(ConnectionError):
            await self._queue.drop(*run_ids)

    async def adopt(self, orphans: Sequence[Orphan]) -> None:
        """Put the runs of dead processes back into the queue, for any process to continue."""
        waiting = await self._store.requeue([orphan.session_id for orphan in orphans])
        self._count_put_back("died", waiting)
        for orphan in orphans:
            if orphan.session_id in waiting:
                log_warning(
                    "a run of a dead process was put back into the queue",
                    run_id=orphan.run_id,
                    session_id=orphan.session_id,
                )
                await self._recover(orphan)

    async def hand_over(self, jobs: Sequence[Job]) -> None:
        """Put the unfinished runs of this process, which is stopping, back into the queue for other processes."""
        try:
            self._count_put_back("stopping", await self._store.requeue([job.session_id for job in jobs]))
            for job in jobs:
                await self._queue.recover(job.run_id)
        except OSError as error:  # the others notice when the lease of this process expires
            log_warning("unfinished runs could not be put back into the queue yet", error=str(error))

    async def resubmit_lost(self, seconds: float) -> None:
        """Resubmit runs that have been queued for `seconds` or more and that the queue has lost.

        Their submission may have failed, or the process that the queue gave them to died before it claimed them. Most
        runs that wait for long were not lost: the queue is just long. Those are left alone, as a process may be about
        to claim them.
        """
        waiting = {orphan.run_id: orphan for orphan in await self._store.queued(seconds) if orphan.run_id is not None}
        if waiting:
            lost = await self._queue.lost([*waiting], seconds)
            self._count_put_back("waiting", lost)
            for run_id in lost:
                await self._recover(waiting[run_id])

    async def drop_left(self) -> None:
        """Delete ended runs from the queue that were given to processes which are no longer members.

        Such a process died after it had stored the end of the run. If the queue does not know of that end, the run
        counts as being executed, and takes a place, for ever. A run that is not in the store was deleted with its
        session. An interrupted run keeps its results, as its session may be resumed; if it counts as being executed,
        it is given to another process, which ends its work. Runs to be executed are left to `adopt` and
        `resubmit_lost`.
        """
        members = [process.id for process in await self._store.processes()]
        dropped, last = 0, None
        while left := await self._queue.given_to_others(members, last):
            last = left[-1]
            statuses = await self._store.statuses([run.run_id for run in left])
            over = [run.run_id for run in left if statuses.get(run.run_id) not in (*GOING, "interrupted")]
            if over:
                await self._queue.drop(*over)
                dropped += len(over)
            for run in left:
                if not run.ended and statuses.get(run.run_id) == "interrupted":
                    await self._queue.recover(run.run_id)
        if dropped:
            log(logging.INFO, "deleted from the queue what dead processes had left there", {"runs": dropped})

    def _count_put_back(self, why: str, runs: Sequence[object]) -> None:
        self._supervisor.metrics.add(PUT_BACK, why, amount=len(runs))

    async def _recover(self, orphan: Orphan) -> None:
        assert orphan.run_id is not None
        job = waiting_job(orphan.session_id, orphan.agent, orphan.owner, orphan.run_id, orphan.job)
        try:
            await self._queue.recover(orphan.run_id)
            await self._queue.submit(job)
            self._outage.over()
        except ConnectionError as error:  # resubmit_lost tries again
            self._outage.failed(run_id=job.run_id, error=str(error))

    async def _job(self, stored: StoredSession, run_input: RunInput) -> Job:
        """Return the job of the next run; a run that was interrupted before it started keeps its job."""
        run = await self._store.run(stored.run_id or "") if run_input.opening == "resume" else None
        if run is not None and run.job is not None:
            return msgspec.json.decode(run.job, type=Job)
        return Job(
            run_id=new_run_id() if run is None else run.id,
            session_id=stored.id,
            agent=stored.agent,
            opening=run_input.opening,
            text=run_input.text,
            images=run_input.images,
            answers=tuple(_job_answer(call_id, answer) for call_id, answer in run_input.answers.items()),
            owner=stored.owner,
        )

    async def _put(self, job: Job, engine: Engine, new: NewSession | None = None) -> StoredSession:
        prompt = redacted(job.text, engine.config.record_options.redact) if job.opening == "prompt" else None
        queued = QueuedRun(
            session_id=job.session_id,
            run_id=job.run_id,
            prompt=prompt,
            at=clock_of(engine)(),
            new=new,
            job=encode_line(job).decode(),
        )
        try:
            await self._store.queue(queued)
        except SessionBusy:
            raise busy(job.session_id) from None
        try:
            await self._queue.submit(job)
            self._outage.over()
        except ConnectionError as error:  # resubmit_lost tries again
            self._outage.failed(run_id=job.run_id, error=str(error))
        return await self._queries.session(job.session_id)


def waiting_job(session_id: str, agent: str, owner: str, run_id: str, job: str | None) -> Job:
    """Return the job of a run that waits in the queue. job: as stored; None: the run has begun, and is to resume."""
    if job is not None:
        return msgspec.json.decode(job, type=Job)
    return Job(run_id=run_id, session_id=session_id, agent=agent, opening="resume", owner=owner)


async def check_is_new(store: Store, session_id: str) -> None:
    """Raise Conflict if there is a session with this id."""
    if await store.session(session_id) is not None:
        raise Conflict("exists", f"session {session_id!r} exists already: start a run in it, or use another id")


def check_can_start(session: StoredSession, run_input: RunInput) -> None:
    """Raise Conflict if the state of the session does not allow the next run to start with this input."""
    id, status = session.id, session.status
    if status == "interrupted" and run_input.opening != "resume":
        raise Conflict("interrupted", f"session {id}: its run was interrupted; resume it first")
    if status != "interrupted" and run_input.opening == "resume":
        raise Conflict("not_interrupted", f"session {id} is {status}: it has just been resumed")
    check_unanswered(id, run_input.answers.keys() - {question.call_id for question in session.questions})


def _answer_of(answer: JobAnswer) -> Answer:
    if answer.approved is None:
        return UserMessage(answer.text, answer.images)
    return Approve(answer.arguments) if answer.approved else Deny(answer.text)


def _job_answer(call_id: str, answer: Answer) -> JobAnswer:
    match answer:
        case Approve(arguments):
            return JobAnswer(call_id=call_id, approved=True, arguments=None if arguments is None else dict(arguments))
        case Deny(reason):
            return JobAnswer(call_id=call_id, approved=False, text=reason)
        case _:
            said = user_message(answer, "answer")
            return JobAnswer(call_id=call_id, text=said.text, images=said.images)
