"""What cannot work is refused with a text that says what to do, and costs no run."""

from __future__ import annotations

import asyncio
from pathlib import Path

import psycopg
import pytest
from endstop.store.url import store_at

from ..console import Done, endstop
from ..postgres import PASSWORD, Server
from .checked import check_record, results
from .fleet import HERE, Fleet, until
from .script import Script


async def worker(store: str | None, *options: object) -> Done:
    """A worker that is expected to refuse."""
    place = () if store is None else ("--store", store)
    return await endstop("worker", *place, "--model", "m", "--api-base", "http://127.0.0.1:9/v1", *options)


@pytest.mark.parametrize("command", ["worker", "serve"])
async def test_a_database_that_is_away_at_the_start_is_told_without_its_password(command: str) -> None:
    store = f"postgresql://somebody:{PASSWORD.replace('/', '%2F').replace(' ', '%20')}@127.0.0.1:9/endstop"
    done = await endstop(
        *(command, "--store", store, "--model", "m", "--api-base", "http://127.0.0.1:9/v1"),
        *(("--workers", 0, "--port", 0) if command == "serve" else ()),
    )
    assert done.code == 2, done
    assert "postgresql://somebody:***@127.0.0.1:9/endstop" in done.err
    assert "refused" in done.err
    assert "s3cret" not in done.err + done.out
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    ("store", "says"),
    [
        (None, "give --store postgresql://USER:PASSWORD@HOST/DATABASE"),
        ("sessions.db", "sessions.db is a file"),
        ("sqlite:///sessions.db", "is a file"),
        ("mysql://root@127.0.0.1/endstop", "postgresql://"),
        ("postgresql://u:s3cret@127.0.0.1:port/endstop", "postgresql://"),
        ("postgresql://", "postgresql://"),
        ("", "postgresql://"),
    ],
)
async def test_a_worker_without_a_shared_database_is_refused(store: str | None, says: str, tmp_path: Path) -> None:
    done = await worker(store and store.replace("sessions.db", str(tmp_path / "sessions.db")))
    assert done.code == 2, done
    assert says in done.err
    assert "s3cret" not in done.err
    assert "Traceback" not in done.err
    assert list(tmp_path.iterdir()) == [], "nothing was made"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--queue", "rabbit"), "--queue is 'rabbit'"),
        (("--queue", "dbos:mysql://root:s3cret@h/d"), "mysql"),
        (("--queue", "temporal://"), "temporal://HOST:PORT/NAMESPACE"),
        (("--queue", "temporal://127.0.0.1:9", "--max-running-everywhere", 3), "--max-running"),
        (("--max-running", 0), "--max-running is 0"),
        (("--max-running-everywhere", 0), "--max-running-everywhere is 0"),
        (
            ("--queue", "temporal://127.0.0.1:9", "--max-running-each", 3),
            "--max-running-each does not work with Temporal",
        ),
        (("--max-running-each", 0), "--max-running-each is 0"),
        (("--lease", 0), "lease"),
        (("--lease", "nan"), "lease"),
    ],
)
async def test_options_that_cannot_work_are_refused(options: tuple[object, ...], says: str, postgres: Server) -> None:
    done = await worker(postgres.url(), *options)
    assert done.code == 2, done
    assert says in done.err
    assert "s3cret" not in done.err
    assert "Traceback" not in done.err


async def test_a_temporal_server_that_is_away_is_told(postgres: Server) -> None:
    done = await worker(postgres.url(postgres.new_database()), "--queue", "temporal://127.0.0.1:9/default")
    assert done.code == 2, done
    assert "127.0.0.1:9" in done.err
    assert "Traceback" not in done.err


async def test_a_schema_of_a_newer_endstop_is_refused_and_left_alone(postgres: Server) -> None:
    store = postgres.url(postgres.new_database())
    made = store_at(store)
    await made.open()
    await made.close()
    with psycopg.connect(store, autocommit=True) as connection:
        connection.execute("UPDATE endstop_schema SET version_num = '9999'")
    for done in (await worker(store), await endstop("serve", "--store", store, "--workers", 0, "--port", 0)):
        assert done.code == 2, done
        assert "newer endstop" in done.err
        assert "Traceback" not in done.err
    with psycopg.connect(store, autocommit=True) as connection:
        assert connection.execute("SELECT version_num FROM endstop_schema").fetchone() == ("9999",)


async def test_a_result_that_no_database_holds_as_it_is_costs_no_run(ships: Fleet, tmp_path: Path) -> None:
    await asyncio.gather(ships.serve(), ships.worker())
    script = Script(who="spoilt", steps=6, spoil=3)
    id = await ships.start(script)
    await ships.reached(id, "completed")
    run = await check_record(await ships.record(id, tmp_path), script)
    assert ships.side.of("spoilt").faults(script) == []
    assert ships.side.of("spoilt").repeated_calls == 0
    spoilt = [result for result in results(run) if result.call_id.startswith("call_3_")]
    kept = "\N{REPLACEMENT CHARACTER} and \0 and no end"
    assert [(result.status, result.content) for result in spoilt] == [("ok", kept)] * 2


async def test_a_worker_with_other_tools_sets_a_run_aside_and_one_with_the_right_ones_resumes_it(
    ships: Fleet, tmp_path: Path
) -> None:
    _, before = await asyncio.gather(ships.serve(), ships.worker())
    script = Script(who="deployed", steps=8, hold=4)
    id = await ships.start(script)
    await until(lambda: len(ships.side.of("deployed").requests) == 4, "its response is held")
    await before.kill()
    other = await ships.worker(tools=HERE / "other_tools.py")
    told = await ships.reached(id, "interrupted")
    assert "note" in told["trouble"], told
    assert told["can_resume"]
    assert "a run cannot be continued" in other.said
    assert await other.stop() == 0
    ships.model.open_gate("deployed")
    right = await ships.worker()
    await ships.ask("POST", f"/sessions/{id}/resume", status=201)
    told = await ships.reached(id, "completed")
    assert told["trouble"] is None
    ledger = ships.side.of("deployed")
    assert ledger.askers == [before.name, right.name]
    assert ledger.faults(script) == []
    await check_record(await ships.record(id, tmp_path), script)
