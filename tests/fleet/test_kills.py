"""Workers that are killed lose nothing and repeat nothing: SIGKILL at random points of 40-step runs, seen from outside.

`make kill` does it fifty times (ENDSTOP_KILLS); the ordinary suite a few times.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from .fleet import Fleet
from .killing import Killer

KILLS = int(os.environ.get("ENDSTOP_KILLS", "4"))
SEED = int(os.environ.get("ENDSTOP_SEED", "7"))


async def test_killed_workers_repeat_no_finished_step_and_every_run_ends(ships: Fleet, tmp_path: Path) -> None:
    _, *workers = await asyncio.gather(ships.serve(), ships.worker(), ships.worker())
    killer = Killer(ships, ships.worker, seed=SEED, at_once=6, name="killed")
    await killer.kill(workers, KILLS)
    await killer.check(tmp_path)
    print(f"seed {SEED}: {killer.toll}", *killer.toll.points, sep="\n  ")
    assert killer.toll.faults == []
    assert killer.toll.kills == KILLS
    assert killer.toll.resumptions > 0
