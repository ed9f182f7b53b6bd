"""SQLite databases in which programs keep their sessions: recognised by their first bytes, and only ever read."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

from ..records.compression import begins_with
from .imported_session import Unreadable

MAGIC = b"SQLite format 3\x00"


def is_database(path: Path) -> bool:
    """Whether the file begins as an SQLite database does; False if it cannot be read."""
    return begins_with(path, MAGIC)


@contextmanager
def open_database(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a database to read it. Raises Unreadable, in the `with` block too, if it is damaged or locked.

    Nothing is written beside it. Its program may be running: then what it has committed is read.
    """
    mode = "mode=ro" if _has_journal(path) else "mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path.absolute()))}?{mode}", uri=True)) as connection:
            yield connection
    except sqlite3.Error as error:
        raise Unreadable(f"an SQLite database that cannot be read: {error}") from None


def table_names(path: Path) -> frozenset[str]:
    """Names of the tables of a database. Raises Unreadable if it is damaged."""
    with open_database(path) as connection:
        return frozenset(name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'"))


def _has_journal(path: Path) -> bool:
    """Whether changes stand in a file beside the database: without them it would be read torn."""
    beside = (path.with_name(f"{path.name}{suffix}") for suffix in ("-wal", "-journal"))
    return any(file.is_file() and file.stat().st_size > 0 for file in beside)
