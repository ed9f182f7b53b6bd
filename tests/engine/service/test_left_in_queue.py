"""What a process that died has left in the queue of runs that are over is found, and deleted there."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from endstop import Engine
from endstop.durable import GivenRun
from endstop.durable.dbos import Dbos
from endstop.providers import Scripted
from endstop.service import lifecycle
from endstop.service.dispatch import QueueDispatcher
from endstop.service.service import Service
from endstop.store.base import SessionStatus
from sqlalchemy import create_engine, text

from ...captured_logs import capture_logs
from ...console import python_in_fork
from ...forked import Started
from .halting import HALT
from .kept_jobs import Queue
from .stage import Stage

HALTING = Path(__file__).with_name("halting.py")
SECONDS = 60.0
DELETED = "deleted from the queue what dead processes had left there"


async def until(what: Callable[[], Awaitable[Any]]) -> Any:
    """What this gives, once it gives something true."""
    async with asyncio.timeout(SECONDS):
        while not (found := await what()):
            await asyncio.sleep(0.02)
        return found


class Place:
    """A store and a queue of DBOS, both in a file of SQLite each or in one database of PostgreSQL."""

    def __init__(self, place: str, folder: Path) -> None:
        self.store = place
        self.queue = place if place.startswith("postgresql") else str(folder / "queue.sqlite")

    def service(self, *, works: bool, **settings: Any) -> Service:
        """A service here; the process elsewhere has no agent `other`, so it sets the runs of that one aside."""
        agents = {"default": Engine(Scripted("Done.", "Done.")), "other": Engine(Scripted())}
        queue = Dbos(self.queue, poll_seconds=0.02, **settings)
        return Service(agents, store=self.store, queue=queue, works=works, lease=60.0, grace=0)

    async def rows(self, table: str = "workflow_status", what: str = "workflow_uuid, status") -> set[tuple[str, ...]]:
        """What DBOS's table has."""
        if self.queue.startswith("postgresql"):
            url, table = self.queue.replace("postgresql:", "postgresql+psycopg:"), f"dbos.{table}"
        else:
            url = f"sqlite:///{self.queue}"
        engine = create_engine(url)
        with engine.begin() as connection:
            found = {tuple(row) for row in connection.execute(text(f"SELECT {what} FROM {table}"))}
        engine.dispose()
        return found


@asynccontextmanager
async def worker_elsewhere(here: Place, err: Path) -> AsyncIterator[Started]:
    """A process of its own, which works on the queue until it is killed. err: the file for its stderr."""
    with err.open("wb") as stderr:
        process = await python_in_fork(HALTING, here.store, here.queue, stderr=stderr)
    try:
        yield process
    finally:
        await process.leave()


async def said(process: Started, *lines: str) -> None:
    """Wait until it has printed these lines, in whichever order."""
    left = set(lines)
    assert process.stdout is not None
    async with asyncio.timeout(SECONDS):
        while left:
            line = (await process.stdout.readline()).decode()
            assert line, f"it ended before it said {left}"
            left.discard(line.strip())


@pytest.mark.parametrize("found", ["by eviction", "by joining"])
async def test_what_a_killed_worker_left_of_runs_that_were_over_is_deleted_and_takes_no_place(
    place: str, tmp_path: Path, found: str
) -> None:
    here = Place(place, tmp_path)
    async with worker_elsewhere(here, tmp_path / "err") as elsewhere, here.service(works=False) as desk:
        await said(elsewhere, "WORKS")
        ended, halted = await desk.start("Say it"), await desk.start(HALT)
        aside, both = await desk.start("Say it", agent="other"), await desk.start(HALT, agent="other")
        runs = [session.run_id or "" for session in (ended, halted, aside, both)]
        await said(elsewhere, *(f"OVER {run}" for run in runs))
        statuses = [(await desk.session(session.id)).status for session in (ended, halted, aside, both)]
        assert statuses == ["completed", "completed", "interrupted", "interrupted"]
        left = {*zip(runs, ("SUCCESS", "PENDING", "SUCCESS", "PENDING"), strict=True)}

        async def has_noted_the_ends() -> bool:
            return await here.rows() == left

        await until(has_noted_the_ends)
        assert await here.rows("operation_outputs", "workflow_uuid") == {(runs[0],), (runs[1],)}
        elsewhere.send_signal(signal.SIGKILL)
        await elsewhere.wait()
        if found == "by joining":  # evicted by a process that has no queue
            for known in await desk.store.processes():
                if known.pid == elsewhere.pid:
                    await desk.store.evict(known.id, even_alive=True)
        else:
            desk.check_peers()

            async def is_deleted() -> bool:
                return await here.rows() == {(runs[2], "SUCCESS"), (runs[3], "ENQUEUED")}

            await until(is_deleted)
        async with here.service(works=True, running_in_all=2) as worker:
            last = await worker.start("Say it once more")

            async def is_done() -> bool:
                mine = {(runs[2], "SUCCESS"), (runs[3], "SUCCESS"), (last.run_id, "SUCCESS")}
                return await here.rows() == mine and (await worker.session(last.id)).status == "completed"

            await until(is_done)
    assert await here.rows("operation_outputs", "workflow_uuid") == set()


