"""What a database's error means, in words for whoever runs the server."""

from __future__ import annotations

import sqlite3

from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as NoConnection

from .base import StoreError

CAUGHT = (DBAPIError, NoConnection, sqlite3.Error, OSError)
"""What a database that cannot do it raises."""

_SQLITE = {
    "SQLITE_FULL": "no space left",
    "SQLITE_BUSY": "another process is writing to it and does not come to an end",
    "SQLITE_READONLY": "it may not be written",
    "SQLITE_CANTOPEN": "it cannot be opened",
    "SQLITE_PERM": "it may not be opened",
    "SQLITE_IOERR": "the disk fails, or is full",
    "SQLITE_CORRUPT": "the file is damaged: take it from a backup",
    "SQLITE_NOTADB": "the file is damaged, or no database: take it from a backup, or name another file",
}
_POSTGRESQL = {
    "53100": "no space left",
    "53200": "the database server is out of memory",
    "53300": "the database server takes no more connections",
    "28": "the database refuses this user or password",
    "3D": "there is no such database: create it with `createdb`",
    "57014": "the database server takes too long",
    "57P": "the database server is stopping or starting",
    "08": "the database cannot be reached",
    "25006": "the database may only be read: is it a standby?",
    "42501": "this user may not do that in the database",
}
"""By SQLSTATE, or how it begins; the first that fits."""


def told(error: Exception, place: str, secrets: tuple[str, ...] = ()) -> StoreError:
    """The error for the caller. `secrets` are passwords: none of them stands in its text."""
    if isinstance(error, StoreError):
        return type(error)(str(error))
    cause: BaseException = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    said = " ".join(str(cause).split())
    meaning = _of_sqlite(cause) if isinstance(cause, sqlite3.Error) else _of_postgresql(cause)
    text = f"{place}: {meaning}: {said}" if meaning else f"{place}: {said}"
    for secret in secrets:
        text = text.replace(secret, "***")
    return StoreError(text)


def _of_sqlite(cause: sqlite3.Error) -> str:
    name = getattr(cause, "sqlite_errorname", "")
    return next((meaning for known, meaning in _SQLITE.items() if name.startswith(known)), "")


def _of_postgresql(cause: BaseException) -> str:
    state = getattr(cause, "sqlstate", None) or ""
    if state:
        return next((meaning for known, meaning in _POSTGRESQL.items() if state.startswith(known)), "")
    said = str(cause)
    if "password authentication failed" in said or "no password supplied" in said:
        return _POSTGRESQL["28"]
    if "database" in said and "does not exist" in said:
        return _POSTGRESQL["3D"]
    return _POSTGRESQL["08"] if type(cause).__name__ == "OperationalError" else ""
