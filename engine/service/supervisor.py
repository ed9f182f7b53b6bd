"""Driving runs: from the moment a session's place is taken until the store has the run's last event."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, TypeVar

from .._logging import log_warning
from ..decision.errors import error_text
from ..durability import RunLost
from ..engine import Engine
from ..run import Run
from ..session import Session
from ..store.base import Message, Store, StoredSession, StoreError
from .active import ActiveSession, ActiveSessions
from .event_buffer import EventBuffer
from .membership import LeaseKeeper

T = TypeVar("T")
CLEANUP_SECONDS = 15.0
"""How long runs that were cancelled may take to tidy up before they are left behind."""
FIRST_RETRY, LONGEST_RETRY = 0.25, 10.0
"""Seconds between tries to store what could not be stored; each is twice the one before."""
FLUSH_INTERVAL = 0.1
"""Seconds after which readers of other processes see what a run does, where runs are handed out by a queue."""


# Messages that came too late for the run that they were said to: the session's next run begins by itself for them.

CONTINUES_BY_ITSELF = frozenset({"completed", "exhausted"})
"""After a run with such a status, the next one begins by itself if there are messages that it did not hear."""
StartRun = Callable[[ActiveSession, list[Message]], Awaitable[None]]
"""Begins a run with messages that the session's run before did not hear."""


