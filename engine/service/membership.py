"""Membership of a process among those that share a store: keeps its lease and evicts dead processes.

Each process renews a lease in the store. When it expires, another process evicts its owner, which can then write
nothing more: whatever a frozen process was doing ends with its lease. An unreachable store must not make anybody look
dead: a process that could not renew its own lease evicts nobody for one more lease, so that others can renew theirs.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from time import monotonic
from types import MappingProxyType

from msgspec.structs import replace

from ..base.metrics_registry import Metrics
from ..decision.errors import error_text
from ..providers._logging import log_warning
from ..providers._outage import Outage
from ..store.base import Orphan, Process, Store, StoreError
from ..store.leases import evict_dead, this_process
from .ownership import HeldLease
from .service_metrics import EVICTED, LEASES_LOST

RENEWALS_PER_LEASE = 3
"""How often a lease is renewed before it would expire."""
RETRY_SECONDS = 0.1
"""Seconds between attempts to reach the store."""
QUEUE = "queue"
"""Key in `Process.about` of a process that has a queue; the value is the queue's class name. While there is such a
process, those without a queue leave the runs of dead processes to it."""
AdoptOrphans = Callable[[list[Orphan]], Awaitable[None]]
"""Gets the sessions whose process is dead; puts their runs back into the queue or marks them as interrupted."""


class LeaseKeeper:
    """Registration of this process in the store: renews its lease, and evicts processes whose lease has expired.

    kind: name of this kind of process, for people to read.
    lease: seconds until an unrenewed lease expires; more than 0.
    about: added to `Process.about`, which other processes can read.
    metrics: count evictions.
    """

    def __init__(
        self,
        store: Store,
        metrics: Metrics,
        *,
        kind: str,
        lease: float,
        about: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._store = store
        self._metrics = metrics
        self._kind = kind
        self._about = about
        self.lease = lease
        self._renew_requested = asyncio.Event()
        self.has_evicted = asyncio.Event()
        """Set once this process has evicted another one. Whoever sees to what that one left clears it."""
        self.held = HeldLease("")
        """The lease that this process has now, or had last."""
        self.peers_read_pages = False
        """Whether each process of this store reads pages of `PAGE_FORMAT`; until that is known, False."""
        self._evicts_from = 0.0
        self._eviction: asyncio.Task[None] | None = None
        self._store_outage = Outage("the store is unreachable")
        self._eviction_outage = Outage("sessions of dead processes could not be taken over yet")

    @asynccontextmanager
    async def join(self, adopt: AdoptOrphans) -> AsyncIterator[Process]:
        """Register this process under a new id, and renew its lease until the block ends.

        adopt: called with the sessions of dead processes, now and after renewals. Raises StoreError if the store is
        unreachable.
        """
        began = monotonic()
        process = this_process(self._kind, lease_seconds=self.lease)
        process = replace(process, about={**process.about, **self._about})
        await self._store.join(process)
        self.held = HeldLease(process.id)
        self.held.valid_until = began + self.lease
        self._eviction = asyncio.create_task(self._evict_dead(adopt), name="endstop eviction")
        renewing = asyncio.create_task(self._renew_forever(process, adopt), name="endstop lease")
        try:
            await self._eviction
            yield process
        finally:
            renewing.cancel()
            self._eviction.cancel()
            with suppress(StoreError):
                await self._store.leave(process.id)

    @property
    def evicted(self) -> asyncio.Event:
        """Set once another process has evicted this one, until it has joined again."""
        return self.held.evicted

    @property
    def is_valid(self) -> bool:
        """Whether this process certainly has its lease now."""
        return monotonic() < self.held.valid_until and not self.evicted.is_set()

    def renew_now(self) -> None:
        """Make the background task renew the lease and look for dead processes now. Returns immediately."""
        self._renew_requested.set()

    # ---- inside

    async def _renew_forever(self, process: Process, adopt: AdoptOrphans) -> None:
        pause = self.lease / RENEWALS_PER_LEASE
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._renew_requested.wait(), pause)
            self._renew_requested.clear()
            began = monotonic()
            if began > self.held.valid_until:
                # This process was frozen, or the store unreachable: maybe for the others, too.
                self._evicts_from = began + self.lease
            try:
                still_member = await self._store.heartbeat(process.id)
                self._store_outage.over()
                if not still_member:
                    log_warning("this process was taken for dead, as its lease expired", process_id=process.id)
                    self._metrics.add(LEASES_LOST)
                    self.evicted.set()
                    return
                self.held.valid_until = began + self.lease  # counted from before the request, which may have been slow
                if self._eviction is None or self._eviction.done():
                    # In a separate task: a queue may take longer than a lease.
                    self._eviction = asyncio.create_task(self._try_evict_dead(adopt), name="endstop eviction")
                pause = self.lease / RENEWALS_PER_LEASE
            except StoreError as error:
                self._store_outage.failed(error=str(error))
                pause = RETRY_SECONDS

    async def _try_evict_dead(self, adopt: AdoptOrphans) -> None:
        """Evict dead processes, and log any failure: the next renewal tries again."""
        try:
            await self._evict_dead(adopt)
            self._eviction_outage.over()
        except Exception as error:
            self._eviction_outage.failed(error=error_text(error))

    async def _evict_dead(self, adopt: AdoptOrphans) -> None:
        """Evict dead processes, and pass the sessions that no member of the store holds to `adopt`."""
        for dead in await evict_dead(self._store, by_lease=monotonic() >= self._evicts_from):
            self._metrics.add(EVICTED)
            self.has_evicted.set()
            log_warning("evicted a dead process", process_id=dead.id, host=dead.host, pid=dead.pid)
        if not self.peers_read_pages:  # it stays so: the store refuses older processes from then on
            self.peers_read_pages = await self._store.settle_page_format()
        orphans = await self._store.orphans()
        if orphans:
            await adopt(orphans)
