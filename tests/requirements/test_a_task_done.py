"""Row A: tell the loop that the work is done."""

import tomllib
from pathlib import Path
from typing import Any

import anyio
import pytest
from endstop import Completion, Engine, Hooks, ModelOptions, Phase, Runtime, Tool, tool
from endstop.decision import POLICIES, AssistantMessage, Limits, Policy, ToolResult, UserMessage, policy_from
from endstop.decision.events import (
    CompletionAccepted,
    MessageAdded,
    PhaseReported,
    ThoughtRecorded,
    ToolExecutionStarted,
    VerdictGiven,
)
from endstop.decision.settings import settings_from_record
from endstop.hooks import Accept, CommandGate, Progress, Reject
from endstop.providers import Request, Scripted, call, say
from endstop.replay import replay
from endstop.testing import FakeClock, check_transcript
from endstop.tools import attempt_completion, finish_task, task_done, think


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
    engine = Engine(
        provider, tools=[spy("edit", ran)], presets=[task_done], model_options=ModelOptions(tool_choice=tool_choice)
    )
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


# ---- A3


async def test_A3_at_25_of_30_steps_the_model_is_reminded_once_and_the_reminder_never_piles_up() -> None:
    provider = Scripted(*[[call("work", path=str(n))] for n in range(40)])
    policy = Policy(limits=Limits(steps=30), closing=False)
    session = Engine(provider, tools=[spy("work", [])], presets=[task_done], policy=policy).session()
    async with session.start("go") as run:
        events = [event async for event in run]
    assert (run.outcome.stop_reason, run.outcome.steps) == ("step_limit", 30)
    shown = [n for n, request in enumerate(provider.requests, 1) if request.ephemeral]
    assert shown == [26], "with the request after the 25th step, and no other"
    text = provider.requests[25].ephemeral[0].text  # type: ignore[union-attr]
    assert "25 of 30 steps" in text
    assert "what is missing" in text
    assert all(text not in str(message) for message in session.transcript.messages)
    assert len([e for e in events if isinstance(e, MessageAdded) and e.origin == "reminder"]) == 1
    prefixes = [request.messages for request in provider.requests]
    assert all(prefixes[n + 1][: len(prefixes[n])] == prefixes[n] for n in range(29)), "the stable prefix stays"


async def test_A3_a_run_that_ends_before_is_not_reminded_and_the_reminder_can_be_switched_off() -> None:
    for policy, script in (
        (Policy(), [call("task_done", summary="done")]),
        (Policy(reminder=None, limits=Limits(steps=6)), [call("work")]),
    ):
        provider = Scripted(*[script] * 9)
        await Engine(provider, tools=[spy("work", [])], presets=[task_done], policy=policy).run("go")
        assert not any("of" in str(request.ephemeral) for request in provider.requests)


# ---- A4


def done_times(times: int) -> Scripted:
    return Scripted(*[[call("task_done", summary=f"attempt {n}")] for n in range(1, times + 1)])


async def test_A4_a_gate_that_accepts_lets_the_run_end_and_sees_completion_and_progress() -> None:
    seen: list[Any] = []

    async def gate(completion: Completion, run: Progress) -> Accept:
        seen.append((completion.answer, run.facts.steps))
        return Accept()

    outcome = await Engine(done_times(1), presets=[task_done], hooks=Hooks(gates=[gate])).run("go")
    assert (outcome.stop_reason, outcome.answer) == ("completed", "attempt 1")
    assert seen == [("attempt 1", 1)]


async def test_A4_a_gate_that_rejects_hands_the_completion_back_with_its_reason() -> None:
    def gate(completion: Completion, run: Progress) -> Accept | Reject:
        return Accept() if completion.answer == "attempt 2" else Reject("the tests do not pass")

    provider = done_times(2)
    session = Engine(provider, presets=[task_done], hooks=Hooks(gates=[gate])).session()
    outcome = await session.run("go")
    assert (outcome.answer, outcome.steps) == ("attempt 2", 2)
    (result,) = [m for m in provider.requests[1].messages if isinstance(m, ToolResult)]
    assert (result.status, "the tests do not pass" in result.content) == ("rejected", True)
    check_transcript(session.transcript.messages)


async def test_A4_plain_text_that_would_end_the_run_is_checked_too_and_handed_back_in_words(tmp_path: Path) -> None:
    def gate(completion: Completion, run: Progress) -> Accept | Reject:
        return Accept() if "tests pass" in completion.answer else Reject("run the tests first")

    provider = Scripted("I fixed it.", [call("nobody")], "I fixed it, and the tests pass.")
    path = tmp_path / "r.jsonl"
    session = Engine(provider, hooks=Hooks(gates=[gate])).session(record=path)
    outcome = await session.run("go")
    assert (outcome.stop_reason, outcome.steps) == ("text_final", 3)
    assert provider.requests[1].messages[-1] == UserMessage("Not accepted as complete: run the tests first")
    check_transcript(session.transcript.messages)
    assert (await replay(str(path))).same


