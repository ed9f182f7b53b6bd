"""Hearing of what other processes change in a PostgreSQL database: a thread that waits for their NOTIFY.

When the connection is lost it makes a new one, and then says that anything may have changed.
"""

from __future__ import annotations

import asyncio
import selectors
import socket
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from typing import Any

from sqlalchemy import Connection, Engine

from .database import DATABASE_ERRORS
from .transaction import ANY, CHANNEL

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 2.0
"""Seconds between two tries to connect; each is twice the one before."""
CLOSE_SECONDS = 1.0
"""How long a thread that is just connecting is waited for; it ends by itself then."""

OnChange = Callable[[frozenset[str] | None], None]


class Listener:
    """Listens until it is closed.

    told: is called in the event loop that runs now; what comes meanwhile is told together.
    own: the id of this process, whose own news are none.
    """

    def __init__(self, engine: Engine, told: OnChange, own: Callable[[], str | None]) -> None:
        self._engine = engine
        self._told = told
        self._own = own
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._ids: set[str] = set()
        self._any = False
        self._due = False
        self._closed = threading.Event()
        self._woken, self._waker = socket.socketpair()
        self._thread = threading.Thread(target=self._work, name="endstop-store-listener", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Tell nothing more; blocks until the connection is closed."""
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
        )  # SQLAlchemy does not stand between everywhere
        with closing(self._woken):
            while not self._closed.is_set():
                try:
                    with self._engine.connect() as connection:
                        connection.exec_driver_sql(f"LISTEN {CHANNEL}")
                        pause = FIRST_PAUSE
                        self._gather({ANY})
                        self._hear(connection)
                except lost:
                    pass
                self._closed.wait(pause)
                pause = min(2 * pause, LONGEST_PAUSE)

    def _hear(self, connection: Connection) -> None:
        driver: Any = connection.connection.driver_connection
        with selectors.DefaultSelector() as ready:
            ready.register(self._woken, selectors.EVENT_READ)
            ready.register(driver.fileno(), selectors.EVENT_READ)
            while not self._closed.is_set():
                ready.select()
                driver.pgconn.consume_input()
                ids: set[str] = set()
                while (news := driver.pgconn.notifies()) is not None:
                    words = news.extra.decode(errors="replace").split()
                    if words[:1] != [self._own()]:
                        ids.update(words[1:])
                self._gather(ids)

    def _gather(self, ids: set[str]) -> None:
        if not ids:
            return
        with self._lock:
            self._any = self._any or ANY in ids
            self._ids |= ids
            due, self._due = self._due, True
        if not due:
            with suppress(RuntimeError):  # the event loop is closed, and nobody listens any more
                self._loop.call_soon_threadsafe(self._tell)

    # ---- in the event loop

    def _tell(self) -> None:
        with self._lock:
            ids, any_ = frozenset(self._ids), self._any
            self._ids, self._any, self._due = set(), False, False
        if not self._closed.is_set():
            self._told(None if any_ else ids)
