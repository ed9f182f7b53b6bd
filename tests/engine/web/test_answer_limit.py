"""Requests are answered in time, whatever the store does, and `/ready` says what does not answer."""

from __future__ import annotations

import asyncio

import pytest
from endstop import Engine
from endstop.http.problems import HttpError
from endstop.providers import Scripted, call
from endstop.service.service import Service
from endstop.web import WebLimits
from endstop.web.answer_limit import PATIENCE, answer_in_time

from ..service.stage import Stage
from .site import PATIENCE as LONGEST
from .site import Gate, site


async def test_what_is_answered_at_once_asks_nothing() -> None:
    async def ask() -> list[str]:
        raise AssertionError("asked")

    assert await answer_in_time(asyncio.sleep(0, "answer"), 60, ask) == "answer"


async def test_a_request_is_given_up_while_a_part_is_silent() -> None:
    async def ask() -> list[str]:
        return ["store"]

    with pytest.raises(HttpError) as refused:
        await answer_in_time(asyncio.Event().wait(), 0.01, ask)
    assert (refused.value.status, refused.value.code) == (503, "timeout")
    assert "store" in refused.value.detail
    assert (refused.value.headers or {})["Retry-After"] == "5"


async def test_a_request_that_is_only_slow_gets_several_times_as_long_and_no_more() -> None:
    asked = 0

    async def ask() -> list[str]:
        nonlocal asked
        asked += 1
        return []

    with pytest.raises(HttpError, match="look whether it was done"):
        await answer_in_time(asyncio.Event().wait(), 0.01, ask)
    assert asked == PATIENCE


async def test_a_timeout_of_the_work_itself_is_its_own() -> None:
    async def work() -> None:
        raise TimeoutError("mine")

    with pytest.raises(TimeoutError, match="mine"):
        await answer_in_time(work(), 60, lambda: asyncio.sleep(0, []))


async def test_requests_and_readiness_while_the_store_hangs_and_after() -> None:
    store = Stage()
    service = Service(Engine(Scripted(call("finish_task", summary="Done."))), store=store, grace=0)
    service._readiness._seconds = 0.05
    async with site(service, limits=WebLimits(answer_seconds=0.05)) as at, asyncio.timeout(LONGEST):
        assert (await at.client.get("/ready")).json() == {"status": "ok"}
        held = [store.hold("session", number) for number in range(1, 4)]
        for path in ("/ready", "/sessions/session_a", "/runs/run_a/outcome"):
            answer = await at.client.get(path)
            if path == "/runs/run_a/outcome":
                assert answer.status_code == 404, "it asks for nothing that hangs"
                continue
            assert answer.status_code == 503
            assert answer.headers["retry-after"] == "5"
            assert "store" in answer.json()["detail"]
        assert (await at.client.get("/health")).json()["status"] == "ok", "the process lives"
        for _, go in held:
            go.set()
        while (await at.client.get("/ready")).status_code != 200:
            pass


async def test_a_stream_is_not_ended_by_the_limit() -> None:
    gate = Gate()
    service = Service(Engine(Scripted([gate, "Hello."])), store=Stage(), grace=0)
    async with site(service, limits=WebLimits(answer_seconds=0.01)) as at, asyncio.timeout(LONGEST):
        session = (await at.client.post("/sessions", json={"prompt": "Go"})).json()
        async with at.stream(f"/runs/{session['run_id']}/events") as events:
            iterator = events.__aiter__()
            first = await iterator.__anext__()
            await asyncio.sleep(0.06)
            gate.open()
            kinds = [first.data["type"]] + [event.data["type"] async for event in iterator]
        assert kinds[-1] == "RUN_FINISHED"
