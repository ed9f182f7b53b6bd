"""What a service opens, keeps and closes: its store, its place among the processes, its engines, its queue."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager, suppress
from time import monotonic

from .._logging import complain
from ..decision import WrongUse
from ..durability import Queue
from ..engine import Engine
from ..store.base import Orphan, Store
from .active import Lives
from .dispatch import Desk
from .membership import PAUSE, QUEUE, Tenure
from .supervisor import Driver
from .worker import Hands

HOUR = 3600.0


class House:
    """The life of a service. Made by it."""

    def __init__(
        self,
        agents: Mapping[str, Engine],
        store: Store,
        lives: Lives,
        driver: Driver,
        tenure: Tenure,
        *,
        keep_days: float | None,
        keep_sessions: int | None,
    ) -> None:
        self._agents = agents
        self._store = store
        self._lives = lives
        self._driver = driver
        self._tenure = tenure
        self._keep_days, self._keep_sessions = keep_days, keep_sessions
        self._queue: Queue | None = None
        self._desk: Desk | None = None
        self._hands: Hands | None = None
        self._at_once = 0
        self._company: list[Callable[[], AbstractContextManager[None]]] = []
        self._stack: AsyncExitStack | None = None

    @property
    def is_open(self) -> bool:
        """Whether it has been opened, and not closed since."""
        return self._stack is not None

    def share(self, queue: Queue, desk: Desk, hands: Hands | None, at_once: int) -> None:
        """Have runs handed out by a queue; `hands` are those of this process, if it does any."""
        self._queue, self._desk, self._hands, self._at_once = queue, desk, hands, at_once

    def accompany(self, made: Callable[[], AbstractContextManager[None]]) -> None:
        """From now on enter what this makes whenever it is opened, and leave it when it is closed."""
        self._company.append(made)

    async def open(self) -> None:
        """Open all of it. Raises WrongUse, StoreError, and ConnectionError if the queue is away."""
        if self._stack is not None:
            raise WrongUse("the service is open already: enter it once, in the lifespan of the app")
        async with AsyncExitStack() as stack:
            await self._store.open()
            stack.push_async_callback(self._store.close)
            if self._queue is not None:
                await self._queue.open()
                stack.push_async_callback(self._queue.close)
            for engine in self._agents.values():
                await stack.enter_async_context(engine.opened())
            await stack.enter_async_context(self._in_place())
            self._store.listen(self._told)
            for chore in (self._keep_tidy(), self._find_stray()):
                stack.callback(asyncio.create_task(chore).cancel)
            for made in self._company:
                stack.enter_context(made())
            self._stack = stack.pop_all()

    def look_around(self) -> None:
        """Look for dead processes now."""
        self._tenure.hurry()

    async def close(self) -> None:
        """Close all of it."""
        stack, self._stack = self._stack, None
        if stack is not None:
            await stack.aclose()

    # ---- this process's place

    @asynccontextmanager
    async def _in_place(self) -> AsyncIterator[None]:
        """Hold a place among the processes, and another one whenever it was lost."""
        held: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        leaving = asyncio.Event()
        holding = asyncio.create_task(self._hold_places(held, leaving))
        try:
            await held
            yield
        finally:
            leaving.set()
            await holding

    async def _hold_places(self, held: asyncio.Future[None], leaving: asyncio.Event) -> None:
        while not leaving.is_set():
            try:
                await self._hold_place(held, leaving)
            except Exception as error:
                if not held.done():
                    held.set_exception(error)
                    return
                complain("no place among the processes yet", error=str(error))
                await asyncio.sleep(PAUSE)

    async def _hold_place(self, held: asyncio.Future[None], leaving: asyncio.Event) -> None:
        async with self._tenure.held(self._adopt) as process:
            try:
                async with AsyncExitStack() as stack:
                    if self._queue is not None and self._hands is not None:
                        working = self._queue.working(process.id, self._hands.do, at_once=self._at_once)
                        await stack.enter_async_context(working)
                    if not held.done():
                        held.set_result(None)
                    await _first_of(leaving, self._tenure.lost)
            finally:
                if self._tenure.lost.is_set():  # whatever else fails: before this process has a place again
                    await self._driver.lose_all("this process was taken for dead")
            if self._desk is not None and self._hands is not None and not self._tenure.lost.is_set():
                await self._desk.hand_over(self._hands.left)
            with suppress(OSError):  # the queue is away: what is left there does no harm
                await self._drop_done(0.0)

    async def _adopt(self, orphans: list[Orphan]) -> None:
        if self._desk is not None:
            await self._desk.adopt(orphans)
        elif not any(QUEUE in other.about for other in await self._store.processes()):  # else they see to it
            await self._store.interrupt([orphan.session_id for orphan in orphans])

    def _told(self, session_ids: frozenset[str] | None) -> None:
        """Other processes have changed these sessions, or perhaps any."""
        self._lives.tell(session_ids)
        self._driver.look_at(session_ids)

    async def _find_stray(self) -> None:
        while self._desk is not None:
            await asyncio.sleep(self._tenure.lease)
            try:
                await self._desk.look_for_stray(2 * self._tenure.lease)
                await self._drop_done(self._tenure.lease)
            except OSError as error:
                complain("the store or the queue is away", error=str(error))

    async def _drop_done(self, older_than: float) -> None:
        """Let the queue forget what runs of this process left there: the store has all of them."""
        if self._queue is None or self._hands is None:
            return
        done = self._hands.done
        while done and done[0][0] < monotonic() - older_than:
            await self._queue.drop(done[0][1])
            done.popleft()

    # ---- what is forgotten

    async def _keep_tidy(self) -> None:
        """Forget what is older than it may be, now and every hour."""
        if self._keep_days is None and self._keep_sessions is None:
            return
        while True:
            await self._driver.forget(self._keep_days, self._keep_sessions)
            await asyncio.sleep(HOUR)


async def _first_of(*events: asyncio.Event) -> None:
    """Wait until one of them is set."""
    waiting = [asyncio.create_task(event.wait()) for event in events]
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in waiting:
            task.cancel()
