"""Process that takes over a run from another one, on a loop with simulated time, and the rules that it must keep."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from ...answers import Answer
from ...config import RunConfig
from ...decision import Outcome, Question, WrongUse
from ...decision import decide as built_in_decide
from ...decision import events as ev
from ...decision.errors import error_text
from ...decision.wrong_calls import checked
from ...engine import Engine
from ...option_groups import Decide
from ...records.reader import RecordedRun, SessionRecord, read_record
from ...run import Run
from ...session import Session
from ...user_message import Prompt
from ..fakes import LoopClock
from .growth import RECORD, Growth, subagent_records, write_files
from .invariants import Broken, broken_in_record, broken_in_subagents
from .simulated_loop import SimulatedLoop
from .violations import check_not_async, emptied


@checked
class SideEffects:
    """The outside world of a run, which outlives its process: the effects of its tools, in order.

    A tool calls `add` where its effect happens. The `check` of a tool may ask `"..." in effects`.
    """

    def __init__(self, record: Path, before: Sequence[str] = ()) -> None:
        self.record = record
        """Record of the run; sub-agents write their records next to it."""
        self.recorded: list[int] = [0] * len(before)
        """For each effect, the size of the run's files in bytes when it happened."""
        self._done = list(before)
        self._growth: Growth | None = None

    def follow(self, growth: Growth) -> None:
        """Note, from now on, when effects happen."""
        self._growth = growth

    def add(self, what: str) -> None:
        """Note that an effect happens. what: its name; an effect that is made twice has the same name."""
        self._done.append(what)
        self.recorded.append(0 if self._growth is None else self._growth.look())

    def __contains__(self, what: object) -> bool:
        return what in self._done

    def __iter__(self) -> Iterator[str]:
        return iter(self._done)

    def __len__(self) -> int:
        return len(self._done)


@dataclass(frozen=True, slots=True)
class CutProgram:
    """What each process does: it begins the run or takes it over, and answers its questions."""

    make_engine: Callable[[SideEffects], Engine[Any, Any]]
    prompt: Prompt
    begin: Callable[[SideEffects], AbstractAsyncContextManager[Run[Any]]] | None
    answer: Callable[[Question], Answer] | None

    def engine(self, effects: SideEffects) -> Engine[Any, Any]:
        """Return the engine of one process. Raises WrongUse for anything else."""
        engine = self.make_engine(effects)
        check_not_async("make_engine", engine)
        if not isinstance(engine, Engine):
            raise WrongUse(f"make_engine returned {engine!r}, which is not an engine: write `return Engine(...)`")
        return engine

    async def run(self, engine: Engine[Any, Any], record: Path, effects: SideEffects) -> Sequence[RecordedRun]:
        """Bring the run to its end. Return the runs that were left before."""
        config = replace(engine.config, runtime=replace(engine.config.runtime, clock=LoopClock()))
        left = _left(record)
        session = _session(config, "session_faults" if left is None else left.header.session_id, record)
        if left is not None:
            session.load(left.runs)
            if session.interrupted:
                await _finished(session.start_resumed())
        elif self.begin is None:
            await _finished(session.start(self.prompt))
        else:
            emptied(record.parent)
            await _finished(self.begin(effects))
            session.load(read_record(record).runs)
        while session.questions and self.answer is not None:
            question = session.questions[0]
            await _finished(session.start_answers({question.call_id: self.answer(question)}))
        return () if left is None else left.runs


def _left(record: Path) -> SessionRecord | None:
    """Return what is left of the record; None if the run must begin again."""
    try:
        left = read_record(record)
    except WrongUse:  # no run
        if record.exists() and b"\n" not in record.read_bytes():
            record.unlink()
        return None
    started, last = left.runs[-1].started, left.runs[-1].events[-1]
    torn_fork = started.origin is not None and last.seq < started.origin.at - 1  # `start_resumed` rejects it
    return None if torn_fork else left


async def _finished(run: AbstractAsyncContextManager[Run[Any]]) -> None:
    async with run as entered:
        await entered.wait()


def _session(config: RunConfig, session_id: str, path: Path) -> Session[Any, Any]:
    return Session(config, session_id, record=path)


