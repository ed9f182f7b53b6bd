"""Rows A1, C7, D3 and D7: a completion tool whose author forgot the kind never loops in silence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from endstop import Completion, Continue, Engine, Phase, Tool, tool, tools_from_yaml
from endstop.decision import Limits, Policy, WrongUse
from endstop.decision.tool_names import COMPLETION_NAMES, PRESET_NAMES, kind_by_name
from endstop.providers import Scripted, call
from endstop.tools.control import CONTROL_TOOLS

from ...captured_logs import capture_logs
from ...console import endstop

STEPS = 3
POLICY = Policy(limits=Limits(steps=STEPS), closing=False)


async def work(summary: str) -> Any:
    """Do a part of the work."""
    return summary


def warnings(logs: list[Any]) -> list[str]:
    return [entry["event"] for entry in logs if entry["log_level"] == "warning"]


def repeated(name: str) -> Scripted:
    """A model that calls the tool again and again, each time with another summary."""
    return Scripted(*[[call(name, summary=f"done, {n}")] for n in range(STEPS)])


def test_D3_the_names_that_are_refused_are_those_of_our_own_completion_tools() -> None:
    assert set(PRESET_NAMES) == {preset.name for preset in CONTROL_TOOLS if preset.kind == "completion"}


@pytest.mark.parametrize("name", [*PRESET_NAMES, "taskDone", "FinishTask", "attempt-completion"])
def test_A1_a_tool_that_is_named_like_a_completion_tool_of_ours_is_refused_without_a_kind(name: str) -> None:
    why = f"tool '{name}' has no kind, and its name says that it ends the task: write kind='completion'"
    with pytest.raises(WrongUse, match=why):
        tool(name=name)(work)
    with pytest.raises(WrongUse, match=why):
        Tool(work).renamed(name)
    with pytest.raises(WrongUse, match="give it another name"):
        Engine(Scripted()).as_tool(name, "Do a part of the work.")


async def test_C7_a_kind_that_is_given_counts_whatever_the_name_the_mark_and_the_result_say() -> None:
    async def task_done(summary: str) -> dict[str, Any]:
        """[COMPLETION SIGNAL] Called when a subtask is done."""
        return {"task_completed": True, "summary": summary}

    with capture_logs() as logs:
        made = Tool(task_done, kind="ordinary")
        outcome = await Engine(repeated("task_done"), tools=[made], policy=POLICY).run("go")
    assert (made.kind, outcome.stop_reason, outcome.steps) == ("ordinary", "step_limit", STEPS)
    assert warnings(logs) == []


@pytest.mark.parametrize("how", ["description", "docstring"])
async def test_D3_the_mark_in_the_description_alone_makes_a_completion_tool(how: str) -> None:
    async def hand_over(summary: str) -> str:
        return summary

    about = "[COMPLETION SIGNAL] 此工具停止代理迭代迴圈並將任務標記為完成。"
    if how == "docstring":
        hand_over.__doc__ = about
    made = tool(hand_over) if how == "docstring" else tool(description=about)(hand_over)
    outcome = await Engine(repeated("hand_over"), tools=[made], policy=POLICY).run("go")
    assert (made.kind, outcome.status, outcome.steps, outcome.answer) == ("completion", "completed", 1, "done, 0")
    assert made.spec.description.count("[COMPLETION SIGNAL]") == 1


def yaml_tool(folder: Path, definition: str) -> Path:
    (folder / "handlers.py").write_text(
        "from endstop import tool\n"
        "async def work(summary: str) -> str:\n    'Work.'\n    return summary\n"
        "done = tool(kind='completion')(work)\n"
        "part = tool(kind='ordinary')(work)\n"
        "plain = tool(work)\n"
    )
    path = folder / "tools.yaml"
    path.write_text(f"tools:\n  - {{{definition}}}\n")
    return path


async def test_D7_the_mark_alone_makes_a_completion_tool_of_a_definition_in_yaml(tmp_path: Path) -> None:
    path = yaml_tool(
        tmp_path, 'name: hand_over, description: "[COMPLETION SIGNAL] Ends it.", handler: "handlers.py:work"'
    )
    (made,) = tools_from_yaml(path)
    outcome = await Engine(repeated("hand_over"), tools=[made], policy=POLICY).run("go")
    assert (made.kind, outcome.status, outcome.steps) == ("completion", "completed", 1)


@pytest.mark.parametrize("handler", ["work", "plain"])
async def test_D7_a_definition_in_yaml_with_such_a_name_is_refused_without_a_kind(tmp_path: Path, handler: str) -> None:
    path = yaml_tool(tmp_path, f'name: task_done, description: Ends it., handler: "handlers.py:{handler}"')
    with pytest.raises(
        WrongUse, match=r"tools.yaml, tool 'task_done' has no kind, .* write kind: completion, or kind: or"
    ):
        tools_from_yaml(path)
    result = await endstop("run", "go", "--model", "m", "--api-base", "http://127.0.0.1:9", "--tools", str(path))
    assert result.code == 2
    assert "kind: completion" in result.err


@pytest.mark.parametrize(("handler", "kind"), [("done", "completion"), ("part", "ordinary")])
def test_D7_the_kind_that_the_handler_was_given_counts_in_yaml(tmp_path: Path, handler: str, kind: str) -> None:
    path = yaml_tool(tmp_path, f'name: task_done, description: Ends it., handler: "handlers.py:{handler}"')
    assert [made.kind for made in tools_from_yaml(path)] == [kind]


async def test_A1_a_python_file_with_such_a_tool_is_refused_with_exit_code_2(
    tmp_path: Path,
) -> None:
    path = tmp_path / "mine.py"
    path.write_text(
        "from endstop import tool\n\n@tool\nasync def task_done(summary: str) -> dict:\n"
        "    'Report the result.'\n    return {'task_completed': True}\n"
    )
    result = await endstop("run", "go", "--model", "m", "--api-base", "http://127.0.0.1:9", "--tools", str(path))
    assert result.code == 2
    assert "write kind='completion', or kind='ordinary' if it does not" in result.err


async def completion(summary: str) -> Completion:
    """Hand over."""
    return Completion(answer=summary)


async def one_of_three(summary: str) -> Completion | Phase | Continue:
    """Hand over."""
    return Continue()


@pytest.mark.parametrize("function", [completion, one_of_three])
def test_A1_a_function_that_is_annotated_to_return_a_completion_is_refused_where_it_is_defined(function: Any) -> None:
    with pytest.raises(WrongUse, match=r"has no kind, and returns Completion.*kind='completion', or completes=True"):
        tool(function)
    assert tool(kind="completion")(function).kind == "completion"
    assert tool(completes=True)(function).kind == "ordinary"
    assert tool(kind="ordinary")(function).kind == "ordinary"


@pytest.mark.parametrize("name", ["submit", "done", "Complete", "finalAnswer"])
async def test_A1_another_usual_name_of_a_completion_tool_is_logged_once_at_the_start(name: str) -> None:
    assert kind_by_name(name) == "completion"
    provider = repeated(name)
    with capture_logs() as logs:
        outcome = await Engine(provider, tools=[tool(name=name)(work)], policy=POLICY).run("go")
    assert outcome.steps == STEPS
    (said,) = warnings(logs)
    assert said == (
        f"tool '{name}' has no kind, and by its name it may end the task: "
        "write kind='completion', or kind='ordinary' if it does not"
    )


async def test_A1_no_other_name_is_logged() -> None:
    with capture_logs() as logs:
        made = [tool(name=name)(work) for name in ("work", "complete_order", "think", "ask_human", "donate")]
        made += [tool(name=name, kind="ordinary")(work) for name in COMPLETION_NAMES]
        Engine(Scripted(), tools=made, presets=[])
    assert warnings(logs) == []


@pytest.mark.parametrize(
    "said",
    [
        {"success": True, "summary": "…", "task_completed": True, "message": "任务已完成"},
        {"shouldContinue": False},
        {"taskCompleted": "yes"},
        '{"task_completed": true}',
        Completion(answer="done"),
        Phase(percentage=50),
    ],
    ids=str,
)
async def test_A1_a_result_that_says_that_the_task_is_complete_is_logged_once_a_run(said: Any) -> None:
    async def hand_over(summary: str) -> Any:
        """Hand over."""
        return said

    engine = Engine(repeated("hand_over"), tools=[tool(hand_over)], policy=POLICY)
    with capture_logs() as logs:
        outcome = await engine.run("go")
    assert outcome.steps == STEPS
    (warning,) = warnings(logs)
    assert "tool 'hand_over' has no kind" in warning
    assert "write kind='completion'" in warning


@pytest.mark.parametrize(
    "said",
    [
        "task_completed: true",
        {"done": True, "success": True},
        {"task_completed": False},
        {"shouldContinue": True},
        [True],
    ],
    ids=str,
)
async def test_A1_other_results_of_a_tool_without_a_kind_are_not_logged(said: Any) -> None:
    async def look(summary: str) -> Any:
        """Look."""
        return said

    with capture_logs() as logs:
        await Engine(repeated("look"), tools=[tool(look)], policy=POLICY).run("go")
    assert warnings(logs) == []
