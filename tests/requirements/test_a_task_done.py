"""Row A: tell the loop that the work is done."""

from typing import Any

import anyio
import pytest
from endstop.decision import AssistantMessage, Limits, Policy, ToolResult
from endstop.decision.events import CompletionAccepted, ThoughtRecorded, ToolExecutionStarted
from endstop.engine import Engine, Tool, tool
from endstop.engine.presets import attempt_completion, finish_task, task_done, think
from endstop.engine.testing import check_transcript
from endstop.providers import Request, Scripted, call, say


def spy(name: str, log: list[str], *, reads: bool = False) -> Tool:
    async def work(path: str = "") -> str:
        log.append(f"{name} {path}".strip())
        return f"{name} is done"

    return Tool(work, name=name, description=f"{name} something", reads=reads)


async def events_of(engine: Engine, prompt: str = "go") -> tuple[list[Any], Any]:
    async with engine.start(prompt) as run:
        events = [event async for event in run]
    return events, run


@pytest.mark.parametrize("tool_choice", ["auto", "required"])
async def test_A1_calling_task_done_ends_the_run_at_once_and_its_summary_is_the_answer(tool_choice: Any) -> None:
    ran: list[str] = []
    provider = Scripted([call("edit", path="config.ini")], [call("task_done", summary="The port is 8080 now.")], "more")
    engine = Engine(provider, tools=[spy("edit", ran)], presets=[task_done], tool_choice=tool_choice)
    outcome = await engine.run("Set the port to 8080")
    assert (outcome.status, outcome.stop_reason, outcome.answer) == ("completed", "completed", "The port is 8080 now.")
    assert outcome.steps == 2
    assert len(provider.requests) == 2
    assert all(request.tool_choice == tool_choice for request in provider.requests)


@pytest.mark.parametrize("preset", [task_done, finish_task, attempt_completion])
def test_A1_the_description_says_when_to_call_it_and_what_the_summary_names(preset: Tool) -> None:
    text = preset.spec.description
    assert "Call this" in text
    for word in ("100 to 500 characters", "what was done", "files", "results", "careful"):
        assert word in text
    assert preset.spec.parameters["required"] == ["result" if preset is attempt_completion else "summary"]


async def test_A1_a_completion_without_its_summary_is_handed_back_and_does_not_end_the_run() -> None:
    provider = Scripted([call("task_done")], [call("task_done", summary="Now with a summary.")])
    engine = Engine(provider, presets=[task_done])
    outcome = await engine.run("go")
    assert outcome.answer == "Now with a summary."
    (result,) = [m for m in provider.requests[1].messages if isinstance(m, ToolResult)]
    assert result.status == "invalid"
    assert "summary" in result.content


async def test_A2_calls_before_the_completion_run_and_calls_after_it_never_start() -> None:
    ran: list[str] = []
    provider = Scripted(
        [call("write", path="a"), call("task_done", summary="done"), call("read_file", path="b"), call("edit_file")]
    )
    tools = [spy("write", ran), spy("read_file", ran, reads=True), spy("edit_file", ran)]
    session = Engine(provider, tools=tools, presets=[task_done]).session()
    outcome = await session.run("go")
    assert outcome.answer == "done"
    assert ran == ["write a"]
    check_transcript(session.transcript.messages)
    (message,) = [m for m in session.transcript.messages if isinstance(m, AssistantMessage)]
    assert [c.name for c in message.calls] == ["write", "task_done"], "the message ends with the completion"


async def test_A2_where_nothing_was_cut_the_calls_after_the_completion_are_answered_as_skipped() -> None:
    ran: list[str] = []
    provider = Scripted([call("task_done", summary="done"), call("read_file", path="b"), call("edit_file", path="c")])
    tools = [spy("read_file", ran, reads=True), spy("edit_file", ran)]
    session = Engine(provider, tools=tools, presets=[task_done], policy=Policy(inner_cancel=False)).session()
    await session.run("go")
    assert ran == []
    check_transcript(session.transcript.messages)
    results = [m for m in session.transcript.messages if isinstance(m, ToolResult)]
    assert [(r.name, r.status) for r in results] == [
        ("task_done", "ok"),
        ("read_file", "skipped"),
        ("edit_file", "skipped"),
    ]


