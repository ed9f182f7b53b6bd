"""Work on many files, on all cores, with the results in the order of the files.

Each worker is a process of its own that is started fresh (`spawn`), so threads and progress bars of this one do it no
harm, and each has its own pipe: when one is killed it is known which file it had. That file is a `FileFailure`, and a
new worker takes over the rest.
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

from msgspec import Struct

from ..decision import WrongUse
from ..decision.errors import error_text

R = TypeVar("R")

MIN_PARALLEL_BYTES = 64 * 1024 * 1024
"""Bytes of all files from which on it is worth starting workers, which takes about as long as reading so much."""
CHUNK_FILES = 16
"""Files that a worker is given at once, at most."""
CHUNK_BYTES = 16 * 1024
"""Bytes of their names, at most: what two chunks hold fits into a pipe that nobody reads."""
MAX_AHEAD_PER_WORKER = 64
"""Files for each worker that may be done or under way before the results that come first are taken."""
ProgressCallback = Callable[[int, int], None]
"""Told how many files are done, and how many there are."""


TERMINATE_SECONDS = 1.0
"""How long a worker that is told to end may take to leave what it is at."""


class FileFailure(Struct, frozen=True):
    """What became of a file that could not be worked on."""

    path: Path
    message: str


def map_files(
    work: Callable[[Path], R],
    paths: Sequence[Path],
    *,
    processes: int | None = None,
    progress: ProgressCallback | None = None,
) -> Generator[tuple[Path, R | FileFailure]]:
    """What `work` makes of each file, in the order of the files.

    work: a function of a module, and so are its results something that can be pickled. What it raises is that file's
        `FileFailure`: the message of a WrongUse, the kind and message of all else.
    processes: how many workers; None for one a core, or none where there is too little to do. 1 for none.

    Memory stays flat: the workers wait for whoever takes the results. Leaving the loop, or an exception in it, ends
    them at once. Raises WrongUse if the workers cannot begin.
    """
    many = _worker_count(paths) if processes is None else processes
    if many < 1:
        raise WrongUse(f"processes is {processes}: use 1 or more")
    many = min(many, len(paths))
    told = progress or _ignore_progress
    told(0, len(paths))
    return _map_in_process(work, paths, told) if many <= 1 else _map_in_workers(work, paths, many, told)


def _map_in_process(
    work: Callable[[Path], R], paths: Sequence[Path], told: ProgressCallback
) -> Generator[tuple[Path, R | FileFailure]]:
    for done, path in enumerate(paths, 1):
        result = _run_work(work, path)
        told(done, len(paths))
        yield path, result


def _run_work(work: Callable[[Path], R], path: Path) -> R | FileFailure:
    try:
        return work(path)
    except WrongUse as error:
        return FileFailure(path, str(error))
    except (Exception, SystemExit) as error:
        return FileFailure(path, error_text(error))


def _worker_count(paths: Sequence[Path]) -> int:
    """One a core, if there is enough to do."""
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


# ---- here


def _map_in_workers(
    work: Callable[[Path], R], paths: Sequence[Path], many: int, told: ProgressCallback
) -> Generator[tuple[Path, R | FileFailure]]:
    crew = _Workers(work, paths, many)
    try:
        for done, path in enumerate(paths):
            while done not in crew.results:
                crew.step()
                told(done + len(crew.results), len(paths))
            yield path, crew.results.pop(done)
            crew.taken = done + 1
    finally:
        crew.end()


class _Worker:
    """A process, its pipe, and the files that it was given, by their places in the list."""

    def __init__(self, work: Callable[[Path], Any]) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process: BaseProcess = context.Process(target=_serve, args=(theirs, work), daemon=True)
        self.given: deque[list[int]] = deque()
        self.ready = False
        try:
            self.process.start()
        except (AttributeError, TypeError, ValueError, PicklingError) as error:
            self.pipe.close()
            raise WrongUse(f"{work!r} cannot be handed to a worker: {error}") from None
        finally:
            theirs.close()

    def give(self, numbers: list[int], names: list[str]) -> None:
        self.given.append(numbers)
        self.pipe.send(names)

    def end(self, seconds: float = 0.0) -> None:
        self.process.join(seconds)
        self.process.kill()
        self.process.join()
        self.pipe.close()


class _Workers(Generic[R]):
    """The workers, what they are to do and what they have done."""

    def __init__(self, work: Callable[[Path], R], paths: Sequence[Path], many: int) -> None:
        self.results: dict[int, R | FileFailure] = {}
        self.taken = 0
        self._work = work
        self._paths = paths
        self._next = 0
        self._again: deque[int] = deque()
        """Files that were given to a worker that died before it came to them."""
        self._ahead = MAX_AHEAD_PER_WORKER * many
        self._chunk = max(1, min(CHUNK_FILES, len(paths) // (4 * many)))
        self._workers: list[_Worker] = []
        self._many = many
        self._begun = False

    def step(self) -> None:
        """Hand out what can be handed out, and take in at least one result or a worker's death."""
        while len(self._workers) < self._many and (not self._begun or self._left):
            with _no_interrupts():
                self._workers.append(_Worker(self._work))
        self._begun = True
        for worker in self._workers:
            self._feed(worker)
        by_pipe: dict[Any, _Worker] = {worker.pipe: worker for worker in self._workers}
        for pipe in wait(list(by_pipe)):
            self._hear(by_pipe[pipe])

    def end(self) -> None:
        """End all workers, whatever they do."""
        with _no_interrupts():
            for worker in self._workers:
                worker.process.terminate()
            deadline = monotonic() + TERMINATE_SECONDS
            while self._workers:
                self._workers.pop().end(max(0.0, deadline - monotonic()))

    @property
    def _left(self) -> bool:
        return bool(self._again) or self._next < len(self._paths)

    def _feed(self, worker: _Worker) -> None:
        while len(worker.given) < 2:
            numbers: list[int] = []
            names: list[str] = []
            length = 0
            while len(numbers) < self._chunk and length < CHUNK_BYTES - 4096 and self._left:
                if self._again:
                    number = self._again.popleft()
                elif self._next < self.taken + self._ahead:
                    number, self._next = self._next, self._next + 1
                else:
                    break
                numbers.append(number)
                names.append(str(self._paths[number]))
                length += len(names[-1].encode("utf-8", "surrogateescape"))
            if not numbers:
                return
            with suppress(BrokenPipeError):  # it has died: that is heard from its pipe
                worker.give(numbers, names)

    def _hear(self, worker: _Worker) -> None:
        try:
            said = worker.pipe.recv()
        except (EOFError, OSError):
            self._bury(worker)
            return
        if not worker.ready:
            worker.ready = True
            return
        chunk = worker.given[0]
        number = chunk.pop(0)
        if not chunk:
            worker.given.popleft()
        self.results[number] = FileFailure(self._paths[number], said[1]) if said[0] else said[1]

    def _bury(self, worker: _Worker) -> None:
        """A worker died: the file that it was at has failed, the others are for the rest of the crew."""
        self._workers.remove(worker)
        worker.process.join()
        code = worker.process.exitcode or 0
        worker.end()
        how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        if not worker.ready:
            raise WrongUse(f"a worker process was {how} before it began; what it said stands above")
        left = [number for chunk in worker.given for number in chunk]
        if left:
            advice = ", most likely for want of memory" if code == -signal.SIGKILL else ""
            message = f"the process that worked on it was {how}{advice}"
            self.results[left[0]] = FileFailure(self._paths[left[0]], message)
            self._again.extendleft(reversed(left[1:]))


@contextmanager
def _no_interrupts() -> Iterator[None]:
    """Put Ctrl-C off; what is started meanwhile never hears it."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# ---- in a worker


class _Terminated(BaseException):
    """A worker is told to end: raised wherever it is, so that nothing half written is left."""


def _serve(pipe: Connection, work: Callable[[Path], Any]) -> None:
    """Work on what comes down the pipe until it is closed. Ctrl-C is for whoever started this process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _raise_ended)
    with suppress(_Terminated, EOFError, BrokenPipeError, ConnectionResetError):
        pipe.send(None)
        while True:
            for name in pipe.recv():
                path = Path(name)
                pipe.send_bytes(_packed(_run_work(work, path)))


def _raise_ended(number: int, frame: FrameType | None) -> None:
    raise _Terminated


def _packed(result: Any) -> bytes | memoryview:
    failure = result.message if isinstance(result, FileFailure) else ""
    try:
        return ForkingPickler.dumps((isinstance(result, FileFailure), failure or result))
    except Exception as error:
        message = f"its result cannot be handed over: {error_text(error)}"
        return ForkingPickler.dumps((True, message))
