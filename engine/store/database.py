"""Connections to SQLite and PostgreSQL, their errors in plain words, and migration of the tables."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import URL, Connection, Engine, NullPool, QueuePool, create_engine, event, inspect, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as NoConnection

from ..decision import WrongUse
from .base import StoreError
from .database_schema import VERSION_TABLE
from .pooler_check import check_sessions

READERS = 4
"""How many reads can run at the same time, each with its own thread and connection."""
TIMEOUT_SECONDS = 10.0
"""How long to wait for another process's lock (SQLite), or for a connection to the server (PostgreSQL)."""
LEASE_TIMEOUT_SECONDS = 3.0
"""`TIMEOUT_SECONDS` of the connection that renews the lease: shorter, so that there is time for another attempt."""
LOCK_SECONDS = 3.0
"""For how long a migration waits for a table that others hold, as `pg_dump` does for as long as it takes. All who need
the table wait behind the migration, and a process that cannot renew its lease loses its sessions."""
LOCK_ATTEMPTS = 10
"""How often a migration tries to get a table; it pauses for a second before the next attempt, so that others get it."""
KEEPALIVE_OPTIONS = {
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "10000",
}
"""Options of libpq by which an idle connection notices that the server's machine is gone."""
PAGE_BYTES = 8192
"""Page size of a new SQLite file."""

DATABASE_ERRORS = (DBAPIError, NoConnection, sqlite3.Error, OSError)
"""Errors that SQLAlchemy and the drivers raise if the database cannot do what was asked."""

_SQLITE = {
    "SQLITE_FULL": "no space left",
    "SQLITE_BUSY": "another process keeps writing to it",
    "SQLITE_READONLY": "it is read-only",
    "SQLITE_CANTOPEN": "it cannot be opened",
    "SQLITE_PERM": "it may not be opened",
    "SQLITE_IOERR": "the disk is failing or full",
    "SQLITE_CORRUPT": "the file is damaged: restore it from a backup",
    "SQLITE_NOTADB": "the file is damaged or not a database: restore it from a backup, or name another file",
}
_POSTGRESQL = {
    "53100": "no space left",
    "53200": "the database server is out of memory",
    "53300": "the database server accepts no more connections",
    "28": "the database rejects this user or password",
    "3D": "the database does not exist: create it with `createdb`",
    "55P03": "a table is in use, by a backup or by another program: start again when that has ended",
    "57014": "the database server takes too long",
    "57P": "the database server is stopping or starting",
    "08": "the database cannot be reached",
    "25006": "the database is read-only: is it a standby?",
    "42501": "this user lacks a permission in the database",
}
"""The meaning of PostgreSQL's errors, for people, by SQLSTATE or a prefix of it; the first match counts."""
_LOCKED = ("55P03", "40P01")
"""PostgreSQL's errors when others keep locks for too long, or wait for ours."""

_FOLDER = Path(__file__).parent / "migrations"
_LOCK = 0x656E6473746F70
"""The number of our advisory lock in PostgreSQL: `endstop` in ASCII."""
_OPTIONS = {"version_table": VERSION_TABLE}


class Database:
    """SQLAlchemy engines for the writer, for readers and for the lease, so that none waits for the others."""

    display_name: str
    """The path or URL, without a password."""
    write_engine: Engine
    read_engine: Engine
    lease_engine: Engine
    listen_engine: Engine | None = None
    """For notifications of other processes; None for SQLite, which has no notifications."""
    secrets: tuple[str, ...] = ()
    """Passwords, which are masked in error messages."""

    def prepare(self) -> None:
        """Check that the database can be used, and migrate its tables. Raises WrongUse or one of `DATABASE_ERRORS`.

        Each migration has a transaction of its own, and locks one table: processes that are at work lock several, and
        neither would let the other go on.
        """
        is_latest, attempts = False, LOCK_ATTEMPTS
        while not is_latest:
            try:
                with self.write_engine.begin() as connection:
                    is_latest = migrate(connection, self.display_name)
            except DBAPIError as error:
                attempts -= 1
                if getattr(error.orig, "sqlstate", None) not in _LOCKED or not attempts:
                    raise
                time.sleep(1.0)

    def dispose(self) -> None:
        """Close all connections."""
        self.write_engine.dispose()
        self.read_engine.dispose()
        self.lease_engine.dispose()

    def map_error(self, error: Exception) -> StoreError:
        """Return the StoreError for an error of this database."""
        return map_db_error(error, self.display_name, self.secrets)