@asynccontextmanager
async def submitting(queue: Queue, store: Stage) -> AsyncIterator[tuple[Service, QueueDispatcher]]:
    """A service that does no work itself, and has looked at the queue once."""
    engine = Engine(Scripted())
    async with asyncio.timeout(SECONDS), Service(engine, store=store, queue=queue, works=False, grace=0) as service:
        dispatcher = service._dispatcher
        assert isinstance(dispatcher, QueueDispatcher)
        while not queue.pages:
            await asyncio.sleep(0)
        yield service, dispatcher


@pytest.mark.parametrize("ended", [True, False])
@pytest.mark.parametrize(
    ("status", "dropped", "recovered"),
    [
        (None, True, False),
        *((status, True, False) for status in ("completed", "exhausted", "failed", "cancelled", "awaiting_input")),
        *((status, False, False) for status in ("queued", "running")),
        ("interrupted", False, True),
    ],
)
async def test_what_is_done_with_a_left_run_follows_from_what_the_store_says_of_it(
    status: SessionStatus | None, dropped: bool, recovered: bool, ended: bool
) -> None:
    queue, store = Queue(), Stage()
    async with submitting(queue, store) as (service, dispatcher):
        session = await service.start("Look")
        run_id = session.run_id if status is not None else "run_of_nobody"
        assert run_id is not None
        if status is not None:
            store.execute("UPDATE endstop_runs SET status = ? WHERE id = ?", status, run_id)
        queue.given = [(GivenRun(run_id, 1, ended), "process_dead")]
        with capture_logs() as logs:
            await dispatcher.drop_left()
    assert queue.dropped == ([run_id] if dropped else [])
    assert queue.recovered == ([run_id] if recovered and not ended else [])
    told = [(log["log_level"], log["event"], log["runs"]) for log in logs if log["event"] == DELETED]
    assert told == ([("info", DELETED, 1)] if dropped else [])


async def test_runs_of_members_are_left_alone_and_many_that_stay_hide_none_behind_them() -> None:
    queue, store = Queue(), Stage()
    async with submitting(queue, store) as (service, dispatcher):
        (member,) = await store.processes()
        kept = [await service.start("Look") for _ in range(5)]
        store.execute("UPDATE endstop_runs SET status = 'interrupted'")
        queue.given = [(GivenRun(session.run_id or "", 7, True), "process_dead") for session in kept]
        queue.given += [(GivenRun("last", 8, False), "process_gone"), (GivenRun("first", 7, True), "process_dead")]
        queue.given += [(GivenRun("here", 1, False), member.id)]
        await dispatcher.drop_left()
    assert queue.dropped == ["first", "last"]


async def test_it_is_looked_for_again_after_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lifecycle, "LOOK_SECONDS", 0.01)
    queue = Queue()
    async with submitting(queue, Stage()):
        while queue.pages < 3:
            await asyncio.sleep(0.01)


class Away(Queue):
    """A queue that cannot be reached at first."""

    async def given_to_others(self, processes: Any, after: GivenRun | None = None) -> list[GivenRun]:
        """Fail twice."""
        found = await super().given_to_others(processes, after)
        if self.pages < 3:
            raise ConnectionError("nobody there")
        return found


async def test_while_the_queue_is_away_it_is_told_and_tried_again_after_a_lease() -> None:
    queue = Away()
    queue.given = [(GivenRun("over", 1, True), "process_dead")]
    engine = Engine(Scripted())
    with capture_logs() as logs:
        async with (
            asyncio.timeout(SECONDS),
            Service(engine, store=Stage(), queue=queue, works=False, grace=0, lease=0.3),
        ):
            while not queue.dropped:
                await asyncio.sleep(0.01)
    assert queue.dropped == ["over"]
    told = [log["error"] for log in logs if log["event"].startswith("what dead processes left in the queue")]
    assert told == ["nobody there"]
