"""Driving runs: from the moment a session's place is taken until the store has the run's last event."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from ...decision import WrongUse
from ..engine import Engine
from ..run import Run
from ..session import Session
from ..store.store import Message, Store, StoreError
from .lives import Live, Lives
from .tape import Tape

TIDY_SECONDS = 15.0
"""How long runs that were cancelled may take to tidy up before they are left behind."""
FIRST_WAIT, LONGEST_WAIT = 0.25, 10.0
"""Seconds between tries to store what could not be stored; each is twice the one before."""
HEARD_BY_ITSELF = frozenset({"completed", "exhausted"})
"""After a run with such a status, the next one begins by itself if there are messages that it did not hear."""


class Driver:
    """Drives the runs of a service, each in a task of its own: whoever asked for one may leave."""

    def __init__(self, store: Store, lives: Lives) -> None:
        self._store = store
        self._lives = lives
        self._tasks: set[asyncio.Task[None]] = set()
        self._giving_up = asyncio.Event()

    async def drive(
        self, live: Live, session: Session, engine: Engine, begin: Callable[[], Run], heard: Sequence[str] = ()
    ) -> None:
        """Begin a run and return once its beginning is stored. `heard`: messages that its prompt is made of."""
        run = begin()
        tape = Tape(self._store, session.id, run.id, now=clock_of(engine), redact=engine.redact, heard=heard)
        session.record = tape
        for message in await self._store.unheard(session.id):
            if message.id not in heard:
                run.say(message.text, id=message.id)
        live.take(session, engine, run)
        begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._keep(self._supervise(live, run, tape, begun))
        await asyncio.shield(begun)

    def release(self, live: Live) -> None:
        """Give a session's place free again, if no run has come of it."""
        if not live.taken:
            self._lives.remove(live)

    def look_after(self, live: Live) -> None:
        """A message came as the run was ending: see to it that a run hears it."""
        self._keep(self._hear_what_is_left(live))

    async def stop(self, grace: float) -> None:
        """Let runs end by themselves for so many seconds, then as cancelled, and wait until they are stored."""
        await self._ended(grace)
        for live in self._lives:
            live.cancel("shutdown")
        await self._ended(TIDY_SECONDS)
        self._giving_up.set()
        await self._ended(TIDY_SECONDS)

    async def forget(self, days: float | None, keep: int | None) -> None:
        """Forget ended sessions that are too old or too many."""
        before = None
        if days is not None:
            before = (datetime.now(UTC) - timedelta(days=days)).isoformat(timespec="milliseconds")
        try:
            await self._store.forget(before=before, keep=keep)
        except StoreError as error:
            _complain("old sessions could not be forgotten", error=str(error))

    # ---- inside

    def _keep(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _ended(self, seconds: float) -> None:
        if self._tasks and seconds > 0:
            await asyncio.wait(self._tasks, timeout=seconds)

    async def _supervise(self, live: Live, run: Run, tape: Tape, begun: asyncio.Future[None]) -> None:
        try:
            async with run:
                self._lives.begun(live, run, tape)
                begun.set_result(None)
                await run.wait()
        except Exception as error:
            if not begun.done():
                live.taken = False
                begun.set_exception(error)
                return
            _complain("a run died", run_id=run.id, error=f"{type(error).__name__}: {error}")
        await self._store_the_rest(tape)
        await self._rest(live)

    async def _store_the_rest(self, tape: Tape) -> None:
        """Try until the store has the run's last event, or the service gives up: then it is marked as interrupted."""
        wait = FIRST_WAIT
        while True:
            try:
                return await tape.settle()
            except StoreError as error:
                _complain("the end of a run could not be stored yet", run_id=tape.run_id, error=str(error))
            if self._giving_up.is_set():
                return
            with suppress(TimeoutError):
                await asyncio.wait_for(self._giving_up.wait(), wait)
            wait = min(2 * wait, LONGEST_WAIT)

    async def _rest(self, live: Live) -> None:
        """The run is over: hand its place to the next one, if somebody has said something that it did not hear."""
        messages = await self._left(live)
        self._lives.remove(live)
        if messages:
            await self._answer(live, messages)

    async def _hear_what_is_left(self, live: Live) -> None:
        await live.ended.wait()
        messages = await self._left(live)
        if messages and self._lives.of_session(live.session_id) is None:
            await self._answer(live, messages)

    async def _left(self, live: Live) -> list[Message]:
        """Messages that a run of its own is to hear."""
        run = live.run
        if self._lives.stopping or run is None or not run.finished or run.outcome.status not in HEARD_BY_ITSELF:
            return []
        try:
            return await self._store.unheard(live.session_id)
        except StoreError:
            return []

    async def _answer(self, before: Live, messages: Sequence[Message]) -> None:
        """A run with these messages as its prompt."""
        session, engine = before.session, before.engine
        assert session is not None
        assert engine is not None
        live = Live(before.session_id, before.owner, before.agent)
        self._lives.add(live)
        prompt = "\n\n".join(message.text for message in messages)
        try:
            ids = [message.id for message in messages]
            await self.drive(live, session, engine, lambda: session.start(prompt), ids)
        except (WrongUse, OSError) as error:
            _complain("messages are left for the session's next run", session_id=session.id, error=str(error))
        finally:
            self.release(live)


def clock_of(engine: Engine) -> Callable[[], str]:
    """Gives the time of day as stores and records hold it."""
    return lambda: engine.clock.wall().isoformat(timespec="milliseconds")


def _complain(what: str, **about: object) -> None:
    import structlog

    structlog.get_logger("endstop").warning(what, **about)
