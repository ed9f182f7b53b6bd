"""Open a SQLite database of endstop's: readable by its owner alone, and distinguished from other databases."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

FAILURES = (sqlite3.Error, UnicodeDecodeError)
"""Errors of a database that cannot be used. SQLite's message about a damaged schema may quote bytes that are not text,
and Python then fails to decode the message."""


def open_database(
    path: Path,
    *,
    what: str,
    application_id: int,
    version: int,
    tables: str,
    timeout: float,
    page_bytes: int = 4096,
    one_thread: bool = True,
) -> sqlite3.Connection:
    """Open a database, creating it if it does not exist. Each statement is a transaction, unless one is begun.

    what: the kind of database, for messages, such as "an endstop index". version: its `user_version`; a database with a
    higher one is refused. tables: the script that makes its tables. timeout: seconds to wait for the lock of another
    process. one_thread: whether only the opening thread may use it.

    Raises OSError, or one of `FAILURES` if it is another kind of database, or is damaged or locked.
    """
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    database = sqlite3.connect(path, timeout=timeout, isolation_level=None, check_same_thread=one_thread)
    try:
        (application,) = database.execute("PRAGMA application_id").fetchone()
        (schema,) = database.execute("PRAGMA user_version").fetchone()
        (found,) = database.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if found and application != application_id:
            raise sqlite3.DatabaseError(f"it is a database, but not {what}")
        if schema > version:
            raise sqlite3.DatabaseError(f"it has version {schema}, and this endstop knows up to {version}")
        if not found:
            database.execute(f"PRAGMA page_size = {page_bytes}")
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = NORMAL")
        if not found:
            database.execute(f"PRAGMA application_id = {application_id}")
            database.execute(f"PRAGMA user_version = {version}")
            database.executescript(tables)
    except BaseException:
        database.close()
        raise
    return database
