"""Threads that learn that other processes have changed sessions: from PostgreSQL (LISTEN/NOTIFY), or by looking.

When the listener loses the connection it opens a new one, and then reports that any session may have changed.
"""

from __future__ import annotations

import asyncio
import selectors
import socket
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from typing import Any

from sqlalchemy import Connection, Engine, func, select

from .database import DATABASE_ERRORS
from .database_schema import PROCESSES
from .transaction import ANY, CHANNEL

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 2.0
"""Seconds between two attempts to connect; each pause is twice the one before."""
CLOSE_SECONDS = 1.0
"""How long `close` waits for a thread that is connecting; the thread ends by itself after that."""

LOOK_SECONDS = 0.5
"""Seconds between two looks of a `ChangeWatcher`."""

OnChange = Callable[[frozenset[str] | None], None]


class Listener:
    """Listener for changes of sessions; it listens until it is closed.

    on_change: called in the running event loop with the ids of changed sessions, or None: any session may have changed.
        Notifications that arrive while a call is pending are merged into it.
    own: returns the id of this process, whose own notifications are ignored.
    """

    def __init__(self, engine: Engine, on_change: OnChange, own: Callable[[], str | None]) -> None:
        self._engine = engine
        self._on_change = on_change
        self._own = own
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._ids: set[str] = set()
        self._any_changed = False
        self._call_pending = False
        self._closed = threading.Event()
        self._woken, self._waker = socket.socketpair()
        self._thread = threading.Thread(target=self._work, name="endstop-store-listener", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Make no more calls; blocks until the connection is closed."""
        self._closed.set()
        with suppress(OSError):
            self._waker.send(b"x")
        self._thread.join(CLOSE_SECONDS)
        self._waker.close()

    # ---- in the thread

    def _work(self) -> None:
        pause = FIRST_PAUSE
        driver: Any = self._engine.dialect.loaded_dbapi
        lost: tuple[type[Exception], ...] = (
            *DATABASE_ERRORS,
            driver.Error,
        )  # SQLAlchemy does not wrap all of its errors
        with closing(self._woken):
            while not self._closed.is_set():
                try:
                    with self._engine.connect() as connection:
                        connection.exec_driver_sql(f"LISTEN {CHANNEL}")
                        pause = FIRST_PAUSE
                        self._merge({ANY})
                        self._receive(connection)
                except lost:
                    pass
                self._closed.wait(pause)
                pause = min(2 * pause, LONGEST_PAUSE)

    def _receive(self, connection: Connection) -> None:
        driver: Any = connection.connection.driver_connection
        with selectors.DefaultSelector() as ready:
            ready.register(self._woken, selectors.EVENT_READ)
            ready.register(driver.fileno(), selectors.EVENT_READ)
            while not self._closed.is_set():
                ready.select()
                driver.pgconn.consume_input()
                ids: set[str] = set()
                while (notification := driver.pgconn.notifies()) is not None:
                    words = notification.extra.decode(errors="replace").split()
                    if words[:1] != [self._own()]:
                        ids.update(words[1:])
                self._merge(ids)

    def _merge(self, ids: set[str]) -> None:
        if not ids:
            return
        with self._lock:
            self._any_changed = self._any_changed or ANY in ids
            self._ids |= ids
            pending, self._call_pending = self._call_pending, True
        if not pending:
            with suppress(RuntimeError):  # the event loop is closed, and nobody waits any more
                self._loop.call_soon_threadsafe(self._report)

    # ---- in the event loop

    def _report(self) -> None:
        with self._lock:
            ids, any_ = frozenset(self._ids), self._any_changed
            self._ids, self._any_changed, self._call_pending = set(), False, False
        if not self._closed.is_set():
            self._on_change(None if any_ else ids)


class ChangeWatcher:
    """Watcher of a SQLite file, which has no notifications: it looks whether another process has written, until closed.

    It reports, in the running event loop, that any session may have changed. Where this process is the only one of the
    store it reports nothing. `PRAGMA data_version` changes with each commit of another connection.
    """

    def __init__(self, engine: Engine, on_change: OnChange) -> None:
        self._engine = engine
        self._on_change = on_change
        self._loop = asyncio.get_running_loop()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._work, name="endstop-store-watcher", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Make no more calls; blocks until the connection is closed."""
        self._closed.set()
        self._thread.join(CLOSE_SECONDS)

    def _work(self) -> None:
        while not self._closed.wait(LOOK_SECONDS):
            with suppress(*DATABASE_ERRORS), self._engine.connect() as connection:
                self._watch(connection)

    def _watch(self, connection: Connection) -> None:
        before, others = None, 0
        while not self._closed.wait(LOOK_SECONDS):
            version = connection.exec_driver_sql("PRAGMA data_version").scalar()
            has_changed, had_others = version != before, others > 0
            if has_changed:
                others = connection.execute(_MEMBERS).scalar_one() - 1
            connection.rollback()
            before = version
            if has_changed and (others > 0 or had_others):  # one that has left since may have written before
                with suppress(RuntimeError):  # the event loop is closed, and nobody waits any more
                    self._loop.call_soon_threadsafe(self._report)

    def _report(self) -> None:
        if not self._closed.is_set():
            self._on_change(None)


_MEMBERS = select(func.count()).select_from(PROCESSES)
