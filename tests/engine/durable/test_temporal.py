"""Temporal: the conformance suite on a server of the tests' own, and what is peculiar to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from endstop.decision import WrongUse
from endstop.durability import Work
from endstop.durable import Job, RunLost, StepKey, Steps
from endstop.durable.temporal import Temporal
from endstop.durable.temporal.worker import LIMIT
from endstop.testing.conformance.durable import Adapter, DurableCase, check

from ...temporal import Server
from .chosen import cases

PATIENCE = 60.0
LEASE = 15.0
SHORT_LEASE = 3.0
"""For cases that can wait for the end of one: a frozen process may be given the run that is taken from it."""


@pytest.mark.parametrize("case", cases())
async def test_the_conformance_suite(case: DurableCase, temporal: Server) -> None:
    lease = SHORT_LEASE if "freezing" in case.needs else LEASE
    adapter = Adapter(
        make="endstop.durable.temporal:Temporal",
        arguments={"address": temporal.address, "namespace": temporal.namespace(), "lease": lease},
        away={"address": "127.0.0.1:1"},
    )
    await check(case, adapter)


class Runs:
    """What the work of a test's runs did."""

    def __init__(self) -> None:
        self.worked: list[str] = []
        self.ended: list[str] = []
        self.gates: dict[str, asyncio.Event] = {}

    def gate(self, name: str) -> asyncio.Event:
        return self.gates.setdefault(name, asyncio.Event())

    async def step(self, steps: Steps, number: int, name: str, *, gate: str = "") -> Any:
        async def work() -> str:
            self.worked.append(name)
            if gate:
                await self.gate(gate).wait()
            return name

        return await steps.step(StepKey("session", "run", number), work)

    async def until(self, seen: Callable[[], Any]) -> None:
        with anyio.fail_after(PATIENCE):
            while not seen():
                await asyncio.sleep(0.01)


@asynccontextmanager
async def opened(server: Server, namespace: str, lease: float = LEASE) -> AsyncIterator[Temporal]:
    queue = Temporal(server.address, namespace=namespace, lease=lease)
    await queue.open()
    try:
        yield queue
    finally:
        await queue.close()


def job(run: str = "run") -> Job:
    return Job(run_id=run, session_id="session", agent="agent", opening="prompt", text="go")


async def _done_once(queue: Temporal, runs: Runs, work: Work) -> None:
    async def counted(job: Job, steps: Steps) -> None:
        await work(job, steps)
        runs.ended.append(job.run_id)

    await queue.submit(job())
    async with queue.working("here", counted, at_once=1):
        await runs.until(lambda: runs.ended)


async def test_a_run_of_many_steps_leaves_a_history_as_short_as_that_of_one_step(temporal: Server) -> None:
    runs, namespace = Runs(), temporal.namespace()

    async def work(job: Job, steps: Steps) -> None:
        for number in range(1, 41):
            await runs.step(steps, number, str(number))

    async with opened(temporal, namespace) as queue:
        await _done_once(queue, runs, work)
    assert len(runs.worked) == 40

    from temporalio.client import Client

    client = await Client.connect(temporal.address, namespace=namespace)
    assert (await client.get_workflow_handle("run").describe()).history_length <= 11


async def test_the_largest_result_is_kept_beside_as_many_small_ones_as_go_with_it(temporal: Server) -> None:
    runs = Runs()

    async def work(job: Job, steps: Steps) -> None:
        for number in range(1, 11):
            key = StepKey("session", "run", 1, str(number))
            await asyncio.gather(*(_same(steps, key, f"{number}.{call}") for call in range(200)))
        await _same(steps, StepKey("session", "run", 2), "x" * (LIMIT - 200))
        await runs.step(steps, 3, "three")

    async with opened(temporal, temporal.namespace()) as queue:
        await _done_once(queue, runs, work)
    assert runs.worked == ["three"]


async def _same(steps: Steps, key: StepKey, value: str) -> None:
    async def work() -> str:
        return value

    assert await steps.step(StepKey(key.session, key.run, key.step, key.call + value[:20]), work) == value


@pytest.mark.long
async def test_a_dead_process_is_found_out_by_the_lease_alone_and_what_it_kept_is_there(temporal: Server) -> None:
    runs = Runs()

    async def work(job: Job, steps: Steps) -> None:
        await runs.step(steps, 1, "one")
        await runs.step(steps, 2, "two", gate="never" if len(runs.worked) == 1 else "")
        runs.ended.append(job.run_id)

    async with opened(temporal, temporal.namespace(), lease=1.0) as queue:
        await queue.submit(job())
        async with queue.working("first", work, at_once=1):
            await runs.until(lambda: "two" in runs.worked)
        async with queue.working("second", work, at_once=1):
            await runs.until(lambda: runs.ended)
    assert runs.worked == ["one", "two", "two"]


async def test_work_that_says_that_another_process_has_the_run_is_asked_again_later(temporal: Server) -> None:
    """The store may hold the run for a process that is dead and not given up yet: the queue must not forget it."""
    runs = Runs()

    async def work(job: Job, steps: Steps) -> None:
        runs.worked.append(job.run_id)
        if len(runs.worked) == 1:
            raise RunLost("the store says so")

    async with opened(temporal, temporal.namespace(), lease=1.0) as queue:
        await _done_once(queue, runs, work)
    assert runs.worked == ["run", "run"]


