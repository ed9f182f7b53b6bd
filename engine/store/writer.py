"""The one thread that writes: it gathers what was handed in meanwhile and commits it in one transaction.

While one transaction is being written the next gathers, so the more is handed in, the more goes into each; a commit
costs the same for one batch as for a hundred. If a transaction fails, each change is tried alone: one that cannot be
written does not take the others with it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any

from .changes import Changes, Tail
from .database import Database
from .store import StoreError
from .trouble import CAUGHT

MOST = 1000
"""Changes in one transaction."""
MOST_BYTES = 16 << 20
"""Bytes of lines in one transaction, from which on nothing more is added."""
MOST_TAILS = 100_000
"""Runs of which the end is known without asking; then they are asked for anew."""


class _Unreachable(StoreError):
    """There is no connection, so that there is no use in trying anything else."""


@dataclass(slots=True)
class _Job:
    change: Callable[[Changes], Any]
    size: int
    future: asyncio.Future[Any]
    result: Any = None
    error: Exception | None = None


class Writer:
    """A thread with a connection of its own."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._tails: dict[str, Tail] = {}
        self._queue: SimpleQueue[_Job | None] = SimpleQueue()
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="endstop-store", daemon=True)
        self._thread.start()

    async def write(self, change: Callable[[Changes], Any], size: int = 0) -> Any:
        """Have this done after all that was handed in before; returns once it is committed. Raises StoreError.

        A caller that is cancelled meanwhile leaves the change to be written.
        """
        if self._closed:
            raise StoreError(f"{self._database.shown} is closed")
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._queue.put(_Job(change, size, future))
        return await future

    def close(self) -> None:
        """Write what was handed in; blocks until it is there."""
        if not self._closed:
            self._closed = True
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
        if len(self._tails) > MOST_TAILS:
            self._tails.clear()
        try:
            self._together(jobs, careful=False)
        except _Unreachable as error:
            _fail(jobs, error)
        except Exception:
            self._alone(jobs)

    def _alone(self, jobs: list[_Job]) -> None:
        for number, job in enumerate(jobs):
            try:
                self._together([job], careful=True)
            except _Unreachable as error:
                _fail(jobs[number:], error)
                return
            except CAUGHT as error:
                job.error = self._database.told(error)
            except Exception as error:
                job.error = error

    def _together(self, jobs: list[_Job], *, careful: bool) -> None:
        """All of them in one transaction. Raises what the database raises, and _Unreachable."""
        try:
            connection = self._database.writing.connect()
        except CAUGHT as error:
            raise _Unreachable(str(self._database.told(error))) from None
        with connection, connection.begin():
            changes = Changes(connection, self._tails, careful=careful)
            for job in jobs:
                job.result = job.change(changes)
            changes.settle()
        changes.committed()


def _fail(jobs: Iterable[_Job], error: StoreError) -> None:
    for job in jobs:
        job.error = StoreError(str(error))


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
