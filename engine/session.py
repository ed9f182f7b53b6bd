"""A session: one conversation, many runs, one run at a time.

Each run starts with fresh facts, so what ended an earlier run never ends a later one; only the transcript goes on.
A second run on a busy session is refused or queued, by the session's `busy` setting.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Literal
from uuid import uuid4

from ..decision import Event, Facts, Outcome, Question, Transcript, WrongUse, fold
from ..decision.events import Carried, QuestionAnswered, RunStarted, ToolCallStart
from ..providers import Exchange, Provider, Record
from .bus import Bus
from .context import Context
from .log import Log
from .record import RecordedRun, RecordWriter
from .run import Run
from .version import VERSION

if TYPE_CHECKING:
    from .engine import Engine


class Session:
    """One conversation. Made by `Engine.session`.

    `busy`: what a second run does while one is going: `refuse` raises WrongUse, `queue` waits for its turn.
    """

    def __init__(
        self,
        engine: Engine,
        session_id: str,
        *,
        busy: Literal["refuse", "queue"] = "refuse",
        record: str | os.PathLike[str] | None = None,
        drain: bool = False,
    ) -> None:
        self.id = session_id
        self.transcript = Transcript()
        self.questions: tuple[Question, ...] = ()
        """Questions of a paused run that wait for `answer`."""
        self._engine = engine
        self._busy: Literal["refuse", "queue"] = busy
        self._turn = asyncio.Lock()
        self._record = record
        self._drain = drain
        self._taken: set[str] = set()
        self._memo: dict[Any, Any] = {}
        self._paused: Facts | None = None
        """What was known when the latest run paused; None if it did not."""

    def start(self, prompt: str) -> Run:
        """A run that answers `prompt`. Enter it with `async with`."""
        return self._new_run(partial(self._begin, prompt=prompt))

    async def run(self, prompt: str) -> Outcome:
        """Answer `prompt` and wait for the outcome."""
        async with self.start(prompt) as run:
            return await run.wait()

    def start_answer(self, call_id: str, text: str) -> Run:
        """A run that goes on from a paused one with the user's answer to this question."""
        if call_id not in {question.call_id for question in self.questions}:
            waiting = ", ".join(q.call_id for q in self.questions) or "none"
            raise WrongUse(f"no question {call_id!r} is open in session {self.id} (open: {waiting})")
        return self._new_run(partial(self._begin, answer=(call_id, text)))

    async def answer(self, call_id: str, text: str) -> Outcome:
        """Answer an open question and wait for the outcome of the run that goes on."""
        async with self.start_answer(call_id, text) as run:
            return await run.wait()

    def recall(self, runs: Iterable[RecordedRun]) -> None:
        """Take in runs of a record: the session then stands where they ended."""
        for run in runs:
            facts = Facts()
            for event in run.events:
                facts = fold(facts, event)
                self.transcript.feed(event)
                if isinstance(event, ToolCallStart):
                    self._taken.add(event.call_id)
            self._remember(facts)

    # ---- one run

    def _new_run(self, begin: Callable[[Log, str], None]) -> Run:
        run_id = f"run_{uuid4().hex[:12]}"
        bus = Bus(self._engine.buffer)
        return Run(run_id, self.id, bus, partial(self._body, begin=begin))

    async def _body(self, run: Run, begin: Callable[[Log, str], None]) -> None:
        """A run from its first to its last event, in the run's own task."""
        async with self._lease(), self._engine.opened():
            with self._recording() as record:
                await self._drive(run, begin, record)

    async def _drive(self, run: Run, begin: Callable[[Log, str], None], record: RecordWriter | None) -> None:
        context = self._context(run.bus, record)
        run.attach(context)
        async with self._engine.watched(run):
            begin(context.log, run.id)
            context.flush()
            run.ready()
            try:
                await run.drive()
            finally:
                self._remember(run.facts)

    @asynccontextmanager
    async def _lease(self) -> AsyncIterator[None]:
        if self._turn.locked() and self._busy == "refuse":
            raise WrongUse(f"session {self.id} is busy with another run: wait for it, or make it with busy='queue'")
        async with self._turn:
            yield

    @contextmanager
    def _recording(self) -> Iterator[RecordWriter | None]:
        """The record, open for one run: no file stays open in a session that rests."""
        if self._record is None:
            yield None
            return
        now = self._engine.clock.wall().isoformat(timespec="milliseconds")
        writer = RecordWriter(self._record, self.id, now, VERSION)
        try:
            yield writer
        finally:
            writer.close()

    def _context(self, bus: Bus, record: RecordWriter | None) -> Context:
        engine = self._engine
        sinks: list[Callable[[Event], None]] = []
        if record is not None:
            sinks.append(record.write)
        sinks.append(bus.publish)
        provider: Provider = engine.provider
        if record is not None and self._drain:
            provider = Record(provider, partial(_keep_rest, record), drain=True)
        return Context(
            log=Log(engine.clock, self.transcript.feed, sinks),
            transcript=self.transcript,
            provider=provider,
            toolbox=engine.toolbox,
            policy=engine.policy,
            decide=engine.decide,
            execute=engine.execute,
            clock=engine.clock,
            taken_ids=self._taken,
            memo=self._memo,
            tool_choice=engine.tool_choice,
            settings=engine.settings,
            flush=record.flush if record is not None else _nothing,
        )

    def _begin(
        self, log: Log, run_id: str, *, prompt: str | None = None, answer: tuple[str, str] | None = None
    ) -> None:
        engine, paused = self._engine, self._paused if answer is not None else None
        log.append(
            RunStarted(
                run_id=run_id,
                session_id=self.id,
                prompt=prompt,
                system=engine.system,
                model=engine.provider.model,
                policy=engine.policy,
                tools=engine.toolbox.specs,
                tool_choice=engine.tool_choice,
                settings=engine.settings,
                continues=paused.run_id if paused else None,
                carried=_carried(paused) if paused else None,
                started_at=engine.clock.wall().isoformat(timespec="milliseconds"),
                engine=VERSION,
            )
        )
        if answer is not None:
            log.append(QuestionAnswered(call_id=answer[0], text=answer[1]))

    def _remember(self, facts: Facts) -> None:
        """Where a run has left the session."""
        self.questions = facts.questions
        self._paused = facts if facts.questions else None


def _keep_rest(record: RecordWriter, exchange: Exchange) -> None:
    for chunk in exchange.after_cut:
        record.write_after_cut(exchange.attempt, chunk)


def _carried(paused: Facts) -> Carried:
    return Carried(
        steps=paused.steps,
        rounds=paused.rounds,
        requests=paused.requests,
        tool_calls=paused.tool_calls,
        rejections=paused.rejections,
        usage=paused.usage,
        elapsed_ms=paused.t,
    )


def _nothing() -> None:
    pass
