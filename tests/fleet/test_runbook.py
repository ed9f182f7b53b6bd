"""What docs/guides/operations.md gives an operator to run: its SQL, and a backup that is restored under a new fleet."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from ..code_blocks import blocks
from ..console import endstop
from ..postgres import Server
from .checked import check_record, check_results, resumptions
from .fleet import Fleet, Model, fleet, until
from .script import WRITES, Script

PAGE = "docs/guides/operations.md"


def sql(words: str) -> str:
    """The block of SQL on the page in which these words stand."""
    (found,) = [block.text for block in blocks() if block.page == PAGE and block.kind == "sql" and words in block.text]
    return found


def query(store: str, words: str) -> list[dict[str, Any]]:
    """What a query of the page answers."""
    with psycopg.connect(store, row_factory=dict_row) as connection:
        return connection.execute(sql(words).encode()).fetchall()


def execute(store: str, statement: str, *values: object) -> list[tuple[Any, ...]]:
    """What a statement of ours answers."""
    with psycopg.connect(store) as connection:
        cursor = connection.execute(statement.encode(), values)
        return cursor.fetchall() if cursor.description else []


async def test_the_first_queries_tell_what_waits_whose_it_is_who_runs_it_and_how_it_ended(
    ships: Fleet, model: Model
) -> None:
    await ships.serve()
    scripts = [Script(who=f"asked-{number}", steps=3, hold=2) for number in range(3)]
    ids = [await ships.start(script) for script in scripts]
    execute(ships.store, "UPDATE endstop_sessions SET owner = 'alice' WHERE id = %s", ids[0])
    assert [(row["status"], row["count"]) for row in query(ships.store, "min(created_at)")] == [("queued", 3)]
    waiting = query(ships.store, "longest_seconds")
    assert sorted((row["owner"], row["waiting"]) for row in waiting) == [("", 2), ("alice", 1)]
    assert all(0 <= row["longest_seconds"] < 600 for row in waiting)

    await ships.worker()
    await until(lambda: all(len(ships.side.of(s.who).requests) == 2 for s in scripts), "all are in a response")
    processes = query(ships.store, "lease_seconds")
    assert sorted((row["kind"], row["running"]) for row in processes) == [("serve", 0), ("worker", 3)]
    assert all(row["lease_seconds"] <= 2 for row in processes)

    for script in scripts:
        model.open_gate(script.who)
    await _ended(ships, ids)
    assert [(row["status"], row["count"]) for row in query(ships.store, "'1 hour'")] == [("completed", 3)]
    why = "UPDATE endstop_sessions SET status = 'interrupted', trouble = convert_to(%s, 'UTF8') WHERE id = %s"
    execute(ships.store, why, "its provider was away – for too long", ids[0])
    (interrupted,) = query(ships.store, "AS trouble")
    assert (interrupted["id"], interrupted["owner"]) == (ids[0], "alice")
    assert interrupted["trouble"] == "its provider was away – for too long"

    assert query(ships.store, "pg_stat_activity")
    assert "endstop_sessions" in {row["relname"] for row in query(ships.store, "pg_total_relation_size")}


async def test_a_persons_data_is_erased_from_store_and_queue_while_all_work_and_nobody_elses(
    ships: Fleet, model: Model
) -> None:
    await ships.serve()
    before = _kept(ships.store)
    await ships.worker("--max-running", 2, lease=60.0)  # for so long the queue keeps what has ended
    held = {who: Script(who=f"runs-{who}", steps=3, hold=2) for who in ("alice", "bob")}
    ids: dict[str, list[str]] = {who: [await ships.start(Script(who=f"ends-{who}", steps=3))] for who in held}
    await _ended(ships, [*ids["alice"], *ids["bob"]])
    for who, script in held.items():
        ids[who].append(await ships.start(script))
    await until(
        lambda: all(len(ships.side.of(one.who).requests) == 2 for one in held.values()), "both are in a response"
    )
    for who in held:
        ids[who].append(await ships.start(Script(who=f"waits-{who}", steps=3)))
    execute(ships.store, "UPDATE endstop_sessions SET owner = 'alice' WHERE id = ANY(%s)", ids["alice"])
    assert len(_kept(ships.store) - before) == 6

    erased = await endstop("erase", "alice", "--store", ships.store, "--yes", "--json")
    assert erased.code == 0, erased.err
    assert erased.json["found"]["sessions"] == {"completed": 1, "running": 1, "queued": 1}
    assert (erased.json["queue"], erased.json["erased"]) == ("dbos", {"sessions": 3, "runs": 3, "records": 0})
    assert {id for (id,) in execute(ships.store, "SELECT id FROM endstop_sessions")} == set(ids["bob"])
    runs = {run for (run,) in execute(ships.store, "SELECT id FROM endstop_runs")}
    assert len(runs) == 3
    stray = "SELECT count(*) FROM endstop_pages WHERE run NOT IN (SELECT key FROM endstop_runs)"
    assert execute(ships.store, stray) == [(0,)]

    model.open_gate(held["bob"].who)
    await _ended(ships, ids["bob"])
    for id in ids["bob"]:
        assert (await ships.session(id))["status"] == "completed"
    assert _kept(ships.store) - before == runs
    results = execute(ships.store, "SELECT DISTINCT workflow_uuid FROM dbos.operation_outputs")
    assert {run for (run,) in results} - before == runs


async def test_what_a_killed_worker_left_in_the_queue_is_deleted_by_others(ships: Fleet) -> None:
    await ships.serve()
    worker = await ships.worker(lease=60.0)
    ids = [await ships.start(Script(who=f"left-{number}", steps=3)) for number in range(2)]
    await _ended(ships, ids)
    runs = {run for (run,) in execute(ships.store, "SELECT id FROM endstop_runs")}
    assert _kept(ships.store) >= runs
    await worker.kill()
    await until(lambda: not _kept(ships.store) & runs, f"they are deleted: {ships.trouble()}")
    results = execute(ships.store, "SELECT DISTINCT workflow_uuid FROM dbos.operation_outputs")
    assert not {run for (run,) in results} & runs


async def _ended(ships: Fleet, ids: list[str]) -> None:
    left = "SELECT id FROM endstop_sessions WHERE id = ANY(%s) AND status NOT IN ('completed', 'cancelled')"
    await until(lambda: not execute(ships.store, left, ids), f"all have ended: {ships.trouble()}")


def _kept(store: str) -> set[str]:
    return {run for (run,) in execute(store, "SELECT workflow_uuid FROM dbos.workflow_status")}


async def test_a_fleet_on_a_restored_backup_goes_on_and_repeats_only_what_came_after_the_backup(
    postgres: Server, model: Model, tmp_path: Path
) -> None:
    still = Script(who="still", steps=12, hold=6)
    moving = Script(who="moving", steps=12, hold=6)
    old, new = (postgres.url(postgres.new_database()) for _ in range(2))
    async with fleet(tmp_path / "old", old, model) as ships:
        await ships.serve()
        await ships.worker()
        ids = {script.who: await ships.start(script) for script in (still, moving)}
        await until(lambda: all(len(ships.side.of(who).requests) == 6 for who in ids), "both are in a response")
        _tool(postgres, "pg_dump", "--format=custom", f"--file={tmp_path}/backup.dump", old)
        model.open_gate(moving.who)
        await ships.reached(ids["moving"], "completed")
        late = await ships.start(Script(who="late", steps=2))
        for member in ships.members:
            await member.kill()
    _tool(postgres, "pg_restore", "--no-owner", f"--dbname={new}", f"{tmp_path}/backup.dump")

    async with fleet(tmp_path / "new", new, model) as ships:
        await ships.serve()
        await ships.worker()
        model.open_gate(still.who)
        for script in (still, moving):
            await ships.reached(ids[script.who], "completed")
            run = await check_record(await ships.record(ids[script.who], tmp_path), script)
            check_results(run, script)
            assert resumptions(run) == 1
        await ships.ask("GET", f"/sessions/{late}", status=404)
        assert ships.side.of(still.who).faults(still) == []
        calls = [line for line in ships.side.of(moving.who).calls if line["tool"] == WRITES]
        steps = [line["step"] for line in calls]
        again = sorted(step for step in set(steps) if steps.count(step) > 1)
        assert again == [step for step in range(6, moving.steps) if WRITES in moving.calls(step)]


def _tool(server: Server, name: str, *words: str) -> None:
    """Run a tool of PostgreSQL that ends with exit code 0."""
    path = server.binaries / name
    if not path.exists():
        pytest.skip(f"there is no {name} here: apt-get install postgresql-client")
    done = subprocess.run([path, *words], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
