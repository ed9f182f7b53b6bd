"""Where DBOS keeps its tables: a path or a URL in, what DBOS wants out."""

from __future__ import annotations

import os
import sqlite3
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sqlalchemy import URL
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite

from ...decision import WrongUse
from ...store import url as stores
from ...store.database import KEEPALIVE_OPTIONS

_NEWEST_NEEDED = (3, 42)
"""DBOS asks SQLite for `unixepoch('subsec')`, which came with this version."""
_CONNECT_SECONDS = "10"


@dataclass(frozen=True)
class DatabaseUrl:
    """A database for DBOS."""

    url: str
    """As DBOS takes it, with the password."""
    shown: str
    """For people: three stars stand for the password."""
    secrets: tuple[str, ...] = ()
    """What must stand in no text."""

    @property
    def is_a_file(self) -> bool:
        """Whether it is a file of SQLite."""
        return self.url.startswith("sqlite")

    def __repr__(self) -> str:
        return f"DatabaseUrl({self.shown!r})"


def parse_database_url(given: str | os.PathLike[str]) -> DatabaseUrl:
    """The place that is meant. Opens nothing. Raises WrongUse for what is none, or if something is not installed."""
    if find_spec("dbos") is None:
        raise WrongUse('DBOS is not installed: pip install "endstop[dbos]"')
    found = stores.parse_store_url(given)
    if isinstance(found, Path):
        absolute = str(found.absolute())
        return DatabaseUrl(URL.create(_sqlite_driver(), database=absolute).render_as_string(), absolute)
    shown = stores.mask_url(os.fspath(given))
    if not found.database:
        raise WrongUse(f"{shown!r} names no database: give {stores.URL_FORMS}")
    # of a database that is cut off nothing is heard, not even an error: without these DBOS's threads wait for ever
    patience = {**KEEPALIVE_OPTIONS, "connect_timeout": _CONNECT_SECONDS}
    url = found.update_query_dict({name: value for name, value in patience.items() if name not in found.query})
    # DBOS puts the driver's name (psycopg) into the URL by itself
    whole = url.set(drivername="postgresql").render_as_string(hide_password=False)
    return DatabaseUrl(whole, shown, stores.passwords_in(found))


class _NewerSqlite(SQLiteDialect_pysqlite):
    """SQLite as `pysqlite3` brings it, for a Python that is linked with an old one.

    A dialect, and not an engine of ours that DBOS takes too: what DBOS sets up for SQLite (write locks, foreign keys)
    it sets up for engines of its own alone.
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
