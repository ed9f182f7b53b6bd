"""Several processes with one store: what tests of them share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from endstop.store.base import Store, StoredRun, StoredSession
from endstop.store.leases import evict_dead
from endstop.testing.faults.stored_batches import process, waiting

__all__ = ["SECONDS", "Ear", "evict_and_interrupt", "latest", "process", "refused", "stored", "waiting"]

SECONDS = 60.0
"""How long the tests wait for what must happen."""


async def stored(store: Store, id: str = "session_1") -> StoredSession:
    """The session, which is there."""
    found = await store.session(id)
    assert found is not None
    return found


async def latest(store: Store, id: str = "session_1") -> StoredRun:
    """The session's latest run."""
    run = await store.run((await stored(store, id)).run_id or "")
    assert run is not None
    return run


async def evict_and_interrupt(store: Store, *, by_lease: bool = True) -> int:
    """Give up the processes that are dead and mark their sessions as interrupted; gives how many sessions."""
    await evict_dead(store, by_lease=by_lease)
    return await store.interrupt_orphans([orphan.session_id for orphan in await store.orphans()])


class Ear:
    """Hears what a store tells of others."""

    def __init__(self, store: Store) -> None:
        self.heard: list[frozenset[str] | None] = []
        self._news = asyncio.Event()
        store.listen(self._told)

    def _told(self, ids: frozenset[str] | None) -> None:
        self.heard.append(ids)
        self._news.set()

    @property
    def ids(self) -> set[str]:
        """All that were named."""
        return {id for ids in self.heard if ids is not None for id in ids}

    async def until(self, so: Callable[[], bool]) -> None:
        """Wait until it is so."""
        async with asyncio.timeout(SECONDS):
            while not so():
                self._news.clear()
                await self._news.wait()


async def refused(kind: type[BaseException], work: Awaitable[object]) -> str:
    """What is said when this is refused in this way, and in no other."""
    (said,) = await asyncio.gather(work, return_exceptions=True)
    assert type(said) is kind, said
    return str(said)
