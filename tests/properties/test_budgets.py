"""What holds for a budget, however many runs share it and however they end."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

import anyio.lowlevel
from endstop import Budget, Engine, Hooks, Run, read_record, tool
from endstop.budget import EXPECTED_FIRST_OUTPUT
from endstop.decision import Limits, Outcome, Policy, Price, Usage, UsageReport
from endstop.hooks import ModelJudge
from endstop.providers import Prices, Scripted, Unavailable, call, say
from endstop.replay import replay
from hypothesis import given, settings
from hypothesis import strategies as st

from .scripts import FAULTS, POLICIES, SCRIPTS, World


class Turns:
    """A wait of so many turns of the event loop, as part of a response."""

    def __init__(self, turns: int) -> None:
        self._turns = turns

    async def wait(self) -> None:
        for _ in range(self._turns):
            await anyio.lowlevel.checkpoint()


@tool
async def note(text: str) -> str:
    """Note it."""
    await anyio.lowlevel.checkpoint()
    return f"noted {text}"


COSTS = st.floats(0.001, 5)
STEPS = st.tuples(COSTS, st.integers(0, 9), st.sampled_from(["call"] * 8 + ["text", "fail"]))
RUNS = st.lists(st.lists(STEPS, min_size=1, max_size=12), min_size=1, max_size=8)
CANCELS = st.lists(st.one_of(st.none(), st.integers(0, 120)), min_size=8, max_size=8)


def response(number: int, cost: float, turns: int, what: str) -> list[Any]:
    usage = UsageReport(Usage(input_tokens=10, output_tokens=5, cost_usd=cost))
    wait = Turns(turns)
    match what:
        case "call":
            return [wait, call("note", text=str(number)), wait, usage]
        case "text":
            return [wait, say("The end."), usage]
        case _:
            return [say("half"), usage, wait, Unavailable("gone")]


async def run_all(budget: Budget, scripts: list[Any], cancels: list[int | None]) -> list[Run]:
    """All runs side by side, each with an engine of its own; some are cancelled after so many turns."""

    async def one(script: Any, cancel: int | None) -> Run:
        responses = [response(n, *step) for n, step in enumerate(script)]
        policy = Policy(limits=Limits(steps=50))
        engine = Engine(Scripted(*responses, "The end."), tools=[note], budget=budget, policy=policy)
        async with engine.start("go") as run:
            if cancel is not None:
                await Turns(cancel).wait()
                run.cancel()
            await run.wait()
        return run

    return await _together([*map(one, scripts, cancels)])


@given(RUNS, st.floats(0.5, 40), CANCELS)
def test_runs_side_by_side_never_exceed_it_by_more_than_one_step_each(
    scripts: list[Any], limit: float, cancels: list[int | None]
) -> None:
    budget = Budget(cost_usd=limit)
    runs = asyncio.run(run_all(budget, scripts, cancels))
    dearest = sum(max(cost for cost, _, _ in script) for script in scripts)
    assert (budget.spent.cost_usd or 0) <= limit + dearest + 1e-9
    assert budget.reserved == Usage(), "nothing stays reserved, however they ended"
    for run in runs:
        assert run.outcome.stop_reason != "internal_error", run.outcome.detail
        assert run.outcome.stop_reason != "cost_limit" or "budget_cost_usd" in run.outcome.limits
    assert sum(run.outcome.usage.cost_usd or 0 for run in runs) <= (budget.spent.cost_usd or 0) + 1e-9


@given(RUNS, st.floats(0.5, 40), st.lists(st.tuples(COSTS, st.integers(0, 9)), min_size=1, max_size=8))
def test_with_a_judge_after_each_step_they_never_exceed_it_by_more_than_one_request_each(
    scripts: list[Any], limit: float, verdicts: list[tuple[float, int]]
) -> None:
    budget = Budget(cost_usd=limit)
    answers = [[Turns(turns), say("NO"), UsageReport(Usage(cost_usd=cost))] for cost, turns in verdicts]

    async def one(script: Any) -> Outcome:
        responses = [response(n, *step) for n, step in enumerate(script)]
        judge = ModelJudge(Scripted(*answers * 50))
        policy = Policy(limits=Limits(steps=50), max_inner_steps=1)
        engine = Engine(
            Scripted(*responses, "The end."), tools=[note], budget=budget, policy=policy, hooks=Hooks(judge=judge)
        )
        return await engine.run("go")

    asyncio.run(_together([one(script) for script in scripts]))
    dearest = sum(max([cost for cost, _, _ in script] + [cost for cost, _ in verdicts]) for script in scripts)
    assert (budget.spent.cost_usd or 0) <= limit + dearest + 1e-9
    assert budget.reserved == Usage()


async def _together(runs: list[Any]) -> list[Any]:
    async with asyncio.timeout(60):
        return await asyncio.gather(*runs)


@given(st.integers(1, 8), st.integers(1, 12), st.floats(0.5, 30), st.lists(st.integers(0, 9), max_size=12))
def test_where_steps_cost_what_is_expected_all_together_exceed_it_by_less_than_one_step(
    count: int, steps: int, limit: float, turns: list[int]
) -> None:
    budget = Budget(cost_usd=limit)
    dollar = Prices({"scripted": Price(input=0, output=1_000_000 / EXPECTED_FIRST_OUTPUT)})

    async def one() -> Outcome:
        script = [[Turns(wait), call("note", text=str(n))] for n, wait in enumerate([*turns, *[1] * steps][:steps])]
        model = Scripted(*script, "The end.", usage=Usage(output_tokens=EXPECTED_FIRST_OUTPUT))
        return await Engine(model, tools=[note], budget=budget, prices=dollar).run("go")

    outcomes = asyncio.run(_together([one() for _ in range(count)]))
    assert (budget.spent.cost_usd or 0) < limit + 1 + 1e-9
    if any(outcome.stop_reason == "cost_limit" for outcome in outcomes):
        assert (budget.spent.cost_usd or 0) >= limit, "nobody is refused while something is left"


@settings(max_examples=80, deadline=None)
@given(SCRIPTS, POLICIES, FAULTS, st.floats(0, 1), st.integers(1, 40), st.integers(1, 40))
def test_a_run_with_a_budget_replays_without_it_and_goes_on_where_it_is_killed_to_an_end_that_replays_too(
    script: Any, policy: Policy, faults: Any, place: float, allowed: int, then: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "r.jsonl"
        budget = Budget(output_tokens=allowed)
        asyncio.run(World(script, policy, faults, budget=budget).engine.run("go", record=path))
        assert budget.reserved == Usage()
        a_replay_decides_the_same(path)
        lines = path.read_bytes().splitlines(keepends=True)
        kept = 2 + int(place * (len(lines) - 3))
        path.write_bytes(b"".join(lines[:kept]))
        answered = sum(b'"RESPONSE_FINISHED"' in line or b'"ATTEMPT_FAILED"' in line for line in lines[:kept])
        outcome = asyncio.run(_resumed(World(script[answered:], policy, budget=Budget(output_tokens=then)), path))
        assert outcome.stop_reason != "internal_error", outcome.detail
        a_replay_decides_the_same(path)


def a_replay_decides_the_same(path: Path) -> None:
    report = asyncio.run(replay(str(path)))
    assert report.same, [run.divergence for run in report.runs]
    assert [run.difference for run in report.runs if run.difference is not None] == []


async def _resumed(world: World, path: Path) -> Outcome:
    record = read_record(path)
    session = world.engine.session(record.header.session_id, record=path)
    session.load(record.runs)
    async with session.start_resumed() as run:
        return await run.wait()
