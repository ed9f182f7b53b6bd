"""Whether what a service depends on answers."""

from __future__ import annotations

import asyncio

from endstop import Engine
from endstop.providers import Scripted
from endstop.service.readiness import Readiness
from endstop.service.service import Service
from endstop.store.base import StoreError

from .stage import Stage


async def test_parts_that_fail_or_give_no_answer_are_named() -> None:
    async def answers() -> None:
        pass

    async def fails() -> None:
        raise StoreError("no space left")

    hangs = asyncio.Event()
    readiness = Readiness({"a": answers, "b": fails, "c": hangs.wait}, seconds=0.05)
    assert await readiness.silent_parts() == ["b", "c"]
    readiness.close()


async def test_a_part_that_hangs_is_asked_one_question_however_often_somebody_wants_to_know() -> None:
    asked, go = 0, asyncio.Event()

    async def question() -> None:
        nonlocal asked
        asked += 1
        await go.wait()

    readiness = Readiness({"store": question}, seconds=0.01)
    for _ in range(5):
        assert await readiness.silent_parts() == ["store"]
    assert asked == 1
    go.set()
    async with asyncio.timeout(30):
        while await readiness.silent_parts():
            pass
    assert await readiness.silent_parts() == []
    readiness.close()


async def test_a_service_is_ready_while_its_store_answers_and_its_lease_is_valid() -> None:
    store = Stage()
    async with Service(Engine(Scripted("Hi")), store=store, grace=0) as service:
        assert await service.unready_parts() == []
        store.fail("session", 1)
        assert await service.unready_parts() == ["store"]
        assert await service.unready_parts() == []
        service._lease_keeper.held.valid_until = 0.0
        assert await service.unready_parts() == ["lease"]
