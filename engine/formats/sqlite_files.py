"""SQLite databases in which programs keep their sessions: recognised by their first bytes, and only read."""

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
    """Return whether the file begins like an SQLite database; False if it cannot be read."""
    return begins_with(path, MAGIC)


@contextmanager
def open_database(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a database to read it. Raises Unreadable, in the `with` block too, if it is damaged or locked.

    No files are created next to it. Its program may be running: then committed data is read.
    """
    mode = "mode=ro" if _has_journal(path) else "mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path.absolute()))}?{mode}", uri=True)) as connection:
            yield connection
    except sqlite3.Error as error:
        raise Unreadable(f"an SQLite database that cannot be read: {error}") from None


def table_names(path: Path) -> frozenset[str]:
    """Return the names of the tables of a database. Raises Unreadable if it is damaged."""
    with open_database(path) as connection:
        return frozenset(name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'"))


def _has_journal(path: Path) -> bool:
    """Return whether a file next to the database contains changes, without which it would be read incomplete."""
    beside = (path.with_name(f"{path.name}{suffix}") for suffix in ("-wal", "-journal"))
    return any(file.is_file() and file.stat().st_size > 0 for file in beside)
