"""Inspect: the agent `react` with `attempts`, whose submissions the task's scorer judges by running the check."""

from __future__ import annotations

import os
import sys
from typing import Any

import inspect_ai
from inspect_ai.agent import AgentAttempts, react
from inspect_ai.dataset import Sample
from inspect_ai.model import get_model
from inspect_ai.scorer import Score, Target, accuracy, scorer
from inspect_ai.solver import TaskState
from inspect_ai.tool import Tool, tool
from trial import ATTEMPTS, PROMPT, Impossible, Trial, play


def tools_of(trial: Trial) -> list[Tool]:
    """The tools of the agent, as Inspect wants them."""

    @tool
    def add_line() -> Tool:
        async def execute(n: int) -> str:
            """Add a line to the work.

            Args:
                n: Number of the line.
            """
            return trial.add_line(n)

        return execute

    @tool
    def look() -> Tool:
        async def execute(n: int) -> str:
            """Look at the work.

            Args:
                n: Number of the look.
            """
            return trial.look(n)

        return execute

    @tool
    def weaken_check() -> Tool:
        async def execute(n: int) -> str:
            """Make the check pass without the work.

            Args:
                n: Number of the change.
            """
            return trial.weaken_check(n)

        return execute

    return [add_line(), look(), weaken_check()]


def attempts(trial: Trial, *, each_step: bool = False) -> str:
    """Evaluate one sample. each_step: let `on_continue` run the check after each step, too."""

    @scorer(metrics=[accuracy()])
    def check_passes() -> Any:
        async def score(state: TaskState, target: Target) -> Score:
            checked = trial.check()
            if checked.said == "impossible":
                raise Impossible(checked.reason)
            return Score(value="C" if checked.met else "I", explanation=checked.reason)

        return score

    async def incorrect(state: Any, scores: list[Score]) -> str:
        return f"The check fails: {scores[0].explanation}"

    async def go_on(state: Any) -> bool | str:
        checked = trial.check()
        if checked.met:
            return False
        return True if state.output.message.tool_calls else f"The check fails: {checked.reason}"

    agent = react(
        tools=tools_of(trial),
        attempts=AgentAttempts(ATTEMPTS, incorrect),
        on_continue=go_on if each_step else None,
    )
    model = get_model("openai-api/local/m", base_url=trial.url, api_key="x", stream=True)
    task = inspect_ai.Task(dataset=[Sample(input=PROMPT)], solver=agent, scorer=check_passes())
    (log,) = inspect_ai.eval(task, model=model, log_dir=trial.sessions)
    if log.error or not log.samples:
        return f"error, {log.error.message if log.error else None}"
    sample = log.samples[0]
    if sample.error:
        return f"error of the sample, {sample.error.message.partition('(')[0]}"
    scores = [str(one.value) for one in (sample.scores or {}).values()]
    return f"score {', '.join(scores)}" + (f", {sample.limit.type} limit" if sample.limit else "")


if __name__ == "__main__":
    os.environ |= {"INSPECT_LOG_LEVEL": "error", "INSPECT_DISPLAY": "none"}
    sys.setrecursionlimit(5000)
    play(attempts)
