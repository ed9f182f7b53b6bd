"""Trials of SIGKILL between a question for approval and the effect of the call, with real processes and a side log.

    python -m tests.approval_kills 1000                     # records in files; from the root of the repository
    python -m tests.approval_kills 300 --store sqlite       # a service with its store; or --store postgres

`make kill` runs all three.

Each trial has a response with two calls that need approval and one writing call between them, which waits. A process
asks, says yes and runs them; it is killed at a random moment after the question. Other processes take the record up,
each killed at a random moment with some chance, until one ends. The side log has a line for each yes, before it is
given, and for each effect, when it is done; each line is one `write`, so a kill loses nothing of it. Processes are
forked from this one, which has the imports (`import_once`). With a store each process is a service that is opened on
it, and the record that is looked at in the end is the one that the service gives.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import importlib
import os
import random
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from endstop import Approve, Engine, Happened, NotHappened, Tool, read_record
from endstop.decision import ToolResult
from endstop.decision import events as ev
from endstop.providers import Request, Scripted, call
from endstop.replay import replay
from endstop.service import Service
from endstop.service.errors import Unknown
from endstop.session import Session
from endstop.store.base import GOING
from endstop.tools import finish_task

from .postgres import Server

NAMES = {"d1": "delete", "w": "write", "d2": "delete"}
LIVES = 12
"""Processes of a trial at most; the last one is not killed."""
AGAIN = 0.4
"""The chance that a later process of a trial is killed, too."""


class Trial:
    """One trial in a folder. with_check: whether the tools have a check, which looks into the side log."""

    def __init__(self, folder: Path, *, with_check: bool, together: bool) -> None:
        self.record = folder / "record.jsonl"
        self.log = folder / "effects.log"
        self._with_check = with_check
        self._together = together
        self.seconds = 0.0
        """How long the latest process took after the question."""
        self.asked_at = 0.0
        """The time of day of that question, in seconds."""

    # ---- in the child

    def note(self, line: str) -> None:
        """Append a line to the side log."""
        file = os.open(self.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(file, f"{line}\n".encode())
        os.close(file)

    def lines(self) -> list[str]:
        """The side log."""
        return self.log.read_text().splitlines() if self.log.exists() else []

    async def answered(self, id: str) -> bool:
        """Whether the yes to this call is in the record, as the disk has it."""
        return _has_answer(self._raw(), id)

    def _raw(self) -> list[bytes]:
        return self.record.read_bytes().splitlines() if self.record.exists() else []

    def tools(self) -> list[Tool]:
        """Tools whose effect is a line in the side log; one is async, one runs in a thread."""

        async def delete(what: str) -> str:
            await asyncio.sleep(0.001)
            self.note(f"did {what} {await self.answered(what)}")
            await asyncio.sleep(0.001)
            return "done"

        def write(what: str) -> str:
            self.note(f"did {what} True")
            return "done"

        def check(what: str) -> Happened | NotHappened:
            return Happened("done") if any(line.startswith(f"did {what} ") for line in self.lines()) else NotHappened()

        used: Callable[..., Any] | None = check if self._with_check else None
        return [
            Tool(delete, description="Delete.", approval=lambda arguments: True, check=used),
            Tool(write, description="Write.", check=used),
        ]

    def engine(self) -> Engine[Any, Any]:
        """The engine, whose model makes the calls and then finishes."""
        calls = [call(name, what=id, id=id) for id, name in NAMES.items()]

        def respond(request: Request) -> Any:
            return calls if request.attempt.startswith("1.") else call("finish_task", summary="done")

        return Engine(Scripted(respond), tools=self.tools(), presets=[finish_task])

    def session(self) -> Session[Any]:
        """The session, as its record has it."""
        engine = self.engine()
        if not any(b'"RUN_STARTED"' in line for line in self._raw()):
            return engine.session(record=self.record)
        runs = read_record(self.record).runs
        session = engine.session(read_record(self.record).header.session_id, record=self.record)
        session.load(runs)
        return session

    async def live(self, asked: Callable[[], None]) -> None:
        """Ask, or take up what is there; say yes to all; run to the end. asked: called at the question."""
        session = self.session()
        if session.interrupted:
            asked()
            async with session.start_resumed() as run:
                await run.wait()
        elif not session.questions and not session.transcript.messages:
            await session.run("Tidy up")
            asked()
        else:
            asked()
        while session.questions:
            ids = [question.call_id for question in session.questions]
            await session.answer_all(self.say_yes(ids))

    def say_yes(self, ids: list[str]) -> dict[str, Approve]:
        """A yes to all calls that wait, or to the first of them, noted in the side log before it is given."""
        chosen = ids if self._together else ids[:1]
        for id in chosen:
            self.note(f"yes {id}")
        return {id: Approve() for id in chosen}

    # ---- in the parent

    def life(self, kill_after: float | None) -> bool:
        """Run a process, killed so many seconds after the question. Returns whether it was killed."""
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            code = 1
            try:
                os.close(read)
                asyncio.run(self.live(lambda: os.write(write, b"?") and None))
                code = 0
            finally:
                os._exit(code)
        os.close(write)
        os.read(read, 1)
        os.close(read)
        began, self.asked_at = time.monotonic(), time.time()
        if kill_after is not None:
            time.sleep(kill_after)
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        self.seconds = time.monotonic() - began
        if os.WIFSIGNALED(status):
            return True
        assert os.waitstatus_to_exitcode(status) == 0, f"the process failed: see {self.record}"
        return False

    def where(self) -> str:
        """Where the latest kill has hit."""
        log, raw = self.lines(), b"\n".join(self._raw())
        done = sum(line.startswith("did ") for line in log)
        begun = raw.count(b'"TOOL_EXECUTION_STARTED"')
        ended = raw.count(b'"TOOL_CALL_RESULT"')
        if b'"says":"yes"' not in raw:
            return "before a yes was recorded"
        if begun == 0:
            return "after a yes, before a call began"
        if b'"RUN_FINISHED"' in raw.rpartition(b'"RUN_STARTED"')[2]:
            return "after the end"
        if done == 0:
            return "after a call began, before its effect"
        return "after an effect" if ended < len(NAMES) else "after all results"

    async def check(self) -> Counter[str]:
        """Assert what has to hold, once a process has ended by itself; returns how the calls ended."""
        log, times = self.lines(), self.check_effects("d1", "d2")
        session = self.session()
        results = {m.call_id: m.status for m in session.transcript.messages if isinstance(m, ToolResult)}
        for id in NAMES:
            assert results[id] in ("ok", "unknown"), (id, results)
            assert results[id] == "unknown" or times[id] == 1, f"{id} ended well without an effect: {log}"
            assert not self._with_check or (results[id], times[id]) == ("ok", 1), (id, results, log)
        runs = read_record(self.record).runs
        assert runs[-1].finished is not None
        assert runs[-1].finished.outcome.status == "completed"
        answers = [e for run in runs for e in run.events if isinstance(e, ev.QuestionAnswered)]
        assert Counter(answer.call_id for answer in answers) == {"d1": 1, "d2": 1}, answers
        assert (await replay(str(self.record))).same
        return Counter(results[id] for id in NAMES)

    def check_effects(self, *questions: str) -> Counter[str]:
        """Assert that no effect came before the yes to all of these, and none twice; returns how often each came."""
        log = self.lines()
        effects = [line.split() for line in log if line.startswith("did ")]
        times = Counter(id for _, id, _ in effects)
        assert all(recorded == "True" for *_, recorded in effects), f"an effect before its yes was recorded: {log}"
        if effects:
            begun = next(number for number, line in enumerate(log) if line.startswith("did "))
            assert {f"yes {id}" for id in questions} <= set(log[:begun]), f"an effect before a yes: {log}"
        assert max(times.values(), default=0) <= 1, f"an effect twice: {log}"
        return times


class StoreTrial(Trial):
    """A trial of a service on a store. url: the store's; the session in it has the name of the folder."""

    def __init__(self, folder: Path, url: str, *, with_check: bool, together: bool) -> None:
        super().__init__(folder, with_check=with_check, together=together)
        self._url = url
        self._id = folder.name
        self._service: Service | None = None

    async def answered(self, id: str) -> bool:
        """Whether the yes to this call is in the store."""
        assert self._service is not None
        return _has_answer((await self._kept(self._service)).splitlines(), id)

    async def _kept(self, service: Service) -> bytes:
        """The record, as the store has it."""
        return b"".join([portion async for portion in service.record(await service.session(self._id))])

    async def live(self, asked: Callable[[], None]) -> None:
        """Open a service on the store; ask, or take up what is there; say yes to all; run to the end."""
        async with Service(self.engine(), store=self._url, grace=0) as service:
            self._service = service
            try:
                stored = await service.session(self._id)
            except Unknown:
                stored = await service.start("Tidy up", session_id=self._id)
                await service.outcome(stored.run_id or "", wait=60)
            asked()
            while (stored := await service.session_at_rest(self._id)).status != "completed":
                if stored.status in GOING:  # of a process that is not known to be dead yet
                    await asyncio.sleep(0.01)
                    continue
                if stored.status == "interrupted":
                    stored = await service.resume(self._id)
                else:
                    assert stored.status == "awaiting_input", stored
                    ids = [question.call_id for question in stored.questions]
                    stored = await service.answer_all(self._id, self.say_yes(ids))
                await service.outcome(stored.run_id or "", wait=60)

    def life(self, kill_after: float | None) -> bool:
        """As of any trial; `seconds` is half as much again as the last effect took, and not when the service closed."""
        killed = super().life(kill_after)
        if not killed and self.log.exists():
            self.seconds = 1.5 * max(0.0, self.log.stat().st_mtime - self.asked_at)
        return killed

    def where(self) -> str:
        """Where the latest kill has hit, as far as the side log tells: looking into the store would take a thread."""
        log = self.lines()
        done = sum(line.startswith("did ") for line in log)
        if done:
            return "after all effects" if done == len(NAMES) else "after an effect"
        said = {line for line in log if line.startswith("yes ")}
        return "before all yeses were given" if len(said) < 2 else "after the last yes was given, before an effect"

    async def check(self) -> Counter[str]:
        """Assert what has to hold of the side log and of the record that the service gives."""
        async with Service(self.engine(), store=self._url, grace=0) as service:
            assert (await service.session(self._id)).status == "completed"
            self.record.write_bytes(await self._kept(service))
        return await super().check()


