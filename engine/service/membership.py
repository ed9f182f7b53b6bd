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

from .._logging import log_warning
from ..decision.errors import error_text
from ..durability import RunLost
from ..store.base import Orphan, Process, Store, StoreError
from ..store.leases import give_up_dead, this_process

RENEWALS_PER_LEASE = 3
"""A lease is renewed so often before it would be over."""
RETRY_SECONDS = 0.1
"""Seconds between two looks at a store that was away."""

QUEUE = "queue"
"""Stands in what is known of a process that works with a queue: it sees to it that runs go on."""
AdoptOrphans = Callable[[list[Orphan]], Awaitable[None]]
"""Told of sessions that no process holds any more."""


class LeaseKeeper:
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
        self._renew_requested = asyncio.Event()
        self.evicted = asyncio.Event()
        """Set once it was given up: nothing of it reaches the store any more."""
        self._held_until = 0.0
        self._evicts_from = 0.0
        self._eviction: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def join(self, adopt: AdoptOrphans) -> AsyncIterator[Process]:
        """Take a place, under a new name, and keep it. Raises StoreError if the store is away."""
        began = monotonic()
        process = this_process(self._kind, lease_seconds=self.lease)
        process = replace(process, about={**process.about, **self._about})
        await self._store.enrol(process)
        self.evicted = asyncio.Event()
        self._held_until = began + self.lease
        self._eviction = asyncio.create_task(self._evict_dead(adopt))
        renewing = asyncio.create_task(self._renew_forever(process, adopt))
        try:
            await self._eviction
            yield process
        finally:
            renewing.cancel()
            self._eviction.cancel()
            with suppress(StoreError):
                await self._store.leave(process.id)

    async def check_ownership(self) -> None:
        """Wait until this process certainly has its place. Raises RunLost if it has it no more."""
        while monotonic() >= self._held_until and not self.evicted.is_set():
            await asyncio.sleep(RETRY_SECONDS)
        if self.evicted.is_set():
            raise RunLost("this process was taken for dead: its sessions go on elsewhere")

    def renew_now(self) -> None:
        """Renew the lease and look at the others now."""
        self._renew_requested.set()

    # ---- inside

    async def _renew_forever(self, process: Process, adopt: AdoptOrphans) -> None:
        pause = self.lease / RENEWALS_PER_LEASE
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._renew_requested.wait(), pause)
            self._renew_requested.clear()
            began = monotonic()
            if began > self._held_until:  # frozen, or the store was away: the others may have been, too
                self._evicts_from = began + self.lease
            try:
                if not await self._store.renew(process.id):
                    log_warning("this process was taken for dead", process=process.id)
                    self.evicted.set()
                    return
                self._held_until = began + self.lease  # from before the store was asked: it may have taken its time
                if self._eviction is None or self._eviction.done():  # beside: a queue may take longer than a lease
                    self._eviction = asyncio.create_task(self._try_evict_dead(adopt))
                pause = self.lease / RENEWALS_PER_LEASE
            except StoreError as error:
                log_warning("the store is away", error=str(error))
                pause = RETRY_SECONDS

    async def _try_evict_dead(self, adopt: AdoptOrphans) -> None:
        """The same judging, whatever goes wrong: it is done again with the next renewal."""
        try:
            await self._evict_dead(adopt)
        except Exception as error:
            log_warning("what others have left is not seen to yet", error=error_text(error))

    async def _evict_dead(self, adopt: AdoptOrphans) -> None:
        """Give up those that are dead, and see to what they have left."""
        for dead in await give_up_dead(self._store, by_lease=monotonic() >= self._evicts_from):
            log_warning("a process is dead", process=dead.id, host=dead.host, pid=dead.pid)
        orphans = await self._store.orphans()
        if orphans:
            await adopt(orphans)
