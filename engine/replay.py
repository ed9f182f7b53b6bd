"""Replay: a record through the real engine, and the proof that it decides the same.

Chunks come from the record, and so do the results of tools, unless live ones are asked for; everything else happens
anew: assembling, cutting, settling, folding, deciding. What is compared is each decision of the outer loop and the
outcome. The record's time is replayed too, so that limits on time see what they saw then.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import anyio
import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ..decision import AnyChunk, Decision, Event, Outcome, Rule, ToolCall, ToolSpec, WrongUse
from ..decision.events import CancelRequested, DecisionMade, QuestionAnswered, ToolExecutionStarted
from ..providers import Prices, Replay, Request
from . import presets
from .answers import Settled
from .bus import Lagged
from .context import Execute, execute_here
from .engine import Engine
from .recalled import RecordedVerdicts
from .record import RecordedRun, read_record
from .recorded import RecordedTool, exchanges_of, values_of
from .run import Run
from .tools import Tool

Watch = Callable[[Event | Lagged, Run], None]


class Divergence(Struct, frozen=True, kw_only=True):
    """The first place where a replay left its record."""

    round: int
    recorded: Decision | None
    replayed: Decision | None
    what: str
    """In words: which two things differ."""


class ReplayedRun(Struct, frozen=True, kw_only=True):
    """One run of the record, and what came of it this time."""

    run_id: str
    outcome: Outcome
    recorded: Outcome | None
    """None if the recorded process was killed before the run's end."""
    decisions: int
    divergence: Divergence | None
    saved_chunks: tuple[AnyChunk, ...] = ()
    """What the record holds of responses after they were cut (made with `drain`)."""


class ReplayReport(Struct, frozen=True, kw_only=True):
    """A replay of a whole record."""

    path: str
    runs: tuple[ReplayedRun, ...]
    damaged: tuple[int, ...] = ()
    """Lines of the record that could not be read."""

    @property
    def same(self) -> bool:
        """Whether every decision and every outcome was the same."""
        return all(run.divergence is None for run in self.runs)


async def replay(
    path: str,
    *,
    pace: bool = False,
    tools: Sequence[Tool] = (),
    live_tools: bool = False,
    rules: Sequence[Rule] = (),
    watch: Watch | None = None,
) -> ReplayReport:
    """Play a record again. Raises WrongUse if it is none, or if a live tool that it calls is missing.

    pace: wait between chunks as long as the record did.
    tools: with `live_tools`, what is really run instead of answered from the record.
    rules: a user's own rules and guards that the recorded policies name.
    watch: called with each event of each run.
    """
    record = read_record(path)
    replayed = []
    for number, recorded in enumerate(record.runs):
        player = _Player(recorded, pace, tools if live_tools else None, rules)
        session = player.engine.session(record.header.session_id)
        session.recall(record.runs[:number])
        answer = next((event for event in recorded.events if isinstance(event, QuestionAnswered)), None)
        if answer is not None:
            run = session.start_answer(answer.call_id, answer.text)
        else:
            run = session.start(recorded.started.prompt or "")
        replayed.append(await player.play(run, watch))
    return ReplayReport(path=str(path), runs=tuple(replayed), damaged=tuple(record.damaged))


class RecordedClock:
    """A clock that shows the time of the record."""

    def __init__(self) -> None:
        self._now = 0.0

    def now(self) -> float:
        """Seconds since the recorded run began."""
        return self._now

    def wall(self) -> datetime:
        """The time of day at which the replay runs."""
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        """Let so many recorded seconds pass, without waiting."""
        self._now += seconds

    def deadline(self, seconds: float | None) -> anyio.CancelScope:
        """No deadline: what timed out then is answered from the record."""
        return anyio.CancelScope()

    def reach(self, milliseconds: int) -> None:
        """Go on to this time of the record; never back."""
        self._now = max(self._now, milliseconds / 1000)


