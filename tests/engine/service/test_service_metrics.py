"""Metrics of a service: the store is asked seldom, and nobody waits for it long; runs are counted where they run."""

from __future__ import annotations

import asyncio

import pytest
from endstop import Engine
from endstop.providers import Scripted, call
from endstop.service import readiness, service_metrics
from endstop.service.service import Service
from endstop.service.service_metrics import PUT_BACK, START_SECONDS, OverviewReader
from endstop.store.base import Overview, StoreError
from endstop.tools import finish_task

from ...prometheus_format import Exposition, read
from ..temporary_store import TemporaryStore, opened
from .test_provider_away import FINISH, has_ended, place


class Asked(TemporaryStore):
    """A store that counts how often it is asked, and hangs or fails where a test wants it."""

    def __init__(self) -> None:
        super().__init__()
        self.times = 0
        self.answering = asyncio.Event()
        self.answering.set()
        self.error: Exception | None = None

    async def overview(self) -> Overview:
        self.times += 1
        await self.answering.wait()
        if self.error is not None:
            raise self.error
        return await super().overview()


async def shown(service: Service) -> Exposition:
    return read(await service.metrics.current_text())


async def test_the_store_is_asked_once_for_all_who_ask_within_some_seconds() -> None:
    store = Asked()
    async with opened(store):
        reader = OverviewReader(store)
        answers = await asyncio.gather(*(reader.read() for _ in range(20)))
        assert None not in answers
        assert await reader.read() is answers[0]
        assert store.times == 1


async def test_a_store_that_hangs_is_waited_for_briefly_and_its_numbers_are_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(readiness, "ANSWER_SECONDS", 0.01)
    monkeypatch.setattr(service_metrics, "FRESH_SECONDS", 0.0)
    monkeypatch.setattr(service_metrics, "SHARE", 0)
    store = Asked()
    async with Service({}, store=store) as service:
        monkeypatch.setattr(readiness, "ANSWER_SECONDS", 60.0)
        assert (await shown(service)).value("endstop_store_reachable") == 1
        monkeypatch.setattr(readiness, "ANSWER_SECONDS", 0.01)
        store.answering.clear()
        for _ in range(3):
            seen = await shown(service)
            assert seen.value("endstop_store_reachable") == 0
            assert not {"endstop_sessions", "endstop_processes", "endstop_oldest_queued_seconds"} & set(seen.kinds)
            assert seen.value("endstop_running_sessions") == 0
        assert store.times == 2  # nobody asks again while the store has not answered
        store.answering.set()
        monkeypatch.setattr(readiness, "ANSWER_SECONDS", 60.0)
        assert (await shown(service)).value("endstop_store_reachable") == 1
        store.error = StoreError("no space left")
        assert (await shown(service)).value("endstop_store_reachable") == 0


@pytest.mark.parametrize("queued", [False, True], ids=["here", "queued"])
async def test_runs_are_counted_where_they_run_and_their_wait_in_the_queue_too(queued: bool) -> None:
    engine = Engine(Scripted(lambda request: FINISH), presets=(finish_task,))
    async with place(engine, queued) as here:
        for _ in range(3):
            session = await here.service.start("Set the port")
            here.take()
            async with asyncio.timeout(60):
                while not has_ended(await here.service.session(session.id)):
                    await asyncio.sleep(0.002)
        seen = await shown(here.service)
    assert seen.value("endstop_runs_ended_total", status="completed", reason="completed") == 3
    assert seen.value("endstop_runs_started_total", how="new") == 3
    assert seen.value("endstop_step_seconds_count") == 3
    assert seen.value("endstop_provider_attempts_total", result="ok") == 3
    assert here.service.metrics.histogram(START_SECONDS).count == (3 if queued else 0)


async def test_runs_that_the_queue_has_lost_are_counted_as_put_back() -> None:
    async with place(Engine(Scripted()), queued=True) as here:
        for _ in range(5):
            await here.service.start("Wait")
        assert here.queue is not None
        del here.queue.jobs[:4]
        await here.service._dispatcher.resubmit_lost(0.0)  # type: ignore[union-attr]
        assert here.service.metrics.values(PUT_BACK) == {("waiting",): 4}


async def test_a_write_that_the_store_does_not_take_is_counted() -> None:
    store = TemporaryStore()
    commit, failing = store.commit, [2]

    async def fails_twice(batch: object) -> int:
        if failing[0]:
            failing[0] -= 1
            raise StoreError("no space left")
        return await commit(batch)  # type: ignore[arg-type]

    engine = Engine(Scripted([call("finish_task", summary="Done.")]), presets=(finish_task,))
    async with Service(engine, store=store, grace=0) as service:
        store.commit = fails_twice  # type: ignore[method-assign]
        with pytest.raises(StoreError):
            await service.start("Set the port")
        assert (await shown(service)).value("endstop_failed_writes_total") >= 1
