"""A ready-made engine that works in rounds of plan, execute and think, built from public parts only.

    engine = plan_execute_think(provider, [read_file, edit_file])
    outcome = await engine.run("Set the port to 8080 everywhere")

A round is two steps of the model. It plans 1 to 8 steps, each a call of one of the tools, and they are executed as one
batch; then it thinks about the results and decides: go on with a new plan, or done. The plan is checked as a whole
before anything runs. In a batch, adjacent steps that only read run at once, all others one after another; after a
failed step nothing more is run. The last step of a plan may be a completion, `task_done` or your
own: the run then ends with its answer, unless a step before it failed or a gate hands it back. Nothing is kept between
calls, so one engine serves any number of runs, and a record of it replays like any other.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

import anyio
from msgspec.structs import replace

from .decision import POLICIES, Limits, Policy, WrongUse
from .decision.errors import error_text
from .engine import Engine
from .option_groups import Runtime
from .providers import Provider
from .providers.clock import Clock
from .tools.control import task_done
from .tools.results import (
    MAX_RESULT_CHARACTERS,
    CallOutcome,
    Completion,
    Continue,
    Phase,
    parse_completion,
    render_result,
    truncate,
)
from .tools.schema import InvalidArguments
from .tools.tool import COMPLETION_MARK, Tool
from .tools.user_functions import run_in_own_task

CONFIRM_ALONE = "A plan cannot wait for the user: ask for the confirmation in a call of its own, after the plan."
"""Reason why a completion at the end of a plan is rejected if it asks the user for a confirmation."""
MAX_PLAN_STEPS = 8
"""Most steps that a plan may have."""
SYSTEM_PROMPT = (
    "You are an agent that works on a user's task in rounds. In each round, first plan the next steps, 1 to 8 of them, "
    "and have them executed as one batch. Then think about the results, and decide: go on with a new plan, or done. "
    "Plan only what you can know already; what depends on a result belongs into the next round. "
    "The user reads only what you say when the task is done."
)
PLANNING_POLICY = replace(
    POLICIES["strict"],
    name="plan_execute_think",
    max_inner_steps=2,  # a round of the loop is then a round of this pattern
    limits=Limits(steps=60),
)
"""The default policy: only "done" ends a run, and 60 steps are 30 rounds."""


def plan_execute_think(
    provider: Provider,
    tools: Sequence[Tool],
    *,
    policy: Policy = PLANNING_POLICY,
    runtime: Runtime = Runtime(),  # noqa: B008  frozen
    **options: Any,
) -> Engine:
    """Return an engine that works in rounds of plan, execute and think.

    tools: the tools that a step of a plan may call. A completion among them may be the last step of a plan; without
    one, `task_done` may. Tools of a kind other than ordinary (a question, a thought) are offered to the model directly.
    `options` are those of `Engine`.

    Raises WrongUse if no tool is ordinary, or two have the same name.
    """
    steps = [tool for tool in tools if tool.kind == "ordinary"]
    others = [tool for tool in tools if tool.kind != "ordinary"]
    completions = [tool for tool in others if tool.kind == "completion"]
    offered = [plan_tool(steps, runtime.clock, completions or [task_done]), think_tool(), *others]
    return Engine(
        provider, **{"system": SYSTEM_PROMPT, **options, "tools": offered, "policy": policy, "runtime": runtime}
    )


def plan_tool(tools: Sequence[Tool], clock: Clock, completions: Sequence[Tool] = ()) -> Tool:
    """Return the tool that executes a plan and returns the results of its steps in order.

    completions: completion tools, one of which may be the last step.
    """
    if not tools:
        raise WrongUse("plan_execute_think needs a tool of kind ordinary, or a plan could hold nothing")
    known = {tool.name: tool for tool in (*tools, *completions)}
    if len(known) < len(tools) + len(completions):
        raise WrongUse("two tools have the same name: rename one, as in tool.renamed('other')")

    async def plan_and_execute(
        steps: Sequence[Mapping[str, Any]], goal: str = ""
    ) -> CallOutcome | Completion | Phase | Continue:
        batch = PlanExecution(known, steps, clock)
        await batch.run()
        return batch.result()

    return Tool(
        plan_and_execute,
        description=_description(tools, completions),
        parameters=_parameters(list(known)),
        timeout=None,
        completes=bool(completions),
    )


def think_tool() -> Tool:
    """Return the tool that ends a round with "go on" or "done"."""

    async def think_and_decide(
        summary: str, decision: str, next_goal: str = "", completion_percentage: int = 0
    ) -> Completion | Phase:
        if decision == "done":
            return Completion(answer=summary, content="Task done.", percentage=100)
        percentage = min(completion_percentage, 99)
        return Phase(percentage=percentage, summary=summary, next_phase=next_goal or "a new plan")

    return Tool(
        think_and_decide,
        kind="completion",
        description=(
            "Call this after each executed plan, alone in your response. Sum up what the results show, then decide: "
            '"go on" if something is missing or not verified, or you are not sure; "done" as soon as everything the '
            "task asks for is done and verified, or you know that it cannot be done. "
            "When it is done the user reads the summary: write 100 to 500 characters on what was done, which files or "
            "things changed, the results, and what to be careful about."
        ),
        parameters={
            "type": "object",
            "properties": {
                "summary": {"type": "string", "minLength": 1, "description": "What the results show."},
                "decision": {"type": "string", "enum": ["go on", "done"]},
                "next_goal": {"type": "string", "default": "", "description": "What the next plan is for."},
                "completion_percentage": {
                    "type": "integer",
                    "minimum": 0,
                    "maximum": 100,
                    "default": 0,
                    "description": "How much of the task is done, if you go on.",
                },
            },
            "required": ["summary", "decision"],
        },
        final=lambda arguments: arguments.get("decision") == "done",
    )


class PlanExecution:
    """Execution of one plan. Raises InvalidArguments before anything runs if a step is invalid."""

    def __init__(self, tools: Mapping[str, Tool], steps: Sequence[Mapping[str, Any]], clock: Clock) -> None:
        self._clock = clock
        self._steps = [(tools[step["tool"]], step.get("arguments", {})) for step in steps]
        self._parsed: list[dict[str, Any]] = []
        self.results: list[tuple[str, str]] = [("skipped", "Not run: a step before it failed.")] * len(steps)
        """Status and text of each step, in order."""
        for number, (tool, arguments) in enumerate(self._steps, 1):
            try:
                self._parsed.append(tool.parse(json.dumps(arguments)))
            except InvalidArguments as error:
                raise InvalidArguments(f"Step {number} of the plan: {error} Nothing of the plan was run.") from None
            if tool.kind == "completion" and number < len(steps):
                raise InvalidArguments(
                    f"Step {number} of the plan: {tool.name} completes the task, so it can only be the last step. "
                    "Nothing of the plan was run."
                )
        self._completion: Completion | Phase | Continue | None = None
        """What the completion at the end of the plan returned."""

    async def run(self) -> None:
        """Run the steps until one fails. Adjacent steps that only read run in parallel."""
        for reads, group in groupby(range(len(self._steps)), self._runs_beside_others):
            together = list(group)
            for some in [together] if reads else [[index] for index in together]:
                async with anyio.create_task_group() as tasks:
                    for index in some:
                        tasks.start_soon(self._run, index)
                if any(self.results[index][0] != "ok" for index in some):
                    return

    def _runs_beside_others(self, index: int) -> bool:
        tool = self._steps[index][0]
        return tool.spec.reads and tool.kind == "ordinary"

    def result(self) -> CallOutcome | Completion | Phase | Continue:
        """Return all results as JSON, and what the completion at the end returned if the plan got that far.

        If a step failed, the status is `error`, so that no completion in the same response is accepted.
        """
        longest = MAX_RESULT_CHARACTERS // (2 * MAX_PLAN_STEPS)
        lines = [
            {"step": number, "tool": tool.name, "status": status, "result": truncate(text, longest)}
            for number, ((tool, _), (status, text)) in enumerate(zip(self._steps, self.results, strict=True), 1)
        ]
        content = json.dumps(lines, ensure_ascii=False)
        match self._completion:
            case None:
                good = all(status == "ok" for status, _ in self.results)
                return CallOutcome(content=content, status="ok" if good else "error")
            case Completion(confirm=str() | True):
                return Continue(CONFIRM_ALONE, content)
            case Completion(success=False) as failed:
                return Continue(failed.error or failed.content or "It did not succeed.", content)
            case said:
                return dataclasses.replace(said, content=content)

    async def _run(self, index: int) -> None:
        tool, _ = self._steps[index]
        said: Any = None
        with self._clock.deadline(tool.timeout) as deadline:
            try:
                said = await run_in_own_task(tool.run(self._parsed[index]), tool.name)
            except (Exception, SystemExit) as error:
                said = CallOutcome(content=error_text(error), status="error")
        if deadline.cancelled_caught:
            said = CallOutcome(content=f"{tool.name} was stopped after {tool.timeout:g} seconds.", status="error")
        if tool.kind == "completion":
            said = parse_completion(said, self._parsed[index])
        if isinstance(said, Completion | Phase | Continue):
            self._completion = said
            said = said.content or ("Done." if isinstance(said, Completion) else "Noted.")
        text, status = render_result(said)
        self.results[index] = (status, text)


def _description(tools: Sequence[Tool], completions: Sequence[Tool]) -> str:
    lines = [
        f"Call this with a plan of 1 to {MAX_PLAN_STEPS} steps. They are executed at once, as one batch, and you get "
        "the result of each. After a step that failed, the rest is skipped. A step calls one of these tools:"
    ]
    for tool in tools:
        about = " ".join(tool.spec.description.split())
        lines.append(f"- {tool.name}: {about} Arguments: {json.dumps(tool.spec.parameters, ensure_ascii=False)}")
    if completions:
        lines.append("The last step may complete the task, if the steps before it leave no doubt that it is done then:")
    for tool in completions:
        about = " ".join(tool.spec.description.removeprefix(COMPLETION_MARK).split())
        lines.append(f"- {tool.name}: {about} Arguments: {json.dumps(tool.spec.parameters, ensure_ascii=False)}")
    return "\n".join(lines)


def _parameters(names: list[str]) -> dict[str, Any]:
    step = {
        "type": "object",
        "properties": {
            "tool": {"type": "string", "enum": names},
            "arguments": {"type": "object", "description": "As the tool takes them."},
        },
        "required": ["tool", "arguments"],
    }
    return {
        "type": "object",
        "properties": {
            "goal": {"type": "string", "description": "What this plan is for.", "default": ""},
            "steps": {"type": "array", "minItems": 1, "maxItems": MAX_PLAN_STEPS, "items": step},
        },
        "required": ["steps"],
    }
