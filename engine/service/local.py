"""Beginning a session's runs in this process, as soon as they are asked for."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Literal

from msgspec import Struct

from ..engine import Engine
from ..run import Run
from ..session import Session
from ..store.base import NewSession, Store, StoredSession
from .active import Live, Lives
from .admission import Admission
from .errors import Conflict
from .history import recalled
from .queries import Shelf
from .supervisor import Driver

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
