"""Makes the records that `test_upgrade.py` cuts: every session of `scenes.py`, as the version of this Python plays it.

    python -m tests.upgrade.make FOLDER

Those in `tests/records/upgrade` were made at commit 93eae91, the last one before resume was built anew. Never make them
anew with a later version, or they prove nothing; sessions of a later version get a folder of their own. Ids and times
are fixed, so the same commit makes the same events.

Beside the record of a durable session stands what its engine kept (`*.kept.json`): run, number of the latest event at
that moment, key, result.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from endstop.records.compression import create_file
from endstop.testing import MemorySteps

from .scenes import SCENES, World, play


class Noting(MemorySteps):
    """Durable steps that note after which event each was kept."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.noted: list[tuple[str, int, str, str]] = []
        self._world = world

    async def step(self, key: Any, work: Any) -> Any:
        """The kept result, or else that of `work`, which is then noted."""
        result = await super().step(key, work)
        run = self._world.run
        self.noted.append((run.id, run.bus.last, str(key), self.kept[str(key)]))
        return result


async def make(name: str, folder: Path) -> None:
    """Write the record of a scene."""
    world, path = World(SCENES[name]), folder / f"{name}.jsonl"
    session = world.session(name, path)
    steps = session.steps = Noting(world) if world.scene.durable else None
    await play(world, session)
    with create_file(folder / f"{name}.jsonl.zst") as file:
        file.write(path.read_bytes())
    path.unlink()
    if steps is not None:
        (folder / f"{name}.kept.json").write_text(json.dumps(steps.noted, indent=0) + "\n")


async def main(folder: Path) -> None:
    folder.mkdir(parents=True)
    for name in SCENES:
        await make(name, folder)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
