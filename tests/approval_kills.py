"""Trials of SIGKILL between a question for approval and the effect of the call, with real processes and a side log.

    python -m tests.approval_kills 1000     # from the root of the repository; make kill runs it, too

Each trial has a response with two calls that need approval and one writing call between them, which waits. A process
asks, says yes and runs them; it is killed at a random moment after the question. Other processes take the record up,
each killed at a random moment with some chance, until one ends. The side log has a line for each yes, before it is
given, and for each effect, when it is done; each line is one `write`, so a kill loses nothing of it. Processes are
forked from this one, which has the imports.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from endstop import Approve, Engine, Happened, NotHappened, Tool, read_record
from endstop.decision import ToolResult
from endstop.decision import events as ev
from endstop.providers import Request, Scripted, call
from endstop.replay import replay
from endstop.session import Session
from endstop.tools import finish_task

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

    # ---- in the child

    def note(self, line: str) -> None:
        """Append a line to the side log."""
        file = os.open(self.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(file, f"{line}\n".encode())
        os.close(file)

    def lines(self) -> list[str]:
        """The side log."""
        return self.log.read_text().splitlines() if self.log.exists() else []

    def _answered(self, id: str) -> bool:
        """Whether the yes to this call is in the record, as the disk has it."""
        if id not in ("d1", "d2"):
            return True
        return any(b'"QUESTION_ANSWERED"' in line and f'"{id}"'.encode() in line for line in self._raw())

    def _raw(self) -> list[bytes]:
        return self.record.read_bytes().splitlines() if self.record.exists() else []

    def tools(self) -> list[Tool]:
        """Tools whose effect is a line in the side log; one is async, one runs in a thread."""

        async def delete(what: str) -> str:
            await asyncio.sleep(0.001)
            self.note(f"did {what} {self._answered(what)}")
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

    def session(self) -> Session[Any]:
        """The session, as its record has it."""
        calls = [call(name, what=id, id=id) for id, name in NAMES.items()]

        def respond(request: Request) -> Any:
            return calls if request.attempt.startswith("1.") else call("finish_task", summary="done")

        engine = Engine(Scripted(respond), tools=self.tools(), presets=[finish_task])
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
            for id in ids if self._together else ids[:1]:
                self.note(f"yes {id}")
            if self._together:
                await session.answer_all({id: Approve() for id in ids})
            else:
                await session.approve(ids[0])

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
        began = time.monotonic()
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
        log = self.lines()
        effects = [line.split() for line in log if line.startswith("did ")]
        times = Counter(id for _, id, _ in effects)
        assert all(recorded == "True" for *_, recorded in effects), f"an effect before its yes was recorded: {log}"
        if effects:
            begun = next(number for number, line in enumerate(log) if line.startswith("did "))
            assert {"yes d1", "yes d2"} <= set(log[:begun]), f"an effect before a yes: {log}"
        assert max(times.values(), default=0) <= 1, f"an effect twice: {log}"
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


def calibrate(folder: Path) -> float:
    """Seconds from the question to the end of a process that is not killed: the median of nine."""
    took = []
    for number in range(9):
        place = folder / f"whole{number}"
        place.mkdir()
        trial = Trial(place, with_check=False, together=number % 2 == 0)
        trial.life(None)
        took.append(trial.seconds)
    return sorted(took)[4]


def run_trials(count: int, seed: int, folder: Path) -> dict[str, Counter[str]]:
    """Run trials. Returns where kills hit, and how the calls ended. Raises AssertionError for a trial that failed."""
    chance, whole = random.Random(seed), calibrate(folder)
    hits, trials = Counter[str](), list[Trial]()
    for number in range(count):
        place = folder / f"trial{number}"
        place.mkdir()
        trial = Trial(place, with_check=chance.random() < 0.5, together=chance.random() < 0.5)
        for life in range(LIVES):
            kills = life < LIVES - 1 and (life == 0 or chance.random() < AGAIN)
            moment = 1.1 * whole * chance.random() ** 1.5  # most effects come in the first half
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
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(10**6)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="approval_kills") as folder:
        counted = run_trials(count, seed, Path(folder))
    print(f"{count} trials, seed {seed}, {sum(counted['hits'].values())} kills, {time.monotonic() - began:.0f} s")
    for where, number in counted["hits"].most_common():
        print(f"  {number:5} kills {where}")
    for status, number in counted["ends"].most_common():
        print(f"  {number:5} calls ended {status}")
    print("no effect before the yes, none twice, none lost unless `unknown`; every record replays the same")


if __name__ == "__main__":
    main()
