"""Rows A5 and B1: a run that is ended from outside, at whatever point, is whole: its calls, its steps, its record.

`make faults` tries 10,000 points and more: of a script, over HTTP in four wire formats, and of litellm.
"""

from __future__ import annotations

import asyncio
import gc
import warnings
from pathlib import Path

import pytest
from endstop import Engine, Hooks, Tool, read_record
from endstop.decision import Policy
from endstop.providers import Scripted, call
from endstop.providers.litellm import _import
from endstop.testing.faults import FaultReport, check_cancel_points
from endstop.testing.faults.invariants import broken_in_file

from .cut_short import AGENTS, LITELLM, WIRES, Wire, over_http, tools

LONG = pytest.mark.long
UNSERVED = pytest.mark.filterwarnings("ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning")
"""asyncio leaks a connection that a server has accepted in the turn in which the loop ends."""


def assert_whole(report: FaultReport, points: int) -> None:
    """Every point was tried, nothing was broken, and runs were ended before and after their completion."""
    print(report)
    assert report.ok, report
    assert report.tried >= points
    assert min(report.ends["cancelled"], report.ends["completed"]) > report.tried / 50


def scripted(turns: int) -> Engine:
    """An engine for a run of three steps with evaluation, whose tools take so many turns of the loop."""

    async def evaluate(looked_at: object) -> bool:
        for _ in range(2 * turns):
            await asyncio.sleep(0)
        return True

    script = [
        [call("look", n=1, id="a"), call("look", n=2, id="b")],
        [call("put", n=1, id="c"), call("look", n=2, id="d"), call("put", n=3, id="e")],
        [call("look", n=3, id="f"), call("finish_task", summary="done", id="g")],
    ]
    return Engine(Scripted(*script), tools=tools(turns), hooks=Hooks(evaluate=evaluate))


@pytest.mark.parametrize(("turns", "points"), [(4, 300), pytest.param(300, 10_000, marks=LONG)])
def test_A5_B1_a_cancel_at_every_point_in_each_way_leaves_a_whole_record(turns: int, points: int) -> None:
    report = check_cancel_points(lambda record: scripted(turns).start("go", record=record))
    assert_whole(report, points)


def try_agents(wire: Wire, points: int | None, turns: int = 8) -> int:
    """How many points were tried of runs over this wire, none of which was broken."""
    tried = 0
    for name, agent in AGENTS.items():
        report = check_cancel_points(over_http(wire, agent, turns), points=points)
        print(name, report)
        assert report.ok, report
        assert min(report.ends["cancelled"], report.ends["completed"]) > 0 or points
        tried += report.tried
    return tried


@UNSERVED
@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(("points", "at_least"), [(2, 60), pytest.param(None, 2_500, marks=LONG)])
def test_B1_a_cancel_over_http_leaves_no_call_without_a_result_and_begins_no_step(
    wire: str, points: int | None, at_least: int
) -> None:
    assert try_agents(WIRES[wire], points) >= at_least


@UNSERVED
def test_B1_a_cancel_in_the_first_turns_leaves_no_server_listening() -> None:
    report = check_cancel_points(over_http(WIRES["chat"], AGENTS["fallback"]), points=range(1, 7))
    assert report.ok, report


@LONG
@UNSERVED
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # litellm keeps sessions of ended loops
@pytest.mark.parametrize("wire", LITELLM)
def test_B1_a_cancel_at_any_point_leaves_no_call_without_a_result_with_litellm(
    wire: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("endstop.testing.faults.simulated_loop.WORKING_SECONDS", 30.0)  # for its first use of a thread
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # litellm's own, at being cancelled
        litellm = _import()  # by the provider, as it has to be, and not while a point is tried: it can take a minute
        tried = try_agents(LITELLM[wire], None)
        litellm.in_memory_llm_clients_cache.flush_cache()
        gc.collect()  # what it never began or closed complains when it goes
    assert tried >= 5_000


async def test_B1_a_policy_that_goes_on_after_a_completion_is_cancelled_like_any_other() -> None:
    begun = asyncio.Event()

    async def look(n: int) -> str:
        begun.set()
        await asyncio.Event().wait()
        return ""

    policy = Policy(rules=("go_on",), guards=())
    script = [[call("finish_task", summary="done")], [call("look", n=1)]]
    engine = Engine(Scripted(*script), tools=[Tool(look, description="Look.")], policy=policy)
    async with engine.start("go") as run:
        await asyncio.wait_for(begun.wait(), 30)
        run.cancel()
        assert (await asyncio.wait_for(run.wait(), 30)).status == "cancelled"


async def test_A5_a_completion_that_was_accepted_stays_the_outcome_when_the_runs_own_task_is_cancelled(
    tmp_path: Path,
) -> None:
    path, evaluating = tmp_path / "r.jsonl", asyncio.Event()

    async def evaluate(looked_at: object) -> bool:
        evaluating.set()
        await asyncio.Event().wait()
        return True

    engine = Engine(Scripted([call("finish_task", summary="done")]), hooks=Hooks(evaluate=evaluate))
    task = asyncio.create_task(engine.run("go", record=path))
    await asyncio.wait_for(evaluating.wait(), 30)
    (own,) = [task for task in asyncio.all_tasks() if task.get_name().startswith("endstop run")]
    own.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    finished = read_record(path).runs[0].finished
    assert finished is not None
    assert (finished.outcome.status, finished.outcome.answer) == ("completed", "done")
    assert (finished.outcome.verdict, await broken_in_file(path)) == ("not_run", [])
