"""Cuts a record where a killed process may leave it, resumes from what is left, and checks that nothing is repeated."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from ...config import RunConfig
from ...context import Decide
from ...decision import Outcome, WrongUse
from ...decision import decide as built_in_decide
from ...decision import events as ev
from ...decision.errors import error_text
from ...engine import Engine
from ...providers import Request
from ...records.reader import RecordedRun, SessionRecord, read_record
from ...session import Session
from ...user_message import Prompt
from ..fakes import LoopClock
from .invariants import Broken, broken_in_record
from .simulated_loop import SimulatedLoop, check_no_loop
from .violations import FaultReport, Points, Stopwatch, check_not_async, chosen, record_in

Cuts = Literal["bytes", "lines"]


class SideEffects:
    """The outside world of a run, which outlives its process: what the tools have done, in their order.

    A tool calls `add` where its effect happens. The `check` of a tool may ask `"..." in effects`.
    """

    def __init__(self, record: Path, before: Sequence[str] = ()) -> None:
        self._record = record
        self._done = list(before)
        self.recorded: list[int] = [0] * len(self._done)
        """For each effect, the bytes of the record when it happened."""

    def add(self, what: str) -> None:
        """An effect happens. what: names it; one that is made twice has the same name."""
        self._done.append(what)
        self.recorded.append(os.path.getsize(self._record) if self._record.exists() else 0)

    def __contains__(self, what: object) -> bool:
        return what in self._done

    def __iter__(self) -> Iterator[str]:
        return iter(self._done)

    def __len__(self) -> int:
        return len(self._done)


MakeEngine = Callable[[SideEffects], Engine[Any, Any]]


def by_step(*responses: Any) -> Callable[[Request], Any]:
    """For `Scripted`: the first response answers the first step, and so on, in whichever process a step is made.

    `Scripted` without it begins with its first response in each process. A step after the last response raises
    IndexError, which ends the run.
    """

    def respond(request: Request) -> Any:
        return responses[int(request.attempt.partition(".")[0]) - 1]

    return respond


def check_cut_records(
    make_engine: MakeEngine,
    prompt: Prompt = "Begin",
    *,
    at: Cuts = "bytes",
    points: Points = None,
    seed: int = 0,
    seconds: float | None = None,
) -> FaultReport:
    """Cut the record of a run at each byte or line, resume it, and check that it repeats nothing and loses nothing.

    The run is made once. A cut is what a process leaves that is killed there: the first bytes of the record, and the
    effects that had happened by then. Where effects happened just before the record grew beyond the cut, each number
    of them is tried. Then the run is resumed on a loop with simulated time.

    make_engine: called for each process, with the effects of those before it; its tools add theirs. The model has to
        say the same in each process: `Scripted(by_step(...))`.
    at: `bytes` also cuts within lines; `lines` after each line, which is quick, and where most defects show.
    points: how many cuts to try, chosen with `seed`; or exactly these bytes or lines, from 1; None for all.
    seconds: real seconds after which no further cut is tried; None for no bound.

    Raises WrongUse inside a running event loop, for arguments that cannot work, and if a writing tool has run and
    nothing was added to the effects. Raises what making the engine raises.
    """
    check_no_loop("check_cut_records")
    if at not in ("bytes", "lines"):
        raise WrongUse(f"at is {at!r}: use bytes or lines")
    report, watch = FaultReport("check_cut_records"), Stopwatch(seconds)
    with tempfile.TemporaryDirectory(prefix="endstop_faults") as folder, asyncio.Runner() as checks:
        whole = _Process(make_engine, prompt, record_in(folder), b"", ())
        if whole.raised is not None:
            raise whole.raised
        report.add("no cut", 0, checks.run(whole.check()), "points=[1]")
        if report.ok:
            _check_effects(whole)
            places = _places(whole.written, at)
            report.of = len(places)
            for point in chosen(points, range(1, len(places) + 1), seed):
                if report.full or watch.up or point > len(places):
                    break
                report.tried += 1
                _try(report, _Cut(whole, make_engine, prompt, at, point, places[point - 1]), folder, checks)
    report.seconds = watch.passed
    return report


def _places(written: bytes, at: Cuts) -> list[int]:
    """The numbers of bytes to keep."""
    if at == "bytes":
        return list(range(1, len(written) + 1))
    return [place + 1 for place, byte in enumerate(written) if byte == ord("\n")]


def _check_effects(whole: _Process) -> None:
    """A check that nobody tells of effects could not fail."""
    specs = {spec.name: spec for run in whole.record().runs for spec in run.started.tools}
    ran = [e.name for run in whole.record().runs for e in run.events if isinstance(e, ev.ToolExecutionStarted)]
    writing = [name for name in ran if not specs[name].reads and specs[name].kind == "ordinary"]
    if writing and not len(whole.effects):
        raise WrongUse(
            f"the tool {writing[0]!r} writes, and added nothing to the effects: call `effects.add(...)` in it where it "
            "acts, or declare it with reads=True"
        )


@dataclass(frozen=True, slots=True)
class _Cut:
    """What a process leaves that is killed at a byte of the record."""

    whole: _Process
    make_engine: MakeEngine
    prompt: Prompt
    at: Cuts
    point: int
    kept: int
    """Bytes."""

    def worlds(self) -> range:
        """How many effects may have happened: all before the bytes that are kept, and some that came after these."""
        recorded = self.whole.effects.recorded
        return range(sum(size < self.kept for size in recorded), sum(size <= self.kept for size in recorded) + 1)

    def what(self, effects: int) -> str:
        """What was done to the record, for people."""
        lines = self.whole.written[: self.kept].count(b"\n")
        return f"cut after byte {self.kept} (line {lines}), with {effects} effects made"


def _try(report: FaultReport, cut: _Cut, folder: str, checks: asyncio.Runner) -> None:
    for effects in cut.worlds():
        kept, before = cut.whole.written[: cut.kept], list(cut.whole.effects)[:effects]
        process = _Process(cut.make_engine, cut.prompt, record_in(folder), kept, before)
        broken = checks.run(process.check(cut.whole))
        report.ends[process.ended] += 1
        report.add(cut.what(effects), cut.point, broken, f"at={cut.at!r}, points=[{cut.point}]")


class _Process:
    """A process that takes up what another has left, and goes on to the end."""

    def __init__(
        self, make_engine: MakeEngine, prompt: Prompt, path: Path, kept: bytes, effects: Sequence[str]
    ) -> None:
        self.path = path
        self.effects = SideEffects(path, effects)
        self.raised: BaseException | None = None
        self._kept = kept
        self._broken: list[Broken] = []
        self._left: Sequence[RecordedRun] = ()
        self._decide: Decide = built_in_decide
        self._make_engine, self._prompt = make_engine, prompt
        if kept:
            path.write_bytes(kept)
        self._live()
        self.written = path.read_bytes() if path.exists() else b""
        outcome = self._outcome()
        self.ended = "no end" if outcome is None else outcome.stop_reason
        """The stop reason of the last run."""

    def record(self) -> SessionRecord:
        """What it has written, until the next process writes. Raises WrongUse if that cannot be read."""
        return read_record(self.path)

    def _outcome(self) -> Outcome | None:
        try:
            finished = self.record().runs[-1].finished
        except WrongUse:
            return None
        return None if finished is None else finished.outcome

    def _live(self) -> None:
        loop = SimulatedLoop()
        try:
            program = loop.create_task(self._program(), name="caller")
            loop.run(program)
            if loop.stuck:
                self._broken.append(("ends", loop.stuck))
            elif not program.cancelled():
                self.raised = program.exception()
            left = [] if loop.stuck else loop.left()
            loop.shut_down()
            named = [f"task {task.get_name()!r}" for task in left] + [f"thread {t.name!r}" for t in loop.end()]
            if named:
                self._broken.append(("nothing_left", ", ".join(named)))
        finally:
            if not loop.is_closed():
                loop.close()

    async def _program(self) -> None:
        engine = self._make_engine(self.effects)
        check_not_async("make_engine", engine)
        if not isinstance(engine, Engine):
            raise WrongUse(f"make_engine returned {engine!r}, which is no engine: write `return Engine(...)`")
        self._decide = engine.config.decide
        config = replace(engine.config, runtime=replace(engine.config.runtime, clock=LoopClock()))
        try:
            record = read_record(self.path)
        except WrongUse:  # nothing of a run is left, so the program begins anew
            if b"\n" not in self._kept:
                self.path.unlink(missing_ok=True)
            await _session(config, "session_faults", self.path).run(self._prompt)
            return
        self._left = record.runs
        session = _session(config, record.header.session_id, self.path)
        session.load(record.runs)
        if session.interrupted:
            async with session.start_resumed() as run:
                await run.wait()

    async def check(self, whole: _Process | None = None) -> list[Broken]:
        """The invariants that did not hold. whole: the process that was not killed; None if this is it."""
        broken = list(self._broken)
        if self.raised is not None:
            broken.append(("passed_on", error_text(self.raised)))
        try:
            record = self.record()
        except WrongUse as error:
            return [*broken, ("readable", str(error))]
        if len(record.damaged) > 1 or (record.damaged and self._kept.endswith(b"\n")):
            broken.append(("readable", f"damaged lines {record.damaged}"))
        broken += await broken_in_record(record, decide=self._decide)
        return broken if whole is None else [*broken, *self._compare(record, whole)]

    def _compare(self, record: SessionRecord, whole: _Process) -> Iterator[Broken]:
        for before, after in zip(self._left, record.runs, strict=False):
            if after.events[: len(before.events)] != before.events:
                yield "keeps_record", f"run {before.started.run_id} had {len(before.events)} events, and now differs"
        yield from _asked_again(record)
        wanted, made = Counter(whole.effects), Counter(self.effects)
        if made - wanted:
            yield "not_repeated", f"effects made once too often: {sorted((made - wanted).elements())}"
        events = [event for run in record.runs for event in run.events]
        if any(isinstance(e, ev.ToolCallResult) and e.status == "unknown" for e in events):
            return
        if wanted - made:
            yield "not_lost", f"effects never made: {sorted((wanted - made).elements())}"
        if self.ended != whole.ended:
            yield "same_end", f"{self.ended} instead of {whole.ended}"


def _asked_again(record: SessionRecord) -> Iterator[Broken]:
    for run in record.runs:
        responses = Counter(event.step for event in run.events if isinstance(event, ev.ResponseFinished))
        again = [step for step, times in responses.items() if times > 1]
        if again:
            yield "not_repeated", f"steps with more than one finished response: {again}"


def _session(config: RunConfig, session_id: str, path: Path) -> Session[Any, Any]:
    return Session(config, session_id, record=path)
