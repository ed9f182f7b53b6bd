"""What the loop does between steps and between rounds."""

from __future__ import annotations

import pytest
from endstop import Answer, Completion, Engine, Hooks, Phase, Reject, Runtime, Verdict, tool
from endstop.decision import Limits, Policy, ToolResult
from endstop.decision.events import CompletionRejected, ToolCallResult, VerdictGiven
from endstop.providers import Scripted, call
from endstop.testing import FakeClock
from endstop.tools import ask_user, finish_task


@tool
async def look() -> str:
    """Look."""
    return "seen"


async def test_where_no_rule_pauses_a_question_is_closed_as_unanswered_before_the_next_request() -> None:
    policy = Policy(rules=tuple(rule for rule in Policy().rules if rule != "control_flow"))
    provider = Scripted([call("ask_user", question="Which port?", id="q")], "The usual one.")
    outcome = await Engine(provider, presets=[ask_user], policy=policy).run("Set the port.")
    assert (outcome.stop_reason, outcome.answer, outcome.steps) == ("text_final", "The usual one.", 2)
    (result,) = [message for message in provider.requests[1].messages if isinstance(message, ToolResult)]
    assert (result.call_id, result.status) == ("q", "unanswered")


@pytest.mark.parametrize("said", [Verdict("final"), "complete", None])
async def test_a_judge_fails_that_answers_neither_complete_nor_incomplete_and_the_run_goes_on(said: object) -> None:
    async def judge(run: object) -> object:
        return said

    engine = Engine(
        Scripted([call("look")], "Done."),
        tools=[look],
        hooks=Hooks(judge=judge),  # type: ignore[arg-type]
        policy=Policy(max_inner_steps=1),
    )
    async with engine.start("Look.") as run:
        verdicts = [event async for event in run if isinstance(event, VerdictGiven)]
    assert [(verdict.role, verdict.said) for verdict in verdicts] == [("judge", "failed")]
    assert "a judge answers Verdict('complete') or Verdict('incomplete'), not" in verdicts[0].detail
    assert (run.outcome.answer, run.outcome.steps) == ("Done.", 2)


@pytest.mark.parametrize(("percentage", "status"), [(100, "ok"), (101, "invalid"), (0, "ok"), (-1, "invalid")])
async def test_a_phase_is_of_0_to_100_percent_and_the_calls_after_it_run(percentage: int, status: str) -> None:
    @tool(completes=True)
    def deploy() -> Phase:
        """Deploy."""
        return Phase(percentage=percentage, summary="Half is up.")

    provider = Scripted([call("deploy"), call("look")], "Done.")
    await Engine(provider, tools=[deploy, look]).run("Deploy.")
    results = [message for message in provider.requests[1].messages if isinstance(message, ToolResult)]
    assert [result.status for result in results] == [status, "ok"]


async def test_a_completion_that_did_not_succeed_is_rejected_by_its_tool() -> None:
    @tool(completes=True)
    def deploy() -> Completion:
        """Deploy."""
        return Completion(answer="", success=False)

    async with Engine(Scripted([call("deploy")], "Done."), tools=[deploy]).start("Deploy.") as run:
        rejected = [event async for event in run if isinstance(event, CompletionRejected)]
    assert [(event.by, event.reason) for event in rejected] == [("tool", "It did not succeed.")]


async def test_a_gate_that_fails_rejects_and_says_that_it_is_the_check_that_failed() -> None:
    async def check(completion: object, run: object) -> None:
        raise ZeroDivisionError("no such file")

    engine = Engine(
        Scripted([call("finish_task", summary="Done.")]),
        presets=[finish_task],
        hooks=Hooks(gates=[check]),
        policy=Policy(limits=Limits(steps=1)),
    )
    async with engine.start("Go.") as run:
        rejected = [event async for event in run if isinstance(event, CompletionRejected)]
    assert rejected[0].reason.startswith("The check of the completion failed: ")
    assert "no such file" in rejected[0].reason


async def test_a_text_that_a_gate_rejects_belongs_to_no_call() -> None:
    async def check(completion: object, run: object) -> Reject:
        return Reject("not yet")

    engine = Engine(Scripted("Done."), hooks=Hooks(gates=[check]), policy=Policy(limits=Limits(steps=1), closing=False))
    async with engine.start("Go.") as run:
        rejected = [event async for event in run if isinstance(event, CompletionRejected)]
    assert [(event.call_id, event.name, event.reason) for event in rejected] == [("", "", "not yet")]


async def test_after_a_handler_that_answers_no_other_is_asked() -> None:
    asked: list[str] = []

    async def first(prompt: str, run: object) -> Answer:
        asked.append("first")
        return Answer("Hello.")

    async def second(prompt: str, run: object) -> None:
        asked.append("second")

    outcome = await Engine(Scripted(), hooks=Hooks(prompt_handlers=[first, second])).run("Hi.")
    assert (outcome.stop_reason, outcome.answer, asked) == ("handled", "Hello.", ["first"])


class SlowClock(FakeClock):
    """A clock that a tool moves on by itself, so that no deadline fires while the tool runs."""

    passed = 0.0

    def now(self) -> float:
        return self.passed


async def test_no_call_starts_once_the_time_is_up_also_if_nothing_has_said_so_before() -> None:
    clock, ran = SlowClock(), []

    @tool
    async def work(n: int) -> str:
        """Work for ten seconds."""
        ran.append(n)
        clock.passed += 10
        return "done"

    provider = Scripted([call("work", n=1, id="a"), call("work", n=2, id="b")])
    policy = Policy(limits=Limits(seconds=5), closing=False)
    async with Engine(provider, tools=[work], policy=policy, runtime=Runtime(clock=clock)).start("Go.") as run:
        results = {event.call_id: event.status async for event in run if isinstance(event, ToolCallResult)}
    assert (ran, results, run.outcome.stop_reason) == ([1], {"a": "ok", "b": "cancelled"}, "time_limit")
