"""A provider that is away: a run in a service waits for it, and can be resumed where it has waited in vain."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from endstop import Engine, this_call, tool
from endstop.providers import ProviderError, Retry, Scripted, Unauthorized, Unreachable, call
from endstop.service.service import Service
from endstop.testing import FakeClock, MemorySteps
from endstop.tools import finish_task

from ..temporary_store import TemporaryStore
from .kept_jobs import Queue

WAIT = 300.0
FINISH = call("finish_task", summary="The port is 8080.")


class Provider:
    """Answers with its responses, one a request, and with `error` while it is away."""

    def __init__(self, *responses: Any, error: ProviderError | None = None) -> None:
        self.away = False
        self.clock = FakeClock()
        self.scripted = Scripted(self._response)
        self._error = error or Unreachable("refused")
        self._responses = list(responses)

    def _response(self, request: Any) -> Any:
        return self._error if self.away else self._responses.pop(0)

    def patient(self, seconds: float = WAIT) -> Retry:
        """The provider as `endstop serve` has it, on a clock that stands still."""
        return Retry(self.scripted, times=2, provider_wait=seconds, clock=self.clock, seed=1)


class Work:
    """A tool that counts its calls by their keys, and takes the provider away with the first."""

    def __init__(self, provider: Provider) -> None:
        self.calls: Counter[str] = Counter()

        @tool(reads=False)
        async def work(n: int) -> str:
            "Work."
            self.calls[this_call().key] += 1
            provider.away = True
            return f"done {n}"

        self.tool = work


class Place:
    """A service, with its runs in this process or on a queue."""

    def __init__(self, service: Service, queue: Queue | None) -> None:
        self.service = service
        self.queue = queue
        self._working: list[asyncio.Task[None]] = []
        self._steps = MemorySteps()

    def take(self) -> None:
        """Let a worker take what is queued."""
        while self.queue is not None and self.queue.jobs:
            job = self.queue.jobs.pop(0)
            self._working.append(asyncio.create_task(self.queue.work(job, self._steps)))

    async def until(self, is_so: Callable[[Any], bool], session_id: str, clock: FakeClock, seconds: float = 1) -> Any:
        """The session once it is so; time passes in steps of so many seconds until then."""
        async with asyncio.timeout(60):
            while not is_so(session := await self.service.session(session_id)):
                await clock.advance(seconds)
                await asyncio.sleep(0.002)
        return session

    async def close(self) -> None:
        """End what works on the queue."""
        for task in self._working:
            task.cancel()
        await asyncio.gather(*self._working, return_exceptions=True)


@asynccontextmanager
async def place(engine: Engine, queued: bool) -> AsyncIterator[Place]:
    queue = Queue() if queued else None
    async with Service(engine, store=TemporaryStore(), queue=queue, grace=0) as service:
        here = Place(service, queue)
        try:
            yield here
        finally:
            await here.close()


def ended_as(*statuses: str) -> Callable[[Any], bool]:
    return lambda session: session.status in statuses


def has_ended(session: Any) -> bool:
    return session.status not in ("queued", "running")


@pytest.fixture(params=[False, True], ids=["here", "queued"])
def queued(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def engine_of(provider: Provider, work: Work, seconds: float = WAIT) -> Engine:
    return Engine(provider.patient(seconds), tools=[work.tool], presets=[finish_task])


async def test_a_run_outlives_a_provider_that_is_away_for_a_minute_and_no_call_runs_twice(queued: bool) -> None:
    provider = Provider(call("work", n=1), call("work", n=2), FINISH)
    work = Work(provider)
    async with place(engine_of(provider, work), queued) as here:
        session = await here.service.start("Set the port")
        here.take()
        await here.until(lambda _: provider.away, session.id, provider.clock, 0)
        began = provider.clock.now()
        await here.until(lambda _: provider.clock.now() - began >= 60, session.id, provider.clock)
        assert (await here.service.session(session.id)).status == "running"
        provider.away = False
        await here.until(lambda _: len(work.calls) == 2, session.id, provider.clock)
        provider.away = False
        session = await here.until(has_ended, session.id, provider.clock)
    assert session.status == "completed"
    assert list(work.calls.values()) == [1, 1]


async def test_a_run_that_waits_in_vain_is_interrupted_and_goes_on_when_it_is_resumed(queued: bool) -> None:
    provider = Provider(call("work", n=1), FINISH)
    work = Work(provider)
    async with place(engine_of(provider, work), queued) as here:
        session = await here.service.start("Set the port")
        here.take()
        await here.until(lambda _: provider.away, session.id, provider.clock, 0)
        began = provider.clock.now()
        session = await here.until(has_ended, session.id, provider.clock)
        assert provider.clock.now() - began == pytest.approx(WAIT, abs=20)
        assert (session.status, session.runs) == ("interrupted", 1)
        assert "the provider was away: refused" in (session.trouble or "")
        provider.away = False
        resumed = await here.service.resume(session.id)
        assert resumed.run_id == session.run_id
        here.take()
        session = await here.until(ended_as("completed", "failed"), session.id, provider.clock)
        outcome = await here.service.outcome(session.run_id or "", wait=10)
    assert (session.status, outcome.answer) == ("completed", "The port is 8080.")
    assert list(work.calls.values()) == [1]


async def test_one_that_is_away_again_is_waited_for_again(queued: bool) -> None:
    provider = Provider(call("work", n=1), FINISH)
    async with place(engine_of(provider, Work(provider)), queued) as here:
        session = await here.service.start("Set the port")
        for _ in range(3):
            here.take()
            session = await here.until(ended_as("interrupted"), session.id, provider.clock)
            await here.service.resume(session.id)
            here.take()
            await here.until(ended_as("running"), session.id, provider.clock, 0)
        provider.away = False
        session = await here.until(ended_as("completed", "failed"), session.id, provider.clock)
    assert session.status == "completed"


async def test_a_cancel_ends_the_wait_at_once(queued: bool) -> None:
    provider = Provider(call("work", n=1), FINISH)
    async with place(engine_of(provider, Work(provider)), queued) as here:
        session = await here.service.start("Set the port")
        here.take()
        await here.until(lambda _: len(provider.scripted.requests) > 3, session.id, provider.clock)
        stood = provider.clock.now()
        await here.service.cancel(session.id)
        session = await here.until(has_ended, session.id, provider.clock, 0)
        assert (session.status, provider.clock.now()) == ("cancelled", stood)


async def test_a_service_that_stops_does_not_wait_for_the_provider() -> None:
    provider = Provider(call("work", n=1), FINISH)
    store = TemporaryStore()
    async with Service(engine_of(provider, Work(provider)), store=store, grace=0) as service:
        session = await service.start("Set the port")
        here = Place(service, None)
        await here.until(lambda _: len(provider.scripted.requests) > 3, session.id, provider.clock)
        stood = provider.clock.now()
    assert provider.clock.now() == stood
    async with Service({}, store=store) as again:
        assert (await again.session(session.id)).status == "cancelled"


async def test_who_is_refused_is_not_waited_for_and_fails(queued: bool) -> None:
    provider = Provider(call("work", n=1), FINISH, error=Unauthorized("the key is wrong"))
    async with place(engine_of(provider, Work(provider)), queued) as here:
        session = await here.service.start("Set the port")
        here.take()
        session = await here.until(has_ended, session.id, provider.clock, 0)
    assert (session.status, session.stop_reason, provider.clock.now()) == ("failed", "provider_error", 0)


async def test_a_provider_that_a_sub_agent_waits_for_in_vain_interrupts_the_session_that_runs_it() -> None:
    provider = Provider(call("help", prompt="look"), call("work", n=1), call("finish_task", summary="looked"), FINISH)
    work = Work(provider)
    helper = engine_of(provider, work).as_tool("help", "Help.")
    engine = Engine(provider.patient(), tools=[helper], presets=[finish_task])
    async with place(engine, False) as here:
        session = await here.service.start("Set the port")
        session = await here.until(ended_as("interrupted", "failed", "completed"), session.id, provider.clock)
        assert session.status == "interrupted"
        provider.away = False
        await here.service.resume(session.id)
        session = await here.until(ended_as("completed", "failed"), session.id, provider.clock)
    assert session.status == "completed"
    assert list(work.calls.values()) == [1]


async def test_outside_of_a_service_a_run_ends_with_the_error_as_before() -> None:
    provider = Provider()
    provider.away = True
    outcome = await Engine(Retry(provider.scripted, times=0), presets=[finish_task]).run("Set the port")
    assert (outcome.status, outcome.stop_reason) == ("failed", "provider_error")
    assert len(provider.scripted.requests) == 1
