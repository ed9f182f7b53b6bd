"""Rows A5 and B1: a run that is ended from outside, at whatever point, is whole: its calls, its steps, its record."""

from __future__ import annotations

import asyncio
import gc
import warnings
from collections import Counter
from pathlib import Path

import pytest
from endstop import Engine, Hooks, Tool, read_record
from endstop.decision import Policy
from endstop.providers import LiteLLM, OpenAICompatible, Scripted, call

from .cut_short import broken_promises, cancels, endpoint, tools, turns_of

LONG = pytest.mark.long


@pytest.mark.parametrize("points", [200, pytest.param(10_000, marks=LONG)])
async def test_B1_a_cancel_at_any_point_leaves_no_call_without_a_result_and_begins_no_step(
    tmp_path: Path, points: int
) -> None:
    async with endpoint() as url:
        tally = await cancels(OpenAICompatible("m", url, api_key="none"), tmp_path, points, seed=points)
    print(dict(tally))
    assert not [said for said in tally if said.startswith("BROKEN")], tally
    assert tally["cancelled"] > points / 2, "most of them came before the end"


@LONG
async def test_B1_a_cancel_at_any_point_leaves_no_call_without_a_result_with_litellm(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # litellm's own, at being cancelled
        async with endpoint() as url:
            tally = await cancels(LiteLLM("openai/m", api_base=url, api_key="none"), tmp_path, 1_500, seed=7)
        gc.collect()  # coroutines that it never began complain when they go
    print(dict(tally))
    assert not [said for said in tally if said.startswith("BROKEN")], tally
    assert tally["cancelled"] > 750


def _shut_down_after(turns: int, path: Path) -> str | None:
    """A run in the background of a program that ends after so many turns of its event loop; how the run ended."""

    async def evaluate(looked_at: object) -> bool:
        for _ in range(20):
            await asyncio.sleep(0)
        return True

    def engine() -> Engine:
        script = [
            [call("look", n=1, id="a"), call("look", n=2, id="b")],
            [call("put", n=1, id="c"), call("look", n=2, id="d"), call("put", n=3, id="e")],
            [call("look", n=3, id="f"), call("finish_task", summary="done", id="g")],
        ]
        return Engine(Scripted(*script), tools=tools(), hooks=Hooks(evaluate=evaluate))

    async def background() -> None:
        async with engine().start("go", record=path) as run:
            await run.wait()

    async def program() -> None:
        kept = asyncio.ensure_future(background())
        for _ in range(turns):
            await asyncio.sleep(0)
        del kept

    async def whole() -> int:
        return await turns_of(engine(), path)

    if turns < 0:
        return str(asyncio.run(whole()))
    asyncio.run(program())
    if not path.exists() or b"RUN_STARTED" not in path.read_bytes():
        return None
    finished = read_record(path).runs[0].finished
    return None if finished is None else finished.outcome.stop_reason


@pytest.mark.parametrize("moments", [100, pytest.param(300, marks=LONG)])
def test_A5_the_end_of_the_event_loop_takes_nothing_back_and_leaves_a_whole_record(
    tmp_path: Path, moments: int
) -> None:
    path, tally = tmp_path / "r.jsonl", Counter[str]()
    whole = int(_shut_down_after(-1, path) or 0)
    assert whole > 50
    for moment in range(moments):
        path.unlink(missing_ok=True)
        ended = _shut_down_after(2 + moment * (whole + 10) // moments, path)
        if ended is None:
            assert not path.exists() or b"RUN_STARTED" not in path.read_bytes(), "it had begun, and has no end"
            continue
        tally[ended] += 1
        for broken in asyncio.run(broken_promises(path)):
            tally[f"BROKEN {broken}"] += 1
    print(dict(tally))
    assert not [said for said in tally if said.startswith("BROKEN")], tally
    assert min(tally["completed"], tally["cancelled"]) > moments / 10


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
    assert (finished.outcome.verdict, await broken_promises(path)) == ("not_run", [])
