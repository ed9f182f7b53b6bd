"""Supervision of runs, from their start until their last event is stored."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

from ..decision import UserMessage
from ..decision.errors import error_text
from ..durability import ProviderAway, ResumeRefused, RunLost
from ..engine import Engine
from ..observers.agent_metrics import RunCounter
from ..observers.logging import log_run_end
from ..providers._logging import log_warning
from ..providers._outage import Outages
from ..records.format import Redact
from ..run import Run
from ..session import Session
from ..store.base import Store, StoredMessage, StoredRun, StoredSession, StoreError
from .active import ActiveSession, ActiveSessions
from .event_buffer import EventBuffer
from .membership import LeaseKeeper
from .ownership import RunOwnership
from .service_metrics import LOST, START_SECONDS, ServiceMetrics
from .stored_subagents import StoredSubagents

T = TypeVar("T")
CLEANUP_SECONDS = 15.0
"""How long cancelled runs may take to clean up before the service stops without them."""
FIRST_RETRY, LONGEST_RETRY = 0.25, 10.0
"""Seconds between attempts to write to a store that fails; the pause doubles each time."""
FLUSH_INTERVAL = 0.1
"""With a queue: seconds until an event is stored, so that readers in other processes see it."""
CONTINUES_BY_ITSELF = frozenset({"completed", "exhausted"})
"""If a run ended with one of these statuses, messages that it did not get start the next run of its session."""
StartRun = Callable[[ActiveSession, list[StoredMessage]], Awaitable[None]]
"""Starts a run whose prompt is made of messages that the previous run of the session did not get."""


class RunSupervisor:
    """Supervisor that executes each run in a separate task, so that it does not end with the request that started it.

    shared: if true, there is a queue, and other processes can continue the runs of this one. So a run is left
        unfinished instead of cancelled when this process stops.
    """

    def __init__(
        self,
        store: Store,
        active_sessions: ActiveSessions,
        lease_keeper: LeaseKeeper,
        metrics: ServiceMetrics,
        *,
        shared: bool = False,
    ) -> None:
        self._store = store
        self._active_sessions = active_sessions
        self._lease_keeper = lease_keeper
        self.metrics = metrics
        self._shared = shared
        self.outages = Outages()
        """What this process waits for: the store, and the queue."""
        self.late_messages = LateMessages(store, active_sessions, self._start_run_for, elsewhere=shared)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._gave_up = asyncio.Event()

    async def shielded(self, work: Coroutine[Any, Any, T]) -> T:
        """Finish `work` even if the caller is cancelled: starting a run must not stop halfway."""
        return await asyncio.shield(self._spawn(work))

    async def discard(self, active: ActiveSession) -> None:
        """Delete a session whose first run never started. Its id stays taken until the store has deleted it."""
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
        message_ids: Sequence[str] = (),
    ) -> None:
        """Start a run and return once its first event is stored.

        begin: makes the run in `session`, for example with `session.start(prompt)`.
        message_ids: ids of messages that are part of the prompt, and so are not delivered again.
        """
        run = begin()
        before = await self._store.run(run.id) if session.interrupted or self._shared else None
        undelivered = await self._store.undelivered_messages(session.id)
        resumed = len(before.resumed_at) + 1 if before is not None and session.interrupted else 0
        now = clock_of(engine)
        if active.ownership.lease is None:
            active.ownership.lease = self._lease_keeper.held
        redact = engine.config.record_options.redact
        buffer = self._make_buffer(session.id, run.id, now, redact, active.ownership, resumed, message_ids)
        session.record, session.resumable = buffer, True
        session.subagent_records = StoredSubagents(
            self._store, self._active_sessions, active, self._make_buffer, self._store_end
        )
        active.attach_run(session, engine, run, buffer)
        if before is not None and before.cancel is not None:
            active.cancel(before.cancel)
        for message in undelivered:
            if message.id in message_ids:
                active.messages[message.id] = message.said
            else:
                active.deliver(message)
        first_stored: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._spawn(self._supervise(active, run, buffer, first_stored))
        if active.changed_elsewhere:
            self._spawn(self._apply_requests(active))
        await first_stored
        if before is not None:
            self._count_start(before, now())

    def _count_start(self, before: StoredRun, at: str) -> None:
        """Count how long a run waited in the queue before its first start. before: as it was stored then."""
        if before.job is not None and before.status == "queued":
            waited = datetime.fromisoformat(at) - datetime.fromisoformat(before.started_at)
            self.metrics.observe(START_SECONDS, max(0.0, waited.total_seconds()))

    def _make_buffer(
        self,
        session_id: str,
        run_id: str,
        now: Callable[[], str],
        redact: Redact | None,
        ownership: RunOwnership,
        resumed: int,
        message_ids: Sequence[str] = (),
        *,
        subagent: bool = False,
    ) -> EventBuffer:
        return EventBuffer(
            self._store,
            session_id,
            run_id,
            now=now,
            redact=redact,
            message_ids=message_ids,
            resumed=resumed,
            ownership=ownership,
            flush_interval=FLUSH_INTERVAL if self._shared else None,
            caller_waits=not (self._shared or subagent),
            deduplicate=self._lease_keeper.peers_read_pages,
            compress=self._lease_keeper.peers_read_pages,
            outages=self.outages,
            counter=RunCounter(self.metrics, subagent=subagent),
        )

    async def _store_end(self, active: ActiveSession, run: Run, buffer: EventBuffer) -> None:
        """Store the end of a run, and log it once it is stored: nobody else ends the run then, or has ended it."""
        what = "the end of a run could not be stored yet"
        if await self._retry(what, buffer.drain, run_id=buffer.run_id) and run.finished:
            session = active.session
            parent = None if session is None or session.parent is None else session.parent.session_id
            log_run_end(
                run.outcome, run.facts.error_kind, owner=active.owner, agent=active.agent, parent_session_id=parent
            )

    def release(self, active: ActiveSession) -> None:
        """Remove the session from the active ones if its run never started, so that another run can."""
        if not active.has_run:
            self._active_sessions.remove(active)

    def deliver_late(self, active: ActiveSession) -> None:
        """Start the next run for a message that arrived while this run was ending, if this one did not get it.

        Returns immediately; a background task waits for the end of the run.
        """
        self._spawn(self.late_messages.deliver_late(active))

    def deliver_late_elsewhere(self, session: StoredSession, id: str, message: UserMessage) -> None:
        """Start the next run for a message to a run of another process, if that run has ended without getting it.

        session: as stored before the message was. message: unredacted. Returns immediately.
        """
        self._spawn(self.late_messages.deliver_late_elsewhere(session, id, message))

    async def stop(self, grace: float) -> None:
        """Wait `grace` seconds for runs to end, then cancel them, and wait until their last events are stored.

        With a queue the runs are not cancelled but left to other processes.
        """
        await self._wait_idle(grace)
        for active in self._active_sessions:
            if self._shared:
                active.give_up("this process is stopping")
            else:
                active.cancel("shutdown")
        await self._wait_idle(CLEANUP_SECONDS)
        self._gave_up.set()
        await self.give_up_all("this process is stopping, and the store takes no events")

    async def give_up_all(self, why: str) -> None:
        """Stop every run in this process and leave it to other processes. why: the reason, for people.

        Waits at most `CLEANUP_SECONDS` until the runs have stopped.
        """
        for active in self._active_sessions:
            active.give_up(why)
        await self._wait_idle(CLEANUP_SECONDS)

    def apply_changes(self, session_ids: Collection[str] | None) -> None:
        """Cancel runs and deliver messages as other processes requested in the store.

        session_ids: the sessions that other processes have changed; None: any may have changed.
        """
        for active in self._active_sessions.with_subagents():
            if session_ids is None or active.session_id in session_ids:
                self._spawn(self._apply_requests(active))

    def _spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.create_task(work, name=f"endstop {getattr(work, '__qualname__', 'task')}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _wait_idle(self, seconds: float) -> None:
        """Wait until no task is left, including those started meanwhile, at most `seconds`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._tasks:
                    await asyncio.wait(self._tasks)

    async def _supervise(
        self, active: ActiveSession, run: Run, buffer: EventBuffer, first_stored: asyncio.Future[None]
    ) -> None:
        started = False
        try:
            async with run:
                self._active_sessions.run_started(active, run)
                started = True
                if not first_stored.cancelled():
                    first_stored.set_result(None)
                await run.wait()
        except ProviderAway as error:
            await self._interrupt(active, buffer, error)
            return
        except RunLost as error:
            await self._lose(active, buffer, error, started=started)
            if not started:
                _fail_start(active, first_stored, error)
            self._active_sessions.remove(active)
            return
        except ResumeRefused as error:
            await buffer.stop()
            await self._store.mark_interrupted(active.session_id, str(error), token=active.ownership.token)
            if not started:
                _fail_start(active, first_stored, error)
            self._active_sessions.remove(active)
            return
        except Exception as error:
            if not started:
                if not _fail_start(active, first_stored, error):
                    self._active_sessions.remove(active)
                return
            log_warning("a run failed unexpectedly", run_id=run.id, error=error_text(error))
        messages: list[StoredMessage] = []
        try:
            await self._store_end(active, run, buffer)
            messages = await self.late_messages.pending(active)
        except RunLost as error:
            await self._lose(active, buffer, error, started=True)
        finally:
            self._active_sessions.remove(active)
        if messages:
            await self.late_messages.start_run_for(active, messages)

    async def _interrupt(self, active: ActiveSession, buffer: EventBuffer, away: ProviderAway) -> None:
        """Store what a run has done whose provider was away for too long, and mark it for a user to resume."""
        log_warning("a run is interrupted", run_id=buffer.run_id, session_id=active.session_id, error=str(away))
        active.interrupted = True
        try:
            token = active.ownership.token
            mark = partial(self._store.mark_interrupted, active.session_id, str(away), token=token)
            await self._retry("what a run has done could not be stored yet", buffer.store, run_id=buffer.run_id)
            await self._retry("a run could not be marked as interrupted yet", mark, session_id=active.session_id)
        except RunLost as lost:
            await self._lose(active, buffer, lost, started=True)
        finally:
            self._active_sessions.remove(active)

    async def _lose(self, active: ActiveSession, buffer: EventBuffer, lost: RunLost, *, started: bool) -> None:
        """Stop storing a run that this process no longer owns.

        With a queue another process continues it. Without one it is marked as interrupted, for a user to resume.
        """
        self.metrics.add(LOST)
        active.ownership.lose(str(lost))
        await buffer.stop()
        if started and not self._shared:
            with suppress(StoreError):
                await self._store.mark_interrupted(active.session_id, str(lost), token=active.ownership.token)

    async def _apply_requests(self, active: ActiveSession) -> None:
        if active.run is None:
            active.changed_elsewhere = True
            return
        with suppress(StoreError):  # the next change of the session tries again
            run = await self._store.run(active.run.id)
            if run is not None and run.cancel is not None:
                active.cancel(run.cancel)
            for message in await self._store.undelivered_messages(active.session_id):
                active.deliver(message)

    async def _discard_later(self, active: ActiveSession) -> None:
        delete = partial(self._store.delete, active.session_id)
        try:
            await self._retry(
                "a session whose run never started could not be deleted yet", delete, session_id=active.session_id
            )
        finally:
            self._active_sessions.remove(active)

    async def _retry(self, what: str, work: Callable[[], Awaitable[object]], **about: str) -> bool:
        """Repeat `work` until the store accepts it (True) or the service stops; logs `what` while it fails.

        What is not stored by then is found as `running` at the next start. Raises RunLost.
        """
        wait = FIRST_RETRY
        while True:
            try:
                await work()
                self.outages[what].over()
                return True
            except RunLost:
                raise
            except StoreError as error:
                self.outages[what].failed(error=str(error), **about)
            if self._gave_up.is_set():
                return False
            with suppress(TimeoutError):
                await asyncio.wait_for(self._gave_up.wait(), wait)
            wait = min(2 * wait, LONGEST_RETRY)

    async def _start_run_for(self, before: ActiveSession, messages: list[StoredMessage]) -> None:
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
    """Messages that arrived too late for the run they were sent to: the next run of the session starts for them.

    begin: starts that run. elsewhere: whether other processes execute runs of these sessions, too.
    """

    def __init__(self, store: Store, active_sessions: ActiveSessions, begin: StartRun, *, elsewhere: bool) -> None:
        self._store = store
        self._active_sessions = active_sessions
        self.begin = begin
        self._elsewhere = elsewhere

    async def pending(self, active: ActiveSession) -> list[StoredMessage]:
        """Return the messages that the session's ended run did not get and that are to start the next one.

        Empty if the status of the run is not in `CONTINUES_BY_ITSELF`, the service is stopping or the store fails: the
        messages then wait for a run that somebody starts.
        """
        run = active.run
        if (
            self._active_sessions.stopping
            or run is None
            or not run.finished
            or run.outcome.status not in CONTINUES_BY_ITSELF
        ):
            return []
        try:
            messages = await self._store.undelivered_messages(active.session_id)
        except StoreError:
            return []
        return [] if self._active_sessions.stopping else messages

    async def start_run_for(self, before: ActiveSession, messages: list[StoredMessage]) -> None:
        """Start a run whose prompt is these messages. If it cannot start, they wait in the store for the next run."""
        try:
            await self.begin(before, messages)
        except Exception as error:
            log_warning("messages wait for the next run of the session", session_id=before.session_id, error=str(error))

    async def deliver_late(self, active: ActiveSession) -> None:
        """Wait for the end of this run, and start the next one if it did not get its messages."""
        await active.ended.wait()
        messages = await self.pending(active)
        if messages and self._active_sessions.by_session(active.session_id) is None:
            await self.start_run_for(active, messages)

    async def deliver_late_elsewhere(self, sent_to: StoredSession, id: str, message: UserMessage) -> None:
        """Start a run if the run of another process ended without seeing this message.

        That process may have looked for messages just before this one was stored.
        """
        if not self._elsewhere:
            return
        with suppress(StoreError):  # nothing is lost: the next run of the session gets the message
            session = await self._store.session(sent_to.id)
            if session is None or session.run_id != sent_to.run_id or session.status not in CONTINUES_BY_ITSELF:
                return
            messages = await self._store.undelivered_messages(session.id)
            if messages and not self._active_sessions.stopping:
                await self.start_run_for(
                    ActiveSession(session.id, session.owner, session.agent, messages={id: message}), messages
                )


def clock_of(engine: Engine) -> Callable[[], str]:
    """Return a function that gives the time of the engine's clock as ISO 8601, as stores and records hold it."""
    return lambda: engine.config.runtime.clock.wall().isoformat(timespec="milliseconds")


def _fail_start(active: ActiveSession, first_stored: asyncio.Future[None], error: Exception) -> bool:
    """Report to the caller that the run did not start; False if the caller has left and cannot release the session."""
    active.has_run = False
    if first_stored.cancelled():
        return False
    first_stored.set_exception(error)
    return True
