"""A process at work: it takes runs from the queue, as many as it may have, and does them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import msgspec

from ..._logging import complain
from ...durability import Job, LostRun, Work
from .attempt import RENEWALS, Attempt

if TYPE_CHECKING:
    from .client import Polling, Task

LEAVING_SECONDS = 5.0
"""How long work that was cancelled may take to end, when a process leaves."""


class Taking:
    """The runs that this process takes, and has."""

    def __init__(self, polling: Polling, work: Work, at_once: int) -> None:
        self._polling = polling
        self._work = work
        self._at_once = at_once
        self._under_way: dict[Attempt, asyncio.Task[None]] = {}
        self._changed = asyncio.Event()

    @asynccontextmanager
    async def going_on(self) -> AsyncIterator[None]:
        """While it is open, runs are taken. What is unfinished at its end is held no longer."""
        taking = asyncio.create_task(self._take())
        try:
            yield
        finally:
            taking.cancel()
            await self._leave(taking)

    async def _take(self) -> None:
        while True:
            while self._taken >= self._at_once:
                self._changed.clear()
                await self._changed.wait()
            task = await self._polling.poll()
            if task is not None:
                self._begin(task)

    @property
    def _taken(self) -> int:
        return sum(not attempt.astray for attempt in self._under_way)

    def _begin(self, task: Task) -> None:
        before = {one: doing for one, doing in self._under_way.items() if one.task.run_id == task.run_id}
        if any(one.adopt(task) for one in before):
            return
        for one in before:
            one.lose()
        attempt = Attempt(self._polling, task, self._changed.set)
        self._under_way[attempt] = asyncio.create_task(self._do(attempt, before.values()))

    async def _do(self, attempt: Attempt, before: Collection[asyncio.Task[None]]) -> None:
        holding = asyncio.create_task(attempt.hold())
        try:
            if before:  # of this same run, which has been given to this process once more
                await asyncio.wait(before)
            if await attempt.confirm():
                await self._end(attempt, await self._outcome(attempt))
        finally:
            holding.cancel()
            del self._under_way[attempt]
            self._changed.set()

    async def _outcome(self, attempt: Attempt) -> Exception | None:
        try:
            await self._work(msgspec.json.decode(attempt.task.job, type=Job), attempt)
        except Exception as error:
            return error
        return None

    async def _end(self, attempt: Attempt, error: Exception | None) -> None:
        task = attempt.task
        if attempt.lost:
            return
        if error is None:
            await self._polling.complete(task)
        elif isinstance(error, LostRun):  # by the store: who has it there may be dead, and the queue must not forget it
            await self._polling.give_back(task, "another process has it", task.lease / RENEWALS)
        else:
            complain("the work of a run raised", run=task.run_id, exc_info=error)
            await self._polling.fail(task, f"its work raised {type(error).__name__}")

    async def _leave(self, taking: asyncio.Task[None]) -> None:
        for attempt, doing in self._under_way.items():
            attempt.lose()  # before its work is cancelled: what it does about that must not be kept
            doing.cancel()
        await asyncio.wait([taking, *self._under_way.values()], timeout=LEAVING_SECONDS)
