"""Harness of the cases: the adapter under test, its processes, the steps they do, and the log of what happened.

A case describes the steps of a run as data (`ScriptedStep`), so that any process can do them. Every process appends
what happens to one log file (`CaseLog`), which survives its death, and gates in that folder tell how far it may go.
"""

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
from ....decision.wrong_calls import checked
from ....durability import Job, Queue, ResultNotStored, RunLost, StepKey, Steps, Work
from ..nonconformance import Nonconformance

GRACE = 0.3
"""Seconds for which a case waits to see that something forbidden does not happen."""
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
"""Kind of a log entry. By a process: `working`, `submitted`, `left`. By the work of a job: `taken`, `lost`,
`cancelled`, `raised`, `done`. By the work of a step: `began`, `ended`; and by the caller of the step: `result`, `not
kept`."""


@checked
@dataclass(frozen=True, kw_only=True)
class Adapter:
    """Recipe for a `Queue` of a durable engine for one case. The engine must hold no runs of other cases.

    It is pickled for several processes, so its fields must be picklable.
    """

    make: str
    """Function that returns a Queue, as `package.module:name`. A new process with the same `sys.path` imports it."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Keyword arguments for it."""
    limited: Mapping[str, Any] | None = None
    """Arguments to add so that at most two jobs run at once, in all processes together; None if that is not
    possible."""
    away: Mapping[str, Any] | None = None
    """Arguments to change so that no server responds, with `secret` as any password; None if there is no server."""
    secret: str = ""
    """A password that must not appear in any text."""

    def queue(self, more: Mapping[str, Any] | None = None) -> Queue:
        """Return a new Queue of this engine."""
        module, _, name = self.make.partition(":")
        made: Queue = getattr(importlib.import_module(module), name)(**{**self.arguments, **(more or {})})
        return made

    def check(self) -> None:
        """Raise WrongUse if `make` is not of the form package.module:name."""
        module, colon, name = self.make.partition(":")
        if not (module and colon and name):
            raise WrongUse(f"make={self.make!r} must be written as package.module:name")


