"""`Engine(output=T)`: the run ends with a T, and only with one."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from endstop import (
    Accept,
    Answer,
    Completion,
    Engine,
    Evaluation,
    EvaluationInput,
    Hooks,
    ModelOptions,
    Observers,
    Progress,
    Reject,
    Verdict,
    WrongUse,
    read_record,
    tool,
)
from endstop.decision import Outcome, Policy, ToolResult, UserMessage
from endstop.providers import Scripted, call
from endstop.replay import replay
from endstop.tools import ask_user, finish_task, think


@dataclass
class Config:
    """The settings of a server."""

    host: str
    port: int
    notes: list[str] = field(default_factory=list)


GOOD = call("final_result", host="a", port=80)
CONFIG = Config("a", 80)


@tool
async def look(path: str) -> str:
    """Look at a file."""
    return f"seen {path}"


async def test_the_output_of_a_run_is_of_the_type() -> None:
    outcome = await Engine(Scripted([call("look", path="a")], [GOOD]), tools=[look], output=Config).run("go")
    assert (outcome.status, outcome.stop_reason) == ("completed", "completed")
    assert outcome.output == CONFIG
    assert outcome.output is outcome.output
    assert outcome.answer == '{"host":"a","port":80,"notes":[]}'


async def test_its_tool_takes_the_place_of_the_preset_completion_and_leaves_other_presets() -> None:
    engine = Engine(Scripted([GOOD]), output=Config, presets=[finish_task, ask_user, think])
    assert list(engine.config.toolbox) == ["final_result", "ask_user", "think"]


async def test_validation_errors_go_back_to_the_model() -> None:
    provider = Scripted([call("final_result", host="a", port="eighty")], [GOOD])
    engine = Engine(provider, output=Config)
    session = engine.session()
    outcome = await session.run("go")
    assert (outcome.output, outcome.steps) == (CONFIG, 2)
    results = [m for m in session.transcript.messages if isinstance(m, ToolResult)]
    assert results[0].content.startswith("The arguments of final_result are invalid. port: Input should be a valid int")


async def test_validation_errors_go_back_a_bounded_number_of_times() -> None:
    policy = Policy(closing=False)
    provider = Scripted(*[[call("final_result", host="a", port=word)] for word in "abcdefgh"])
    outcome = await Engine(provider, output=Config, policy=policy).run("go")
    assert outcome.stop_reason == "invalid_calls"
    assert outcome.steps == policy.patience.invalid_calls + 1


async def test_a_text_ends_no_run_and_is_handed_back() -> None:
    provider = Scripted("The host is a.", [GOOD])
    session = Engine(provider, output=Config).session()
    assert (await session.run("go")).output == CONFIG
    said = [m.text for m in session.transcript.messages if isinstance(m, UserMessage)]
    assert said[1:] == [Policy().prompts.text_is_no_end]


async def test_texts_are_handed_back_a_bounded_number_of_times() -> None:
    provider = Scripted(*[f"The port is {number}." for number in range(10)])
    outcome = await Engine(provider, output=Config, policy=Policy(closing=False)).run("go")
    assert (outcome.stop_reason, outcome.steps) == ("stuck", 4)


async def test_a_run_that_has_not_completed_has_no_output() -> None:
    outcome = await Engine(Scripted(*["no"] * 10), output=Config, policy=Policy(closing=False)).run("go")
    with pytest.raises(WrongUse, match=r"is exhausted \(stuck\) and has no output: look at `outcome.status` first"):
        outcome.output  # noqa: B018  it raises


async def test_without_a_type_the_output_is_the_answer() -> None:
    assert (await Engine(Scripted("It is done.")).run("go")).output == "It is done."
    assert (await Engine(Scripted("It is done."), output=str).run("go")).output == "It is done."


async def test_gates_evaluator_and_callbacks_see_it() -> None:
    seen: list[Any] = []

    def gate(completion: Completion, run: Progress) -> Accept | Reject:
        seen.append(completion.output)
        return Accept() if completion.output.port == 80 else Reject("the port is 80")

    def evaluate(evaluated: EvaluationInput) -> Evaluation:
        seen.append(evaluated.outcome.output)
        return Evaluation(passed=True)

    def ended(outcome: Outcome) -> None:
        seen.append(outcome.output)

    engine = Engine(
        Scripted([call("final_result", host="a", port=1)], [GOOD]),
        output=Config,
        hooks=Hooks(gates=[gate], evaluate=evaluate),
        observers=Observers(on_completed=ended),
    )
    outcome = await engine.run("go")
    assert (outcome.output, outcome.verdict) == (CONFIG, "passed")
    assert seen == [Config("a", 1), CONFIG, CONFIG, CONFIG]


async def test_the_answer_of_a_prompt_handler_is_an_output_too_or_fails() -> None:
    def knows(prompt: str, run: Progress) -> Answer:
        return Answer('{"host": "a", "port": 80}' if prompt == "known" else "I know it.")

    engine = Engine(
        Scripted([call("final_result", host="b", port=1)]), output=Config, hooks=Hooks(prompt_handlers=[knows])
    )
    known = await engine.run("known")
    assert (known.output, known.stop_reason) == (CONFIG, "handled")
    assert (await engine.run("unknown")).output == Config("b", 1)


def judge(run: Progress) -> Any:
    return Verdict("complete")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"tools": [finish_task]}, "tool 'finish_task' completes a run"),
        ({"hooks": Hooks(judge=judge)}, "a judge would end a run without an output"),
        ({"hooks": Hooks(text_rule=lambda text, calls: True)}, "a text_rule would end"),
        ({"policy": Policy(completion="none")}, "completion is 'none'"),
        ({"model_options": ModelOptions(tool_choice="none")}, "tool_choice is 'none'"),
        ({"tools": [look.renamed("final_result")]}, "two tools are called 'final_result'"),
    ],
)
def test_what_would_end_a_run_without_an_output_is_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(WrongUse, match=says):
        Engine(Scripted(), output=Config, **options)


async def recorded(path: Path) -> Outcome[Config]:
    provider = Scripted([call("look", path="a")], [call("final_result", host="a")], "It is a.", [GOOD])
    return await Engine(provider, tools=[look], output=Config).run("go", record=path)


async def test_a_replay_gives_the_output(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    await recorded(path)
    report = await replay(path, output=Config)
    assert report.same
    assert report.runs[0].outcome.output == CONFIG
    live = await replay(path, output=Config, live_tools=True, tools=[look])
    assert live.same
    assert (await replay(path)).runs[0].outcome.output == '{"host":"a","port":80,"notes":[]}'


async def test_a_run_that_was_killed_anywhere_ends_with_the_output(tmp_path: Path) -> None:
    whole = tmp_path / "whole.jsonl"
    await recorded(whole)
    lines = whole.read_bytes().splitlines(keepends=True)
    for cut in range(2, len(lines)):
        path = tmp_path / f"{cut}.jsonl"
        path.write_bytes(b"".join(lines[:cut]))
        record = read_record(path)
        responses = [[call("look", path="a")], [call("final_result", host="a")], "It is a.", [GOOD]]
        done = sum(type(event).__name__ == "ResponseFinished" for event in record.runs[0].events)
        engine = Engine(Scripted(*responses[done:]), tools=[look], output=Config)
        session = engine.session(record.header.session_id, record=path)
        session.load(record.runs)
        async with session.start_resumed() as run:
            outcome = await run.wait()
        assert outcome.output == CONFIG, cut


async def test_many_runs_have_outputs(tmp_path: Path) -> None:
    engine = Engine(Scripted(lambda request: GOOD), output=Config)
    async with engine.run_many(["a", "b"]) as fleet:
        assert [result.outcome.output async for result in fleet] == [CONFIG, CONFIG]


def test_an_engine_without_tools_or_types_imports_no_pydantic() -> None:
    import subprocess
    import sys

    code = (
        "import sys; from endstop import Engine; from endstop.providers import Scripted; "
        "Engine(Scripted('a'), presets=()); print('pydantic' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "False"
