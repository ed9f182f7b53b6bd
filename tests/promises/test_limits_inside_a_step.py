"""Row B2: hard limits on seconds, tokens and cost hold inside a response and inside a tool call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from endstop import Budget, Engine, Hooks, Runtime, Tool
from endstop.decision import (
    AnyChunk,
    FinishReport,
    Limits,
    Outcome,
    Policy,
    Price,
    ReasoningDelta,
    SessionLimits,
    TextDelta,
    ToolCallDelta,
    ToolResult,
    Usage,
    UsageReport,
)
from endstop.decision import events as ev
from endstop.decision.policy import Degeneration
from endstop.hooks import Accept, Progress, Verdict
from endstop.providers import (
    Fallback,
    OpenAICompatible,
    Prices,
    ProviderError,
    RateLimit,
    RateLimited,
    Request,
    Retry,
    Scripted,
    Unavailable,
    call,
    say,
)
from endstop.replay import replay
from endstop.run import Run
from endstop.testing import FakeClock, MemorySteps, check_transcript
from endstop.tools.results import Completion

OFF = Degeneration(text=None, reasoning=None, arguments=None)
WORDS = "word " * 80
"""400 bytes: 100 tokens, estimated."""


class Slow:
    """Plays one script a response: numbers are seconds to wait, texts are said, errors raised."""

    def __init__(self, clock: FakeClock, *scripts: Any, model: str = "slow") -> None:
        self.model = model
        self.clock = clock
        self.asked = 0
        self.open = 0
        self._scripts = list(scripts)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[AnyChunk]]:
        script = self._scripts[min(self.asked, len(self._scripts) - 1)]
        self.asked += 1
        self.open += 1
        played = self._play(script)
        try:
            yield played
        finally:
            await played.aclose()
            self.open -= 1

    async def _play(self, script: Any) -> Any:
        for item in script:
            if isinstance(item, int | float):
                await self.clock.sleep(item)
            elif isinstance(item, ProviderError):
                raise item
            elif isinstance(item, str):
                yield TextDelta(item)
            elif isinstance(item, list):
                for chunk in item:
                    yield chunk
            else:
                yield item
        yield FinishReport("stop", "stop")


async def pass_time(clock: FakeClock, run: Run, seconds: float, step: float = 0.25) -> float:
    """Let so much time pass, or less if the run ends; when it ended."""
    begun = clock.now()
    with anyio.fail_after(60):
        while not run.finished and clock.now() - begun < seconds:
            await clock.advance(step)
    return clock.now() - begun


async def run_of(engine: Engine, clock: FakeClock, path: Path, seconds: float = 30) -> tuple[list[Any], Outcome, float]:
    """The events of a run, its outcome, and when it ended; its record replays, and its transcript is valid."""
    session = engine.session(record=path)
    async with session.start("go") as run:
        ended = await pass_time(clock, run, seconds)
        assert run.finished, "still going"
        events = [event async for event in run]
    check_transcript(session.transcript.messages)
    report = await replay(str(path))
    assert report.same, report.runs[-1].divergence
    assert sum(isinstance(e, ev.LimitReached) for e in events) <= 1
    return events, run.outcome, ended


def limited(**limits: Any) -> Policy:
    return Policy(limits=Limits(**limits), closing=False, reminder=None)


# ---- seconds, inside a response


async def test_B2_a_dripping_stream_ends_at_its_time_limit(tmp_path: Path) -> None:
    clock = FakeClock()
    slow = Slow(clock, [0.5, "x ", *[0.5, "y "] * 60])
    events, outcome, ended = await run_of(
        Engine(slow, policy=limited(seconds=2), runtime=Runtime(clock=clock)), clock, tmp_path / "r.jsonl"
    )
    assert (outcome.status, outcome.stop_reason, outcome.exceeded_limit) == ("exhausted", "time_limit", True)
    assert ended == 2.0
    assert outcome.duration_ms <= 2_100
    assert slow.open == 0, "the connection is closed"
    (response,) = [e for e in events if isinstance(e, ev.ResponseFinished)]
    assert response.message.text.startswith("x y y"), "what had come is kept"
    assert (response.cut_for, response.usage.estimated, outcome.usage.estimated) == ("seconds", True, True)
    assert outcome.usage.output_tokens > 0
    (reached,) = [e for e in events if isinstance(e, ev.LimitReached)]
    assert (reached.limit, reached.used, reached.allowed, reached.attempt, reached.t) == ("seconds", 2, 2, "1.1", 2000)


async def test_B2_a_stalled_stream_ends_at_its_time_limit_with_nothing_said(tmp_path: Path) -> None:
    clock = FakeClock()
    engine = Engine(Slow(clock, [3600]), policy=limited(seconds=1), runtime=Runtime(clock=clock))
    _, outcome, ended = await run_of(engine, clock, tmp_path / "r.jsonl")
    assert (outcome.stop_reason, ended, outcome.answer) == ("time_limit", 1.0, "")
    assert outcome.usage.input_tokens > 0, "the request was sent, and is paid for"


async def test_B2_a_slow_stream_does_not_come_out_as_completed(tmp_path: Path) -> None:
    clock = FakeClock()
    engine = Engine(Slow(clock, [1.5, "Paris."]), policy=limited(seconds=1), runtime=Runtime(clock=clock))
    _, outcome, _ = await run_of(engine, clock, tmp_path / "r.jsonl")
    assert (outcome.status, outcome.stop_reason) == ("exhausted", "time_limit")


async def test_B2_the_time_limit_of_a_session_holds_inside_a_response(tmp_path: Path) -> None:
    clock = FakeClock()
    policy = Policy(session_limits=SessionLimits(seconds=3), closing=False)
    session = Engine(Slow(clock, [2, "Paris."], [2, "Rome."]), policy=policy, runtime=Runtime(clock=clock)).session(
        record=tmp_path / "r.jsonl"
    )
    outcomes = []
    for _ in range(2):
        async with session.start("go") as run:
            await pass_time(clock, run, 10)
            outcomes.append(run.outcome)
    assert [(o.stop_reason, o.duration_ms) for o in outcomes] == [("text_final", 2000), ("time_limit", 1000)]
    assert (await replay(str(tmp_path / "r.jsonl"))).same


async def test_B2_a_stream_that_never_waits_is_ended_too() -> None:
    clock = FakeClock()

    def chunks(request: Request) -> Any:
        for _ in range(100):
            clock._now += 0.1
            yield TextDelta("x ")

    outcome = await Engine(Scripted(chunks), policy=limited(seconds=1), runtime=Runtime(clock=clock)).run("go")
    assert (outcome.stop_reason, outcome.duration_ms) == ("time_limit", 1000)


async def test_B2_a_real_endpoint_that_drips_is_left_at_the_time_limit() -> None:
    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        try:
            while True:
                writer.write(b'data: {"choices":[{"index":0,"delta":{"content":"x "}}]}\n\n')
                await writer.drain()
                await asyncio.sleep(0.02)
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(drip, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    provider = Retry(OpenAICompatible("m", f"http://127.0.0.1:{port}/v1"))
    with anyio.fail_after(60):
        outcome = await Engine(provider, policy=limited(seconds=0.3)).run("go")
    server.close()
    assert (outcome.stop_reason, outcome.requests) == ("time_limit", 1)
    assert outcome.limits["seconds"].used < 10, "a generous bound: without a limit it never ends"


# ---- no retry, no fallback, no wait beyond it


async def test_B2_after_a_limit_cut_nothing_is_retried_and_nobody_else_asked(tmp_path: Path) -> None:
    clock = FakeClock()
    slow, other = Slow(clock, [0.5, *["x "] * 4, 3600]), Scripted("Rome.")
    engine = Engine(Fallback(Retry(slow, clock=clock), other), policy=limited(seconds=2), runtime=Runtime(clock=clock))
    _, outcome, ended = await run_of(engine, clock, tmp_path / "r.jsonl")
    assert (outcome.stop_reason, ended, slow.asked, other.requests) == ("time_limit", 2.0, 1, [])


async def test_B2_the_wait_before_a_retry_ends_at_the_limit(tmp_path: Path) -> None:
    clock = FakeClock()
    slow = Slow(clock, [0.25, "some text", RateLimited("too many", retry_after=30.0)], ["Paris."])
    engine = Engine(Retry(slow, clock=clock), policy=limited(seconds=2), runtime=Runtime(clock=clock))
    events, outcome, ended = await run_of(engine, clock, tmp_path / "r.jsonl", 60)
    assert (outcome.stop_reason, outcome.exceeded_limit, ended, slow.asked) == ("time_limit", True, 2.0, 1)
    assert [e.kind for e in events if isinstance(e, ev.AttemptFailed)] == ["rate_limit"]


async def test_B2_the_wait_for_a_rate_ends_at_the_limit(tmp_path: Path) -> None:
    clock = FakeClock()
    limit = RateLimit(Scripted([call("work")], "Paris."), requests_per_minute=1, clock=clock)
    engine = Engine(limit, tools=[WORK], policy=limited(seconds=2), runtime=Runtime(clock=clock))
    _, outcome, ended = await run_of(engine, clock, tmp_path / "r.jsonl", 90)
    assert (outcome.stop_reason, ended) == ("time_limit", 2.0)


async def test_B2_an_attempt_that_failed_with_the_tokens_used_up_is_not_retried(tmp_path: Path) -> None:
    clock = FakeClock()
    slow = Slow(clock, ["x " * 90, UsageReport(Usage(output_tokens=50)), Unavailable("down")], ["Paris."])
    engine = Engine(Retry(slow, clock=clock), policy=limited(output_tokens=50), runtime=Runtime(clock=clock))
    _, outcome, _ = await run_of(engine, clock, tmp_path / "r.jsonl")
    assert (outcome.stop_reason, outcome.exceeded_limit, slow.asked) == ("token_limit", True, 1)


# ---- tokens and cost, inside a response


@pytest.mark.parametrize(
    ("limits", "reason"), [({"output_tokens": 50}, "token_limit"), ({"cost_usd": 0.05}, "cost_limit")]
)
async def test_B2_a_response_is_cut_where_it_uses_up_tokens_or_money(
    limits: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    clock = FakeClock()
    provider = Slow(clock, ["word " * 4] * 20, model="m")
    prices = Prices({"m": Price(input=0, output=1000)}, listed=False)
    engine = Engine(provider, policy=limited(**limits), prices=prices, runtime=Runtime(clock=clock))
    events, outcome, _ = await run_of(engine, clock, tmp_path / "r.jsonl")
    assert (outcome.status, outcome.stop_reason, outcome.exceeded_limit) == ("exhausted", reason, True)
    assert 50 < outcome.usage.output_tokens <= 55, "at most one chunk above it"
    (reached,) = [e for e in events if isinstance(e, ev.LimitReached)]
    assert (reached.limit, reached.estimated, reached.attempt) == (next(iter(limits)), True, "1.1")
    assert outcome.limits[reached.limit].used == pytest.approx(reached.used)
    (response,) = [e for e in events if isinstance(e, ev.ResponseFinished)]
    assert (response.cut_for, response.usage.estimated) == (reached.limit, True)


async def test_B2_reasoning_and_arguments_count_and_so_does_every_script(tmp_path: Path) -> None:
    clock = FakeClock()
    for number, chunk in enumerate((ReasoningDelta("思" * 40), TextDelta("好" * 40), *call("work", text="x" * 100))):
        policy = limited(output_tokens=20)
        engine = Engine(Slow(clock, [[chunk]] * 9), tools=[WORK], policy=policy, runtime=Runtime(clock=clock))
        _, outcome, _ = await run_of(engine, clock, tmp_path / f"{number}.jsonl")
        assert outcome.stop_reason == "token_limit"
        assert outcome.usage.output_tokens < 60


async def test_B2_what_the_provider_counts_in_mid_stream_is_believed() -> None:
    clock = FakeClock()
    counted = UsageReport(Usage(input_tokens=10, output_tokens=600))
    slow = Slow(clock, ["a", counted, "b", "c"])
    outcome = await Engine(slow, policy=limited(output_tokens=500), runtime=Runtime(clock=clock)).run("go")
    assert (outcome.stop_reason, outcome.usage.output_tokens, outcome.usage.input_tokens) == ("token_limit", 600, 10)


async def test_B2_a_response_that_ends_within_its_limit_is_not_cut() -> None:
    outcome = await Engine(Scripted(say("x" * 200)), policy=limited(output_tokens=50)).run("go")
    assert (outcome.stop_reason, outcome.exceeded_limit) == ("text_final", False)


async def test_B2_responses_side_by_side_stop_once_they_have_used_up_a_shared_budget_together() -> None:
    clock = FakeClock()
    budget = Budget(output_tokens=1_000)

    def engine() -> Engine:
        return Engine(
            Slow(clock, [0.25, "word " * 8] * 400), policy=limited(steps=3), budget=budget, runtime=Runtime(clock=clock)
        )

    async with engine().start("go") as one, engine().start("go") as other:
        for _ in range(400):
            if one.finished and other.finished:
                break
            await clock.advance(0.25)
        outcomes = [one.outcome, other.outcome]
    assert [o.stop_reason for o in outcomes] == ["token_limit", "token_limit"]
    assert 1_000 < sum(o.usage.output_tokens for o in outcomes) < 1_100
    assert all("shared budget" in o.detail for o in outcomes)


# ---- one response


async def test_B2_one_response_has_a_bound_of_its_own_after_which_it_counts_as_cut_off(tmp_path: Path) -> None:
    clock = FakeClock()
    slow = Slow(clock, ["word " * 80] * 20, ["Short."])
    policy = Policy(response_tokens=150, closing=False)
    events, outcome, _ = await run_of(
        Engine(slow, policy=policy, runtime=Runtime(clock=clock)), clock, tmp_path / "r.jsonl"
    )
    first, second = [e for e in events if isinstance(e, ev.ResponseFinished)]
    assert (first.finish, first.cut_for, second.cut_for) == ("length", "response_tokens", "")
    assert first.usage.output_tokens == 200
    assert (outcome.stop_reason, outcome.answer) == ("text_final", "Short.")


async def test_B2_by_default_a_response_is_bounded() -> None:
    class Endless:
        model = "endless"

        @asynccontextmanager
        async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[AnyChunk]]:
            yield self._play()

        async def _play(self) -> Any:
            while True:
                yield TextDelta("".join(f"line {n}: all is well\n" for n in range(2_000)))

    outcome = await Engine(Endless(), policy=Policy(degeneration=OFF, closing=False)).run("go")
    assert (outcome.status, outcome.stop_reason) == ("exhausted", "no_answer")


# ---- inside a tool call


async def _work(text: str = "") -> str:
    return "worked"


WORK = Tool(_work, name="work", description="Work.")


def sleeper(clock: FakeClock, reads: bool, timeout: float | None = None) -> Tool:
    async def wait(n: int = 0) -> str:
        await clock.sleep(8)
        return "x"

    return Tool(wait, name="wait", description="Wait.", reads=reads, timeout=timeout)


@pytest.mark.parametrize(("reads", "status"), [(True, "cancelled"), (False, "unknown")])
async def test_B2_a_tool_is_cut_off_at_the_time_limit(reads: bool, status: str, tmp_path: Path) -> None:
    clock = FakeClock()
    provider = Scripted([call("wait"), call("work")], "ok")
    engine = Engine(
        provider, tools=[sleeper(clock, reads), WORK], policy=limited(seconds=1), runtime=Runtime(clock=clock)
    )
    events, outcome, ended = await run_of(engine, clock, tmp_path / "r.jsonl")
    assert (outcome.stop_reason, ended, len(provider.requests)) == ("time_limit", 1.0, 1)
    results = [e.status for e in events if isinstance(e, ev.ToolCallResult)]
    expected = ["ok", status] if reads else [status, "cancelled"]
    assert results == expected or sorted(results) == sorted(expected), "work never begins after the limit"
    (reached,) = [e for e in events if isinstance(e, ev.LimitReached)]
    assert (reached.limit, reached.attempt) == ("seconds", "")


async def test_B2_readers_that_began_early_end_with_the_response_that_is_cut(tmp_path: Path) -> None:
    clock = FakeClock()
    slow = Slow(clock, [[*call("wait", n=1)], 0.25, "word " * 400])
    engine = Engine(slow, tools=[sleeper(clock, True)], policy=limited(output_tokens=100), runtime=Runtime(clock=clock))
    events, outcome, ended = await run_of(engine, clock, tmp_path / "r.jsonl")
    assert (outcome.stop_reason, ended) == ("token_limit", 0.25)
    assert [e.status for e in events if isinstance(e, ev.ToolCallResult)] == ["cancelled"]


async def test_B2_calls_of_a_response_that_was_cut_are_not_run_and_the_one_cut_inside_is_truncated(
    tmp_path: Path,
) -> None:
    clock = FakeClock()
    ran: list[str] = []

    async def work(text: str) -> str:
        ran.append(text)
        return text

    tools = [Tool(work, description="Work.")]
    done = Slow(clock, [[*call("work", text="a")], *CUT_INSIDE, 3600])
    events, outcome, _ = await run_of(
        Engine(done, tools=tools, policy=limited(seconds=1), runtime=Runtime(clock=clock)), clock, tmp_path / "r.jsonl"
    )
    assert (outcome.stop_reason, ran) == ("time_limit", [])
    assert [e.status for e in events if isinstance(e, ev.ToolCallResult)] == ["cancelled", "truncated"]


CUT_INSIDE = [ToolCallDelta(1, "call_cut", "work"), ToolCallDelta(1, arguments='{"text": "b')]


# ---- a completion that came whole wins


async def test_B2_a_completion_that_came_whole_wins_with_its_handler_its_gates_and_its_evaluation(
    tmp_path: Path,
) -> None:
    clock = FakeClock()

    async def handle(summary: str) -> Completion:
        await clock.sleep(3)
        return Completion(answer=summary)

    async def gate(completion: Completion, run: Progress) -> Accept:
        await clock.sleep(3)
        return Accept()

    async def evaluate(looked_at: Any) -> bool:
        await clock.sleep(3)
        return True

    finish = Tool(handle, name="finish", description="Done.", kind="completion")
    slow = Slow(clock, [0.75, [*call("finish", summary="all is done")], 3600])
    engine = Engine(
        slow,
        tools=[finish],
        hooks=Hooks(gates=[gate], evaluate=evaluate),
        policy=limited(seconds=1),
        runtime=Runtime(clock=clock),
    )
    events, outcome, ended = await run_of(engine, clock, tmp_path / "r.jsonl")
    assert (outcome.status, outcome.answer, outcome.verdict) == ("completed", "all is done", "passed")
    assert ended == 9.75
    assert not [e for e in events if isinstance(e, ev.LimitReached)]
    assert outcome.exceeded_limit, "what was used beyond it is said"


async def test_B2_a_completion_beside_a_writing_call_that_was_cut_off_is_handed_back(tmp_path: Path) -> None:
    clock = FakeClock()
    slow = Slow(clock, [[*call("wait"), *call("finish_task", summary="done")]], ["never asked"])
    engine = Engine(slow, tools=[sleeper(clock, False)], policy=limited(seconds=1), runtime=Runtime(clock=clock))
    events, outcome, _ = await run_of(engine, clock, tmp_path / "r.jsonl")
    assert (outcome.stop_reason, slow.asked) == ("time_limit", 1)
    assert [e.by for e in events if isinstance(e, ev.CompletionRejected)] == ["failed_call"]


async def test_B2_a_completion_beside_a_reading_call_that_was_cut_off_wins(tmp_path: Path) -> None:
    clock = FakeClock()
    slow = Slow(clock, [[*call("wait"), *call("finish_task", summary="done")]])
    engine = Engine(slow, tools=[sleeper(clock, True)], policy=limited(seconds=1), runtime=Runtime(clock=clock))
    _, outcome, ended = await run_of(engine, clock, tmp_path / "r.jsonl")
    assert (outcome.status, outcome.answer, ended) == ("completed", "done", 1.0)


# ---- between steps


async def test_B2_a_judge_is_not_waited_for_beyond_the_limit(tmp_path: Path) -> None:
    clock = FakeClock()

    async def judge(run: Progress) -> Verdict:
        await clock.sleep(30)
        return Verdict("complete", "yes")

    policy = Policy(limits=Limits(seconds=2), closing=False, max_inner_steps=1)
    engine = Engine(
        Scripted([call("work")], "ok"),
        tools=[WORK],
        hooks=Hooks(judge=judge),
        policy=policy,
        runtime=Runtime(clock=clock),
    )
    _, outcome, ended = await run_of(engine, clock, tmp_path / "r.jsonl", 60)
    assert (outcome.stop_reason, ended) == ("time_limit", 2.0)


async def test_B2_no_step_begins_once_the_time_is_used_up(tmp_path: Path) -> None:
    clock = FakeClock()

    async def prepare(prompt: str, run: Any) -> None:
        await clock.sleep(30)

    engine = Engine(
        Scripted("ok"), hooks=Hooks(prompt_handlers=[prepare]), policy=limited(seconds=2), runtime=Runtime(clock=clock)
    )
    _, outcome, ended = await run_of(engine, clock, tmp_path / "r.jsonl", 60)
    assert (outcome.stop_reason, ended, outcome.steps) == ("time_limit", 2.0, 0)


# ---- the closing step


async def test_B2_the_closing_step_keeps_its_own_deadline_and_has_a_bound_of_its_own(tmp_path: Path) -> None:
    clock = FakeClock()
    slow = Slow(clock, [0.25, "x ", 3600], [30, "Half of it is done."])
    policy = Policy(limits=Limits(seconds=1), closing=True)
    _, outcome, ended = await run_of(
        Engine(slow, policy=policy, runtime=Runtime(clock=clock)), clock, tmp_path / "a.jsonl", 90
    )
    assert (outcome.stop_reason, outcome.answer, ended) == ("time_limit", "Half of it is done.", 31.0)
    endless = Slow(clock, ["word " * 400], ["Half. " * 100] * 900)
    policy = Policy(limits=Limits(output_tokens=100), closing=True, closing_tokens=300)
    _, outcome, _ = await run_of(
        Engine(endless, policy=policy, runtime=Runtime(clock=clock)), clock, tmp_path / "b.jsonl", 90
    )
    assert (outcome.stop_reason, outcome.answer) == ("token_limit", "Half. " * 300)
    late = Slow(clock, [0.25, "x ", 3600], [1, "Half of it", 3600])
    policy = Policy(limits=Limits(seconds=1), closing=True)
    _, outcome, ended = await run_of(
        Engine(late, policy=policy, runtime=Runtime(clock=clock)), clock, tmp_path / "c.jsonl", 90
    )
    assert (outcome.stop_reason, outcome.answer, ended) == ("time_limit", "Half of it", 61.0)


# ---- what a limit is not


async def test_B2_a_limit_whose_guard_is_left_out_is_not_held_inside_a_step_either() -> None:
    guards = tuple(name for name in Policy().guards if name != "token_limit")
    policy = Policy(limits=Limits(output_tokens=10), guards=guards, closing=False)
    outcome = await Engine(Scripted(say(WORDS)), policy=policy).run("go")
    assert outcome.stop_reason == "text_final"


async def test_B2_a_durable_step_tells_the_cut_again(tmp_path: Path) -> None:
    clock = FakeClock()
    steps = MemorySteps()
    outcomes = []
    for _ in range(2):
        session = Engine(
            Slow(clock, [WORDS] * 9), policy=limited(output_tokens=50), runtime=Runtime(clock=clock)
        ).session("s")
        session.steps = steps
        async with session.start("go", run_id="run_1") as run:
            await pass_time(clock, run, 5)
            outcomes.append(run.outcome)
        steps = MemorySteps(steps.kept)
    assert [o.stop_reason for o in outcomes] == ["token_limit", "token_limit"]
    assert steps.worked == []


async def test_B2_results_of_calls_that_were_cut_off_say_what_is_known(tmp_path: Path) -> None:
    clock = FakeClock()
    session = Engine(
        Scripted([call("wait")], "ok"),
        tools=[sleeper(clock, False)],
        policy=limited(seconds=1),
        runtime=Runtime(clock=clock),
    ).session()
    async with session.start("go") as run:
        await pass_time(clock, run, 9)
    (result,) = [m for m in session.transcript.messages if isinstance(m, ToolResult)]
    assert "effect is not known" in result.content
    assert "limit" in result.content
