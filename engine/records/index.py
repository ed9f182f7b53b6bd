"""The index: what was made of each file, kept in SQLite, so that a second query need not read the files again.

A value is found again as long as the file has the same absolute path, size and time of change, and as long as what
made it is of the same kind and version. The index is a cache and no more: whatever is wrong with it (it cannot be
written, is damaged, locked, of a newer endstop), the work goes on without it, and `trouble` says so.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from types import TracebackType

from .parallel import FileFailure, ProgressCallback, map_files

FILE_NAME = "index.sqlite"
SCHEMA_VERSION = 1
"""In `user_version`; an index of a newer one is left alone."""
APPLICATION_ID = 0x656E6473
"""In `application_id`, so that no other database is taken for an index."""
LOCK_TIMEOUT_SECONDS = 2.0
"""How long another process's lock is waited for."""
PAGE_BYTES = 16 * 1024
"""Bytes: several values fit into a page, which makes the file smaller and everything faster."""
BATCH_SIZE = 200
"""Values that are written in one transaction."""
MAX_BYTES = 1 << 30
"""Bytes of the index; from there on its oldest quarter goes when it is closed."""

_TABLE = """
CREATE TABLE IF NOT EXISTS made (
    path BLOB NOT NULL, kind TEXT NOT NULL, version TEXT NOT NULL,
    size INTEGER NOT NULL, changed INTEGER NOT NULL, value BLOB NOT NULL, UNIQUE (path, kind)
)
"""
Stamp = tuple[int, int]
"""Size in bytes and time of the last change in nanoseconds: another stamp, another file."""


def file_stamp(path: str | os.PathLike[str]) -> Stamp | None:
    """The file as it is now, to be taken before it is read; None if it cannot be looked at."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns


def default_path() -> Path:
    """The user's cache folder: `$XDG_CACHE_HOME` if it is an absolute path, else `~/.cache`, and `endstop` in it."""
    chosen = os.environ.get("XDG_CACHE_HOME", "")
    base = chosen if os.path.isabs(chosen) else os.path.expanduser("~/.cache")
    return Path(base, "endstop", FILE_NAME)