def _has_answer(lines: list[bytes], id: str) -> bool:
    """Whether these lines of a record hold the answer to this call, if it needs one."""
    if id not in ("d1", "d2"):
        return True
    return any(b'"QUESTION_ANSWERED"' in line and f'"{id}"'.encode() in line for line in lines)


Make = Callable[..., Trial]
"""Makes a trial in a folder."""


@contextmanager
def maker(store: str) -> Iterator[Make]:
    """What makes trials: with records in files (`record`), or on a store."""
    if store == "record":
        yield Trial
    elif store == "sqlite":
        yield lambda folder, **options: StoreTrial(folder, str(folder / "sessions.db"), **options)
    else:
        with Server(durable=True) as server, server.empty_store() as url:
            yield lambda folder, **options: StoreTrial(folder, url, **options)


def import_once(make: Make, folder: Path) -> None:
    """Import in this process what is imported at the first use, or each fork would: it takes longer than a trial."""
    importlib.import_module("anyio._backends._asyncio")
    importlib.import_module("anyio.abc")
    make(folder, with_check=True, together=True).engine()  # with it pydantic, for the tools' arguments
    gc.collect()
    gc.freeze()


def calibrate(make: Make, folder: Path) -> float:
    """Seconds from the question to the end of a process that is not killed: the median of nine."""
    took = []
    for number in range(9):
        place = folder / f"whole{number}"
        place.mkdir()
        trial = make(place, with_check=False, together=number % 2 == 0)
        trial.life(None)
        took.append(trial.seconds)
    return sorted(took)[4]


