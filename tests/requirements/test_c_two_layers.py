"""Row C: the two-layer loop, and its two guards that each suffice alone."""

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from endstop import Completion, Continue, Engine, Run, Tool, tool
from endstop.decision import (
    GUARDS,
    RULES,
    Facts,
    FinishReport,
    GoOn,
    Limits,
    Pause,
    Policy,
    Question,
    Stop,
    ToolResult,
    decide,
    fold,
)
from endstop.decision import events as ev
from endstop.decision.policy import REMEMBERED_POINTS
from endstop.providers import Scripted, call, say
from endstop.replay import replay
from endstop.testing import check_transcript
from endstop.tools import ask_user, finish_task, think

WITHOUT_P05 = tuple(name for name in Policy().rules if name != "control_flow")


def nothing(name: str = "work", log: list[str] | None = None) -> Tool:
    async def work() -> str:
        if log is not None:
            log.append(name)
        return "ok"

    return Tool(work, name=name, description="Do nothing much.", kind="ordinary")


async def drive(engine: Engine, prompt: str = "go") -> tuple[list[Any], Run]:
    async with engine.start(prompt) as run:
        events = [event async for event in run]
    return events, run


def kinds(events: list[Any]) -> list[str]:
    return [type(event).__name__ for event in events]


# ---- C1


async def test_C1_a_round_has_at_most_max_inner_steps_steps() -> None:
    policy = Policy(max_inner_steps=3, limits=Limits(steps=7), guards=("step_limit",), closing=False)
    events, run = await drive(Engine(Scripted(*[[call("work")]] * 9), tools=[nothing()], policy=policy))
    rounds = [e.round for e in events if isinstance(e, ev.StepStarted)]
    assert rounds == [1, 1, 1, 2, 2, 2, 3]
    assert run.outcome.stop_reason == "step_limit"


async def test_C1_a_completion_call_cancels_the_rest_of_the_step_and_of_the_inner_loop() -> None:
    ran: list[str] = []
    rest = [say("and now I will go on"), call("work"), call("finish_task", summary="again")] * 10
    provider = Scripted([call("finish_task", summary="done"), *rest], [call("work")])
    events, run = await drive(Engine(provider, tools=[nothing(log=ran)]))
    assert run.outcome.answer == "done"
    assert ran == []
    assert provider.sent == [2], "the head of the call and its arguments, and nothing after them"
    assert "FinishReported" not in kinds(events)
    (finished,) = [e for e in events if isinstance(e, ev.StepFinished)]
    assert finished.cut_by is not None


async def test_C1_ten_completions_in_one_response_are_one_completion() -> None:
    provider = Scripted([call("finish_task", summary=f"done {i}") for i in range(10)])
    events, run = await drive(Engine(provider))
    assert run.outcome.answer == "done 0"
    assert kinds(events).count("CompletionAccepted") == 1
    assert kinds(events).count("ToolExecutionStarted") == 1


# ---- C2


@pytest.mark.parametrize("where", ["stream", "tool"])
async def test_C2_the_callers_cancel_ends_everything_in_flight_and_is_told_apart(where: str) -> None:
    stall = anyio.Event()
    ended: list[str] = []

    async def hang() -> str:
        try:
            await anyio.sleep_forever()
        finally:
            ended.append("tool")
        return ""

    response = [say("a"), stall] if where == "stream" else [call("hang")]
    session = Engine(Scripted(response), tools=[Tool(hang, description="Hang.")]).session()
    async with session.start("go") as run:
        async for event in run:
            if isinstance(event, ev.TextMessageContent if where == "stream" else ev.ToolExecutionStarted):
                run.cancel("disconnect")
    outcome = run.outcome
    assert (outcome.status, outcome.stop_reason) == ("cancelled", "cancelled")
    assert "disconnect" in outcome.detail
    assert ended == ([] if where == "stream" else ["tool"])
    check_transcript(session.transcript.messages)
    statuses = [m.status for m in session.transcript.messages if isinstance(m, ToolResult)]
    assert statuses == ([] if where == "stream" else ["cancelled"])


async def test_C2_the_inner_cancel_uses_the_same_scope_and_is_no_cancellation_of_the_run() -> None:
    ended: list[str] = []

    async def slow_read() -> str:
        return "ok"

    provider = Scripted([call("slow_read"), call("finish_task", summary="done")])
    tools = [Tool(slow_read, description="Read.", reads=True)]
    events, run = await drive(Engine(provider, tools=tools))
    assert run.outcome.status == "completed"
    assert "CancelRequested" not in kinds(events)
    assert ended == []


