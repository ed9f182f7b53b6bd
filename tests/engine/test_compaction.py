"""Compaction: the context is made smaller, what matters stays, and one that does not help ends the run."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import anyio
import pytest
from endstop import Engine, Runtime, Tool, read_record
from endstop.decision import (
    AssistantMessage,
    Compaction,
    Limits,
    Patience,
    Policy,
    SystemMessage,
    ToolResult,
    Usage,
    UsageReport,
    UserMessage,
)
from endstop.decision import events as ev
from endstop.providers import ContextOverflow, Request, Scripted, call
from endstop.replay import replay
from endstop.session import Session
from endstop.testing import FakeClock, check_transcript
from endstop.tools import ask_user, finish_task

BIG = "x" * 4000
"""A result of about 1000 tokens."""


async def fetch(n: int) -> str:
    return f"{n} {BIG}"


FETCH = Tool(fetch, description="Fetch.")


def measured(request: Request) -> int:
    """Tokens of a request, as a model's own count would say."""
    return sum(len(str(message)) for message in request.messages) // 4


class Model:
    """Fetches so many times and then finishes; reports how large its context was; refuses a larger one."""

    def __init__(self, fetches: int, largest: int | None = None) -> None:
        self.sizes: list[int] = []
        self.asides = 0
        self._fetches, self._largest, self._done = fetches, largest, 0

    def __call__(self, request: Request) -> Any:
        if request.attempt == "aside":
            self.asides += 1
            return "They fetched a few things."
        self.sizes.append(measured(request))
        if self._largest is not None and self.sizes[-1] > self._largest:
            return ContextOverflow("maximum context length exceeded")
        usage = UsageReport(Usage(input_tokens=self.sizes[-1], output_tokens=10))
        self._done += 1
        if self._done > self._fetches:
            return [call("finish_task", summary="all fetched"), usage]
        return [call("fetch", n=self._done), usage]


def policy(*strategies: Any, window: int | None = 5000, **more: Any) -> Policy:
    settings = Compaction(window=window, strategies=strategies, keep_results=1, keep_messages=3)
    return Policy(compaction=settings, limits=Limits(steps=40), **more)


async def drive(model: Any, given: Policy, path: Path, **options: Any) -> tuple[list[Any], Any, Session]:
    session = Engine(Scripted(model), tools=[FETCH], policy=given, **options).session(record=path)
    async with session.start("Fetch all of it") as run:
        events = [event async for event in run]
    check_transcript(session.transcript.messages)
    report = await replay(str(path))
    assert report.same, report.runs[0].divergence
    return events, run.outcome, session


@pytest.mark.parametrize("strategy", ["shorten_results", "drop_oldest", "summarise"])
async def test_each_strategy_keeps_a_long_run_below_its_window(strategy: str, tmp_path: Path) -> None:
    model = Model(fetches=20)
    events, outcome, session = await drive(model, policy(strategy), tmp_path / "r.jsonl")
    assert (outcome.stop_reason, outcome.answer, outcome.steps) == ("completed", "all fetched", 21)
    compacted = [e for e in events if isinstance(e, ev.ContextCompacted)]
    assert compacted
    assert {e.strategy for e in compacted} == {strategy}
    assert max(model.sizes) < 6500
    assert all(e.after_tokens < e.before_tokens for e in compacted)
    messages = session.transcript.messages
    assert isinstance(messages[0], SystemMessage), "the system prompt stays"
    assert UserMessage("Fetch all of it") in messages, "what the user said last stays"
    assert model.asides == (len(compacted) if strategy == "summarise" else 0)


