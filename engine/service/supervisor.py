"""Driving runs: from the moment a session's place is taken until the store has the run's last event."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, TypeVar

from .._logging import complain
from ..decision.errors import error_text
from ..durability import LostRun
from ..engine import Engine
from ..run import Run
from ..session import Session
from ..store.base import Message, Store, StoredSession, StoreError
from .active import Live, Lives
from .event_buffer import Tape
from .membership import Tenure

T = TypeVar("T")

TIDY_SECONDS = 15.0
"""How long runs that were cancelled may take to tidy up before they are left behind."""
FIRST_WAIT, LONGEST_WAIT = 0.25, 10.0
"""Seconds between tries to store what could not be stored; each is twice the one before."""
SPREAD = 0.1
"""Seconds after which readers of other processes see what a run does, where runs are handed out by a queue."""


class Driver:
    """Drives the runs of a service, each in a task of its own: whoever asked for one may leave.

    shared: other processes may go on with its runs, so that one may stand still while the store is away, and may be
        left as it is when this process stops.
    """

    def __init__(self, store: Store, lives: Lives, tenure: Tenure, *, shared: bool = False) -> None:
        self._store = store
        self._lives = lives
        self._tenure = tenure
        self._shared = shared
        self.hearing = Hearing(store, lives, self._hear_here, elsewhere=shared)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._giving_up = asyncio.Event()

    async def through(self, work: Coroutine[Any, Any, T]) -> T:
        """Do this to its end, also if whoever waits for it leaves: a beginning is never left half done."""
        return await asyncio.shield(self._keep(work))

    async def withdraw(self, live: Live) -> None:
        """Forget a session whose first run never began. Until the store has done it, the session keeps its place."""
        try:
            await self._store.delete(live.session_id)
        except StoreError:
            live.taken = True
            self._keep(self._withdrawn(live))

    async def drive(
        self, live: Live, session: Session, engine: Engine, begin: Callable[[], Run], heard: Sequence[str] = ()
    ) -> None:
        """Begin a run and return once its beginning is stored. `heard`: messages that its prompt is made of."""
        run = begin()
        before = await self._store.run(run.id) if session.interrupted or self._shared else None
        unheard = await self._store.unheard(session.id)
        resumed = len(before.resumed_at) + 1 if before is not None and session.interrupted else 0
        now = clock_of(engine)
        tape = Tape(
            self._store,
            session.id,
            run.id,
            now=now,
            redact=engine.redact,
            heard=heard,
            resumed=resumed,
            sure=self._tenure.sure,
            spread=SPREAD if self._shared else None,
        )
        session.record = tape
        live.take(session, engine, run, tape)
        if before is not None and before.cancel is not None:
            live.cancel(before.cancel)
        for message in unheard:
            if message.id in heard:
                live.said[message.id] = message.text
            else:
                live.say(message)
        begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._keep(self._supervise(live, run, tape, begun))
        if live.overheard:
            self._keep(self._look(live))
        await begun

    def release(self, live: Live) -> None:
        """Give a session's place free again, if no run has come of it."""
        if not live.taken:
            self._lives.remove(live)

    def look_after(self, live: Live) -> None:
        """A message came as the run was ending: see to it that a run hears it."""
        self._keep(self.hearing.look_after(live))

    def look_after_elsewhere(self, session: StoredSession, message: Message, text: str) -> None:
        """The same for a run of another process."""
        self._keep(self.hearing.look_after_elsewhere(session, message, text))

    async def stop(self, grace: float) -> None:
        """Let runs end by themselves for so many seconds, then as cancelled, and wait until they are stored.

        Runs that another process may go on with are left as they are after that time.
        """
        await self._rested(grace)
        for live in self._lives:
            if self._shared:
                live.lose("this process stops")
            else:
                live.cancel("shutdown")
        await self._rested(TIDY_SECONDS)
        self._giving_up.set()
        await self._rested(TIDY_SECONDS)

    async def lose_all(self, why: str) -> None:
        """Give up every run: other processes go on with them."""
        for live in self._lives:
            live.lose(why)
        await self._rested(TIDY_SECONDS)

    def look_at(self, session_ids: Collection[str] | None) -> None:
        """Others have changed these sessions, or perhaps any: see what they want of those that run here."""
        for live in self._lives:
            if session_ids is None or live.session_id in session_ids:
                self._keep(self._look(live))

    async def forget(self, days: float | None, keep: int | None) -> None:
        """Forget ended sessions that are too old or too many."""
        before = None
        if days is not None:
            with suppress(OverflowError):  # before the calendar begins: nothing is as old
                before = (datetime.now(UTC) - timedelta(days=days)).isoformat(timespec="milliseconds")
        try:
            await self._store.forget(before=before, keep=keep)
        except StoreError as error:
            complain("old sessions could not be forgotten", error=str(error))

    # ---- inside

    def _keep(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _rested(self, seconds: float) -> None:
        """Wait until nothing goes on any more, what has begun meanwhile included, for so many seconds at most."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._tasks:
                    await asyncio.wait(self._tasks)

    async def _supervise(self, live: Live, run: Run, tape: Tape, begun: asyncio.Future[None]) -> None:
        going = False
        try:
            async with run:
                self._lives.begun(live, run)
                going = True
                if not begun.cancelled():
                    begun.set_result(None)
                await run.wait()
        except LostRun as error:
            await self._lose(live, tape, str(error), begun=going)
            if not going:
                _refuse(live, begun, error)
            self._lives.remove(live)
            return
        except Exception as error:
            if not going:
                if not _refuse(live, begun, error):
                    self._lives.remove(live)
                return
            complain("a run died", run_id=run.id, error=error_text(error))
        messages: list[Message] = []
        try:
            await self._insist("the end of a run could not be stored yet", tape.settle, run_id=tape.run_id)
            messages = await self.hearing.left(live)
        except LostRun as error:
            await self._lose(live, tape, str(error), begun=True)
        finally:
            self._lives.remove(live)
        if messages:
            await self.hearing.hear(live, messages)

    async def _lose(self, live: Live, tape: Tape, why: str, *, begun: bool) -> None:
        """Let go of a run that another process has, or nobody if there is no queue: then somebody must resume it."""
        await tape.silence(why)
        live.lost = why
        if begun and not self._shared:
            with suppress(StoreError):
                await self._store.set_aside(live.session_id, why)

    async def _look(self, live: Live) -> None:
        if live.run is None:
            live.overheard = True
            return
        with suppress(StoreError):  # whoever asked will have to ask again
            run = await self._store.run(live.run.id)
            if run is not None and run.cancel is not None:
                live.cancel(run.cancel)
            for message in await self._store.unheard(live.session_id):
                live.say(message)

    async def _withdrawn(self, live: Live) -> None:
        forget = partial(self._store.delete, live.session_id)
        try:
            await self._insist("a session without a run is not forgotten yet", forget, session_id=live.session_id)
        finally:
            self._lives.remove(live)

    async def _insist(self, what: str, work: Callable[[], Awaitable[object]], **about: str) -> None:
        """Try until the store does it, or the service gives up: the next start finds what is left (as `running`).

        Raises LostRun.
        """
        wait = FIRST_WAIT
        while True:
            try:
                await work()
                return
            except LostRun:
                raise
            except StoreError as error:
                complain(what, error=str(error), **about)
            if self._giving_up.is_set():
                return
            with suppress(TimeoutError):
                await asyncio.wait_for(self._giving_up.wait(), wait)
            wait = min(2 * wait, LONGEST_WAIT)

    async def _hear_here(self, before: Live, messages: list[Message]) -> None:
        session, engine = before.session, before.engine
        assert session is not None
        assert engine is not None
        live = Live(before.session_id, before.owner, before.agent)
        self._lives.add(live)
        prompt = before.prompt_of(messages)
        try:
            ids = [message.id for message in messages]
            await self.drive(live, session, engine, lambda: session.start(prompt), ids)
        finally:
            self.release(live)


def _refuse(live: Live, begun: asyncio.Future[None], error: Exception) -> bool:
    """No run has come of it; whether anybody is still there to be told, and to release it."""
    live.taken = False
    if begun.cancelled():
        return False
    begun.set_exception(error)
    return True


def clock_of(engine: Engine) -> Callable[[], str]:
    """Gives the time of day as stores and records hold it."""
    return lambda: engine.clock.wall().isoformat(timespec="milliseconds")


# Messages that came too late for the run that they were said to: the session's next run begins by itself for them.

HEARD_BY_ITSELF = frozenset({"completed", "exhausted"})
"""After a run with such a status, the next one begins by itself if there are messages that it did not hear."""
Begin = Callable[[Live, list[Message]], Awaitable[None]]
"""Begins a run with messages that the session's run before did not hear."""


class Hearing:
    """Finds such messages, and has a run begin for them. elsewhere: runs are also made by other processes."""

    def __init__(self, store: Store, lives: Lives, begin: Begin, *, elsewhere: bool) -> None:
        self._store = store
        self._lives = lives
        self.begin = begin
        self._elsewhere = elsewhere

    async def left(self, live: Live) -> list[Message]:
        """Messages that a run of its own is to hear."""
        run = live.run
        if self._lives.stopping or run is None or not run.finished or run.outcome.status not in HEARD_BY_ITSELF:
            return []
        try:
            messages = await self._store.unheard(live.session_id)
        except StoreError:
            return []
        return [] if self._lives.stopping else messages

    async def hear(self, before: Live, messages: list[Message]) -> None:
        """Have a run begin for these."""
        try:
            await self.begin(before, messages)
        except Exception as error:
            complain("messages are left for the session's next run", session_id=before.session_id, error=str(error))

    async def look_after(self, live: Live) -> None:
        """A message came as this run was ending."""
        await live.ended.wait()
        messages = await self.left(live)
        if messages and self._lives.of_session(live.session_id) is None:
            await self.hear(live, messages)

    async def look_after_elsewhere(self, said_to: StoredSession, message: Message, text: str) -> None:
        """A message was said to a run of another process, which may have looked for messages before it was stored."""
        if not self._elsewhere:
            return
        with suppress(StoreError):  # then the session's next run hears it
            session = await self._store.session(said_to.id)
            if session is None or session.run_id != said_to.run_id or session.status not in HEARD_BY_ITSELF:
                return
            messages = await self._store.unheard(session.id)
            if messages and not self._lives.stopping:
                await self.hear(Live(session.id, session.owner, session.agent, said={message.id: text}), messages)