async def test_C2_a_cancelled_caller_gets_its_cancellation_and_the_run_has_tidied_up() -> None:
    engine = Engine(Scripted([say("a"), anyio.Event()]))
    runs: list[Run] = []

    async def caller() -> None:
        async with engine.start("go") as run:
            runs.append(run)
            await run.wait()

    task = asyncio.create_task(caller())
    while not (runs and runs[0].facts.requests):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert runs[0].outcome.status == "cancelled"


async def test_C2_a_timeout_around_the_run_cancels_it() -> None:
    engine = Engine(Scripted([say("a"), anyio.Event()]))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.02):
            await engine.run("go")


async def test_C2_the_first_cause_to_fire_is_the_recorded_one() -> None:
    @tool(kind="completion")
    async def finish(summary: str) -> Completion:
        """Finish."""
        run.cancel("early")
        return Completion(answer=summary)

    run = Engine(Scripted([call("finish", summary="done")]), tools=[finish]).start("go")
    async with run:
        outcome = await run.wait()
    assert outcome.status == "cancelled", "the caller was first: the handler had not answered yet"


async def test_C2_a_run_that_has_finished_stays_as_it_is() -> None:
    async with Engine(Scripted("hello")).start("go") as run:
        before = await run.wait()
        run.cancel()
    assert run.outcome is before


# ---- C3


def test_C3_the_priorities_are_an_ordered_table() -> None:
    assert [rule.priority for rule in RULES] == ["P0", "P0.5", "P1", "P2", "P3"]
    assert Policy().rules == tuple(rule.name for rule in RULES)
    assert Policy().guards == tuple(guard.name for guard in GUARDS)


def test_C3_compaction_never_hides_what_comes_below() -> None:
    policy = Policy(compaction=msgspec.convert({"window": 100}, type(Policy().compaction)))
    full = Facts(context_tokens=99, finish="tool_calls", calls=1, answered=1, steps=1)
    assert decide(full, policy) == msgspec.structs.replace(decide(full, policy), compact=True)
    done = msgspec.structs.replace(full, accepted="c")
    assert isinstance(decide(done, policy), Stop), "a finished run is not compacted"


def test_C3_control_flow_comes_before_the_finish_reason_and_that_before_the_shape() -> None:
    facts = Facts(finish="content_filter", refusals=9, accepted="c", answer="x", steps=1)
    assert decide(facts, Policy()).rule == "control_flow"
    facts = Facts(finish="content_filter", refusals=9, text="text", steps=1)
    assert decide(facts, Policy()).rule == "finish_reason"
    facts = Facts(finish="other", text="text", steps=1)
    assert decide(facts, Policy()).rule == "message_shape"
    assert decide(Facts(steps=1), Policy()).rule == "go_on"


def test_C3_the_order_can_be_changed_and_rules_taken_out_by_name() -> None:
    facts = Facts(finish="stop", text="text", calls=0, steps=1)
    assert decide(facts, Policy(rules=("message_shape", "finish_reason"))).rule == "message_shape"
    assert decide(facts, Policy(rules=("go_on",))).rule == "go_on"


def test_C3_the_trace_tells_each_rule_considered_what_it_saw_and_said() -> None:
    trace = decide(Facts(finish="tool_calls", calls=1, answered=1, steps=30), Policy()).trace
    assert [line.rule for line in trace] == [
        "P0 compaction",
        "P0.5 control_flow",
        "P1 finish_reason",
        *[f"guard {name}" for name in Policy().guards[: Policy().guards.index("step_limit") + 1]],
    ]
    assert trace[2].saw["finish"] == "tool_calls"
    assert trace[-1].said == "stop(step_limit)"


async def test_C3_compaction_happens_before_the_next_request_and_the_transcript_stays_valid() -> None:
    async def long() -> str:
        return "x" * 4000

    policy = msgspec.convert({"compaction": {"window": 100, "threshold": 0.1, "keep_results": 0}}, Policy)
    provider = Scripted([call("long")], [call("finish_task", summary="done")])
    events, run = await drive(Engine(provider, tools=[Tool(long, description="Long.")], policy=policy))
    (compacted,) = [e for e in events if isinstance(e, ev.ContextCompacted)]
    assert compacted.before_tokens > compacted.after_tokens
    (result,) = [m for m in provider.requests[1].messages if isinstance(m, ToolResult)]
    assert len(result.content) < 500
    assert run.outcome.status == "completed"


# ---- C4


