"""Runs in numbers: what is counted agrees with outcomes, and takes nothing of a run without a service."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from endstop import Engine, tool
from endstop.base.metrics_registry import Metrics
from endstop.decision import Event, Limits, Outcome, Policy, Usage
from endstop.decision import events as ev
from endstop.observers.agent_metrics import (
    ATTEMPTS,
    COST,
    ENDED,
    FAILED,
    FIRST_TOKEN_SECONDS,
    INPUT_TOKENS,
    OUTPUT_TOKENS,
    RUN_METRICS,
    STARTED,
    STEP_SECONDS,
    SUBAGENTS_ENDED,
    TOOL_CALL_SECONDS,
    UNPRICED,
    RunCounter,
)
from endstop.providers import RateLimited, Retry, Scripted, Unauthorized, call, say
from endstop.tools import ask_user, finish_task
from hypothesis import given
from hypothesis import strategies as st


class Counted:
    """A journal that counts each event, as the event buffer of a service does."""

    path = None

    def __init__(self, *, subagent: bool = False) -> None:
        self.metrics = Metrics(RUN_METRICS)
        self.events: list[Event] = []
        self._counter = RunCounter(self.metrics, subagent=subagent)

    def write(self, event: Any) -> None:
        self.events.append(event)
        self._counter.take(event)

    async def flush(self) -> None:
        pass

    def close(self) -> None:
        pass

    def total(self, metric: Any) -> float:
        return sum(self.metrics.values(metric).values())


@tool
def look(path: str) -> str:
    "Look."
    if path == "bad":
        raise ValueError("no such file")
    return f"found {path}"


STEPS = st.sampled_from(["look", "fails", "text", "finish", "ask", "limited", "broken"])


def _response(kind: str) -> Any:
    match kind:
        case "look":
            return call("look", path="a")
        case "fails":
            return call("look", path="bad")
        case "text":
            return say("Well, all is done.")
        case "finish":
            return call("finish_task", summary="The port is 8080.")
        case "ask":
            return call("ask_user", question="Which port?")
        case "limited":
            return RateLimited("slow down")
        case _:
            return Unauthorized("no key")


async def run(*kinds: str) -> tuple[Counted, Outcome]:
    """Run an agent whose model answers like this, and then completes."""
    left = [*map(_response, kinds), _response("finish")]
    provider = Retry(Scripted(lambda request: left.pop(0)), times=1, first_wait=0, longest_wait=0)
    counted = Counted()
    policy = Policy(limits=Limits(steps=4))
    engine = Engine(provider, tools=[look], presets=(finish_task, ask_user), policy=policy)
    session = engine.session()
    session.record = counted
    async with session.start("Set the port") as running:
        return counted, await running.wait()


@given(st.lists(STEPS, max_size=6))
async def test_what_is_counted_agrees_with_the_outcome(kinds: list[str]) -> None:
    counted, outcome = await run(*kinds)
    metrics, seen = counted.metrics, Counter(type(event) for event in counted.events)
    assert metrics.values(STARTED) == {("new",): 1}
    assert metrics.values(ENDED) == {(outcome.status, outcome.stop_reason): 1}
    assert counted.total(FAILED) == (outcome.status == "failed")
    assert counted.total(INPUT_TOKENS) == outcome.usage.input_tokens
    assert counted.total(OUTPUT_TOKENS) == outcome.usage.output_tokens
    assert counted.total(COST) == pytest.approx(outcome.usage.cost_usd or 0.0)
    assert metrics.histogram(STEP_SECONDS).count == seen[ev.StepFinished]
    assert counted.total(ATTEMPTS) == outcome.requests == seen[ev.AttemptStarted]
    begun = {event.call_id for event in counted.events if isinstance(event, ev.ToolExecutionStarted)}
    ended = Counter(e.status for e in counted.events if isinstance(e, ev.ToolCallResult) and e.call_id in begun)
    assert {status: metrics.histogram(TOOL_CALL_SECONDS, status).count for status in ended} == ended


async def test_a_failed_run_is_counted_by_the_kind_of_its_error() -> None:
    counted, outcome = await run("look", "broken")
    assert (outcome.status, outcome.stop_reason) == ("failed", "provider_error")
    assert counted.metrics.values(FAILED) == {("auth",): 1}
    assert counted.metrics.values(ATTEMPTS) == {("ok",): 1, ("auth",): 1}


async def test_retries_are_requests_and_a_response_without_a_price_is_told() -> None:
    counted, outcome = await run("limited")
    assert outcome.status == "completed"
    assert counted.metrics.values(ATTEMPTS) == {("rate_limit",): 1, ("ok",): 1}
    assert counted.total(UNPRICED) == 1


def test_durations_are_those_between_the_events() -> None:
    counted = Counted()
    for event in (
        ev.StepStarted(step=1, round=1, t=1000),
        ev.AttemptStarted(attempt="1.1", t=1100),
        ev.AttemptFailed(attempt="1.1", kind="server", message="", t=2000),
        ev.AttemptStarted(attempt="1.2", t=3000),
        ev.AttemptFailed(attempt="1.2", kind="server", message="", beside=True, t=3100),
        ev.TextMessageContent(attempt="1.2", delta="a", t=3250),
        ev.TextMessageContent(attempt="1.2", delta="b", t=9000),
        ev.ToolExecutionStarted(call_id="c", name="look", t=9100),
        ev.ToolExecutionStarted(call_id="d", name="look", t=9100),
        ev.ToolCallResult(call_id="d", name="look", content="", t=9600),
        ev.ToolCallResult(call_id="c", name="look", content="", status="error", t=10_100),
        ev.ToolCallResult(call_id="e", name="look", content="", status="skipped", t=10_100),
        ev.StepFinished(step=1, t=11_000),
        ev.StepFinished(step=2, t=12_000),  # began in another process
    ):
        counted.write(event)
    metrics = counted.metrics
    assert (metrics.histogram(STEP_SECONDS).count, metrics.histogram(STEP_SECONDS).sum) == (1, 10.0)
    first = metrics.histogram(FIRST_TOKEN_SECONDS)
    assert (first.count, first.sum) == (1, 0.25)
    sums = {status: metrics.histogram(TOOL_CALL_SECONDS, status).sum for status in ("ok", "error", "skipped")}
    assert sums == {"ok": 0.5, "error": 1.0, "skipped": 0.0}


def test_what_a_sub_agent_used_is_counted_by_its_own_events_alone() -> None:
    caller, own = Counted(), Counted(subagent=True)
    used = Usage(input_tokens=7, output_tokens=3, cost_usd=0.5)
    caller.write(ev.SubagentUsed(call_id="c", run_id="r", at=3, requests=1, usage=used))
    own.write(ev.ResponseFinished(step=1, finish="stop", usage=used))
    outcome = Outcome(run_id="r", session_id="s", status="completed", stop_reason="completed")
    own.write(ev.RunFinished(outcome=outcome))
    assert (caller.total(INPUT_TOKENS), own.total(INPUT_TOKENS)) == (0, 7)
    assert (own.metrics.values(ENDED), own.metrics.values(SUBAGENTS_ENDED)) == ({}, {("completed",): 1})


def test_no_label_is_a_text_of_somebody_else() -> None:
    counted = Counted()
    outcome = Outcome(run_id="r", session_id="s", status="exhausted", stop_reason="custom:my own rule")
    counted.write(ev.RunFinished(outcome=outcome))
    counted.write(ev.AttemptFailed(attempt="1.1", kind="a kind of a later version", message=""))
    assert counted.metrics.values(ENDED) == {("exhausted", "custom"): 1}
    assert counted.metrics.values(ATTEMPTS) == {("other",): 1}
