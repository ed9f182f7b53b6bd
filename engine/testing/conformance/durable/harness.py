"""One adapter in one case: its processes, what they did, and what is said if that is wrong."""

from __future__ import annotations

import asyncio
import importlib
import multiprocessing
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NoReturn
from uuid import uuid4

import msgspec
from msgspec import Struct

from ....decision import WrongUse
from ....durability import Job, Queue, ResultNotStored, RunLost, StepKey, Steps, Work

# How the queue under trial is made, in this process and in others.


@dataclass(frozen=True, kw_only=True)
class Adapter:
    """A durable engine for one case: nothing of other cases may be in it.

    It is made in several processes, so all that it is made of goes through pickle.
    """

    make: str
    """What gives a Queue, as `package.module:name`, importable in a fresh process with this one's `sys.path`."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """The keyword arguments that it is called with."""
    limited: Mapping[str, Any] | None = None
    """What to add to them so that two jobs are in work at the most, in all processes together."""
    away: Mapping[str, Any] | None = None
    """What to change in them so that nobody answers, with `secret` as the password if there is one."""
    secret: str = ""
    """What must be in no text."""

    def queue(self, more: Mapping[str, Any] | None = None) -> Queue:
        """A new Queue on this engine."""
        module, _, name = self.make.partition(":")
        made: Queue = getattr(importlib.import_module(module), name)(**{**self.arguments, **(more or {})})
        return made

    def check(self) -> None:
        """Raises WrongUse if `make` names nothing."""
        module, colon, name = self.make.partition(":")
        if not (module and colon and name):
            raise WrongUse(f"make={self.make!r} must be written as package.module:name")


# What happened in all processes of a case, in a file that the engine knows nothing of.

What = Literal[
    "working",
    "submitted",
    "left",
    "taken",
    "began",
    "ended",
    "result",
    "not kept",
    "lost",
    "cancelled",
    "raised",
    "done",
]
"""`working`, `submitted` and `left` are said by a process; `taken`, `lost`, `cancelled`, `raised` and `done` of a job;
`began` and `ended` by the work of a step, `result` and `not kept` by who asked for it."""


class Note(Struct, frozen=True, omit_defaults=True):
    """One thing that happened."""

    process: str
    what: What
    run: str = ""
    key: str = ""
    by: str = ""
    """With `result`: the process whose work it is."""
    text: str = ""
    """With `result`: what is wrong with it. With `raised` and `not kept`: what was raised."""


class Notes:
    """The file. A note is on it once `add` has returned, whatever becomes of the process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._path = folder / "notes"
        self._read: list[Note] = []
        self._upto = 0

    def add(self, note: Note) -> None:
        """Write a note down."""
        file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(file, msgspec.json.encode(note) + b"\n")
        finally:
            os.close(file)

    def all(self) -> list[Note]:
        """All notes of all processes, in their order."""
        if self._path.exists():
            with self._path.open("rb") as file:
                file.seek(self._upto)
                for line in file:
                    if line.endswith(b"\n"):
                        self._upto += len(line)
                        self._read.append(msgspec.json.decode(line, type=Note))
        return self._read

    def open_gate(self, name: str) -> None:
        """Let everybody pass who waits here, now or later, in any process."""
        (self.folder / f"gate-{name}").touch()

    async def gate(self, name: str) -> None:
        """Wait until this gate is open."""
        while not (self.folder / f"gate-{name}").exists():
            await asyncio.sleep(0.005)


# What the work of a job does in a case: steps, as data, so that any process can do it.


class Act(Struct, frozen=True, omit_defaults=True):
    """One step of a run. Its result names the process whose work it is, unless it is `bare`."""

    step: int
    call: str = ""
    value: Any = None
    size: int = 0
    """Instead of `value`: a text of so many letters."""
    bare: bool = False
    """The result is `value` itself."""
    before: str = ""
    """The gate before the step is asked for."""
    within: str = ""
    """The gate within the step's work."""

    @property
    def given(self) -> Any:
        """What its work gives."""
        return "x" * self.size if self.size else self.value


class Plan(Struct, frozen=True, omit_defaults=True):
    """A run: groups of steps one after another, those of a group at once."""

    groups: tuple[tuple[Act, ...], ...]
    raises: bool = False
    """The work raises at its end."""


class PlannedError(Exception):
    """What the work of a plan with `raises` raises."""


