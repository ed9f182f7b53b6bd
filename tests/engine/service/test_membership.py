"""A process keeps its place whatever it is busy with, and begins nothing that it may have lost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from endstop import Engine
from endstop.durability import RunLost, StepKey
from endstop.providers import Scripted
from endstop.service.active import ActiveSession
from endstop.service.membership import LeaseKeeper
from endstop.service.ownership import RunOwnership
from endstop.service.queue_worker import OwnedSteps
from endstop.service.service import Service
from endstop.service.service_metrics import ServiceMetrics
from endstop.store.base import Orphan
from endstop.store.leases import this_process
from msgspec.structs import replace

from .. import held
from ..temporary_store import TemporaryStore, opened

LEASE = 0.3


class Counting(TemporaryStore):
    """Counts renewals, and always has an orphan."""

    renewals = 0

    async def heartbeat(self, process_id: str) -> bool:
        """The same."""
        self.renewals += 1
        return await super().heartbeat(process_id)

    async def orphans(self) -> list[Orphan]:
        """One."""
        return [Orphan(session_id="s", run_id="r", agent="default")]


async def test_a_lease_is_renewed_while_what_others_left_is_seen_to_for_long() -> None:
    store = Counting()
    lease_keeper = LeaseKeeper(store, ServiceMetrics(store, lambda: 0), kind="worker", lease=LEASE)
    enough, adoptions = asyncio.Event(), 0

    async def adopt(orphans: list[Orphan]) -> None:
        nonlocal adoptions
        adoptions += 1
        if adoptions == 2:
            await enough.wait()

    async with asyncio.timeout(60), opened(store), lease_keeper.join(adopt):
        while adoptions < 2:
            await asyncio.sleep(0.01)
        before = store.renewals
        while store.renewals < before + 5:
            await asyncio.sleep(0.01)
        assert adoptions == 2, "one at a time"
        await lease_keeper.held.check()
        assert not lease_keeper.evicted.is_set()
        enough.set()
        while adoptions < 4:
            await asyncio.sleep(0.01)


async def test_what_goes_wrong_with_what_others_left_costs_no_lease() -> None:
    store = Counting()
    lease_keeper = LeaseKeeper(store, ServiceMetrics(store, lambda: 0), kind="worker", lease=LEASE)
    adoptions = 0

    async def adopt(orphans: list[Orphan]) -> None:
        nonlocal adoptions
        adoptions += 1
        if adoptions > 1:
            raise RuntimeError("the queue says something that nobody knows")

    async with asyncio.timeout(60), opened(store), lease_keeper.join(adopt):
        while adoptions < 4:
            await asyncio.sleep(0.01)
        await lease_keeper.held.check()


class Slow:
    """Steps whose engine takes its time before it lets work begin."""

    def __init__(self) -> None:
        self.asked, self.go = asyncio.Event(), asyncio.Event()

    async def step(self, key: StepKey, work: Callable[[], Awaitable[Any]]) -> Any:
        """See `Steps.step`."""
        self.asked.set()
        await self.go.wait()
        return await work()


@pytest.mark.parametrize("lost", [True, False])
async def test_a_step_begins_only_if_the_place_was_not_lost_while_the_queue_was_asked(lost: bool) -> None:
    store = TemporaryStore()
    lease_keeper = LeaseKeeper(store, ServiceMetrics(store, lambda: 0), kind="worker", lease=60)
    done: list[str] = []

    async def work() -> str:
        done.append("work")
        return "result"

    async def adopt(orphans: list[Orphan]) -> None:
        raise AssertionError("there is nobody else")

    async with opened(store), lease_keeper.join(adopt):
        slow = Slow()
        active = ActiveSession("s", "ann", ownership=RunOwnership(lease_keeper.held))
        step = asyncio.create_task(OwnedSteps(slow, active).step(StepKey("s", "r", 1), work))
        await slow.asked.wait()
        if lost:
            lease_keeper.evicted.set()
        slow.go.set()
        if lost:
            with pytest.raises(RunLost):
                await step
        else:
            assert await step == "result"
    assert done == ([] if lost else ["work"])


async def response_lines(store: TemporaryStore) -> list[bytes]:
    """What a run writes into the store of its response."""
    async with Service(Engine(Scripted("Hello.")), store=store) as service:
        session = await service.start("Hi")
        assert session.run_id is not None
        await held.to_end(service.follow_run(await service.run(session.run_id)))
    async with opened(stored := store.copy()):  # once the service is closed, all is stored
        pages = await stored.pages(session.run_id, after=0)
    lines = b"".join(page.lines for page in pages).splitlines()
    return [line for line in lines if b'"RESPONSE_FINISHED"' in line]


async def test_responses_keep_their_texts_while_a_process_is_at_work_that_reads_no_others() -> None:
    store = TemporaryStore()
    async with opened(store):
        await store.join(replace(this_process("worker"), about={}))
    (whole,) = await response_lines(store.copy())
    assert b'"text":"Hello."' in whole
    (short,) = await response_lines(TemporaryStore())
    assert b"Hello" not in short