class Sqlite(Database):
    """A SQLite file in WAL mode: readers and the writer do not wait for one another."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.display_name = str(self.path)
        self.write_engine = self._engine("BEGIN IMMEDIATE", 1)
        self.read_engine = self._engine("BEGIN", READERS + 1)  # one for the watcher of other processes
        self.lease_engine = self._engine(
            "BEGIN IMMEDIATE", 1, lambda: self._connect(min(TIMEOUT_SECONDS, LEASE_TIMEOUT_SECONDS))
        )

    def prepare(self) -> None:
        """Create the file, readable by this user alone, with its folder, if it does not exist; migrate its tables."""
        if sqlite3.sqlite_version_info < (3, 35):
            raise WrongUse(
                f"this Python has SQLite {sqlite3.sqlite_version}, and a store needs 3.35 or newer: "
                "use a newer Python, or PostgreSQL"
            )
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if not self.path.exists():
            os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
        self._into_wal()
        super().prepare()

    def _into_wal(self) -> None:
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while True:
            try:
                with closing(self._connect()) as database:
                    if database.execute("PRAGMA journal_mode").fetchone() != ("wal",):
                        database.execute(f"PRAGMA page_size = {PAGE_BYTES}")
                        database.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.DatabaseError as error:
                if error.sqlite_errorname == "SQLITE_NOTADB":
                    raise WrongUse(f"{self.path} is not a SQLite database: name another file") from None
                # Another process is switching the mode, too; SQLite does not wait for a lock here.
                if not error.sqlite_errorname.startswith("SQLITE_BUSY") or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)

    def _connect(self, seconds: float | None = None) -> sqlite3.Connection:
        timeout = TIMEOUT_SECONDS if seconds is None else seconds
        connection = sqlite3.connect(self.path, timeout=timeout, isolation_level=None, check_same_thread=False)
        try:
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("PRAGMA synchronous = NORMAL")
        except BaseException:
            connection.close()
            raise
        return connection

    def _engine(self, begin: str, connections: int, connect: Callable[[], sqlite3.Connection] | None = None) -> Engine:
        engine = create_engine(
            "sqlite://", creator=connect or self._connect, poolclass=QueuePool, pool_size=connections, max_overflow=0
        )

        def on_begin(connection: Connection) -> None:
            connection.exec_driver_sql(begin)

        event.listen(engine, "begin", on_begin)
        return engine


class Postgresql(Database):
    """A database on a PostgreSQL server."""

    def __init__(self, url: URL, shown: str, secrets: tuple[str, ...]) -> None:
        self.display_name = shown
        self.secrets = secrets
        self.write_engine = self._engine(url, pool_size=1)
        # a transaction of queries would not see one state of the database either, and takes two more statements
        self.read_engine = self._engine(url, pool_size=READERS, isolation_level="AUTOCOMMIT")
        soon = {**KEEPALIVE_OPTIONS, "connect_timeout": str(int(LEASE_TIMEOUT_SECONDS))}
        self.lease_engine = self._engine(url, soon, pool_size=1, pool_pre_ping=True)
        self.listen_engine = self._engine(url, soon, poolclass=NullPool, isolation_level="AUTOCOMMIT")

    def prepare(self) -> None:
        """Raise WrongUse also behind a pooler by transactions; see `Database.prepare`."""
        check_sessions(self.read_engine, self.display_name)
        super().prepare()

    @staticmethod
    def _engine(url: URL, more: Mapping[str, str] | None = None, **pool: Any) -> Engine:
        settings = {
            "client_encoding": "utf8",
            "application_name": "endstop",
            "connect_timeout": str(int(TIMEOUT_SECONDS)),
        }
        settings = {name: value for name, value in (settings | dict(more or {})).items() if name not in url.query}
        if "poolclass" not in pool:
            pool |= {"max_overflow": 0, "pool_recycle": 3600}
        return create_engine(url, connect_args=settings, **pool)


def map_db_error(error: Exception, name: str, secrets: tuple[str, ...] = ()) -> StoreError:
    """Return the StoreError to raise for an error of a database. secrets: passwords, masked in its text."""
    if isinstance(error, StoreError):
        return type(error)(str(error))
    cause: BaseException = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    reason = " ".join(str(cause).split())
    meaning = _sqlite_meaning(cause) if isinstance(cause, sqlite3.Error) else _postgresql_meaning(cause)
    text = f"{name}: {meaning}: {reason}" if meaning else f"{name}: {reason}"
    for secret in secrets:
        text = text.replace(secret, "***")
    return StoreError(text)


def _sqlite_meaning(cause: sqlite3.Error) -> str:
    name = getattr(cause, "sqlite_errorname", "")
    return next((meaning for known, meaning in _SQLITE.items() if name.startswith(known)), "")


def _postgresql_meaning(cause: BaseException) -> str:
    state = getattr(cause, "sqlstate", None) or ""
    if state:
        return next((meaning for known, meaning in _POSTGRESQL.items() if state.startswith(known)), "")
    reason = str(cause)
    if "password authentication failed" in reason or "no password supplied" in reason:
        return _POSTGRESQL["28"]
    if "database" in reason and "does not exist" in reason:
        return _POSTGRESQL["3D"]
    return _POSTGRESQL["08"] if type(cause).__name__ == "OperationalError" else ""


def migrate(connection: Connection, name: str) -> bool:
    """Make the next migration of the tables, in the transaction of the connection; the caller commits.

    Returns whether they have the latest schema then. If two processes open a new database at the same time, one waits
    for the other. Raises WrongUse if the schema is newer than this endstop, or if a SQLite file belongs to another
    program.
    """
    script = _scripts()
    if _version(connection) == script.get_current_head():
        return True
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
    version = _version(connection)  # another process may have migrated it meanwhile
    if version is None and connection.dialect.name == "sqlite" and inspect(connection).get_table_names():
        raise WrongUse(f"{name} belongs to another program: name another file")
    known = [revision.revision for revision in script.walk_revisions()]
    if version is not None and version not in known:
        raise WrongUse(
            f"{name} was written by a newer endstop: its schema is {version}, and this endstop knows up to "
            f"{script.get_current_head()}: upgrade endstop, or name another store"
        )
    if version == script.get_current_head():
        return True
    if connection.dialect.name == "postgresql":
        connection.execute(text(f"SET LOCAL lock_timeout = {LOCK_SECONDS * 1000:.0f}"))
    command.upgrade(_config(configure={"connection": connection, **_OPTIONS}), "+1")
    return _version(connection) == script.get_current_head()


@cache
def _scripts() -> ScriptDirectory:
    """Return the migrations, read once for all stores of a process."""
    return ScriptDirectory.from_config(_config())


def _config(**attributes: Any) -> Config:
    config = Config(attributes=attributes)
    config.set_main_option("script_location", str(_FOLDER).replace("%", "%%"))
    return config


def _version(connection: Connection) -> str | None:
    return MigrationContext.configure(connection, opts=_OPTIONS).get_current_revision()
