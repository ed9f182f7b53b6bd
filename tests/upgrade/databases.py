"""The database of a service of the version before, with sessions in progress, cut at events of each."""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from endstop import read_record
from endstop.records.compression import read_blocks
from endstop.records.reader import RecordedRun, SessionRecord
from endstop.service.service import Service

from ..engine.temporary_store import TemporaryStore
from .cuts import RECORDS, check, check_replay, whole
from .scenes import SAID, SCENES, World, may_be_undelivered, play_in

_FOLDER = tempfile.TemporaryDirectory(prefix="endstop-upgrade-")


@dataclass(frozen=True)
class Row:
    """A stored run: its key, id and events."""

    key: int
    id: str
    lines: list[bytes]


@cache
def database() -> Path:
    """The file as the version before left it."""
    path = Path(_FOLDER.name) / "sessions.sqlite"
    path.write_bytes(b"".join(read_blocks(RECORDS / "sessions.sqlite.zst")))
    return path


@cache
def stored(name: str) -> list[Row]:
    """The runs of a session in it."""
    with closing(sqlite3.connect(database())) as connection:
        runs = connection.execute("SELECT key, id FROM endstop_runs WHERE session_id = ? ORDER BY number", (name,))
        pages = "SELECT lines FROM endstop_pages WHERE run = ? ORDER BY first_seq"
        return [
            Row(key, id, b"".join(lines for (lines,) in connection.execute(pages, (key,))).splitlines(keepends=True))
            for key, id in runs.fetchall()
        ]


def names() -> list[str]:
    """The sessions in it."""
    return [name for name, scene in SCENES.items() if not scene.durable]


def places(name: str) -> list[tuple[int, int]]:
    """Where it can be cut: run, and how many events of it are left. Not at the end of a run, which is no cut."""
    rows = stored(name)
    found = [(run, left) for run, row in enumerate(rows) for left in range(1, len(row.lines) + 1)]
    return [(run, left) for run, left in found if run == len(rows) - 1 or left < len(rows[run].lines)]


def cut_at(places: Mapping[str, tuple[int, int]]) -> TemporaryStore:
    """A copy of the database in which each of these sessions ends there."""
    store = TemporaryStore(database())
    with closing(sqlite3.connect(store.path)) as connection:
        for name, (run, left) in places.items():
            _cut(connection, name, run, left)
        connection.commit()
    return store


def _cut(connection: sqlite3.Connection, name: str, run: int, left: int) -> None:
    rows = stored(name)
    row = rows[run]
    for later in rows[run + 1 :]:
        connection.execute("DELETE FROM endstop_pages WHERE run = ?", (later.key,))
        connection.execute("DELETE FROM endstop_runs WHERE key = ?", (later.key,))
    connection.execute("DELETE FROM endstop_pages WHERE run = ? AND first_seq > ?", (row.key, left))
    (first,) = connection.execute("SELECT max(first_seq) FROM endstop_pages WHERE run = ?", (row.key,)).fetchone()
    lines = b"".join(row.lines[first - 1 : left])
    connection.execute(
        "UPDATE endstop_pages SET last_seq = ?, lines = ? WHERE run = ? AND first_seq = ?",
        (left, lines, row.key, first),
    )
    steps = sum(b'"type":"STEP_FINISHED"' in line for line in row.lines[:left])
    connection.execute(
        "UPDATE endstop_runs SET status = 'running', stop_reason = NULL, finished_at = NULL, outcome = NULL, steps = ?"
        " WHERE key = ?",
        (steps, row.key),
    )
    connection.execute(
        "UPDATE endstop_sessions SET status = 'running', stop_reason = NULL, run_id = ?, runs = ? WHERE id = ?",
        (row.id, run + 1, name),
    )
    scene = SCENES[name]
    if scene.says and may_be_undelivered(scene, left_of(name, run, left)):
        message = (SAID, name, scene.says.encode(), "2026-01-01T00:00:00.000+00:00")
        connection.execute(
            "INSERT INTO endstop_messages (id, session_id, text, created_at) VALUES (?, ?, ?, ?)", message
        )


def left_of(name: str, run: int, left: int) -> list[RecordedRun]:
    """The runs that are left of a session."""
    rows = stored(name)
    lines = [line for row in rows[:run] for line in row.lines] + rows[run].lines[:left]
    return as_record(name, lines).runs


def as_record(name: str, lines: list[bytes]) -> SessionRecord:
    path = Path(_FOLDER.name) / "r.jsonl"
    path.write_bytes(whole(name).lines[0] + b"".join(lines))
    return read_record(path)


async def take_up_all(places: Mapping[str, tuple[int, int]]) -> tuple[int, list[str]]:
    """Let this version open the database and bring these sessions to their ends.

    How many ended as they would have uncut, and what is wrong with others.
    """
    worlds = {name: World(SCENES[name]) for name in places}
    left = {name: left_of(name, *place) for name, place in places.items()}
    same, wrong = 0, []
    async with asyncio.timeout(120):
        async with Service(
            {name: world.engine for name, world in worlds.items()}, store=cut_at(places), keep_days=None
        ) as service:
            await asyncio.gather(*(play_in(service, name, world, left[name]) for name, world in worlds.items()))
            for name, world in worlds.items():
                lines = [line for run in await service.store.runs(name) for line in await lines_of(service, run.id)]
                try:
                    record = as_record(name, lines)
                    same += check(name, left[name], record.runs, world)
                    await check_replay(record, left[name])
                except AssertionError as error:
                    wrong.append(f"{name}, cut at {places[name]}: {error}")
    return same, wrong


async def lines_of(service: Service, run_id: str) -> list[bytes]:
    """The events of a run in the store."""
    lines: list[bytes] = []
    while pages := await service.store.pages(run_id, after=len(lines)):
        for page in pages:
            lines += page.lines.splitlines(keepends=True)
    return lines
