"""The run's own task, and all the ways in which somebody else may end it."""

import asyncio
import contextvars
from typing import Any

import anyio
import pytest
from endstop import Engine, Run, Runtime, tool
from endstop.decision import AnyChunk, Outcome, TextDelta, WrongUse
from endstop.decision.events import AttemptFailed, RunFinished, TextMessageContent
from endstop.providers import Interrupted, RateLimited, Scripted, Unauthorized, call, say


async def start(engine: Engine) -> tuple[Run, asyncio.Task[Outcome]]:
    """A run that has begun to stream, and the task that waits for it."""
    run = engine.start("go")

    async def hold() -> Outcome:
        async with run:
            return await run.wait()

    task = asyncio.create_task(hold())
    while not run.facts.requests:
        await asyncio.sleep(0)
    return run, task


async def test_a_caller_that_is_cancelled_again_and_again_still_leaves_a_tidy_run() -> None:
    run, task = await start(Engine(Scripted([say("a"), anyio.Event()])))
    for _ in range(5):
        task.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (run.outcome.status, run.outcome.detail) == ("cancelled", "cancelled from outside: caller")


async def test_a_run_inside_a_cancelled_scope_is_tidied_up() -> None:
    run, task = None, None
    with anyio.CancelScope() as scope:
        async with Engine(Scripted([say("a"), anyio.Event()])).start("go") as run:
            async for event in run:
                if isinstance(event, TextMessageContent):
                    scope.cancel()
    assert task is None
    assert run is not None
    assert run.outcome.status == "cancelled"


async def test_the_events_of_a_tree_of_runs_can_be_read_once_it_has_been_entered() -> None:
    with anyio.fail_after(10), pytest.raises(WrongUse, match="enter it, and read its events inside"):
        await anext(Engine(Scripted("Done.")).start("go").tree_events())


async def test_who_enters_a_run_is_woken_if_its_task_is_cancelled_before_its_first_turn() -> None:
    run = Engine(Scripted("Done.")).start("go")
    entering = asyncio.create_task(run.__aenter__())
    await asyncio.sleep(0)  # the task of the run is there, and has not had its turn
    (task,) = [task for task in asyncio.all_tasks() if task.get_name() == f"endstop run {run.id}"]
    task.cancel()
    done, _ = await asyncio.wait([entering], timeout=10)
    assert done == {entering}
    assert entering.cancelled()


async def test_events_may_be_read_and_left_in_a_task_of_their_own() -> None:
    """An async generator that is closed in another task must not hold a scope."""
    run, task = await start(Engine(Scripted([say("a"), anyio.Event()])))
    reader = run.events()
    assert (await anext(reader)).seq == 1  # type: ignore[union-attr]
    await asyncio.create_task(reader.aclose())  # type: ignore[attr-defined]
    run.cancel("enough")
    assert (await task).status == "cancelled"


async def test_a_tool_that_swallows_the_cancellation_does_not_go_on() -> None:
    swallowed: list[str] = []

    @tool
    async def stubborn() -> str:
        """Be stubborn."""
        try:
            await anyio.sleep_forever()
        except asyncio.CancelledError:
            swallowed.append("once")
        return "I go on"

    run, task = await start(Engine(Scripted([call("stubborn")], "never"), tools=[stubborn]))
    while not run.facts.calls:
        await asyncio.sleep(0)
    run.cancel("disconnect")
    outcome = await task
    assert swallowed == ["once"]
    assert (outcome.status, outcome.steps) == ("cancelled", 1)


async def test_shutting_the_loop_down_ends_a_run_as_cancelled_with_its_terminal_event() -> None:
    run, task = await start(Engine(Scripted([say("a"), anyio.Event()])))
    inner = next(t for t in asyncio.all_tasks() if t.get_name() == f"endstop run {run.id}")
    inner.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert run.outcome.detail == "cancelled from outside: shutdown"
    assert isinstance([e async for e in run][-1], RunFinished)


async def test_tools_see_the_context_variables_of_the_caller() -> None:
    user: contextvars.ContextVar[str] = contextvars.ContextVar("user")

    @tool
    async def who() -> str:
        """Who asks?"""
        return user.get()

    user.set("ada")
    session = Engine(Scripted([call("who")], "done"), tools=[who]).session()
    await session.run("go")
    assert any(getattr(m, "content", "") == "ada" for m in session.transcript.messages)


@pytest.mark.parametrize(
    ("error", "kind"),
    [(RateLimited("slow", status=429, retry_after=3), "rate_limit"), (Unauthorized("no", status=401), "auth")],
)
async def test_a_providers_error_is_an_outcome_and_not_an_exception(error: Exception, kind: str) -> None:
    async with Engine(Scripted(error)).start("go") as run:
        events = [e async for e in run]
    assert (run.outcome.status, run.outcome.stop_reason) == ("failed", "provider_error")
    assert str(error) in run.outcome.detail
    (failed,) = [e for e in events if isinstance(e, AttemptFailed)]
    assert (failed.kind, failed.status) == (kind, error.status)  # type: ignore[attr-defined]


async def test_a_stream_that_breaks_off_inside_a_call_never_runs_it_and_leaves_a_valid_transcript() -> None:
    ran: list[str] = []

    @tool
    async def work(path: str) -> str:
        """Work."""
        ran.append(path)
        return path

    head: list[Any] = call("work", path="a", pieces=2)[:2]
    session = Engine(Scripted([head, Interrupted("cut")], "fine"), tools=[work]).session()
    assert (await session.run("go")).stop_reason == "provider_error"
    assert ran == []
    assert (await session.run("again")).answer == "fine"


async def test_a_stream_without_a_finish_reason_counts_as_broken_off() -> None:
    class Silent:
        model = "silent"

        def stream(self, request: object) -> Any:
            from contextlib import asynccontextmanager

            @asynccontextmanager
            async def opened() -> Any:
                async def chunks() -> Any:
                    piece: AnyChunk = TextDelta("half an ans")
                    yield piece

                yield chunks()

            return opened()

    outcome = await Engine(Silent()).run("go")
    assert outcome.stop_reason == "provider_error"
    assert "without a finish reason" in outcome.detail


async def test_a_bug_inside_is_an_internal_error_with_its_cause_and_never_a_hang() -> None:
    def broken(facts: object, policy: object) -> Any:
        if facts.steps:  # type: ignore[attr-defined]
            raise ZeroDivisionError("in a user's own decide")

    outcome = await Engine(Scripted("hi"), runtime=Runtime(decide=broken)).run("go")
    assert (outcome.status, outcome.stop_reason) == ("failed", "internal_error")
    assert "ZeroDivisionError: in a user's own decide" in outcome.detail


async def test_a_response_that_was_cancelled_in_the_middle_is_never_counted_as_nothing() -> None:
    run, task = await start(Engine(Scripted([say("some words of an answer"), anyio.Event()])))
    while not any(isinstance(e, TextMessageContent) for e in run.bus._ring):
        await asyncio.sleep(0)
    run.cancel("disconnect")
    outcome = await task
    assert outcome.usage.output_tokens > 0
    assert outcome.usage.input_tokens > 0
    assert outcome.usage.estimated