async def test_A4_plain_text_is_handed_back_a_bounded_number_of_times_and_asked_about_only_if_it_would_end() -> None:
    asked: list[str] = []

    def gate(completion: Completion, run: Progress) -> bool:
        asked.append(completion.answer)
        return False

    outcome = await Engine(Scripted(*["Done."] * 9), hooks=Hooks(gates=[gate])).run("go")
    assert (outcome.status, outcome.stop_reason, outcome.steps) == ("exhausted", "completion_rejected", 4)
    asked.clear()
    await Engine(Scripted(*["Done."] * 9), policy=POLICIES["strict"], hooks=Hooks(gates=[gate])).run("go")
    assert asked == [], "under strict, text is nudged and no answer"


async def test_A4_a_completion_is_handed_back_a_bounded_number_of_times() -> None:
    provider = done_times(20)
    events, run = await events_of(
        Engine(provider, presets=[task_done], hooks=Hooks(gates=[lambda c, r: Reject("never good")]))
    )
    outcome = run.outcome
    assert (outcome.status, outcome.stop_reason, outcome.steps) == ("exhausted", "completion_rejected", 4)
    assert "never good" in outcome.detail
    assert (outcome.answer, outcome.answer_from) == ("attempt 5", "not_accepted"), "as the closing step has it"
    assert not [e for e in events if isinstance(e, CompletionAccepted)]


async def test_A4_all_gates_must_accept_and_the_first_that_does_not_ends_the_asking() -> None:
    asked: list[str] = []

    def first(completion: Completion, run: Progress) -> bool:
        asked.append("first")
        return len(asked) > 1

    def second(completion: Completion, run: Progress) -> None:
        asked.append("second")

    await Engine(done_times(2), presets=[task_done], hooks=Hooks(gates=[first, second])).run("go")
    assert asked == ["first", "first", "second"]


async def test_A4_a_gate_that_raises_or_answers_nonsense_hands_back_with_a_recorded_verdict() -> None:
    def crash(completion: Completion, run: Progress) -> Accept:
        if completion.answer == "attempt 1":
            raise RuntimeError("no such file")
        return "fine" if completion.answer == "attempt 2" else Accept()  # type: ignore[return-value]

    events, run = await events_of(Engine(done_times(3), presets=[task_done], hooks=Hooks(gates=[crash])))
    assert (run.outcome.stop_reason, run.outcome.answer) == ("completed", "attempt 3")
    verdicts = [e for e in events if isinstance(e, VerdictGiven)]
    assert [v.said for v in verdicts] == ["failed", "failed", "accept"]
    assert "RuntimeError: no such file" in verdicts[0].detail
    assert "not str" in verdicts[1].detail


async def test_A4_a_gate_that_hangs_gets_a_recorded_verdict_at_its_deadline_and_the_run_goes_on() -> None:
    clock = FakeClock()

    async def gate(completion: Completion, run: Progress) -> Accept:
        if completion.answer == "attempt 1":
            await anyio.sleep_forever()
        return Accept()

    engine = Engine(done_times(2), presets=[task_done], hooks=Hooks(gates=[gate]), runtime=Runtime(clock=clock))
    async with engine.start("go") as run:
        await clock.advance(119)
        assert not run.finished
        await clock.advance(2)
        outcome = await run.wait()
        events = [event async for event in run]
    assert outcome.answer == "attempt 2"
    (hung, _) = [e for e in events if isinstance(e, VerdictGiven)]
    assert (hung.said, hung.detail, hung.duration_ms) == ("failed", "no answer within 120 seconds", 121_000)


async def test_A4_a_command_is_a_gate_that_accepts_with_exit_code_zero(tmp_path: Path) -> None:
    provider = Scripted(
        [call("task_done", summary="too early")],
        [call("write", path="done.txt"), call("task_done", summary="now it is there")],
    )

    async def write(path: str) -> str:
        (tmp_path / path).write_text("x")
        return "ok"

    gate = CommandGate("ls done.txt", str(tmp_path))
    engine = Engine(provider, tools=[Tool(write, description="Write.")], presets=[task_done], hooks=Hooks(gates=[gate]))
    outcome = await engine.run("go")
    assert outcome.answer == "now it is there"
    (result,) = [m for m in provider.requests[1].messages if isinstance(m, ToolResult)]
    assert "`ls done.txt` failed with exit code 2" in result.content


