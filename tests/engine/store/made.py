"""Sessions and batches for the tests of stores, and the databases to keep them in. Those of the kit, and more."""

from __future__ import annotations

from typing import Any

from endstop.store.base import Store
from endstop.testing.faults.stored_batches import (
    all_pages,
    at,
    batch,
    beginning,
    ending,
    lines,
    message,
    seqs,
    session,
)

__all__ = ["all_pages", "at", "batch", "beginning", "ended", "ending", "lines", "message", "seqs", "session"]


async def ended(store: Store, id: str, *, second: int = 0, **changed: Any) -> None:
    """Put a session with one finished run into the store."""
    await store.add(session(id, second=second, **changed))
    await store.commit(beginning(run=f"run_of_{id}", of=id, second=second))
    await store.commit(ending(3, 4, run=f"run_of_{id}", of=id, second=second))
