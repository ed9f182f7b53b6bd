"""Runs that this process loses: nothing of them is written any more, and nothing of them stays in the way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from endstop.durable import Job, RunLost, StepKey
from endstop.providers import call
from endstop.service import supervisor
from endstop.service.service import Service
from endstop.store.base import SequenceConflict, SessionLocked, StoreError
from endstop.testing import settle
from msgspec import structs

from .. import held
from .kept_jobs import Queue
from .stage import Stage

FINISH = call("finish_task", summary="The port is 8080.")
PATIENCE = 60.0


class Steps:
    """Steps without an engine; `lost` is awaited after the first one's work, and then the run is somebody else's."""

    def __init__(self, lost: Callable[[], Awaitable[object]] | None = None) -> None:
        self._lost = lost

    async def step(self, key: StepKey, work: Callable[[], Awaitable[Any]]) -> Any:
        result = await work()
        if self._lost is not None:
            await self._lost()
            raise RunLost("somebody else has it")
        return result


@asynccontextmanager
async def working(store: Stage) -> AsyncIterator[tuple[Service, Queue, Job]]:
    """A worker with one run that waits."""
    queue = Queue()
    engine = held.Held().engine(FINISH, FINISH, FINISH)
    async with asyncio.timeout(PATIENCE), Service(engine, store=store, queue=queue, grace=0) as service:
        await service.start("Set the port")
        yield service, queue, queue.jobs[0]


async def completes(service: Service, queue: Queue, job: Job) -> None:
    """The run, taken once more, goes on to its end, and its events are whole."""
    await queue.work(job, Steps())
    run = await service.run(job.run_id)
    assert run.status == "completed"
    portions = await held.to_end(service.follow_run(run))
    assert held.seqs(portions) == list(range(1, run.last_seq + 1))


async def test_a_run_that_was_about_to_begin_when_its_worker_was_cancelled_is_not_in_the_way() -> None:
    store = Stage()
    async with working(store) as (service, queue, job):
        came, go = store.hold("undelivered_messages")
        doing = asyncio.create_task(queue.work(job, Steps()))
        await came.wait()
        doing.cancel()
        go.set()
        await asyncio.wait((doing,))
        assert len(service._active_sessions) == 0
        await completes(service, queue, job)


async def test_a_run_that_was_about_to_begin_when_all_were_given_up_does_not_begin() -> None:
    store = Stage()
    async with working(store) as (service, queue, job):
        came, go = store.hold("undelivered_messages")
        doing = asyncio.create_task(queue.work(job, Steps()))
        await came.wait()
        (active,) = service._active_sessions
        active.give_up("this process was taken for dead")
        go.set()
        with pytest.raises(RunLost, match="taken for dead"):
            await doing
        assert (await service.run(job.run_id)).last_seq == 0
        await completes(service, queue, job)


async def test_a_lost_run_rests_only_once_what_it_had_handed_to_the_store_is_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else who goes on with it, in the same process, would be told that the store has other events already."""
    monkeypatch.setattr(supervisor, "FLUSH_INTERVAL", 0.001)
    store = Stage()
    holds: list[tuple[asyncio.Event, asyncio.Event]] = []

    async def handed_in() -> None:
        holds.append(store.hold("commit"))
        await holds[0][0].wait()

    async with working(store) as (service, queue, job):
        doing = asyncio.create_task(queue.work(job, Steps(handed_in)))
        while not (holds and holds[0][0].is_set()):
            await settle(1)
        await settle()
        assert not doing.done()
        assert len(service._active_sessions) == 1
        holds[0][1].set()
        with pytest.raises(RunLost):
            await doing
        await completes(service, queue, job)


@pytest.mark.parametrize(
    "error", [SessionLocked("it is held by another process"), SequenceConflict("what is stored goes on")]
)
async def test_a_run_that_the_store_knows_to_be_somebody_elses_is_lost_and_waits_for_no_store(
    error: StoreError,
) -> None:
    store = Stage()
    async with working(store) as (service, queue, job):
        store.fail("commit", 2, error=error)
        with pytest.raises(RunLost, match=str(error)):
            await queue.work(job, Steps())
        assert (await service.session(job.session_id)).status == "queued"
        await completes(service, queue, job)


async def test_without_a_queue_such_a_run_is_interrupted_and_says_why() -> None:
    store = Stage()
    async with asyncio.timeout(PATIENCE), Service(held.Held().engine(FINISH), store=store, grace=0) as service:
        store.fail("commit", 2, error=SequenceConflict("what is stored goes on"))
        session = await service.start("Set the port")
        while len(service._active_sessions):
            await settle(1)
        stored = await service.session(session.id)
        assert (stored.status, stored.trouble) == ("interrupted", "what is stored goes on")
        resumed = await service.resume(session.id)
        outcome = await service.outcome(resumed.run_id or "", wait=PATIENCE)
        assert outcome is not None
        assert outcome.status == "completed"


async def test_the_queue_forgets_runs_that_are_over_and_none_that_was_set_aside() -> None:
    async with working(Stage()) as (service, queue, job):
        await queue.work(structs.replace(job, agent="of another deploy"), Steps())
        assert (await service.session(job.session_id)).status == "interrupted"
        over = await service.start("Set another port")
        for _ in range(2):  # the second time it is over, by whomever
            await queue.work(queue.jobs[-1], Steps())
    assert queue.dropped == [over.run_id, over.run_id]
