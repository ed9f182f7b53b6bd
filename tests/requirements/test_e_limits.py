"""Row E: limits are not failures."""

import json
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from endstop import Engine, Extend, Hooks, Runtime, Tool, read_record
from endstop.analysis.policy_simulation import backtest
from endstop.decision import (
    POLICIES,
    Limits,
    Outcome,
    Policy,
    SessionLimits,
    ToolResult,
    Usage,
    UsageReport,
    UserMessage,
    WrongUse,
    policy_from,
)
from endstop.decision import events as ev
from endstop.decision.limits import STOP_REASONS
from endstop.decision.policy import Patience, Repetition
from endstop.decision.policy_files import with_setting
from endstop.decision.settings import settings_from_record, settings_to_record
from endstop.evaluation import CommandEvaluator, Evaluation, EvaluationInput
from endstop.hooks import Answer
from endstop.providers import Scripted, Unavailable, call, say
from endstop.replay import replay
from endstop.testing import FakeClock, check_transcript
from endstop.tools import ask_user, finish_task

from ..engine_options import grouped


async def work(n: int = 1) -> str:
    return f"worked on {n}"


WORK = Tool(work, description="Work.")
DONE = [call("finish_task", summary="done")]


def busy(steps: int, *then: Any) -> list[Any]:
    """So many steps with a call each, all different, and what comes then."""
    return [*[[call("work", n=n)] for n in range(steps)], *then]


async def run_of(script: Sequence[Any], **options: Any) -> tuple[list[Any], Outcome]:
    async with Engine(Scripted(*script), tools=[WORK], **options).start("go") as run:
        events = [event async for event in run]
    return events, run.outcome


def steps(hard: int, **more: Any) -> Policy:
    return Policy(limits=Limits(steps=hard), **{"closing": False, **more})


# ---- E1


@pytest.mark.parametrize(
    ("script", "policy", "good", "expected"),
    [
        (busy(1, DONE), steps(5), True, ("completed", False, "passed")),
        (busy(9), steps(3), True, ("exhausted", True, "passed")),
        (busy(9), steps(3), False, ("exhausted", True, "failed")),
        (busy(1, Unavailable("down")), steps(5), True, ("failed", False, "not_run")),
        (busy(1, DONE), steps(5), False, ("completed", False, "failed")),
        (busy(3, DONE), Policy(limits=Limits(soft_steps=2)), True, ("completed", True, "passed")),
    ],
)
async def test_E1_the_verdict_stands_beside_the_status_and_never_inside_it(
    script: list[Any], policy: Policy, good: bool, expected: tuple[Any, ...]
) -> None:
    events, outcome = await run_of(script, policy=policy, hooks=Hooks(evaluate=lambda looked_at: good))
    assert (outcome.status, outcome.exceeded_limit, outcome.verdict) == expected
    assert len([e for e in events if isinstance(e, ev.EvaluationFinished)]) == (expected[2] != "not_run")
    assert isinstance(events[-1], ev.RunFinished)
    assert events[-1].outcome.verdict == outcome.verdict


async def test_E1_a_paused_or_cancelled_run_is_not_evaluated() -> None:
    asked: list[Any] = []
    engine = Engine(Scripted([call("ask_user", question="?")]), presets=[ask_user], hooks=Hooks(evaluate=asked.append))  # type: ignore[arg-type]
    assert (await engine.run("go")).verdict == "not_run"
    async with Engine(Scripted([say("a"), anyio.Event()]), hooks=Hooks(evaluate=asked.append)).start("go") as run:  # type: ignore[arg-type]
        run.cancel()
        assert (await run.wait()).verdict == "not_run"
    assert asked == []


async def test_E1_an_evaluator_sees_the_outcome_and_may_bring_details() -> None:
    async def evaluate(looked_at: EvaluationInput) -> Evaluation:
        return Evaluation(passed=looked_at.outcome.answer == "done", details={"tests": 12})

    _, outcome = await run_of([DONE], hooks=Hooks(evaluate=evaluate))
    assert outcome.verdict == "passed"
    assert outcome.evaluation is not None
    assert outcome.evaluation["tests"] == 12
    assert "evaluate" in outcome.evaluation["name"]


async def test_E1_an_evaluator_that_raises_hangs_or_answers_nonsense_leaves_not_run_with_the_reason() -> None:
    clock = FakeClock()

    async def hangs(looked_at: EvaluationInput) -> bool:
        await anyio.sleep_forever()
        return True

    def raises(looked_at: EvaluationInput) -> bool:
        raise FileNotFoundError("expected.txt")

    async with Engine(Scripted(DONE), hooks=Hooks(evaluate=hangs), runtime=Runtime(clock=clock)).start("go") as run:
        await clock.advance(601)
        hung = await run.wait()
    raised = (await run_of([DONE], hooks=Hooks(evaluate=raises)))[1]
    nonsense = (await run_of([DONE], hooks=Hooks(evaluate=lambda looked_at: "good")))[1]
    for outcome, why in ((hung, "within 600 seconds"), (raised, "expected.txt"), (nonsense, "not str")):
        assert (outcome.status, outcome.verdict, outcome.answer) == ("completed", "not_run", "done")
        assert why in str(outcome.evaluation)


# ---- E2


def evaluator_script(folder: Path) -> str:
    script = folder / "evaluate.py"
    script.write_text(
        "import argparse, json, sys\n"
        "p = argparse.ArgumentParser()\n"
        "for name in ('res_log_file', 'agent_workspace', 'groundtruth_workspace', 'launch_time'):\n"
        "    p.add_argument('--' + name, required=True)\n"
        "a = p.parse_args()\n"
        "lines = open(a.res_log_file).read().splitlines()\n"
        "print(json.dumps([a.agent_workspace, a.groundtruth_workspace, a.launch_time, len(lines)]))\n"
        "same = open(a.agent_workspace + '/x').read() == open(a.groundtruth_workspace + '/x').read()\n"
        "print('the files differ', file=sys.stderr) if not same else None\n"
        "sys.exit(0 if same else 3)\n"
    )
    return f"{sys.executable} {script}"


