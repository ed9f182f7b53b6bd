"""Where a store can be, what is said of a place where none can be, and that no password is ever shown."""

from __future__ import annotations

import sqlite3
import stat
import traceback
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from endstop.decision import WrongUse
from endstop.store import url as places
from endstop.store.base import StoreError
from endstop.store.url import mask_url, store_at
from sqlalchemy import make_url

from ...postgres import PASSWORD, Server
from .made import session


@pytest.mark.parametrize("form", ["{}", "sqlite:///{}", "SQLITE:///{}"])
async def test_a_path_and_a_url_of_sqlite_are_the_same_file_for_this_user_alone(tmp_path: Path, form: str) -> None:
    path = tmp_path / "new folder" / "100%" / "store?.sqlite"
    store = store_at(form.format(path))
    assert not path.exists()
    await store.open()
    await store.add(session())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert {stat.S_IMODE(other.stat().st_mode) for other in path.parent.iterdir()} == {0o600}
    await store.close()
    assert [file.name for file in path.parent.iterdir()] == ["store?.sqlite"]
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert database.execute("SELECT id FROM endstop_sessions").fetchall() == [("session_1",)]


def test_a_tilde_is_the_home_and_a_url_of_three_slashes_is_relative(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert store_at(Path("/a/b")).display_name == "/a/b"
    assert store_at("~/x.sqlite").display_name == f"{tmp_path}/x.sqlite"
    assert store_at("sqlite:///relative.sqlite").display_name == "relative.sqlite"


@pytest.mark.parametrize(
    "wrong",
    ["", " ", ":memory:", "sqlite://", "sqlite:///", "sqlite:///:memory:", "a\0b", "mysql://ann:s3cret@db/x",
     "postgresql+asyncpg://ann:s3cret@db/x", "http://ann:s3cret@db", "postgresql://ann:s3cret@db:port/x",
     "postgres://ann:s3cret@db:99999999999/x", "://"],
)  # fmt: skip
def test_any_other_place_is_wrong_use_and_its_password_stays_hidden(wrong: str) -> None:
    with pytest.raises(WrongUse, match="give a path") as told:
        store_at(wrong)
    assert "s3cret" not in "".join(traceback.format_exception(told.value))


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://ann:s3cret@db/x", "postgresql://ann:***@db/x"),
        ("postgres://ann:s3:cr/e@t@db:5432/x?a=b", "postgres://ann:***@db:5432/x?a=b"),
        ("postgresql://ann@db/x?password=s3cret&sslpassword=s3cret&a=b", "postgresql://ann@db/x?password=***&sslpassword=***&a=b"),
        ("postgresql://db/x", "postgresql://db/x"),
        ("postgresql://ann@db/x", "postgresql://ann@db/x"),
        ("postgresql:///x?host=/run/postgresql", "postgresql:///x?host=/run/postgresql"),
    ],
)  # fmt: skip
def test_a_url_is_shown_without_its_password(url: str, shown: str) -> None:
    assert mask_url(url) == shown
    assert store_at(url).display_name == shown
    assert "s3" not in repr(store_at(url).__dict__)


def test_without_its_driver_postgresql_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "find_spec", lambda name: None)
    with pytest.raises(WrongUse, match=r"postgresql://ann:\*\*\*@db/x: .*pip install \"endstop\[postgres\]\""):
        store_at("postgresql://ann:s3cret@db/x")


async def test_a_file_that_is_no_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("Not a database. " * 100)
    with pytest.raises(WrongUse, match="is not a SQLite database: name another file"):
        await store_at(path).open()
    assert path.read_text() == "Not a database. " * 100


async def test_a_database_of_something_else_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.sqlite"
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE sessions (id)")
    with pytest.raises(WrongUse, match="belongs to another program: name another file"):
        await store_at(path).open()
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("SELECT name FROM sqlite_master").fetchall() == [("sessions",)]


async def test_a_place_where_no_file_can_be_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "file" / "store.sqlite", tmp_path / "folder"):
        store = store_at(path)
        with pytest.raises(StoreError, match=str(path.parent)):
            await store.open()
        with pytest.raises(StoreError, match="not open"):
            await store.add(session())


async def test_a_server_that_asks_for_the_password_by_scram_is_answered(postgres: Server) -> None:
    name = postgres.new_database()
    postgres.execute(f"SET password_encryption = 'scram-sha-256'; CREATE ROLE {name} LOGIN PASSWORD '{PASSWORD}'")
    postgres.execute(f"ALTER DATABASE {name} OWNER TO {name}")
    url = make_url(postgres.url(name)).set(username=name)
    store = store_at(url.render_as_string(hide_password=False))
    await store.open()
    await store.close()
    with psycopg.connect(postgres.url()) as connection:
        kept = connection.execute("SELECT rolpassword FROM pg_authid WHERE rolname = %s", [name]).fetchone()
    assert kept is not None
    assert kept[0].startswith("SCRAM-SHA-256$")
    with pytest.raises(StoreError, match="rejects this user or password"):
        await store_at(url.set(password="wr0ng").render_as_string(hide_password=False)).open()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"password": "wr0ng"}, "rejects this user or password"),
        ({"database": "nothing"}, "the database does not exist: create it"),
        ({"port": 1}, "cannot be reached"),
        ({"host": "nowhere.invalid"}, "cannot be reached"),
    ],
)
async def test_a_database_that_cannot_be_reached_is_told_without_the_password(
    postgres: Server, change: dict[str, object], said: str
) -> None:
    values = {"password": "s3cret", "host": "127.0.0.1", "port": postgres.port, "database": "postgres", **change}
    if "password" not in change:
        values["password"] = "s3cret%2Fof%20the%3Atests"
    url = "postgresql://tests:{password}@{host}:{port}/{database}?connect_timeout=30".format(**values)
    store = store_at(url)
    with pytest.raises(StoreError, match=said) as told:
        await store.open()
    shown = "".join(traceback.format_exception(told.value))
    assert not any(secret in shown for secret in (PASSWORD, str(values["password"])))
    assert str(told.value).startswith("postgresql://tests:***@")
