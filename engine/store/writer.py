"""The thread that writes events and everything else in the store."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Any, TypeVar

from .base import LeaseLost, Process, StoreError
from .database import DATABASE_ERRORS, Database
from .transaction import Known, Transaction
from .write_thread import DatabaseAway, Write, WriteThread

RETRY_SECONDS = 10.0
"""Seconds for which changes wait for a database that is away, before they fail."""
MAX_TAILS = 100_000
"""Number of runs whose last sequence number is cached; beyond it the cache is cleared."""

T = TypeVar("T")
Change = Callable[[Transaction], Any]


class Writer(WriteThread[Change]):
    """Thread that commits changes of the store, with its own connection.

    patience: seconds for which changes wait for a database that is away, before they fail.
    """

    def __init__(self, database: Database, patience: float = RETRY_SECONDS) -> None:
        self._database = database
        self.process: Process | None = None
        """The process that writes, once it has joined: each transaction checks that it has not been evicted."""
        self._last_process: Process | None = None
        self._known = Known()
        super().__init__("endstop-store", patience)

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
        result: T = await self.submit(change, size)
        return result

    def _on_begin(self) -> None:
        if len(self._known.tails) > MAX_TAILS or self._last_process is not self.process:
            self._known.clear()
        self._last_process = self.process

    def _on_failed(self, error: Exception, left: deque[Write[Change]]) -> None:
        self._known.clear()  # a server that died may have lost what it had confirmed
        if isinstance(error, LeaseLost):  # the same is true for each of them, and for all later ones
            for write in left:
                write.error = LeaseLost(str(error))
            left.clear()

    def _error_of(self, error: Exception) -> Exception:
        return self._database.map_error(error) if isinstance(error, DATABASE_ERRORS) else error

    def _write_in_one(self, writes: Iterable[Write[Change]], *, check_first: bool) -> None:
        with ExitStack() as stack:
            try:
                connection = stack.enter_context(self._database.write_engine.begin())
            except DATABASE_ERRORS as error:
                raise DatabaseAway(str(self._database.map_error(error))) from None
            transaction = Transaction(connection, self._known, check_first=check_first, process=self._last_process)
            transaction.claims.fence()
            for write in writes:
                write.result = write.change(transaction)
            transaction.flush()
            transaction.claims.notify()
        transaction.on_committed()
