"""One answer to who holds a run: the store's, asked through the claim of whoever executes it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from time import monotonic
from typing import Any

import pytest
from endstop import Engine, tool
from endstop.durability import RunLost, StepKey
from endstop.providers import Scripted, call
from endstop.service.membership import LeaseKeeper
from endstop.service.ownership import HeldLease, RunOwnership
from endstop.service.service import Service
from endstop.service.service_metrics import ServiceMetrics
from endstop.store.base import Orphan
from endstop.tools import finish_task

from .. import held
from ..temporary_store import TemporaryStore, opened
from .stage import Stage
from .test_losing import PATIENCE, Queue, Steps

LOOK = call("look", path="a")
FINISH = call("finish_task", summary="The port is 8080.")


def a_lease(seconds: float = 60.0) -> HeldLease:
    lease = HeldLease("process_1")
    lease.valid_until = monotonic() + seconds
    return lease


async def test_a_run_that_is_lost_stays_lost_and_says_why_it_was_first() -> None:
    ownership = RunOwnership(a_lease())
    await ownership.check()
    assert not ownership.lost
    assert str(ownership.lose("another process has it")) == "another process has it"
    ownership.lose("this process is stopping")
    for _ in range(2):
        with pytest.raises(RunLost, match="another process has it"):
            await ownership.check()
        with pytest.raises(RunLost, match="another process has it"):
            ownership.raise_if_lost()


async def test_a_run_whose_end_is_stored_cannot_be_lost() -> None:
    for given_up_before in (True, False):
        ownership = RunOwnership(a_lease())
        if given_up_before:
            ownership.lose("this process is stopping")
        ownership.release()
        ownership.lose("this process is stopping")
        assert not ownership.lost
        await ownership.check()


async def test_nobody_is_sure_of_a_run_while_the_lease_may_be_over() -> None:
    """The store may be unreachable for all: that alone loses no run."""
    lease = a_lease(seconds=-1)
    ownership = RunOwnership(lease)
    checking = asyncio.create_task(ownership.check())
    done, _ = await asyncio.wait((checking,), timeout=0.05)
    assert not done
    lease.valid_until = monotonic() + 60
    await asyncio.wait_for(checking, PATIENCE)
    lease.valid_until = monotonic() - 1
    checking = asyncio.create_task(ownership.check())
    lease.evicted.set()
    with pytest.raises(RunLost, match="taken for dead"):
        await asyncio.wait_for(checking, PATIENCE)
    assert ownership.lost


async def test_what_a_process_held_before_it_was_evicted_is_lost_also_when_it_has_joined_again() -> None:
    async def adopt(orphans: list[Orphan]) -> None:
        raise AssertionError("there is nobody else")

    store = TemporaryStore()
    lease_keeper = LeaseKeeper(store, ServiceMetrics(store, lambda: 0), kind="worker", lease=60)
    async with opened(store):
        async with lease_keeper.join(adopt) as first:
            before = RunOwnership(lease_keeper.held)
            await store.evict(first.id, even_alive=True)
            lease_keeper.renew_now()
            await asyncio.wait_for(lease_keeper.evicted.wait(), PATIENCE)
        async with lease_keeper.join(adopt):
            assert not lease_keeper.evicted.is_set()
            await RunOwnership(lease_keeper.held).check()
            with pytest.raises(RunLost, match="taken for dead"):
                await before.check()


@asynccontextmanager
async def executed() -> AsyncIterator[tuple[Service, Queue, held.Held, asyncio.Task[None]]]:
    """A service with one run in its queue, and the execution of the run, which waits for its model."""
    queue, model = Queue(), held.Held()
    async with (
        asyncio.timeout(PATIENCE),
        Service(model.engine(LOOK, FINISH, FINISH), store=Stage(), queue=queue, grace=0) as service,
    ):
        await service.start("Set the port")
        first = asyncio.create_task(queue.work(queue.jobs[0], Steps()))
        await model.called.wait()
        yield service, queue, model, first


async def test_a_run_that_the_queue_gives_to_the_same_process_again_is_lost_to_who_had_it_there() -> None:
    """The queue knows nothing of that: no `Steps` raise. The store's token tells the two executions apart."""
    async with executed() as (service, queue, model, first):
        (job,) = queue.jobs
        token = (await service.session(job.session_id)).token
        second = asyncio.create_task(queue.work(job, Steps()))
        with pytest.raises(RunLost, match="gave the run to this process again"):
            await first
        model.go.set()
        await second
        session = await service.session(job.session_id)
        assert (session.status, session.holder) == ("completed", None)
        assert session.token == token + 1
        run = await service.run(job.run_id)
        assert held.seqs(await held.to_end(service.follow_run(run))) == list(range(1, run.last_seq + 1))
        assert len(run.resumed_at) == 1


async def test_of_three_executions_in_one_process_the_last_one_goes_on() -> None:
    async with executed() as (service, queue, model, first):
        (job,) = queue.jobs
        executions = {first, *(asyncio.create_task(queue.work(job, Steps())) for _ in range(2))}
        going_on = executions
        while len(going_on) > 1:
            _, going_on = await asyncio.wait(going_on, return_when=asyncio.FIRST_COMPLETED)
        model.go.set()
        ends = await asyncio.gather(*executions, return_exceptions=True)
        assert [type(end) for end in ends].count(RunLost) == 2
        assert [end for end in ends if end is None] == [None]
        assert (await service.run(job.run_id)).status == "completed"


class Refusing:
    """Steps of a queue that has given the run to another process: each raises RunLost once its work is done."""

    async def step(self, key: StepKey, work: Callable[[], Awaitable[Any]]) -> Any:
        await work()
        raise RunLost("the queue has given it to another process")


async def test_what_the_queue_refuses_to_keep_of_a_run_that_is_ours_is_recorded_and_done_once() -> None:
    """Nobody else can have begun: the run is given up before the next step, and goes on after what was done."""
    store, queue, model = Stage(), Queue(), Scripted(LOOK, FINISH)
    called: list[str] = []

    @tool
    async def look(path: str) -> str:
        "Look at a file, and leave a mark."
        called.append(path)
        return "port = 80"

    engine = Engine(model, tools=[look], presets=[finish_task])
    async with asyncio.timeout(PATIENCE), Service(engine, store=store, queue=queue, grace=0) as service:
        await service.start("Set the port")
        (job,) = queue.jobs
        for done in (0, 1):
            with pytest.raises(RunLost, match="given it to another process"):
                await queue.work(job, Refusing())
            assert (await service.session(job.session_id)).status == "queued"
            assert (len(model.sent), len(called)) == (1, done), "one step, whose result is kept by the record alone"
        await queue.work(job, Steps())
        assert (await service.run(job.run_id)).status == "completed"
        assert (len(model.sent), called) == (2, ["a"])


async def test_what_the_queue_refuses_of_a_run_that_is_lost_is_used_nowhere() -> None:
    store, queue, model = Stage(), Queue(), Scripted(LOOK, LOOK, FINISH)
    async with (
        asyncio.timeout(PATIENCE),
        Service(Engine(model, tools=[held.Held().tool], presets=[finish_task]), store=store, queue=queue) as service,
    ):
        await service.start("Set the port")
        (job,) = queue.jobs

        async def lost() -> None:
            (active,) = service._active_sessions
            active.ownership.lose("this process was taken for dead")

        with pytest.raises(RunLost, match="taken for dead"):
            await queue.work(job, Steps(lost))
        lines = b"".join([piece async for piece in service.record(await service.session(job.session_id))])
        assert b"RESPONSE_FINISHED" not in lines
