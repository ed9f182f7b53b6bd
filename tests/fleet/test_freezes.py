"""Workers that freeze at random points of their runs, again and again, lose no run, and none stands still."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from .fleet import Fleet
from .freezing import check_freezes

FREEZES = int(os.environ.get("ENDSTOP_FREEZES", "12"))
SEED = int(os.environ.get("ENDSTOP_SEED", "7"))


@pytest.mark.long
@pytest.mark.parametrize("workers", [1, 2])
async def test_frozen_workers_lose_no_run_and_none_stands_still(ships: Fleet, tmp_path: Path, workers: int) -> None:
    await check_freezes(ships, tmp_path, workers=workers, freezes=FREEZES, seed=SEED + workers)
