"""Many runs at once: a result for each, whoever fails, stalls or leaves."""

from __future__ import annotations

import asyncio
import gc
import os
from collections import Counter
from pathlib import Path
from typing import Any

import anyio
import pytest
from endstop import Engine, Fleet, Hooks, Observers, Runtime, Task, TaskResult, read_record, tool
from endstop.decision import Limits, Outcome, Policy, Usage, UserMessage, WrongUse
from endstop.decision.events import RunFinished
from endstop.providers import OpenAICompatible, RateLimited, Request, Scripted, call
from endstop.testing import FakeClock, settle
from hypothesis import given, settings
from hypothesis import strategies as st

from ..console import PATIENCE
from ..servers import STALL, ChatServer
from ..servers import call as sent_call


def prompt_of(request: Request) -> str:
    return next(message.text for message in request.messages if isinstance(message, UserMessage))


def done(request: Request) -> Any:
    return [call("finish_task", summary=f"{prompt_of(request)} is done")]


def stalls(request: Request) -> Any:
    return ["One moment", anyio.Event()]


def by_prompt(**scripts: Any) -> Scripted:
    """A provider that looks at the prompt's first word; all others are done at once."""
    return Scripted(lambda request: scripts.get(prompt_of(request).split()[0], done(request)))


def nothing_left() -> bool:
    return asyncio.all_tasks() == {asyncio.current_task()}


def sockets() -> int:
    """How many this process has open, where that can be seen."""
    folder = Path("/proc/self/fd")
    return sum("socket:" in os.readlink(one) for one in folder.iterdir() if one.is_symlink()) if folder.exists() else 0


# ---- results


async def test_results_come_as_they_finish_and_outcomes_stand_in_the_order_of_the_tasks() -> None:
    gates = [anyio.Event() for _ in range(3)]
    engine = Engine(Scripted(lambda request: [gates[int(prompt_of(request))], *done(request)]))
    seen = []
    async with engine.run_many(["0", "1", "2"], limit=3) as fleet:
        gates[2].set()
        async for result in fleet:
            seen.append(result.number)
            if result.number:
                gates[result.number - 1].set()
        assert (fleet.finished, fleet.total, fleet.running) == (3, 3, 0)
    assert seen == [2, 1, 0]
    assert [outcome.answer for outcome in fleet.outcomes] == ["0 is done", "1 is done", "2 is done"]
    assert nothing_left()


async def test_a_hundred_tasks_of_which_some_fail_one_crashes_and_one_stalls_until_it_is_cancelled() -> None:
    """Of the providers one refuses everything, one raises what no provider should, and one cannot even be opened."""

    class Closed(Scripted):
        async def __aenter__(self) -> None:
            raise WrongUse("no key")

        async def __aexit__(self, *exc: object) -> None:
            raise AssertionError("never entered")

    good = by_prompt(t13=stalls(None))  # type: ignore[arg-type]
    refuses = Scripted(lambda request: RateLimited("slow down"), model="refuses")
    crashes = Scripted(lambda request: ConnectionError, model="crashes")
    engine = Engine(good)
    others = {31: refuses, 47: crashes, 59: Closed("never", model="closed"), 77: refuses}
    tasks = [Task(f"t{number}", id=f"t{number}", provider=others.get(number)) for number in range(100)]
    results: dict[str, TaskResult] = {}
    async with asyncio.timeout(PATIENCE), engine.run_many(tasks, limit=100) as fleet:
        async for result in fleet:
            results[result.id] = result
            if len(results) == 99:
                assert fleet.running == 1
                break
    assert "t13" not in results
    statuses = {
        number: outcome.status for number, outcome in enumerate(fleet.outcomes) if outcome.status != "completed"
    }
    assert statuses == {13: "cancelled", 31: "failed", 47: "failed", 59: "failed", 77: "failed"}
    assert fleet.outcomes[13].usage.output_tokens > 0, "what it had said by then is counted"
    assert fleet.outcomes[59].detail == "WrongUse: no key"
    assert not results["t59"].started
    assert [outcome.answer for outcome in fleet.outcomes if outcome.status == "completed"] == [
        f"t{number} is done" for number in range(100) if number not in statuses
    ]
    assert nothing_left()


