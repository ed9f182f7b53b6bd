"""`endstop erase`: what it asks, what it says, and what it takes for a mistake."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from endstop.cli.main import main
from endstop.service.membership import QUEUE
from endstop.service.session_archive import README
from endstop.store.sql import SqlStore
from endstop.store.url import store_at

from ...console import endstop
from ...postgres import Server
from ..store.made import beginning, ended, session
from ..store.others import process, waiting
from .terminal import in_terminal


def made(place: str | Path, fill: Callable[[SqlStore], Awaitable[object]]) -> None:
    """Fill a store, which is made if there is none."""

    async def filled() -> None:
        store = store_at(place)
        await store.open()
        await fill(store)
        await store.close()

    asyncio.run(filled())


async def of_two_owners(store: SqlStore) -> None:
    for number in range(3):
        await ended(store, f"alice_{number}", owner="alice")
    await store.queue(waiting(of="alice_3", new=session("alice_3", owner="alice")))
    await ended(store, "bob_0", owner="bob")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A file with four sessions of Alice and one of Bob."""
    made(tmp_path / "sessions.db", of_two_owners)
    return tmp_path / "sessions.db"


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """An archive with a record of Alice and one of Bob."""
    for key in (README, "alice/2026/11/30/old.jsonl.zst", "bob/2026/11/30/old.jsonl.zst"):
        path = tmp_path / "archive" / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"a record")
    return tmp_path / "archive"


def owners(store: Path) -> list[str]:
    with closing(sqlite3.connect(store)) as database:
        return [owner for (owner,) in database.execute("SELECT owner FROM endstop_sessions ORDER BY owner")]


def told(capfd: pytest.CaptureFixture[str], *words: object, code: int = 0) -> Any:
    """What the command answers as JSON."""
    assert main(["erase", "--json", *map(str, words)]) == code
    return json.loads(capfd.readouterr().out)


def refused(capfd: pytest.CaptureFixture[str], *words: object) -> str:
    """What the command says that refuses to do anything."""
    assert main(["erase", *map(str, words)]) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    return err


def test_a_dry_run_counts_and_changes_nothing(store: Path, archive: Path, capfd: pytest.CaptureFixture[str]) -> None:
    given = ("alice", "--store", store, "--archive", archive)
    answer = told(capfd, *given, "--dry-run")
    assert answer == {
        "owner": "alice",
        "store": str(store),
        "queue": None,
        "archive": str(archive),
        "found": {"sessions": {"completed": 3, "queued": 1}, "runs": 4, "records": 1},
        "erased": None,
        "left": [],
        "error": None,
    }
    assert main(["erase", *map(str, given), "--dry-run"]) == 0
    assert capfd.readouterr() == (
        f"owner 'alice': 4 sessions (3 completed, 1 queued) with 4 runs in {store}, and 1 record in {archive}\n",
        "",
    )
    assert owners(store) == ["alice"] * 4 + ["bob"]
    assert len(list(archive.rglob("old*"))) == 2


