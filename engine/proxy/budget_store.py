"""Store of the proxy's budgets: amounts spent and reserved, by day, in SQLite.

In a file, they are shared by all proxies of a machine that name it, and outlive them. A request is reserved in one
transaction, whichever process it comes from. Only a digest of a provider's key is stored, made with a secret in the
same file, which only its owner can read. Amounts reserved by a process that died soon count as spent.

All of this waits for the disk, so `day_budgets.py` calls it in a separate thread.
"""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import date, timedelta
from hashlib import blake2b
from pathlib import Path
from stat import S_ISDIR
from time import time
from uuid import uuid4

from msgspec import Struct

from ..budget import fits, limit_reached
from ..decision import Usage, WrongUse
from ..decision.events import BudgetRefused
from ..decision.messages import MOST_DOLLARS, MOST_TOKENS
from ..records.sqlite_file import FAILURES, open_database

VERSION = 1
"""`user_version` of the database. A file with a higher version is refused."""
APPLICATION_ID = 0x656E6462
"""`application_id` of the database, which distinguishes a store of budgets from other databases."""
LOCK_SECONDS = 1.0
"""Maximum seconds to wait for the lock of another process."""
PROCESS_SECONDS = 30.0
"""Seconds after its last sign of life until a process counts as dead, and its reservations as spent."""
DAY_SECONDS = 86_400
MOST_KEYS = 10_000
"""Maximum number of keys with their own budget in one day; further keys share one."""
EVERYBODY = b"everybody"
"""Name of the budget for all agents together."""
_OTHERS = b"others"
"""Name of the budget shared by the keys beyond `MOST_KEYS`. A key's own budget is named by its digest of 16 bytes."""

_TABLES = """
CREATE TABLE IF NOT EXISTS secret (value BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS spent (
    day TEXT NOT NULL, budget BLOB NOT NULL,
    input_tokens INTEGER NOT NULL, output_tokens INTEGER NOT NULL, cost_usd REAL NOT NULL,
    PRIMARY KEY (day, budget)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS reserved (
    request TEXT NOT NULL, day TEXT NOT NULL, budget BLOB NOT NULL, process TEXT NOT NULL,
    input_tokens INTEGER NOT NULL, output_tokens INTEGER NOT NULL, cost_usd REAL NOT NULL,
    PRIMARY KEY (day, budget, request)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS process (name TEXT PRIMARY KEY, seen REAL NOT NULL) WITHOUT ROWID;
"""

_ADD = """
INSERT INTO spent VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET input_tokens = input_tokens + excluded.input_tokens,
    output_tokens = output_tokens + excluded.output_tokens, cost_usd = cost_usd + excluded.cost_usd
"""
"""SQL that adds to the amounts spent of a budget on a day."""


class BudgetRequest(Struct, frozen=True, kw_only=True):
    """A request to be reserved."""

    name: str
    """Unique name of this request; empty if it was let through without being reserved."""
    day: str
    """The date, as in 2026-12-31."""
    budgets: Mapping[bytes, Mapping[str, float]]
    """Limits of each budget that it counts for, by the budget's name."""
    expected: Usage
    """Expected usage."""


