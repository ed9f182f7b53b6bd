"""The one thread that writes: it gathers what was handed in meanwhile and commits it in one transaction.

While one transaction is being written the next gathers, so the more is handed in, the more goes into each; a commit
costs the same for one batch as for a hundred. If a transaction fails, each change is tried alone: one that cannot be
written does not take the others with it. While the database is away, a restart for example, everybody waits a little.
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
from typing import Any

from .base import LeaseLost, Process, StoreError
from .database import DATABASE_ERRORS, Database
from .transaction import RunTail, Transaction

MOST = 1000
"""Transaction in one transaction."""
MOST_BYTES = 16 << 20
"""Bytes of lines in one transaction, from which on nothing more is added."""
PATIENCE = 10.0
"""Seconds for which a database that is away is waited for, before what was handed in is refused."""
PAUSE = 0.1
"""Seconds between two tries."""
MOST_TAILS = 100_000
"""Runs of which the end is known without asking; then they are asked for anew."""


class _Unreachable(StoreError):
    """There is no connection, so that there is no use in trying anything else."""


@dataclass(slots=True)
class _Job:
    change: Callable[[Transaction], Any]
    size: int
    future: asyncio.Future[Any]
    result: Any = None
    error: Exception | None = None


class Writer:
    """A thread with a connection of its own."""

    def __init__(self, database: Database, patience: float = PATIENCE) -> None:
        self._database = database
        self._patience = patience
        self._away = False
        self.own: Process | None = None
        """As which process it writes: each transaction makes sure that this one has not been given up."""
        self._wrote_as: Process | None = None
        self._tails: dict[str, RunTail] = {}
        self._queue: SimpleQueue[_Job | None] = SimpleQueue()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._work, name="endstop-store", daemon=True)
        self._thread.start()

    @property
    def own_id(self) -> str | None:
        """What that process is called."""
        return None if self.own is None else self.own.id

    async def write(self, change: Callable[[Transaction], Any], size: int = 0) -> Any:
        """Have this done after all that was handed in before; returns once it is committed. Raises StoreError.

        A caller that is cancelled meanwhile leaves the change to be written.
        """
        if self._closed.is_set():
            raise StoreError(f"{self._database.display_name} is closed")
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._queue.put(_Job(change, size, future))
        return await future

    def close(self) -> None:
        """Write what was handed in; blocks until it is there."""
        if not self._closed.is_set():
            self._closed.set()
            self._queue.put(None)
        self._thread.join()

    def _work(self) -> None:
        going = True
        while going:
            job = self._queue.get()
            if job is None:
                return
            jobs, size = [job], job.size
            while len(jobs) < MOST and size < MOST_BYTES:
                try:
                    job = self._queue.get_nowait()
                except Empty:
                    break
                if job is None:
                    going = False
                    break
                jobs.append(job)
                size += job.size
            self._write(jobs)
            _settle(jobs)

    def _write(self, jobs: list[_Job]) -> None:
        if len(self._tails) > MOST_TAILS or self._wrote_as is not self.own:
            self._tails.clear()
        self._wrote_as = self.own
        left = deque(jobs)
        deadline = time.monotonic() + (0.0 if self._away else self._patience)
        careful = False
        while True:
            try:
                self._write_all(left, careful=careful)
            except _Unreachable as error:
                if time.monotonic() >= deadline or self._closed.wait(PAUSE):
                    self._away = True  # the next ones are told at once, until it is back
                    for job in left:
                        job.error = StoreError(str(error))
                    return
                careful = True
            else:
                self._away = False
                return

    def _write_all(self, left: deque[_Job], *, careful: bool) -> None:
        """All of them at once, or else one by one; those that are settled are taken off. Raises _Unreachable."""
        try:
            self._together(left, careful=careful)
        except Exception as error:
            self._tails.clear()  # a server that died may have lost what it had said was written
            if isinstance(error, _Unreachable):
                raise
            if isinstance(error, LeaseLost):  # it holds for each of them, and for all that follow
                for job in left:
                    job.error = LeaseLost(str(error))
                left.clear()
            while left:
                self._alone(left[0])
                left.popleft()

    def _alone(self, job: _Job) -> None:
        try:
            self._together([job], careful=True)
        except _Unreachable:
            raise
        except DATABASE_ERRORS as error:
            job.error = self._database.map_error(error)
        except Exception as error:
            job.error = error

    def _together(self, jobs: Iterable[_Job], *, careful: bool) -> None:
        """All of them in one transaction. Raises what the database raises, and _Unreachable."""
        with ExitStack() as stack:
            try:
                connection = stack.enter_context(self._database.write_engine.begin())
            except DATABASE_ERRORS as error:
                raise _Unreachable(str(self._database.map_error(error))) from None
            transaction = Transaction(connection, self._tails, careful=careful, own=self._wrote_as)
            transaction.ownership.fence()
            for job in jobs:
                job.result = job.change(transaction)
            transaction.settle()
            transaction.ownership.tell()
        transaction.committed()


def _settle(jobs: Iterable[_Job]) -> None:
    """Wake those who wait, each event loop once."""
    loops: dict[asyncio.AbstractEventLoop, list[_Job]] = {}
    for job in jobs:
        loops.setdefault(job.future.get_loop(), []).append(job)
    for loop, of_it in loops.items():
        with suppress(RuntimeError):  # it is closed, and nobody waits any more
            loop.call_soon_threadsafe(_wake, of_it)


def _wake(jobs: Iterable[_Job]) -> None:
    for job in jobs:
        if job.future.done():
            continue
        if job.error is None:
            job.future.set_result(job.result)
        else:
            job.future.set_exception(job.error)
