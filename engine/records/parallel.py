"""Apply a function to many files in parallel, with the results in the order of the files.

Workers are processes started with `spawn`, so threads and progress bars of this process do not affect them. Each has a
separate pipe: when a worker is killed, it is known which file it was working on. That file becomes a `FileFailure`, and
a new worker takes the rest. (`ProcessPoolExecutor` fails every pending file when one of its workers dies.)
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from pickle import PicklingError
from time import monotonic
from types import FrameType
from typing import Any, Generic, TypeVar

from ..decision import WrongUse
from ..decision.errors import error_text
from ..decision.wrong_calls import ExplainedStruct, explained

__all__ = ["FileFailure", "map_files"]

R = TypeVar("R")

MIN_PARALLEL_BYTES = 64 * 1024 * 1024
"""Total size in bytes below which no workers are started: starting them takes about as long as reading this much."""
CHUNK_FILES = 16
"""Most files that a worker is sent at once."""
CHUNK_BYTES = 16 * 1024
"""Most bytes of the names in one chunk, so that two chunks fit into a pipe that nobody reads."""
MAX_AHEAD_PER_WORKER = 64
"""Most files per worker that are started before the caller has taken the earlier results."""
ProgressCallback = Callable[[int, int], None]
"""Function called with the number of files that are done and the total."""
TERMINATE_SECONDS = 1.0
"""Seconds that a worker may take to end after SIGTERM before it is killed."""


class FileFailure(ExplainedStruct, frozen=True):
    """A file for which the work failed, and why."""

    path: Path
    message: str


@explained
def map_files(
    work: Callable[[Path], R],
    paths: Sequence[Path],
    *,
    processes: int | None = None,
    progress: ProgressCallback | None = None,
) -> Generator[tuple[Path, R | FileFailure]]:
    """Yield each file with the result of `work`, in the order of the files.

    work: a function at the top level of a module, whose results can be pickled. An exception that it raises becomes the
        `FileFailure` of that file.
    processes: the number of workers; 1 for no workers; None for one per core, or none if the files are small.

    Memory is bounded: workers wait until the results are taken. Leaving the loop, even by an exception, ends the
    workers immediately. Raises WrongUse if the workers cannot be started.
    """
    many = count_workers(paths, processes)
    report = progress or _ignore_progress
    report(0, len(paths))
    return _map_in_process(work, paths, report) if many <= 1 else _map_in_workers(work, paths, many, report)


def count_workers(paths: Sequence[Path], processes: int | None = None) -> int:
    """Return how many workers `map_files` would start for these files: 1 or 0 for none. Raises WrongUse."""
    many = _default_workers(paths) if processes is None else processes
    if many < 1:
        raise WrongUse(f"processes is {processes}: use 1 or more")
    return min(many, len(paths))


def _map_in_process(
    work: Callable[[Path], R], paths: Sequence[Path], report: ProgressCallback
) -> Generator[tuple[Path, R | FileFailure]]:
    for done, path in enumerate(paths, 1):
        result = _run_work(work, path)
        report(done, len(paths))
        yield path, result


def _run_work(work: Callable[[Path], R], path: Path) -> R | FileFailure:
    try:
        return work(path)
    except WrongUse as error:
        return FileFailure(path, str(error))
    except (Exception, SystemExit) as error:
        return FileFailure(path, error_text(error))


def _default_workers(paths: Sequence[Path]) -> int:
    """Return one worker per core, if there is enough to read; else 1."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    size = 0
    for path in paths:
        with suppress(OSError):
            size += path.stat().st_size * (6 if path.suffix == ".zst" else 1)
        if size >= MIN_PARALLEL_BYTES:
            return cores
    return 1


def _ignore_progress(done: int, total: int) -> None:
    pass


# ---- in this process


def _map_in_workers(
    work: Callable[[Path], R], paths: Sequence[Path], many: int, report: ProgressCallback
) -> Generator[tuple[Path, R | FileFailure]]:
    workers = _Workers(work, paths, many)
    try:
        for done, path in enumerate(paths):
            while done not in workers.results:
                workers.step()
                report(done + len(workers.results), len(paths))
            yield path, workers.results.pop(done)
            workers.taken = done + 1
    finally:
        workers.end()


class _Worker:
    """A worker process, its pipe, and the files that it was sent: chunks of indices into the list of files."""

    def __init__(self, work: Callable[[Path], Any]) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process: BaseProcess = context.Process(target=_serve, args=(theirs, work), daemon=True)
        self.chunks: deque[list[int]] = deque()
        self.ready = False
        try:
            self.process.start()
        except (AttributeError, TypeError, ValueError, PicklingError) as error:
            self.pipe.close()
            raise WrongUse(f"{work!r} cannot be sent to a worker process: {error}") from None
        finally:
            theirs.close()

    def send(self, numbers: list[int], names: list[str]) -> None:
        self.chunks.append(numbers)
        self.pipe.send(names)

    def end(self, seconds: float = 0.0) -> None:
        self.process.join(seconds)
        self.process.kill()
        self.process.join()
        self.pipe.close()


