"""Rows F2 and F12: what we say to a model about completing: make sure, go on if unsure, then report and stop."""

import pytest
from endstop import Engine, Tool, tool
from endstop.decision import Limits, Policy, Prompts
from endstop.plan_execute_think import think_tool
from endstop.prompts import system_prompt
from endstop.providers import Scripted, call
from endstop.tools import attempt_completion, finish_task, task_done

COMPLETIONS = {tool.name: tool.spec.description for tool in (finish_task, task_done, attempt_completion, think_tool())}
PROMPTS = {"with a completion": system_prompt(True), "without": system_prompt(False)}


@pytest.mark.parametrize("text", (COMPLETIONS | PROMPTS).values(), ids=(COMPLETIONS | PROMPTS).keys())
def test_F2_it_says_to_check_that_everything_is_done_and_to_go_on_if_unsure(text: str) -> None:
    for words in ("everything", "done and verified", "something is missing", "you are not sure", "go on"):
        assert words in text


@pytest.mark.parametrize("preset", [finish_task, task_done, attempt_completion])
def test_F2_once_it_is_done_it_says_to_report_and_stop(preset: Tool) -> None:
    text = preset.spec.description
    check, report = text.index("verified"), text.index("as soon as")
    assert check < report < text.index("then stop, and call nothing after it")


def test_F2_the_general_prompt_says_to_report_at_once_and_stop_and_forbids_no_check() -> None:
    text = system_prompt(True)
    assert "at once" in text
    assert "and stop" in text
    assert "no checks" not in text


async def test_F12_the_reminder_asks_to_judge_whether_the_task_is_complete() -> None:
    @tool
    def work() -> str:
        """Work."""
        return "ok"

    provider = Scripted(*[[call("work")]] * 6)
    policy = Policy(limits=Limits(steps=6), closing=False)
    await Engine(provider, tools=[work], presets=[finish_task], policy=policy).run("go")
    (said,) = [request.ephemeral[0].text for request in provider.requests if request.ephemeral]  # type: ignore[union-attr]
    assert "5 of 6 steps" in said
    for words in ("Judge whether the task is complete", "If it is, finish", "If it is not, say why", "go on"):
        assert words in said
    assert "now" not in Prompts().reminder
