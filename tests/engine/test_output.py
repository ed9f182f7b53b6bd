"""`Engine(output=T)`: the run ends with a T, and only with one."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import pytest
from endstop import (
    Accept,
    Answer,
    Completion,
    Engine,
    Evaluation,
    EvaluationInput,
    Hooks,
    Limits,
    ModelOptions,
    Observers,
    Progress,
    Reject,
    Verdict,
    WrongUse,
    read_record,
    tool,
)
from endstop.decision import Outcome, Policy, Rule, ToolResult, UserMessage
from endstop.providers import ProviderError, Scripted, call
from endstop.replay import replay
from endstop.tools import ask_user, finish_task, think
from pydantic import BaseModel, ConfigDict, Field, model_validator


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
    says = r"exhausted \(stuck: .* any call\) and has no output of type Config \(.*\): look at `outcome.status` first"
    with pytest.raises(WrongUse, match=says):
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


BAD = call("final_result", host="a", port="eighty")
NO_TEXTS = Policy(closing=False)


def too_small(completion: Completion, run: Progress) -> Reject:
    return Reject("the port is too small")


async def stopped(*responses: Any, policy: Policy = NO_TEXTS, **options: Any) -> Outcome[Config]:
    return await Engine(Scripted(*responses), output=Config, policy=policy, **options).run("go")


ENDS: dict[str, tuple[Any, list[str], str, str]] = {
    "never delivered": (
        lambda: stopped(*["It is a."] * 9),
        ["exhausted (stuck: 4 steps in a row without any call)", "the model never called final_result"],
        "It is a.",
        "not_accepted",
    ),
    "never of the type": (
        lambda: stopped(*[[BAD]] * 9),
        ["invalid_calls", "the last final_result was not accepted", "port: Input should be a valid integer"],
        '{"host":"a","port":"eighty"}',
        "not_accepted",
    ),
    "never of the type, and a closing step": (
        lambda: stopped(*[[BAD]] * 4, "I could not.", policy=Policy()),
        ["invalid_calls", "port: Input should be a valid integer"],
        "I could not.",
        "closing",
    ),
    "rejected by a gate": (
        lambda: stopped(*[[GOOD]] * 9, hooks=Hooks(gates=[too_small])),
        ["completion_rejected", "the last final_result was not accepted", "the port is too small"],
        '{"host":"a","port":80}',
        "not_accepted",
    ),
    "a limit": (
        lambda: stopped([call("look", path="a")], tools=[look], policy=Policy(closing=False, limits=Limits(steps=1))),
        ["step_limit: 1 of 1 steps used", "the model never called final_result", "the model wrote no answer"],
        "",
        "",
    ),
    "a provider's error": (
        lambda: stopped([GOOD, GOOD][:1], [ProviderError("the key is wrong")], hooks=Hooks(gates=[too_small])),
        ["failed (provider_error", "the key is wrong", "the port is too small"],
        '{"host":"a","port":80}',
        "not_accepted",
    ),
    "a question": (
        lambda: stopped([call("ask_user", question="Which port?")], presets=[ask_user]),
        ["is awaiting_input", "it asks 'Which port?'", "outcome.questions"],
        "",
        "",
    ),
    "an error of a rule": (
        lambda: stopped(
            "Hm.",
            policy=Policy(guards=("odd",)),
            hooks=Hooks(
                rules=[Rule("guard", "odd", "Odd.", (), lambda facts, policy: 1 // (1 - facts.steps) and None)]
            ),
        ),
        ["failed (internal_error: WrongUse: rule 'odd': ZeroDivisionError", "has no output of type Config"],
        "Hm.",
        "latest_text",
    ),
}


@pytest.mark.parametrize("end", ENDS)
async def test_a_run_without_an_output_says_why_in_its_error_and_its_text_and_what_the_model_wrote(end: str) -> None:
    make, says, answer, source = ENDS[end]
    outcome = await make()
    with pytest.raises(WrongUse) as caught:
        outcome.output  # noqa: B018  it raises
    for part in says:
        assert part in str(caught.value)
        assert part in str(outcome)
    assert (outcome.answer, outcome.answer_from) == (answer, source)
    assert repr(answer)[1:-1] in str(outcome)
    assert "output" not in outcome.to_dict()
    shown = repr(outcome)
    assert f"status={outcome.status!r}" in shown
    assert f"detail={outcome.detail!r}" in shown
    assert "verdict" not in shown, "nothing that was not set"


async def test_what_an_earlier_run_gave_is_no_reason_of_a_later_one() -> None:
    session = Engine(Scripted([GOOD], *["It is a."] * 9), output=Config, policy=NO_TEXTS).session()
    assert (await session.run("go")).output == CONFIG
    assert "the model never called final_result" in str(await session.run("again"))


async def test_the_text_of_a_completed_run_has_its_output() -> None:
    assert str(await stopped([GOOD])).endswith(f"is completed (completed): {CONFIG!r}")
    assert str(await Engine(Scripted("Done, all of it.")).run("go")).endswith("(text_final): 'Done, all of it.'")


async def test_a_list_that_was_not_accepted_is_shown_whole() -> None:
    many = call("final_result", result=[{"host": "a", "port": "eighty"}])
    outcome = await Engine(Scripted(*[[many]] * 9), output=list[Config], policy=NO_TEXTS).run("go")
    assert outcome.answer == '[{"host":"a","port":"eighty"}]'
    assert "has no output of type list[Config]" in str(outcome)


@dataclass(eq=False)
class Plain:
    """A type that does not define what is equal."""

    names: list[str]


class Stamped(BaseModel):
    """A model that differs each time that it is read."""

    names: list[str]
    number: int = Field(default_factory=itertools.count().__next__)


KINDS: list[tuple[Any, dict[str, Any], Callable[[Any], list[str]]]] = [
    (Plain, {"names": ["a"]}, lambda value: value.names),
    (Stamped, {"names": ["a"]}, lambda value: value.names),
    (dict[str, list[str]], {"names": ["a"]}, lambda value: value["names"]),
    (list[str], {"result": ["a"]}, lambda value: value),
]
IDS = ["dataclass without ==", "pydantic", "dict", "list"]


@pytest.mark.parametrize("later", [False, True], ids=["plain", "async"])
@pytest.mark.parametrize(("kind", "arguments", "names"), KINDS, ids=IDS)
async def test_a_gate_that_changes_the_output_in_place_is_told_once_a_run_and_changes_nothing(
    kind: Any,
    arguments: dict[str, Any],
    names: Callable[[Any], list[str]],
    later: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    seen: list[list[str]] = []

    def adds(completion: Completion, run: Progress) -> Accept:
        names(completion.output).append("mine")
        return Accept()

    async def adds_later(completion: Completion, run: Progress) -> Accept:
        return adds(completion, run)

    def looks(completion: Completion, run: Progress) -> Accept | Reject:
        seen.append(list(names(completion.output)))
        return Accept() if len(seen) == 2 else Reject("look again")

    gate = adds_later if later else adds
    model = Scripted(*[[call("final_result", **arguments)]] * 2)
    outcome = await Engine(model, output=kind, hooks=Hooks(gates=[gate, looks])).run("go")
    assert names(outcome.output) == ["a"]
    assert seen == [["a"], ["a"]]
    first, again = [record.getMessage() for record in caplog.records]
    assert "gate changed what it was given" in first
    assert gate.__name__ in first
    assert "completion.output is a copy" in first
    assert "Reject" in first
    assert "again 1 time" in again


async def test_an_evaluator_that_changes_the_output_is_told_and_changes_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def evaluate(evaluated: EvaluationInput) -> bool:
        evaluated.outcome.output.notes.append("mine")
        return True

    outcome = await Engine(Scripted([GOOD]), output=Config, hooks=Hooks(evaluate=evaluate)).run("go")
    assert outcome.output == CONFIG
    assert outcome.verdict == "passed"
    (record,) = caplog.records
    assert "evaluator changed what it was given" in record.getMessage()


async def test_an_approval_function_that_changes_the_arguments_is_told_and_changes_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    paid: list[list[int]] = []

    def halve(arguments: dict[str, Any]) -> bool:
        arguments["amounts"][0] //= 2
        return False

    @tool(approval=halve)
    async def pay(amounts: list[int]) -> str:
        """Pay."""
        paid.append(amounts)
        return "paid"

    await Engine(Scripted([call("pay", amounts=[10])], "Paid, all of it."), tools=[pay]).run("go")
    assert paid == [[10]]
    (record,) = caplog.records
    assert "approval function changed what it was given" in record.getMessage()


async def test_who_only_looks_is_not_told_anything(caplog: pytest.LogCaptureFixture) -> None:
    class Odd(BaseModel):
        model_config = ConfigDict(ser_json_inf_nan="constants")
        share: float

        @model_validator(mode="after")
        def lost(self) -> Self:
            self.share = float("nan")  # which equals nothing
            return self

    def looks(completion: Completion, run: Progress) -> bool:
        return completion.output.share != 1

    engine = Engine(Scripted([call("final_result", share=1)]), output=Odd, hooks=Hooks(gates=[looks]))
    assert (await engine.run("go")).status == "completed"
    assert caplog.records == []


async def test_an_output_that_cannot_be_copied_is_given_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    class Once(BaseModel):
        host: str

        def __deepcopy__(self, memo: Any) -> Self:
            raise TypeError("no copy")

    seen = []
    gate = lambda completion, run: seen.append(completion.output.host) or True  # noqa: E731
    outcome = await Engine(Scripted([call("final_result", host="a")]), output=Once, hooks=Hooks(gates=[gate])).run("go")
    assert (outcome.status, seen) == ("completed", ["a"])
    assert caplog.records == []
