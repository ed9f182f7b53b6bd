"""Runs that wait for long are submitted again only if the queue has lost them."""

from __future__ import annotations

import asyncio

import pytest
from endstop import Engine
from endstop.decision import WrongUse
from endstop.providers import Scripted
from endstop.service.dispatch import QueueDispatcher
from endstop.service.service import Service

from .kept_jobs import Queue
from .stage import Stage


async def test_a_run_that_the_queue_keeps_is_left_alone_and_one_that_it_lost_is_submitted_again() -> None:
    queue = Queue()
    async with asyncio.timeout(60), Service(Engine(Scripted()), store=Stage(), queue=queue, works=False) as service:
        kept, lost = [await service.start("Look", owner=owner) for owner in ("ann", "bob")]
        dispatcher = service._dispatcher
        assert isinstance(dispatcher, QueueDispatcher)
        (job,) = (job for job in queue.jobs if job.session_id == lost.id)
        queue.jobs.remove(job)
        await dispatcher.resubmit_lost(0.0)
        assert queue.recovered == [job.run_id]
        assert [(one.session_id, one.owner) for one in queue.jobs] == [(kept.id, "ann"), (lost.id, "bob")]
        await dispatcher.resubmit_lost(0.0)
        assert queue.recovered == [job.run_id]


def test_a_limit_for_each_owner_beside_a_queue_is_told_where_it_belongs() -> None:
    with pytest.raises(WrongUse, match=r"give the limit to the queue of the workers, as in Dbos"):
        Service(Engine(Scripted()), store=Stage(), queue=Queue(), max_running_each=1)
