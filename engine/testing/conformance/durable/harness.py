"""One adapter in one case: its processes, what they did, and what is said if that is wrong."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NoReturn
from uuid import uuid4

from ....durability import Job, Queue, Work
from .adapter import Adapter
from .notes import Note, Notes, What
from .plan import Act, doing, job
from .worker import Orders, main

GRACE = 0.3
"""Seconds that are waited for what must not happen."""


class Nonconformance(AssertionError):
    """An adapter does not do what every durable engine must. The message says what, and what was expected."""


class Process:
    """A process of its own that works at jobs."""

    def __init__(self, orders: Orders) -> None:
        # a fresh process without threads, which has what the forkserver was told to import beforehand
        context = multiprocessing.get_context("forkserver")
        self.name = orders.name
        self._process = context.Process(target=main, args=(orders,), daemon=True)
        self._process.start()

    @property
    def exit_code(self) -> int | None:
        """None while it lives."""
        return self._process.exitcode

    def kill(self) -> None:
        """End it, without a chance to do anything more."""
        self._signal(signal.SIGKILL)
        self._process.join(10)

    def freeze(self) -> None:
        """Stop it where it stands, until it is woken."""
        self._signal(signal.SIGSTOP)

    def wake(self) -> None:
        """Let a frozen process go on."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        if self._process.pid is not None and self._process.exitcode is None:
            os.kill(self._process.pid, number)


class Trial:
    """An engine, and what works on it in a case."""

    def __init__(self, name: str, adapter: Adapter, folder: Path) -> None:
        self.name = name
        self.adapter = adapter
        self.more: Mapping[str, Any] | None = None
        """What the case adds to the adapter's arguments."""
        self.notes = Notes(folder)
        self.processes: list[Process] = []
        self._queue: Queue | None = None

    async def queue(self) -> Queue:
        """The queue in this process."""
        if self._queue is None:
            self._queue = self.adapter.queue(self.more)
            await self._queue.open()
        return self._queue

    async def submit(self, *jobs: Job) -> None:
        """Put jobs into the queue, from this process."""
        for one in jobs:
            await (await self.queue()).submit(one)

    async def planned(self, run: str, *acts: Act | Sequence[Act], raises: bool = False) -> None:
        """Submit a run that does these steps."""
        await self.submit(job(run, acts, raises=raises))

    async def recover(self, run: str) -> None:
        """Say that the process that has this run is dead."""
        await (await self.queue()).recover(run)

    @asynccontextmanager
    async def here(self, work: Work | None = None, *, at_once: int = 8) -> AsyncIterator[str]:
        """Work at jobs in this process, as it is planned or as `work` says; gives the process's name."""
        name = f"here-{uuid4().hex[:8]}"
        async with (await self.queue()).working(name, work or doing(name, self.notes), at_once=at_once):
            yield name

    async def process(self, *, at_once: int = 8, submits: tuple[Job, ...] = ()) -> Process:
        """Start a process that works at jobs; it does so already when this returns."""
        (one,) = await self.several(1, at_once=at_once, submits=submits)
        return one

    async def several(self, number: int, *, at_once: int = 8, submits: tuple[Job, ...] = ()) -> list[Process]:
        """Start so many processes, at the same time."""
        started = [self._start(at_once, submits) for _ in range(number)]
        said: What = "working" if at_once else "submitted"
        names = {one.name for one in started}
        await self.until(lambda: names <= {note.process for note in self.noted(said)}, f"{names} {said}")
        return started

    def _start(self, at_once: int, submits: tuple[Job, ...]) -> Process:
        orders = Orders(
            name=f"process-{uuid4().hex[:8]}",
            adapter=self.adapter,
            more=self.more,
            folder=str(self.notes.folder),
            path=sys.path,
            at_once=at_once,
            submits=submits,
        )
        self.processes.append(Process(orders))
        return self.processes[-1]

    def noted(self, what: What, run: str = "", key: str = "", process: str = "") -> list[Note]:
        """The notes that say so."""
        return [
            note
            for note in self.notes.all()
            if note.what == what
            and (not run or note.run == run)
            and (not key or note.key == key)
            and (not process or note.process == process)
        ]

    async def until(self, seen: Callable[[], Any], what: str) -> None:
        """Wait for it. The case's patience ends the wait, and a process that ended by itself does."""
        self._waiting = what
        while not seen():
            for one in self.processes:
                if one.exit_code not in (None, 0, -signal.SIGKILL):
                    self.complain(f"process {one.name} ended by itself while the case waited for: {what}")
            await asyncio.sleep(0.01)

    async def until_noted(self, what: What, run: str, key: str = "", process: str = "", times: int = 1) -> None:
        """Wait until it has been noted so many times."""
        said = f"{what!r}{key and f' of {key!r}'} in run {run!r}{process and f' by {process}'} (x{times})"
        await self.until(lambda: len(self.noted(what, run, key, process)) >= times, said)

    async def pause(self, seconds: float) -> None:
        """Give time to what must not happen."""
        await asyncio.sleep(seconds)

    @property
    def waiting(self) -> str:
        """What was waited for last."""
        return getattr(self, "_waiting", "the queue")

    def once(self, run: str = "") -> None:
        """No kept result may change, and no step happen again whose result was given; all were what they were."""
        kept: dict[str, str] = {}
        for note in self.notes.all():
            if not note.key or (run and note.run != run):
                continue
            if note.what == "began" and note.key in kept:
                self.complain(f"step {note.key!r} happened again in {note.process}, and its result was kept")
            if note.what != "result":
                continue
            if note.text:
                self.complain(f"the result of {note.key!r} came back wrong: {note.text}")
            if kept.setdefault(note.key, note.by) != note.by:
                self.complain(f"the result of {note.key!r} was that of {kept[note.key]}, and became that of {note.by}")

    def quiet(self) -> None:
        """No process may have printed anything: standard output is the program's."""
        for one in self.processes:
            out = self._said(one, "out")
            if out:
                self.complain(f"process {one.name} printed to standard output:\n{out}")

    async def close(self) -> None:
        """End all that is left."""
        for one in self.processes:
            one.kill()
        if self._queue is not None:
            await self._queue.close()

    def complain(self, what: str) -> NoReturn:
        """Say what is wrong."""
        noted = "".join(f"\n    {note}" for note in self.notes.all()[-30:])
        erred = "".join(f"\n  {one.name} said:\n{said}" for one in self.processes if (said := self._said(one, "err")))
        raise Nonconformance(f"{self.name}: {what}\n  adapter: {self.adapter.make}\n  noted:{noted}{erred}")

    def _said(self, process: Process, where: str) -> str:
        path = self.notes.folder / f"{process.name}.{where}"
        return path.read_text(errors="replace")[-3000:] if path.exists() else ""
