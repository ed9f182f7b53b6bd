"""The same with Temporal's queue: killed workers repeat nothing, a frozen one does nothing when it wakes."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from ..postgres import Server
from ..temporal import Server as Temporal
from .checked import check_record, results
from .fleet import Fleet, Model, fleet, until
from .freezing import check_freezes, check_woken
from .killing import Killer
from .script import Script

pytestmark = pytest.mark.long

KILLS = int(os.environ.get("ENDSTOP_KILLS", "0")) // 5 or 2
FREEZES = int(os.environ.get("ENDSTOP_FREEZES", "12"))
SEED = int(os.environ.get("ENDSTOP_SEED", "7"))


@pytest_asyncio.fixture
async def ships(tmp_path: Path, postgres: Server, temporal: Temporal, model: Model) -> AsyncIterator[Fleet]:
    """A fleet with nobody in it, whose queue is Temporal's."""
    queue = f"temporal://{temporal.address}/{temporal.namespace()}"
    store = postgres.url(postgres.new_database())
    async with fleet(tmp_path / "fleet", store, model, queue=queue) as made:
        yield made


async def test_killed_workers_repeat_no_finished_step_and_every_run_ends(ships: Fleet, tmp_path: Path) -> None:
    _, *workers = await asyncio.gather(ships.serve(), ships.worker(), ships.worker())
    killer = Killer(ships, ships.worker, seed=SEED, at_once=4, name="killed")
    await killer.kill(workers, KILLS)
    await killer.check(tmp_path)
    print(f"Temporal, seed {SEED}: {killer.toll}", *killer.toll.points, sep="\n  ")
    assert killer.toll.faults == []
    assert killer.toll.kills == KILLS
    assert killer.toll.resumptions > 0


async def test_a_worker_that_freezes_past_its_lease_repeats_nothing(ships: Fleet, tmp_path: Path) -> None:
    _, frozen = await asyncio.gather(ships.serve(), ships.worker())
    script = Script(who="frozen", steps=30)
    id = await ships.start(script)
    await until(lambda: len(ships.side.of("frozen").requests) >= 5, "it is under way")
    frozen.send(signal.SIGSTOP)
    other = await ships.worker()
    await ships.reached(id, "completed")
    record = (await ships.record(id, tmp_path)).read_bytes()
    woken = time.monotonic_ns()
    frozen.send(signal.SIGCONT)
    await until(lambda: "taken for dead" in frozen.said, "it finds out")
    await other.kill()
    after = await ships.start(Script(who="after", steps=5))
    await ships.reached(after, "completed")
    assert ships.side.of("after").askers == [frozen.name], "it works on"
    path = await ships.record(id, tmp_path)
    assert path.read_bytes() == record
    await check_record(path, script)
    check_woken(ships.side.of("frozen"), script, frozen=frozen, woken=woken, other=other)


async def test_workers_that_freeze_at_random_lose_no_run(ships: Fleet, tmp_path: Path) -> None:
    await check_freezes(ships, tmp_path, workers=2, freezes=FREEZES, seed=SEED)


async def test_a_result_that_is_too_large_to_be_kept_is_told_to_the_model(ships: Fleet, tmp_path: Path) -> None:
    await asyncio.gather(ships.serve(), ships.worker())
    script = Script(who="swollen", steps=6, swell=3)
    id = await ships.start(script)
    await ships.reached(id, "completed")
    run = await check_record(await ships.record(id, tmp_path), script)
    swollen = [event for event in results(run) if event.call_id.startswith("call_3_")]
    assert [event.status for event in swollen] == ["error", "error"]
    assert all("cannot be kept" in event.content for event in swollen)
    assert all(event.status == "ok" for event in results(run) if event not in swollen)
    assert ships.side.of("swollen").faults(script) == []
    assert ships.side.of("swollen").repeated_calls == 0