async def test_no_more_than_the_limit_run_at_once() -> None:
    running = most = 0

    @tool
    async def work() -> str:
        "Work."
        nonlocal running, most
        running += 1
        most = max(most, running)
        await settle(5)
        running -= 1
        return "ok"

    def respond(request: Request) -> Any:
        return [call("work")] if len(request.messages) == 2 else done(request)

    async with Engine(Scripted(respond), tools=[work]).run_many([str(n) for n in range(20)], limit=4) as fleet:
        summary = await fleet.wait()
    assert most == 4
    assert summary.total.statuses == {"completed": 20}


async def test_providers_take_turns_and_a_task_that_brings_its_own_takes_nobodys_turn() -> None:
    one, other, same_name, own = (Scripted(done, model=name) for name in ("one", "other", "one", "own"))
    tasks: list[str | Task] = ["a", Task("b", provider=own), "c", "d", "e"]
    async with Engine(one).run_many(tasks, providers=[one, other, same_name]) as fleet:
        results = sorted([result async for result in fleet], key=lambda result: result.number)
    assert [result.provider for result in results] == ["one", "own", "other", "one (2)", "one"]
    assert [len(provider.requests) for provider in (one, other, same_name, own)] == [2, 1, 1, 1]


async def test_a_task_can_bring_its_own_evaluator() -> None:
    tasks = [Task("a", evaluate=lambda looked_at: False), Task("b")]
    engine = Engine(Scripted(done), hooks=Hooks(evaluate=lambda looked_at: True))
    async with engine.run_many(tasks) as fleet:
        await fleet.wait()
    assert [outcome.verdict for outcome in fleet.outcomes] == ["failed", "passed"]


async def test_every_run_has_a_record_of_its_own_and_no_name_comes_twice(tmp_path: Path) -> None:
    tasks = [Task("a", id="../up and/away"), Task("b"), Task("c", provider=Scripted("never", model="x"))]
    engine = Engine(Scripted(done))
    paths: list[str] = []
    for _ in range(2):
        async with engine.run_many(tasks, record=tmp_path / "records") as fleet:
            paths += [result.record async for result in fleet if result.record]
    assert len(set(paths)) == len(list((tmp_path / "records").iterdir())) == 6
    assert all(read_record(path).runs[0].finished is not None for path in paths)
    assert any(Path(path).name.startswith("1-up-and-away-") for path in paths)


async def test_a_fleet_without_tasks_is_over_at_once() -> None:
    async with Engine(Scripted(done)).run_many([]) as fleet:
        summary = await fleet.wait()
    assert (fleet.outcomes, summary.total.tasks) == ((), 0)


# ---- leaving


async def test_leaving_early_cancels_what_runs_and_every_task_still_has_its_outcome() -> None:
    engine = Engine(by_prompt(stall=stalls(None)))  # type: ignore[arg-type]
    ended: Counter[str] = Counter()
    watched = Engine(
        engine.config.provider, observers=Observers(subscribers=[lambda event, run: _count(event, run.id, ended)])
    )
    async with watched.run_many(["quick", "stall 1", "stall 2", "never begun"], limit=2) as fleet:
        async for result in fleet:
            assert result.id == "1"
            while fleet.running < 2:
                await settle(1)
            await settle()
            break
    assert [outcome.status for outcome in fleet.outcomes] == ["completed", "cancelled", "cancelled", "cancelled"]
    assert fleet.outcomes[1].detail == "cancelled from outside: caller"
    assert fleet.outcomes[1].usage.output_tokens > 0
    assert fleet.outcomes[3].detail.startswith("cancelled before it began")
    assert fleet.outcomes[3].requests == 0
    assert sorted(ended.values()) == [1, 1, 1]
    assert [result.number async for result in fleet] == [3, 1, 2], "what was not read can still be read"
    assert nothing_left()