async def test_A4_a_run_with_gates_replays_the_same_without_them(tmp_path: Path) -> None:
    def gate(completion: Completion, run: Progress) -> Accept | Reject:
        return Accept() if completion.answer == "attempt 3" else Reject("not yet")

    path = tmp_path / "r.jsonl"
    await Engine(done_times(3), presets=[task_done], hooks=Hooks(gates=[gate])).run("go", record=path)
    report = await replay(str(path))
    assert report.same, report.runs[0].divergence
    assert report.runs[0].outcome.answer == "attempt 3"


async def gated(*between: str, good_at: int, policy: Policy = Policy()) -> Any:  # noqa: B008
    """The outcome of a run whose gate accepts its so-manieth completion; what the steps between two of them call."""
    asked: list[int] = []

    def gate(completion: Completion, run: Progress) -> Accept | Reject:
        asked.append(1)
        return Accept() if len(asked) >= good_at else Reject(f"{good_at - len(asked)} tests fail")

    @tool
    async def edit(n: int) -> str:
        """Edit a file."""
        return "edited"

    @tool(reads=True)
    async def look(n: int) -> str:
        """Look at a file."""
        return "the same as ever"

    script: list[Any] = []
    for n in range(good_at + 2):
        script += [[call(name, n=n)] for name in between] + [[call("finish_task", summary=f"attempt {n}")]]
    engine = Engine(Scripted(*script), tools=[edit, look], hooks=Hooks(gates=[gate]), policy=policy)
    return await engine.run("Make the tests pass.")


async def test_A4_rejections_count_only_in_a_row_without_progress() -> None:
    assert (await gated("edit", good_at=9)).status == "completed", "each attempt after a change is a new one"
    outcome = await gated("look", good_at=9)
    assert (outcome.status, outcome.stop_reason) == ("exhausted", "completion_rejected")
    assert "handed back 4 times without progress in between" in outcome.detail
    assert (await gated(good_at=9)).stop_reason == "completion_rejected"


async def test_A4_a_record_from_before_counts_all_of_them() -> None:
    before = settings_from_record(Policy, {})
    assert before.patience.rejections_counted == "all"
    outcome = await gated("edit", good_at=9, policy=Policy(patience=before.patience))
    assert (outcome.stop_reason, "handed back 4 times" in outcome.detail) == ("completion_rejected", True)


# ---- A7


async def test_A7_thirty_sixty_and_a_hundred_percent_are_phases_and_only_the_last_ends_the_run(tmp_path: Path) -> None:
    provider = Scripted(
        [call("task_done", summary="parsed", completion_percentage=30, next_phase="check"), call("work")],
        [call("task_done", summary="checked", completion_percentage=60, next_phase="write")],
        [call("task_done", summary="written", completion_percentage=100), call("work")],
    )
    ran: list[str] = []
    engine = Engine(provider, tools=[spy("work", ran)], presets=[task_done])
    async with engine.start("go", record=tmp_path / "r.jsonl") as run:
        events = [event async for event in run]
    assert (run.outcome.stop_reason, run.outcome.answer, run.outcome.steps) == ("completed", "written", 3)
    phases = [(e.percentage, e.summary, e.next_phase) for e in events if isinstance(e, PhaseReported)]
    assert phases == [(30, "parsed", "check"), (60, "checked", "write"), (100, "written", None)]
    assert [phase["completion_percentage"] for phase in run.outcome.phases] == [30, 60, 100]
    assert ran == ["work"], "a phase does not cut what stands after it"
    assert (await replay(str(tmp_path / "r.jsonl"))).same


@pytest.mark.parametrize("percentage", [-5, 101, 150, 100_000])
async def test_A7_a_percentage_outside_0_to_100_is_handed_back_and_is_in_no_phase(percentage: int) -> None:
    provider = Scripted(
        [call("task_done", summary="early", completion_percentage=percentage)],
        [call("task_done", summary="late", completion_percentage=100)],
    )
    session = Engine(provider, presets=[task_done]).session()
    outcome = await session.run("go")
    assert (outcome.answer, outcome.steps) == ("late", 2)
    assert [phase["completion_percentage"] for phase in outcome.phases] == [100]
    results = [m for m in session.transcript.messages if isinstance(m, ToolResult)]
    assert (results[0].status, "completion_percentage" in results[0].content) == ("invalid", True)
    bounds = task_done.spec.parameters["properties"]["completion_percentage"]
    assert (bounds["minimum"], bounds["maximum"]) == (0, 100)