@pytest.mark.parametrize("raw", ["stop", "tool_calls", "length", "content_filter", "whatever"])
@pytest.mark.parametrize("inner_cancel", [True, False])
async def test_C4_the_completion_is_recognised_whatever_the_finish_reason_says(raw: Any, inner_cancel: bool) -> None:
    reason = raw if raw != "whatever" else "other"
    response = [call("finish_task", summary="done"), FinishReport(reason, raw)]
    outcome = await Engine(Scripted(response), policy=Policy(inner_cancel=inner_cancel)).run("go")
    assert (outcome.status, outcome.answer) == ("completed", "done")


async def test_C4_the_completion_is_recognised_although_the_last_message_is_a_tool_result() -> None:
    session = Engine(Scripted([call("finish_task", summary="done")]), policy=Policy(inner_cancel=False)).session()
    outcome = await session.run("go")
    assert isinstance(session.transcript.messages[-1], ToolResult)
    assert outcome.stop_reason == "completed"


# ---- C5


async def test_C5_with_the_inner_cancel_switched_off_the_decision_still_ends_the_run() -> None:
    provider = Scripted([call("finish_task", summary=f"done {i}") for i in range(10)], "more")
    events, run = await drive(Engine(provider, policy=Policy(inner_cancel=False)))
    assert (run.outcome.stop_reason, run.outcome.answer) == ("completed", "done 0")
    assert [e.cut_by for e in events if isinstance(e, ev.StepFinished)] == [None]
    assert [e.decision.rule for e in events if isinstance(e, ev.DecisionMade)] == ["control_flow"]
    assert len(provider.requests) == 1


async def test_C5_with_p05_switched_off_the_step_that_was_cut_ends_the_run_by_p1() -> None:
    provider = Scripted([call("finish_task", summary="done")], "more")
    events, run = await drive(Engine(provider, policy=Policy(rules=WITHOUT_P05)))
    assert (run.outcome.stop_reason, run.outcome.answer) == ("completed", "done")
    assert [e.decision.rule for e in events if isinstance(e, ev.DecisionMade)] == ["finish_reason"]
    assert len(provider.requests) == 1


async def test_C5_with_both_switched_off_nothing_ends_the_run_so_the_two_tests_above_can_fail() -> None:
    policy = Policy(rules=WITHOUT_P05, inner_cancel=False, limits=Limits(steps=3))
    outcome = await Engine(Scripted(*[[call("finish_task", summary="done")]] * 5), policy=policy).run("go")
    assert outcome.stop_reason == "step_limit"


# ---- C6


async def test_C6_a_session_of_three_runs_goes_on_after_a_completion_and_an_answered_question() -> None:
    provider = Scripted(
        [call("finish_task", summary="first")],
        [call("ask_user", question="Which port?", id="q1")],
        [call("work")],
        [call("finish_task", summary="second")],
        [call("work")],
        [call("work")],
        "third",
    )
    session = Engine(provider, tools=[nothing()], presets=[finish_task, ask_user]).session()
    first = await session.run("one")
    assert (first.answer, first.steps) == ("first", 1)
    paused = await session.run("two")
    assert paused.status == "awaiting_input"
    assert paused.questions == (Question("q1", "Which port?"),)
    second = await session.answer("q1", "8080")
    assert (second.answer, second.steps) == ("second", 3), "it keeps the step of the paused run"
    third = await session.run("three")
    assert (third.stop_reason, third.answer, third.steps) == ("text_final", "third", 3)
    check_transcript(session.transcript.messages)
    (answer,) = [m for m in session.transcript.messages if isinstance(m, ToolResult) and m.call_id == "q1"]
    assert answer.content == "8080"


async def test_C6_a_question_that_the_next_prompt_passes_over_is_closed_as_unanswered() -> None:
    session = Engine(Scripted([call("ask_user", question="?", id="q")], "fine"), presets=[ask_user]).session()
    await session.run("one")
    outcome = await session.run("never mind")
    assert outcome.answer == "fine"
    check_transcript(session.transcript.messages)
    (result,) = [m for m in session.transcript.messages if isinstance(m, ToolResult)]
    assert result.status == "unanswered"


async def test_C6_calls_before_a_question_are_settled_before_the_run_pauses() -> None:
    ran: list[str] = []
    provider = Scripted([call("work"), call("ask_user", question="?", id="q")], "fine")
    session = Engine(provider, tools=[nothing(log=ran)], presets=[ask_user]).session()
    assert (await session.run("one")).status == "awaiting_input"
    assert ran == ["work"]
    assert (await session.answer("q", "yes")).answer == "fine"
    check_transcript(session.transcript.messages)


@tool(kind="question")
async def choose(of: list[str]) -> str:
    """Let the user choose."""
    return f"Which of {', '.join(of)}?"


