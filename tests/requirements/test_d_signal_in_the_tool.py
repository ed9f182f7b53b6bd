"""Row D: the signal lives in the tool, not in the prompt."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from endstop import Completion, Engine, Observers, Tool, tool, tools_from_yaml
from endstop.decision import POLICIES, Outcome, Prompts, ToolResult, UserMessage, WrongUse, policy_from
from endstop.decision.events import CompletionAccepted, RunFinished
from endstop.prompts import system_prompt
from endstop.providers import Scripted, call
from endstop.providers.openai_format import encode_tools
from endstop.tools import ask_user, attempt_completion, finish_task, task_done, think
from endstop.tools.tool import COMPLETION_MARK

PRESETS = [ask_user, attempt_completion, finish_task, task_done, think]


async def test_D1_the_tools_result_is_task_completed_and_the_answer_is_the_bare_result() -> None:
    session = Engine(Scripted([call("attempt_completion", result="42")]), presets=[attempt_completion]).session()
    outcome = await session.run("go")
    assert outcome.answer == "42"
    (result,) = [m for m in session.transcript.messages if isinstance(m, ToolResult)]
    assert result.content == "task completed: 42"


async def test_D1_its_response_has_success_content_and_error_and_no_side_effect() -> None:
    response = await attempt_completion.run({"result": "42"})
    assert (response.success, response.content, response.error) == (True, "task completed: 42", None)
    assert await attempt_completion.run({"result": "42"}) == response


def test_D2_no_prompt_that_we_ship_names_a_tool() -> None:
    prompts = [system_prompt(True), system_prompt(False), *msgspec.to_builtins(Prompts()).values()]
    for preset in PRESETS:
        for prompt in prompts:
            assert preset.name not in prompt


async def test_D2_renaming_the_tool_changes_nothing_else() -> None:
    async def run(name: str) -> tuple[Any, ...]:
        provider = Scripted([call("finish_task" if name == "finish_task" else name, id="c", summary="done")])
        outcome = await Engine(provider, presets=[finish_task.renamed(name)]).run("go")
        request = provider.requests[0]
        return outcome.answer, outcome.stop_reason, request.messages, request.tools[0].description

    assert await run("finish_task") == await run("abschliessen")


@pytest.mark.parametrize("preset", [finish_task, task_done, attempt_completion])
def test_D3_a_completion_tools_description_carries_the_completion_marker(preset: Tool) -> None:
    assert COMPLETION_MARK == "[COMPLETION SIGNAL]"
    assert preset.spec.description.startswith(COMPLETION_MARK)


def test_D3_a_users_own_completion_tool_gets_the_marker_too_and_other_tools_do_not() -> None:
    def hand_in(text: str) -> str:
        """Hand in."""
        return text

    assert Tool(hand_in, kind="completion").spec.description == f"{COMPLETION_MARK} Hand in."
    assert Tool(hand_in).spec.description == "Hand in."


def test_D3_on_the_wire_it_is_a_standard_openai_tool_without_private_fields() -> None:
    for wire in encode_tools([preset.spec for preset in PRESETS]):
        assert set(wire) == {"type", "function"}
        assert set(wire["function"]) == {"name", "description", "parameters"}
        assert set(wire["function"]["parameters"]) <= {"type", "properties", "required", "additionalProperties"}


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("finish_task", {"summary": "done"}),
        ("task_done", {"summary": "done"}),
        ("attempt_completion", {"result": "done"}),
        ("hand_in", {"report": "done"}),
    ],
)
async def test_D4_several_completion_tools_stand_side_by_side_and_each_ends_the_run(
    name: str, arguments: dict[str, str]
) -> None:
    @tool(kind="completion")
    async def hand_in(report: str) -> Completion:
        """Hand in the report."""
        return Completion(answer=report)

    tools = [finish_task, task_done, attempt_completion, hand_in]
    outcome = await Engine(Scripted([call(name, **arguments)]), tools=tools).run("go")
    assert (outcome.stop_reason, outcome.answer) == ("completed", "done")


async def test_D6_a_callback_and_an_event_tell_that_the_task_was_completed() -> None:
    told: list[Outcome] = []
    seen: list[Any] = []
    engine = Engine(
        Scripted([call("finish_task", summary="done")]),
        observers=Observers(on_completed=told.append, subscribers=[lambda event, run: seen.append(event)]),
    )
    outcome = await engine.run("go")
    assert told == [outcome]
    assert [type(e) for e in seen if isinstance(e, CompletionAccepted | RunFinished)] == [
        CompletionAccepted,
        RunFinished,
    ]


async def test_D6_the_callback_is_silent_when_the_run_did_not_complete() -> None:
    told: list[Outcome] = []
    await Engine(Scripted(*[""] * 5), observers=Observers(on_completed=told.append)).run("go")
    assert told == []


async def test_D5_under_the_explicit_policy_text_alone_never_ends_the_run_and_the_model_is_nudged() -> None:
    texts = ["All done, the port is 8080.", "It is finished.", "Done!"]
    provider = Scripted(*texts, [call("attempt_completion", result="The port is 8080.")])
    engine = Engine(provider, presets=[attempt_completion], policy=POLICIES["strict"])
    outcome = await engine.run("Set the port")
    assert (outcome.stop_reason, outcome.answer, outcome.steps) == ("completed", "The port is 8080.", 4)
    for request in provider.requests[1:]:
        assert request.messages[-1] == UserMessage(Prompts().text_is_no_end)


async def test_D5_a_model_that_never_completes_explicitly_ends_at_the_step_limit_and_not_as_completed() -> None:
    policy = policy_from({"base": "strict", "limits": {"steps": 5}})
    outcome = await Engine(Scripted(*["I am done."] * 9), presets=[attempt_completion], policy=policy).run("go")
    assert (outcome.status, outcome.stop_reason, outcome.steps) == ("exhausted", "step_limit", 5)
    assert (outcome.answer, outcome.answer_from) == ("I am done.", "closing"), "what it says at the end, and no more"


async def test_D5_the_explicit_policy_without_a_completion_tool_is_refused_at_start() -> None:
    with pytest.raises(WrongUse, match="no completion tool is offered"):
        Engine(Scripted(), presets=[think], policy=POLICIES["strict"])


async def test_D7_tools_are_defined_in_a_yaml_file_with_description_parameters_kind_and_handler(tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(
        "ports = []\n"
        "def set_port(port):\n    ports.append(port)\n    return f'the port is {port}'\n"
        "async def hand_in(report):\n    return report.upper()\n"
    )
    (tmp_path / "tools.yaml").write_text(
        """
        tools:
          - name: set_port
            description: Set the port of the server.
            parameters: {port: integer}
            handler: server.py:set_port
          - name: hand_in
            description: Hand in the report. Call this once.
            kind: completion
            parameters:
              type: object
              properties: {report: {type: string, description: What was done.}}
              required: [report]
            handler: server.py:hand_in
        """
    )
    tools = tools_from_yaml(tmp_path / "tools.yaml")
    provider = Scripted(
        [call("set_port", port="many")],
        [call("set_port", port=8080)],
        [call("hand_in", report="done"), call("set_port", port=1)],
    )
    session = Engine(provider, tools=tools, presets=()).session()
    outcome = await session.run("Set the port")
    assert (outcome.stop_reason, outcome.answer) == ("completed", "DONE")
    results = [m for m in session.transcript.messages if isinstance(m, ToolResult)]
    assert [(m.status, m.content) for m in results[1:]] == [("ok", "the port is 8080"), ("ok", "DONE")]
    assert (results[0].status, "port: 'many' is not of type 'integer'" in results[0].content) == ("invalid", True)
    wire = {entry["function"]["name"]: entry["function"] for entry in encode_tools([made.spec for made in tools])}
    assert wire["set_port"]["parameters"]["properties"] == {"port": {"type": "integer"}}
    assert wire["hand_in"]["description"] == f"{COMPLETION_MARK} Hand in the report. Call this once."


def test_D7_a_bad_file_is_refused_with_file_tool_and_key(tmp_path: Path) -> None:
    (tmp_path / "tools.yaml").write_text(
        "tools: [{name: set_port, description: Set it., handelr: 'server.py:set_port'}]"
    )
    with pytest.raises(WrongUse, match=r"tools\.yaml, tool 'set_port': unknown key 'handelr' .*'handler'"):
        tools_from_yaml(tmp_path / "tools.yaml")
