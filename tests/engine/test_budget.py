"""A budget that many runs share."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import anyio
import pytest
from endstop import Budget, Engine, Hooks, read_record, tool
from endstop.decision import Compaction, Limits, Patience, Policy, Price, Usage, UsageReport, WrongUse
from endstop.decision import events as ev
from endstop.hooks import ModelJudge
from endstop.providers import LiteLLM, Prices, Request, Scripted, Unavailable, call, say
from endstop.replay import replay
from endstop.testing import settle

FREE = Usage()
PRICES = Prices({"scripted": Price(input=0, output=100_000)})
"""Ten output tokens cost a dollar."""


@tool
async def note(text: str) -> str:
    """Note it."""
    return f"noted {text}"


def busy(cost: float = 1.0, steps: int = 20) -> list[Any]:
    """Steps that cost so much each."""
    report = UsageReport(Usage(input_tokens=10, output_tokens=5, cost_usd=cost))
    return [[call("note", text=str(n)), report] for n in range(steps)]


def engine(budget: Budget, *script: Any, **options: Any) -> Engine:
    return Engine(Scripted(*(script or busy())), tools=[note], budget=budget, **options)


async def test_a_run_alone_ends_as_it_would_by_a_limit_of_its_own() -> None:
    budget = Budget(cost_usd=3)
    outcome = await engine(budget).run("go")
    assert (outcome.status, outcome.stop_reason, outcome.steps) == ("exhausted", "cost_limit", 3)
    assert outcome.detail == "3 of 3 US dollars of the shared budget used; raise Budget.cost_usd if the task needs more"
    assert (outcome.limits["budget_cost_usd"].used, outcome.limits["budget_cost_usd"].allowed) == (3, 3)
    assert outcome.exceeded_limit
    assert (budget.spent.cost_usd, budget.reserved) == (3, FREE)


@pytest.mark.parametrize("limits", [{"input_tokens": 25}, {"output_tokens": 11}])
async def test_tokens_can_be_shared_as_well(limits: dict[str, int]) -> None:
    outcome = await engine(Budget(**limits)).run("go")
    assert (outcome.stop_reason, outcome.steps) == ("token_limit", 3)
    assert "tokens of the shared budget used" in outcome.detail


async def test_one_budget_is_handed_to_many_engines_sessions_and_runs() -> None:
    budget = Budget(cost_usd=2)
    one, other = engine(budget, "a", usage := busy()[0]), engine(budget, [say("b"), usage[-1]])
    assert (await one.run("go")).status == "completed"
    assert (await other.run("go")).status == "completed"
    session = engine(budget, *busy()).session()
    outcome = await session.run("go")
    assert (outcome.stop_reason, outcome.steps, budget.spent.cost_usd) == ("cost_limit", 1, 2)
    again = await session.run("go")
    assert (again.stop_reason, again.steps, again.requests) == ("cost_limit", 0, 0), "refused before it costs anything"


async def test_a_refusal_is_an_event_that_the_guard_sees_and_no_request_follows_it() -> None:
    budget = Budget(cost_usd=1)
    async with engine(budget, policy=Policy(closing=True)).start("go") as run:
        events = [event async for event in run]
    (refused,) = (e for e in events if isinstance(e, ev.BudgetRefused))
    assert (refused.step, refused.limit, refused.used, refused.allowed) == (2, "cost_usd", 1, 1)
    assert not [e for e in events if e.seq > refused.seq and isinstance(e, ev.StepStarted | ev.AttemptStarted)]
    decided = [e for e in events if isinstance(e, ev.DecisionMade)][-1].decision
    assert decided.trace[-1].rule == "guard cost_limit"
    assert decided.trace[-1].saw["refused"]["limit"] == "cost_usd"


async def test_a_closing_step_needs_room_too() -> None:
    policy = Policy(limits=Limits(steps=2), closing=True)
    with_room = await engine(Budget(cost_usd=5), *busy(steps=2), "The sum.", policy=policy).run("go")
    assert (with_room.stop_reason, with_room.requests, with_room.answer) == ("step_limit", 3, "The sum.")
    without = await engine(Budget(cost_usd=2), *busy(steps=2), "The sum.", policy=policy).run("go")
    assert (without.stop_reason, without.requests, without.answer) == ("step_limit", 2, "")


async def test_a_completion_in_the_step_that_uses_it_up_is_no_refusal() -> None:
    report = UsageReport(Usage(output_tokens=1, cost_usd=9.0))
    model = [report, call("finish_task", summary="It is done.")]
    outcome = await engine(Budget(cost_usd=1), model).run("go")
    assert (outcome.status, outcome.usage.cost_usd) == ("completed", 9.0)


async def test_a_step_that_does_not_fit_beside_others_waits_until_one_has_settled() -> None:
    budget = Budget(cost_usd=60)
    stalls = [anyio.Event(), anyio.Event()]
    usage = Usage(output_tokens=10)  # a dollar; the first step of each is expected to cost fifty
    engines = [Engine(Scripted([stall, say("x")], usage=usage), budget=budget, prices=PRICES) for stall in stalls]
    async with engines[0].start("go") as first, engines[1].start("go") as second:
        await settle()
        assert (first.facts.requests, second.facts.requests) == (1, 0), "the second one waits"
        assert budget.reserved.cost_usd == 50
        stalls[0].set()
        await settle()
        assert (budget.spent.cost_usd, second.facts.requests) == (1, 1)
        stalls[1].set()
        assert (await second.wait()).status == "completed"
    assert (budget.spent.cost_usd, budget.reserved) == (2, FREE)


async def test_the_next_step_is_expected_to_cost_what_the_last_one_did() -> None:
    budget = Budget(cost_usd=1000)
    stall = anyio.Event()
    model = Scripted([call("note", text="a")], [stall, say("b")], usage=Usage(output_tokens=20))
    async with Engine(model, tools=[note], budget=budget, prices=PRICES).start("go") as run:
        await settle()
        assert budget.reserved.cost_usd == 2
        assert budget.reserved.input_tokens > 0
        stall.set()
        await run.wait()


async def test_a_run_that_waits_can_be_cancelled_and_leaves_nothing_behind() -> None:
    budget = Budget(output_tokens=600)
    async with engine(budget, [anyio.Event()]).start("go") as first:
        async with engine(budget, "never").start("go") as second:
            await settle()
            assert second.facts.requests == 0
            second.cancel()
            outcome = await second.wait()
        assert (outcome.status, outcome.requests) == ("cancelled", 0)
        assert budget.reserved.output_tokens == 500, "the first one is still under way"
        first.cancel()
        await first.wait()
    assert budget.reserved == FREE


async def test_a_run_whose_provider_fails_or_whose_task_is_cancelled_gives_back_what_it_reserved() -> None:
    budget = Budget(cost_usd=5)
    assert (await engine(budget, [say("half"), Unavailable("gone")]).run("go")).status == "failed"
    assert budget.spent.estimated
    task = asyncio.create_task(engine(budget, [say("half"), anyio.Event()]).run("go"))
    await settle()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert budget.reserved == FREE


async def test_what_a_judge_costs_is_taken_from_the_budget() -> None:
    report = UsageReport(Usage(input_tokens=1, cost_usd=2.0))
    judge = ModelJudge(Scripted(*([say("NO"), report] for _ in range(9))))
    budget = Budget(cost_usd=5)
    outcome = await engine(budget, hooks=Hooks(judge=judge), policy=Policy(max_inner_steps=1)).run("go")
    assert (outcome.stop_reason, outcome.steps, budget.spent.cost_usd) == ("cost_limit", 2, 6)


async def test_a_judge_is_not_asked_once_the_budget_is_used_up_and_the_run_ends_by_it() -> None:
    judge = ModelJudge(Scripted([say("YES"), UsageReport(Usage(input_tokens=1, cost_usd=2.0))]))
    budget = Budget(cost_usd=1)
    async with engine(budget, hooks=Hooks(judge=judge), policy=Policy(max_inner_steps=1)).start("go") as run:
        events = [event async for event in run]
    (verdict,) = (e for e in events if isinstance(e, ev.VerdictGiven))
    assert (verdict.said, verdict.detail) == ("refused", "cost_usd of the shared budget is used up")
    assert (run.outcome.stop_reason, run.outcome.steps, budget.spent.cost_usd) == ("cost_limit", 1, 1)
    assert budget.reserved == FREE


async def test_a_judge_waits_for_room_and_what_it_uses_is_reserved_while_it_is_asked() -> None:
    budget = Budget(cost_usd=60)
    step, verdict = anyio.Event(), anyio.Event()
    usage = Usage(output_tokens=10)  # a dollar; where nothing is known, fifty are expected
    judge = ModelJudge(Scripted([verdict, say("YES")], usage=usage))
    model = Scripted([call("note", text="a")], usage=usage)
    one = Engine(
        model, tools=[note], budget=budget, prices=PRICES, hooks=Hooks(judge=judge), policy=Policy(max_inner_steps=1)
    )
    other = Engine(Scripted([step, say("x")], usage=usage), budget=budget, prices=PRICES)
    async with one.start("go") as first:
        await settle()
        assert (budget.spent.cost_usd, budget.reserved.cost_usd) == (1, 1), (
            "the judge is expected to use what the step did"
        )
        async with other.start("go") as second:
            await settle()
            assert second.facts.requests == 1, "both fit"
            verdict.set()
            assert (await first.wait()).stop_reason == "judged"
            assert (budget.spent.cost_usd, budget.reserved.cost_usd) == (2, 50)
            step.set()
            await second.wait()
    assert (budget.spent.cost_usd, budget.reserved) == (3, FREE)


@pytest.mark.parametrize("limit", [1, 2, 3, 4])
async def test_a_summary_is_not_asked_for_once_the_budget_is_used_up_and_the_run_ends_by_it(
    limit: int, tmp_path: Path
) -> None:
    """Steps cost a dollar, and so do summaries; there is one after each step, and none of them helps."""

    def respond(request: Request) -> Any:
        said = say("Much was noted.") if request.attempt == "aside" else call("note", text="so much " * 50)
        return [said, UsageReport(Usage(input_tokens=90, output_tokens=5, cost_usd=1.0))]

    budget = Budget(cost_usd=limit)
    settings = Compaction(strategies=("summarise",), window=100, threshold=0.5, keep_messages=2)
    policy = Policy(compaction=settings, patience=Patience(compactions=2))
    outcome = await Engine(Scripted(respond), tools=[note], budget=budget, policy=policy).run(
        "go", record=tmp_path / "r.jsonl"
    )
    assert (outcome.stop_reason, budget.spent.cost_usd, budget.reserved) == ("cost_limit", limit, FREE)
    report = await replay(str(tmp_path / "r.jsonl"))
    assert report.same, report.runs[0].divergence


async def test_a_tool_may_start_runs_of_the_same_budget() -> None:
    budget = Budget(output_tokens=501)

    @tool(reads=True)
    async def ask(text: str) -> str:
        """Ask another agent."""
        return (await engine(budget, "It is 42.").run(text)).answer

    with anyio.fail_after(60):
        outcome = await Engine(Scripted([call("ask", text="?")], "42"), tools=[ask], budget=budget).run("go")
    assert outcome.status == "completed"
    assert budget.spent.output_tokens == 15


@pytest.mark.parametrize("closing", [False, True])
async def test_a_record_is_replayed_without_the_budget(tmp_path: Path, closing: bool) -> None:
    path = tmp_path / "r.jsonl"
    policy = Policy(max_inner_steps=3, closing=closing, limits=Limits(steps=2 if closing else 30))
    outcome = await engine(Budget(cost_usd=2 if closing else 5), policy=policy).run("go", record=path)
    report = await replay(str(path))
    assert report.same, report.runs[0].divergence
    assert report.runs[0].outcome.detail == outcome.detail
    assert report.runs[0].outcome.limits == outcome.limits


@pytest.mark.parametrize("kept", ["BUDGET_REFUSED", "DECISION_MADE"])
async def test_a_run_that_was_killed_after_its_refusal_comes_to_an_end(tmp_path: Path, kept: str) -> None:
    path = tmp_path / "r.jsonl"
    await engine(Budget(cost_usd=2)).run("go", record=path)
    lines = path.read_bytes().splitlines(keepends=True)
    at = next(n for n, line in enumerate(lines) if f'"type":"{kept}"'.encode() in line)
    path.write_bytes(b"".join(lines[: at + 1]))
    record = read_record(path)
    session = engine(Budget(cost_usd=1), "done").session(record.header.session_id, record=path)
    session.load(record.runs)
    async with session.start_resumed() as run:
        outcome = await run.wait()
    assert outcome.stop_reason == "cost_limit"
    assert (await replay(str(path))).same


async def test_a_run_that_was_killed_between_its_refusal_and_its_end_may_go_on_by_another_budget(
    tmp_path: Path,
) -> None:
    path = tmp_path / "r.jsonl"
    budget = Budget(cost_usd=1)
    await engine(budget).run("go")
    await engine(budget).run("go", record=path)
    lines = path.read_bytes().splitlines(keepends=True)
    at = next(n for n, line in enumerate(lines) if b"BUDGET_REFUSED" in line)
    path.write_bytes(b"".join(lines[: at + 1]))
    record = read_record(path)
    session = engine(Budget(cost_usd=1), "done").session(record.header.session_id, record=path)
    session.load(record.runs)
    async with session.start_resumed() as run:
        outcome = await run.wait()
    assert (outcome.stop_reason, outcome.steps) == ("text_final", 1)
    assert "budget_cost_usd" not in outcome.limits
    assert (await replay(str(path))).same


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Budget(), "limits nothing: give cost_usd, input_tokens or output_tokens"),
        (lambda: Budget(cost_usd=0), "Budget.cost_usd is 0: use more than 0"),
        (lambda: Budget(output_tokens=-1), "Budget.output_tokens is -1"),
        (lambda: Engine(Scripted("x"), budget=5), "5 is not a Budget, as in Budget"),  # type: ignore[arg-type]
        (
            lambda: Engine(Scripted("x"), budget=Budget(cost_usd=1), policy=Policy(guards=("step_limit",))),
            "policy.guards leaves out 'cost_limit'",
        ),
        (
            lambda: Engine(LiteLLM("ollama/llama3"), budget=Budget(cost_usd=1)),
            "Budget.cost_usd is set, but the price of model 'ollama/llama3' is not known",
        ),
    ],
)
def test_what_cannot_work_is_refused_in_a_sentence(make: Any, words: str) -> None:
    with pytest.raises(WrongUse, match=words.replace(".", r"\.")):
        make()