class RunSupervisor:
    """Drives the runs of a service, each in a task of its own: whoever asked for one may leave.

    shared: other processes may go on with its runs, so that one may stand still while the store is away, and may be
        left as it is when this process stops.
    """

    def __init__(
        self, store: Store, active_sessions: ActiveSessions, lease_keeper: LeaseKeeper, *, shared: bool = False
    ) -> None:
        self._store = store
        self._active_sessions = active_sessions
        self._lease_keeper = lease_keeper
        self._shared = shared
        self.late_messages = LateMessages(store, active_sessions, self._start_run_for, elsewhere=shared)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._gave_up = asyncio.Event()

    async def shielded(self, work: Coroutine[Any, Any, T]) -> T:
        """Do this to its end, also if whoever waits for it leaves: a beginning is never left half done."""
        return await asyncio.shield(self._spawn(work))

    async def discard(self, active: ActiveSession) -> None:
        """Forget a session whose first run never began. Until the store has done it, the session keeps its place."""
        try:
            await self._store.delete(active.session_id)
        except StoreError:
            active.has_run = True
            self._spawn(self._discard_later(active))

    async def start_run(
        self,
        active: ActiveSession,
        session: Session,
        engine: Engine,
        begin: Callable[[], Run],
        heard: Sequence[str] = (),
    ) -> None:
        """Begin a run and return once its beginning is stored. `heard`: messages that its prompt is made of."""
        run = begin()
        before = await self._store.run(run.id) if session.interrupted or self._shared else None
        unheard = await self._store.unheard(session.id)
        resumed = len(before.resumed_at) + 1 if before is not None and session.interrupted else 0
        now = clock_of(engine)
        buffer = EventBuffer(
            self._store,
            session.id,
            run.id,
            now=now,
            redact=engine.redact,
            heard=heard,
            resumed=resumed,
            check_ownership=self._lease_keeper.check_ownership,
            flush_interval=FLUSH_INTERVAL if self._shared else None,
        )
        session.record = buffer
        active.attach_run(session, engine, run, buffer)
        if before is not None and before.cancel is not None:
            active.cancel(before.cancel)
        for message in unheard:
            if message.id in heard:
                active.message_texts[message.id] = message.text
            else:
                active.deliver(message)
        begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._spawn(self._supervise(active, run, buffer, begun))
        if active.changed_elsewhere:
            self._spawn(self._apply_requests(active))
        await begun

    def release(self, active: ActiveSession) -> None:
        """Give a session's place free again, if no run has come of it."""
        if not active.has_run:
            self._active_sessions.remove(active)

    def deliver_late(self, active: ActiveSession) -> None:
        """A message came as the run was ending: see to it that a run hears it."""
        self._spawn(self.late_messages.deliver_late(active))

    def deliver_late_elsewhere(self, session: StoredSession, message: Message, text: str) -> None:
        """The same for a run of another process."""
        self._spawn(self.late_messages.deliver_late_elsewhere(session, message, text))

    async def stop(self, grace: float) -> None:
        """Let runs end by themselves for so many seconds, then as cancelled, and wait until they are stored.

        Runs that another process may go on with are left as they are after that time.
        """
        await self._wait_idle(grace)
        for active in self._active_sessions:
            if self._shared:
                active.give_up("this process stops")
            else:
                active.cancel("shutdown")
        await self._wait_idle(CLEANUP_SECONDS)
        self._gave_up.set()
        await self._wait_idle(CLEANUP_SECONDS)

    async def give_up_all(self, why: str) -> None:
        """Give up every run: other processes go on with them."""
        for active in self._active_sessions:
            active.give_up(why)
        await self._wait_idle(CLEANUP_SECONDS)

    def apply_changes(self, session_ids: Collection[str] | None) -> None:
        """Others have changed these sessions, or perhaps any: see what they want of those that run here."""
        for active in self._active_sessions:
            if session_ids is None or active.session_id in session_ids:
                self._spawn(self._apply_requests(active))

    async def forget_old(self, days: float | None, keep: int | None) -> None:
        """Forget ended sessions that are too old or too many."""
        before = None
        if days is not None:
            with suppress(OverflowError):  # before the calendar begins: nothing is as old
                before = (datetime.now(UTC) - timedelta(days=days)).isoformat(timespec="milliseconds")
        try:
            await self._store.forget(before=before, keep=keep)
        except StoreError as error:
            log_warning("old sessions could not be forgotten", error=str(error))

    # ---- inside

    def _spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _wait_idle(self, seconds: float) -> None:
        """Wait until nothing goes on any more, what has begun meanwhile included, for so many seconds at most."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._tasks:
                    await asyncio.wait(self._tasks)

    async def _supervise(
        self, active: ActiveSession, run: Run, buffer: EventBuffer, begun: asyncio.Future[None]
    ) -> None:
        started = False
        try:
            async with run:
                self._active_sessions.run_started(active, run)
                started = True
                if not begun.cancelled():
                    begun.set_result(None)
                await run.wait()
        except RunLost as error:
            await self._lose(active, buffer, str(error), begun=started)
            if not started:
                _fail_start(active, begun, error)
            self._active_sessions.remove(active)
            return
        except Exception as error:
            if not started:
                if not _fail_start(active, begun, error):
                    self._active_sessions.remove(active)
                return
            log_warning("a run died", run_id=run.id, error=error_text(error))
        messages: list[Message] = []
        try:
            await self._retry("the end of a run could not be stored yet", buffer.drain, run_id=buffer.run_id)
            messages = await self.late_messages.pending(active)
        except RunLost as error:
            await self._lose(active, buffer, str(error), begun=True)
        finally:
            self._active_sessions.remove(active)
        if messages:
            await self.late_messages.start_run_for(active, messages)

    async def _lose(self, active: ActiveSession, buffer: EventBuffer, why: str, *, begun: bool) -> None:
        """Let go of a run that another process has, or nobody if there is no queue: then somebody must resume it."""
        await buffer.stop(why)
        active.lost_reason = why
        if begun and not self._shared:
            with suppress(StoreError):
                await self._store.set_aside(active.session_id, why)

    async def _apply_requests(self, active: ActiveSession) -> None:
        if active.run is None:
            active.changed_elsewhere = True
            return
        with suppress(StoreError):  # whoever asked will have to ask again
            run = await self._store.run(active.run.id)
            if run is not None and run.cancel is not None:
                active.cancel(run.cancel)
            for message in await self._store.unheard(active.session_id):
                active.deliver(message)

    async def _discard_later(self, active: ActiveSession) -> None:
        delete = partial(self._store.delete, active.session_id)
        try:
            await self._retry("a session without a run is not forgotten yet", delete, session_id=active.session_id)
        finally:
            self._active_sessions.remove(active)

    async def _retry(self, what: str, work: Callable[[], Awaitable[object]], **about: str) -> None:
        """Try until the store does it, or the service gives up: the next start finds what is left (as `running`).

        Raises RunLost.
        """
        wait = FIRST_RETRY
        while True:
            try:
                await work()
                return
            except RunLost:
                raise
            except StoreError as error:
                log_warning(what, error=str(error), **about)
            if self._gave_up.is_set():
                return
            with suppress(TimeoutError):
                await asyncio.wait_for(self._gave_up.wait(), wait)
            wait = min(2 * wait, LONGEST_RETRY)

    async def _start_run_for(self, before: ActiveSession, messages: list[Message]) -> None:
        session, engine = before.session, before.engine
        assert session is not None
        assert engine is not None
        active = ActiveSession(before.session_id, before.owner, before.agent)
        self._active_sessions.add(active)
        prompt = before.join_messages(messages)
        try:
            ids = [message.id for message in messages]
            await self.start_run(active, session, engine, lambda: session.start(prompt), ids)
        finally:
            self.release(active)


class LateMessages:
    """Finds such messages, and has a run begin for them. elsewhere: runs are also made by other processes."""

    def __init__(self, store: Store, active_sessions: ActiveSessions, begin: StartRun, *, elsewhere: bool) -> None:
        self._store = store
        self._active_sessions = active_sessions
        self.begin = begin
        self._elsewhere = elsewhere

    async def pending(self, active: ActiveSession) -> list[Message]:
        """Messages that a run of its own is to hear."""
        run = active.run
        if (
            self._active_sessions.stopping
            or run is None
            or not run.finished
            or run.outcome.status not in CONTINUES_BY_ITSELF
        ):
            return []
        try:
            messages = await self._store.unheard(active.session_id)
        except StoreError:
            return []
        return [] if self._active_sessions.stopping else messages

    async def start_run_for(self, before: ActiveSession, messages: list[Message]) -> None:
        """Have a run begin for these."""
        try:
            await self.begin(before, messages)
        except Exception as error:
            log_warning("messages are left for the session's next run", session_id=before.session_id, error=str(error))

    async def deliver_late(self, active: ActiveSession) -> None:
        """A message came as this run was ending."""
        await active.ended.wait()
        messages = await self.pending(active)
        if messages and self._active_sessions.by_session(active.session_id) is None:
            await self.start_run_for(active, messages)

    async def deliver_late_elsewhere(self, said_to: StoredSession, message: Message, text: str) -> None:
        """A message was said to a run of another process, which may have looked for messages before it was stored."""
        if not self._elsewhere:
            return
        with suppress(StoreError):  # then the session's next run hears it
            session = await self._store.session(said_to.id)
            if session is None or session.run_id != said_to.run_id or session.status not in CONTINUES_BY_ITSELF:
                return
            messages = await self._store.unheard(session.id)
            if messages and not self._active_sessions.stopping:
                await self.start_run_for(
                    ActiveSession(session.id, session.owner, session.agent, message_texts={message.id: text}), messages
                )


def clock_of(engine: Engine) -> Callable[[], str]:
    """Gives the time of day as stores and records hold it."""
    return lambda: engine.clock.wall().isoformat(timespec="milliseconds")


def _fail_start(active: ActiveSession, begun: asyncio.Future[None], error: Exception) -> bool:
    """No run has come of it; whether anybody is still there to be told, and to release it."""
    active.has_run = False
    if begun.cancelled():
        return False
    begun.set_exception(error)
    return True
