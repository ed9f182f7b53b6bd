"""What holds for a fork at any decision of any run."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

from endstop import Session, read_record
from endstop.analysis.policy_simulation import backtest
from endstop.analysis.summary import ResourceUse
from endstop.decision import Facts, Policy, Stop, fold
from endstop.decision import events as ev
from endstop.providers import Request
from endstop.replay import replay
from endstop.testing import check_transcript
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from ..record_lines import lines_before
from .scripts import POLICIES, SCRIPTS, World


def world(script: Any, policy: Policy) -> World:
    """An engine whose model gives the n-th response of the script in the n-th step, whoever asks."""

    def response(request: Request) -> Any:
        step = int(request.attempt.partition(".")[0])
        return script[step - 1] if step <= len(script) else "The end."

    return World([response], policy)


def drive(session: Session, *, fork: bool) -> Any:
    """The outcome."""

    async def main() -> Any:
        async with session.start_fork() if fork else session.start("go") as run:
            return await run.wait()

    return asyncio.run(main())


def decisions(path: Path) -> list[Any]:
    """The decisions of a run, without traces, which hold times."""
    made = [event for event in read_record(path).runs[0].events if isinstance(event, ev.DecisionMade)]
    return [(event.round, replace(event.decision, trace=())) for event in made]


def counted(path: Path, policy: Policy) -> tuple[ResourceUse, str]:
    """What the run itself used, without what it copied and without time, and how its own policy compares with it."""
    (result,) = backtest(read_record(path).runs[0].events, [policy])
    return replace(result.digest.used, ms=0), result.findings[0].parting


def used_after(events: list[ev.Event], seq: int) -> ResourceUse:
    """What a run used after this event, without time."""
    at, end = Facts(), Facts()
    for event in events:
        at, end = (fold(at, event) if event.seq < seq else at), fold(end, event)
    return replace(ResourceUse.of(end).since(ResourceUse.of(at)), ms=0)


def check_killed(script: Any, policy: Policy, path: Path, at: int, place: float, expected: Any) -> None:
    """Kill the fork after one of its own events, or right before the first, and let the next process take it up."""
    lines, cut = path.read_bytes().splitlines(keepends=True), path.with_suffix(".cut")
    copied = len(lines_before(path, at))
    cut.write_bytes(b"".join(lines[: copied + int(place * (len(lines) - 1 - copied))]))
    record = read_record(cut)
    session = world(script, policy).engine.session(record.header.session_id, record=cut)
    session.load(record.runs)

    async def main() -> Any:
        async with session.start_resumed() as run:
            return await run.wait()

    outcome = asyncio.run(main())
    check_transcript(session.transcript.messages, [question.call_id for question in session.questions])
    if not any(getattr(message, "status", "") == "unknown" for message in session.transcript.messages):
        known = ("status", "stop_reason", "answer", "steps", "rounds", "run_id", "session_id")
        assert [getattr(outcome, name) for name in known] == [getattr(expected, name) for name in known], (at, place)
    report = asyncio.run(replay(cut))
    assert report.same, (at, place, [run.divergence for run in report.runs])


@settings(max_examples=60)
@given(script=SCRIPTS, policy=POLICIES, place=st.floats(0, 1))
def test_a_fork_without_a_change_ends_like_its_origin_and_replays_the_same(
    script: Any, policy: Policy, place: float
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        origin = Path(folder) / "origin.jsonl"
        expected = drive(world(script, policy).engine.session(record=origin), fork=False)
        events = read_record(origin).runs[0].events
        for made in events:
            if not isinstance(made, ev.DecisionMade):
                continue
            if isinstance(made.decision, Stop) and made.decision.reason == "internal_error":
                continue
            path = Path(folder) / f"{made.seq}.jsonl"
            forked = world(script, policy).engine.session(record=origin).fork(at=made.seq, record=path)
            outcome = drive(forked, fork=True)
            same = replace(outcome, run_id="", session_id="", duration_ms=0, limits={})
            assert same == replace(expected, run_id="", session_id="", duration_ms=0, limits={}), made.seq
            assert decisions(path) == decisions(origin), made.seq
            check_transcript(forked.transcript.messages, [question.call_id for question in forked.questions])
            check_killed(script, policy, path, made.seq, place, outcome)
            report = asyncio.run(replay(path))
            assert report.same, (made.seq, [run.divergence for run in report.runs])
            assert [run.difference for run in report.runs if run.difference is not None] == [], made.seq
            assert counted(path, policy) == (used_after(events, made.seq), counted(origin, policy)[1]), made.seq
