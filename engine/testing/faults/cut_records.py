"""Cuts a record where a killed process may leave it, resumes from the rest, and checks that nothing is repeated."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, Literal

from ...answers import Answer
from ...decision import Question, WrongUse
from ...decision import events as ev
from ...decision.wrong_calls import explained
from ...engine import Engine
from ...providers import Request
from ...run import Run
from ...user_message import Prompt
from .cut_process import CutProcess, CutProgram, SideEffects
from .growth import RECORD, as_read, write_files
from .simulated_loop import check_no_loop
from .violations import FaultReport, Points, Stopwatch, chosen, emptied

Cuts = Literal["bytes", "lines"]
MakeEngine = Callable[[SideEffects], Engine[Any, Any]]
Begin = Callable[[SideEffects], AbstractAsyncContextManager[Run[Any]]]


@explained
def by_step(*responses: Any) -> Callable[[Request], Any]:
    """Return a function for `Scripted`: the first response is for the first step, and so on, in whichever process.

    Without it, `Scripted` begins with its first response in each process. A step after the last response raises
    IndexError, which ends the run.
    """

    def respond(request: Request) -> Any:
        return responses[int(request.attempt.partition(".")[0]) - 1]

    return respond


@explained
def check_cut_records(
    make_engine: MakeEngine,
    prompt: Prompt = "Begin",
    *,
    begin: Begin | None = None,
    answer: Callable[[Question], Answer] | None = None,
    at: Cuts = "bytes",
    points: Points = None,
    seed: int = 0,
    seconds: float | None = None,
) -> FaultReport:
    """Cut the record of a run at each byte or line, resume it, and check that it repeats nothing and loses nothing.

    The run is made once. A cut is the state left by a process that is killed there: the first bytes that it has
    written, and the effects that had happened by then. The records of sub-agents are cut with their caller's, in the
    order in which they grew: a cut at the bytes of one leaves what the others contained by then. If the next bytes
    begin a new record, the cut is tried without that record and with an empty one. If effects happened just before more
    was written, each number of them is tried. Then the run is resumed on a loop with simulated time.

    Two cuts within a line leave the same data, except for the torn line. At each byte the records are read as a resume
    reads them, before and after it has ended the torn line; if that differs in anything from the previous byte, the run
    is resumed. If not, a resuming process cannot tell the two apart, and `FaultReport.alike` counts them.

    make_engine: called for each process, with the effects of the earlier ones; its tools add theirs. The model must say
        the same in each process: `Scripted(by_step(...))`.
    begin: called with the effects if a process begins the run, and returns it, for a run that is not a prompt to a new
        session, such as a fork; its record is `effects.record`. None: `prompt` to an engine of `make_engine`.
    answer: the user's answer to a question, also in a process that finds it open; None: the run stays paused.
    at: `bytes` also cuts within lines; `lines` only after each line, which is quick, and where most defects show.
    points: number of cuts to try, chosen with `seed`; or exactly these bytes or lines, from 1; None for all.
    seconds: real seconds after which no further cut is tried; None for no limit.

    Raises WrongUse inside a running event loop, for arguments that cannot work, and if a writing tool has run and
    nothing was added to the effects. Raises the errors of making the engine.
    """
    check_no_loop("check_cut_records")
    if at not in ("bytes", "lines"):
        raise WrongUse(f"at is {at!r}: use bytes or lines")
    report, watch = FaultReport("check_cut_records"), Stopwatch(seconds)
    program = CutProgram(make_engine, prompt, begin, answer)
    with tempfile.TemporaryDirectory(prefix="endstop_faults") as name, asyncio.Runner() as checks:
        folder = Path(name)
        whole = CutProcess(program, folder, {})
        if whole.raised is not None:
            raise whole.raised
        report.add("no cut", 0, checks.run(whole.check()), "points=[1]")
        if report.ok:
            _check_effects(whole)
            places = whole.growth.lines() if at == "lines" else range(1, whole.growth.size + 1)
            report.of = len(places)
            before: _Cut | None = None
            for point in chosen(points, range(1, len(places) + 1), seed):
                if report.full or watch.up or point > len(places):
                    break
                cut = _Cut.make(whole, folder, places[point - 1])
                report.tried += 1
                if before is not None and cut.alike(before):
                    report.alike += 1
                else:
                    _try(report, cut, program, folder, checks, f"at={at!r}, points=[{point}]", point)
                before = cut
    report.seconds = watch.passed
    return report


def _check_effects(whole: CutProcess) -> None:
    """Raise WrongUse if a writing tool ran but no effects were added: such a check could not fail."""
    specs = {spec.name: spec for run in whole.record.runs for spec in run.started.tools}
    ran = [e.name for run in whole.record.runs for e in run.events if isinstance(e, ev.ToolExecutionStarted)]
    writing = [name for name in ran if not specs[name].reads and specs[name].kind == "ordinary"]
    if writing and not len(whole.effects):
        raise WrongUse(
            f"the tool {writing[0]!r} writes, but added nothing to the effects: call `effects.add(...)` in it where it "
            "acts, or declare it with reads=True"
        )


@dataclass(frozen=True, slots=True)
class _Cut:
    """State left by a process that is killed after this many bytes."""

    whole: CutProcess
    size: int
    left: dict[str, bytes]
    opened: str | None
    """Record that may exist in addition, and is empty."""
    seen: list[Any]
    worlds: range
    """Numbers of effects that may have happened: all before the kept bytes, and some after them."""

    @classmethod
    def make(cls, whole: CutProcess, folder: Path, size: int) -> _Cut:
        """Return the cut, read in the folder."""
        left, recorded = whole.growth.left_at(size), whole.effects.recorded
        emptied(folder)
        write_files(folder, left)
        worlds = range(sum(at < size for at in recorded), sum(at <= size for at in recorded) + 1)
        return cls(whole, size, left, whole.growth.opened_at(size), as_read(folder / RECORD), worlds)

    def alike(self, other: _Cut) -> bool:
        """Return whether a process cannot tell this cut from the other."""
        return self.opened is None and self.worlds == other.worlds and self.seen == other.seen

    def states(self) -> Iterator[tuple[str, dict[str, bytes]]]:
        """Yield the possible states, each with its description."""
        lines = sum(content.count(b"\n") for name, content in self.left.items() if name.endswith(".jsonl"))
        what = f"cut after byte {self.size} (line {lines})"
        yield what, self.left
        if self.opened is not None:
            yield f"{what}, {self.opened} empty", {**self.left, self.opened: b""}


def _try(
    report: FaultReport, cut: _Cut, program: CutProgram, folder: Path, checks: asyncio.Runner, repeat: str, point: int
) -> None:
    for (what, left), effects in product(cut.states(), cut.worlds):
        process = CutProcess(program, folder, left, list(cut.whole.effects)[:effects])
        broken = checks.run(process.check(cut.whole))
        report.ends[process.ended] += 1
        report.add(f"{what}, with {effects} effects made", point, broken, repeat)
