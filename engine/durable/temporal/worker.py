"""The worker: claims runs from the queue, heartbeats their activities, and stores the results of their steps.

A result is stored by the same call that renews the lease. The server writes it to its database before it answers, and
refuses it if the run was given to another process. So a step costs one call, no history grows, and a process that lost
its run cannot store anything more for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import msgspec

from ...durability import Job, RunLost, Work
from ...providers._logging import log

if TYPE_CHECKING:
    from .client import ActivityPoller, ActivityTask
from collections.abc import Awaitable, Callable
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Any

from ...durability import StepKey

if TYPE_CHECKING:
    from .client import ActivityPoller, ActivityTask
import json
from collections.abc import Iterable
from dataclasses import dataclass

from ...durability import ResultNotStored

LEAVING_SECONDS = 5.0
"""Seconds that cancelled work gets to end when a process leaves."""
RENEWALS = 3
"""Heartbeats per lease."""
FRESH = 0.01
"""Seconds for which this process may rely on the server's answer that it keeps results of this attempt, before it
starts a step's work. The next step mostly starts within that time, and then needs no separate call."""
PROMPT = 0.25
"""Seconds since such a call began after which its answer is not relied on: this process may have been frozen before it
read the answer."""
LOOK = 0.2
"""Seconds between two checks of who has a run whose lease expired while the server was away."""
LIMIT = 2_000_000
"""The largest heartbeat, in bytes. The limit of the server is 2 MiB (`limit.blobSize.error`); exceeding it fails the
run."""
CARRIED = 128_000
"""Bytes of results of older steps that are sent in addition to those of the latest two: a process that continues the
run has them in its record, and each heartbeat would send them again."""
_RECENT = 2
_ENVELOPE = 64
"""Bytes of overhead per result, rounded up from about 40."""


class RunConsumer:
    """Consumer that claims runs, at most `at_once` at a time, and executes them."""

    def __init__(self, poller: ActivityPoller, work: Work, at_once: int) -> None:
        self._poller = poller
        self._work = work
        self._at_once = at_once
        self._under_way: dict[RunActivity, asyncio.Task[None]] = {}
        self._changed = asyncio.Event()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Claim and execute runs while the context is open. On leaving, unfinished runs are cancelled."""
        taking = asyncio.create_task(self._take(), name="endstop temporal worker")
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
            task = await self._poller.poll()
            if task is not None:
                self._begin(task)

    @property
    def _taken(self) -> int:
        return sum(not attempt.astray for attempt in self._under_way)

    def _begin(self, task: ActivityTask) -> None:
        before = {one: doing for one, doing in self._under_way.items() if one.task.run_id == task.run_id}
        if any(one.adopt(task) for one in before):
            return
        for one in before:
            one.mark_lost()
        attempt = RunActivity(self._poller, task, self._changed.set)
        self._under_way[attempt] = asyncio.create_task(
            self._do(attempt, before.values()), name=f"endstop temporal run {task.run_id}"
        )

    async def _do(self, attempt: RunActivity, before: Collection[asyncio.Task[None]]) -> None:
        heartbeats = asyncio.create_task(attempt.heartbeat(), name="endstop temporal heartbeat")
        try:
            if before:  # of the same run, which was given to this process again
                await asyncio.wait(before)
            if await attempt.confirm():
                await self._end(attempt, await self._outcome(attempt))
        finally:
            heartbeats.cancel()
            del self._under_way[attempt]
            self._changed.set()

    async def _outcome(self, attempt: RunActivity) -> Exception | None:
        try:
            await self._work(msgspec.json.decode(attempt.task.job, type=Job), attempt)
        except Exception as error:
            return error
        return None

    async def _end(self, attempt: RunActivity, error: Exception | None) -> None:
        task = attempt.task
        if attempt.lost:
            return
        if error is None:
            await self._poller.complete(task)
        elif isinstance(error, RunLost):  # raised by the store, whose holder may be dead
            await self._poller.release(task, "another process has it", task.lease / RENEWALS)
        else:
            raised = (type(error), error, error.__traceback__)
            log(logging.WARNING, "the work of a run raised", {"run": task.run_id}, exc_info=raised)
            await self._poller.fail(task, f"its work raised {type(error).__name__}")

    async def _leave(self, taking: asyncio.Task[None]) -> None:
        for attempt, doing in self._under_way.items():
            attempt.mark_lost()  # before its work is cancelled, so that the reaction to that is not stored
            doing.cancel()
        await asyncio.wait([taking, *self._under_way.values()], timeout=LEAVING_SECONDS)


class RunActivity:
    """The activity of one run in this process: its steps and its heartbeats. Belongs to one event loop."""

    def __init__(self, poller: ActivityPoller, task: ActivityTask, changed: Callable[[], None]) -> None:
        """Prepare the activity of `task`. changed: called when `astray` or `lost` becomes true."""
        self.task = task
        self.astray = False
        """Whether the lease expired during an outage: the server may give the run to this process again."""
        self.lost = False
        """Whether the server keeps no more results of this attempt: it has given the run to another one, or dropped it.

        The store says whose run it is. But a step whose result would not be kept is not begun.
        """
        self._poller = poller
        self._changed = changed
        self._results = HeartbeatResults(task.kept)
        self._heard = 0.0
        """When the last successful call began."""
        self._answered = 0.0
        """When that call was answered."""
        self._asked = asyncio.Event()
        self._told: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._adopted = asyncio.Event()
        self._ours = task.number
        """The latest attempt of which is known that no other process has started it."""

    async def step(self, key: StepKey, work: Callable[[], Awaitable[Any]]) -> Any:
        """Implement `Steps.step`. Waits while the server is away."""
        if key not in self._results:
            await self._be_sure()
            self._results.put(key, await work())
        result = self._results[key]
        while self._results.waits(key):
            await self._answer()
        self._refuse_if_lost()
        return result

    async def _be_sure(self) -> None:
        now = monotonic()
        if now - self._answered > FRESH or now - self._heard > PROMPT:
            await self._answer()
        self._refuse_if_lost()

    async def _answer(self) -> None:
        """Wait for the answer to a heartbeat that begins after now."""
        self._refuse_if_lost()
        self._asked.set()
        await asyncio.shield(self._told)
        self._refuse_if_lost()

    def _refuse_if_lost(self) -> None:
        if self.lost:
            raise RunLost(f"run {self.task.run_id} has been given to another process, or was dropped")

    async def confirm(self) -> bool:
        """Return whether this process still has the run: the task may have waited in a connection's buffer for long."""
        try:
            await self._answer()
        except RunLost:
            return False
        return True

    async def heartbeat(self) -> None:
        """Renew the lease and send results until the run is lost. One call at a time."""
        while not self.lost:
            with suppress(TimeoutError):
                async with asyncio.timeout(self.task.lease / RENEWALS):
                    await self._asked.wait()
            await self._renew()

    async def _renew(self) -> None:
        self._asked.clear()
        told, self._told = self._told, asyncio.get_running_loop().create_future()
        while not self.lost:
            began, carried = monotonic(), self._results.next()
            if await self._poller.renew(self.task, list(carried.values())):
                self._heard, self._answered = began, monotonic()
                self._results.sent(carried)
                break
            if not await self._given_again():
                self.mark_lost()
        if not told.done():
            told.set_result(None)

    def mark_lost(self) -> None:
        """Note that the server keeps no more results of this attempt, so that no more steps are started or stored."""
        self.lost = True
        self.astray = False
        if not self._told.done():
            self._told.set_result(None)
        self._changed()

    async def _given_again(self) -> bool:
        """Wait until this process gets the next attempt, after an outage longer than the lease; False if it does not.

        An attempt that did not arrive while the server was starting comes again after another lease.
        """
        if not self._silent:
            return False
        self.astray = True
        self._changed()
        while not self._adopted.is_set():
            there = None if self.lost else await self._poller.latest_attempt(self.task)
            if self._adopted.is_set():
                break
            if there is None or there[1] == "elsewhere" or there[0] > self._ours + 1:
                return False
            if there[1] == "here":
                self._ours = there[0]
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK):
                    await self._adopted.wait()
        self._adopted.clear()
        return True

    @property
    def _silent(self) -> bool:
        return monotonic() - self._heard > self.task.lease

    def adopt(self, task: ActivityTask) -> bool:
        """Continue as this next attempt; False if another process may have had the run in between.

        Otherwise this process would repeat what it did while the server was away.
        """
        follows = task.execution == self.task.execution and task.number <= self._ours + 1
        if self.lost or not follows or not self._silent:
            return False
        self.task = task
        self._ours = task.number
        self.astray = False
        self._adopted.set()
        self._asked.set()
        return True


