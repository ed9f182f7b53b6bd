"""What a process does about others that are dead: it gives them up, and marks what they were running."""

from __future__ import annotations

from contextlib import suppress

from .process import is_gone
from .store import Store, StoreError


async def interrupt_orphans(store: Store, *, by_lease: bool = True) -> int:
    """Give up the processes that are dead and mark their sessions as interrupted; gives how many sessions.

    by_lease: also processes whose lease is over, not only those of this machine that are gone. Whoever could not
        reach the store just now must not judge by that: nobody else could either.
    """
    for process in await store.processes():
        gone = is_gone(process)
        if gone or (by_lease and not process.alive):
            with suppress(StoreError):  # it stopped in the middle of writing: the next one will succeed
                await store.give_up(process.id, even_alive=gone)
    return await store.interrupt([orphan.session_id for orphan in await store.orphans()])
