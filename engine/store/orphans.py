"""What a process does about others that are dead: it gives them up, so that they can write nothing more."""

from __future__ import annotations

from contextlib import suppress

from .base import Process, Store, StoreError
from .process import is_gone


async def give_up_dead(store: Store, *, by_lease: bool = True) -> list[Process]:
    """Give up the processes that are dead; gives which they were.

    by_lease: also processes whose lease is over, not only those of this machine that are gone. Whoever could not
        reach the store just now must not judge by that: nobody else could either.
    """
    dead: list[Process] = []
    for process in await store.processes():
        gone = is_gone(process)
        if gone or (by_lease and not process.alive):
            with suppress(StoreError):  # it stopped in the middle of writing: the next one will succeed
                if await store.give_up(process.id, even_alive=gone):
                    dead.append(process)
    return dead
