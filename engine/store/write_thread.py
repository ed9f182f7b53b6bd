"""A thread that writes all changes submitted in the meantime in one transaction.

While one transaction is being written, further changes queue up, so transactions grow with the load; a commit costs
the same for one change as for a hundred. If a transaction fails, each of its changes is tried alone, so that one that
cannot be written does not fail the others. While the database is away, for example during a restart, all changes wait.
"""

from __future__ import annotations

import asyncio
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

from .base import StoreError

MAX_CHANGES = 1000
"""How many changes are committed in one transaction, at most."""
MAX_BYTES = 16 << 20
"""Once the changes of a transaction have this many bytes, no more are added."""
RETRY_PAUSE = 0.1
"""Seconds between two attempts to reach a database that is away."""

C = TypeVar("C")


class DatabaseAway(StoreError):
    """No connection to the database can be made, so no other change can be written now either."""


@dataclass(slots=True)
class Write(Generic[C]):
    """A submitted change, and its result."""

    change: C
    size: int
    future: asyncio.Future[Any]
    result: Any = None
    error: Exception | None = None


class WriteThread(ABC, Generic[C]):
    """Thread that commits changes in the order in which they were submitted.

    name: of the thread. patience: seconds for which changes wait for a database that is away, before they fail.
    """

    def __init__(self, name: str, patience: float) -> None:
        self._patience = patience
        self._away = False
        self._queue: SimpleQueue[Write[C] | None] = SimpleQueue()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    async def submit(self, change: C, size: int = 0) -> Any:
        """Make a change after all those submitted before; returns its result once it is committed.

        Raises its error, and StoreError once the thread is closed. If the caller is cancelled meanwhile, the change is
        made all the same. size: its bytes.
        """
        if self._closed.is_set():
            raise StoreError("it is closed")
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._queue.put(Write(change, size, future))
        return await future

    def close(self) -> None:
        """Write what was submitted, unless the database is away; blocks until it is committed."""
        if not self._closed.is_set():
            self._closed.set()
            self._queue.put(None)
        self._thread.join()

    @abstractmethod
    def _write_in_one(self, writes: Sequence[Write[C]], *, check_first: bool) -> None:
        """Make all changes in one transaction, and set their results.

        check_first: a transaction has failed, and it is unknown whether its commit succeeded: check what is already
        there. Raises the database's errors, and DatabaseAway.
        """

    @abstractmethod
    def _error_of(self, error: Exception) -> Exception:
        """Return the error for the caller of a change that failed alone.

        Raises DatabaseAway if it is to be tried again.
        """

    def _on_failed(self, error: Exception, left: deque[Write[C]]) -> None:
        """Handle the failure of a transaction of all changes in `left`.

        May fail and remove them without another attempt.
        """

    def _on_begin(self) -> None:
        """Prepare for changes that are about to be made."""

    def _on_away(self, error: DatabaseAway) -> None:
        """Handle an unreachable database, for which the changes wait."""

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

    def _write(self, writes: list[Write[C]]) -> None:
        self._on_begin()
        left = deque(writes)
        deadline = time.monotonic() + (0.0 if self._away else self._patience)
        check_first = False
        while True:
            try:
                self._write_all(left, check_first=check_first)
            except DatabaseAway as error:
                self._on_away(error)
                if time.monotonic() >= deadline or self._closed.wait(RETRY_PAUSE):
                    self._away = True  # the next changes fail immediately, until the database is back
                    for write in left:
                        write.error = StoreError(str(error))
                    return
                check_first = True
            else:
                self._away = False
                return

    def _write_all(self, left: deque[Write[C]], *, check_first: bool) -> None:
        """Write all in one transaction; if that fails, each in its own.

        If the transactions are single ones, those that were written or failed are removed from `left`, so that after
        DatabaseAway only the others are tried again.
        """
        try:
            self._write_in_one(left, check_first=check_first)
        except Exception as error:
            self._on_failed(error, left)
            if isinstance(error, DatabaseAway):
                raise
            while left:
                self._write_alone(left[0])
                left.popleft()

    def _write_alone(self, write: Write[C]) -> None:
        try:
            self._write_in_one([write], check_first=True)
        except DatabaseAway:
            raise
        except Exception as error:
            write.error = self._error_of(error)


def _complete(writes: Iterable[Write[Any]]) -> None:
    """Pass results and errors to the waiting callers, with one call per event loop."""
    loops: dict[asyncio.AbstractEventLoop, list[Write[Any]]] = {}
    for write in writes:
        loops.setdefault(write.future.get_loop(), []).append(write)
    for loop, of_it in loops.items():
        with suppress(RuntimeError):  # the loop is closed, and nobody waits any more
            loop.call_soon_threadsafe(_wake, of_it)


def _wake(writes: Iterable[Write[Any]]) -> None:
    for write in writes:
        if write.future.done():
            continue
        if write.error is None:
            write.future.set_result(write.result)
        else:
            write.future.set_exception(write.error)