def _count(event: Any, run_id: str, ended: Counter[str]) -> None:
    ended[run_id] += isinstance(event, RunFinished)


async def test_a_cancelled_caller_is_told_so_after_all_runs_have_tidied_up() -> None:
    tidied = []

    @tool
    async def slow() -> str:
        "Take long, also to end."
        try:
            await asyncio.Event().wait()
        finally:
            with anyio.CancelScope(shield=True):
                await settle(20)
            tidied.append(True)
        return ""

    engine = Engine(Scripted(lambda request: [call("slow")]), tools=[slow])
    fleets: list[Fleet] = []

    async def caller() -> None:
        async with engine.run_many(["a", "b", "c", "d"], limit=3) as fleet:
            fleets.append(fleet)
            await fleet.wait()

    task = asyncio.create_task(caller())
    await settle()
    assert fleets[0].running == 3
    task.cancel()
    await settle(5)
    task.cancel()  # again, while it tidies up
    with pytest.raises(asyncio.CancelledError):
        await task
    assert tidied == [True] * 3
    assert [outcome.status for outcome in fleets[0].outcomes] == ["cancelled"] * 4
    assert nothing_left()


async def test_a_scope_around_the_fleet_ends_it_too() -> None:
    engine = Engine(Scripted(stalls))
    with anyio.CancelScope() as scope:
        async with engine.run_many(["a", "b"]) as fleet:
            await settle()
            scope.cancel()
            await fleet.wait()
    assert scope.cancelled_caught
    assert [outcome.status for outcome in fleet.outcomes] == ["cancelled"] * 2
    assert nothing_left()


async def test_what_the_block_raises_comes_out_as_it_is() -> None:
    fleet = Engine(Scripted(stalls)).run_many(["a"])
    with pytest.raises(KeyError, match="mine"):
        async with fleet:
            raise KeyError("mine")
    assert fleet.outcomes[0].status == "cancelled"
    assert nothing_left()


async def test_cancel_gives_a_result_for_every_task_instead_of_an_exception() -> None:
    async with Engine(Scripted(stalls)).run_many(["a", "b", "c"], limit=2) as fleet:
        await settle()
        fleet.cancel("timeout")
        results = [result async for result in fleet]
    assert sorted(result.number for result in results) == [0, 1, 2]
    assert {result.outcome.detail for result in results} == {
        "cancelled from outside: timeout",
        "cancelled before it began: timeout",
    }


async def test_a_run_whose_provider_never_opens_is_cancelled_as_well() -> None:
    class Opening(Scripted):
        async def __aenter__(self) -> None:
            await asyncio.Event().wait()

        async def __aexit__(self, *exc: object) -> None:
            raise AssertionError("never entered")

    tasks = [Task("a", provider=Opening("never", model="opening")), Task("b")]
    async with asyncio.timeout(PATIENCE), Engine(Scripted(done)).run_many(tasks) as fleet:
        async for result in fleet:
            assert result.id == "2", "it does not keep the others waiting"
            fleet.cancel()
            assert [result.id async for result in fleet] == ["1"]
    assert fleet.outcomes[0].status == "cancelled"
    assert nothing_left()


async def test_a_run_whose_own_task_is_cancelled_by_somebody_hurts_nobody() -> None:
    @tool
    async def kill() -> str:
        "Cancel the task of the run."
        for task in asyncio.all_tasks():
            if task.get_name().startswith("endstop run"):
                task.cancel()
        await asyncio.Event().wait()
        return ""

    provider = by_prompt(kill=[call("kill")])
    async with asyncio.timeout(PATIENCE), Engine(provider, tools=[kill]).run_many(["kill", "b", "c"], limit=1) as fleet:
        await fleet.wait()
    assert [outcome.status for outcome in fleet.outcomes] == ["cancelled", "completed", "completed"]