class CutProcess:
    """One process, from its start to the end of the run.

    kept: the files left by the previous process. effects: the effects that had happened by then.
    """

    def __init__(
        self, program: CutProgram, folder: Path, kept: Mapping[str, bytes], effects: Sequence[str] = ()
    ) -> None:
        emptied(folder)
        self.path = folder / RECORD
        self.effects = SideEffects(self.path, effects)
        self.growth = Growth(folder)
        """Growth of the files; only for the first process."""
        self.raised: BaseException | None = None
        self._kept = kept
        self._broken: list[Broken] = []
        self._left: Sequence[RecordedRun] = ()
        self._decide: Decide = built_in_decide
        write_files(folder, kept)
        self._live(program)
        outcome = self._outcome()
        self.ended = "no end" if outcome is None else outcome.stop_reason
        """Stop reason of the last run."""

    @cached_property
    def record(self) -> SessionRecord:
        """The record that it wrote, read once: the next process writes there, too. Raises WrongUse if unreadable."""
        return read_record(self.path)

    def _outcome(self) -> Outcome | None:
        try:
            finished = self.record.runs[-1].finished
        except WrongUse:
            return None
        return None if finished is None else finished.outcome

    def _live(self, program: CutProgram) -> None:
        if self._kept:
            loop = SimulatedLoop()
        else:
            self.effects.follow(self.growth)
            loop = SimulatedLoop(each_turn=self.growth.look)
        try:
            caller = loop.create_task(self._run(program), name="caller")
            loop.run(caller)
            if loop.stuck:
                self._broken.append(("ends", loop.stuck))
            elif not caller.cancelled():
                self.raised = caller.exception()
                self._left = () if self.raised is not None else caller.result()
            left = [] if loop.stuck else loop.left()
            loop.shut_down()
            named = [f"task {task.get_name()!r}" for task in left] + loop.end()
            if named:
                self._broken.append(("nothing_left", ", ".join(named)))
        finally:
            if not loop.is_closed():
                loop.close()
        if not self._kept:
            self.growth.look()

    async def _run(self, program: CutProgram) -> Sequence[RecordedRun]:
        engine = program.engine(self.effects)
        self._decide = engine.config.decide
        return await program.run(engine, self.path, self.effects)

    async def check(self, whole: CutProcess | None = None) -> list[Broken]:
        """Return the invariants that were broken. whole: the process that was not killed; None if this is it."""
        broken = list(self._broken)
        if self.raised is not None:
            broken.append(("passed_on", error_text(self.raised)))
        try:
            record = self.record
        except WrongUse as error:
            return [*broken, ("readable", str(error))]
        if len(record.damaged) > 1 or (record.damaged and self._kept.get(RECORD, b"\n").endswith(b"\n")):
            broken.append(("readable", f"damaged lines {record.damaged}"))
        broken += await broken_in_record(record, decide=self._decide)
        broken += await broken_in_subagents(self.path, self._decide, torn=1 if self._kept else 0)
        return broken if whole is None else [*broken, *self._compare(record, whole)]

    def _compare(self, record: SessionRecord, whole: CutProcess) -> Iterator[Broken]:
        for before, after in zip(self._left, record.runs, strict=False):
            if after.events[: len(before.events)] != before.events:
                yield "keeps_record", f"run {before.started.run_id} had {len(before.events)} events, and now differs"
        yield from _asked_again(record)
        wanted, made = Counter(whole.effects), Counter(self.effects)
        unsure = any(_unsure(run) for each in (record, *self._subagents()) for run in each.runs)
        again = sorted(what for what, times in made.items() if times > max(wanted[what], unsure))
        if again:
            yield "not_repeated", f"effects made once too often: {again}"
        if unsure:
            return
        if wanted - made:
            yield "not_lost", f"effects never made: {sorted((wanted - made).elements())}"
        if self.ended != whole.ended:
            yield "same_end", f"{self.ended} instead of {whole.ended}"

    def _subagents(self) -> Iterator[SessionRecord]:
        """Yield the records of its sub-agents that have begun."""
        for path in subagent_records(self.path):
            with suppress(WrongUse):
                yield read_record(path)


def _unsure(run: RecordedRun) -> bool:
    """Return whether the outcome of a call is unknown: its result is unknown, or the user was asked for it.

    The model may then do something else, but nothing that it has done before.
    """
    ordinary = {spec.name for spec in run.started.tools if spec.kind == "ordinary"}
    begun: set[str] = set()
    for event in run.events:
        match event:
            case ev.ToolExecutionStarted(name=name) if name in ordinary:
                begun.add(event.call_id)
            case ev.ToolCallResult(status="unknown"):
                return True
            case ev.QuestionAsked() if event.call_id in begun:
                return True
            case _:
                pass
    return False


def _asked_again(record: SessionRecord) -> Iterator[Broken]:
    for run in record.runs:
        responses = Counter(event.step for event in run.events if isinstance(event, ev.ResponseFinished))
        again = [step for step, times in responses.items() if times > 1]
        if again:
            yield "not_repeated", f"steps with more than one finished response: {again}"
