"""The service: sessions that live longer than a request, kept in a store and watched by any number of readers.

    service = Service(engine, store="sessions.db")
    async with service:
        session = await service.start("Set the port to 8080")
        async for portion in service.follow_run(session.run_id):
            ...

The service owns the runs: whoever started one may leave. It knows no HTTP; `hosts/web/` puts it behind URLs.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from typing import Any
from uuid import uuid4

from ...decision import WrongUse
from ..engine import Engine
from ..run import Run
from ..session import Session
from ..store.orphans import interrupt_orphans
from ..store.place import store_at
from ..store.store import Message, NewSession, Store, StoredSession
from .admission import Admission
from .checked import check, check_said, checked_id, kept, new_id, title
from .driving import Driver, clock_of
from .errors import Conflict
from .lives import Live, Lives
from .reading import BEAT
from .recalling import recalled, was_answered
from .shelf import Shelf

HOUR = 3600.0
REST_SECONDS = 5.0
"""So long the store of a run that is over may take until its session is called busy."""


class Service(Shelf):
    """Runs agents for many, and keeps what they did. Use it as an async context manager, or through `lifespan`.

    engine: the agent, or several by their names, of which the first is the default. Without any (`{}`) nothing can be
        started, but what is stored can be read.
    store: where sessions are kept: a path or `sqlite:///` URL, a `postgresql://` URL, or a store.
    grace: seconds that running sessions get to end by themselves when the service stops; 0 or more.
    max_running: sessions that may run at once; `max_running_each`: of one owner.
    keep_days: ended sessions are forgotten so many days after their last event; None: never.
    keep_sessions: so many ended sessions are kept, the latest; None: all.
    beat: seconds after which a reader without news gets an empty portion.

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
        beat: float = BEAT,
    ) -> None:
        self.agents: Mapping[str, Engine] = {"default": engine} if isinstance(engine, Engine) else dict(engine)
        check(grace=grace, beat=beat, max_running=max_running, max_running_each=max_running_each)
        check(keep_days=keep_days, keep_sessions=keep_sessions)
        super().__init__(store_at(store) if isinstance(store, str) else store, Lives(), beat)
        self._grace = grace
        self._keep_days, self._keep_sessions = keep_days, keep_sessions
        self._admission = Admission(self.agents, self._lives, max_running, max_running_each)
        self._driver = Driver(self.store, self._lives)
        self._company: list[Callable[[], AbstractContextManager[None]]] = []
        self._open: AsyncExitStack | None = None
        self._deadline: asyncio.Task[None] | None = None

    # ---- its life

    async def __aenter__(self) -> Service:
        if self._open is not None:
            raise WrongUse("the service is open already: enter it once, in the lifespan of the app")
        async with AsyncExitStack() as stack:
            await self.store.open()
            stack.push_async_callback(self.store.close)
            await interrupt_orphans(self.store)
            for engine in self.agents.values():
                await stack.enter_async_context(engine.opened())
            stack.callback(asyncio.create_task(self._keep_house()).cancel)
            for made in self._company:
                stack.enter_context(made())
            self._open = stack.pop_all()
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.begin_stopping()
        assert self._open is not None
        assert self._deadline is not None
        try:
            await self._deadline
        finally:
            await self._open.aclose()
            self._open = None

    @asynccontextmanager
    async def lifespan(self, app: Any = None) -> AsyncIterator[dict[str, Any]]:
        """The service's life as the lifespan of an ASGI app; the app's requests find it in their state."""
        async with self:
            yield {"endstop": self}

    def accompany(self, made: Callable[[], AbstractContextManager[None]]) -> None:
        """From now on enter what this makes whenever the service is opened, and leave it when that closes."""
        self._company.append(made)

    @property
    def is_open(self) -> bool:
        """Whether it has been entered."""
        return self._open is not None

    @property
    def stopping(self) -> bool:
        """Whether no run begins any more."""
        return self._lives.stopping

    @property
    def running(self) -> int:
        """How many sessions are running."""
        return len(self._lives)

    def begin_stopping(self) -> None:
        """Start no more runs; those that are going on get the grace, and then end as cancelled. Returns at once."""
        if self._deadline is None:
            self._lives.stop()
            self._deadline = asyncio.create_task(self._driver.stop(self._grace))

    # ---- what can be done with a session

    async def start(
        self, prompt: str, *, owner: str | None = None, agent: str | None = None, session_id: str | None = None
    ) -> StoredSession:
        """Begin a session with its first run; returns once its beginning is stored.

        session_id: what it is to be called, if you know better: 1 to 100 letters, digits, `-`, `_`, `.` and `:`.
        """
        id = new_id() if session_id is None else checked_id(session_id)
        name, engine = self._admission.agent(agent)
        check_said("prompt", prompt)
        known = title(kept(prompt, engine.redact))
        live = self._admit(id, owner or "", name)
        new = NewSession(id=id, owner=live.owner, agent=name, title=known, created_at=clock_of(engine)())
        return await self._driver.through(self._first_run(live, engine, new, prompt, named=session_id is not None))

    async def go_on(self, session_id: str, prompt: str, *, owner: str | None = None) -> StoredSession:
        """Say something new in a session that rests; a question that is open is then closed as unanswered."""
        check_said("prompt", prompt)
        return await self._next_run(session_id, owner, lambda session: session.start(prompt))

    async def answer(
        self, session_id: str, text: str, *, call_id: str | None = None, owner: str | None = None
    ) -> StoredSession:
        """Answer an open question; `call_id` says which, where there are several."""
        check_said("answer", text)
        stored = await self._at_rest(session_id, owner)
        live = self._lives.of_session(session_id)
        if live is not None and live.answering is not None and call_id in (None, live.answering):
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
        return await self._next_run(session_id, owner, lambda session: session.start_answer(chosen, text), chosen)

    async def resume(self, session_id: str, *, owner: str | None = None) -> StoredSession:
        """Let a run go on whose process died: finished steps and calls are not repeated."""
        stored = await self.session(session_id, owner=owner)
        if stored.status != "interrupted":
            raise Conflict("not_interrupted", f"session {session_id} is {stored.status}: there is nothing to resume")
        return await self._next_run(session_id, owner, lambda session: session.start_resumed(), resume=True)

    async def say(self, session_id: str, text: str, *, owner: str | None = None) -> str:
        """Say something to a run while it goes on; gives the message's id.

        It is heard before the next request. If the run ends before that, the session's next run hears it, which
        begins by itself where the run had done its work.
        """
        check_said("message", text)
        await self.session(session_id, owner=owner)
        live = self._lives.of_session(session_id)
        if live is None or live.run is None or live.run.finished:
            raise Conflict("not_running", f"session {session_id} is not running: go on with a new prompt")
        _, engine = self._admission.agent(live.agent)
        id, stored = f"message_{uuid4().hex[:12]}", kept(text, engine.redact)
        message = Message(id=id, session_id=session_id, text=stored, created_at=clock_of(engine)())
        live.said[id] = text
        await self.store.say(message)
        if live.run.finished:
            self._driver.look_after(live)
        else:
            live.run.say(text, id=message.id)
        return message.id

    async def cancel(self, session_id: str, cause: str = "caller", *, owner: str | None = None) -> StoredSession:
        """End what is running; cancelling it again changes nothing."""
        stored = await self.session(session_id, owner=owner)
        live = self._lives.of_session(session_id)
        if live is None or (live.run is not None and live.run.finished):
            raise Conflict("not_running", f"session {session_id} is not running, it is {stored.status}")
        live.cancel(cause)
        return stored

    async def delete(self, session_id: str, *, owner: str | None = None) -> None:
        """Forget a session that rests, with all its runs."""
        await self._at_rest(session_id, owner)
        if self._lives.of_session(session_id) is not None:
            raise Conflict("running", f"session {session_id} is running: cancel it first")
        await self.store.delete(session_id)
        self._lives.news_of(session_id).tell()

    # ---- inside

    async def _first_run(
        self, live: Live, engine: Engine, new: NewSession, prompt: str, *, named: bool
    ) -> StoredSession:
        session = engine.session(new.id)
        try:
            if named and await self.store.session(new.id) is not None:
                raise Conflict("exists", f"there is a session {new.id!r} already: go on with it, or name another")
            await self.store.add(new)
            try:
                await self._driver.drive(live, session, engine, lambda: session.start(prompt))
            except BaseException:
                if not live.taken:
                    await self._driver.withdraw(live)
                raise
        finally:
            self._driver.release(live)
        return await self.session(new.id)

    async def _next_run(
        self,
        session_id: str,
        owner: str | None,
        begin: Callable[[Session], Run],
        answering: str | None = None,
        *,
        resume: bool = False,
    ) -> StoredSession:
        stored = await self._at_rest(session_id, owner)
        live = self._admit(session_id, stored.owner, stored.agent, answering)
        return await self._driver.through(self._begin_next(live, begin, resume=resume))

    async def _begin_next(self, live: Live, begin: Callable[[Session], Run], *, resume: bool) -> StoredSession:
        id = live.session_id
        try:
            stored = await self.session(id)
            if stored.status == "interrupted" and not resume:
                raise Conflict("interrupted", f"session {id}: its run was interrupted: resume it first")
            if stored.status != "interrupted" and resume:
                raise Conflict("not_interrupted", f"session {id} is {stored.status}: somebody has just resumed it")
            if live.answering not in (None, *(question.call_id for question in stored.questions)):
                raise Conflict("answered", f"session {id}: somebody has just answered this question")
            _, engine = self._admission.agent(stored.agent)
            session = await recalled(self.store, engine, id)
            await self._driver.drive(live, session, engine, partial(begin, session))
        finally:
            self._driver.release(live)
        return await self.session(id)

    async def _at_rest(self, session_id: str, owner: str | None) -> StoredSession:
        """The session; where readers know that its run is over, once the store knows it, too."""
        stored = await self.session(session_id, owner=owner)
        live = self._lives.of_session(session_id)
        if live is None or live.run is None or not live.run.finished:
            return stored
        with suppress(TimeoutError):
            await asyncio.wait_for(live.ended.wait(), REST_SECONDS)
        return await self.session(session_id, owner=owner)

    def _admit(self, session_id: str, owner: str, agent: str, answering: str | None = None) -> Live:
        if self._open is None:
            raise WrongUse("the service is not open: enter it with `async with`, or give the app its `lifespan`")
        return self._admission.admit(session_id, owner, agent, answering)

    async def _keep_house(self) -> None:
        """Forget what is older than it may be, now and every hour."""
        if self._keep_days is None and self._keep_sessions is None:
            return
        while True:
            await self._driver.forget(self._keep_days, self._keep_sessions)
            await asyncio.sleep(HOUR)
