"""The check of somebody else's agent, as adapters ask it: after each step, and before the agent ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from endstop import Met, NotMet, Until, WrongUse, read_record
from endstop.decision import GoOn, Limits, Policy, Stop, ToolCall, ToolResult
from endstop.decision import events as ev
from endstop.decision.until_rules import policy_for_until
from endstop.follow import Follower
from endstop.follow.agent_check import AgentCheck
from endstop.replay import replay


class Loop:
    """A loop with a tool `write` that changes the work, and `finish_task`. goal: calls of `write` that it takes."""

    def __init__(self, folder: Path, goal: int = 2, policy: Policy | None = None) -> None:
        self.record = folder / "run.jsonl"
        self.goal, self.written, self.checks, self.number = goal, 0, 0, 0
        self.folder = folder / "work"
        self.folder.mkdir()
        followed = policy_for_until(policy or Policy())
        self.follower = Follower(followed, completion=("finish_task",), record=self.record, session_id="s")
        self.check = AgentCheck(Until(self.look, folder=self.folder), str(self.folder), self.follower)
        self.follower.prompt("go")

    def look(self, run: Any) -> Met | NotMet:
        self.checks += 1
        return Met() if self.written >= self.goal else NotMet("too few", score=self.written, of=self.goal)

    def write(self) -> None:
        self.written += 1
        (self.folder / "work.txt").write_text("line\n" * self.written)

    async def step(self, name: str, result: str = "ok") -> Any:
        """A step with a call of this tool, and the decision after it."""
        self.number += 1
        self.follower.response("", [ToolCall(f"c{self.number}", name, f'{{"n": {self.number}}}')])
        if name == "write":
            self.write()
        self.follower.result(ToolResult(f"c{self.number}", name, result))
        return await self.check.decide()

    async def text(self) -> Any:
        """A step with a final text, and the decision after it."""
        self.follower.response("All done.", finish="stop")
        return await self.check.decide()

    @property
    def events(self) -> list[Any]:
        self.follower.close()
        (run,) = read_record(self.record).runs
        return list(run.events)


@pytest.fixture
def new_loop(tmp_path: Path) -> Iterator[Callable[..., Loop]]:
    """A loop, which is closed at the end."""
    with ExitStack() as stack:

        def opened(**options: Any) -> Loop:
            loop = Loop(tmp_path, **options)
            stack.callback(loop.follower.close)
            return loop

        yield opened


@pytest.fixture
def loop(new_loop: Callable[..., Loop]) -> Loop:
    return new_loop()


async def test_a_completion_too_early_is_rejected_after_its_result_and_one_in_time_ends_the_run(loop: Loop) -> None:
    assert await loop.check.start() is None
    await loop.step("write")
    told = await loop.step("finish_task", "noted")
    assert isinstance(told, GoOn)
    assert told.say == "Not accepted as complete: too few"
    await loop.step("write")
    ended = await loop.step("finish_task", "noted")
    assert isinstance(ended, Stop)
    assert ended.reason == "until_met"
    (rejected,) = [event for event in loop.events if isinstance(event, ev.CompletionRejected)]
    assert (rejected.call_id, rejected.reason, rejected.by) == ("c2", "too few", "until")
    result = next(one for one in loop.events if isinstance(one, ev.ToolCallResult) and one.call_id == "c2")
    assert (result.status, result.content) == ("rejected", "noted\nNot accepted as complete: too few")
    assert loop.checks == 3  # at the start, and at each of the two states that a claim was about
    assert (await replay(loop.record)).same


async def test_a_completion_that_its_own_tool_refuses_is_no_claim(loop: Loop) -> None:
    await loop.check.start()
    assert isinstance(await loop.step("finish_task", '{"continue": true, "reason": "no tests yet"}'), GoOn)
    (rejected,) = [event for event in loop.events if isinstance(event, ev.CompletionRejected)]
    assert rejected.by == "tool"


async def test_a_text_too_early_is_handed_back_and_unchanged_work_is_not_checked_again(loop: Loop) -> None:
    await loop.check.start()
    for _ in range(2):
        told = await loop.text()
        assert isinstance(told, GoOn)
        assert told.say == "Not accepted as complete: Nothing has changed since the start.\ntoo few"
    assert loop.checks == 1


async def test_the_newest_work_is_checked_before_a_limit_ends_the_run(new_loop: Callable[..., Loop]) -> None:
    loop = new_loop(goal=1, policy=Policy(limits=Limits(steps=1)))
    await loop.check.start()
    ended = await loop.step("write")
    assert isinstance(ended, Stop)
    assert ended.reason == "until_met"


async def test_an_agent_that_ends_by_its_own_rule_is_checked_once_more(new_loop: Callable[..., Loop]) -> None:
    loop = new_loop(goal=1)
    await loop.check.start()
    loop.follower.response("", [ToolCall("c1", "write", "{}")])
    loop.write()
    loop.follower.result(ToolResult("c1", "write", "ok"))
    await loop.check.settle()
    outcome = loop.follower.end()
    assert outcome is not None
    assert (outcome.stop_reason, outcome.work) == ("until_met", "checked")


async def test_work_that_is_right_at_the_start_leaves_nothing_to_do(new_loop: Callable[..., Loop]) -> None:
    loop = new_loop(goal=0)
    stop = await loop.check.start()
    assert stop is not None
    assert (stop.reason, loop.follower.running) == ("until_met", False)


async def test_a_command_that_cannot_be_executed_is_the_users_mistake(tmp_path: Path) -> None:
    follower = Follower(policy_for_until(Policy()))
    follower.prompt("go")
    with pytest.raises(WrongUse, match="Give a command that can be executed there"):
        await AgentCheck(Until("exit 127", folder=tmp_path), str(tmp_path), follower).start()


def test_a_run_that_goes_on_in_another_event_loop_is_checked_anew_there(loop: Loop) -> None:
    async def begin() -> None:
        await loop.check.start()
        await loop.step("write")

    asyncio.run(begin())  # a check was running, and was cancelled with its loop
    ended = asyncio.run(loop.step("write"))
    ended = ended if isinstance(ended, Stop) else asyncio.run(loop.text())
    assert isinstance(ended, Stop)
    assert ended.reason == "until_met"


async def test_a_preview_decides_nothing(loop: Loop) -> None:
    loop.follower.response("All done.", finish="stop")
    ahead = loop.follower.preview()
    assert isinstance(ahead, Stop)
    assert loop.follower.running
    assert loop.follower.preview() == ahead