async def test_over_real_connections_nothing_is_left_either() -> None:
    before = sockets()
    async with (
        ChatServer([sent_call("finish_task", summary="done")], repeat=True) as quick,
        ChatServer(["One moment", STALL], repeat=True) as slow,
        asyncio.timeout(PATIENCE),
    ):
        good, stuck = OpenAICompatible("good", quick.url), OpenAICompatible("stuck", slow.url)
        bad = OpenAICompatible("bad", "http://127.0.0.1:9/v1")
        tasks = [f"task {n}" for n in range(30)]
        async with Engine(good).run_many(tasks, providers=[good, bad, stuck], limit=30) as fleet:
            read = [await anext(fleet) for _ in range(20)]
            await slow.stalled.wait()
        await slow.left.wait()
    kinds = Counter((result.provider, result.outcome.status) for result in read)
    assert kinds == {("good", "completed"): 10, ("bad", "failed"): 10}
    assert fleet.summary().total.statuses == {"completed": 10, "failed": 10, "cancelled": 10}
    await settle()
    assert sockets() == before
    assert nothing_left()


# ---- memory


async def test_without_keep_results_are_only_handed_on_and_wait_for_a_reader() -> None:
    provider = Scripted(done)
    async with Engine(provider).run_many([str(n) for n in range(30)], limit=3, keep=False) as fleet:
        await settle(500)
        assert len(provider.requests) <= 6, "three that nobody has read, and three that had begun"
        seen = 0
        async for _ in fleet:
            seen += 1
            if seen % 10 == 0:
                gc.collect()
                assert sum(isinstance(thing, TaskResult) for thing in gc.get_objects()) <= 7
        with pytest.raises(WrongUse, match="keep"):
            _ = fleet.outcomes
    assert (seen, fleet.summary().total.statuses) == (30, {"completed": 30})


# ---- the summary


async def test_the_summary_counts_by_provider() -> None:
    clock = FakeClock()

    def respond(request: Request) -> Any:
        step = len(request.messages) // 2
        wanted = int(prompt_of(request))
        return [call("work")] if step < wanted else done(request)

    @tool
    async def work() -> str:
        "Work for a second."
        await clock.advance(1)
        return str(clock.now())

    usage = Usage(input_tokens=100, output_tokens=10, cost_usd=0.01)
    good = Scripted(respond, model="good", usage=usage)
    bad = Scripted(lambda request: RateLimited("slow down"), model="bad")
    engine = Engine(
        good,
        tools=[work],
        runtime=Runtime(clock=clock),
        policy=Policy(limits=Limits(steps=5), inner_cancel=False, closing=False),
        hooks=Hooks(evaluate=lambda looked_at: looked_at.outcome.steps < 4),
    )
    tasks: list[str | Task] = [*"1249", Task("1", id="unlucky", provider=bad)]
    async with engine.run_many(tasks, limit=1) as fleet:
        summary = await fleet.wait()
    mine, theirs = summary.providers
    assert (mine.provider, mine.tasks, mine.runs) == ("good", 4, 4)
    assert mine.statuses == {"completed": 3, "exhausted": 1}
    assert mine.stop_reasons == {"completed": 3, "step_limit": 1}
    assert (mine.passed, mine.not_passed) == (2, 2)
    assert (mine.steps, mine.steps_mean, mine.steps_median) == (12, 3.0, 3.0)
    assert (mine.usage.input_tokens, mine.usage.output_tokens) == (1200, 120)
    assert mine.usage.cost_usd == pytest.approx(0.12)
    assert (mine.unpriced, mine.duration_ms, summary.elapsed_ms) == (0, 9000, 9000)
    assert (theirs.statuses, theirs.unpriced, theirs.usage.cost_usd) == ({"failed": 1}, 1, None)
    (failure,) = theirs.failures
    assert (failure.id, failure.stop_reason) == ("unlucky", "provider_error")
    assert "slow down" in failure.detail
    assert summary.total.tasks == 5
    told = str(summary).splitlines()
    assert len({line.index("  ") for line in told[:1]}) == 1
    assert [line.split()[0] for line in told] == ["provider", "good", "bad", "all", "failed:"]
    assert "unlucky (bad): provider_error" in told[-1]


