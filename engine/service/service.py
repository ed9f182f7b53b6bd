"""The service: sessions that live longer than a request, kept in a store and watched by any number of readers.

    service = Service(engine, store="sessions.db")
    async with service:
        session = await service.start("Set the port to 8080")
        async for portion in service.follow_run(session.run_id):
            ...

The service owns the runs: whoever started one may leave. It knows no HTTP; `web/` puts it behind URLs. Several
services, in processes of their own, may share a store on PostgreSQL: each session runs in one of them, and all of them
can read it, talk to it and cancel it. With a queue a run begins wherever a process has room, and goes on elsewhere
when its process dies.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractContextManager, asynccontextmanager
from typing import Any
from uuid import uuid4

from ..decision import WrongUse
from ..durability import Queue
from ..engine import Engine
from ..store.base import GOING, LEASE, Message, NewSession, Store, StoredSession
from ..store.url import store_at
from .active import ActiveSessions
from .admission import (
    Admission,
    check_id,
    check_not_blank,
    check_not_negative,
    check_positive,
    new_id,
    redacted,
    title_of,
)
from .dispatch import LocalDispatcher, QueueDispatcher, RunInput
from .errors import Conflict
from .follow import HEARTBEAT_SECONDS
from .history import was_answered
from .lifecycle import Lifecycle
from .membership import QUEUE, LeaseKeeper
from .queries import SessionQueries
from .supervisor import RunSupervisor, clock_of
from .worker import QueueWorker


class Service(SessionQueries):
    """Runs agents for many, and keeps what they did. Use it as an async context manager, or through `lifespan`.

    engine: the agent, or several by their names, of which the first is the default. Without any (`{}`) nothing can be
        started, but what is stored can be read.
    store: where sessions are kept: a path or `sqlite:///` URL, a `postgresql://` URL, or a store.
    grace: seconds that running sessions get to end by themselves when the service stops; 0 or more.
    max_running: sessions that may run at once in this process.
    max_running_each: of one owner; with a queue, in all processes together, and those that wait count, too.
    keep_days: ended sessions are forgotten so many days after their last event; None: never.
    keep_sessions: so many ended sessions are kept, the latest; None: all.
    beat: seconds after which a reader without news gets an empty portion.
    queue: hands runs out to all processes that work for it; see `durable/`. None: runs begin in this process.
    works: whether this process takes runs from the queue, `max_running` at once.
    lease: seconds after which the other processes on the store take this one for dead; more than 0.
    kind: what this process is called for people.

    `owner` in its methods is whose session it is; None stands for anybody: for use in your own process.
    Methods raise the refusals of `errors.py`, WrongUse for what can never work, and StoreError.
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
        heartbeat: float = HEARTBEAT_SECONDS,
        queue: Queue | None = None,
        works: bool = True,
        lease: float = LEASE,
        kind: str = "service",
    ) -> None:
        self.agents: Mapping[str, Engine] = {"default": engine} if isinstance(engine, Engine) else dict(engine)
        check_not_negative(grace=grace, heartbeat=heartbeat, max_running=max_running, max_running_each=max_running_each)
        check_not_negative(keep_days=keep_days, keep_sessions=keep_sessions)
        check_positive(lease=lease)
        super().__init__(store_at(store) if isinstance(store, str) else store, ActiveSessions(), heartbeat)
        self._grace = grace
        admission = self._admission = Admission(self.agents, self._active_sessions, max_running, max_running_each)
        about = {} if queue is None else {QUEUE: type(queue).__name__}
        lease_keeper = LeaseKeeper(self.store, kind=kind, lease=lease, about=about)
        supervisor = self._supervisor = RunSupervisor(
            self.store, self._active_sessions, lease_keeper, shared=queue is not None
        )
        self._lifecycle = Lifecycle(
            self.agents,
            self.store,
            self._active_sessions,
            supervisor,
            lease_keeper,
            keep_days=keep_days,
            keep_sessions=keep_sessions,
        )
        self._dispatcher: LocalDispatcher | QueueDispatcher = LocalDispatcher(
            self, self._active_sessions, admission, supervisor
        )
        if queue is not None:
            self._dispatcher = dispatcher = QueueDispatcher(self, queue, admission, supervisor)
            supervisor.late_messages.begin = dispatcher.start_run_for
            worker = (
                QueueWorker(self.store, self._active_sessions, admission, supervisor, lease_keeper) if works else None
            )
            self._lifecycle.use_queue(queue, dispatcher, worker, max_running)
        self._deadline: asyncio.Task[None] | None = None

    # ---- its life

    async def __aenter__(self) -> Service:
        await self._lifecycle.open()
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.begin_stopping()
        assert self._deadline is not None
        try:
            await self._deadline
        finally:
            await self._lifecycle.close()

    @asynccontextmanager
    async def lifespan(self, app: Any = None) -> AsyncIterator[dict[str, Any]]:
        """The service's life as the lifespan of an ASGI app; the app's requests find it in their state."""
        async with self:
            yield {"endstop": self}

    def add_context(self, made: Callable[[], AbstractContextManager[None]]) -> None:
        """From now on enter what this makes whenever the service is opened, and leave it when that closes."""
        self._lifecycle.add_context(made)

    @property
    def is_open(self) -> bool:
        """Whether it has been entered."""
        return self._lifecycle.is_open

    @property
    def stopping(self) -> bool:
        """Whether no run begins any more."""
        return self._active_sessions.stopping

    @property
    def running(self) -> int:
        """How many sessions are running."""
        return len(self._active_sessions)

    def begin_stopping(self) -> None:
        """Start no more runs; those that are going on get the grace, and then end as cancelled. Returns at once."""
        if self._deadline is None:
            self._active_sessions.stop()
            self._deadline = asyncio.create_task(self._supervisor.stop(self._grace))

    # ---- what can be done with a session

    async def start(
        self, prompt: str, *, owner: str | None = None, agent: str | None = None, session_id: str | None = None
    ) -> StoredSession:
        """Begin a session with its first run; returns once its beginning is stored.

        session_id: what it is to be called, if you know better: 1 to 100 letters, digits, `-`, `_`, `.` and `:`.
        """
        id = new_id() if session_id is None else check_id(session_id)
        name, engine = self._admission.agent(agent)
        check_not_blank("prompt", prompt)
        known = title_of(redacted(prompt, engine.redact))
        self._check_open()
        new = NewSession(id=id, owner=owner or "", agent=name, title=known, created_at=clock_of(engine)())
        return await self._dispatcher.start_session(new, engine, prompt, named=session_id is not None)

    async def start_run(self, session_id: str, prompt: str, *, owner: str | None = None) -> StoredSession:
        """Say something new in a session that rests; a question that is open is then closed as unanswered."""
        check_not_blank("prompt", prompt)
        self._check_open()
        return await self._dispatcher.start_run(session_id, owner, RunInput(opening="prompt", text=prompt))

    async def answer(
        self, session_id: str, text: str, *, call_id: str | None = None, owner: str | None = None
    ) -> StoredSession:
        """Answer an open question; `call_id` says which, where there are several."""
        check_not_blank("answer", text)
        stored = await self._dispatcher.session_at_rest(session_id, owner)
        active = self._active_sessions.by_session(session_id)
        if active is not None and active.answering is not None and call_id in (None, active.answering):
            raise Conflict("answered", f"session {session_id}: somebody has just answered this question")
        ids = [question.call_id for question in stored.questions] if stored.status == "awaiting_input" else []
        if not ids or (call_id is not None and call_id not in ids):
            if call_id is not None and await was_answered(self.store, session_id, call_id):
                raise Conflict("answered", f"session {session_id}: question {call_id} was answered before")
            waiting = f" (open: {', '.join(ids)})" if ids else ""
            raise Conflict("no_open_question", f"session {session_id} waits for no such answer{waiting}")
        if call_id is None and len(ids) > 1:
            raise WrongUse(f"several questions are open: name one with call_id ({', '.join(ids)})")
        chosen = call_id or ids[0]
        self._check_open()
        return await self._dispatcher.start_run(
            session_id, owner, RunInput(opening="answer", text=text, call_id=chosen)
        )

    async def resume(self, session_id: str, *, owner: str | None = None) -> StoredSession:
        """Let a run go on whose process died: finished steps and calls are not repeated."""
        stored = await self.session(session_id, owner=owner)
        if stored.status != "interrupted":
            raise Conflict("not_interrupted", f"session {session_id} is {stored.status}: there is nothing to resume")
        self._check_open()
        return await self._dispatcher.start_run(session_id, owner, RunInput(opening="resume"))

    async def send_message(self, session_id: str, text: str, *, owner: str | None = None) -> str:
        """Say something to a run while it goes on; gives the message's id.

        It is heard before the next request. If the run ends before that, the session's next run hears it, which
        begins by itself where the run had done its work.
        """
        check_not_blank("message", text)
        known = await self.session(session_id, owner=owner)
        active = self._active_sessions.by_session(session_id)
        if active is None or active.run is None:
            under_way = active is None and known.status in GOING
        else:
            under_way = not active.run.finished
        if not under_way:
            raise Conflict("not_running", f"session {session_id} is not running: go on with a new prompt")
        _, engine = self._admission.agent(known.agent)
        id, stored = f"message_{uuid4().hex[:12]}", redacted(text, engine.redact)
        message = Message(id=id, session_id=session_id, text=stored, created_at=clock_of(engine)())
        if active is not None:
            active.message_texts[id] = text
        await self.store.say(message)
        if active is None:
            self._supervisor.deliver_late_elsewhere(known, message, text)
        elif active.run is not None:
            if active.run.finished:
                self._supervisor.deliver_late(active)
            else:
                active.run.say(text, id=id)
        return id

    async def cancel(self, session_id: str, cause: str = "caller", *, owner: str | None = None) -> StoredSession:
        """End what is running; cancelling it again changes nothing.

        Of a session that runs elsewhere the process that has it is told; one that waits ends as soon as it is taken.
        """
        stored = await self.session(session_id, owner=owner)
        active = self._active_sessions.by_session(session_id)
        if active is not None and not (active.run is not None and active.run.finished):
            active.cancel(cause)
        elif active is not None or not await self.store.ask_cancel(session_id, cause):
            raise Conflict("not_running", f"session {session_id} is not running, it is {stored.status}")
        return stored

    async def delete(self, session_id: str, *, owner: str | None = None) -> None:
        """Forget a session that rests, with all its runs."""
        stored = await self._dispatcher.session_at_rest(session_id, owner)
        if self._active_sessions.by_session(session_id) is not None or stored.status in GOING:
            raise Conflict("running", f"session {session_id} is running: cancel it first")
        await self._dispatcher.delete(session_id)
        self._active_sessions.notifier_of(session_id).notify()

    def check_peers(self) -> None:
        """Look for processes that are dead now, and not only once the time for it has come."""
        self._lifecycle.check_peers()

    # ---- inside

    def _check_open(self) -> None:
        if not self.is_open:
            raise WrongUse("the service is not open: enter it with `async with`, or give the app its `lifespan`")