def when_most_effects_come(chance: float) -> float:
    """When to kill, as a part of the time that a whole process takes: most effects come in its first half."""
    return 1.1 * chance**1.5


def run_trials(
    make: Make, count: int, seed: int, folder: Path, when: Callable[[float], float] = when_most_effects_come
) -> dict[str, Counter[str]]:
    """Run trials. Returns where kills hit, and how the calls ended. Raises AssertionError for a trial that failed.

    when: makes of a chance between 0 and 1 the moment of a kill, as a part of the time that a whole process takes.
    """
    import_once(make, folder)
    chance, whole = random.Random(seed), calibrate(make, folder)
    hits, trials = Counter[str](), list[Trial]()
    for number in range(count):
        place = folder / f"trial{number}"
        place.mkdir()
        trial = make(place, with_check=chance.random() < 0.5, together=chance.random() < 0.5)
        for life in range(LIVES):
            kills = life < LIVES - 1 and (life == 0 or chance.random() < AGAIN)
            moment = whole * when(chance.random())
            if not trial.life(moment if kills else None):
                break
            hits[trial.where()] += 1
        trials.append(trial)
    ends = Counter[str]()
    for trial in trials:  # after the last fork: a check leaves threads behind
        ends += asyncio.run(trial.check())
    return {"hits": hits, "ends": ends}


def main() -> None:
    """Run as many trials as the command line says, and print what happened."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("count", type=int, nargs="?", default=1000)
    options.add_argument("seed", type=int, nargs="?", default=random.randrange(10**6))
    options.add_argument("--store", choices=("record", "sqlite", "postgres"), default="record")
    given = options.parse_args()
    count, seed = given.count, given.seed
    began = time.monotonic()
    with maker(given.store) as make, tempfile.TemporaryDirectory(prefix="approval_kills") as folder:
        counted = run_trials(make, count, seed, Path(folder))
    print_trials(f"{count} trials, seed {seed}, {given.store}", counted, time.monotonic() - began)


def print_trials(which: str, counted: dict[str, Counter[str]], seconds: float) -> None:
    """Print what `run_trials` returned. which: which trials they were."""
    print(f"{which}, {counted['hits'].total()} kills, {seconds:.0f} s")
    for where, number in counted["hits"].most_common():
        print(f"  {number:5} kills {where}")
    for status, number in counted["ends"].most_common():
        print(f"  {number:5} calls ended {status}")
    print("no effect before the yes, none twice, none lost unless `unknown`; every record replays the same")


if __name__ == "__main__":
    main()