class _Workers(Generic[R]):
    """The worker processes, the files that are left, and the results that were not yet taken."""

    def __init__(self, work: Callable[[Path], R], paths: Sequence[Path], many: int) -> None:
        self.results: dict[int, R | FileFailure] = {}
        self.taken = 0
        self._work = work
        self._paths = paths
        self._next = 0
        self._returned: deque[int] = deque()
        """Files that were sent to a worker but not begun when it died."""
        self._ahead = MAX_AHEAD_PER_WORKER * many
        self._chunk = max(1, min(CHUNK_FILES, len(paths) // (4 * many)))
        self._workers: list[_Worker] = []
        self._many = many
        self._begun = False

    def step(self) -> None:
        """Send files to the workers, and wait for at least one result or the death of a worker."""
        while len(self._workers) < self._many and (not self._begun or self._left):
            with _no_interrupts():
                self._workers.append(_Worker(self._work))
        self._begun = True
        for worker in self._workers:
            self._send_files(worker)
        by_pipe: dict[Any, _Worker] = {worker.pipe: worker for worker in self._workers}
        for pipe in wait(list(by_pipe)):
            self._receive(by_pipe[pipe])

    def end(self) -> None:
        """Terminate all workers."""
        with _no_interrupts():
            for worker in self._workers:
                worker.process.terminate()
            deadline = monotonic() + TERMINATE_SECONDS
            while self._workers:
                self._workers.pop().end(max(0.0, deadline - monotonic()))

    @property
    def _left(self) -> bool:
        return bool(self._returned) or self._next < len(self._paths)

    def _send_files(self, worker: _Worker) -> None:
        while len(worker.chunks) < 2:
            numbers: list[int] = []
            names: list[str] = []
            length = 0
            while len(numbers) < self._chunk and length < CHUNK_BYTES - 4096 and self._left:
                if self._returned:
                    number = self._returned.popleft()
                elif self._next < self.taken + self._ahead:
                    number, self._next = self._next, self._next + 1
                else:
                    break
                numbers.append(number)
                names.append(str(self._paths[number]))
                length += len(names[-1].encode("utf-8", "surrogateescape"))
            if not numbers:
                return
            with suppress(BrokenPipeError):  # it has died; `_receive` notices
                worker.send(numbers, names)

    def _receive(self, worker: _Worker) -> None:
        try:
            reply = worker.pipe.recv()
        except (EOFError, OSError):
            self._replace(worker)
            return
        if not worker.ready:
            worker.ready = True
            return
        chunk = worker.chunks[0]
        number = chunk.pop(0)
        if not chunk:
            worker.chunks.popleft()
        self.results[number] = FileFailure(self._paths[number], reply[1]) if reply[0] else reply[1]

    def _replace(self, worker: _Worker) -> None:
        """Handle the death of a worker: its current file has failed, and its other files go to the other workers."""
        self._workers.remove(worker)
        worker.process.join()
        code = worker.process.exitcode or 0
        worker.end()
        how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        if not worker.ready:
            raise WrongUse(f"a worker process was {how} before it started; see its output above")
        left = [number for chunk in worker.chunks for number in chunk]
        if left:
            advice = ", probably because memory ran out" if code == -signal.SIGKILL else ""
            message = f"its worker process was {how}{advice}"
            self.results[left[0]] = FileFailure(self._paths[left[0]], message)
            self._returned.extendleft(reversed(left[1:]))


@contextmanager
def _no_interrupts() -> Iterator[None]:
    """Block SIGINT in this thread. Processes started in the meantime inherit that."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# ---- in a worker process


class _Terminated(BaseException):
    """Raised in a worker by SIGTERM, so that `finally` blocks run."""


def _serve(pipe: Connection, work: Callable[[Path], Any]) -> None:
    """Work on the files that come through the pipe until it is closed. Ignores SIGINT, which the parent handles."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _raise_ended)
    with suppress(_Terminated, EOFError, BrokenPipeError, ConnectionResetError):
        pipe.send(None)
        while True:
            for name in pipe.recv():
                path = Path(name)
                pipe.send_bytes(_pickle(_run_work(work, path)))


def _raise_ended(number: int, frame: FrameType | None) -> None:
    raise _Terminated


def _pickle(result: Any) -> bytes | memoryview:
    failure = result.message if isinstance(result, FileFailure) else ""
    try:
        return ForkingPickler.dumps((isinstance(result, FileFailure), failure or result))
    except Exception as error:
        message = f"its result cannot be pickled: {error_text(error)}"
        return ForkingPickler.dumps((True, message))