class DurableTrial:
    """One case on one engine: its processes, their log, and checks of it."""

    def __init__(self, name: str, adapter: Adapter, folder: Path) -> None:
        self.name = name
        self.adapter = adapter
        self.more: Mapping[str, Any] | None = None
        """Arguments that the case adds to those of the adapter."""
        self.log = CaseLog(folder)
        self.processes: list[TrialProcess] = []
        self._queue: Queue | None = None

    async def queue(self) -> Queue:
        """Return the queue, opened in this process."""
        if self._queue is None:
            self._queue = self.adapter.queue(self.more)
            await self._queue.open()
        return self._queue

    async def submit(self, *jobs: Job) -> None:
        """Submit jobs from this process."""
        for one in jobs:
            await (await self.queue()).submit(one)

    async def submit_plan(self, run: str, *acts: ScriptedStep | Sequence[ScriptedStep], raises: bool = False) -> None:
        """Submit a run with these steps."""
        await self.submit(job(run, acts, raises=raises))

    async def recover(self, run: str) -> None:
        """Report that the process that has this run is dead."""
        await (await self.queue()).recover(run)

    @asynccontextmanager
    async def work_here(self, work: Work | None = None, *, at_once: int = 8) -> AsyncIterator[str]:
        """Claim jobs in this process and execute their plans, or `work` if given. Yield the name it works under."""
        name = f"here-{uuid4().hex[:8]}"
        async with (await self.queue()).working(name, work or make_work(name, self.log), at_once=at_once):
            yield name

    async def start_process(self, *, at_once: int = 8, submits: tuple[Job, ...] = ()) -> TrialProcess:
        """Start a worker process. Return once it claims jobs or, with `at_once=0`, has submitted its own."""
        (one,) = await self.start_processes(1, at_once=at_once, submits=submits)
        return one

    async def start_processes(
        self, number: int, *, at_once: int = 8, submits: tuple[Job, ...] = ()
    ) -> list[TrialProcess]:
        """Start this many worker processes at the same time. Return once all claim jobs."""
        started = [self._start(at_once, submits) for _ in range(number)]
        said: What = "working" if at_once else "submitted"
        names = {one.name for one in started}
        await self.wait_until(lambda: names <= {note.process for note in self.logged(said)}, f"{names} {said}")
        return started

    def _start(self, at_once: int, submits: tuple[Job, ...]) -> TrialProcess:
        options = WorkerOptions(
            name=f"process-{uuid4().hex[:8]}",
            adapter=self.adapter,
            more=self.more,
            folder=str(self.log.folder),
            path=sys.path,
            at_once=at_once,
            submits=submits,
        )
        self.processes.append(TrialProcess(options))
        return self.processes[-1]

    def logged(self, what: What, run: str = "", key: str = "", process: str = "") -> list[LogEntry]:
        """Return the log entries that match."""
        return [
            note
            for note in self.log.all()
            if note.what == what
            and (not run or note.run == run)
            and (not key or note.key == key)
            and (not process or note.process == process)
        ]

    async def wait_until(self, seen: Callable[[], Any], what: str) -> None:
        """Wait until `seen` returns true, at most for the case's time limit. Fail if a process ends by itself."""
        self._waiting = what
        while not seen():
            for one in self.processes:
                if one.exit_code not in (None, 0, -signal.SIGKILL):
                    self.fail(f"process {one.name} ended by itself while the case waited for: {what}")
            await asyncio.sleep(0.01)

    async def wait_logged(self, what: What, run: str, key: str = "", process: str = "", times: int = 1) -> None:
        """Wait until it has been logged this many times."""
        said = f"{what!r}{key and f' of {key!r}'} in run {run!r}{process and f' by {process}'} (x{times})"
        await self.wait_until(lambda: len(self.logged(what, run, key, process)) >= times, said)

    async def pause(self, seconds: float) -> None:
        """Wait long enough for something forbidden to happen if the engine did it."""
        await asyncio.sleep(seconds)

    @property
    def waiting(self) -> str:
        """Description of what the trial last waited for."""
        return getattr(self, "_waiting", "the queue")

    def check_exactly_once(self, run: str = "") -> None:
        """Fail if a stored result changed or came back wrong, or if a step with a stored result was done again."""
        kept: dict[str, str] = {}
        for note in self.log.all():
            if not note.key or (run and note.run != run):
                continue
            if note.what == "began" and note.key in kept:
                self.fail(f"step {note.key!r} ran again in {note.process}, although its result was stored")
            if note.what != "result":
                continue
            if note.text:
                self.fail(f"the result of {note.key!r} was returned with a difference: {note.text}")
            if kept.setdefault(note.key, note.by) != note.by:
                self.fail(
                    f"the result of {note.key!r} was made by {kept[note.key]}, and is now the one made by {note.by}"
                )

    def check_no_output(self) -> None:
        """Fail if a process printed to stdout, which belongs to the program."""
        for one in self.processes:
            out = self._output(one, "out")
            if out:
                self.fail(f"process {one.name} printed to standard output:\n{out}")

    async def close(self) -> None:
        """Kill the remaining processes and close the queue."""
        for one in self.processes:
            one.kill()
        if self._queue is not None:
            await self._queue.close()

    def fail(self, what: str) -> NoReturn:
        """Raise Nonconformance with the last lines of the log and of stderr."""
        logged = "".join(f"\n    {note}" for note in self.log.all()[-30:])
        erred = "".join(
            f"\n  {one.name} wrote to stderr:\n{text}" for one in self.processes if (text := self._output(one, "err"))
        )
        raise Nonconformance(f"{self.name}: {what}\n  adapter: {self.adapter.make}\n  log:{logged}{erred}")

    def _output(self, process: TrialProcess, where: str) -> str:
        path = self.log.folder / f"{process.name}.{where}"
        return path.read_text(errors="replace")[-3000:] if path.exists() else ""


