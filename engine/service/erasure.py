"""Erasure of an owner's data: sessions in a store, what a queue keeps of their runs, and records in an archive.

What the queue keeps of a session goes before the session does, and the archive's records go last. So wherever an
erasure ends early, store and archive still say what is left, and the next one goes on there.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence

from msgspec import Struct

from ..base.metrics_registry import Metrics
from ..durability import DROPPED_AT_ONCE, Queue
from ..objects.object_store import ObjectStore, every_object
from ..providers.clock import Clock, SystemClock
from ..store.base import GOING, LEASE, Orphan, SessionFilter, SessionStatus, Store, StoredSession
from .errors import is_received
from .membership import LeaseKeeper
from .service_metrics import EVICTED, LEASES_LOST
from .session_archive import owner_folder

CAUSE = "erased"
"""Why the runs of the owner are cancelled, as their records say if they end before they are deleted."""
LOOK_SECONDS = 0.5
"""Seconds between two looks at the sessions that have not ended yet."""
PAGE = 1000
"""How many sessions are counted at a time."""
AT_ONCE = 50
"""How many sessions are deleted at a time, in one transaction."""
RECORDS_AT_ONCE = 32
"""How many records of the archive are deleted at the same time."""
OnErased = Callable[[int], object]
"""Gets the number of sessions and records that are gone, each time that some are."""


class OwnedData(Struct, frozen=True, kw_only=True):
    """What there is of an owner."""

    sessions: dict[SessionStatus, int]
    """How many sessions there are of each status; sub-agents are not counted."""
    runs: int
    """How many runs these sessions have."""
    records: int
    """How many records the archive has, those of sub-agents included."""

    @property
    def session_count(self) -> int:
        """How many sessions there are, whatever their status."""
        return sum(self.sessions.values())


class ErasedData(Struct, kw_only=True):
    """What is gone."""

    sessions: int = 0
    runs: int = 0
    records: int = 0


class Erasure:
    """The erasure of one owner's data.

    store: open, and of no other use meanwhile: this process becomes a member of it. owner: the exact name. queue: that
    of the other members, open; None: they have none. clock: measures how long running sessions get. on_erased: called
    as the work goes on.
    """

    def __init__(
        self,
        store: Store,
        owner: str,
        *,
        queue: Queue | None = None,
        archive: ObjectStore | None = None,
        clock: Clock | None = None,
        on_erased: OnErased = lambda count: None,
    ) -> None:
        self._store, self._owner = store, owner
        self._queue, self._archive = queue, archive
        self._clock = clock or SystemClock()
        self._on_erased = on_erased
        self.erased = ErasedData()
        """What is gone so far, also after an error."""

    async def look(self) -> OwnedData:
        """Count what there is, and change nothing. Raises StoreError and ObjectStoreError."""
        statuses = Counter[SessionStatus]()
        runs = records = 0
        async for page in self._pages(PAGE):
            statuses.update(session.status for session in page)
            runs += sum(session.runs for session in page)
        if self._archive is not None:
            async for _ in every_object(self._archive, owner_folder(self._owner)):
                records += 1
        return OwnedData(sessions=dict(statuses), runs=runs, records=records)

    async def run(self, wait: float) -> list[StoredSession]:
        """Delete everything, and return the sessions that could not be deleted, as a process still works on them.

        Sessions that run are cancelled, and get `wait` seconds to end. Raises StoreError, ObjectStoreError, and
        ConnectionError of the queue; `erased` says what was gone by then.
        """
        keeper = LeaseKeeper(self._store, Metrics((EVICTED, LEASES_LOST)), kind="erase", lease=LEASE)
        async with keeper.join(_leave_to_others):  # only members are told what others write
            left = await self._erase_sessions(wait)
        if self._archive is not None:
            await self._erase_records(self._archive)
        return left

    # ---- sessions

    async def _erase_sessions(self, wait: float) -> list[StoredSession]:
        deadline = self._clock.now() + wait
        cancelled: set[str] = set()
        while True:
            members = {process.id for process in await self._store.processes()}
            going = [one async for page in self._pages(AT_ONCE) for one in await self._erase_idle(page, members)]
            for one in going:
                if one.run_id is not None and one.run_id not in cancelled and not is_received(one):
                    await self._store.request_cancel(one.id, CAUSE)
                    cancelled.add(one.run_id)
            if not going or self._clock.now() >= deadline:
                found = [await self._store.session(one.id) for one in going]
                return [one for one in found if one is not None]
            await self._clock.sleep(LOOK_SECONDS)

    async def _erase_idle(self, page: Sequence[StoredSession], members: set[str]) -> list[StoredSession]:
        """Delete those of these sessions that no process works on, and return the others."""
        idle = [one for one in page if one.status not in GOING or one.holder not in members]
        if self._queue is not None:
            runs = [id for one in idle for id in await self._runs_of(one)]
            for first in range(0, len(runs), DROPPED_AT_ONCE):
                await self._queue.drop(*runs[first : first + DROPPED_AT_ONCE])
        gone = set(await self._store.delete_idle(idle)) if idle else set()
        self.erased.sessions += len(gone)
        self.erased.runs += sum(one.runs for one in idle if one.id in gone)
        self._tell()
        return [one for one in page if one.id not in gone]

    async def _runs_of(self, session: StoredSession) -> list[str]:
        if session.runs <= 1:
            return [] if session.run_id is None else [session.run_id]
        return [run.id for run in await self._store.runs(session.id)]

    async def _pages(self, size: int) -> AsyncIterator[list[StoredSession]]:
        """Yield the sessions of the owner, newest first, so many at a time."""
        before: str | None = None
        while True:
            page, before = await self._store.sessions(SessionFilter(owner=self._owner, limit=size, before=before))
            yield page
            if before is None:
                return

    # ---- the archive

    async def _erase_records(self, archive: ObjectStore) -> None:
        folder, after = owner_folder(self._owner), ""
        while page := await archive.list(folder, after=after):
            for first in range(0, len(page), RECORDS_AT_ONCE):
                some = page[first : first + RECORDS_AT_ONCE]
                await asyncio.gather(*(archive.delete(one.key) for one in some))
                self.erased.records += len(some)
                self._tell()
            after = page[-1].key

    def _tell(self) -> None:
        self._on_erased(self.erased.sessions + self.erased.records)


async def _leave_to_others(orphans: Sequence[Orphan]) -> None:
    """Let other processes take over the sessions of dead ones. Those of the owner are deleted before."""