def job(run: str, acts: Sequence[Act | Sequence[Act]] = (), *, raises: bool = False) -> Job:
    """A job whose work is these steps."""
    groups = tuple((act,) if isinstance(act, Act) else tuple(act) for act in acts)
    text = msgspec.json.encode(Plan(groups, raises)).decode()
    return Job(run_id=run, session_id="session", agent="planned", opening="prompt", text=text)


def doing(process: str, notes: Notes) -> Callable[[Job, Steps], Awaitable[None]]:
    """The work of this process."""

    async def work(job: Job, steps: Steps) -> None:
        def note(what: What, text: str = "") -> None:
            notes.add(Note(process, what, job.run_id, text=text))

        note("taken")
        try:
            plan = msgspec.json.decode(job.text, type=Plan)
            for group in plan.groups:
                await asyncio.gather(*(_act(process, notes, job, steps, act) for act in group))
            if plan.raises:
                raise PlannedError("as planned")
        except RunLost:
            note("lost")
            raise
        except asyncio.CancelledError:
            note("cancelled")
            raise
        except BaseException as error:
            note("raised", repr(error))
            raise
        note("done")

    return work


async def _act(process: str, notes: Notes, job: Job, steps: Steps, act: Act) -> None:
    key = StepKey(job.session_id, job.run_id, act.step, act.call)

    def note(what: What, by: str = "", text: str = "") -> None:
        notes.add(Note(process, what, job.run_id, str(key), by, text))

    async def work() -> Any:
        note("began")
        if act.within:
            await notes.gate(act.within)
        note("ended")
        return act.given if act.bare else {"by": process, "value": act.given}

    if act.before:
        await notes.gate(act.before)
    try:
        result = await steps.step(key, work)
    except ResultNotStored as error:
        note("not kept", text=str(error))
        return
    by, value = ("", result) if act.bare else (result["by"], result["value"])
    note("result", by, difference(value, act.given))


def difference(given: Any, expected: Any) -> str:
    """What is wrong with a result; empty if it is what it was. 1, 1.0 and True are three things, as in JSON."""
    if type(given) is not type(expected):
        return f"{_short(given)} instead of {_short(expected)}"
    if isinstance(expected, dict):
        if given.keys() != expected.keys():
            return f"keys {_short(sorted(given))} instead of {_short(sorted(expected))}"
        return next((wrong for name in expected if (wrong := difference(given[name], expected[name]))), "")
    if isinstance(expected, list):
        if len(given) != len(expected):
            return f"{_short(given)} instead of {_short(expected)}"
        return next((wrong for one, two in zip(given, expected, strict=True) if (wrong := difference(one, two))), "")
    same = repr(given) == repr(expected) if isinstance(expected, float) else given == expected
    return "" if same else f"{_short(given)} instead of {_short(expected)}"


def _short(value: Any) -> str:
    said = repr(value)
    return said if len(said) <= 100 else f"{said[:100]}... ({len(said)} letters)"


# A process of a case: it takes jobs until it is told to leave, or killed.


@dataclass(frozen=True, kw_only=True)
class Orders:
    """What such a process does."""

    name: str
    adapter: Adapter
    more: Mapping[str, Any] | None
    folder: str
    path: list[str]
    at_once: int
    """0: it submits, and is killed by itself as soon as that has returned."""
    submits: tuple[Job, ...] = ()


def main(orders: Orders) -> None:
    """Do it. What the process prints goes into files in the folder."""
    sys.path[:] = orders.path
    for number, name in ((1, "out"), (2, "err")):
        file = os.open(f"{orders.folder}/{orders.name}.{name}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(file, number)
        os.close(file)
    _quieten()
    asyncio.run(_serve(orders))


def _quieten() -> None:
    """Our own warnings go to the error stream; what comes to standard output has no business there."""
    import structlog

    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))


async def _serve(orders: Orders) -> None:
    notes = Notes(Path(orders.folder))
    queue = orders.adapter.queue(orders.more)
    await queue.open()
    for job in orders.submits:
        await queue.submit(job)
    if orders.submits:
        notes.add(Note(orders.name, "submitted"))
    if not orders.at_once:
        os.kill(os.getpid(), signal.SIGKILL)
    async with queue.working(orders.name, doing(orders.name, notes), at_once=orders.at_once):
        notes.add(Note(orders.name, "working"))
        await notes.gate(f"leave-{orders.name}")
    await queue.close()
    notes.add(Note(orders.name, "left"))


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
