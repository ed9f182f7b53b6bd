"""The URL of DBOS's database, from a path or URL as users write it."""

from __future__ import annotations

import os
import sqlite3
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sqlalchemy import URL, NullPool, create_engine, inspect, make_url
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite

from ...decision import WrongUse
from ...store import url as stores
from ...store.database import DATABASE_ERRORS, KEEPALIVE_OPTIONS, map_db_error
from ...store.pooler_check import check_sessions

_NEWEST_NEEDED = (3, 42)
"""DBOS uses `unixepoch('subsec')`, which SQLite has since this version."""
_CONNECT_SECONDS = "10"
_DRIVER = "postgresql+psycopg"


@dataclass(frozen=True)
class DatabaseUrl:
    """The database of DBOS."""

    url: str
    """In the form that DBOS expects, with the password."""
    shown: str
    """For people, with `***` for the password."""
    secrets: tuple[str, ...] = ()
    """Passwords, which must not appear in any text."""

    @property
    def is_a_file(self) -> bool:
        """Whether the database is a SQLite file."""
        return self.url.startswith("sqlite")

    def check_sessions(self) -> None:
        """Raise WrongUse behind a pooler by transactions, and the driver's errors; blocks. A file passes."""
        if not self.is_a_file:
            engine = create_engine(make_url(self.url).set(drivername=_DRIVER), poolclass=NullPool)
            check_sessions(engine, self.shown)

    def has_tables(self) -> bool:
        """Return whether DBOS has its tables in the database; blocks. Raises ConnectionError."""
        url = make_url(self.url)
        if self.is_a_file and not Path(url.database or "").exists():
            return False  # SQLite would create it
        engine = create_engine(url if self.is_a_file else url.set(drivername=_DRIVER), poolclass=NullPool)
        try:
            with engine.connect() as connection:
                return inspect(connection).has_table("workflow_status", None if self.is_a_file else "dbos")
        except DATABASE_ERRORS as error:
            raise ConnectionError(str(map_db_error(error, self.shown, self.secrets))) from None

    def __repr__(self) -> str:
        return f"DatabaseUrl({self.shown!r})"


def parse_database_url(given: str | os.PathLike[str]) -> DatabaseUrl:
    """Parse a path or URL; opens nothing. Raises WrongUse if it is invalid, or if SQLite is too old."""
    found = stores.parse_store_url(given)
    if isinstance(found, Path):
        absolute = str(found.absolute())
        return DatabaseUrl(URL.create(_sqlite_driver(), database=absolute).render_as_string(), absolute)
    shown = stores.mask_url(os.fspath(given))
    if not found.database:
        raise WrongUse(f"{shown!r} names no database: give {stores.URL_FORMS}")
    # a database behind a broken network does not even send an error: without these DBOS's threads would wait forever
    patience = {**KEEPALIVE_OPTIONS, "connect_timeout": _CONNECT_SECONDS}
    # where a database has no encoding (SQL_ASCII, in a cluster made without a locale), the driver gives bytes for texts
    settings = {**patience, "client_encoding": "utf8"}
    url = found.update_query_dict({name: value for name, value in settings.items() if name not in found.query})
    # DBOS adds the driver (psycopg) to the URL
    whole = url.set(drivername="postgresql").render_as_string(hide_password=False)
    return DatabaseUrl(whole, shown, stores.passwords_in(found))


class _NewerSqlite(SQLiteDialect_pysqlite):
    """The SQLite of `pysqlite3`, for a Python linked with an older SQLite.

    It is a dialect because DBOS configures SQLite (write locks, foreign keys) only for engines that it creates.
    """

    supports_statement_cache = True

    @classmethod
    def import_dbapi(cls) -> Any:
        from pysqlite3 import dbapi2

        return dbapi2


def _sqlite_driver() -> str:
    if sqlite3.sqlite_version_info >= _NEWEST_NEEDED:
        return "sqlite"
    needed = ".".join(map(str, _NEWEST_NEEDED))
    old = f"DBOS needs SQLite {needed}, and this Python has {sqlite3.sqlite_version}"
    if find_spec("pysqlite3") is None:
        raise WrongUse(f"{old}: pip install pysqlite3-binary, or give a database of PostgreSQL")
    dialect = _NewerSqlite.import_dbapi()
    if dialect.sqlite_version_info < _NEWEST_NEEDED:
        raise WrongUse(f"{old}, and pysqlite3 has {dialect.sqlite_version}: pip install --upgrade pysqlite3-binary")
    registry.register("sqlite.endstop", __name__, _NewerSqlite.__name__)
    return "sqlite+endstop"
