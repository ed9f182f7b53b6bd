"""Races of whole runs: the first good completion wins, and all of them are accounted for."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import anyio
import pytest
from endstop import Engine, Hooks, Observers, read_record, tool
from endstop.decision import POLICIES, Limits, Policy, WrongUse
from endstop.decision.events import CancelRequested, RunFinished
from endstop.providers import OpenAICompatible, RateLimited, Request, Scripted, call
from endstop.testing import settle

from ..console import PATIENCE
from ..servers import STALL, ChatServer
from ..servers import call as sent_call

FINISH = call("finish_task", summary="done")


def model(name: str, *script: Any) -> Scripted:
    return Scripted(*script, model=name)


async def test_the_first_completion_wins_and_the_others_are_cancelled_and_counted(tmp_path: Path) -> None:
    never = anyio.Event()
    slow = model("slow", ["I am", never, FINISH])
    fast = model("fast", [FINISH])
    late = model("late", [call("nobody")], [never])
    async with asyncio.timeout(PATIENCE):
        race = await Engine(slow).race("go", [slow, fast, late], record=tmp_path)
    assert race.winner is race.results[1]
    assert [result.provider for result in race.results] == ["slow", "fast", "late"]
    assert [result.outcome.status for result in race.results] == ["cancelled", "completed", "cancelled"]
    assert race.results[0].outcome.usage.output_tokens > 0
    assert race.usage.input_tokens == sum(result.outcome.usage.input_tokens for result in race.results)
    cause = next(e for e in read_record(str(race.results[0].record)).runs[0].events if isinstance(e, CancelRequested))
    assert cause.cause == "race"
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_the_others_are_cancelled_before_a_slow_subscriber_of_the_winner_is_done() -> None:
    """Whoever only listens does not make anybody pay for more."""
    order: list[str] = []

    async def listen(event: Any, run: Any) -> None:
        if isinstance(event, RunFinished):
            order.append(event.outcome.status)
            if event.outcome.status == "completed":
                await cancelled.wait()

    @tool
    async def wait() -> str:
        "Wait."
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return ""

    cancelled = asyncio.Event()
    engine = Engine(model("fast", [FINISH]), tools=[wait], observers=Observers(subscribers=[listen]))
    async with asyncio.timeout(PATIENCE):
        race = await engine.race("go", [model("slow", [call("wait")]), engine.config.provider])
    assert [result.outcome.status for result in race.results] == ["cancelled", "completed"]
    assert order == ["completed", "cancelled"]


async def test_text_wins_where_text_completes_and_only_there() -> None:
    for policy, winner in ((Policy(), "talks"), (POLICIES["strict"], "works")):
        gate = anyio.Event()
        talks = model("talks", *["It is done."] * 3)
        works = model("works", [gate, FINISH])
        racing = asyncio.create_task(Engine(talks, policy=policy).race("go", [talks, works]))
        await settle()
        gate.set()
        race = await racing
        assert race.winner is not None
        assert race.winner.provider == winner


async def test_who_fails_or_is_exhausted_or_asks_does_not_win() -> None:
    gate = anyio.Event()
    fails = model("fails", RateLimited("slow down"))
    loops = model("loops", *[[call("nobody")]] * 9)
    works = model("works", [gate, FINISH])
    engine = Engine(works, policy=Policy(limits=Limits(steps=2), closing=False))
    racing = asyncio.create_task(engine.race("go", [fails, loops, works]))
    await settle()
    gate.set()
    race = await racing
    assert race.winner is not None
    assert race.winner.provider == "works"
    assert [result.outcome.status for result in race.results] == ["failed", "exhausted", "completed"]


async def test_if_nobody_completes_there_is_no_winner() -> None:
    fails, loops = model("fails", RateLimited("slow down")), model("loops", *[[call("nobody")]] * 9)
    race = await Engine(fails, policy=Policy(limits=Limits(steps=2), closing=False)).race("go", [fails, loops])
    assert race.winner is None
    assert [result.outcome.stop_reason for result in race.results] == ["provider_error", "step_limit"]


async def test_a_completion_that_fails_its_evaluation_does_not_win_while_others_run() -> None:
    gate = anyio.Event()
    hasty = model("hasty", [call("finish_task", summary="bad")])
    thorough = model("thorough", [gate, call("finish_task", summary="good")])

    async def listen(event: Any, run: Any) -> None:
        if isinstance(event, RunFinished):
            gate.set()  # the hasty one is judged: only now may the other one complete

    engine = Engine(
        hasty,
        hooks=Hooks(evaluate=lambda looked_at: looked_at.outcome.answer == "good"),
        observers=Observers(subscribers=[listen]),
    )
    async with asyncio.timeout(PATIENCE):
        race = await engine.race("go", [hasty, thorough])
    assert race.winner is race.results[1]
    assert [result.outcome.verdict for result in race.results] == ["failed", "passed"]


async def test_if_every_completion_fails_its_evaluation_the_first_of_them_wins() -> None:
    gate = anyio.Event()
    one, other = model("one", [gate, FINISH]), model("other", [FINISH])
    fails = model("fails", RateLimited("slow down"))

    def evaluate(looked_at: Any) -> bool:
        gate.set()
        return False

    race = await Engine(one, hooks=Hooks(evaluate=evaluate)).race("go", [one, other, fails])
    assert race.winner is race.results[1]
    assert race.winner.outcome.verdict == "failed"


async def test_compare_lets_all_of_them_run_to_their_end_and_the_first_one_wins() -> None:
    gate = anyio.Event()
    slow, fast = model("slow", [gate, FINISH]), model("fast", [FINISH])
    racing = asyncio.create_task(Engine(slow).race("go", [slow, fast], compare=True))
    await settle(500)
    gate.set()
    race = await racing
    assert race.winner is race.results[1]
    assert [result.outcome.status for result in race.results] == ["completed", "completed"]


async def test_one_provider_can_race_against_itself() -> None:
    provider = Scripted(lambda request: [FINISH], model="m")
    race = await Engine(provider).race("go", [provider, provider])
    assert [result.id for result in race.results] == ["m", "m (2)"]


async def test_a_cancelled_caller_ends_the_race() -> None:
    ended: Counter[str] = Counter()

    def watch(event: Any, run: Any) -> None:
        ended[run.id] += isinstance(event, RunFinished)

    def stalls(request: Request) -> Any:
        return ["One", anyio.Event()]

    provider = Scripted(stalls)
    racing = asyncio.create_task(
        Engine(provider, observers=Observers(subscribers=[watch])).race("go", [provider, provider])
    )
    await settle()
    racing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await racing
    assert sorted(ended.values()) == [1, 1]
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_race_needs_two() -> None:
    provider = model("m", [FINISH])
    for given in ([], [provider]):
        with pytest.raises(WrongUse, match="two models"):
            await Engine(provider).race("go", given)
    assert provider.requests == []


async def test_the_losers_connection_is_closed() -> None:
    async with (
        ChatServer([sent_call("finish_task", summary="done")]) as quick,
        ChatServer(["One moment", STALL]) as slow,
        asyncio.timeout(PATIENCE),
    ):
        fast, stuck = OpenAICompatible("fast", quick.url), OpenAICompatible("stuck", slow.url)
        race = await Engine(fast, policy=Policy()).race("go", [stuck, fast])
        assert race.winner is race.results[1]
        await slow.left.wait()
