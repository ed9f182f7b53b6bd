"""What an engine is given is checked before its first run, and a wrong thing is refused with its name."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from endstop import Engine, Hooks, read_record
from endstop.decision import GUARDS, POLICIES, Policy, Rule, WrongUse
from endstop.decision import events as ev
from endstop.evaluation import Evaluation
from endstop.hooks import ModelJudge
from endstop.providers import Scripted, call
from endstop.tools import ask_user, finish_task

from ..engine_options import grouped

DONE = [call("finish_task", summary="done")]


def broken(facts: Any, policy: Any) -> None:
    raise ZeroDivisionError("division by zero")


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "a gate that is text": ({"gates": ["pytest"]}, "gates: 'pytest' is not a function"),
    "one gate without a list": ({"gates": lambda c, r: True}, r"write gates=\["),
    "one intent without a list": ({"prompt_handlers": lambda p, r: None}, r"write prompt_handlers=\["),
    "an evaluator that is text": ({"evaluate": "pytest"}, "evaluate: 'pytest' is not a function"),
    "a judge that is none": ({"judge": True}, "judge: True is not a function"),
    "a text rule that is none": ({"text_rule": "x"}, "text_rule: 'x' is not a function"),
    "no provider": ({"provider": None}, "provider: None has no method `stream`"),
    "a misspelt policy's name": ({"policy": "strikt"}, "unknown policy 'strikt' .did you mean 'strict'"),
    "no policy": ({"policy": None}, "policy: None is not a Policy"),
    "a tool choice": ({"tool_choice": "must"}, "tool_choice is 'must': use one of auto, required, none"),
    "required tools, and none": ({"tool_choice": "required", "presets": ()}, "no tools are offered"),
    "no buffer": ({"buffer": 0}, "buffer is 0"),
    "a judge whom nobody hears": (
        {"judge": lambda run: None, "policy": Policy(guards=tuple(g.name for g in GUARDS if g.name != "judged"))},
        "policy.guards leaves out 'judged'",
    ),
    "a rule that raises": (
        {"rules": [Rule("guard", "odd", "Odd.", (), broken)], "policy": Policy(guards=("odd",))},
        "rule 'odd': ZeroDivisionError: division by zero",
    ),
    "a rule that looks at what is not there": (
        {"rules": [Rule("guard", "odd", "Odd.", ("nothing",), lambda f, p: None)], "policy": Policy(guards=("odd",))},
        "rule 'odd': AttributeError",
    ),
    "a rule that answers nonsense": (
        {"rules": [Rule("guard", "odd", "Odd.", (), lambda f, p: "stop")], "policy": Policy(guards=("odd",))},
        "rule 'odd' returned 'stop': return GoOn, Pause, Stop or None",
    ),
}


def test_a_policy_may_be_given_by_its_name() -> None:
    assert Engine(Scripted([]), policy="strict").config.policy == POLICIES["strict"]


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_work_is_refused_at_start_with_its_name(case: str) -> None:
    options, words = WRONG[case]
    with pytest.raises(WrongUse, match=words):
        Engine(**{"provider": Scripted(), **grouped(**options)})


@pytest.mark.parametrize("model", [None, "gpt"])
def test_a_judge_without_a_model_is_refused(model: Any) -> None:
    with pytest.raises(WrongUse, match="has no method `stream`"):
        ModelJudge(model)


async def test_a_gate_or_evaluator_that_leaves_the_process_only_fails(tmp_path: Path) -> None:
    def leaves(*given: Any) -> bool:
        raise SystemExit(3)

    path = tmp_path / "r.jsonl"
    outcome = await Engine(Scripted(*[DONE] * 9), hooks=Hooks(gates=[leaves], evaluate=leaves)).run("go", record=path)
    assert (outcome.stop_reason, outcome.verdict) == ("completion_rejected", "not_run")
    assert "it wanted to end the process: SystemExit: 3" in outcome.detail
    assert read_record(path).runs[0].finished is not None


async def test_a_function_that_lets_out_somebody_elses_cancellation_only_fails() -> None:
    async def waits_for_a_dead_task(*given: Any) -> bool:
        task = asyncio.ensure_future(asyncio.sleep(100))
        task.cancel()
        await task
        return True

    outcome = await Engine(Scripted(DONE), hooks=Hooks(evaluate=waits_for_a_dead_task)).run("go")
    assert (outcome.status, outcome.verdict) == ("completed", "not_run")
    assert outcome.evaluation is not None
    assert outcome.evaluation["error"] == "something that it waited for was cancelled"


async def test_an_error_that_no_run_expects_still_ends_it_for_its_readers() -> None:
    class Odd(BaseException):
        pass

    async def odd(*given: Any) -> bool:
        raise Odd("odd")

    async with Engine(Scripted(DONE), hooks=Hooks(gates=[odd])).start("go") as run:
        events = [event async for event in run]
        with pytest.raises(Odd):
            await run.wait()
    assert isinstance(events[-1], ev.RunFinished)
    assert (run.outcome.stop_reason, run.outcome.detail) == ("internal_error", "Odd: odd")


async def test_details_of_an_evaluation_that_are_no_json_are_kept_in_words(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    details = {"error": ValueError("no"), "where": tmp_path, "text": "\ud800"}
    engine = Engine(Scripted(DONE), hooks=Hooks(evaluate=lambda looked_at: Evaluation(passed=True, details=details)))
    outcome = await engine.run("go", record=path)
    finished = read_record(path).runs[0].finished
    assert outcome.verdict == "passed"
    assert finished is not None
    assert finished.outcome.evaluation is not None
    assert finished.outcome.evaluation["error"] == "ValueError('no')"


async def test_an_evaluation_that_passes_by_a_word_is_no_verdict() -> None:
    engine = Engine(Scripted(DONE), hooks=Hooks(evaluate=lambda looked_at: Evaluation(passed="no")))  # type: ignore[arg-type]
    assert (await engine.run("go")).verdict == "not_run"


async def test_a_run_does_not_go_on_without_the_functions_that_it_began_with(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    presets = [finish_task, ask_user]

    def gate(completion: Any, run: Any) -> bool:
        return True

    provider = Scripted([call("ask_user", question="?", id="q")])
    await Engine(provider, presets=presets, hooks=Hooks(gates=[gate])).run("go", record=path)
    started = read_record(path).runs[0].started
    assert [name.rpartition(".")[2] for name in started.functions["gate"]] == ["gate"]
    session = Engine(Scripted(DONE), presets=presets).session()
    session.load(read_record(path).runs)
    with pytest.raises(WrongUse, match=r"began with a gate, .*gate, which a record cannot hold"):
        await session.answer("q", "yes")
    other = Engine(Scripted(DONE), presets=presets, hooks=Hooks(gates=[lambda completion, run: True])).session()
    other.load(read_record(path).runs)
    assert (await other.answer("q", "yes")).status == "completed"
