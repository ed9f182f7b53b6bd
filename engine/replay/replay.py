"""Replay: a record through the real engine, and the proof that it decides the same.

Chunks come from the record, and so do the results of tools, unless live ones are asked for; everything else happens
anew: assembling, cutting, settling, folding, deciding. What is compared is each decision of the outer loop and the
outcome. The record's time is replayed too, so that limits on time see what they saw then.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Sequence

from msgspec import Struct

from ..decision import AnyChunk, Event, Outcome, Rule, WrongUse
from ..decision.events import CutOff, ResponseFinished
from ..event_bus import Lagged
from ..records.format import step_of_attempt, summarize_drained
from ..records.reader import RecordedRun, SessionRecord, read_record
from ..run import Run
from ..session import Session
from ..tools.tool import Tool
from .diff import Divergence, EventAddress, EventDifference, PositionWatch, ReplayComparison
from .player import Player


class Watcher:
    """Looks on at a replay. Whatever a method raises ends the replay and comes out of it."""

    def begin(self, recorded: RecordedRun, run: Run, passed: Sequence[Event]) -> None:
        """A run is watched from here on. `passed`: its events before that, where it is watched from later on."""

    async def show(self, event: Event, run: Run) -> None:
        """One more event. The run makes no further request before this returns."""

    def diverge(self, divergence: Divergence) -> None:
        """The replay has just left its record."""


class ReplayedRun(Struct, frozen=True, kw_only=True):
    """One run of the record, and what came of it this time."""

    run_id: str
    outcome: Outcome
    recorded: Outcome | None
    """None if the recorded process was killed before the run's end."""
    decisions: int
    """How many were the same as in the record."""
    divergence: Divergence | None
    difference: EventDifference | None = None
    """The first event that differs, also where the decisions are the same: an answer of a live tool, for instance."""
    saved_chunks: tuple[AnyChunk, ...] = ()
    """What the record holds of responses after they were cut (made with `drain`)."""


class ReplayReport(Struct, frozen=True, kw_only=True):
    """A replay of a whole record."""

    path: str
    runs: tuple[ReplayedRun, ...]
    damaged: tuple[int, ...] = ()
    """Lines of the record that could not be read."""
    missing: tuple[str, ...] = ()
    """Attachments of the record that are not there."""

    @property
    def same(self) -> bool:
        """Whether every decision and every outcome was the same."""
        return all(run.divergence is None for run in self.runs)


async def replay(
    path: str | os.PathLike[str] | SessionRecord,
    *,
    pace: bool = False,
    tools: Sequence[Tool] = (),
    live_tools: bool = False,
    rules: Sequence[Rule] = (),
    watcher: Watcher | None = None,
    watch_from: EventAddress | None = None,
) -> ReplayReport:
    """Play a record again. Raises WrongUse if it is none, or if a live tool that it calls is missing.

    path: of the record, or the record as it was read.
    pace: wait as long as the record did.
    tools: with `live_tools`, what is really run instead of answered from the record.
    rules: a user's own rules and guards that the recorded policies name.
    watcher: is shown each event.
    watch_from: the event from which on it is watched and paced; all before is played at full speed.
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
        )
    ]
    return ReplayReport(
        path=record.path, runs=tuple(runs), damaged=tuple(record.damaged), missing=tuple(record.missing)
    )


async def replay_runs(
    record: SessionRecord,
    *,
    pace: bool = False,
    tools: Sequence[Tool] = (),
    live_tools: bool = False,
    rules: Sequence[Rule] = (),
    watcher: Watcher | None = None,
    watch_from: EventAddress | None = None,
) -> AsyncIterator[ReplayedRun]:
    """Like `replay`, one run after another. Each goes on from the recorded runs before it, not from the replayed."""
    if tools and not live_tools:
        raise WrongUse(
            "tools are given, and a replay answers calls from the record: add live_tools=True to run them, "
            "or leave tools out"
        )
    past: Session | None = None
    for number, recorded in enumerate(record.runs):
        looked_at = watcher if watch_from is None or number >= watch_from.run else None
        seq = watch_from.seq if watch_from is not None and number == watch_from.run else 0
        follower = _Follower(recorded, looked_at, pace and (watch_from is None or number >= watch_from.run), seq)
        player = Player(recorded, follower, live=tools if live_tools else None, rules=rules)
        past = past or player.engine.session(record.header.session_id)
        session = player.engine.session(record.header.session_id)
        session.go_on_from(past)
        session.cut_off = _cut_off(recorded)
        yield await follower.follow(recorded, player.start(session))
        past.recall([recorded])


def _cut_off(recorded: RecordedRun) -> dict[int, CutOff]:
    """What the record knows of what came after its cuts, by step."""
    chunks: dict[int, list[AnyChunk]] = {}
    for rest in recorded.after_cut:
        chunks.setdefault(step_of_attempt(rest.attempt), []).append(rest.chunk)
    known = {step: summarize_drained(rest) for step, rest in chunks.items()}
    for event in recorded.events:
        if isinstance(event, ResponseFinished) and event.cut_at is not None:
            if event.cut_at_end or event.raw_finish:
                known[event.step] = CutOff()  # a replay cuts at the call itself, before the finish
            elif event.after_cut is not None:
                known[event.step] = event.after_cut
    return known


class _Follower:
    """Reads the events of one run as they come: compares them with the record, and shows them to the watcher."""

    def __init__(self, recorded: RecordedRun, watcher: Watcher | None, pace: bool, seq: int) -> None:
        self._recorded = recorded
        self._watcher = watcher
        self._pace = pace
        self._awaited = PositionWatch(recorded, seq) if seq > 1 else None
        self._passed: list[Event] = []
        self._seen = 0
        self._looked = asyncio.Event()
        self._run: Run | None = None

    @property
    def paced(self) -> bool:
        """Whether to wait as long as the record did."""
        return self._pace and self._awaited is None

    @property
    def close(self) -> bool:
        """Whether the event from which on it is watched may be the next."""
        return self._awaited is not None and self._awaited.near

    async def catch_up(self) -> None:
        """Wait until all events so far have been looked at."""
        if self._watcher is None and self._awaited is None:
            return
        assert self._run is not None
        while self._seen < self._run.bus.last:
            self._looked.clear()
            await self._looked.wait()

    async def follow(self, recorded: RecordedRun, run: Run) -> ReplayedRun:
        """Follow a run to its end."""
        self._run = run
        comparison = ReplayComparison(recorded)
        async with run:
            if self._awaited is None and self._watcher is not None:
                self._watcher.begin(recorded, run, ())
            async for event in run:
                assert not isinstance(event, Lagged), "the engine of a replay keeps all events"
                divergence = comparison.feed(event)
                watcher = self._arrived(event, run)
                if watcher is not None:
                    await watcher.show(event, run)
                    if divergence is not None:
                        watcher.diverge(divergence)
                self._seen = event.seq
                self._looked.set()
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

    def _arrived(self, event: Event, run: Run) -> Watcher | None:
        """The watcher, if it is to see this event."""
        if self._awaited is not None:
            if not self._awaited.reached_by(event):
                if self._watcher is not None:
                    self._passed.append(event)
                return None
            self._awaited = None
            if self._watcher is not None:
                self._watcher.begin(self._recorded, run, self._passed)
        return self._watcher
