"""Makes the records that `test_upgrade.py` cuts: every session of `scenes.py`, as the version of this Python plays it.

    python -m tests.upgrade.make FOLDER

Those in `tests/records/upgrade` were made at commit 93eae91, the last one before resume was built anew. Never make them
anew with a later version, or they prove nothing; sessions of a later version get a folder of their own. Ids and times
of records are fixed, so the same commit makes the same events (but for marks of redacted results, whose key is random).

`sessions.sqlite.zst` is the store of a service that died with most of these sessions in progress: everything of each is
committed but the end of its last run.

Beside the record of a durable session stands what its engine kept (`*.kept.json`): run, number of the latest event at
that moment, key, result.
"""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

from endstop.records.compression import create_file
from endstop.service.service import Service
from endstop.store.base import EventBatch
from endstop.store.database import Sqlite
from endstop.store.sql import SqlStore
from endstop.testing import MemorySteps

from .scenes import SCENES, World, play, play_in


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


class Dying(SqlStore):
    """A store that commits everything but the end of the last run of each session."""

    def __init__(self, path: Path, worlds: dict[str, World]) -> None:
        super().__init__(Sqlite(path))
        self._worlds = worlds
        self.last: dict[str, asyncio.Event] = {name: asyncio.Event() for name in worlds}

    async def commit(self, batch: EventBatch) -> None:
        """Commit the batch, or wait for ever."""
        name = batch.session_id
        world = self._worlds[name]
        if batch.finished is not None and batch.finished.status != "awaiting_input" and world.no_prompt_left:
            self.last[name].set()
            await asyncio.get_running_loop().create_future()
        await super().commit(batch)


async def make_database(folder: Path) -> None:
    """Write the database of a service that died."""
    worlds = {name: World(scene) for name, scene in SCENES.items() if not scene.durable}
    path = folder / "sessions.sqlite"
    store = Dying(path, worlds)
    service = Service({name: world.engine for name, world in worlds.items()}, store=store)
    await service.__aenter__()
    for name, world in worlds.items():
        playing = asyncio.create_task(play_in(service, name, world))
        await store.last[name].wait()
        playing.cancel()
    copy = folder / "copy.sqlite"
    with closing(sqlite3.connect(path)) as ours, closing(sqlite3.connect(copy)) as theirs:
        ours.backup(theirs)
        theirs.execute("UPDATE endstop_processes SET host = 'elsewhere', about = '{}'")
        theirs.commit()
        theirs.execute("PRAGMA journal_mode = DELETE")
        theirs.execute("VACUUM")
    with create_file(folder / "sessions.sqlite.zst") as file:
        file.write(copy.read_bytes())
    for left in folder.glob("*.sqlite*"):
        if not left.name.endswith(".zst"):
            left.unlink()


async def main(folder: Path) -> None:
    folder.mkdir(parents=True)
    for name in SCENES:
        await make(name, folder)
    await make_database(folder)
    os._exit(0)  # as the service died: nothing is closed


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