async def test_a_finished_run_is_not_compacted_and_the_sessions_next_run_is_before_its_request(tmp_path: Path) -> None:
    def respond(request: Request) -> Any:
        sizes.append(measured(request))
        if len(sizes) < 6:
            return [call("fetch", n=len(sizes))]
        return ["Answer.", UsageReport(Usage(input_tokens=sizes[-1], output_tokens=5))]

    sizes: list[int] = []
    session = Engine(Scripted(respond), tools=[FETCH], policy=policy("shorten_results")).session(
        record=tmp_path / "r.jsonl"
    )
    first = await session.run("Fetch")
    assert first.stop_reason == "text_final"
    before = read_record(tmp_path / "r.jsonl").runs[0].events
    assert not [e for e in before if isinstance(e, ev.ContextCompacted)]
    await session.run("And now?")
    events = [type(e).__name__ for e in read_record(tmp_path / "r.jsonl").runs[1].events]
    assert events.index("ContextCompacted") < events.index("StepStarted")
    assert sizes[-1] < sizes[-2]
    assert (await replay(str(tmp_path / "r.jsonl"))).same


async def test_the_users_prompt_survives_although_nudges_came_after_it(tmp_path: Path) -> None:
    def respond(request: Request) -> Any:
        steps.append(1)
        usage = UsageReport(Usage(input_tokens=6000 if len(steps) > 5 else 10, output_tokens=1))
        return [f"talk {len(steps)} {'y' * 900}" if len(steps) % 2 else call("fetch", n=len(steps)), usage]

    steps: list[int] = []
    compaction = policy("drop_oldest").compaction
    given = Policy(compaction=compaction, text="nudge", limits=Limits(steps=12), patience=Patience(compactions=9))
    _, _, session = await drive(respond, given, tmp_path / "r.jsonl")
    assert UserMessage("Fetch all of it") in session.transcript.messages


async def test_a_compaction_that_does_not_help_ends_the_run_with_the_numbers(tmp_path: Path) -> None:
    model = Model(fetches=99)
    given = policy("shorten_results", "drop_oldest", window=100)
    events, outcome, _ = await drive(model, given, tmp_path / "r.jsonl")
    assert (outcome.status, outcome.stop_reason) == ("exhausted", "compaction_stalled")
    assert "2 compactions in a row did not help" in outcome.detail
    assert "window of 100" in outcome.detail
    assert len([e for e in events if isinstance(e, ev.ContextCompacted) and e.in_vain]) == 2


async def test_a_second_strategy_is_tried_only_where_the_first_is_not_enough(tmp_path: Path) -> None:
    model = Model(fetches=12)
    given = policy("shorten_results", "drop_oldest", window=1700)
    events, outcome, _ = await drive(model, given, tmp_path / "r.jsonl")
    assert outcome.stop_reason == "completed"
    compacted = [e for e in events if isinstance(e, ev.ContextCompacted)]
    assert {e.strategy for e in compacted} == {"shorten_results", "drop_oldest"}
    for first, second in pairwise(compacted):
        if second.strategy == "drop_oldest" and not second.in_vain and first.strategy == "shorten_results":
            assert first.not_enough


async def test_a_context_overflow_of_the_provider_compacts_once_and_retries_the_step(tmp_path: Path) -> None:
    model = Model(fetches=8, largest=5000)
    events, outcome, _ = await drive(model, policy("shorten_results", window=None), tmp_path / "r.jsonl")
    assert (outcome.stop_reason, outcome.answer) == ("completed", "all fetched")
    overflows = [e for e in events if isinstance(e, ev.AttemptFailed)]
    assert overflows
    assert len([e for e in events if isinstance(e, ev.ContextCompacted)]) == len(overflows)


async def test_a_context_that_overflows_again_after_that_ends_as_the_providers_error(tmp_path: Path) -> None:
    model = Model(fetches=8, largest=0)
    _, outcome, _ = await drive(model, policy("shorten_results", window=None), tmp_path / "r.jsonl")
    assert (outcome.status, outcome.stop_reason) == ("failed", "provider_error")
    assert "context_overflow" in outcome.detail
    assert len(model.sizes) == 2, "once more, and no third time"


