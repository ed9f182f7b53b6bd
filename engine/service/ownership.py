"""Who holds a run, as this process knows it: the claim that the store granted, and whether it is still valid.

The store alone decides (`store/transaction.py`, `Claims`). While the lease of this process is valid, no other process
can claim its sessions, so the store's last answer is still true, and a check costs no query. Everything in this process
that has to stop with the run asks its `RunOwnership`, or tells it why the run is lost.
"""

from __future__ import annotations

import asyncio
from time import monotonic

from ..durability import Ownership, RunLost

LOOK_SECONDS = 0.1
"""Seconds between two looks at a lease that may have expired, while the store cannot be reached."""


class HeldLease:
    """The lease of this process under one id. Once it is lost it stays lost: a process that joins again gets another.

    process_id: the id in the store.
    """

    def __init__(self, process_id: str) -> None:
        self.process_id = process_id
        self.valid_until = 0.0
        """`monotonic()` until which the lease is certainly valid."""
        self.evicted = asyncio.Event()
        """Set once another process has evicted this one: the store refuses all that it writes."""

    async def check(self) -> None:
        """Wait until the lease is certainly valid. Raises RunLost once this process has been evicted."""
        while monotonic() >= self.valid_until and not self.evicted.is_set():
            await asyncio.sleep(LOOK_SECONDS)
        if self.evicted.is_set():
            raise RunLost("this process was taken for dead, as its lease expired: its sessions are continued elsewhere")


class RunOwnership(Ownership):
    """The claim of this process to one run.

    within: for a sub-agent, the claim to its caller's run: if that is lost, so is this one. lease: None: this process
    does not share the store. token: the token of the claim; None: the first batch of the run will claim its session.
    """

    def __init__(
        self, lease: HeldLease | None = None, token: int | None = None, *, within: RunOwnership | None = None
    ) -> None:
        self._within = within
        self.lease = lease
        self.token = token
        self._lost: RunLost | None = None
        self._released = False

    @property
    def lost(self) -> bool:
        """Whether this process no longer owns the run, or has given it up."""
        return self._lost is not None or (self._within is not None and self._within.lost)

    def lose(self, why: str) -> RunLost:
        """Note that the run is lost, or given up; returns the error to raise. Only the first reason counts.

        A run whose end is stored cannot be lost any more.
        """
        if self._released:
            return RunLost(why)
        if self._lost is None:
            self._lost = RunLost(why)
        return RunLost(*self._lost.args)

    def release(self) -> None:
        """Note that the end of the run is stored: whatever happens now, nothing of it is lost."""
        self._released, self._lost = True, None

    def raise_if_lost(self) -> None:
        """Raise RunLost if the run is known to be lost. Nothing is queried: the store checks what is written."""
        if self._lost is not None:
            raise RunLost(*self._lost.args)
        if self._within is not None:
            self._within.raise_if_lost()

    async def check(self) -> None:
        """Implement `Ownership.check`. Waits while the lease may have expired because the store cannot be reached."""
        self.raise_if_lost()
        if self.lease is not None:
            try:
                await self.lease.check()
            except RunLost as lost:
                raise self.lose(str(lost)) from None
        self.raise_if_lost()