async def test_A2_a_completion_after_a_failed_call_is_handed_back_with_that_error() -> None:
    async def broken() -> str:
        raise ValueError("disk full")

    provider = Scripted(
        [call("broken"), call("task_done", summary="all fine")], [call("task_done", summary="The disk is full.")]
    )
    engine = Engine(provider, tools=[Tool(broken, description="Break.")], presets=[task_done])
    outcome = await engine.run("go")
    assert outcome.answer == "The disk is full."
    handed_back = [m for m in provider.requests[1].messages if isinstance(m, ToolResult)][1]
    assert handed_back.status == "rejected"
    assert "disk full" in handed_back.content


async def test_A5_think_records_a_stage_summary_and_never_ends_the_run() -> None:
    provider = Scripted(
        [call("think", thought="half of it is done")],
        [call("think", thought="finish now"), call("task_done", summary="done")],
    )
    events, run = await events_of(Engine(provider, presets=[task_done, think]))
    thoughts = [e.text for e in events if isinstance(e, ThoughtRecorded)]
    assert thoughts == ["half of it is done", "finish now"]
    assert [e.answer for e in events if isinstance(e, CompletionAccepted)] == ["done"]
    assert run.outcome.steps == 2


async def test_A10_a_hundred_tasks_at_once_finish_with_a_summary_each_and_bad_ones_hurt_nobody() -> None:
    """Task 13 hangs until all others are done, task 31 fails at its provider, task 47's tool always raises."""
    others_done = anyio.Event()

    def respond(request: Request) -> Any:
        task = int(request.messages[1].text.split()[-1])  # type: ignore[union-attr]
        step = sum(isinstance(m, AssistantMessage) for m in request.messages)
        if task == 31:
            return ConnectionError  # not a response at all: a bug in one provider stays with its run
        if step < 3 + task % 7:
            return [say("working"), call("work", path=str(task), step=step)]
        waits = [others_done] if task == 13 else []
        return [*waits, call("task_done", summary=f"task {task} is done")]

    async def work(path: str, step: int) -> str:
        if path == "47":
            raise RuntimeError("tool 47 is broken")
        await anyio.lowlevel.checkpoint()
        return "ok"

    engine = Engine(Scripted(respond), tools=[Tool(work, description="Work.")], presets=[task_done])
    outcomes: dict[int, Any] = {}

    async def one(task: int) -> None:
        outcomes[task] = await engine.run(f"task {task}")
        if len(outcomes) == 99:
            others_done.set()

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            for task in range(100):
                tasks.start_soon(one, task)
    failed = {task for task, outcome in outcomes.items() if outcome.status != "completed"}
    assert failed == {31}
    assert outcomes[31].status == "failed"
    good = [outcome for task, outcome in outcomes.items() if task != 31]
    assert all(outcomes[t].answer == f"task {t} is done" for t in range(100) if t != 31)
    assert sum(outcome.steps for outcome in good) / len(good) < 12


async def test_A10_the_step_limit_of_one_task_does_not_end_the_others() -> None:
    def respond(request: Request) -> Any:
        return [call("task_done", summary="ok")] if "short" in str(request.messages[1]) else [call("loop")]

    async def loop() -> str:
        return "again"

    tools = [Tool(loop, description="Loop.")]
    engine = Engine(Scripted(respond), tools=tools, presets=[task_done], policy=Policy(limits=Limits(steps=5)))
    found: list[str] = []

    async def one(prompt: str) -> None:
        found.append((await engine.run(prompt)).stop_reason)

    async with anyio.create_task_group() as tasks:
        for prompt in ("long", "short", "long", "short"):
            tasks.start_soon(one, prompt)
    assert sorted(found) == ["completed", "completed", "step_limit", "step_limit"]


async def test_A1_a_users_own_tool_of_kind_completion_ends_the_run_the_same_way() -> None:
    @tool(kind="completion")
    def submit(report: str) -> str:
        """Hand in the report."""
        return report.upper()

    events, run = await events_of(Engine(Scripted([call("submit", report="fine")]), tools=[submit]))
    assert run.outcome.answer == "FINE"
    assert [e.name for e in events if isinstance(e, ToolExecutionStarted)] == ["submit"]