class _Player:
    """The engine for one recorded run, and the comparison with it."""

    def __init__(self, recorded: RecordedRun, pace: bool, live: Sequence[Tool] | None, rules: Sequence[Rule]) -> None:
        started = recorded.started
        self._recorded = recorded
        self._clock = RecordedClock()
        self._pace = pace
        self._run: Run | None = None
        self._values = values_of(recorded)
        self._begun = {e.call_id for e in recorded.events if isinstance(e, ToolExecutionStarted)}
        self._cause = next((e.cause for e in recorded.events if isinstance(e, CancelRequested)), None)
        execute: Execute = self._from_record if live is None else execute_here
        verdicts = RecordedVerdicts(recorded)
        self.engine = Engine(
            _RecordedProvider(recorded, self._clock, self._sleep, self._hang),
            tools=[RecordedTool(spec, recorded) for spec in started.tools]
            if live is None
            else _live(started.tools, live),
            presets=(),
            policy=started.policy,
            system=started.system,
            rules=rules,
            gates=verdicts.stand_ins("gate"),
            text_rule=verdicts.stand_in("text_rule"),
            judge=verdicts.stand_in("judge"),
            intents=verdicts.stand_ins("handler"),
            prices=Prices(started.prices, listed=False),
            recalled=verdicts,
            clock=self._clock,
            execute=execute,
        )

    async def play(self, run: Run, watch: Watch | None) -> ReplayedRun:
        self._run = run
        decisions: list[DecisionMade] = []
        async with run:
            async for event in run:
                if isinstance(event, DecisionMade):
                    decisions.append(event)
                if watch is not None:
                    watch(event, run)
        finished = self._recorded.finished
        return ReplayedRun(
            run_id=self._recorded.started.run_id,
            outcome=run.outcome,
            recorded=finished.outcome if finished else None,
            decisions=len(decisions),
            divergence=_compare(self._recorded, decisions, run.outcome),
            saved_chunks=tuple(rest.chunk for rest in self._recorded.after_cut),
        )

    async def _sleep(self, seconds: float) -> None:
        if self._pace:
            await anyio.sleep(seconds)
        await self._clock.sleep(seconds)

    async def _from_record(self, call: ToolCall, tool: Tool, arguments: Mapping[str, Any]) -> Any:
        value = self._values.get(call.id)
        if value is not None:
            self._clock.reach(value.t)
            return value.value
        if call.id in self._begun:  # it was cut off then: by the caller, or because its response failed
            await self._hang()
        return Settled(content="The record holds no result of this call.", status="error")

    async def _hang(self) -> None:
        """Where the record was cancelled from outside or killed, so is the replay; else something here ends it."""
        assert self._run is not None
        if self._cause is not None or self._recorded.finished is None:
            self._run.cancel(self._cause or "the record ends here")
        await anyio.sleep_forever()


class _RecordedProvider(Replay):
    """The recorded responses, at the recorded time."""

    def __init__(
        self,
        recorded: RecordedRun,
        clock: RecordedClock,
        sleep: Callable[[float], Awaitable[None]],
        hang: Callable[[], Awaitable[None]],
    ) -> None:
        exchanges = exchanges_of(recorded)
        super().__init__(
            [exchange for _, exchange in exchanges],
            model=recorded.started.model,
            pace=True,
            sleep=sleep,
            cancelled=hang,
        )
        self._starts = iter([start for start, _ in exchanges])
        self._clock = clock
        self._killed = recorded.finished is None or any(isinstance(e, CancelRequested) for e in recorded.events)
        self._hang = hang

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[AnyChunk]]:
        start = next(self._starts, None)
        if start is not None:
            self._clock.reach(start)
        elif self._killed:
            await self._hang()
        async with super().stream(request) as chunks:
            yield chunks


def _live(specs: Sequence[ToolSpec], live: Sequence[Tool]) -> list[Tool]:
    ours = [value for value in vars(presets).values() if isinstance(value, Tool)]
    offered = {tool.name: tool for tool in (*ours, *live)}
    missing = [spec.name for spec in specs if spec.name not in offered]
    if missing:
        raise WrongUse(f"live tools: the record offers {', '.join(missing)}, which you did not bring")
    return [offered[spec.name] for spec in specs]


def _compare(recorded: RecordedRun, decisions: Sequence[DecisionMade], outcome: Outcome) -> Divergence | None:
    before = [event for event in recorded.events if isinstance(event, DecisionMade)]
    for number, then in enumerate(before):
        now = decisions[number] if number < len(decisions) else None
        if now is None or _bare(then.decision) != _bare(now.decision):
            said = "nothing" if now is None else str(now.decision)
            return Divergence(
                round=then.round,
                recorded=then.decision,
                replayed=None if now is None else now.decision,
                what=f"round {then.round}: the record says {then.decision}, the replay {said}",
            )
    if recorded.finished is None:
        return None
    return _compare_outcomes(recorded.finished.outcome, outcome, decisions[len(before) :])


def _compare_outcomes(then: Outcome, now: Outcome, more: Sequence[DecisionMade]) -> Divergence | None:
    differing = [
        name
        for name in ("status", "stop_reason", "answer", "steps", "rounds")
        if getattr(then, name) != getattr(now, name)
    ]
    if not (differing or more):
        return None
    words = "; ".join(f"{name} was {getattr(then, name)!r} and is {getattr(now, name)!r}" for name in differing)
    return Divergence(
        round=now.rounds,
        recorded=None,
        replayed=more[0].decision if more else None,
        what=f"the outcome differs: {words}" if differing else "the replay decides more often than the record",
    )


def _bare(decision: Decision) -> dict[str, Any]:
    """A decision as far as it is done: whatever else was considered, and in whatever words it is told."""
    plain: dict[str, Any] = msgspec.to_builtins(replace(decision, trace=()))
    plain.pop("detail", None)
    return plain
