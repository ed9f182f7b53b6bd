"""The service: runs sessions in the background, stores them, and lets any number of readers follow them.

    service = Service(engine, store="sessions.db")
    async with service:
        session = await service.start("Set the port to 8080")
        async for frames in service.follow_run(await service.run(session.run_id)):
            ...

A run does not end with the request that started it. The service knows nothing of HTTP; `web/` adds that. Several
processes, each with a service, may share a store: a session runs in one of them, and all of them can read it, send it
messages and cancel it. With a queue a run starts in any process that has room, and continues in another one when its
process dies.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from functools import partial
from typing import Any

from ..answers import Answer
from ..approvals import Approve, Deny
from ..base.ids import new_message_id, new_session_id
from ..decision import WrongUse
from ..decision.wrong_calls import checked
from ..durability import Queue, Reachable
from ..engine import Engine
from ..message_history import read_history
from ..objects.object_store import ObjectStore
from ..objects.object_url import object_store_at
from ..store.base import GOING, LEASE, NewSession, Store, StoredMessage, StoredSession
from ..store.url import store_at
from ..until_settings import UntilSettings, with_session_until
from ..user_message import Prompt, user_message
from .active import ActiveSessions
from .admission import (
    Admission,
    ClientUntil,
    check_id,
    check_metadata,
    check_not_negative,
    check_positive,
    check_unanswered,
    redacted,
    redacted_message,
    title_of,
)
from .dispatch import LocalDispatcher, QueueDispatcher, RunInput
from .errors import Conflict, check_no_subagent, check_runs_here, is_received
from .follow import HEARTBEAT_SECONDS
from .history import was_answered
from .lifecycle import Lifecycle
from .membership import QUEUE, LeaseKeeper
from .queue_worker import QueueWorker
from .readiness import Readiness
from .service_metrics import RECEIVED_ALARMS, RECEIVED_OPEN, RECEIVED_SESSIONS, RECEIVED_SPANS, ServiceMetrics
from .session_archive import SessionArchive
from .session_queries import SessionQueries, session_and_active
from .session_retention import SessionRetention
from .span_receiver import Receiving, SpanReceiver
from .supervisor import RunSupervisor, clock_of


@checked
class Service(SessionQueries):
    """Runs sessions for many users. Use it as an async context manager, or through `lifespan`.

    engine: the agent, or several by name, of which the first is the default. With none (`{}`) no session can be
        started, but stored ones can be read.
    store: where sessions are stored: a path or `sqlite:///` URL, a `postgresql://` URL, or a store.
    grace: seconds that running sessions get to end by themselves when the service stops; 0 or more.
    max_running: sessions that may run at once in this process.
    max_running_each: without a queue: sessions of one owner that may run at once; more are refused. None: any number.
        With a queue more wait: the limit is the queue's, for all processes together (`Dbos(running_each=...)`).
    keep_days: days after its last event when an ended session is deleted; None: never.
    keep_sessions: how many ended sessions are kept, the latest ones; None: all.
    archive: where the record of a session is put before it is deleted by age or number: a folder, `s3://BUCKET/PREFIX`
        or an object store. If that fails, the session stays. None: nowhere.
    heartbeat: seconds without an event after which `follow_run` and `follow_session` yield an empty sequence.
    queue: distributes runs to all processes that work for it; see `durable/`. None: runs start in this process.
    works: with a queue: if true, this process executes runs from it, at most `max_running` at once; if false, it only
        submits runs.
    lease: seconds after which other processes on the store treat this one as dead unless it has renewed its lease in
        the store; more than 0.
    kind: name of this kind of process in the list of processes on the store, for people to read.
    receiving: how spans of agents that run elsewhere are received (`receiver`); None: they are not. It takes a service
        without a queue, as one process has to see all spans of a session.
    allow_until: whether a session may bring its own check (`start(until=...)`), whose commands then run where the tools
        of its agent work; or a function that makes the check from what a client asks for. Every process that runs such
        sessions needs it.

    `owner` in its methods is the owner that the session must belong to; None, for use in your own process: any. In
    `start` it is the owner of the new session. Methods raise the refusals of `errors.py`, WrongUse for what can never
    work, and StoreError.
    """

    def __init__(
        self,
        engine: Engine | Mapping[str, Engine],
        *,
        store: Store | str = "endstop.db",
        grace: float = 10.0,
        max_running: int = 1000,
        max_running_each: int | None = None,
        keep_days: float | None = None,
        keep_sessions: int | None = None,
        archive: ObjectStore | str | None = None,
        heartbeat: float = HEARTBEAT_SECONDS,
        queue: Queue | None = None,
        works: bool = True,
        lease: float = LEASE,
        kind: str = "service",
        receiving: Receiving | None = None,
        allow_until: bool | ClientUntil = False,
    ) -> None:
        self.agents: Mapping[str, Engine] = {"default": engine} if isinstance(engine, Engine) else dict(engine)
        check_not_negative(grace=grace, heartbeat=heartbeat, max_running=max_running, max_running_each=max_running_each)
        check_not_negative(keep_days=keep_days, keep_sessions=keep_sessions)
        check_positive(lease=lease)
        if queue is not None and max_running_each is not None:
            raise WrongUse(
                "max_running_each does not work with a queue, where sessions wait instead of being refused: give the "
                "limit to the queue of the workers, as in Dbos(url, running_each=10)"
            )
        super().__init__(store_at(store) if isinstance(store, str) else store, ActiveSessions(), heartbeat)
        self._grace = grace
        admission = self._admission = Admission(
            self.agents,
            self._active_sessions,
            max_running,
            max_running_each,
            client_until=allow_until if callable(allow_until) else UntilSettings.build if allow_until else None,
        )
        about = {} if queue is None else {QUEUE: type(queue).__name__}
        self.metrics = ServiceMetrics(self.store, lambda: self.running, receives=receiving is not None)
        """What this process counts, and what the store says of all processes."""
        lease_keeper = LeaseKeeper(self.store, self.metrics, kind=kind, lease=lease, about=about)
        supervisor = self._supervisor = RunSupervisor(
            self.store, self._active_sessions, lease_keeper, self.metrics, shared=queue is not None
        )
        if archive is not None and keep_days is None and keep_sessions is None:
            raise WrongUse("archive gets sessions when they are deleted: give keep_days or keep_sessions, too")
        objects = object_store_at(archive) if isinstance(archive, str) else archive
        retention = SessionRetention(
            self.store,
            keep_days=keep_days,
            keep_sessions=keep_sessions,
            archive=None if objects is None else SessionArchive(self.store, objects, self.metrics),
        )
        self._lifecycle = Lifecycle(
            self.agents,
            self.store,
            self._active_sessions,
            supervisor,
            lease_keeper,
            retention,
        )
        self._dispatcher: LocalDispatcher | QueueDispatcher
        if queue is None:
            self._dispatcher = LocalDispatcher(self, self._active_sessions, admission, supervisor)
        else:
            worker = QueueWorker(self.store, self._active_sessions, admission, supervisor, lease_keeper)
            dispatcher = QueueDispatcher(self, queue, admission, supervisor, worker.end_cancelled)
            self._dispatcher = dispatcher
            supervisor.late_messages.begin = dispatcher.start_run_for
            self._lifecycle.use_queue(queue, dispatcher, worker if works else None, max_running)
        self._deadline: asyncio.Task[None] | None = None
        asked: dict[str, Callable[[], Awaitable[object]]] = {"store": partial(self.store.session, "")}
        if isinstance(queue, Reachable):
            asked["queue"] = queue.ping
        self._readiness = Readiness(asked)
        self._lease_keeper = lease_keeper
        if receiving is not None and queue is not None:
            raise WrongUse("a service with a queue receives no spans: give `receiving` to one without a queue")
        self.receiver = None if receiving is None else SpanReceiver(self.store, self._active_sessions, receiving)
        """Receives spans of agents that run elsewhere; None: this service does not."""
        if self.receiver is not None:
            self.metrics.on_refresh = partial(_set_received, self.metrics, self.receiver)

    # ---- lifecycle

    async def __aenter__(self) -> Service:
        await self._lifecycle.open()
        if self.receiver is not None:
            self.receiver.open()
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.begin_stopping()
        assert self._deadline is not None
        try:
            await self._deadline
            if self.receiver is not None:
                await self.receiver.close()
        finally:
            self._readiness.close()
            self.metrics.close()
            await self._lifecycle.close()

    @asynccontextmanager
    async def lifespan(self, app: Any = None) -> AsyncIterator[dict[str, Any]]:
        """Open this service as the lifespan of an ASGI app; requests find it as `request.state.endstop`."""
        async with self:
            yield {"endstop": self}

    def add_context(self, make: Callable[[], AbstractContextManager[None]]) -> None:
        """Enter a context manager made by `make` each time the service opens, and leave it when the service closes."""
        self._lifecycle.add_context(make)

    @property
    def is_open(self) -> bool:
        """Whether the service is open."""
        return self._lifecycle.is_open

    @property
    def stopping(self) -> bool:
        """Whether the service is stopping: it starts no more runs."""
        return self._active_sessions.stopping

    async def silent_parts(self) -> list[str]:
        """Return which of `store` and `queue` do not answer within a second; empty if this process can work."""
        return await self._readiness.silent_parts()

    async def unready_parts(self) -> list[str]:
        """Return why this process cannot work: the silent parts, `lease` if its lease has expired; empty if it can."""
        return [*await self.silent_parts(), *([] if self._lease_keeper.is_valid else ["lease"])]

    @property
    def running(self) -> int:
        """How many sessions are running in this process."""
        return len(self._active_sessions)

    def begin_stopping(self) -> None:
        """Start no more runs; those that have not ended after `grace` seconds are cancelled. Returns immediately.

        With a queue they are not cancelled but left to other processes.
        """
        if self._deadline is None:
            self._active_sessions.stop()
            self._deadline = asyncio.create_task(self._supervisor.stop(self._grace), name="endstop service stop")

    # ---- sessions

    async def start(
        self,
        prompt: Prompt,
        *,
        history: Iterable[Any] = (),
        owner: str | None = None,
        agent: str | None = None,
        session_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        until: str | Sequence[str] | Mapping[str, Any] | None = None,
    ) -> StoredSession:
        """Start a session with its first run; returns once its start is stored.

        prompt: a text, or texts and images. history: the messages before it, as in `Engine.session`. session_id: an id
        that you choose, of 1 to 100 letters, digits, `-`, `_`, `.` and `:`; None: the service makes one. metadata: JSON
        that is stored unchanged with the session, for `RunContext.metadata`; 16 kB at most. until: the check of its
        runs in place of the agent's: a command, a list of commands, or the settings of `UntilSettings`; Forbidden
        unless `allow_until`.
        """
        id = new_session_id() if session_id is None else check_id(session_id)
        name, engine = self._admission.agent(agent)
        message, begins = user_message(prompt), read_history(history)
        known = title_of(redacted(message.text, engine.config.record_options.redact))
        self._check_open()
        settings = await self._admission.check_until(engine, until)
        about = with_session_until(check_metadata(metadata or {}), settings)
        at = clock_of(engine)()
        new = NewSession(id=id, owner=owner or "", agent=name, title=known, created_at=at, metadata=about)
        return await self._dispatcher.start_session(new, engine, message, begins, named=session_id is not None)

    async def start_run(self, session_id: str, prompt: Prompt, *, owner: str | None = None) -> StoredSession:
        """Start the next run of a session, with a new prompt. An open question is closed as unanswered."""
        message = user_message(prompt)
        self._check_open()
        run_input = RunInput(opening="prompt", text=message.text, images=message.images)
        return await self._dispatcher.start_run(session_id, owner, run_input)

    async def answer(
        self, session_id: str, text: Prompt, *, call_id: str | None = None, owner: str | None = None
    ) -> StoredSession:
        """Answer an open question by starting the session's next run with the answer.

        text: or texts and images, as in a prompt; a number of steps, yes or no for a question with `extends`.
        call_id: id of the question; needed only if several are open.
        """
        return await self._answer(session_id, owner, {call_id: user_message(text, "answer")})

    async def approve(
        self,
        session_id: str,
        call_id: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        owner: str | None = None,
    ) -> StoredSession:
        """Approve a call that waits for it, by starting the session's next run, in which the call runs.

        If other questions are open, it runs once the last one is answered. arguments: replace all arguments that the
        model gave it. Raises WrongUse if they do not fit its tool.
        """
        return await self._answer(session_id, owner, {call_id: Approve(arguments)})

    async def deny(self, session_id: str, call_id: str, reason: str = "", *, owner: str | None = None) -> StoredSession:
        """Deny a call that waits for approval. reason: what the model reads about it."""
        return await self._answer(session_id, owner, {call_id: Deny(reason)})

    async def answer_all(
        self, session_id: str, answers: Mapping[str, Answer], *, owner: str | None = None
    ) -> StoredSession:
        """Answer several open questions together, by their call ids, by starting the session's next run.

        If one of the answers is invalid, none is taken; the error names it.
        """
        checked = {id: _checked(f"answer to {id}", given) for id, given in answers.items()}
        return await self._answer(session_id, owner, checked)

    async def _answer(self, session_id: str, owner: str | None, answers: Mapping[Any, Answer]) -> StoredSession:
        """Answer the open questions of a session. answers: by call id; None stands for the only open question."""
        stored = await self._dispatcher.session_at_rest(session_id, owner)
        check_runs_here(stored)
        ids = [question.call_id for question in stored.questions] if stored.status == "awaiting_input" else []
        for call_id in answers:
            await self._check_question(session_id, call_id, ids)
        self._check_open()
        _, engine = self._admission.agent(stored.agent)
        named = {ids[0] if call_id is None else call_id: given for call_id, given in answers.items()}
        return await self._dispatcher.start_run(session_id, owner, RunInput.of_answers(stored, named, engine))

    async def _check_question(self, session_id: str, call_id: str | None, ids: Sequence[str]) -> None:
        """Raise Conflict unless this question is open, WrongUse if it is None and several are open."""
        active = self._active_sessions.by_session(session_id)
        if active is not None:
            check_unanswered(session_id, [id for id in active.answering if call_id in (None, id)])
        if not ids or (call_id is not None and call_id not in ids):
            if call_id is not None and await was_answered(self.store, session_id, call_id):
                raise Conflict("answered", f"session {session_id}: question {call_id} has been answered already")
            which = "such open question" if call_id is None else f"open question {call_id!r}"
            waiting = f" (open: {', '.join(ids)})" if ids else ""
            raise Conflict("no_open_question", f"session {session_id} has no {which}{waiting}")
        if call_id is None and len(ids) > 1:
            raise WrongUse(f"several questions are open: say which with call_id ({', '.join(ids)})")

    async def session_at_rest(self, session_id: str, *, owner: str | None = None) -> StoredSession:
        """Return a session. If its run has just finished, wait for a moment until its end is stored.

        Readers see the end before that. Use it before you start the next run by what is stored, such as open questions.
        """
        return await self._dispatcher.session_at_rest(session_id, owner)

    async def resume(self, session_id: str, *, owner: str | None = None) -> StoredSession:
        """Continue a run whose process died. Finished steps and calls are not repeated."""
        stored = await self.session(session_id, owner=owner)
        if stored.status != "interrupted":
            raise Conflict("not_interrupted", f"session {session_id} is {stored.status}: there is nothing to resume")
        self._check_open()
        return await self._dispatcher.start_run(session_id, owner, RunInput(opening="resume"))

    async def send_message(self, session_id: str, text: Prompt, *, owner: str | None = None) -> str:
        """Send a message to the current run of a session; returns the id of the message.

        text: or texts and images, as in a prompt. The model gets the message with the next request. If the run ends
        before that, the next run of the session gets it; it starts by itself if the run completed or reached a limit.
        """
        said = user_message(text, "message")
        known, active = await session_and_active(self, self._active_sessions, session_id, owner)
        check_runs_here(known)
        if active is None or active.run is None:
            under_way = active is None and known.status in GOING
        else:
            under_way = not active.run.finished
        if not under_way:
            raise Conflict("not_running", f"session {session_id} is not running: start a run with a new prompt")
        _, engine = self._admission.agent(known.agent)
        id, stored = new_message_id(), redacted_message(said, engine.config.record_options.redact)
        if active is not None:
            active.messages[id] = said
        await self.store.add_message(
            StoredMessage(
                id=id, session_id=session_id, text=stored.text, images=stored.images, created_at=clock_of(engine)()
            )
        )
        if active is None:
            self._supervisor.deliver_late_elsewhere(known, id, said)
        elif active.run is not None:
            if active.run.finished:
                self._supervisor.deliver_late(active)
            else:
                active.run.say(said, id=id)
        return id

    async def cancel(self, session_id: str, cause: str = "caller", *, owner: str | None = None) -> StoredSession:
        """Cancel the current run of the session; a second call, also after its end, changes nothing.

        If another process executes the run, the request is left in the store for that process, which reads it within a
        second. A queued run ends here, without a worker; if that cannot be, it ends when a worker takes it. Raises
        Conflict if the run ended otherwise. cause: recorded in the run's CANCEL_REQUESTED event. Returns the session as
        stored: it may run still.
        """
        stored = await self.session(session_id, owner=owner)
        if is_received(stored):
            check_runs_here(stored)
        active = self._active_sessions.by_session(session_id)
        run = None if active is None else active.run
        status: str
        if run is not None and run.finished:  # the store may not have its end yet
            status = run.outcome.status
        elif active is not None:
            active.cancel(cause)
            return stored
        elif await self.store.request_cancel(session_id, cause):
            return await self._dispatcher.end_cancelled(stored) if stored.status == "queued" else stored
        else:
            status = (await self.session(session_id, owner=owner)).status
        if status != "cancelled":
            raise Conflict("not_running", f"session {session_id} is not running, it is {status}")
        return stored

    async def delete(self, session_id: str, *, owner: str | None = None) -> None:
        """Delete a session that is not running, with all its runs and its sub-agents."""
        stored = await self._dispatcher.session_at_rest(session_id, owner)
        check_no_subagent(stored)
        if self._active_sessions.by_session(session_id) is not None or stored.status in GOING:
            then = "delete it when no more of its spans come" if is_received(stored) else "cancel it first"
            raise Conflict("running", f"session {session_id} is running: {then}")
        await self._dispatcher.delete(session_id)
        self._active_sessions.notifier_of(session_id).notify()

    def check_peers(self) -> None:
        """Look for dead processes now instead of at the next renewal of the lease. Returns immediately."""
        self._lifecycle.check_peers()

    # ---- inside

    def _check_open(self) -> None:
        if not self.is_open:
            raise WrongUse("the service is not open: use `async with service`, or give its `lifespan` to the app")


def _checked(what: str, given: Answer) -> Answer:
    """Return the answer, in words as a message. Raises WrongUse if it is invalid."""
    return given if isinstance(given, Approve | Deny) else user_message(given, what)


def _set_received(metrics: ServiceMetrics, receiver: SpanReceiver) -> None:
    counts = receiver.counts
    metrics.set(RECEIVED_OPEN, {(): receiver.open_sessions})
    metrics.set(RECEIVED_SESSIONS, {(): counts.sessions})
    metrics.set(RECEIVED_SPANS, {(kind,): count for kind, count in counts.spans.items()})
    metrics.set(RECEIVED_ALARMS, {(reason,): count for reason, count in counts.alarms.items()})