class Index:
    """What was made of files. A context manager, for one thread. `path`: its file; None for the user's cache folder.

    kind: what the values are. version: of what makes them; another version's values are made anew.
    """

    def __init__(self, kind: str, version: str, path: str | os.PathLike[str] | None = None) -> None:
        self.path = Path(path) if path is not None else default_path()
        self.problem = ""
        """Why it is not used, in words; empty as long as it is."""
        self._kind, self._version = kind, version
        self._waiting: list[tuple[bytes, str, str, int, int, bytes]] = []
        self._database: sqlite3.Connection | None = None
        try:
            self._database = self._opened()
        except (OSError, sqlite3.Error) as error:
            self._give_up(error)

    def __enter__(self) -> Index:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def get(self, path: str | os.PathLike[str], stamp: Stamp | None) -> bytes | None:
        """What was made of this file as it is now; None if that is not known."""
        if self._database is None or stamp is None:
            return None
        asked = (_key(path), self._kind, self._version, *stamp)
        select = "SELECT value FROM made WHERE path = ? AND kind = ? AND version = ? AND size = ? AND changed = ?"
        try:
            row = self._database.execute(select, asked).fetchone()
        except sqlite3.Error as error:
            self._give_up(error)
            return None
        return None if row is None else bytes(row[0])

    def put(self, path: str | os.PathLike[str], stamp: Stamp | None, value: bytes) -> None:
        """Keep what was made of a file that had this stamp before it was read."""
        if self._database is None or stamp is None:
            return
        self._waiting.append((_key(path), self._kind, self._version, *stamp, value))
        if len(self._waiting) >= BATCH_SIZE:
            self._write()

    def close(self) -> None:
        """Write what waits, and close."""
        self._write()
        if self._database is not None:
            try:
                self._shrink(self._database)
                self._database.close()
            except sqlite3.Error as error:
                self._give_up(error)
            self._database = None

    def _opened(self) -> sqlite3.Connection:
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))  # it may hold what sessions said
        database = sqlite3.connect(self.path, timeout=LOCK_TIMEOUT_SECONDS, isolation_level=None)
        try:
            self._check(database)
        except BaseException:
            database.close()
            raise
        return database

    def _check(self, database: sqlite3.Connection) -> None:
        """Make the table, in a file that is empty or an index of ours."""
        (application,) = database.execute("PRAGMA application_id").fetchone()
        (schema,) = database.execute("PRAGMA user_version").fetchone()
        (tables,) = database.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if tables and application != APPLICATION_ID:
            raise sqlite3.DatabaseError("it is a database, but no index of endstop")
        if schema > SCHEMA_VERSION:
            raise sqlite3.DatabaseError(f"it has version {schema}, and this endstop knows up to {SCHEMA_VERSION}")
        if not tables:
            database.execute(f"PRAGMA page_size = {PAGE_BYTES}")
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = NORMAL")
        if not tables:
            database.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            database.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            database.execute(_TABLE)

    def _write(self) -> None:
        waiting, self._waiting = self._waiting, []
        if self._database is None or not waiting:
            return
        try:
            self._database.execute("BEGIN IMMEDIATE")
            self._database.executemany("INSERT OR REPLACE INTO made VALUES (?, ?, ?, ?, ?, ?)", waiting)
            self._database.execute("COMMIT")
        except sqlite3.Error as error:
            self._give_up(error)

    def _shrink(self, database: sqlite3.Connection) -> None:
        (pages,) = database.execute("PRAGMA page_count").fetchone()
        (free,) = database.execute("PRAGMA freelist_count").fetchone()
        (size,) = database.execute("PRAGMA page_size").fetchone()
        if (pages - free) * size > MAX_BYTES:
            first = "SELECT rowid FROM made ORDER BY rowid LIMIT (SELECT count(*) / 4 FROM made)"
            database.execute(f"DELETE FROM made WHERE rowid IN ({first})")

    def _give_up(self, error: Exception) -> None:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        self.problem = self.problem or f"the index {self.path} is not used: {why}"
        self._waiting.clear()
        if self._database is not None:
            with suppress(sqlite3.Error):
                self._database.close()
            self._database = None


def _key(path: str | os.PathLike[str]) -> bytes:
    """The absolute path, as bytes: a name need not be a text."""
    return os.fsencode(os.path.abspath(path))


def map_files_cached(
    index: Index | None,
    work: Callable[[Path], bytes],
    paths: Sequence[Path],
    *,
    processes: int | None = None,
    progress: ProgressCallback | None = None,
) -> Iterator[tuple[Path, bytes | FileFailure]]:
    """What `work` makes of each file, in the order of the files; only of those that the index does not know.

    Like `map_files`, with bytes as results; with no index it does no more than that. Failures are not cached.
    """
    if index is None:
        yield from map_files(work, paths, processes=processes, progress=progress)
        return
    stamps = [file_stamp(path) for path in paths]
    unknown = [index.get(path, stamp) is None for path, stamp in zip(paths, stamps, strict=True)]
    missing = [path for path, is_unknown in zip(paths, unknown, strict=True) if is_unknown]
    known = len(paths) - len(missing)

    def told(done: int, total: int) -> None:
        if progress is not None:
            progress(known + done, len(paths))

    made = map_files(work, missing, processes=processes, progress=told)
    with closing(made):
        for path, stamp, is_unknown in zip(paths, stamps, unknown, strict=True):
            value: bytes | FileFailure | None = None if is_unknown else index.get(path, stamp)
            if is_unknown:
                _, value = next(made)
                if isinstance(value, bytes):
                    index.put(path, stamp, value)
            elif value is None:  # the index was lost meanwhile
                _, value = next(map_files(work, [path]))
            yield path, value