@dataclass(frozen=True)
class _Entry:
    step: int
    data: bytes

    @property
    def size(self) -> int:
        return len(self.data) + _ENVELOPE


class HeartbeatResults:
    """Results stored on the server, results to be sent, and the selection for the next heartbeat."""

    def __init__(self, kept: Iterable[bytes] = ()) -> None:
        """Start with `kept`, the results that came with the run, as earlier heartbeats sent them."""
        self._values: dict[str, Any] = {}
        self._kept: dict[str, _Entry] = {}
        self._waiting: dict[str, _Entry] = {}
        for data in kept:
            key, step, value = json.loads(data)
            self._values[key] = value
            self._kept[key] = _Entry(step, data)

    def __contains__(self, key: StepKey) -> bool:
        return str(key) in self._values

    def __getitem__(self, key: StepKey) -> Any:
        return self._values[str(key)]

    def waits(self, key: StepKey) -> bool:
        """Return whether this result is not stored yet."""
        return str(key) in self._waiting

    def put(self, key: StepKey, value: Any) -> None:
        """Queue a result for the next heartbeat. Raises ResultNotStored if it is too large."""
        text = json.dumps([str(key), key.step, value], ensure_ascii=False, separators=(",", ":"))
        data = text.encode("utf-8", "surrogatepass")  # as `json.loads` reads it
        entry = _Entry(key.step, data)
        if entry.size > LIMIT:
            raise ResultNotStored(
                f"the result of {key} has {entry.size:,} bytes, and Temporal stores at most {LIMIT:,}"
            )
        self._values[str(key)] = value
        self._waiting[str(key)] = entry

    def next(self) -> dict[str, bytes]:
        """Return the content of the next heartbeat.

        Oldest first: results to be sent, as far as they fit, and stored ones.
        """
        chosen: dict[str, bytes] = {}
        room = LIMIT
        for key, entry in self._waiting.items():
            if entry.size > room:
                break
            chosen[key] = entry.data
            room -= entry.size
        carried: dict[str, bytes] = {}
        latest = max((entry.step for entry in [*self._kept.values(), *self._waiting.values()]), default=0)
        older = min(room, CARRIED)
        for key, entry in reversed(self._kept.items()):
            recent = entry.step > latest - _RECENT
            if entry.size > (room if recent else min(room, older)):
                continue
            carried[key] = entry.data
            room -= entry.size
            older -= 0 if recent else entry.size
        return {**dict(reversed(carried.items())), **chosen}

    def sent(self, sent: dict[str, bytes]) -> None:
        """Note that the server has stored exactly these results."""
        known = {**self._kept, **self._waiting}
        self._kept = {key: known[key] for key in sent}
        for key in sent:
            self._waiting.pop(key, None)
        self._values = {key: self._values[key] for key in [*self._kept, *self._waiting]}