async def test_an_overflow_at_the_first_request_of_a_long_session_is_compacted_by_a_rough_count(tmp_path: Path) -> None:
    class Strict(Model):
        def __call__(self, request: Request) -> Any:
            if measured(request) > 3000 and len(self.sizes) >= 5:
                self.sizes.append(0)
                return ContextOverflow("too long")
            self.sizes.append(measured(request))
            return [call("fetch", n=len(self.sizes))] if len(self.sizes) < 5 else "Done."

    path = tmp_path / "r.jsonl"
    engine = Engine(Scripted(Strict(0)), tools=[FETCH], policy=policy("shorten_results", window=None))
    session = engine.session(record=path)
    await session.run("one")
    assert (await session.run("two")).answer == "Done."
    (compacted,) = [e for e in read_record(path).runs[1].events if isinstance(e, ev.ContextCompacted)]
    assert not compacted.in_vain
    assert (await replay(str(path))).same


async def test_a_summary_that_hangs_or_fails_is_a_recorded_verdict_and_the_next_strategy_is_tried() -> None:
    clock = FakeClock()
    model = Model(fetches=6)

    def respond(request: Request) -> Any:
        return [anyio.Event()] if request.attempt == "aside" else model(request)

    given = policy("summarise", "drop_oldest")
    async with Engine(Scripted(respond), tools=[FETCH], policy=given, runtime=Runtime(clock=clock)).start("go") as run:
        for _ in range(6):
            await clock.advance(121)
        outcome = await run.wait()
        events = [event async for event in run]
    assert outcome.stop_reason == "completed"
    verdicts = [e for e in events if isinstance(e, ev.VerdictGiven)]
    assert verdicts
    assert all(v.role == "compactor" and v.said == "failed" for v in verdicts)
    assert {e.strategy for e in events if isinstance(e, ev.ContextCompacted)} == {"drop_oldest"}


async def test_what_a_summary_costs_is_counted_and_the_summary_replaces_what_it_sums_up(tmp_path: Path) -> None:
    model = Model(fetches=5)
    events, outcome, session = await drive(model, policy("summarise"), tmp_path / "r.jsonl")
    steps = sum(e.usage.output_tokens for e in events if isinstance(e, ev.ResponseFinished))
    asides = [e.usage.output_tokens for e in events if isinstance(e, ev.VerdictGiven) and e.usage]
    assert asides
    assert outcome.usage.output_tokens == steps + sum(asides)
    assert any("They fetched a few things." in str(m) for m in session.transcript.messages)


async def test_compaction_cannot_hide_a_completion_and_never_parts_a_call_from_its_result(tmp_path: Path) -> None:
    def respond(request: Request) -> Any:
        sizes.append(1)
        usage = UsageReport(Usage(input_tokens=100_000, output_tokens=1))
        if len(sizes) == 9:
            return [call("finish_task", summary="done"), usage]
        return [call("fetch", n=len(sizes)), call("fetch", n=-len(sizes)), usage]

    sizes: list[int] = []
    given = policy("drop_oldest", patience=Patience(compactions=99))
    events, outcome, session = await drive(respond, given, tmp_path / "r.jsonl")
    assert outcome.stop_reason == "completed"
    last = [e for e in events if isinstance(e, ev.DecisionMade)][-1]
    assert not [e for e in events if e.seq > last.seq and isinstance(e, ev.ContextCompacted)]
    kept = [m for m in session.transcript.messages if isinstance(m, AssistantMessage | ToolResult)]
    assert isinstance(kept[0], AssistantMessage)


async def test_an_open_question_survives_a_context_that_is_too_large(tmp_path: Path) -> None:
    big = UsageReport(Usage(input_tokens=100_000, output_tokens=1))
    provider = Scripted([call("ask_user", question="?", id="q"), big], [call("finish_task", summary="done")])
    session = Engine(provider, policy=policy("drop_oldest"), presets=[finish_task, ask_user]).session(
        record=tmp_path / "r.jsonl"
    )
    assert (await session.run("go")).status == "awaiting_input"
    assert (await session.answer("q", "yes")).answer == "done"
    check_transcript(session.transcript.messages)
    assert (await replay(str(tmp_path / "r.jsonl"))).same