@pytest.mark.parametrize(("content", "verdict", "code"), [("8080", "passed", 0), ("80", "failed", 3)])
async def test_E2_a_command_evaluates_by_its_arguments_and_its_exit_code(
    tmp_path: Path, content: str, verdict: str, code: int
) -> None:
    mine, reference = tmp_path / "mine folder", tmp_path / "reference"
    for folder, text in ((mine, content), (reference, "8080")):
        folder.mkdir()
        (folder / "x").write_text(text)
    evaluate = CommandEvaluator(evaluator_script(tmp_path), workspace=str(mine), reference=str(reference))
    path = tmp_path / "r.jsonl"
    outcome = await Engine(Scripted(DONE), hooks=Hooks(evaluate=evaluate), runtime=Runtime(clock=FakeClock())).run(
        "go", record=path
    )
    assert (outcome.status, outcome.verdict) == ("completed", verdict)
    assert outcome.evaluation is not None
    assert outcome.evaluation["exit_code"] == code
    first = outcome.evaluation["output"].splitlines()[0]
    given = json.loads(first)
    assert given[:3] == [str(mine), str(reference), "2026-01-01T00:00:00.000+00:00"]
    assert given[3] > 5, "it reads the record so far"
    assert ("the files differ" in outcome.evaluation["output"]) == (code == 3), "both outputs are kept"
    assert read_record(path).runs[0].finished.outcome.verdict == verdict  # type: ignore[union-attr]


async def test_E2_a_command_that_hangs_is_killed_with_all_that_it_started(tmp_path: Path) -> None:
    clock, started = FakeClock(), tmp_path / "pid"
    command = f"sh -c 'sleep 1000 & echo $! > {started}; wait'"
    async with Engine(
        Scripted(DONE), hooks=Hooks(evaluate=CommandEvaluator(command)), runtime=Runtime(clock=clock)
    ).start("go") as run:
        with anyio.fail_after(60):
            while not (started.exists() and started.read_text().strip()):
                await anyio.lowlevel.checkpoint()
        await clock.advance(601)
        outcome = await run.wait()
    assert (outcome.status, outcome.verdict) == ("completed", "not_run")
    assert "within 600 seconds" in str(outcome.evaluation)
    with anyio.fail_after(60):
        while running(int(started.read_text())):
            await anyio.lowlevel.checkpoint()


