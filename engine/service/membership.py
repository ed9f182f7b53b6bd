"""The place of a process among those that share a store.

Each process has a lease in the store and renews it. A process whose lease was given up by another one can write nothing
more there, so whatever it was doing when it froze ends with it. A store that is away makes nobody dead: who could not
renew itself judges the others only after a whole lease, in which they had the time to come back, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from time import monotonic
from types import MappingProxyType

from msgspec.structs import replace

from .._logging import complain
from ..decision.errors import error_text
from ..durability import LostRun
from ..store.base import Orphan, Process, Store, StoreError
from ..store.leases import give_up_dead
from ..store.process import this_process

RENEWALS = 3
"""A lease is renewed so often before it would be over."""
PAUSE = 0.1
"""Seconds between two looks at a store that was away."""

QUEUE = "queue"
"""Stands in what is known of a process that works with a queue: it sees to it that runs go on."""
Adopt = Callable[[list[Orphan]], Awaitable[None]]
"""Told of sessions that no process holds any more."""


class Tenure:
    """Enrols this process, keeps it enrolled, and finds out which others are dead.

    kind: what this process is for, for people. lease: seconds, more than 0. about: what others may want to know.
    """

    def __init__(
        self, store: Store, *, kind: str, lease: float, about: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self._store = store
        self._kind = kind
        self._about = about
        self.lease = lease
        self._hurried = asyncio.Event()
        self.lost = asyncio.Event()
        """Set once it was given up: nothing of it reaches the store any more."""
        self._sure_until = 0.0
        self._judges_from = 0.0
        self._judging: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def held(self, adopt: Adopt) -> AsyncIterator[Process]:
        """Take a place, under a new name, and keep it. Raises StoreError if the store is away."""
        began = monotonic()
        process = this_process(self._kind, lease_seconds=self.lease)
        process = replace(process, about={**process.about, **self._about})
        await self._store.enrol(process)
        self.lost = asyncio.Event()
        self._sure_until = began + self.lease
        self._judging = asyncio.create_task(self._judge(adopt))
        renewing = asyncio.create_task(self._renew_for_ever(process, adopt))
        try:
            await self._judging
            yield process
        finally:
            renewing.cancel()
            self._judging.cancel()
            with suppress(StoreError):
                await self._store.leave(process.id)

    async def sure(self) -> None:
        """Wait until this process certainly has its place. Raises LostRun if it has it no more."""
        while monotonic() >= self._sure_until and not self.lost.is_set():
            await asyncio.sleep(PAUSE)
        if self.lost.is_set():
            raise LostRun("this process was taken for dead: its sessions go on elsewhere")

    def hurry(self) -> None:
        """Renew the lease and look at the others now."""
        self._hurried.set()

    # ---- inside

    async def _renew_for_ever(self, process: Process, adopt: Adopt) -> None:
        pause = self.lease / RENEWALS
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._hurried.wait(), pause)
            self._hurried.clear()
            began = monotonic()
            if began > self._sure_until:  # frozen, or the store was away: the others may have been, too
                self._judges_from = began + self.lease
            try:
                if not await self._store.renew(process.id):
                    complain("this process was taken for dead", process=process.id)
                    self.lost.set()
                    return
                self._sure_until = began + self.lease  # from before the store was asked: it may have taken its time
                if self._judging is None or self._judging.done():  # beside: a queue may take longer than a lease
                    self._judging = asyncio.create_task(self._judge_once(adopt))
                pause = self.lease / RENEWALS
            except StoreError as error:
                complain("the store is away", error=str(error))
                pause = PAUSE

    async def _judge_once(self, adopt: Adopt) -> None:
        """The same judging, whatever goes wrong: it is done again with the next renewal."""
        try:
            await self._judge(adopt)
        except Exception as error:
            complain("what others have left is not seen to yet", error=error_text(error))

    async def _judge(self, adopt: Adopt) -> None:
        """Give up those that are dead, and see to what they have left."""
        for dead in await give_up_dead(self._store, by_lease=monotonic() >= self._judges_from):
            complain("a process is dead", process=dead.id, host=dead.host, pid=dead.pid)
        orphans = await self._store.orphans()
        if orphans:
            await adopt(orphans)