@pytest.mark.parametrize(
    "question",
    [call("ask_user", question="Drop the table prod?", id="q"), call("choose", of=["prod", "test"], id="q")],
    ids=["ask_user", "of one's own"],
)
@pytest.mark.parametrize("options", [{}, {"parallel": True}, {"approval": True}], ids=["", "parallel", "approval"])
async def test_C6_a_call_that_may_write_and_stands_after_a_question_never_runs(
    question: Any, options: dict[str, Any]
) -> None:
    """Not before the answer, and not after it: the model decides anew."""
    dropped: list[str] = []

    async def drop(table: str) -> str:
        dropped.append(table)
        return "dropped"

    provider = Scripted([question, call("drop", table="prod", id="d"), call("drop", table="test", id="e")], "kept")
    tools = [Tool(drop, description="Drop a table.", **options), choose]
    session = Engine(provider, tools=tools, presets=[ask_user]).session()
    paused = await session.run("Tidy up.")
    assert [asked.call_id for asked in paused.questions] == ["q"], "nor is an approval asked for"
    assert dropped == []
    assert (await session.answer("q", "No, keep it!")).answer == "kept"
    assert dropped == []
    check_transcript(session.transcript.messages)
    results = {m.call_id: (m.status, m.content) for m in session.transcript.messages if isinstance(m, ToolResult)}
    assert results["d"] == results["e"]
    assert results["d"][0] == "skipped"
    assert results["d"][1].startswith("Not run: it stood after a question to the user.")


async def test_C6_reading_calls_thoughts_and_further_questions_after_a_question_are_not_held_back() -> None:
    looked: list[str] = []

    async def look(at: str) -> str:
        looked.append(at)
        return "seen"

    response = [
        call("look", at="before"),
        call("ask_user", question="Which port?", id="q1"),
        call("look", at="after"),
        call("think", thought="Two questions."),
        call("ask_user", question="Which host?", id="q2"),
        call("work", id="w"),
    ]
    ran: list[str] = []
    tools = [Tool(look, description="Look.", reads=True), nothing(log=ran)]
    session = Engine(Scripted(response, "fine"), tools=tools, presets=[ask_user, think]).session()
    paused = await session.run("one")
    assert [asked.text for asked in paused.questions] == ["Which port?", "Which host?"]
    assert (looked, ran) == (["before", "after"], [])


async def test_C6_a_question_that_cannot_be_asked_holds_back_what_stands_after_it_as_well() -> None:
    """Its arguments are invalid, so that nothing is asked; but the model wanted to ask first."""
    ran: list[str] = []
    provider = Scripted([call("ask_user", id="q"), call("work", id="w")], [call("work")], "fine")
    outcome = await Engine(provider, tools=[nothing(log=ran)], presets=[ask_user]).run("one")
    assert (outcome.answer, ran) == ("fine", ["work"]), "only in the second response"


async def test_C6_a_record_from_before_replays_as_it_was_recorded(tmp_path: Path) -> None:
    """Such a record does not name the setting; then what stood after a question was run."""
    ran: list[str] = []
    path = tmp_path / "old.jsonl"
    provider = Scripted([call("ask_user", question="?", id="q"), call("work", id="w")], "fine")
    policy = Policy(after_question="run")
    engine = Engine(provider, tools=[nothing(log=ran)], presets=[ask_user], policy=policy)
    async with engine.start("one", record=path) as run:
        await run.wait()
    assert ran == ["work"]
    recorded = path.read_text()
    path.write_text(recorded.replace('"after_question":"run",', ""))
    assert "after_question" not in path.read_text()
    assert [run.difference for run in (await replay(str(path))).runs] == [None]
    path.write_text(recorded.replace('"after_question":"run"', '"after_question":"skip"'))
    assert [run.difference is None for run in (await replay(str(path))).runs] == [False]


async def test_C6_a_completion_beside_an_open_question_is_handed_back() -> None:
    provider = Scripted(
        [call("ask_user", question="?", id="q"), call("finish_task", summary="early")],
        [call("finish_task", summary="late")],
    )
    session = Engine(provider, presets=[finish_task, ask_user]).session()
    assert (await session.run("one")).status == "awaiting_input"
    assert (await session.answer("q", "yes")).answer == "late"
    check_transcript(session.transcript.messages)


# ---- C7


async def test_C7_behaviour_follows_the_kind_and_not_the_name() -> None:
    ran: list[str] = []
    ordinary = nothing("finish_task", ran)
    provider = Scripted([call("finish_task")], [call("work", summary="by its kind")])
    outcome = await Engine(provider, tools=[ordinary, finish_task.renamed("work")]).run("go")
    assert ran == ["finish_task"]
    assert outcome.answer == "by its kind"