def running(pid: int) -> bool:
    """Whether a process lives; one that only waits to be collected does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def test_E2_a_command_that_does_not_exist_leaves_not_run_with_the_reason() -> None:
    _, outcome = await run_of([DONE], hooks=Hooks(evaluate=CommandEvaluator("no-such-evaluator --strict")))
    assert (outcome.verdict, "no-such-evaluator" in str(outcome.evaluation)) == ("not_run", True)


@pytest.mark.parametrize(
    ("answer", "verdict", "work", "evaluation", "stage"),
    [
        ({"pass": True, "details": "ok"}, "passed", "checked", {"details": "ok"}, "ok"),
        (
            {"pass": False, "details": {}, "failure": "端口仍是80"},
            "failed",
            "wrong",
            {"details": {}, "failure": "端口仍是80"},
            "ok",
        ),
        ({"pass": None, "failure": "no reference"}, "not_run", "said", {"failure": "no reference"}, "ok"),
        ({"passed": False}, "failed", "wrong", {}, "ok"),
        ({"score": 0.5}, "not_run", "said", {"error": "not a mapping without 'pass'"}, "failed"),
        ({"pass": "yes"}, "not_run", "said", {"error": "'pass' is True or False, not 'yes'"}, "failed"),
    ],
    ids=str,
)
async def test_E2_an_evaluator_may_answer_with_a_mapping(
    answer: dict[str, Any], verdict: str, work: str, evaluation: dict[str, Any], stage: str
) -> None:
    events, outcome = await run_of([DONE], hooks=Hooks(evaluate=lambda evaluated: answer))
    assert (outcome.verdict, outcome.work) == (verdict, work)
    assert outcome.evaluation is not None
    said = {name: value for name, value in outcome.evaluation.items() if name != "name"}
    if "error" in evaluation:
        assert said.keys() == {"error"}
        assert evaluation["error"] in said["error"]
    else:
        assert said == evaluation
    (status,) = [e.status for e in events if isinstance(e, ev.StageFinished) and e.stage == "evaluate"]
    assert status == stage


async def test_E2_without_an_evaluator_the_verdict_is_not_run() -> None:
    _, outcome = await run_of([DONE])
    assert (outcome.verdict, outcome.evaluation) == ("not_run", None)


# ---- E3


async def test_E3_steps_inside_a_round_rounds_and_steps_of_the_run_are_limits_of_their_own() -> None:
    events, outcome = await run_of(busy(20), policy=steps(7, max_inner_steps=3, reminder=None))
    assert [e.round for e in events if isinstance(e, ev.StepStarted)] == [1, 1, 1, 2, 2, 2, 3]
    assert (outcome.stop_reason, outcome.steps, outcome.rounds) == ("step_limit", 7, 3)
    policy = Policy(limits=Limits(rounds=2), max_inner_steps=3, reminder=None, closing=False)
    _, outcome = await run_of(busy(20), policy=policy)
    assert (outcome.stop_reason, outcome.steps, outcome.rounds) == ("step_limit", 6, 2)
    assert "2 of 2 rounds used" in outcome.detail
    assert (outcome.limits["rounds"].used, outcome.limits["steps"].used) == (2, 6)


async def test_E3_in_single_round_mode_the_run_ends_after_one_round() -> None:
    policy = Policy(limits=Limits(rounds=1), max_inner_steps=4)
    _, outcome = await run_of(busy(20), policy=policy)
    assert (outcome.status, outcome.stop_reason, outcome.steps, outcome.rounds) == ("exhausted", "step_limit", 4, 1)


async def test_E3_in_single_step_mode_the_run_ends_after_one_step_and_the_session_goes_on() -> None:
    session = Engine(Scripted(*busy(2, "Done.")), tools=[WORK], policy=steps(1)).session()
    outcomes = [await session.run("go"), await session.run("go on"), await session.run("go on")]
    assert [outcome.stop_reason for outcome in outcomes] == ["step_limit", "step_limit", "text_final"]
    assert [outcome.steps for outcome in outcomes] == [1, 1, 1]
    check_transcript(session.transcript.messages)


# ---- E4


async def test_E4_at_the_soft_limit_the_run_is_reminded_and_goes_on_and_beyond_it_it_is_flagged() -> None:
    policy = Policy(limits=Limits(soft_steps=3), reminder=None)
    provider = Scripted(*busy(4, DONE))
    outcome = await Engine(provider, tools=[WORK], policy=policy).run("go")
    assert (outcome.status, outcome.exceeded_limit, outcome.steps) == ("completed", True, 5)
    assert [n for n, request in enumerate(provider.requests, 1) if request.ephemeral] == [4]
    assert "3 of 3 steps" in provider.requests[3].ephemeral[0].text  # type: ignore[union-attr]
    soft, hard = outcome.limits["soft_steps"], outcome.limits["steps"]
    assert (soft.used, soft.allowed, soft.soft, hard.allowed, hard.soft) == (5, 3, True, 6, False)


async def test_E4_the_hard_limit_is_twice_the_soft_one_and_ends_the_run_as_exhausted() -> None:
    _, outcome = await run_of(busy(20), policy=Policy(limits=Limits(soft_steps=3)))
    assert (outcome.status, outcome.stop_reason, outcome.steps) == ("exhausted", "step_limit", 6)
    with pytest.raises(WrongUse, match=r"limits.soft_steps \(9\) is above limits.steps \(3\)"):
        Limits(soft_steps=9, steps=3)


async def test_E4_a_run_that_ends_at_its_soft_limit_is_not_over_it() -> None:
    _, outcome = await run_of(busy(2, DONE), policy=Policy(limits=Limits(soft_steps=3)))
    assert (outcome.steps, outcome.exceeded_limit) == (3, False)


# ---- E4: limits that are extended while the work makes progress


def changes(steps: int, *then: Any) -> list[Any]:
    """So many steps that each change something else, and what comes then."""
    return busy(steps, *then)


def granted(events: list[Any]) -> list[tuple[int, int]]:
    return [(event.by, event.allowed) for event in events if isinstance(event, ev.LimitExtended)]


async def test_E4_a_healthy_run_is_granted_15_steps_at_the_default_limit_and_finishes(tmp_path: Path) -> None:
    engine = Engine(Scripted(*changes(50, DONE)), tools=[WORK], policy=Policy(reminder=None))
    async with engine.start("go", record=tmp_path / "r.jsonl") as run:
        events = [event async for event in run]
    assert (run.outcome.status, run.outcome.steps) == ("completed", 51)
    assert granted(events) == [(15, 45), (15, 60)]
    assert (run.outcome.limits["steps"].allowed, run.outcome.exceeded_limit) == (60, False)
    report = await replay(str(tmp_path / "r.jsonl"))
    assert [(one.divergence, one.difference) for one in report.runs] == [(None, None)]


@pytest.mark.parametrize("policy", [Policy(limits=Limits(steps=30)), policy_from({"limits": {"steps": 30}})])
async def test_E4_a_number_of_steps_that_a_user_writes_is_that_number(policy: Policy) -> None:
    events, outcome = await run_of(changes(50, DONE), policy=replace_closing(policy))
    assert (outcome.stop_reason, outcome.steps, granted(events)) == ("step_limit", 30, [])


def replace_closing(policy: Policy) -> Policy:
    return msgspec.structs.replace(policy, closing=False)


async def test_E4_grants_are_finite_and_a_run_that_nothing_else_ends_still_ends() -> None:
    policy = Policy(limits=Limits(steps=4, extend=Extend(by=2, most=3)), closing=False)
    events, outcome = await run_of(changes(30), policy=policy)
    assert granted(events) == [(2, 6), (2, 8), (2, 10)]
    assert (outcome.status, outcome.stop_reason, outcome.steps) == ("exhausted", "step_limit", 10)


async def test_E4_no_grant_without_progress_since_the_last_one() -> None:
    """After the first grant the calls only repeat what is known."""

    async def look(n: int) -> str:
        return "the same text as ever"

    script = [*changes(5), *[[call("look", n=n)] for n in range(20)]]
    tools = [WORK, Tool(look, description="Look.", reads=True)]
    guards = tuple(name for name in Policy().guards if name not in ("stagnation", "no_progress"))
    policy = Policy(limits=Limits(steps=4, extend=Extend(by=3)), guards=guards, closing=False)
    async with Engine(Scripted(*script), tools=tools, policy=policy).start("go") as run:
        events = [event async for event in run]
    assert granted(events) == [(3, 7), (3, 10)], "its text was news at step 6, and at no later one"
    assert (run.outcome.stop_reason, run.outcome.steps) == ("step_limit", 10)


@pytest.mark.parametrize(
    ("limits", "session_limits", "steps_made", "reason"),
    [
        ({"tool_calls": 6}, {}, 6, "tool_call_limit"),
        ({"rounds": 2}, {}, 14, "step_limit"),
        ({}, {"steps": 7}, 7, "step_limit"),
    ],
)
async def test_E4_a_grant_goes_beyond_no_other_limit(
    limits: dict[str, int], session_limits: dict[str, int], steps_made: int, reason: str
) -> None:
    policy = Policy(
        limits=Limits(steps=4, extend=Extend(), **limits),
        session_limits=SessionLimits(**session_limits),
        closing=False,
        reminder=None,
    )
    _, outcome = await run_of(changes(50), policy=policy)
    assert (outcome.stop_reason, outcome.steps) == (reason, steps_made)


async def test_E4_what_was_granted_is_carried_over_a_question() -> None:
    policy = Policy(limits=Limits(steps=3, extend=Extend(by=2)), closing=False, reminder=None)
    script = [*changes(4), [call("ask_user", question="Which?", id="q")], *changes(9)]
    session = Engine(Scripted(*script), tools=[WORK], presets=[ask_user], policy=policy).session()
    paused = await session.run("go")
    assert (paused.status, paused.limits["steps"].allowed) == ("awaiting_input", 5)
    async with session.start_answer("q", "this") as run:
        events = [event async for event in run]
    assert granted(events)[0] == (2, 7), "the answer is news, and the limit of 5 is reached"


async def test_E4_without_a_limit_of_steps_another_limit_is_needed() -> None:
    with pytest.raises(WrongUse, match="has no limit of steps and no other hard limit"):
        Engine(Scripted(), policy=Policy(limits=Limits(steps=None)))
    _, outcome = await run_of(changes(50), policy=Policy(limits=Limits(steps=None, tool_calls=40), closing=False))
    assert (outcome.stop_reason, outcome.steps) == ("tool_call_limit", 40)
    assert "steps" not in outcome.limits
    assert policy_from({"limits": {"steps": "off", "seconds": 60}}).limits.steps is None


@pytest.mark.parametrize(
    ("extend", "said"),
    [({"by": 500}, "limits.extend.by is 500: use 1 to 15"), ({"most": 0}, "limits.extend.most is 0: use 1 or more")],
)
def test_E4_a_grant_of_many_steps_would_be_no_limit(extend: dict[str, int], said: str) -> None:
    with pytest.raises(WrongUse, match=said):
        Extend(**extend)
    with pytest.raises(WrongUse, match=said):
        policy_from({"limits": {"extend": extend}})


def test_E4_policies_in_python_in_files_and_in_records_agree_on_grants() -> None:
    extended = Policy().limits.extend
    assert extended == Extend() == POLICIES["strict"].limits.extend
    assert POLICIES["chat"].limits == Limits(steps=30) == Limits(extend=None)
    assert policy_from({"limits": {"cost_usd": 2.0}}).limits.extend == extended
    assert policy_from({"limits": {"steps": 40, "extend": {"by": 5}}}).limits.extend == Extend(by=5)
    assert policy_from({"limits": {"extend": "off"}}).limits == Limits(steps=30)
    assert msgspec.structs.replace(Policy().limits, steps=40) == Limits(steps=40)
    assert with_setting(Policy(), "limits.steps", 40).limits == Limits(steps=40)
    assert with_setting(Policy(), "limits.extend.by", 5).limits.extend == Extend(by=5)
    assert settings_from_record(Policy, {}).limits == Limits(steps=30), "a record from before"
    for policy in (*POLICIES.values(), Policy(limits=Limits(steps=None)), Policy(limits=Limits(soft_steps=20))):
        assert settings_from_record(Policy, settings_to_record(policy)) == policy


async def test_E4_a_backtest_grants_as_the_policy_does_that_it_asks(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    recorded = Policy(limits=Limits(steps=60), reminder=None, closing=False)
    await Engine(Scripted(*changes(50, DONE)), tools=[WORK], policy=recorded).run("go", record=path)
    asked = {
        "agent": Policy(reminder=None, closing=False),
        "30": Policy(limits=Limits(steps=30), reminder=None, closing=False),
        "one grant": Policy(limits=Limits(steps=30, extend=Extend(most=1)), reminder=None, closing=False),
    }
    (result,) = backtest(read_record(path).runs[0].events, list(asked.values()))
    ends = {
        name: (one.parting, one.stops and one.stops.steps) for name, one in zip(asked, result.findings, strict=True)
    }
    assert ends == {"agent": ("same", 51), "30": ("earlier", 30), "one grant": ("earlier", 45)}


# ---- E4: limits at which the user is asked


def asking(hard: int = 3, by: int = 2, **more: Any) -> Policy:
    limits = Limits(steps=hard, extend=Extend(by=by, most=1, when="ask"))
    return Policy(limits=limits, **{"closing": False, "reminder": None, **more})


ENGINES = {
    "60": Limits(steps=60),
    "off": Limits(steps=None, seconds=60),
    "fixed": Limits(steps=3),
    "progress": Limits(steps=3, extend=Extend()),
}
"""Limits with which a paused run may go on."""


def asked(events: Sequence[Any]) -> list[tuple[str, str, int]]:
    return [(e.call_id, e.text, e.extends) for e in events if isinstance(e, ev.QuestionAsked)]


async def events_of(run: Any) -> list[Any]:
    async with run:
        return [event async for event in run]


async def test_E4_at_the_limit_the_user_is_asked_and_grants_steps_as_often_as_asked(tmp_path: Path) -> None:
    provider = Scripted(*busy(26, DONE))
    session = Engine(provider, tools=[WORK], policy=asking()).session(record=tmp_path / "r.jsonl")
    paused = await session.run("go")
    assert (paused.status, paused.stop_reason, paused.steps) == ("awaiting_input", "awaiting_input", 3)
    (question,) = paused.questions
    assert (question.call_id, question.extends) == ("limits.steps.3", 2)
    assert question.text == "3 of 3 steps are used. May the run make 2 more?"
    assert (paused.exceeded_limit, paused.limits["steps"].allowed) == (False, 3)
    assert paused.detail == "the limit of steps is reached, and the user is asked for more"

    events = await events_of(session.start_extend(20))
    assert granted(events) == [(20, 23)], "any number, and neither `by` nor `most` bounds it"
    assert asked(events) == [("limits.steps.23", "23 of 23 steps are used. May the run make 2 more?", 2)]
    agreed = await session.answer("limits.steps.23", "yes, go on")
    assert (agreed.status, agreed.steps, agreed.limits["steps"].allowed) == ("awaiting_input", 25, 25), "`by`"
    done = await session.extend(9)
    assert (done.status, done.stop_reason, done.steps) == ("completed", "completed", 27)

    for request in provider.requests:
        check_transcript(request.messages)
    assert not any("more" in m.text for m in provider.requests[-1].messages if isinstance(m, UserMessage))
    report = await replay(str(tmp_path / "r.jsonl"))
    assert [(one.divergence, one.difference) for one in report.runs] == [(None, None)] * 4
    started = read_record(tmp_path / "r.jsonl").runs[1].events
    assert [type(event).__name__ for event in started[:3]] == ["RunStarted", "QuestionAnswered", "LimitExtended"]
    assert (started[1].says, started[1].extends) == ("yes", 20)


async def test_E4_a_no_ends_the_run_at_its_limit_with_the_closing_step_and_asks_no_more(tmp_path: Path) -> None:
    provider = Scripted(*busy(3, "Three things are done.", "A new answer."))
    engine = Engine(provider, tools=[WORK], policy=asking(closing=True))
    session = engine.session(record=tmp_path / "r.jsonl")
    paused = await session.run("go")
    outcome = await session.answer(paused.questions[0].call_id, "No, that is enough.")
    assert (outcome.status, outcome.stop_reason, outcome.steps) == ("exhausted", "step_limit", 3)
    assert (outcome.answer, outcome.answer_from) == ("Three things are done.", "closing")
    assert outcome.limits["steps"].allowed == 3
    assert outcome.detail == "3 steps used, and the user grants no more"
    assert session.questions == ()
    with pytest.raises(WrongUse, match=r"nothing in session .* asks for more steps \(asking: none\)"):
        session.start_extend(5)
    report = await replay(str(tmp_path / "r.jsonl"))
    assert [(one.divergence, one.difference) for one in report.runs] == [(None, None)] * 2
    again = await session.run("And now?")
    assert (again.status, again.answer) == ("completed", "A new answer.")


@pytest.mark.parametrize(
    ("reply", "steps_granted"),
    [
        *[("7", 7), (" +7 ", 7), ("7 steps", 7), ("7 more steps.", 7), ("1", 1), ("999999", 999_999), ("７", 7)],
        *[("yes", 2), ("Ja, bitte", 2), ("👍", 2), ("好的", 2)],
        *[("no", None), ("Stop.", None), ("不", None)],
        *[("0", 0), ("-5", 0), ("yes, 20", 0), ("only 5", 0), ("1000000", 0), ("twenty", 0), ("2.5", 0), ("maybe", 0)],
    ],
)
async def test_E4_a_number_a_yes_a_no_and_what_is_none_of_them(reply: str, steps_granted: int | None) -> None:
    """0: the question stays open, and is asked again. None: the run ends."""
    session = Engine(
        Scripted(*busy(3), *[[call("ask_user", question="?")]] * 9), tools=[WORK], policy=asking()
    ).session()
    (question,) = (await session.run("go")).questions
    events = await events_of(session.start_answer(question.call_id, reply))
    outcome = events[-1].outcome
    if steps_granted:
        assert granted(events) == [(steps_granted, 3 + steps_granted)]
        assert events[1].extends == steps_granted
    elif steps_granted is None:
        assert (outcome.stop_reason, granted(events), session.questions) == ("step_limit", [], ())
    else:
        assert (outcome.status, events[1].says, granted(events)) == ("awaiting_input", "unclear", [])
        (again,) = outcome.questions
        assert (again.call_id, again.extends, again.unclear) == (question.call_id, 2, 1)
        assert again.text == f"That was neither a yes nor a no. {question.text}"


async def test_E4_after_three_unclear_replies_the_answer_counts_as_a_no() -> None:
    session = Engine(Scripted(*busy(9)), tools=[WORK], policy=asking()).session()
    (question,) = (await session.run("go")).questions
    ends = [(await session.answer(question.call_id, "Hm, who knows?")).stop_reason for _ in range(3)]
    assert ends == ["awaiting_input", "awaiting_input", "step_limit"]


async def test_E4_a_new_prompt_in_place_of_an_answer_has_a_limit_of_its_own_and_another_question() -> None:
    provider = Scripted(*busy(9))
    session = Engine(provider, tools=[WORK], policy=asking()).session()
    first = await session.run("go")
    second = await session.run("Do something else.")
    assert (second.status, second.steps, second.limits["steps"].allowed) == ("awaiting_input", 3, 3)
    assert [q.call_id for q in (*first.questions, *second.questions)] == ["limits.steps.3", "limits.steps.6"]
    with pytest.raises(WrongUse, match=r"no question .limits\.steps\.3. is open"):
        session.start_answer("limits.steps.3", "yes")
    for request in provider.requests:
        check_transcript(request.messages)


@pytest.mark.parametrize(
    ("reply", "steps_made"), [("5", {"60": 9, "off": 9, "fixed": 8, "progress": 9}), ("no", dict.fromkeys(ENGINES, 3))]
)
async def test_E4_the_answer_holds_for_another_policy_too(
    reply: str, steps_made: dict[str, int], tmp_path: Path
) -> None:
    for name, limits in ENGINES.items():
        record = tmp_path / f"{name}.jsonl"
        await Engine(Scripted(*busy(3)), tools=[WORK], policy=asking()).run("go", record=record)
        policy = Policy(limits=limits, closing=False, reminder=None)
        session = Engine(Scripted(*busy(5, DONE)), tools=[WORK], policy=policy).resume(record)
        outcome = await session.answer(session.questions[0].call_id, reply)
        assert outcome.steps == steps_made[name]
        assert outcome.stop_reason == ("completed" if outcome.steps == 9 else "step_limit")


@pytest.mark.parametrize(
    ("limits", "session_limits", "reason"),
    [
        ({"tool_calls": 3}, {}, "tool_call_limit"),
        ({"rounds": 1}, {}, "step_limit"),
        ({}, {"steps": 3}, "step_limit"),
    ],
)
async def test_E4_nobody_is_asked_where_another_limit_ends_the_run(
    limits: dict[str, int], session_limits: dict[str, int], reason: str
) -> None:
    extended = Limits(steps=3, extend=Extend(when="ask"), **limits)
    policy = Policy(limits=extended, session_limits=SessionLimits(**session_limits), closing=False, max_inner_steps=3)
    events, outcome = await run_of(busy(9), policy=policy)
    assert (outcome.stop_reason, outcome.steps, asked(events)) == (reason, 3, [])


async def test_E4_a_completion_in_the_last_step_needs_no_answer_and_a_question_of_the_model_comes_first() -> None:
    events, outcome = await run_of(busy(2, DONE), policy=asking())
    assert (outcome.stop_reason, asked(events)) == ("completed", [])
    script = busy(2, [call("ask_user", question="Which?", id="q")], *busy(3))
    session = Engine(Scripted(*script), tools=[WORK], presets=[ask_user], policy=asking()).session()
    assert [q.call_id for q in (await session.run("go")).questions] == ["q"]
    assert [q.call_id for q in (await session.answer("q", "This.")).questions] == ["limits.steps.3"]
    assert (await session.extend(1)).steps == 4


async def test_E4_what_the_model_was_to_be_told_at_the_limit_it_is_told_before_the_next_step() -> None:
    provider = Scripted(*busy(2, "Half of it is done.", DONE))
    session = Engine(provider, tools=[WORK], policy=asking(text="nudge")).session()
    paused = await session.run("go")
    assert (paused.status, paused.answer, paused.answer_from) == (
        "awaiting_input",
        "Half of it is done.",
        "latest_text",
    ), "it is no text that waits for a reply"
    await session.extend(5)
    last = provider.requests[-1].messages[-1]
    assert isinstance(last, UserMessage)
    assert "Text alone does not end this task" in last.text


async def test_E4_a_fork_at_the_question_decides_anew(tmp_path: Path) -> None:
    record = tmp_path / "r.jsonl"
    session = Engine(Scripted(*busy(9)), tools=[WORK], policy=asking()).session(record=record)
    await session.run("go")
    decided = [e for e in read_record(record).runs[0].events if isinstance(e, ev.DecisionMade)]
    at = decided[-1].seq
    longer = Engine(Scripted(*busy(2, DONE)), tools=[WORK], policy=steps(30))
    async with session.fork(at=at, engine=longer, record=tmp_path / "longer.jsonl").start_fork() as run:
        assert (await run.wait()).steps == 6
    same = Engine(Scripted(*busy(2, DONE)), tools=[WORK], policy=asking())
    fork = session.fork(at=at, engine=same, record=tmp_path / "same.jsonl")
    async with fork.start_fork() as run:
        assert [q.call_id for q in (await run.wait()).questions] == ["limits.steps.3"]
    assert (await fork.extend(5)).stop_reason == "completed"
    for name in ("longer", "same"):
        report = await replay(str(tmp_path / f"{name}.jsonl"))
        assert all((one.divergence, one.difference) == (None, None) for one in report.runs)


async def test_E4_a_run_that_is_killed_while_it_asks_is_resumed_and_asks_once(tmp_path: Path) -> None:
    record = tmp_path / "r.jsonl"
    await Engine(Scripted(*busy(3)), tools=[WORK], policy=asking()).run("go", record=record)
    lines = record.read_bytes().splitlines(keepends=True)
    last = next(n for n, line in enumerate(lines) if b'"QUESTION_ASKED"' in line)
    record.write_bytes(b"".join(lines[: last + 1]))
    session = Engine(Scripted(*busy(1, DONE)), tools=[WORK], policy=asking()).resume(record)
    assert session.interrupted
    async with session.start_resumed() as run:
        assert [q.call_id for q in (await run.wait()).questions] == ["limits.steps.3"]
    outcome = await session.extend(2)
    assert (outcome.stop_reason, outcome.steps) == ("completed", 5)
    check_transcript(session.transcript.messages)
    assert [len(asked(run.events)) for run in read_record(record).runs] == [1, 0]


async def test_E4_a_backtest_says_that_the_user_would_be_asked_and_takes_recorded_answers(tmp_path: Path) -> None:
    path = tmp_path / "60.jsonl"
    await Engine(Scripted(*busy(50, DONE)), tools=[WORK], policy=steps(60, reminder=None)).run("go", record=path)
    (result,) = backtest(read_record(path).runs[0].events, [asking(30, 15), asking(60)])
    one, same = result.findings
    assert (one.parting, one.step, one.why) == ("diverges", 30, "it would ask the user whether to go on")
    assert (one.stop_reason, one.rule, one.saved, one.least_saved_steps) == ("awaiting_input", "step_limit", None, 0)
    assert same.parting == "same"

    path = tmp_path / "asked.jsonl"
    session = Engine(Scripted(*busy(30)), tools=[WORK], policy=asking()).session(record=path)
    await session.run("go")
    await session.extend(4)
    await session.answer(session.questions[0].call_id, "no")
    for run in read_record(path).runs:
        (result,) = backtest(run.events, [asking()])
        assert [finding.parting for finding in result.findings] == ["same"]


def test_E4_settings_of_a_question_are_those_of_a_policy_file() -> None:
    asks = policy_from({"limits": {"steps": 40, "extend": {"when": "ask", "by": 5}}})
    assert asks.limits == Limits(steps=40, extend=Extend(when="ask", by=5))
    assert with_setting(Policy(), "limits.extend.when", "ask").limits.asks
    assert settings_from_record(Policy, settings_to_record(asks)) == asks
    assert (asks.limits.most_steps, Policy().limits.most_steps) == (40, 150)
    with pytest.raises(WrongUse, match=r"limits\.extend\.when is .never.: use .progress. or .ask."):
        policy_from({"limits": {"extend": {"when": "never"}}})


@pytest.mark.parametrize("steps_granted", [0, -1, True, "20", 2.0, 1_000_000])
async def test_E4_what_is_no_number_of_steps_cannot_be_granted(steps_granted: Any) -> None:
    session = Engine(Scripted(*busy(9)), tools=[WORK], policy=asking()).session()
    await session.run("go")
    with pytest.raises(WrongUse, match="steps cannot be granted: use a whole number from 1 to 999999"):
        session.start_extend(steps_granted)
    assert session.questions


# ---- E5


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        ({"steps": 2}, "step_limit"),
        ({"rounds": 2}, "step_limit"),
        ({"tool_calls": 2}, "tool_call_limit"),
        ({"input_tokens": 20}, "token_limit"),
        ({"output_tokens": 10}, "token_limit"),
        ({"cost_usd": 0.5}, "cost_limit"),
        ({"seconds": 2.0}, "time_limit"),
    ],
)
async def test_E5_a_limit_that_was_hit_is_exhausted_and_stands_in_the_outcome_as_used_and_allowed(
    limits: dict[str, Any], reason: str
) -> None:
    clock = FakeClock()
    usage = UsageReport(Usage(input_tokens=10, output_tokens=5, cost_usd=0.25))

    async def tick(n: int) -> str:
        clock._now += 1
        return f"{n}"

    script = [[call("tick", n=n), usage] for n in range(9)]
    policy = Policy(limits=Limits(**limits), max_inner_steps=1, closing=False)
    engine = Engine(
        Scripted(*script), tools=[Tool(tick, description="Tick.")], policy=policy, runtime=Runtime(clock=clock)
    )
    outcome = await engine.run("go")
    assert (outcome.status, outcome.stop_reason, outcome.steps) == ("exhausted", reason, 2)
    assert outcome.exceeded_limit
    ((name, allowed),) = limits.items()
    assert (outcome.limits[name].used, outcome.limits[name].allowed) == (allowed, allowed)
    assert f"raise limits.{name}" in outcome.detail
    assert STOP_REASONS[name] == reason


async def test_E5_a_limit_never_overrules_a_completion_in_the_last_step() -> None:
    _, outcome = await run_of(busy(2, DONE), policy=steps(3))
    assert (outcome.status, outcome.stop_reason, outcome.steps) == ("completed", "completed", 3)
    _, outcome = await run_of(busy(2, "Paris."), policy=steps(3))
    assert (outcome.status, outcome.stop_reason) == ("completed", "text_final")


async def test_E5_no_limit_is_overshot_by_more_than_one_step() -> None:
    _, outcome = await run_of(
        [[call("work", n=n), call("work", n=n + 100), call("work", n=n + 200)] for n in range(9)],
        policy=Policy(limits=Limits(tool_calls=4)),
    )
    assert (outcome.stop_reason, outcome.limits["tool_calls"].used, outcome.steps) == ("tool_call_limit", 6, 2)


# ---- E6


async def stuck(pattern: Sequence[Any], policy: Policy = Policy(), **options: Any) -> tuple[list[int], Outcome]:  # noqa: B008
    """At which steps the model was told that it repeats itself, and the outcome, for calls in a cycle."""
    script = [pattern[n % len(pattern)] for n in range(40)]
    provider = Scripted(*script)
    outcome = await Engine(provider, tools=[WORK, *options.pop("tools", ())], policy=policy, **options).run("go")
    nudged, before = [], 0
    for number, request in enumerate(provider.requests):
        users = sum(isinstance(m, UserMessage) and "same calls" in m.text for m in request.messages)
        if users > before:
            nudged.append(number)
        before = users
    return nudged, outcome


async def test_E6_the_same_call_with_the_same_result_is_nudged_at_3_and_5_and_stopped_at_6() -> None:
    nudged, outcome = await stuck([[call("work", n=1)]])
    assert nudged == [3, 5]
    assert (outcome.status, outcome.stop_reason, outcome.steps) == ("exhausted", "stuck", 6)
    assert "6 times" in outcome.detail


@pytest.mark.parametrize("length", [2, 3, 4])
async def test_E6_a_cycle_is_nudged_when_it_comes_round_and_stopped_at_the_sixth_time(length: int) -> None:
    nudged, outcome = await stuck([[call("work", n=n)] for n in range(length)])
    assert nudged == [3 * length, 5 * length], "once each, and not at every step in between"
    assert (outcome.stop_reason, outcome.steps) == ("stuck", 6 * length)


async def test_E6_the_same_calls_side_by_side_in_another_order_are_the_same_step() -> None:
    _, outcome = await stuck(
        [[call("work", n=1), call("work", n=2)], [call("work", n=2), call("work", n=1)]],
    )
    assert (outcome.stop_reason, outcome.steps) == ("stuck", 6)


async def test_E6_the_same_call_with_other_results_is_no_repetition() -> None:
    seen: list[int] = []

    async def look() -> str:
        seen.append(1)
        return f"{len(seen)} files"

    nudged, outcome = await stuck(
        [[call("look")]], Policy(limits=Limits(steps=30)), tools=[Tool(look, description="Look.")]
    )
    assert (nudged, outcome.stop_reason, outcome.steps) == ([], "step_limit", 30)


async def test_E6_other_calls_with_the_same_result_are_no_repetition() -> None:
    async def touch(n: int) -> str:
        return "ok"

    tools = [Tool(touch, description="Touch.")]
    nudged, outcome = await stuck(
        [[call("touch", n=n)] for n in range(40)], Policy(limits=Limits(steps=30)), tools=tools
    )
    assert (nudged, outcome.stop_reason) == ([], "step_limit")


async def test_E6_a_tool_that_polls_is_exempt() -> None:
    async def poll() -> str:
        return "still running"

    tools = [Tool(poll, description="Poll.", polls=True)]
    nudged, outcome = await stuck([[call("poll")]], tools=tools)
    assert (nudged, outcome.stop_reason) == ([], "step_limit")


async def test_E6_polling_in_between_does_not_hide_a_repetition_nor_nudge_twice() -> None:
    async def poll() -> str:
        return "still running"

    tools = [Tool(poll, description="Poll.", polls=True)]
    nudged, outcome = await stuck([[call("work", n=1)], [call("poll")]], tools=tools)
    assert nudged == [5, 9], "after the third and the fifth time"
    assert (outcome.stop_reason, outcome.steps) == ("stuck", 11)


async def test_E6_only_talk_can_be_stopped_as_stuck_and_is_not_by_default() -> None:
    policy = Policy(text="nudge", repetition=Repetition(monologue=3), limits=Limits(steps=9))
    _, outcome = await stuck(["Hm.", "So."], policy)
    assert (outcome.stop_reason, outcome.steps) == ("stuck", 3)
    _, outcome = await stuck(["Hm.", "So."], Policy(text="nudge", limits=Limits(steps=9)))
    assert outcome.stop_reason == "step_limit"


async def test_E6_the_numbers_are_settings_and_it_can_be_switched_off() -> None:
    policy = Policy(repetition=Repetition(nudge_at=(2,), stop_at=3), limits=Limits(steps=9))
    nudged, outcome = await stuck([[call("work", n=1)]], policy)
    assert (nudged, outcome.stop_reason, outcome.steps) == ([2], "stuck", 3)
    off = policy_from({"repetition": {"nudge_at": []}, "limits": {"steps": 9}})
    off = Policy(repetition=Repetition(nudge_at=(), stop_at=None), limits=off.limits)
    nudged, outcome = await stuck([[call("work", n=1)]], off)
    assert (nudged, outcome.stop_reason) == ([], "step_limit")


async def test_E6_a_model_that_does_something_else_after_the_nudge_is_left_alone() -> None:
    same = [call("work", n=1)]
    events, outcome = await run_of([same] * 3 + [[call("work", n=2)]] + [same] * 2 + [DONE])
    assert outcome.stop_reason == "completed"
    assert len([e for e in events if isinstance(e, ev.MessageAdded) and e.origin == "nudge"]) == 1


# ---- E7


async def test_E7_prepare_run_and_evaluate_have_a_recorded_status_each(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    engine = Engine(
        Scripted(*busy(9)),
        tools=[WORK],
        policy=steps(2),
        hooks=Hooks(prompt_handlers=[lambda prompt, run: None], evaluate=lambda looked_at: False),
    )
    await engine.run("go", record=path)
    stages = [e for e in read_record(path).runs[0].events if isinstance(e, ev.StageFinished)]
    assert [(stage.stage, stage.status, stage.detail) for stage in stages] == [
        ("prepare", "ok", ""),
        ("run", "exhausted", "step_limit"),
        ("evaluate", "ok", "failed"),
    ]


@pytest.mark.parametrize(
    ("script", "run", "evaluate"),
    [
        ([DONE], "ok", "ok"),
        ([Unavailable("down")], "failed", "skipped"),
        ([[call("ask_user", question="?")]], "awaiting_input", "skipped"),
    ],
)
async def test_E7_a_stage_that_failed_or_was_skipped_says_so(script: Any, run: str, evaluate: str) -> None:
    events, _ = await run_of(script, presets=[finish_task, ask_user], hooks=Hooks(evaluate=lambda looked_at: True))
    stages = {e.stage: e.status for e in events if isinstance(e, ev.StageFinished)}
    assert (stages["run"], stages["evaluate"]) == (run, evaluate)


async def test_E7_an_evaluation_that_failed_to_run_is_a_failed_stage_of_a_completed_run() -> None:
    events, outcome = await run_of([DONE], hooks=Hooks(evaluate=lambda looked_at: 1 / 0))
    stages = {e.stage: (e.status, e.detail) for e in events if isinstance(e, ev.StageFinished)}
    assert (outcome.status, stages["run"][0], stages["evaluate"]) == ("completed", "ok", ("failed", "not_run"))


async def test_E7_a_handler_that_answers_is_a_prepared_and_finished_run() -> None:
    events, _ = await run_of([], hooks=Hooks(prompt_handlers=[lambda prompt, run: Answer("hi")]))
    stages = [(e.stage, e.status) for e in events if isinstance(e, ev.StageFinished)]
    assert stages == [("prepare", "ok"), ("run", "ok"), ("evaluate", "absent")]


async def test_E7_stages_that_nobody_is_there_for_are_recorded_as_absent() -> None:
    events, _ = await run_of([DONE])
    stages = [(e.stage, e.status, e.detail) for e in events if isinstance(e, ev.StageFinished)]
    assert stages == [
        ("prepare", "absent", ""),
        ("run", "ok", "completed"),
        ("evaluate", "absent", "the run is completed"),
    ]


async def test_E7_an_evaluation_that_is_cancelled_leaves_a_completed_run_without_a_verdict() -> None:
    asked = anyio.Event()

    async def hangs(looked_at: EvaluationInput) -> bool:
        asked.set()
        await anyio.sleep_forever()
        return True

    async with Engine(Scripted(DONE), hooks=Hooks(evaluate=hangs)).start("go") as run:
        await asked.wait()
        run.cancel("shutdown")
        events = [event async for event in run]
    stages = {e.stage: e.status for e in events if isinstance(e, ev.StageFinished)}
    assert (run.outcome.status, run.outcome.verdict, stages["evaluate"]) == ("completed", "not_run", "cancelled")


@pytest.mark.parametrize("role", ["gates", "judge", "text_rule", "prompt_handlers", "evaluate"])
async def test_A4_E1_a_sync_function_that_blocks_is_given_up_at_its_deadline(role: str) -> None:
    release = threading.Event()
    asked = threading.Event()

    def blocks(*arguments: Any) -> None:
        asked.set()
        release.wait(30)

    clock = FakeClock()
    hook: Any = [blocks] if role in ("gates", "prompt_handlers") else blocks
    options: dict[str, Any] = {role: hook, "clock": clock}
    script = ["Hm.", DONE] if role == "text_rule" else [DONE, DONE]
    policy = Policy(completion="required", text="nudge", max_inner_steps=1, patience=Patience(rejections=0))
    if role == "judge":
        script = [[call("work")], DONE]
    try:
        async with Engine(Scripted(*script), tools=[WORK], policy=policy, **grouped(**options)).start("go") as run:
            with anyio.fail_after(60):
                while not run.finished:
                    if asked.is_set():
                        await clock.advance(1000)
                    await anyio.sleep(0)
    finally:
        release.set()
    events = [event async for event in run.events()]
    failed = [e.role for e in events if isinstance(e, ev.VerdictGiven) and e.said == "failed"]
    if role == "evaluate":
        assert run.outcome.verdict == "not_run"
        assert "no verdict within" in str(run.outcome.evaluation)
    else:
        assert set(failed) == {{"gates": "gate", "prompt_handlers": "handler"}.get(role, role)}
    assert run.outcome.status == ("exhausted" if role == "gates" else "completed")


# ---- E9


async def closing(last: Any, tmp_path: Path, **options: Any) -> tuple[Scripted, Any, Outcome]:
    provider = Scripted(*busy(2), last)
    engine = Engine(provider, tools=[WORK], policy=steps(2, closing=True), **options)
    session = engine.session(record=tmp_path / "r.jsonl")
    outcome = await session.run("go")
    check_transcript(session.transcript.messages)
    assert (await replay(str(tmp_path / "r.jsonl"))).same
    return provider, session, outcome


async def test_E9_at_the_hard_limit_one_closing_step_tells_the_user_what_was_done(tmp_path: Path) -> None:
    provider, session, outcome = await closing("Two of three files are done.", tmp_path)
    assert (outcome.status, outcome.stop_reason) == ("exhausted", "step_limit")
    assert outcome.answer == "Two of three files are done."
    assert (outcome.steps, outcome.requests, len(provider.requests)) == (2, 3, 3), "reserved outside the limit"
    asked = provider.requests[-1]
    assert asked.tool_choice == "none"
    assert asked.tools == provider.requests[0].tools, "the same list: some providers refuse a history without it"
    assert [type(m) for m in asked.ephemeral] == [UserMessage]
    assert "no tool can be used" in asked.ephemeral[0].text  # type: ignore[union-attr]
    assert all("no tool can be used" not in str(m) for m in session.transcript.messages)


async def test_E9_a_call_that_comes_nevertheless_is_not_run(tmp_path: Path) -> None:
    last = [say("Two files are done."), call("work", n=99), call("finish_task", summary="all is done")]
    _, session, outcome = await closing(last, tmp_path)
    assert (outcome.stop_reason, outcome.answer) == ("step_limit", "Two files are done.")
    results = [m for m in session.transcript.messages if isinstance(m, ToolResult)]
    assert [r.status for r in results] == ["ok", "ok", "skipped", "skipped"]


@pytest.mark.parametrize("last", ["", Unavailable("down")])
async def test_E9_a_closing_step_that_fails_changes_nothing_about_the_end(last: Any, tmp_path: Path) -> None:
    _, _, outcome = await closing(last, tmp_path)
    assert (outcome.status, outcome.stop_reason, outcome.answer, outcome.steps) == ("exhausted", "step_limit", "", 2)


async def test_E9_it_has_a_deadline_of_its_own() -> None:
    clock = FakeClock()
    provider = Scripted(*busy(2), [say("Two files"), anyio.Event()])
    engine = Engine(provider, tools=[WORK], policy=steps(2, closing=True), runtime=Runtime(clock=clock))
    async with engine.start("go") as run:
        await clock.advance(59)
        assert not run.finished
        await clock.advance(2)
        outcome = await run.wait()
    assert (outcome.status, outcome.stop_reason, outcome.requests) == ("exhausted", "step_limit", 3)


async def test_E9_a_run_that_ends_otherwise_has_no_closing_step(tmp_path: Path) -> None:
    for script in ([DONE], ["Paris."], [Unavailable("down")]):
        provider = Scripted(*script)
        await Engine(provider, tools=[WORK], policy=Policy(closing=True)).run("go")
        assert len(provider.requests) == len(script)