def test_it_erases_and_a_second_time_says_that_nothing_is_there(
    store: Path, archive: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    given = ("alice", "--store", str(store), "--archive", str(archive), "--yes")
    assert main(["erase", *given]) == 0
    assert capfd.readouterr() == ("erased 4 sessions with 4 runs, and 1 record of the archive\n", "")
    assert owners(store) == ["bob"]
    assert [path.relative_to(archive).as_posix() for path in archive.rglob("old*")] == ["bob/2026/11/30/old.jsonl.zst"]
    said = refused(capfd, *given)
    assert said == f"endstop: no session of owner 'alice' in {store}, and no record in {archive}\n"


def test_an_archive_that_is_not_named_is_not_passed_over_in_silence(
    store: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["erase", "alice", "--store", str(store), "--yes"]) == 0
    out, err = capfd.readouterr()
    assert out == "erased 4 sessions with 4 runs\n"
    assert "no archive was looked into: give --archive" in err


def test_records_alone_are_erased_too(store: Path, archive: Path, capfd: pytest.CaptureFixture[str]) -> None:
    made(store, lambda opened: opened.delete("bob_0"))
    answer = told(capfd, "bob", "--store", store, "--archive", archive, "--yes")
    assert answer["erased"] == {"sessions": 0, "runs": 0, "records": 1}


def test_what_still_runs_is_named_and_the_exit_code_says_so(store: Path, capfd: pytest.CaptureFixture[str]) -> None:
    async def runs(opened: SqlStore) -> None:
        await opened.join(process("worker"))
        await opened.add(session("alice_runs", owner="alice"))
        await opened.commit(beginning(2, run="run_runs", of="alice_runs"))

    made(store, runs)
    given = ("alice", "--store", store, "--yes", "--wait", "0")
    answer = told(capfd, *given, code=1)
    assert answer["left"] == [{"id": "alice_runs", "status": "running", "agent": "main", "holder": "worker"}]
    assert answer["erased"]["sessions"] == 4
    assert main(["erase", *map(str, given)]) == 1
    assert "1 session still runs after 0 s, and is left:\n  alice_runs: running in worker\n" in capfd.readouterr().err
    assert owners(store) == ["alice", "bob"]


def test_mistakes_delete_nothing_and_say_what_to_do(
    store: Path, archive: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    given = ("--store", store, "--yes")
    rows = {
        ("Alice", *given): f"no session of owner 'Alice' in {store}",
        ("", *given): f"no session of owner '' in {store}",
        ("alice\udcff", *given): "OWNER is not text in UTF-8",
        ("alice", "--store", store): "there is no terminal: give --yes",
        ("alice", "--store", tmp_path / "session.db", "--yes"): "session.db: there is no store",
        ("alice", *given, "--wait", "-1"): "--wait is -1",
        ("alice", *given, "--wait", "nan"): "--wait is nan",
        ("alice", *given, "--archive", tmp_path / "archvie"): "archvie: there is no archive, as it has no README.txt",
        ("alice", *given, "--archive", archive / "alice"): "there is no archive",
        ("alice", *given, "--queue", "kafka://x"): "--queue is 'kafka://x': give dbos, dbos:URL",
        ("alice", *given, "--queue", f"dbos:{tmp_path}/queue.db"): "DBOS has no tables there",
    }
    for words, why in rows.items():
        assert why in refused(capfd, *words), words
    assert owners(store) == ["alice"] * 4 + ["bob"]
    assert not (tmp_path / "session.db").exists()
    assert not (tmp_path / "queue.db").exists()


def test_another_queue_than_the_workers_have_is_refused(store: Path, capfd: pytest.CaptureFixture[str]) -> None:
    made(store, lambda opened: opened.join(process("one", about={QUEUE: "Temporal"})))
    said = refused(capfd, "alice", "--store", store, "--yes")
    assert "worker 1 on nowhere works with the queue Temporal: give its --queue, too" in said


def test_a_database_without_a_queue_gets_none(postgres: Server, capfd: pytest.CaptureFixture[str]) -> None:
    url = postgres.url(postgres.new_database())
    made(url, of_two_owners)
    answer = told(capfd, "alice", "--store", url, "--yes")
    assert (answer["queue"], answer["erased"]["sessions"]) == (None, 4)
    assert "s3cret" not in json.dumps(answer)
    with psycopg.connect(url) as connection:
        found = connection.execute("SELECT count(*) FROM information_schema.schemata WHERE schema_name = 'dbos'")
        assert found.fetchone() == (0,)


def test_the_places_may_be_variables(
    store: Path, archive: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENDSTOP_STORE", str(store))
    monkeypatch.setenv("ENDSTOP_ARCHIVE", str(archive))
    assert told(capfd, "alice", "--dry-run")["found"]["records"] == 1
    monkeypatch.setenv("ENDSTOP_WAIT", "-1")
    assert "(--wait is from ENDSTOP_WAIT)" in refused(capfd, "alice", "--dry-run")


@pytest.mark.parametrize(("answers", "code"), [([b"y\n"], 0), ([b"perhaps\n", b"no\n"], 2), ([b"\x04"], 2)])
async def test_it_asks_at_a_terminal(store: Path, answers: list[bytes], code: int) -> None:
    async with in_terminal("erase", "alice", "--store", store, columns=200) as (terminal, process):
        for number, answer in enumerate(answers, 1):
            await terminal.prompts("[y]es or [n]o:", number)
            assert f"owner 'alice': 4 sessions (3 completed, 1 queued) with 4 runs in {store}" in terminal.text
            terminal.press(answer)
        await terminal.closed()
        assert await process.wait() == code
    assert ("erased 4 sessions" in terminal.text) is (code == 0)
    assert ("nothing was erased" in terminal.text) is (code == 2)
    assert owners(store) == ([] if code == 0 else ["alice"] * 4) + ["bob"]


async def test_a_database_that_goes_away_ends_it_with_what_was_done_and_it_goes_on_later(mortal: Server) -> None:
    url = mortal.url(mortal.new_database())
    await asyncio.to_thread(made, url, of_two_owners)
    async with in_terminal("erase", "alice", "--store", url, columns=200) as (terminal, process):
        await terminal.prompts("[y]es or [n]o:", 1)
        mortal.kill()
        terminal.press(b"yes\n")
        await terminal.closed()
        assert await process.wait() == 1
    assert "erased 0 sessions" in terminal.text
    assert "it ended before all was gone: " in terminal.text
    assert "run it again, and it goes on" in terminal.text
    mortal.start()
    assert (await endstop("erase", "alice", "--store", url, "--yes", "--json")).json["erased"]["sessions"] == 4
