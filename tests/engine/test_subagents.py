"""Sub-agents: runs of one engine as calls of a tool of another."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from endstop import Budget, Engine, Tool, read_record, this_call, tool
from endstop.decision import (
    Limits,
    Policy,
    Price,
    ToolResult,
    Usage,
    UsageReport,
    UserMessage,
    WrongUse,
)
from endstop.decision import events as ev
from endstop.providers import LiteLLM, Prices, Request, Scripted, call, say
from endstop.records.files import find_records
from endstop.replay import replay
from endstop.session import Session
from endstop.testing import FakeClock, check_transcript, settle
from endstop.tools import finish_task

from ..engine_options import grouped
from ..record_lines import lines_before
from .payer import by_step

DONE: list[str] = []
"""What `write` has done, in any process of a test."""


@tool
async def write(path: str) -> str:
    """Write."""
    DONE.append(path)
    return f"wrote {path}"


@tool(reads=True)
async def look(at: str) -> str:
    """Look."""
    return f"seen {at}"


def paid(dollars: float) -> UsageReport:
    return UsageReport(Usage(input_tokens=10, output_tokens=5, cost_usd=dollars))


def child(*responses: Any, tools: tuple[Tool, ...] = (write, look), **options: Any) -> Engine:
    script = responses or ([call("write", path="a"), paid(0.5)], [say("It is written."), paid(0.25)])
    return Engine(by_step(*script), tools=tools, **options)


def parent(sub: Tool, *responses: Any, **options: Any) -> Engine:
    script = responses or ([call("helper", id="h1", prompt="Write it."), paid(1)], [say("All done."), paid(1)])
    return Engine(by_step(*script), tools=[sub], **grouped(**options))


def as_helper(engine: Engine, **options: Any) -> Tool:
    return engine.as_tool("helper", "Helps with one task.", **options)


def events(path: Path, kind: type, run: int = -1) -> list[Any]:
    return [event for event in read_record(path).runs[run].events if isinstance(event, kind)]


def result(outcome_of: Session | Path) -> str:
    (only,) = events(outcome_of, ev.ToolCallResult)  # type: ignore[arg-type]
    return str(only.content)


# ---- the call


async def test_a_call_is_a_run_and_its_answer_is_the_result(tmp_path: Path) -> None:
    record = tmp_path / "run.jsonl"
    outcome = await parent(as_helper(child())).run("go", record=record)
    assert (outcome.status, outcome.answer, outcome.steps, outcome.requests) == ("completed", "All done.", 2, 2)
    (answered,) = events(record, ev.ToolCallResult)
    assert (answered.status, answered.content) == ("ok", "It is written.")


async def test_usage_and_cost_are_part_of_the_outcome_and_shown_apart() -> None:
    outcome = await parent(as_helper(child())).run("go")
    assert (outcome.usage.input_tokens, outcome.usage.output_tokens, outcome.usage.cost_usd) == (40, 20, 2.75)
    assert outcome.subagents is not None
    assert (outcome.subagents.runs, outcome.subagents.requests) == (1, 2)
    assert (outcome.subagents.usage.input_tokens, outcome.subagents.usage.cost_usd) == (20, 0.75)


async def test_a_run_without_sub_agents_says_nothing_of_them() -> None:
    assert (await Engine(Scripted("hi")).run("go")).subagents is None


async def test_the_runs_are_linked_and_the_records_lie_beside_each_other(tmp_path: Path) -> None:
    record = tmp_path / "run.jsonl"
    outcome = await parent(as_helper(child())).run("go", record=record)
    (started,) = events(record, ev.SubagentStarted)
    beside = read_record(tmp_path / started.record).runs[0]
    assert Path(started.record).parent == Path("run.subagents")
    assert beside.started.parent == ev.ParentCall(session_id=outcome.session_id, run_id=outcome.run_id, call_id="h1")
    assert (beside.started.run_id, beside.started.session_id) == (started.run_id, started.session_id)
    assert (started.call_id, started.name, started.model) == ("h1", "helper", "scripted")
    assert find_records([tmp_path]) == [record]


async def test_without_a_record_of_the_parent_the_sub_agent_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = await parent(as_helper(child())).run("go")
    assert outcome.subagents is not None
    assert not list(tmp_path.iterdir())


async def test_the_prompt_can_be_made_of_arguments_of_ones_own() -> None:
    def order(topic: str, depth: int = 1) -> str:
        """topic: What it is about."""
        return f"Find {topic}, {depth} deep."

    inner = Scripted("found")
    helper = as_helper(Engine(inner), prompt=order)
    assert set(helper.spec.parameters["properties"]) == {"topic", "depth"}
    await parent(helper, [call("helper", topic="bees", depth=2)], "done").run("go")
    assert UserMessage("Find bees, 2 deep.") in inner.requests[0].messages


async def test_sub_agents_of_sub_agents_are_counted_once(tmp_path: Path) -> None:
    middle = child([call("helper", prompt="deeper"), paid(0.1)], [say("so."), paid(0.1)], tools=(as_helper(child()),))
    record = tmp_path / "run.jsonl"
    outcome = await parent(as_helper(middle)).run("go", record=record)
    assert outcome.usage.cost_usd == pytest.approx(2 + 0.2 + 0.75)
    assert outcome.subagents is not None
    assert (outcome.subagents.runs, outcome.subagents.requests) == (1, 4)
    assert len(list(tmp_path.rglob("*.jsonl"))) == 3


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ([[call("look", at="a"), paid(0)]] * 40, "helper did not complete its task: exhausted (stuck): "),
        ([RuntimeError("boom")], "helper did not complete its task: failed (internal_error): "),
    ],
)
async def test_a_sub_agent_that_does_not_complete_gives_an_error_that_says_how_it_ended(
    script: list[Any], says: str
) -> None:
    got: list[Any] = []
    engine = parent(as_helper(child(*script, tools=(look,))))
    async with engine.start("go") as run:
        async for event in run:
            if isinstance(event, ev.ToolCallResult):
                got.append(event)
    assert run.outcome.status == "completed"
    assert [one.status for one in got] == ["error"]
    assert says in got[0].content


async def test_a_prompt_that_is_blank_is_an_error_for_the_model() -> None:
    engine = parent(as_helper(child()), [call("helper", prompt=" ")], "done")
    session = engine.session()
    assert (await session.run("go")).status == "completed"
    (answer,) = [m for m in session.transcript.messages if isinstance(m, ToolResult)]
    assert (answer.status, answer.content) == ("error", "helper: the prompt is empty: say what is to be done")


def test_a_limit_on_cost_needs_the_price_of_the_sub_agents_model() -> None:
    helper = as_helper(Engine(LiteLLM("nobody/knows")))
    with pytest.raises(WrongUse, match="the price of model 'nobody/knows' is not known"):
        Engine(Scripted("x"), tools=[helper], policy=Policy(limits=Limits(cost_usd=1)))
    nested = as_helper(Engine(Scripted("x"), tools=[helper]))
    with pytest.raises(WrongUse, match="the price of model 'nobody/knows' is not known"):
        Engine(Scripted("x"), tools=[nested.renamed("other")], budget=Budget(cost_usd=1))


def test_parallel_is_for_tools_that_do_not_end_a_run() -> None:
    with pytest.raises(WrongUse, match="parallel=True is for tools of kind 'ordinary'"):
        tool(kind="completion", parallel=True)(write.function)


# ---- at the same time


class Meeting:
    """A provider each of whose requests waits until `many` of them are there."""

    model = "meeting"

    def __init__(self, many: int) -> None:
        self._all = anyio.Event()
        self._left = many
        self._scripted = Scripted(self._response)
        self.stream = self._scripted.stream

    def _response(self, request: Request) -> Any:
        self._left -= 1
        if self._left == 0:
            self._all.set()
        return [self._all, say(f"met: {request.messages[-1].text}")]


async def test_several_calls_of_one_response_run_at_the_same_time_and_keep_their_order() -> None:
    helper = as_helper(Engine(Meeting(3)))
    calls = [call("helper", prompt=word) for word in ("one", "two", "three")]
    session = parent(helper, calls, "done").session()
    with anyio.fail_after(60):
        outcome = await session.run("go")
    check_transcript(session.transcript.messages)
    answers = [m.content for m in session.transcript.messages if isinstance(m, ToolResult)]
    assert answers == ["met: one", "met: two", "met: three"]
    assert outcome.subagents is not None
    assert outcome.subagents.runs == 3


async def test_other_calls_wait_for_sub_agents_before_them_and_sub_agents_for_calls_before_them() -> None:
    order: list[str] = []

    @tool
    async def edit(name: str) -> str:
        """Edit."""
        order.append(name)
        return "edited"

    @tool(reads=True)
    async def read(name: str) -> str:
        """Read."""
        await settle(3)
        order.append(name)
        return "read"

    @tool(parallel=True)
    async def helper(name: str) -> str:
        """Help."""
        order.append(f"{name} begins")
        await settle()
        order.append(f"{name} ends")
        return "helped"

    calls = [
        call("read", name="read 1"),
        call("helper", name="a"),
        call("helper", name="b"),
        call("read", name="read 2"),
        call("helper", name="c"),
        call("edit", name="edit"),
    ]
    await Engine(by_step(calls, "done"), tools=[edit, read, helper]).run("go")
    assert order == ["read 1", "a begins", "b begins", "a ends", "b ends", "read 2", "c begins", "c ends", "edit"]


async def test_tree_events_shows_the_events_of_both_each_with_its_run() -> None:
    engine = parent(as_helper(child()))
    seen: list[tuple[str, type]] = []
    async with engine.start("go") as run:
        async for of, event in run.tree_events():
            seen.append((of.id, type(event)))
        (below,) = run.children.values()
    assert [kind for of, kind in seen if of == run.id].count(ev.RunFinished) == 1
    theirs = [kind for of, kind in seen if of == below.id]
    assert (theirs[0], theirs[-1], theirs.count(ev.StepStarted)) == (ev.RunStarted, ev.RunFinished, 2)
    assert below.outcome.answer == "It is written."


# ---- ended together


class Hanging:
    """A sub-agent that hangs in its tool; `begun` is set when it does."""

    def __init__(self) -> None:
        self.begun = anyio.Event()
        self.cancelled = False

        @tool
        async def hang() -> str:
            """Hang."""
            self.begun.set()
            try:
                await anyio.sleep_forever()
            except asyncio.CancelledError:
                self.cancelled = True
                raise

        self.engine = Engine(by_step([call("hang"), paid(0.5)]), tools=[hang])


def ended(folder: Path) -> ev.RunFinished:
    (path,) = folder.rglob("helper-*.jsonl")
    finished = read_record(path).runs[0].finished
    assert finished is not None
    return finished


async def test_a_cancelled_parent_cancels_its_sub_agent_whose_usage_is_counted(tmp_path: Path) -> None:
    hanging = Hanging()
    async with parent(as_helper(hanging.engine)).start("go", record=tmp_path / "run.jsonl") as run:
        await hanging.begun.wait()
        run.cancel("disconnect")
        outcome = await run.wait()
    assert (outcome.status, outcome.usage.cost_usd, hanging.cancelled) == ("cancelled", 1.5, True)
    assert ended(tmp_path).outcome.detail == "cancelled from outside: parent"


async def test_a_completion_that_is_accepted_cancels_the_sub_agents_that_still_run(tmp_path: Path) -> None:
    hanging = Hanging()

    @tool(kind="completion")
    async def hand_in(summary: str) -> str:
        """Hand in."""
        await hanging.begun.wait()
        return summary

    engine = Engine(
        by_step([call("hand_in", summary="It is done."), call("helper", prompt="x"), paid(1)]),
        tools=[as_helper(hanging.engine, reads=True), hand_in],
        policy=Policy(mixed="all"),
    )
    with anyio.fail_after(60):
        outcome = await engine.run("go", record=tmp_path / "run.jsonl")
    assert (outcome.answer, outcome.usage.cost_usd, hanging.cancelled) == ("It is done.", 1.5, True)
    assert ended(tmp_path).outcome.status == "cancelled"


async def test_a_limit_on_time_of_the_parent_ends_its_sub_agent(tmp_path: Path) -> None:
    hanging, clock = Hanging(), FakeClock()
    policy = Policy(limits=Limits(seconds=30), closing=False)
    engine = parent(as_helper(hanging.engine), policy=policy, clock=clock)
    async with engine.start("go", record=tmp_path / "run.jsonl") as run:
        await hanging.begun.wait()
        await clock.advance(31)
        outcome = await run.wait()
    assert (outcome.stop_reason, hanging.cancelled) == ("time_limit", True)
    assert ended(tmp_path).outcome.status == "cancelled"


async def test_a_timeout_of_the_tool_ends_its_sub_agent_and_the_run_goes_on(tmp_path: Path) -> None:
    hanging, clock = Hanging(), FakeClock()
    record = tmp_path / "run.jsonl"
    async with parent(as_helper(hanging.engine, timeout=5), clock=clock).start("go", record=record) as run:
        await hanging.begun.wait()
        await clock.advance(6)
        outcome = await run.wait()
    assert (outcome.status, outcome.usage.cost_usd) == ("completed", 2.5)
    (answered,) = events(record, ev.ToolCallResult)
    assert (answered.status, answered.content) == ("error", "helper was stopped after 5 seconds.")
    assert ended(tmp_path).outcome.status == "cancelled"


@pytest.mark.parametrize("limits", [{"cost_usd": 1.4}, {"output_tokens": 9}, {"input_tokens": 15}])
async def test_a_hard_limit_of_the_parent_counts_its_sub_agents_and_ends_them(
    limits: dict[str, Any], tmp_path: Path
) -> None:
    DONE.clear()
    record, policy = tmp_path / "run.jsonl", Policy(limits=Limits(**limits), closing=False)
    outcome = await parent(as_helper(child()), policy=policy).run("go", record=record)
    assert (outcome.status, outcome.steps) == ("exhausted", 1)
    assert outcome.stop_reason in ("cost_limit", "token_limit")
    assert (outcome.usage.cost_usd, DONE) == (1.5, [])
    assert ended(tmp_path).outcome.status == "cancelled"
    report = await replay(record)
    assert report.runs[0].divergence is None
    assert report.runs[0].outcome.usage == outcome.usage


async def test_steps_of_sub_agents_are_not_steps_of_the_parent() -> None:
    outcome = await parent(as_helper(child()), policy=Policy(limits=Limits(steps=2))).run("go")
    assert (outcome.status, outcome.steps) == ("completed", 2)


# ---- budgets


async def test_a_sub_agent_shares_the_budget_of_its_parent() -> None:
    budget = Budget(cost_usd=1.4)
    helper = as_helper(child())
    got: list[str] = []
    async with parent(helper, budget=budget, policy=Policy(closing=False)).start("go") as run:
        async for event in run:
            if isinstance(event, ev.ToolCallResult):
                got.append(event.content)
    assert "exhausted (cost_limit)" in got[0]
    assert (run.outcome.stop_reason, run.outcome.usage.cost_usd) == ("cost_limit", 1.5)
    assert (budget.spent.cost_usd, budget.reserved) == (1.5, Usage())


async def test_a_sub_agent_with_a_budget_of_its_own_is_counted_in_its_parents() -> None:
    own, shared = Budget(cost_usd=10), Budget(cost_usd=10)
    await parent(as_helper(child(budget=own)), budget=shared).run("go")
    assert (own.spent.cost_usd, shared.spent.cost_usd) == (0.75, 2.75)


async def test_a_sub_agent_whose_policy_would_not_end_at_the_budget_is_only_counted_in_it() -> None:
    budget = Budget(cost_usd=1.1)
    guards = tuple(name for name in Policy().guards if name != "cost_limit")
    helper = as_helper(child(policy=Policy(guards=guards)))
    outcome = await parent(helper, budget=budget, policy=Policy(closing=False)).run("go")
    assert (outcome.stop_reason, outcome.usage.cost_usd, budget.spent.cost_usd) == ("cost_limit", 1.75, 1.75)


async def test_a_budget_holds_over_a_tree_of_sub_agents_that_run_at_the_same_time() -> None:
    budget, prices = Budget(cost_usd=5), Prices({"scripted": Price(input=0, output=100_000)})
    write_on = [[call("write", path=str(n)), paid(0.5)] for n in range(30)]
    middle = child(
        [[call("helper", prompt=str(n)) for n in range(4)], paid(0.5)],
        "given up",
        tools=(as_helper(child(*write_on, prices=prices)),),
        prices=prices,
    )
    calls = [call("helper", prompt=str(n)) for n in range(3)]
    outcome = await parent(as_helper(middle), [calls, paid(0.5)], "x", budget=budget, prices=prices).run("go")
    assert outcome.stop_reason == "cost_limit"
    assert 5 <= budget.spent.cost_usd < 5.6  # type: ignore[operator]
    assert budget.reserved == Usage()


# ---- approval


async def test_a_sub_agent_that_needs_approval_runs_after_the_yes_and_is_counted(tmp_path: Path) -> None:
    record = tmp_path / "run.jsonl"
    session = parent(as_helper(child(), approval=True)).session(record=record)
    paused = await session.run("go")
    assert (paused.status, paused.subagents, paused.usage.cost_usd) == ("awaiting_input", None, 1)
    outcome = await session.approve("h1")
    assert (outcome.status, outcome.usage.cost_usd) == ("completed", 2.75)
    assert outcome.subagents is not None
    assert (outcome.subagents.runs, outcome.subagents.requests) == (1, 2)
    (first, second) = (await replay(record)).runs
    assert (first.divergence, second.divergence) == (None, None)
    assert (second.outcome.usage, second.outcome.subagents) == (outcome.usage, outcome.subagents)


# ---- replay and resume


async def test_a_replay_answers_the_call_from_the_record(tmp_path: Path) -> None:
    record = tmp_path / "run.jsonl"
    calls = [call("helper", prompt=word) for word in ("a", "b")]
    outcome = await parent(as_helper(child()), [*calls, paid(1)], [say("done"), paid(1)]).run("go", record=record)
    DONE.clear()
    (replayed,) = (await replay(record)).runs
    assert replayed.divergence is None
    assert (replayed.outcome.usage, replayed.outcome.subagents) == (outcome.usage, outcome.subagents)
    assert DONE == []


def killed(folder: Path, into: Path, of_parent: int, of_child: int) -> Path:
    """A copy of these records as a kill could leave them: so many lines of each."""
    into.mkdir()
    (into / "run.subagents").mkdir()
    (path,) = folder.rglob("helper-*.jsonl")
    for one, lines in ((folder / "run.jsonl", of_parent), (path, of_child)):
        kept = one.read_bytes().splitlines(keepends=True)[:lines]
        if kept:
            (into / one.relative_to(folder)).write_bytes(b"".join(kept))
    return into / "run.jsonl"


def number_of(path: Path, belongs: Callable[[Any], bool]) -> int:
    """The line, from 1, of the first such event; the header is line 1."""
    event = next(event for event in read_record(path).runs[0].events if belongs(event))
    return len(lines_before(path, event.seq)) + 1


async def resumed(record: Path, helper: Tool) -> tuple[Any, Session]:
    session = parent(helper).resume(record)
    async with session.start_resumed() as run:
        return await run.wait(), session


async def test_a_parent_that_was_killed_in_the_middle_goes_on_with_its_sub_agent(tmp_path: Path) -> None:
    """Every pair of places where the two records may end, between the start of the call and its result."""
    whole = tmp_path / "whole"
    whole.mkdir()
    await parent(as_helper(child())).run("go", record=whole / "run.jsonl")
    (below,) = whole.rglob("helper-*.jsonl")
    first = number_of(whole / "run.jsonl", lambda event: isinstance(event, ev.ToolExecutionStarted))
    last = number_of(whole / "run.jsonl", lambda event: isinstance(event, ev.ToolCallResult))
    effect = number_of(below, lambda event: isinstance(event, ev.ToolExecutionStarted))
    wrote = number_of(below, lambda event: isinstance(event, ev.ToolCallResult))
    lines = len(below.read_bytes().splitlines())
    for of_parent in range(first, last):
        for of_child in range(lines + 1):
            DONE[:] = ["a"] if of_child >= effect else []
            record = killed(whole, tmp_path / f"{of_parent}-{of_child}", of_parent, of_child)
            outcome, session = await resumed(record, as_helper(child()))
            assert DONE == ["a"], (of_parent, of_child)
            assert (outcome.status, outcome.answer) == ("completed", "All done.")
            check_transcript(session.transcript.messages)
            (answered,) = events(record, ev.ToolCallResult)
            assert (answered.status, answered.content) == ("ok", "It is written.")
            assert outcome.subagents is not None
            assert outcome.subagents.runs == 1
            (path,) = record.parent.rglob("helper-*.jsonl")
            (inner,) = read_record(path).runs
            assert inner.finished is not None
            statuses = [event.status for event in inner.events if isinstance(event, ev.ToolCallResult)]
            assert statuses == (["unknown"] if effect <= of_child < wrote else ["ok"])
            assert outcome.usage.cost_usd is not None
            assert outcome.usage.cost_usd >= 2.75
            assert events(record, ev.RunFinished)[-1].outcome == outcome
            (replayed,) = (await replay(record)).runs
            assert replayed.divergence is None
    assert last - first >= 3
    assert lines > 15


async def test_what_a_sub_agent_used_before_the_kill_is_counted_once(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    whole.mkdir()
    await parent(as_helper(child())).run("go", record=whole / "run.jsonl")
    first = number_of(whole / "run.jsonl", lambda event: isinstance(event, ev.ToolExecutionStarted))
    last = number_of(whole / "run.jsonl", lambda event: isinstance(event, ev.ToolCallResult))
    (below,) = whole.rglob("helper-*.jsonl")
    for of_parent in range(first, last):  # the sub-agent's own record is whole
        lines = len(below.read_bytes().splitlines())
        record = killed(whole, tmp_path / str(of_parent), of_parent, lines)
        outcome, _ = await resumed(record, as_helper(child()))
        assert (outcome.usage.cost_usd, outcome.usage.input_tokens) == (2.75, 40)
        assert outcome.subagents is not None
        assert outcome.subagents.requests == 2


class Lines:
    """A journal that is no file: the store of a server, for example."""

    path = None

    def __init__(self) -> None:
        self.events: list[Any] = []

    def write(self, event: Any) -> None:
        self.events.append(event)

    async def flush(self) -> None:
        """Nothing to do."""

    def close(self) -> None:
        """Nothing to do."""


async def test_without_a_record_of_the_sub_agent_its_effect_is_unknown_after_a_kill() -> None:
    from endstop.records.reader import RecordedRun

    journal = Lines()
    await parent(as_helper(child())).session(record=journal).run("go")
    number = next(n for n, event in enumerate(journal.events) if isinstance(event, ev.SubagentUsed))
    DONE.clear()
    after = Lines()
    session = parent(as_helper(child())).session(journal.events[0].session_id, record=after)
    session.load([RecordedRun(events=journal.events[: number + 1], after_cut=[])])
    async with session.start_resumed() as run:
        outcome = await run.wait()
    (answered,) = [event for event in after.events if isinstance(event, ev.ToolCallResult)]
    assert (answered.status, DONE, outcome.status) == ("unknown", [], "completed")
    assert outcome.usage.cost_usd == 2.5


async def test_a_sub_agent_of_a_redacted_parent_is_redacted_too(tmp_path: Path) -> None:
    def redact(text: str) -> str:
        return text.replace("written", "[gone]")

    await parent(as_helper(child()), redact=redact).run("go", record=tmp_path / "run.jsonl")
    for path in tmp_path.rglob("*.jsonl"):
        assert "It is written" not in path.read_text()


async def test_this_call_is_that_of_the_innermost_run() -> None:
    seen: list[str] = []

    @tool
    async def note() -> str:
        """Note."""
        seen.append(this_call().run_id)
        return "noted"

    async with parent(as_helper(child([call("note")], "ok", tools=(note, finish_task)))).start("go") as run:
        await run.wait()
        assert seen == list(run.children)
