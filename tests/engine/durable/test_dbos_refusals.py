"""What can never work, and what is away, is said in words that help, without passwords."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from endstop.decision import WrongUse
from endstop.durable.dbos import Dbos
from endstop.durable.dbos.database_url import parse_database_url

from ...postgres import PASSWORD, Server
from .dbos_runs import job


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("mysql://user:secret-word@host/db", r"'mysql://user:\*\*\*@host/db' is not the path or URL of a store"),
        (
            "postgresql://user:secret-word@host:x/db",
            r"'postgresql://user:\*\*\*@host:x/db' is not the URL of a database",
        ),
        (
            "postgresql://user:secret-word@host:99999/db",
            r"'postgresql://user:\*\*\*@host:99999/db' is not the URL of a database",
        ),
        ("postgresql://user:secret-word@host", r"'postgresql://user:\*\*\*@host' names no database"),
        ("", "'' does not name a file"),
        (":memory:", "':memory:' does not name a file"),
    ],
)
def test_what_is_no_database_is_refused_at_once(url: str, told: str) -> None:
    with pytest.raises(WrongUse, match=told) as raised:
        Dbos(url)
    assert "secret-word" not in str(raised.value)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"running_in_all": 0}, "running_in_all=0"),
        ({"running_each": 0}, "running_each=0"),
        ({"poll_seconds": 0}, "poll_seconds=0"),
        ({"queue": "_dbos_x"}, "_dbos_x"),
    ],
)
def test_options_that_can_never_work_are_refused(options: dict[str, Any], told: str) -> None:
    with pytest.raises(WrongUse, match=told):
        Dbos("dbos.sqlite", **options)


def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    place = "endstop.durable.dbos.database_url"
    monkeypatch.setattr(f"{place}.find_spec", lambda name: None)
    monkeypatch.setattr(f"{place}.sqlite3.sqlite_version_info", (3, 41, 2))
    with pytest.raises(
        WrongUse, match=r"DBOS needs SQLite 3\.42, and this Python has .*: pip install pysqlite3-binary"
    ):
        Dbos("dbos.sqlite")
    monkeypatch.setattr(f"{place}.sqlite3.sqlite_version_info", (3, 42, 0))
    assert parse_database_url("dbos.sqlite").url.startswith("sqlite:////")
    monkeypatch.setattr("endstop.durable.dbos.queue.find_spec", lambda name: None)
    with pytest.raises(WrongUse, match=r'pip install "endstop\[dbos\]"'):
        Dbos("dbos.sqlite")


async def test_what_is_not_open_says_so(tmp_path: Path) -> None:
    queue = Dbos(tmp_path / "dbos.sqlite")
    with pytest.raises(WrongUse, match=r"is not open: `await queue\.open\(\)` first"):
        await queue.submit(job())
    await queue.close()


async def refused(url: str | Path, error: type[Exception]) -> str:
    queue = Dbos(url)
    with pytest.raises(error) as raised:
        await queue.open()
    await queue.close()
    assert PASSWORD not in str(raised.value)
    return str(raised.value)


async def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("This is a text, and no database at all, however long it goes on.\n" * 100)
    assert "file is not a database: name another file" in await refused(tmp_path / "text", WrongUse)
    folder = await refused(tmp_path, ConnectionError)
    assert folder == f"{tmp_path}: unable to open database file"


async def test_a_server_that_refuses_says_why_and_no_database_is_made(postgres: Server, database: str) -> None:
    told = await refused(postgres.url("nosuch"), ConnectionError)
    assert "the database does not exist" in told
    wrong = await refused(postgres.url(database, password="wrong"), ConnectionError)
    assert "rejects this user or password" in wrong
    again = await refused(postgres.url("nosuch"), ConnectionError)
    assert "the database does not exist" in again


def test_sqlite_is_new_enough_here() -> None:
    assert sqlite3.sqlite_version_info >= (3, 42) or parse_database_url("x").url.startswith("sqlite+endstop:")