async def test_C7_reading_calls_run_beside_each_other_and_writing_ones_one_after_another() -> None:
    running: list[int] = [0]
    most: dict[str, int] = {"reads": 0, "writes": 0}

    async def work(kind: str) -> str:
        running[0] += 1
        most[kind] = max(most[kind], running[0])
        for _ in range(5):
            await anyio.lowlevel.checkpoint()
        running[0] -= 1
        return "ok"

    reader = Tool(partial(work, "reads"), name="look", description="Look.", reads=True)
    writer = Tool(partial(work, "writes"), name="change", description="Change.")
    calls = [call("look") for _ in range(3)] + [call("change") for _ in range(3)]
    await Engine(Scripted(calls, "done"), tools=[reader, writer]).run("go")
    assert most == {"reads": 3, "writes": 1}


async def test_C7_a_reading_call_starts_while_the_response_still_streams_and_a_writing_one_does_not() -> None:
    read, go_on = anyio.Event(), anyio.Event()
    seen: list[str] = []

    async def look(place: str) -> str:
        seen.append("look")
        read.set()
        return "ok"

    async def change() -> str:
        seen.append("change")
        return "ok"

    class Check:
        async def wait(self) -> None:
            await read.wait()
            seen.append("still streaming")

    tools = [Tool(look, description="Look.", reads=True), Tool(change, description="Change.")]
    await Engine(Scripted([call("look", place="here"), call("change"), Check()], "done"), tools=tools).run("go")
    assert seen == ["look", "still streaming", "change"]
    assert not go_on.is_set()


async def test_C7_a_reading_call_behind_a_writing_one_waits_for_it() -> None:
    seen: list[str] = []
    tools = [nothing("change", seen), Tool(nothing("look", seen).function, name="look", description="L.", reads=True)]
    await Engine(Scripted([call("change"), call("look")], "done"), tools=tools).run("go")
    assert seen == ["change", "look"]


# ---- C8


@pytest.mark.parametrize("answer", ["continue", "Continue ", Continue("not yet"), Completion(answer="", success=False)])
async def test_C8_a_completion_handler_that_answers_continue_does_not_end_the_run(answer: Any) -> None:
    answers = [answer, Completion(answer="now")]

    @tool(kind="completion")
    async def finish(summary: str) -> Any:
        """Finish."""
        return answers.pop(0)

    provider = Scripted([call("finish", summary="a")], [call("finish", summary="b")])
    events, run = await drive(Engine(provider, tools=[finish]))
    assert run.outcome.answer == "now"
    assert run.outcome.steps == 2
    assert kinds(events).count("CompletionRejected") == 1


async def test_C8_a_completion_that_is_handed_back_for_ever_ends_as_completion_rejected() -> None:
    @tool(kind="completion")
    async def finish(summary: str) -> Continue:
        """Finish."""
        return Continue("the tests still fail")

    outcome = await Engine(Scripted(*[[call("finish", summary="a")]] * 9), tools=[finish]).run("go")
    assert (outcome.status, outcome.stop_reason, outcome.steps) == ("exhausted", "completion_rejected", 4)
    assert "the tests still fail" in outcome.detail


# ---- C9


def test_C9_folding_and_deciding_look_at_no_history() -> None:
    """Facts hold no collection that grows with the number of steps, and every fact a rule sees is one of them."""
    facts = Facts()
    for step in range(1, 2001):
        for event in (
            ev.StepStarted(step=step, round=1),
            ev.ResponseFinished(step=step, message=ev.AssistantMessage("x"), finish="other"),
            ev.ToolCallResult(call_id=str(step), name="n", content="r"),
            ev.StepFinished(step=step),
        ):
            facts = fold(facts, event)
    sizes = {name: len(value) for name in facts.__struct_fields__ if isinstance(value := getattr(facts, name), tuple)}
    assert facts.steps == 2000
    assert {name: size for name, size in sizes.items() if size} == {"points": REMEMBERED_POINTS}
    for rule in (*RULES, *GUARDS):
        for name in rule.sees:
            assert hasattr(facts, name)


async def test_C9_a_think_call_costs_no_look_at_the_history_and_the_run_goes_on() -> None:
    provider = Scripted(*[[call("think", thought=str(i))] for i in range(5)], "done")
    events, run = await drive(Engine(provider, presets=[think]))
    assert run.outcome.answer == "done"
    assert isinstance([e for e in events if isinstance(e, ev.DecisionMade)][-1].decision, Stop)
    assert not any(isinstance(e.decision, Pause | GoOn) for e in events if isinstance(e, ev.DecisionMade))