# ---- wrong use


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"limit": 0}, "limit"),
        ({"limit": 1.5}, "limit"),
        ({"providers": []}, "providers"),
        ({"providers": [object()]}, "stream"),
        ({"tasks": "one string"}, r"\[prompt\]"),
        ({"tasks": ["a", " "]}, "task 2"),
        ({"tasks": [7]}, "task 1"),
        ({"tasks": [Task("a", id="x"), Task("b", id="x")]}, "'x'"),
        ({"tasks": [Task("a", id="2"), Task("b")]}, "'2'"),
        ({"record": __file__}, "record"),
    ],
)
async def test_wrong_use_is_refused_before_anything_runs(options: Any, word: str) -> None:
    provider = Scripted(done)
    with pytest.raises(WrongUse, match=word):
        Engine(provider).run_many(**{"tasks": ["a"], **options})
    assert provider.requests == []


async def test_a_fleet_happens_once_and_is_entered_before_it_is_read() -> None:
    fleet = Engine(Scripted(done)).run_many(["a"])
    with pytest.raises(WrongUse, match="async with"):
        await anext(fleet)
    with pytest.raises(WrongUse, match="1 tasks"):
        _ = fleet.outcomes
    async with fleet:
        pass
    with pytest.raises(WrongUse, match="before"):
        async with fleet:
            pass


# ---- what always holds

FATES = st.sampled_from(["done", "text", "refused", "crash", "stall", "loop", "ask", "closed", "empty"])


@settings(max_examples=60, deadline=None)
@given(st.lists(FATES, max_size=12), st.integers(1, 5), st.integers(0, 12), st.booleans())
def test_there_is_one_result_for_each_task_and_one_terminal_event_for_each_run(
    fates: list[str], limit: int, read: int, cancel: bool
) -> None:
    async def main() -> None:
        ended: Counter[str] = Counter()
        begun: set[str] = set()

        def watch(event: Any, run: Any) -> None:
            begun.add(run.id)
            ended[run.id] += isinstance(event, RunFinished)

        class Closed(Scripted):
            async def __aenter__(self) -> None:
                raise WrongUse("closed")

            async def __aexit__(self, *exc: object) -> None: ...

        provider = Scripted(_fate)
        engine = Engine(provider, observers=Observers(subscribers=[watch]), policy=Policy(limits=Limits(steps=3)))
        closed = Closed("never", model="closed")
        tasks = [Task(fate, provider=closed if fate == "closed" else None) for fate in fates]
        stalled = fates.count("stall")
        results = []
        async with asyncio.timeout(PATIENCE), engine.run_many(tasks, limit=limit) as fleet:
            reachable = len(fates) if stalled == 0 else 0
            for _ in range(min(read, reachable)):
                results.append(await anext(fleet))
            if stalled:
                await settle()
            if cancel:
                fleet.cancel()
        results += [result async for result in fleet]
        assert sorted(result.number for result in results) == list(range(len(fates)))
        outcomes: tuple[Outcome, ...] = fleet.outcomes
        assert [result.outcome for result in sorted(results, key=lambda r: r.number)] == list(outcomes)
        started = {result.outcome.run_id for result in results if result.started}
        assert started == begun
        assert ended == dict.fromkeys(begun, 1)
        assert fleet.summary().total.tasks == sum(fleet.statuses.values()) == len(fates)
        assert nothing_left()

    asyncio.run(main())


def _fate(request: Request) -> Any:
    match prompt_of(request):
        case "done":
            return done(request)
        case "text":
            return "Done."
        case "refused":
            return RateLimited("slow down")
        case "crash":
            return ConnectionError
        case "stall":
            return stalls(request)
        case "ask":
            return [call("nobody")]
        case "empty":
            return []
        case _:
            return [call("nobody", again=True)]
