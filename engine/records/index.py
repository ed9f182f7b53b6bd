"""The index: a cache in SQLite of values computed from files, so that a second query need not read a file again.

A value is valid as long as its file has the same absolute path, size and time of last change, and the value's kind and
version are the requested ones. If the index cannot be used (not writable, damaged, locked, made by a newer endstop),
work continues without it, and `Index.problem` says why.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from types import TracebackType

from .parallel import FileFailure, ProgressCallback, map_files
from .sqlite_file import FAILURES, open_database

FILE_NAME = "index.sqlite"
SCHEMA_VERSION = 1
"""`user_version` of the database. An index with a higher one is not used."""
APPLICATION_ID = 0x656E6473
"""`application_id` of the database, which distinguishes an index from other databases."""
LOCK_TIMEOUT_SECONDS = 2.0
"""Seconds to wait for the lock of another process."""
PAGE_BYTES = 16 * 1024
"""Page size in bytes. Several values fit into one page, which is smaller and faster than SQLite's default."""
BATCH_SIZE = 200
"""Number of values written in one transaction."""
MAX_BYTES = 1 << 30
"""Size in bytes above which closing an index deletes the oldest quarter of its values."""

_TABLE = """
CREATE TABLE IF NOT EXISTS made (
    path BLOB NOT NULL, kind TEXT NOT NULL, version TEXT NOT NULL,
    size INTEGER NOT NULL, changed INTEGER NOT NULL, value BLOB NOT NULL, UNIQUE (path, kind)
)
"""
Stamp = tuple[int, int]
"""Size in bytes and time of last change in nanoseconds. A file whose stamp differs has changed."""


def file_stamp(path: str | os.PathLike[str]) -> Stamp | None:
    """Return the stamp of a file, to be taken before reading it. None if the file cannot be accessed."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns


def default_path() -> Path:
    """Return the path of the index in the user's cache folder: `$XDG_CACHE_HOME` if absolute, else `~/.cache`."""
    chosen = os.environ.get("XDG_CACHE_HOME", "")
    base = chosen if os.path.isabs(chosen) else os.path.expanduser("~/.cache")
    return Path(base, "endstop", FILE_NAME)


class Index:
    """A cache of values by file. A context manager, for use by one thread.

    kind: the kind of the values; several kinds share one database.
    version: the version of the code that computes them. Values of other versions are not returned.
    path: the file of the index; None for `default_path()`.
    """

    def __init__(self, kind: str, version: str, path: str | os.PathLike[str] | None = None) -> None:
        self.path = Path(path) if path is not None else default_path()
        self.problem = ""
        """Reason why the index is not used; empty while it is used."""
        self._kind, self._version = kind, version
        self._pending: list[tuple[bytes, str, str, int, int, bytes]] = []
        self._database: sqlite3.Connection | None = None
        try:
            self._database = self._open()
        except (OSError, *FAILURES) as error:
            self._disable(error)

    def __enter__(self) -> Index:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def get(self, path: str | os.PathLike[str], stamp: Stamp | None) -> bytes | None:
        """Return the value of this file; None if there is none, or the file has changed since."""
        if self._database is None or stamp is None:
            return None
        key = (_key(path), self._kind, self._version, *stamp)
        select = "SELECT value FROM made WHERE path = ? AND kind = ? AND version = ? AND size = ? AND changed = ?"
        try:
            row = self._database.execute(select, key).fetchone()
        except FAILURES as error:
            self._disable(error)
            return None
        return None if row is None else bytes(row[0])

    def put(self, path: str | os.PathLike[str], stamp: Stamp | None, value: bytes) -> None:
        """Store the value of a file. stamp: taken before the file was read."""
        if self._database is None or stamp is None:
            return
        self._pending.append((_key(path), self._kind, self._version, *stamp, value))
        if len(self._pending) >= BATCH_SIZE:
            self._write()

    def close(self) -> None:
        """Write pending values and close the database."""
        self._write()
        if self._database is not None:
            try:
                self._shrink(self._database)
                self._database.close()
            except FAILURES as error:
                self._disable(error)
            self._database = None

    def _open(self) -> sqlite3.Connection:
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        return open_database(
            self.path,
            what="an endstop index",
            application_id=APPLICATION_ID,
            version=SCHEMA_VERSION,
            tables=_TABLE,
            timeout=LOCK_TIMEOUT_SECONDS,
            page_bytes=PAGE_BYTES,
        )

    def _write(self) -> None:
        pending, self._pending = self._pending, []
        if self._database is None or not pending:
            return
        try:
            self._database.execute("BEGIN IMMEDIATE")
            self._database.executemany("INSERT OR REPLACE INTO made VALUES (?, ?, ?, ?, ?, ?)", pending)
            self._database.execute("COMMIT")
        except FAILURES as error:
            self._disable(error)

    def _shrink(self, database: sqlite3.Connection) -> None:
        (pages,) = database.execute("PRAGMA page_count").fetchone()
        (free,) = database.execute("PRAGMA freelist_count").fetchone()
        (size,) = database.execute("PRAGMA page_size").fetchone()
        if (pages - free) * size > MAX_BYTES:
            first = "SELECT rowid FROM made ORDER BY rowid LIMIT (SELECT count(*) / 4 FROM made)"
            database.execute(f"DELETE FROM made WHERE rowid IN ({first})")

    def _disable(self, error: Exception) -> None:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        self.problem = self.problem or f"the index {self.path} is not used: {why}"
        self._pending.clear()
        if self._database is not None:
            with suppress(*FAILURES):
                self._database.close()
            self._database = None


def _key(path: str | os.PathLike[str]) -> bytes:
    """Return the absolute path as bytes, because a file name need not be valid text."""
    return os.fsencode(os.path.abspath(path))


def map_files_cached(
    index: Index | None,
    work: Callable[[Path], bytes],
    paths: Sequence[Path],
    *,
    processes: int | None = None,
    progress: ProgressCallback | None = None,
) -> Generator[tuple[Path, bytes | FileFailure]]:
    """Work like `map_files`, but only on files for which the index has no value. Failures are not cached."""
    if index is None:
        yield from map_files(work, paths, processes=processes, progress=progress)
        return
    stamps = [file_stamp(path) for path in paths]
    unknown = [index.get(path, stamp) is None for path, stamp in zip(paths, stamps, strict=True)]
    missing = [path for path, is_unknown in zip(paths, unknown, strict=True) if is_unknown]
    known = len(paths) - len(missing)

    def add_known(done: int, total: int) -> None:
        if progress is not None:
            progress(known + done, len(paths))

    results = map_files(work, missing, processes=processes, progress=add_known)
    with closing(results):
        for path, stamp, is_unknown in zip(paths, stamps, unknown, strict=True):
            value: bytes | FileFailure | None = None if is_unknown else index.get(path, stamp)
            if is_unknown:
                _, value = next(results)
                if isinstance(value, bytes):
                    index.put(path, stamp, value)
            elif value is None:  # the index became unusable meanwhile
                _, value = next(map_files(work, [path]))
            yield path, value
