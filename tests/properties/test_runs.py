"""What holds for every run, whatever the model does and whatever the policy says."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

import anyio.lowlevel
import msgspec
from endstop import Lagged, read_record
from endstop.decision import Event, Facts, Policy, fold
from endstop.decision import events as ev
from endstop.replay import replay
from endstop.testing import check_transcript
from hypothesis import given, settings
from hypothesis import strategies as st

from .scripts import FAULTS, POLICIES, SCRIPTS, World

examples = settings(max_examples=150, deadline=None)


def drive(world: World, **options: Any) -> tuple[list[Any], Any, Any]:
    """Events, outcome and session of one run."""

    async def main() -> tuple[list[Any], Any, Any]:
        session = world.engine.session(**options)
        async with session.start("go") as run:
            events = [event async for event in run]
        return events, run, session

    return asyncio.run(main())


@examples
@given(SCRIPTS, POLICIES, FAULTS)
def test_every_call_id_has_exactly_one_result_in_every_transcript(script: Any, policy: Policy, faults: Any) -> None:
    _, run, session = drive(World(script, policy, faults))
    check_transcript(session.transcript.messages, [question.call_id for question in run.outcome.questions])


@examples
@given(SCRIPTS, POLICIES, FAULTS)
def test_there_is_one_terminal_event_and_it_is_the_last(script: Any, policy: Policy, faults: Any) -> None:
    events, run, _ = drive(World(script, policy, faults))
    terminal = [number for number, event in enumerate(events) if isinstance(event, ev.RunFinished)]
    assert terminal == [len(events) - 1]
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert events[-1].outcome == run.outcome


@examples
@given(SCRIPTS, POLICIES, FAULTS)
def test_a_run_ends_within_its_limit_and_its_trace_explains_why(script: Any, policy: Policy, faults: Any) -> None:
    events, run, _ = drive(World(script, policy, faults))
    outcome = run.outcome
    assert outcome.steps <= policy.limits.hard_steps
    assert outcome.rounds <= (policy.limits.rounds or outcome.rounds)
    assert outcome.requests <= outcome.steps + policy.closing, "the closing step is one request more"
    if outcome.stop_reason.endswith("_limit"):
        assert outcome.status == "exhausted"
        assert any(use.used >= use.allowed for use in outcome.limits.values())
    assert outcome.stop_reason != "internal_error", outcome.detail
    last = [event for event in events if isinstance(event, ev.DecisionMade)][-1].decision
    assert last.trace[-1].said == str(last)
    assert outcome.stop_reason == getattr(last, "reason", "awaiting_input")


@examples
@given(SCRIPTS, POLICIES, FAULTS)
def test_completed_means_an_accepted_completion_and_the_other_way_round(
    script: Any, policy: Policy, faults: Any
) -> None:
    events, run, _ = drive(World(script, policy, faults))
    accepted = [event for event in events if isinstance(event, ev.CompletionAccepted)]
    assert len(accepted) <= 1
    assert (run.outcome.stop_reason == "completed") == bool(accepted), "no limit overrules a completion"
    if accepted:
        assert run.outcome.answer == accepted[0].answer


@examples
@given(SCRIPTS, POLICIES, FAULTS)
def test_no_tool_starts_after_an_accepted_completion(script: Any, policy: Policy, faults: Any) -> None:
    events, _, _ = drive(World(script, policy, faults))
    accepted = next((e.seq for e in events if isinstance(e, ev.CompletionAccepted)), None)
    if accepted is not None and policy.mixed != "all":  # which asks for just that
        assert not [e for e in events if e.seq > accepted and isinstance(e, ev.ToolExecutionStarted | ev.StepStarted)]


@examples
@given(SCRIPTS, POLICIES, FAULTS)
def test_the_fold_over_the_record_equals_the_facts_of_the_live_run(script: Any, policy: Policy, faults: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "r.jsonl"
        events, run, _ = drive(World(script, policy, faults), record=path)
        (recorded,) = read_record(path).runs
    facts = Facts()
    for event in recorded.events:
        facts = fold(facts, event)
    assert facts == run.facts
    assert recorded.events == msgspec.json.decode(msgspec.json.encode(events), type=list[Event])


@settings(max_examples=80, deadline=None)
@given(SCRIPTS, POLICIES, FAULTS)
def test_a_replay_of_the_record_decides_the_same(script: Any, policy: Policy, faults: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "r.jsonl"
        drive(World(script, policy, faults), record=path)
        report = asyncio.run(replay(str(path)))
    assert report.same, [run.divergence for run in report.runs]
    assert [run.difference for run in report.runs if run.difference is not None] == []


@examples
@given(SCRIPTS, POLICIES, st.sampled_from(["raises", "never returns", "lags"]))
def test_a_subscriber_that_lags_raises_or_never_reads_changes_nothing(script: Any, policy: Policy, how: str) -> None:
    async def trouble(event: Event | Lagged, run: Any) -> None:
        if how == "raises":
            raise RuntimeError("subscriber")
        for _ in range(100 if how == "lags" else 0):
            await anyio.lowlevel.checkpoint()
        if how == "never returns":
            await asyncio.get_running_loop().create_future()

    import endstop.run as module

    alone, _, _ = drive(World(script, policy))
    patience, module.CATCH_UP_SECONDS = module.CATCH_UP_SECONDS, 0.0
    try:
        watched, _, _ = drive(World(script, policy, subscribers=[trouble], buffer=3))
    finally:
        module.CATCH_UP_SECONDS = patience
    seen = [event for event in watched if not isinstance(event, Lagged)]
    assert _comparable(alone[-1]) == _comparable(seen[-1])


def _comparable(event: ev.RunFinished) -> Any:
    return msgspec.structs.replace(event.outcome, run_id="", session_id="", duration_ms=0, questions=())


@examples
@given(SCRIPTS, POLICIES, st.randoms(use_true_random=False))
def test_the_order_in_which_parallel_calls_end_changes_no_fact(script: Any, policy: Policy, random: Any) -> None:
    events, run, _ = drive(World(script, policy))
    shuffled = list(events)
    begin = 0
    for number, event in enumerate(events):
        if isinstance(event, ev.StepStarted):
            begin = number
        if isinstance(event, ev.StepFinished):
            places = [i for i in range(begin, number) if isinstance(events[i], ev.ToolCallResult)]
            mixed = random.sample(places, len(places))
            for place, source in zip(places, mixed, strict=True):
                shuffled[place] = events[source]
    facts = Facts()
    for event in shuffled:
        facts = fold(facts, event)
    assert facts == run.facts


@settings(max_examples=80, deadline=None)
@given(SCRIPTS, POLICIES, st.floats(0, 1))
def test_a_run_that_is_killed_anywhere_goes_on_to_one_end(script: Any, policy: Policy, place: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "r.jsonl"
        drive(World(script, policy), record=path)
        lines = path.read_bytes().splitlines(keepends=True)
        kept = 2 + int(place * (len(lines) - 3))
        path.write_bytes(b"".join(lines[:kept]))
        answered = sum(b'"RESPONSE_FINISHED"' in line or b'"ATTEMPT_FAILED"' in line for line in lines[:kept])
        session = asyncio.run(_resumed(World(script[answered:], policy), path))
        (recorded,) = read_record(path).runs
        report = asyncio.run(replay(str(path)))
    terminal = [event for event in recorded.events if isinstance(event, ev.RunFinished)]
    assert terminal == recorded.events[-1:]
    assert terminal[0].outcome.steps <= policy.limits.hard_steps
    assert terminal[0].outcome.stop_reason != "internal_error", terminal[0].outcome.detail
    check_transcript(session.transcript.messages, [question.call_id for question in session.questions])
    answered_calls = [e.call_id for e in recorded.events if isinstance(e, ev.CompletionAccepted)]
    assert (terminal[0].outcome.stop_reason == "completed") == bool(answered_calls)
    assert report.same, [run.divergence for run in report.runs]
    assert [run.difference for run in report.runs if run.difference is not None] == []


async def _resumed(world: World, path: Path) -> Any:
    record = read_record(path)
    session = world.engine.session(record.header.session_id, record=path)
    session.load(record.runs)
    async with session.start_resumed() as run:
        await run.wait()
    return session