class BudgetStore:
    """Amounts spent and reserved. For one thread at a time.

    path: the file; None for memory, for this process only. now: seconds since 1970, for signs of life.

    A call that raises one of `FAILURES` or OSError has changed nothing. Settled amounts are kept until a call succeeds.
    """

    def __init__(self, path: Path | None = None, now: Callable[[], float] = time) -> None:
        self.path = path
        self._now = now
        self._process = uuid4().hex
        self._secret = os.urandom(32)
        self._database: sqlite3.Connection | None = None
        self._file = (0, 0)
        """Device and inode of the open file, because another file may take its place."""
        self._day = ""
        """Latest day for which anything was reserved."""
        self._ended: list[str] = []
        """Requests that have ended but may still be reserved in the file."""
        self._used: dict[tuple[str, tuple[bytes, ...]], Usage] = {}
        """Usage that is not in the file yet, by day and names of budgets."""

    def open(self) -> None:
        """Open the file, or create it. Raises WrongUse if that is not possible."""
        try:
            self._connection()
        except (OSError, *FAILURES) as error:
            why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise WrongUse(
                f"--budget-store {self.path} cannot be used: {why}. Name another file; or delete this one, and what "
                "was spent today counts no more"
            ) from None

    def digest(self, key: str) -> bytes:
        """Return the name of a key's budget."""
        return blake2b(key.encode("utf-8", "surrogateescape"), key=self._secret, digest_size=16).digest()

    def reserve(self, request: BudgetRequest) -> BudgetRefused | bool:
        """Reserve a request in all its budgets.

        Returns True if it is reserved, False if it does not fit now in addition to the others, or the reason why it is
        refused.
        """
        with self._transaction() as database:
            self._forget_old(database, request.day)
            names = {self._known(database, request.day, name): limits for name, limits in request.budgets.items()}
            for name, limits in names.items():
                spent = _sum(database, "spent", request.day, name)
                if (reached := limit_reached(limits, spent)) is not None:
                    return BudgetRefused(step=0, limit=reached[0], used=reached[1], allowed=reached[2])
                held = _sum(database, "reserved", request.day, name)
                if held != Usage(cost_usd=0.0) and not fits(limits, spent + held + request.expected):
                    return False
            for name in names:
                row = (request.name, request.day, name, self._process, *_counts(request.expected))
                database.execute("INSERT INTO reserved VALUES (?, ?, ?, ?, ?, ?, ?)", row)
            self._sign(database)
        return True

    def note_end(self, request: BudgetRequest, used: Usage | None) -> None:
        """Note that a request has ended with this usage; None if it is unknown. `write` stores it."""
        if request.name:
            self._ended.append(request.name)
        if used is not None:
            key = request.day, tuple(request.budgets)
            self._used[key] = self._used.get(key, Usage()) + used

    def write(self) -> None:
        """Write the ended requests, and a sign of life of this process."""
        with self._transaction() as database:
            self._sign(database)

    def spent(self, day: str, budget: bytes) -> Usage:
        """Return the usage of a budget on this day."""
        with self._transaction() as database:
            return _sum(database, "spent", day, budget)

    def most_spent(self, day: str) -> tuple[Usage, Usage]:
        """Return the usage of all agents on this day, and the largest numbers of any other budget."""
        with self._transaction() as database:
            largest = "max(input_tokens), max(output_tokens), max(cost_usd)"
            others = f"SELECT {largest} FROM spent WHERE day = ? AND budget != ?"
            found = database.execute(others, (day, EVERYBODY)).fetchone()
            return _sum(database, "spent", day, EVERYBODY), _usage(found)

    def close(self) -> None:
        """Write the ended requests, and close the file."""
        try:
            if self._ended or self._used:
                self.write()
        finally:
            self._disconnect()

    # ---- the file

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Do everything inside the block, or nothing. Ended requests are written first."""
        try:
            database = self._connection()
            database.execute("BEGIN IMMEDIATE")
            self._write_ended(database)
            yield database
            database.execute("COMMIT")
        except BaseException:
            self._disconnect()  # this rolls back; the next call checks the file again
            raise
        self._ended.clear()
        self._used.clear()

    def _connection(self) -> sqlite3.Connection:
        if self._database is not None and self.path is not None and _identity(self.path) != self._file:
            self._disconnect()
            raise sqlite3.OperationalError("the file was deleted or replaced, and with it the amounts spent")
        if self._database is None:
            self._database = self._connect()
        return self._database

    def _connect(self) -> sqlite3.Connection:
        if self.path is None:
            database = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
            database.executescript(_TABLES)
            return database
        _check_file(self.path)
        database = open_database(
            self.path,
            what="a store of the proxy's budgets",
            application_id=APPLICATION_ID,
            version=VERSION,
            tables=_TABLES,
            timeout=LOCK_SECONDS,
            one_thread=False,
        )
        try:
            self._file = _identity(self.path)
            database.execute("INSERT INTO secret SELECT ? WHERE NOT EXISTS (SELECT 1 FROM secret)", (self._secret,))
            (self._secret,) = database.execute("SELECT value FROM secret").fetchone()
        except BaseException:
            database.close()
            raise
        return database

    def _disconnect(self) -> None:
        database, self._database = self._database, None
        if database is not None:
            with suppress(*FAILURES):
                database.close()

    # ---- inside a transaction

    def _write_ended(self, database: sqlite3.Connection) -> None:
        database.executemany("DELETE FROM reserved WHERE request = ?", [(name,) for name in self._ended])
        for (day, names), used in self._used.items():
            for name in names:
                database.execute(_ADD, (day, self._known(database, day, name), *_counts(used)))
        self._take_over(database)

    def _take_over(self, database: sqlite3.Connection) -> None:
        """Count the reservations of processes that died as spent: nobody will report what became of their requests."""
        dead = "process IN (SELECT name FROM process WHERE seen < ? AND name != ?)"
        who = (self._now() - PROCESS_SECONDS, self._process)
        sums = "sum(input_tokens), sum(output_tokens), sum(cost_usd)"
        left = f"SELECT day, budget, {sums} FROM reserved WHERE {dead} GROUP BY day, budget"
        for row in database.execute(left, who).fetchall():
            database.execute(_ADD, row)
        database.execute(f"DELETE FROM reserved WHERE {dead}", who)

    def _known(self, database: sqlite3.Connection, day: str, name: bytes) -> bytes:
        """Return the budget that counts for a name: its own, or the shared one if there are too many. Creates it."""
        here = "SELECT 1 FROM spent WHERE day = ? AND budget = ?"
        if database.execute(here, (day, name)).fetchone() is None:
            (keys,) = database.execute("SELECT count(*) FROM spent WHERE day = ?", (day,)).fetchone()
            name = name if keys < MOST_KEYS or name == EVERYBODY else _OTHERS
            database.execute("INSERT OR IGNORE INTO spent VALUES (?, ?, 0, 0, 0)", (day, name))
        return name

    def _sign(self, database: sqlite3.Connection) -> None:
        """Write a sign of life of this process."""
        database.execute("INSERT OR REPLACE INTO process VALUES (?, ?)", (self._process, self._now()))

    def _forget_old(self, database: sqlite3.Connection, day: str) -> None:
        """Delete data older than a day, once a day. Other processes may have clocks in other time zones."""
        if day == self._day:
            return
        before = (date.fromisoformat(day) - timedelta(days=2)).isoformat()
        database.execute("DELETE FROM spent WHERE day <= ?", (before,))
        database.execute("DELETE FROM process WHERE seen < ?", (self._now() - 2 * DAY_SECONDS,))
        self._day = day


def _check_file(path: Path) -> None:
    """Raise OSError for a file that others can read. Delete what a deleted file has left behind."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        for name in (f"{path}-wal", f"{path}-shm"):
            with suppress(FileNotFoundError):
                os.unlink(name)
        return
    if S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "it is a directory")
    if os.name == "posix" and mode & 0o077:
        raise PermissionError(errno.EPERM, "others may read or change it (chmod 600 forbids that)")


def _identity(path: Path) -> tuple[int, int]:
    """Return device and inode of a file; zeros if there is none."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return 0, 0
    return found.st_dev, found.st_ino


def _counts(usage: Usage) -> tuple[int, int, float]:
    return usage.input_tokens, usage.output_tokens, usage.cost_usd or 0.0


def _sum(database: sqlite3.Connection, table: str, day: str, name: bytes) -> Usage:
    sums = "total(input_tokens), total(output_tokens), total(cost_usd)"
    return _usage(database.execute(f"SELECT {sums} FROM {table} WHERE day = ? AND budget = ?", (day, name)).fetchone())


def _usage(row: tuple[float | None, ...]) -> Usage:
    """Return the amounts of a row; None in it is 0."""
    input_tokens, output_tokens, cost = (amount or 0 for amount in row)
    return Usage(
        input_tokens=min(int(input_tokens), MOST_TOKENS),
        output_tokens=min(int(output_tokens), MOST_TOKENS),
        cost_usd=min(cost, MOST_DOLLARS),
    )