@pytest.mark.parametrize("percentage", [-5, 150])
async def test_A7_a_phase_of_ones_own_tool_with_such_a_percentage_is_handed_back_as_well(percentage: int) -> None:
    @tool(kind="completion")
    async def report(percentage: int) -> Phase | Completion:
        """Report how far the work is."""
        return Completion(answer="all") if percentage == 100 else Phase(percentage=percentage)

    @tool(kind="completion")
    async def report_json(percentage: int) -> dict[str, Any]:
        """Report how far the work is."""
        return {"completion_percentage": percentage, "summary": "all"}

    for by in (report, report_json):
        provider = Scripted([call(by.name, percentage=percentage)], [call(by.name, percentage=100)])
        outcome = await Engine(provider, tools=[by]).run("go")
        assert (outcome.answer, outcome.steps) == ("all", 2)
        assert percentage not in [phase["completion_percentage"] for phase in outcome.phases]


# ---- A8


def confirming() -> tuple[Scripted, Any]:
    provider = Scripted(
        [call("task_done", id="d1", summary="moved", requires_user_confirmation=True, pending_issues=["tests"])],
        [call("task_done", id="d2", summary="moved and tested")],
    )
    return provider, Engine(provider, presets=[task_done]).session()


async def test_A8_a_completion_that_needs_confirmation_pauses_for_the_user() -> None:
    provider, session = confirming()
    outcome = await session.run("go")
    assert (outcome.status, outcome.stop_reason, outcome.answer) == ("awaiting_input", "awaiting_input", "")
    (question,) = outcome.questions
    assert (question.call_id, question.confirms, question.pending_issues) == ("d1", "moved", ("tests",))
    assert "Do you confirm" in question.text
    assert len(provider.requests) == 1


IN_CHINESE = """[prompts]
confirm = "{answer}——您确认任务已完成吗？"
unclear = "请回答是或否。"
approve = "允许 {name} 使用 {arguments} 吗？"
"""


async def test_A8_what_the_user_reads_is_in_the_language_of_the_policys_prompts() -> None:
    @tool(approval=True)
    async def drop(table: str) -> str:
        """Drop a table."""
        return "dropped"

    async def own(summary: str) -> dict[str, Any]:
        """Report."""
        return {"summary": summary, "requires_user_confirmation": True}

    completions = [
        call("task_done", id="d", summary="已改", requires_user_confirmation=True),
        call("own", id="d", summary="已改"),
    ]
    for completion in completions:
        provider = Scripted([completion], [call("drop", id="a", table="{name}")])
        tools = [drop, Tool(own, kind="completion"), task_done]
        session = Engine(provider, tools=tools, policy=policy_from(tomllib.loads(IN_CHINESE))).session()
        (question,) = (await session.run("改端口号")).questions
        assert question.text == "已改——您确认任务已完成吗？"
        for _ in range(2):
            (question,) = (await session.answer("d", "什么？")).questions
            assert question.text == "请回答是或否。 已改——您确认任务已完成吗？"
        (question,) = (await session.answer("d", "不行，先删表")).questions
        assert question.text == '允许 drop 使用 {"table":"{name}"} 吗？'


@pytest.mark.parametrize("word", ["yes", "Yes.", " OK ", "ja", "はい"])
async def test_A8_yes_ends_the_run_as_completed_without_another_request(word: str) -> None:
    provider, session = confirming()
    first = await session.run("go")
    outcome = await session.answer("d1", word)
    assert (outcome.status, outcome.stop_reason, outcome.answer) == ("completed", "completed", "moved")
    assert outcome.pending_issues == ("tests",)
    assert (len(provider.requests), outcome.steps) == (1, 1)
    assert outcome.run_id != first.run_id
    check_transcript(session.transcript.messages)


async def test_A8_no_goes_on_with_what_the_user_said_and_replays_the_same(tmp_path: Path) -> None:
    provider, _ = confirming()
    session = Engine(provider, presets=[task_done]).session(record=tmp_path / "r.jsonl")
    await session.run("go")
    outcome = await session.answer("d1", "No, run the tests first.")
    assert (outcome.stop_reason, outcome.answer, outcome.steps) == ("completed", "moved and tested", 2)
    (result,) = [m for m in provider.requests[1].messages if isinstance(m, ToolResult)]
    assert "run the tests first" in result.content
    check_transcript(session.transcript.messages)
    report = await replay(str(tmp_path / "r.jsonl"))
    assert report.same, [run.divergence for run in report.runs]


async def test_A8_a_user_who_says_no_many_times_never_exhausts_the_run() -> None:
    script = [[call("task_done", id=f"d{n}", summary="x", requires_user_confirmation=True)] for n in range(7)]
    session = Engine(Scripted(*script), presets=[task_done]).session()
    outcome = await session.run("go")
    for n in range(6):
        outcome = await session.answer(f"d{n}", "no")
        assert outcome.status == "awaiting_input", outcome.detail
    assert (await session.answer("d6", "yes")).stop_reason == "completed"