@pytest.mark.long
async def test_a_result_that_was_kept_survives_a_server_that_is_killed_at_once(temporal: Server) -> None:
    runs = Runs()

    async def work(job: Job, steps: Steps) -> None:
        await runs.step(steps, 1, "one")
        if not runs.ended:
            await asyncio.to_thread(temporal.kill)  # before the event loop can send anything more
            runs.ended.append("killed")
            await asyncio.Event().wait()
        runs.ended.append("again")

    async with opened(temporal, temporal.namespace(), lease=1.0) as queue:
        await queue.submit(job())
        try:
            async with queue.working("first", work, at_once=1):
                await runs.until(lambda: runs.ended)
        finally:
            temporal.start()
        async with queue.working("second", work, at_once=1):
            await runs.until(lambda: "again" in runs.ended)
    assert runs.worked == ["one"]


@pytest.mark.long
@pytest.mark.parametrize("lease", [LEASE, 1.0], ids=["for less than a lease", "for longer than a lease"])
async def test_a_run_waits_for_a_server_that_is_away_and_goes_on(temporal: Server, lease: float) -> None:
    """The step that ended meanwhile does not happen again, even if the server has taken this process for dead."""
    runs, taken = Runs(), []

    async def work(job: Job, steps: Steps) -> None:
        taken.append(job.run_id)
        assert await runs.step(steps, 1, "one", gate="away") == "one"
        assert await runs.step(steps, 2, "two") == "two"
        runs.ended.append(job.run_id)

    async with opened(temporal, temporal.namespace(), lease=lease) as queue:
        await queue.submit(job())
        async with queue.working("here", work, at_once=1):
            await runs.until(lambda: runs.worked)
            await asyncio.to_thread(temporal.kill)
            try:
                runs.gate("away").set()
                await asyncio.sleep(1.5)
                assert not runs.ended
            finally:
                await asyncio.to_thread(temporal.start)
            await runs.until(lambda: runs.ended)
    assert (runs.worked, taken) == (["one", "two"], ["run"])


async def test_a_run_that_was_dropped_and_submitted_again_in_its_own_process_begins_anew(temporal: Server) -> None:
    runs = Runs()

    async def work(job: Job, steps: Steps) -> None:
        try:
            await runs.step(steps, 1, "one", gate="drop")
            await runs.step(steps, 2, "two")
        except RunLost:
            runs.ended.append("lost")
            raise
        runs.ended.append("done")

    async with opened(temporal, temporal.namespace()) as queue:
        await queue.submit(job())
        async with queue.working("here", work, at_once=2):
            await runs.until(lambda: runs.worked)
            await queue.drop("run")
            await queue.submit(job())
            runs.gate("drop").set()
            await runs.until(lambda: "done" in runs.ended)
    assert (runs.worked, runs.ended) == (["one", "one", "two"], ["lost", "done"])


async def test_a_workflow_that_no_process_could_close_is_cleared_away_by_the_next_submit(temporal: Server) -> None:
    runs = Runs()

    async def work(job: Job, steps: Steps) -> None:
        runs.ended.append(job.run_id)

    async with opened(temporal, temporal.namespace()) as queue:
        for times in (1, 2, 3):
            await queue.submit(job())
            async with queue.working(f"process-{times}", work, at_once=1):
                await runs.until(lambda times=times: len(runs.ended) == times)  # type: ignore[misc]
                await asyncio.sleep(0.05)  # for the word that it has ended; most times not for its workflow
    assert runs.ended == ["run"] * 3


def _opening(**arguments: Any) -> Awaitable[None]:
    return Temporal(**arguments).open()


async def test_a_namespace_that_is_not_there_is_wrong_use_and_says_how_to_make_it(temporal: Server) -> None:
    with pytest.raises(WrongUse, match=r"namespace 'nowhere'.*`temporal operator namespace create`"):
        await _opening(address=temporal.address, namespace="nowhere")


async def test_a_server_that_is_away_is_named_when_something_is_asked_of_it() -> None:
    with pytest.raises(ConnectionError, match=r"no Temporal server answers at 127\.0\.0\.1:1: start it"):
        await _opening(address="127.0.0.1:1")


async def test_a_job_that_is_too_large_is_refused_before_it_is_sent(temporal: Server) -> None:
    large = Job(run_id="run", session_id="session", agent="agent", opening="prompt", text="x" * 2_000_000)
    async with opened(temporal, temporal.namespace()) as queue:
        with pytest.raises(WrongUse, match=r"run has 2,000,\d+ bytes"):
            await queue.submit(large)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"address": "localhost"}, "HOST:PORT"),
        ({"address": "http://localhost:7233"}, "HOST:PORT"),
        ({"namespace": " "}, "namespace"),
        ({"task_queue": ""}, "task_queue"),
        ({"lease": 0.5}, "from 1 to 3600"),
        ({"lease": float("nan")}, "from 1 to 3600"),
    ],
)
def test_what_can_never_work_is_refused_when_it_is_made(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(WrongUse, match=said):
        Temporal(**arguments)


async def test_nothing_is_asked_of_a_queue_that_is_not_open() -> None:
    with pytest.raises(WrongUse, match="not open"):
        await Temporal().submit(job())


def test_without_the_driver_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("endstop.durable.temporal.queue.find_spec", lambda name: None)
    with pytest.raises(WrongUse, match=r'pip install "endstop\[temporal\]"'):
        Temporal()