class LogEntry(Struct, frozen=True, omit_defaults=True):
    """One line of the log."""

    process: str
    what: What
    run: str = ""
    key: str = ""
    by: str = ""
    """With `result`: the process that did the work."""
    text: str = ""
    """With `result`: the error in it, if there is one. With `raised` and `not kept`: the exception."""


class CaseLog:
    """Log file of a case, shared by its processes. Once `add` returns, the entry survives a kill."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._path = folder / "log"
        self._read: list[LogEntry] = []
        self._upto = 0

    def add(self, entry: LogEntry) -> None:
        """Append an entry."""
        file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(file, msgspec.json.encode(entry) + b"\n")
        finally:
            os.close(file)

    def all(self) -> list[LogEntry]:
        """Return all entries of all processes, in order."""
        if self._path.exists():
            with self._path.open("rb") as file:
                file.seek(self._upto)
                for line in file:
                    if line.endswith(b"\n"):
                        self._upto += len(line)
                        self._read.append(msgspec.json.decode(line, type=LogEntry))
        return self._read

    def open_gate(self, name: str) -> None:
        """Let everything continue that waits at this gate, now or later, in any process."""
        (self.folder / f"gate-{name}").touch()

    async def gate(self, name: str) -> None:
        """Wait until this gate is open."""
        while not (self.folder / f"gate-{name}").exists():
            await asyncio.sleep(0.005)


class ScriptedStep(Struct, frozen=True, omit_defaults=True):
    """One step of a run. Its result names the process that did the work, unless it is `bare`."""

    step: int
    call: str = ""
    value: Any = None
    size: int = 0
    """If not 0, the length of a text used instead of `value`, in characters."""
    bare: bool = False
    """Whether the result is `value` itself."""
    before: str = ""
    """Gate (see `CaseLog.gate`) at which to wait before the step is requested; none if empty."""
    within: str = ""
    """Gate at which to wait within the work of the step; none if empty."""

    @property
    def given(self) -> Any:
        """Result of its work."""
        return "x" * self.size if self.size else self.value


class Plan(Struct, frozen=True, omit_defaults=True):
    """Steps of a run: one group after another, the steps of a group in parallel."""

    groups: tuple[tuple[ScriptedStep, ...], ...]
    raises: bool = False
    """Whether the work raises at its end."""


class PlannedError(Exception):
    """Raised at the end of a plan with `raises`."""


def job(run: str, steps: Sequence[ScriptedStep | Sequence[ScriptedStep]] = (), *, raises: bool = False) -> Job:
    """Return a job whose work is these steps."""
    groups = tuple((step,) if isinstance(step, ScriptedStep) else tuple(step) for step in steps)
    text = msgspec.json.encode(Plan(groups, raises)).decode()
    return Job(run_id=run, session_id="session", agent="planned", opening="prompt", text=text)


def make_work(process: str, log: CaseLog) -> Callable[[Job, Steps], Awaitable[None]]:
    """Return a `Work` that executes the plan of each job and logs what happens, under the name of this process."""

    async def work(job: Job, steps: Steps) -> None:
        def note(what: What, text: str = "") -> None:
            log.add(LogEntry(process, what, job.run_id, text=text))

        note("taken")
        try:
            plan = msgspec.json.decode(job.text, type=Plan)
            for group in plan.groups:
                await asyncio.gather(*(_act(process, log, job, steps, act) for act in group))
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


async def _act(process: str, log: CaseLog, job: Job, steps: Steps, act: ScriptedStep) -> None:
    key = StepKey(job.session_id, job.run_id, act.step, act.call)

    def note(what: What, by: str = "", text: str = "") -> None:
        log.add(LogEntry(process, what, job.run_id, str(key), by, text))

    async def work() -> Any:
        note("began")
        if act.within:
            await log.gate(act.within)
        note("ended")
        return act.given if act.bare else {"by": process, "value": act.given}

    if act.before:
        await log.gate(act.before)
    try:
        result = await steps.step(key, work)
    except ResultNotStored as error:
        note("not kept", text=str(error))
        return
    by, value = ("", result) if act.bare else (result["by"], result["value"])
    note("result", by, describe_difference(value, act.given))


def describe_difference(given: Any, expected: Any) -> str:
    """Return how a result differs from the expected one; empty if it does not. 1, 1.0 and True differ, as in JSON."""
    if type(given) is not type(expected):
        return f"{_short(given)} instead of {_short(expected)}"
    if isinstance(expected, dict):
        if given.keys() != expected.keys():
            return f"keys {_short(sorted(given))} instead of {_short(sorted(expected))}"
        return next((wrong for name in expected if (wrong := describe_difference(given[name], expected[name]))), "")
    if isinstance(expected, list):
        if len(given) != len(expected):
            return f"{_short(given)} instead of {_short(expected)}"
        return next(
            (wrong for one, two in zip(given, expected, strict=True) if (wrong := describe_difference(one, two))), ""
        )
    same = repr(given) == repr(expected) if isinstance(expected, float) else given == expected
    return "" if same else f"{_short(given)} instead of {_short(expected)}"


def _short(value: Any) -> str:
    said = repr(value)
    return said if len(said) <= 100 else f"{said[:100]}... ({len(said)} letters)"


@dataclass(frozen=True, kw_only=True)
class WorkerOptions:
    """Instructions for a worker process: submit some jobs, then work on the queue."""

    name: str
    adapter: Adapter
    more: Mapping[str, Any] | None
    folder: str
    path: list[str]
    at_once: int
    """Maximum number of jobs at a time. With 0 it only submits, and kills itself as soon as `submit` has returned."""
    submits: tuple[Job, ...] = ()


def main(options: WorkerOptions) -> None:
    """Run a worker process, whose output goes to files in the folder."""
    sys.path[:] = options.path
    for number, name in ((1, "out"), (2, "err")):
        file = os.open(f"{options.folder}/{options.name}.{name}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(file, number)
        os.close(file)
    asyncio.run(_serve(options))


async def _serve(options: WorkerOptions) -> None:
    log = CaseLog(Path(options.folder))
    queue = options.adapter.queue(options.more)
    await queue.open()
    for job in options.submits:
        await queue.submit(job)
    if options.submits:
        log.add(LogEntry(options.name, "submitted"))
    if not options.at_once:
        os.kill(os.getpid(), signal.SIGKILL)
    async with queue.working(options.name, make_work(options.name, log), at_once=options.at_once):
        log.add(LogEntry(options.name, "working"))
        await log.gate(f"leave-{options.name}")
    await queue.close()
    log.add(LogEntry(options.name, "left"))


class TrialProcess:
    """A process that claims jobs until it leaves or is killed."""

    def __init__(self, options: WorkerOptions) -> None:
        # a fresh process without threads, with the modules that the forkserver has preloaded
        context = multiprocessing.get_context("forkserver")
        self.name = options.name
        self._process = context.Process(target=main, args=(options,), daemon=True)
        self._process.start()

    @property
    def exit_code(self) -> int | None:
        """Exit code; None while the process is alive."""
        return self._process.exitcode

    def kill(self) -> None:
        """Kill the process with SIGKILL."""
        self._signal(signal.SIGKILL)
        self._process.join(10)

    def freeze(self) -> None:
        """Stop the process with SIGSTOP until `wake`."""
        self._signal(signal.SIGSTOP)

    def wake(self) -> None:
        """Continue a frozen process."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        if self._process.pid is not None and self._process.exitcode is None:
            os.kill(self._process.pid, number)
