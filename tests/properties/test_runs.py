"""What holds for every run, whatever the model does and whatever the policy says."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import anyio.lowlevel
import msgspec
from endstop import Lagged, read_record
from endstop.decision import Event, Facts, Outcome, Policy, StepJudge, fold
from endstop.decision import events as ev
from endstop.replay import replay
from endstop.testing import check_transcript
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from .scripts import EXTENDED, FAULTS, POLICIES, SCRIPTS, World


class Played(NamedTuple):
    """One run, what it told, and what was recorded of it."""

    policy: Policy
    events: list[Any]
    run: Any
    session: Any
    record: Path

    @property
    def outcome(self) -> Outcome:
        outcome: Outcome = self.run.outcome
        return outcome

    @property
    def accepted(self) -> list[ev.CompletionAccepted]:
        return [event for event in self.events if isinstance(event, ev.CompletionAccepted)]


def drive(world: World, **options: Any) -> tuple[list[Any], Any, Any]:
    """Events, outcome and session of one run."""

    async def main() -> tuple[list[Any], Any, Any]:
        session = world.engine.session(**options)
        async with session.start("go") as run:
            events = [event async for event in run]
        return events, run, session

    return asyncio.run(main())


@given(SCRIPTS, POLICIES, FAULTS, st.randoms(use_true_random=False))
def test_what_holds_for_every_run(script: Any, policy: Policy, faults: Any, random: Any) -> None:
    """All that is said of one run is checked on the same runs: to play one costs most of the time."""
    with tempfile.TemporaryDirectory() as folder:
        record = Path(folder) / "r.jsonl"
        played = Played(policy, *drive(World(script, policy, faults), record=record), record)
        every_call_id_has_exactly_one_result_in_the_transcript(played)
        there_is_one_terminal_event_and_it_is_the_last(played)
        it_ends_within_its_limit_and_its_trace_explains_why(played)
        completed_means_an_accepted_completion_and_the_other_way_round(played)
        no_tool_starts_after_an_accepted_completion(played)
        the_fold_over_the_record_equals_the_facts_of_the_live_run(played)
        the_order_in_which_parallel_calls_end_changes_no_fact(played, random)
        a_record_of_before_that_says_of_no_step_what_it_brought_is_judged_the_same(played)
        a_replay_of_the_record_decides_the_same(played)


@settings(max_examples=60, deadline=None)
@given(SCRIPTS, EXTENDED, FAULTS, st.randoms(use_true_random=False))
def test_it_holds_for_runs_that_are_granted_steps_or_ask_for_them(
    script: Any, policy: Policy, faults: Any, random: Any
) -> None:
    test_what_holds_for_every_run.hypothesis.inner_test(script, policy, faults, random)  # type: ignore[attr-defined]


def every_call_id_has_exactly_one_result_in_the_transcript(played: Played) -> None:
    check_transcript(played.session.transcript.messages, [question.call_id for question in played.outcome.questions])


def there_is_one_terminal_event_and_it_is_the_last(played: Played) -> None:
    events = played.events
    terminal = [number for number, event in enumerate(events) if isinstance(event, ev.RunFinished)]
    assert terminal == [len(events) - 1]
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert events[-1].outcome == played.outcome


def it_ends_within_its_limit_and_its_trace_explains_why(played: Played) -> None:
    outcome, policy = played.outcome, played.policy
    assert outcome.steps <= policy.limits.most_steps
    assert outcome.rounds <= (policy.limits.rounds or outcome.rounds)
    assert outcome.requests <= outcome.steps + policy.closing, "the closing step is one request more"
    if outcome.stop_reason.endswith("_limit"):
        assert outcome.status == "exhausted"
        assert any(use.used >= use.allowed for use in outcome.limits.values())
    assert outcome.stop_reason != "internal_error", outcome.detail
    last = [event for event in played.events if isinstance(event, ev.DecisionMade)][-1].decision
    assert last.trace[-1].said == str(last)
    assert outcome.stop_reason == getattr(last, "reason", "awaiting_input")


def completed_means_an_accepted_completion_and_the_other_way_round(played: Played) -> None:
    assert len(played.accepted) <= 1
    assert (played.outcome.stop_reason == "completed") == bool(played.accepted), "no limit overrules a completion"
    if played.accepted:
        assert played.outcome.answer == played.accepted[0].answer


def no_tool_starts_after_an_accepted_completion(played: Played) -> None:
    accepted = next((event.seq for event in played.accepted), None)
    if accepted is not None and played.policy.mixed != "all":  # which asks for just that
        late = [
            e for e in played.events if e.seq > accepted and isinstance(e, ev.ToolExecutionStarted | ev.StepStarted)
        ]
        assert not late


def the_fold_over_the_record_equals_the_facts_of_the_live_run(played: Played) -> None:
    (recorded,) = read_record(played.record).runs
    facts = Facts()
    for event in recorded.events:
        facts = fold(facts, event)
    assert facts == played.run.facts
    assert recorded.events == msgspec.json.decode(msgspec.json.encode(played.events), type=list[Event])


def the_order_in_which_parallel_calls_end_changes_no_fact(played: Played, random: Any) -> None:
    events = played.events
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
            shuffled[number] = replace(event, judged=None)
    facts, judge = Facts(), StepJudge()
    for event in shuffled:
        facts = fold(facts, judge.feed(facts, event))
    assert facts == played.run.facts


def a_record_of_before_that_says_of_no_step_what_it_brought_is_judged_the_same(played: Played) -> None:
    ends = [event for event in played.events if isinstance(event, ev.StepFinished)]
    assert all(event.judged is not None for event in ends)
    facts, judge = Facts(), StepJudge()
    for event in played.events:
        older = replace(event, judged=None) if isinstance(event, ev.StepFinished) else event
        judged = judge.feed(facts, older)
        assert judged == event
        facts = fold(facts, judged)


def a_replay_of_the_record_decides_the_same(played: Played) -> None:
    report = asyncio.run(replay(str(played.record)))
    assert report.same, [run.divergence for run in report.runs]
    assert [run.difference for run in report.runs if run.difference is not None] == []


@given(SCRIPTS, POLICIES, st.sampled_from(["raises", "never returns", "lags"]))
def test_a_subscriber_that_lags_raises_or_never_reads_changes_nothing(script: Any, policy: Policy, how: str) -> None:
    async def trouble(event: Event | Lagged, run: Any) -> None:
        if how == "raises":
            raise RuntimeError("subscriber")
        for _ in range(100 if how == "lags" else 0):
            await anyio.lowlevel.checkpoint()
        if how == "never returns":
            await asyncio.get_running_loop().create_future()

    import endstop.subscribers as module

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
    assert terminal[0].outcome.steps <= policy.limits.most_steps
    assert terminal[0].outcome.stop_reason != "internal_error", terminal[0].outcome.detail
    check_transcript(session.transcript.messages, [question.call_id for question in session.questions])
    answered_calls = [e.call_id for e in recorded.events if isinstance(e, ev.CompletionAccepted)]
    assert (terminal[0].outcome.stop_reason == "completed") == bool(answered_calls)
    assert report.same, [run.divergence for run in report.runs]
    assert [run.difference for run in report.runs if run.difference is not None] == []


@settings(max_examples=40, deadline=None)
@given(SCRIPTS, EXTENDED, st.floats(0, 1))
def test_a_run_that_is_killed_is_granted_its_steps_once(script: Any, policy: Policy, place: float) -> None:
    test_a_run_that_is_killed_anywhere_goes_on_to_one_end.hypothesis.inner_test(script, policy, place)  # type: ignore[attr-defined]


async def _resumed(world: World, path: Path) -> Any:
    record = read_record(path)
    session = world.engine.session(record.header.session_id, record=path)
    session.load(record.runs)
    async with session.start_resumed() as run:
        await run.wait()
    return session
