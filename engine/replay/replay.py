"""`replay`: runs a record through the real engine, and checks that it makes the same decisions.

Chunks come from the record, and so do the results of tools, unless live tools are requested. Everything else happens
again: assembling responses, cutting them, settling calls, folding events, deciding. Every decision of the outer loop
and the outcome are compared. The clock shows the record's time, so limits on time are reached as they were.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from typing import Any

from ..decision import AnyChunk, Event, Outcome, Rule, WrongUse
from ..decision.events import CutOff, ResponseFinished
from ..decision.wrong_calls import ExplainedStruct, checked, explained
from ..event_bus import Lagged
from ..records.format import step_of_attempt, summarize_drained
from ..records.reader import RecordedRun, SessionRecord, read_record
from ..run import Run
from ..session import Session
from ..tools.tool import Tool
from .diff import Divergence, EventAddress, EventDifference, PositionWatch, ReplayComparison
from .player import Player


@checked
class Watcher:
    """Observer of a replay. An exception in a method ends the replay and is raised by it."""

    def begin(self, recorded: RecordedRun, run: Run, passed: Sequence[Event]) -> None:
        """Handle the start of a run, before its first `show`. `passed`: its events before `watch_from`."""

    async def show(self, event: Event, run: Run) -> None:
        """Handle an event. The run makes no further request before this returns."""

    def diverge(self, divergence: Divergence) -> None:
        """Handle, after `show`, the decision at which the replay diverges from the record."""


class ReplayedRun(ExplainedStruct, frozen=True, kw_only=True):
    """Result of replaying one run of a record."""

    run_id: str
    outcome: Outcome
    recorded: Outcome | None
    """The recorded outcome; None if the recorded process was killed before the run ended."""
    decisions: int
    """Number of decisions that were the same as in the record."""
    divergence: Divergence | None
    difference: EventDifference | None = None
    """First event that differs, even if all decisions are the same: for example, the result of a live tool."""
    saved_chunks: tuple[AnyChunk, ...] = ()
    """Chunks that the recorded run read after responses were cut (with `drain`)."""


class ReplayReport(ExplainedStruct, frozen=True, kw_only=True):
    """Result of replaying a record."""

    path: str
    runs: tuple[ReplayedRun, ...]
    damaged: tuple[int, ...] = ()
    """Numbers of the lines that could not be decoded."""
    missing: tuple[str, ...] = ()
    """Hashes of missing attachments."""

    @property
    def same(self) -> bool:
        """Whether every decision and every outcome was the same."""
        return all(run.divergence is None for run in self.runs)


@explained
async def replay(
    path: str | os.PathLike[str] | SessionRecord,
    *,
    pace: bool = False,
    tools: Sequence[Tool] = (),
    live_tools: bool = False,
    rules: Sequence[Rule] = (),
    watcher: Watcher | None = None,
    watch_from: EventAddress | None = None,
    output: Any = None,
) -> ReplayReport:
    """Replay a record, and compare the replay with the record.

    path: the file of a record, or a record that has already been read.
    pace: wait between chunks as long as the record did.
    tools: with `live_tools`, the tools to call instead of answering from the record.
    rules: your own rules and guards that the recorded policies name.
    watcher: called with each event.
    watch_from: the event from which on the watcher is called and `pace` applies; earlier events run at full speed.
    output: the type that answers are read as, for `Outcome.output`; as for `Engine`. It is not stored in a record.

    Raises WrongUse if the file is not a record, or a rule or live tool that it needs is missing.
    """
    record = path if isinstance(path, SessionRecord) else read_record(path)
    runs = [
        run
        async for run in replay_runs(
            record,
            pace=pace,
            tools=tools,
            live_tools=live_tools,
            rules=rules,
            watcher=watcher,
            watch_from=watch_from,
            output=output,
        )
    ]
    return ReplayReport(
        path=record.path, runs=tuple(runs), damaged=tuple(record.damaged), missing=tuple(record.missing)
    )


@explained
async def replay_runs(
    record: SessionRecord,
    *,
    pace: bool = False,
    tools: Sequence[Tool] = (),
    live_tools: bool = False,
    rules: Sequence[Rule] = (),
    watcher: Watcher | None = None,
    watch_from: EventAddress | None = None,
    output: Any = None,
) -> AsyncIterator[ReplayedRun]:
    """Replay like `replay`, one run at a time. Each run continues the recorded runs before it, not the replayed ones.

    Only a fork's own part is replayed: it begins at the decision at which it was forked.
    """
    if tools and not live_tools:
        raise WrongUse(
            "tools were passed, but a replay answers calls from the record: add live_tools=True to call them, "
            "or omit tools"
        )
    past: Session | None = None
    for number, recorded in enumerate(record.runs):
        active_watcher = watcher if watch_from is None or number >= watch_from.run else None
        seq = watch_from.seq if watch_from is not None and number == watch_from.run else 0
        follower = _Follower(recorded, active_watcher, pace and (watch_from is None or number >= watch_from.run), seq)
        player = Player(recorded.own, follower, live=tools if live_tools else None, rules=rules, output=output)
        past = past or player.engine.session(record.header.session_id)
        if not recorded.is_copy:
            session = player.engine.session(record.header.session_id)
            session.copy_from(past)
            session.begin_as_recorded(recorded)
            session.cut_off = _cut_off(recorded)
            yield await follower.follow(player.start(session, recorded.copies))
        past.load([recorded])


def _cut_off(recorded: RecordedRun) -> dict[int, CutOff]:
    """Return what followed the cuts of responses, by step number, as far as the record has it."""
    chunks: dict[int, list[AnyChunk]] = {}
    for rest in recorded.after_cut:
        chunks.setdefault(step_of_attempt(rest.attempt), []).append(rest.chunk)
    known = {step: summarize_drained(rest) for step, rest in chunks.items()}
    for event in recorded.events:
        if isinstance(event, ResponseFinished) and event.cut_at is not None:
            if event.cut_at_end or event.raw_finish:
                known[event.step] = CutOff()  # the replay cuts at the call itself, before the finish
            elif event.after_cut is not None:
                known[event.step] = event.after_cut
    return known


class _Follower:
    """Follower of one run: compares its events with the record and calls the watcher."""

    def __init__(self, recorded: RecordedRun, watcher: Watcher | None, pace: bool, seq: int) -> None:
        self._recorded = recorded
        self._watcher = watcher
        self._pace = pace
        self._awaited = PositionWatch(recorded.own, seq) if seq > 1 else None
        copies = recorded.copies
        self._passed: list[Event] = [] if copies is None else copies.events
        """Events before those with which the watcher is called; for a fork, including those that it copied."""
        self._seen = copies.events[-1].seq if copies is not None else 0
        self._caught_up = asyncio.Event()
        self._run: Run | None = None

    @property
    def paced(self) -> bool:
        """Whether to wait between chunks as long as the recorded run did."""
        return self._pace and self._awaited is None

    @property
    def close(self) -> bool:
        """Whether the next event may be the one from which on the watcher is called; the run then waits for it."""
        return self._awaited is not None and self._awaited.near

    async def catch_up(self) -> None:
        """Wait until all events so far have been compared and shown."""
        if self._watcher is None and self._awaited is None:
            return
        assert self._run is not None
        while self._seen < self._run.bus.last:
            self._caught_up.clear()
            await self._caught_up.wait()

    async def follow(self, run: Run) -> ReplayedRun:
        """Follow a run to its end."""
        self._run = run
        recorded = self._recorded
        comparison = ReplayComparison(recorded)
        async with run:
            if self._awaited is None and self._watcher is not None:
                self._watcher.begin(recorded, run, self._passed)
            async for event in run.events(after=self._seen):
                assert not isinstance(event, Lagged), "the engine of a replay keeps all events"
                divergence = comparison.feed(event)
                watcher = self._watcher_for(event, run)
                if watcher is not None:
                    await watcher.show(event, run)
                    if divergence is not None:
                        watcher.diverge(divergence)
                self._seen = event.seq
                self._caught_up.set()
        finished = recorded.finished
        return ReplayedRun(
            run_id=recorded.started.run_id,
            outcome=run.outcome,
            recorded=finished.outcome if finished else None,
            decisions=comparison.decisions,
            divergence=comparison.finish(run.outcome),
            difference=comparison.difference,
            saved_chunks=tuple(rest.chunk for rest in recorded.after_cut),
        )

    def _watcher_for(self, event: Event, run: Run) -> Watcher | None:
        """Return the watcher, if it is to be called with this event."""
        if self._awaited is not None:
            if not self._awaited.reached_by(event):
                if self._watcher is not None:
                    self._passed.append(event)
                return None
            self._awaited = None
            if self._watcher is not None:
                self._watcher.begin(self._recorded, run, self._passed)
        return self._watcher
