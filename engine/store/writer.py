"""The thread that writes: it commits all changes that were submitted meanwhile in one transaction.

While one transaction is being written, further changes queue up, so transactions grow with the load; a commit costs the
same for one batch as for a hundred. If a transaction fails, each of its changes is tried alone, so that one that cannot
be written does not fail the others. While the database is away, for example during a restart, all changes wait a
little.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from .base import LeaseLost, Process, StoreError
from .database import DATABASE_ERRORS, Database
from .transaction import Known, Transaction

MAX_CHANGES = 1000
"""How many changes are committed in one transaction, at most."""
MAX_BYTES = 16 << 20
"""Once the lines of a transaction have this many bytes, no more changes are added."""
RETRY_SECONDS = 10.0
"""Seconds for which changes wait for a database that is away, before they fail."""
RETRY_PAUSE = 0.1
"""Seconds between two attempts to reach a database that is away."""
MAX_TAILS = 100_000
"""Number of runs whose last sequence number is cached; beyond it the cache is cleared."""

T = TypeVar("T")


class _Unreachable(StoreError):
    """No connection to the database can be made, so no other change can be written now either."""


@dataclass(slots=True)
class _Write:
    change: Callable[[Transaction], Any]
    size: int
    future: asyncio.Future[Any]
    result: Any = None
    error: Exception | None = None


class Writer:
    """Commits changes in a thread with a connection of its own.

    patience: seconds for which changes wait for a database that is away, before they fail.
    """

    def __init__(self, database: Database, patience: float = RETRY_SECONDS) -> None:
        self._database = database
        self._patience = patience
        self._away = False
        self.process: Process | None = None
        """The process that writes, once it has joined: each transaction checks that it has not been evicted."""
        self._last_process: Process | None = None
        self._known = Known()
        self._queue: SimpleQueue[_Write | None] = SimpleQueue()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._work, name="endstop-store", daemon=True)
        self._thread.start()

    @property
    def process_id(self) -> str | None:
        """The id of `process`; None until it has joined."""
        return None if self.process is None else self.process.id

    async def write(self, change: Callable[[Transaction], T], size: int = 0) -> T:
        """Apply a change after all those submitted before; returns its result once it is committed. Raises StoreError.

        If the caller is cancelled meanwhile, the change is written all the same. size: bytes of its event lines.
        """
        if self._closed.is_set():
            raise StoreError(f"{self._database.display_name} is closed")
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._queue.put(_Write(change, size, future))
        return await future

    def close(self) -> None:
        """Write what was submitted; blocks until it is committed."""
        if not self._closed.is_set():
            self._closed.set()
            self._queue.put(None)
        self._thread.join()

    def _work(self) -> None:
        going = True
        while going:
            write = self._queue.get()
            if write is None:
                return
            writes, size = [write], write.size
            while len(writes) < MAX_CHANGES and size < MAX_BYTES:
                try:
                    write = self._queue.get_nowait()
                except Empty:
                    break
                if write is None:
                    going = False
                    break
                writes.append(write)
                size += write.size
            self._write(writes)
            _complete(writes)

    def _write(self, writes: list[_Write]) -> None:
        if len(self._known.tails) > MAX_TAILS or self._last_process is not self.process:
            self._known.clear()
        self._last_process = self.process
        left = deque(writes)
        deadline = time.monotonic() + (0.0 if self._away else self._patience)
        check_first = False
        while True:
            try:
                self._write_all(left, check_first=check_first)
            except _Unreachable as error:
                if time.monotonic() >= deadline or self._closed.wait(RETRY_PAUSE):
                    self._away = True  # the next changes fail at once, until the database is back
                    for write in left:
                        write.error = StoreError(str(error))
                    return
                check_first = True
            else:
                self._away = False
                return

    def _write_all(self, left: deque[_Write], *, check_first: bool) -> None:
        """Write all in one transaction; if that fails, each in its own.

        If the transactions are single ones, those that were written or failed are removed from `left`, so that after
        _Unreachable only the others are tried again.
        """
        try:
            self._write_in_one(left, check_first=check_first)
        except Exception as error:
            self._known.clear()  # a server that died may have lost what it had confirmed
            if isinstance(error, _Unreachable):
                raise
            if isinstance(error, LeaseLost):  # the same is true for each of them, and for all later ones
                for write in left:
                    write.error = LeaseLost(str(error))
                left.clear()
            while left:
                self._write_alone(left[0])
                left.popleft()

    def _write_alone(self, write: _Write) -> None:
        try:
            self._write_in_one([write], check_first=True)
        except _Unreachable:
            raise
        except DATABASE_ERRORS as error:
            write.error = self._database.map_error(error)
        except Exception as error:
            write.error = error

    def _write_in_one(self, writes: Iterable[_Write], *, check_first: bool) -> None:
        """Write all in one transaction. Raises what the database raises, and _Unreachable."""
        with ExitStack() as stack:
            try:
                connection = stack.enter_context(self._database.write_engine.begin())
            except DATABASE_ERRORS as error:
                raise _Unreachable(str(self._database.map_error(error))) from None
            transaction = Transaction(connection, self._known, check_first=check_first, process=self._last_process)
            transaction.claims.fence()
            for write in writes:
                write.result = write.change(transaction)
            transaction.flush()
            transaction.claims.notify()
        transaction.on_committed()


def _complete(writes: Iterable[_Write]) -> None:
    """Pass results and errors to the waiting callers, with one call per event loop."""
    loops: dict[asyncio.AbstractEventLoop, list[_Write]] = {}
    for write in writes:
        loops.setdefault(write.future.get_loop(), []).append(write)
    for loop, of_it in loops.items():
        with suppress(RuntimeError):  # the loop is closed, and nobody waits any more
            loop.call_soon_threadsafe(_wake, of_it)


def _wake(writes: Iterable[_Write]) -> None:
    for write in writes:
        if write.future.done():
            continue
        if write.error is None:
            write.future.set_result(write.result)
        else:
            write.future.set_exception(write.error)
