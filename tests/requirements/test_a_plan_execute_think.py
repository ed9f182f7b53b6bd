"""Row A6: rounds of plan, execute and think."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from endstop import Completion, Engine, Hooks, Observers, Runtime, Tool, tool
from endstop.decision import Limits, Policy, ToolResult, WrongUse
from endstop.decision.events import PhaseReported
from endstop.hooks import Accept, Progress, Reject
from endstop.plan_execute_think import PLANNING_POLICY, SYSTEM_PROMPT, plan_execute_think
from endstop.providers import Scripted, call
from endstop.replay import replay
from endstop.testing import FakeClock, check_transcript
from endstop.tools import ask_user, task_done


def plan(*steps: tuple[str, dict[str, Any]]) -> Any:
    return call("plan_and_execute", steps=[{"tool": name, "arguments": arguments} for name, arguments in steps])


def think(decision: str, summary: str = "It is so.", **more: Any) -> Any:
    return call("think_and_decide", summary=summary, decision=decision, **more)


def writer(log: list[str]) -> Tool:
    @tool
    async def write(text: str) -> str:
        "Write."
        log.append(text)
        if text == "bad":
            raise OSError("disk full")
        return f"wrote {text}"

    return write


def results(session: Any) -> list[list[dict[str, Any]]]:
    found = [m for m in session.transcript.messages if isinstance(m, ToolResult) and m.content.startswith("[{")]
    return [json.loads(m.content) for m in found]


async def test_A6_plan_execute_think_goes_on_with_a_new_plan_and_ends_when_done() -> None:
    log: list[str] = []
    seen: list[Any] = []
    provider = Scripted(
        [plan(("write", {"text": "a"}), ("write", {"text": "b"}))],
        [think("go on", "Two of three.", next_goal="the third", completion_percentage=60)],
        [plan(("write", {"text": "c"}))],
        [think("done", "All three are written."), call("plan_and_execute", steps=[])],
    )
    engine = plan_execute_think(
        provider, [writer(log)], observers=Observers(subscribers=[lambda event, run: seen.append(event)])
    )
    session = engine.session()
    outcome = await session.run("Write a, b and c")
    assert (outcome.stop_reason, outcome.answer) == ("completed", "All three are written.")
    assert (outcome.steps, outcome.rounds, log) == (4, 2, ["a", "b", "c"])
    first, second = results(session)
    assert first == [
        {"step": 1, "tool": "write", "status": "ok", "result": "wrote a"},
        {"step": 2, "tool": "write", "status": "ok", "result": "wrote b"},
    ]
    assert [line["result"] for line in second] == ["wrote c"]
    phases = [event.percentage for event in seen if isinstance(event, PhaseReported)]
    assert phases == [60, 100]
    assert [phase["next_phase"] for phase in outcome.phases] == ["the third", None]
    check_transcript(session.transcript.messages)


@pytest.mark.parametrize("count", [0, 9])
async def test_A6_a_plan_without_steps_or_with_more_than_eight_is_handed_back_and_nothing_runs(count: int) -> None:
    log: list[str] = []
    provider = Scripted([plan(*[("write", {"text": "x"})] * count)], [plan(("write", {"text": "y"}))], [think("done")])
    session = plan_execute_think(provider, [writer(log)]).session()
    outcome = await session.run("go")
    refused = next(m for m in session.transcript.messages if isinstance(m, ToolResult))
    assert refused.status == "invalid"
    assert "steps:" in refused.content
    assert (outcome.stop_reason, log) == ("completed", ["y"])


async def test_A6_eight_steps_are_executed_in_their_order() -> None:
    log: list[str] = []
    steps = [("write", {"text": str(number)}) for number in range(8)]
    session = plan_execute_think(Scripted([plan(*steps)], [think("done")]), [writer(log)]).session()
    await session.run("go")
    assert log == [str(number) for number in range(8)]
    assert len(results(session)[0]) == 8


@pytest.mark.parametrize(
    ("bad", "what"),
    [
        (("write", {"txt": "b"}), "Step 2 of the plan"),
        (("erase", {}), "'erase' is not one of"),
        (("write", {}), "text"),
    ],
)
async def test_A6_a_plan_is_checked_as_a_whole_before_its_first_step_runs(bad: Any, what: str) -> None:
    log: list[str] = []
    session = plan_execute_think(
        Scripted([plan(("write", {"text": "a"}), bad)], [think("done")]), [writer(log)]
    ).session()
    await session.run("go")
    refused = next(m for m in session.transcript.messages if isinstance(m, ToolResult))
    assert what in refused.content
    assert log == []


async def test_A6_after_a_failed_step_the_rest_is_skipped_and_a_completion_beside_the_plan_is_handed_back() -> None:
    log: list[str] = []
    steps = [("write", {"text": text}) for text in ("a", "bad", "c")]
    provider = Scripted([plan(*steps), think("done")], [think("done", "The disk is full.")])
    session = plan_execute_think(provider, [writer(log)]).session()
    outcome = await session.run("go")
    assert log == ["a", "bad"]
    assert [(line["status"], line["result"]) for line in results(session)[0]] == [
        ("ok", "wrote a"),
        ("error", "OSError: disk full"),
        ("skipped", "Not run: a step before it failed."),
    ]
    assert (outcome.answer, outcome.steps) == ("The disk is full.", 2)


async def test_A6_reading_steps_side_by_side_run_at_once_and_writing_ones_alone() -> None:
    together, most = 0, 0
    both = anyio.Event()

    @tool(reads=True)
    async def read(path: str) -> str:
        "Read."
        nonlocal together, most
        together += 1
        most = max(most, together)
        if together == 2:
            both.set()
        with anyio.fail_after(60):
            await both.wait()
        together -= 1
        return path

    @tool
    async def edit(path: str) -> str:
        "Edit."
        assert together == 0
        return path

    provider = Scripted(
        [plan(("read", {"path": "a"}), ("read", {"path": "b"}), ("edit", {"path": "a"}))], [think("done")]
    )
    session = plan_execute_think(provider, [read, edit]).session()
    await session.run("go")
    assert most == 2
    assert [line["status"] for line in results(session)[0]] == ["ok"] * 3


async def test_A6_a_step_that_takes_too_long_is_stopped_by_its_own_tools_timeout() -> None:
    clock = FakeClock()

    @tool(timeout=3)
    async def hang() -> str:
        "Hang."
        await clock.sleep(1000)
        return "never"

    session = plan_execute_think(
        Scripted([plan(("hang", {}))], [think("done")]), [hang], runtime=Runtime(clock=clock)
    ).session()
    async with session.start("go") as run:
        await clock.advance(4)
        await run.wait()
    assert results(session)[0][0]["result"] == "hang was stopped after 3 seconds."


async def test_A6_many_runs_share_one_engine() -> None:
    def play(request: Any) -> Any:
        prompt = next(m.text for m in request.messages if m.__class__.__name__ == "UserMessage")
        if isinstance(request.messages[-1], ToolResult):
            return [think("done", json.loads(request.messages[-1].content)[0]["result"])]
        return [plan(("write", {"text": prompt}))]

    engine = plan_execute_think(Scripted(play), [writer([])])
    found: dict[str, str] = {}

    async def one(prompt: str) -> None:
        found[prompt] = (await engine.run(prompt)).answer

    async with anyio.create_task_group() as tasks:
        for number in range(20):
            tasks.start_soon(one, str(number))
    assert found == {str(number): f"wrote {number}" for number in range(20)}


async def test_A6_its_limits_are_the_policys_and_text_alone_never_ends_it() -> None:
    assert (PLANNING_POLICY.text, PLANNING_POLICY.completion) == ("nudge", "required")
    policy = Policy(name="short", text="nudge", completion="required", max_inner_steps=2, limits=Limits(steps=4))
    provider = Scripted("I am done.", *[[plan(("write", {"text": str(n)}))] for n in range(9)])
    outcome = await plan_execute_think(provider, [writer([])], policy=policy).run("go")
    assert (outcome.status, outcome.stop_reason, outcome.steps) == ("exhausted", "step_limit", 4)


async def test_A6_a_record_of_it_replays(tmp_path: Any) -> None:
    log: list[str] = []
    provider = Scripted(
        [plan(("write", {"text": "a"}))], [think("go on")], [plan(("write", {"text": "b"}))], [think("done")]
    )
    await plan_execute_think(provider, [writer(log)]).run("go", record=tmp_path / "r.jsonl")
    report = await replay(tmp_path / "r.jsonl")
    assert report.same
    assert log == ["a", "b"]


def test_A6_its_system_prompt_names_no_tool_and_its_tools_are_ordinary_pieces() -> None:
    engine = plan_execute_think(Scripted(), [writer([]), ask_user])
    assert isinstance(engine, Engine)
    assert {name: made.kind for name, made in engine.config.toolbox.items()} == {
        "plan_and_execute": "ordinary",
        "think_and_decide": "completion",
        "ask_user": "question",
    }
    assert not any(name in SYSTEM_PROMPT for name in engine.config.toolbox)
    assert '"text"' in engine.config.toolbox["plan_and_execute"].spec.description


def test_A6_tools_that_cannot_make_a_plan_are_refused() -> None:
    with pytest.raises(WrongUse, match="ordinary"):
        plan_execute_think(Scripted(), [ask_user])
    with pytest.raises(WrongUse, match="two tools"):
        plan_execute_think(Scripted(), [writer([]), writer([])])


# ---- F16


@pytest.mark.parametrize("given", [[], [task_done]], ids=["as shipped", "brought"])
async def test_F16_a_plan_whose_last_step_is_the_completion_runs_and_ends(given: list[Tool], tmp_path: Path) -> None:
    log: list[str] = []
    provider = Scripted([plan(("write", {"text": "a"}), ("task_done", {"summary": "端口已改为 8080"}))], "more")
    session = plan_execute_think(provider, [writer(log), *given]).session(record=tmp_path / "r.jsonl")
    outcome = await session.run("Write a")
    assert (outcome.stop_reason, outcome.answer, outcome.steps) == ("completed", "端口已改为 8080", 1)
    assert log == ["a"]
    assert [(line["tool"], line["status"]) for line in results(session)[0]] == [("write", "ok"), ("task_done", "ok")]
    check_transcript(session.transcript.messages)
    assert (await replay(str(tmp_path / "r.jsonl"))).same


async def test_F16_a_failed_step_before_the_completion_keeps_the_run_from_ending() -> None:
    log: list[str] = []
    provider = Scripted(
        [plan(("write", {"text": "bad"}), ("task_done", {"summary": "done"}))], [think("done", "The disk is full.")]
    )
    session = plan_execute_think(provider, [writer(log)]).session()
    outcome = await session.run("go")
    assert (outcome.answer, outcome.steps) == ("The disk is full.", 2)
    assert [line["status"] for line in results(session)[0]] == ["error", "skipped"]


async def test_F16_a_completion_that_is_not_the_last_step_is_handed_back_and_nothing_runs() -> None:
    log: list[str] = []
    provider = Scripted(
        [plan(("task_done", {"summary": "done"}), ("write", {"text": "a"}))], [think("done", "Nothing was written.")]
    )
    session = plan_execute_think(provider, [writer(log)]).session()
    outcome = await session.run("go")
    refused = next(m for m in session.transcript.messages if isinstance(m, ToolResult))
    assert "only be the last step" in refused.content
    assert (log, outcome.answer) == ([], "Nothing was written.")


async def test_F16_what_a_gate_a_phase_or_a_confirmation_hands_back_still_shows_the_results(tmp_path: Path) -> None:
    log: list[str] = []

    def gate(completion: Completion, run: Progress) -> Accept | Reject:
        return Accept() if completion.answer == "all" else Reject("run the tests")

    half = {"summary": "half", "completion_percentage": 50, "next_phase": "tests"}
    provider = Scripted(
        [plan(("write", {"text": "a"}), ("task_done", {"summary": "too early"}))],
        [plan(("write", {"text": "b"}), ("task_done", half))],
        [plan(("write", {"text": "c"}), ("task_done", {"summary": "all", "requires_user_confirmation": True}))],
        [plan(("write", {"text": "d"}), ("task_done", {"summary": "all"}))],
    )
    path = tmp_path / "r.jsonl"
    session = plan_execute_think(provider, [writer(log)], hooks=Hooks(gates=[gate])).session(record=path)
    outcome = await session.run("go")
    assert (outcome.stop_reason, outcome.answer, outcome.steps) == ("completed", "all", 4)
    told = [m.content for m in session.transcript.messages if isinstance(m, ToolResult)]
    for text, said in zip(told, ("run the tests", "50 %", "call of its own", "wrote d"), strict=True):
        assert said in text
        assert "wrote" in text
    assert log == ["a", "b", "c", "d"]
    assert [phase["completion_percentage"] for phase in outcome.phases] == [50, 100]
    report = await replay(str(path))
    assert report.same, [run.divergence for run in report.runs]
