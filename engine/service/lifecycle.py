"""Lifecycle of a service: opens and closes store, queue, engines and lease.

While the service is open, it also deletes old sessions, resubmits runs that the queue may have lost, and deletes from
the queue what dead processes left there.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager, suppress
from itertools import islice
from time import monotonic

from ..decision import WrongUse
from ..durability import DROPPED_AT_ONCE, Queue
from ..engine import Engine
from ..store.base import Orphan, Store
from .active import ActiveSessions
from .dispatch import QueueDispatcher
from .membership import QUEUE, RETRY_SECONDS, LeaseKeeper
from .queue_worker import QueueWorker
from .session_retention import SessionRetention
from .supervisor import RunSupervisor

LOOK_SECONDS = 3600.0
"""Seconds between two deletions of what dead processes left in the queue, while this process evicts none."""
NOT_JOINED = "this process could not join the others on the store yet"


class Lifecycle:
    """The parts of a service, opened and closed together. Made by `Service`."""

    def __init__(
        self,
        agents: Mapping[str, Engine],
        store: Store,
        active_sessions: ActiveSessions,
        supervisor: RunSupervisor,
        lease_keeper: LeaseKeeper,
        retention: SessionRetention,
    ) -> None:
        self._agents = agents
        self._store = store
        self._active_sessions = active_sessions
        self._supervisor = supervisor
        self._lease_keeper = lease_keeper
        self._retention = retention
        self._queue: Queue | None = None
        self._dispatcher: QueueDispatcher | None = None
        self._worker: QueueWorker | None = None
        self._at_once = 0
        self._contexts: list[Callable[[], AbstractContextManager[None]]] = []
        self._stack: AsyncExitStack | None = None

    @property
    def is_open(self) -> bool:
        """Whether the service is open."""
        return self._stack is not None

    def use_queue(self, queue: Queue, dispatcher: QueueDispatcher, worker: QueueWorker | None, at_once: int) -> None:
        """Let a queue distribute the runs.

        worker: executes runs in this process, at most `at_once` at the same time; None: this process only submits runs.
        """
        self._queue, self._dispatcher, self._worker, self._at_once = queue, dispatcher, worker, at_once

    def add_context(self, make: Callable[[], AbstractContextManager[None]]) -> None:
        """Enter a context manager made by `make` each time the service opens, and leave it when the service closes."""
        self._contexts.append(make)

    async def open(self) -> None:
        """Open everything.

        Raises WrongUse if it is open already or its archive refuses, StoreError, or ConnectionError (from the queue).
        """
        if self._stack is not None:
            raise WrongUse("the service is already open: enter it only once, in the lifespan of the app")
        async with AsyncExitStack() as stack:
            await self._retention.check()
            await self._store.open()
            stack.push_async_callback(self._store.close)
            if self._queue is not None:
                await self._queue.open()
                stack.push_async_callback(self._queue.close)
            for engine in self._agents.values():
                await stack.enter_async_context(engine.connected())
            await stack.enter_async_context(self._keep_membership())
            self._store.listen(self._on_store_changes)
            for chore in (self._retention.run(), self._resubmit_lost_runs(), self._drop_left_runs()):
                stack.callback(
                    asyncio.create_task(chore, name=f"endstop {getattr(chore, '__qualname__', 'chore')}").cancel
                )
            for make in self._contexts:
                stack.enter_context(make())
            self._stack = stack.pop_all()

    def check_peers(self) -> None:
        """Look for dead processes now instead of at the next renewal of the lease. Returns immediately."""
        self._lease_keeper.renew_now()

    async def close(self) -> None:
        """Close everything. Does nothing if it is closed."""
        stack, self._stack = self._stack, None
        if stack is not None:
            await stack.aclose()

    # ---- membership

    @asynccontextmanager
    async def _keep_membership(self) -> AsyncIterator[None]:
        """Keep this process registered among those that share the store, until the block ends.

        If another process evicts it, it registers again under a new id.
        """
        joined: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        leaving = asyncio.Event()
        holding = asyncio.create_task(self._rejoin_forever(joined, leaving), name="endstop membership")
        try:
            await joined
            yield
        finally:
            leaving.set()
            await holding

    async def _rejoin_forever(self, joined: asyncio.Future[None], leaving: asyncio.Event) -> None:
        while not leaving.is_set():
            try:
                await self._join_once(joined, leaving)
            except Exception as error:
                if not joined.done():
                    joined.set_exception(error)
                    return
                self._supervisor.outages[NOT_JOINED].failed(error=str(error))
                await asyncio.sleep(RETRY_SECONDS)

    async def _join_once(self, joined: asyncio.Future[None], leaving: asyncio.Event) -> None:
        async with self._lease_keeper.join(self._adopt) as process:
            try:
                async with AsyncExitStack() as stack:
                    if self._queue is not None and self._worker is not None:
                        working = self._queue.working(process.id, self._worker.run_job, at_once=self._at_once)
                        await stack.enter_async_context(working)
                    self._supervisor.outages[NOT_JOINED].over()
                    if not joined.done():
                        joined.set_result(None)
                    await _wait_any(leaving, self._lease_keeper.evicted)
            finally:
                if self._lease_keeper.evicted.is_set():  # even if something failed: before this process joins again
                    await self._supervisor.give_up_all("this process was taken for dead")
            if self._dispatcher is not None and self._worker is not None and not self._lease_keeper.evicted.is_set():
                await self._dispatcher.hand_over(self._worker.unfinished)
            with suppress(OSError):  # the queue is unreachable: another process deletes them later
                await self._drop_finished(0.0)

    async def _adopt(self, orphans: list[Orphan]) -> None:
        if self._dispatcher is not None:
            await self._dispatcher.adopt(orphans)
        elif not any(
            QUEUE in other.about for other in await self._store.processes()
        ):  # otherwise that process adopts them
            await self._store.interrupt_orphans([orphan.session_id for orphan in orphans])

    def _on_store_changes(self, session_ids: frozenset[str] | None) -> None:
        """Wake the readers of sessions that other processes have changed, and apply requests to their runs here.

        session_ids: the changed sessions; None: any may have changed.
        """
        self._active_sessions.notify(session_ids)
        self._supervisor.apply_changes(session_ids)

    async def _resubmit_lost_runs(self) -> None:
        outage = self._supervisor.outages["the store or the queue is unreachable"]
        while self._dispatcher is not None:
            await asyncio.sleep(self._lease_keeper.lease)
            try:
                await self._dispatcher.resubmit_lost(2 * self._lease_keeper.lease)
                await self._drop_finished(self._lease_keeper.lease)
                outage.over()
            except OSError as error:
                outage.failed(error=str(error))

    async def _drop_left_runs(self) -> None:
        """Delete ended runs of dead processes from the queue: at the start, after each eviction here, and every hour.

        The hourly deletion is for processes that another one has evicted, or that left while the queue was unreachable.
        """
        outage = self._supervisor.outages["what dead processes left in the queue could not be deleted yet"]
        while self._dispatcher is not None:
            self._lease_keeper.has_evicted.clear()
            try:
                await self._dispatcher.drop_left()
                outage.over()
                pause = LOOK_SECONDS
            except OSError as error:
                outage.failed(error=str(error))
                pause = self._lease_keeper.lease
            with suppress(TimeoutError):
                await asyncio.wait_for(self._lease_keeper.has_evicted.wait(), pause)

    async def _drop_finished(self, older_than: float) -> None:
        """Delete from the queue this process's runs that ended over `older_than` seconds ago; the store keeps them."""
        if self._queue is None or self._worker is None:
            return
        finished, latest = self._worker.finished, monotonic() - older_than
        while due := [run_id for ended, run_id in islice(finished, DROPPED_AT_ONCE) if ended < latest]:
            await self._queue.drop(*due)
            for _ in due:
                finished.popleft()


async def _wait_any(*events: asyncio.Event) -> None:
    """Wait until one of these events is set."""
    waiting = [asyncio.create_task(event.wait(), name="endstop event") for event in events]
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in waiting:
            task.cancel()
