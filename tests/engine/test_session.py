"""Sessions: one run at a time, by a stated rule."""

import asyncio

import anyio
import pytest
from endstop import Engine
from endstop.decision import UserMessage, WrongUse
from endstop.providers import Scripted, call, say
from endstop.tools import ask_user


async def test_a_second_run_on_a_busy_session_is_refused() -> None:
    stall = anyio.Event()
    session = Engine(Scripted([say("a"), stall])).session()
    async with session.start("one") as run:
        with pytest.raises(WrongUse, match="is busy"):
            await session.run("two")
        stall.set()
        assert (await run.wait()).answer == "a"


async def test_a_second_run_on_a_queueing_session_waits_for_its_turn() -> None:
    stall = anyio.Event()
    session = Engine(Scripted([say("a"), stall], "b", "c")).session(busy="queue")
    tasks = [asyncio.create_task(session.run(prompt)) for prompt in ("one", "two", "three")]
    for _ in range(20):
        await asyncio.sleep(0)
    assert not any(task.done() for task in tasks)
    stall.set()
    assert [outcome.answer for outcome in await asyncio.gather(*tasks)] == ["a", "b", "c"]
    users = [m.text for m in session.transcript.messages if isinstance(m, UserMessage)]
    assert users == ["one", "two", "three"]


async def test_a_queued_run_whose_caller_gave_up_never_happens() -> None:
    stall = anyio.Event()
    provider = Scripted([say("a"), stall], "b")
    session = Engine(provider).session(busy="queue")
    async with session.start("one") as run:
        waiting = asyncio.create_task(session.run("two"))
        for _ in range(10):
            await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        stall.set()
        await run.wait()
    assert (await session.run("three")).answer == "b"
    assert len(provider.requests) == 2


async def test_an_answer_to_no_open_question_is_refused_with_those_that_are() -> None:
    session = Engine(Scripted([call("ask_user", question="?", id="q1")]), presets=[ask_user]).session()
    with pytest.raises(WrongUse, match="open: none"):
        await session.answer("q1", "x")
    await session.run("go")
    with pytest.raises(WrongUse, match="open: q1"):
        await session.answer("q2", "x")


async def test_a_run_happens_once_and_has_no_outcome_before_its_end() -> None:
    run = Engine(Scripted([say("a"), anyio.Event()])).start("go")
    async with run:
        with pytest.raises(WrongUse, match="not finished"):
            _ = run.outcome
    with pytest.raises(WrongUse, match="happens once"):
        async with run:
            pass


async def test_leaving_the_block_ends_a_run_that_is_still_going() -> None:
    async with Engine(Scripted([say("a"), anyio.Event()])).start("go") as run:
        pass
    assert run.outcome.status == "cancelled"
