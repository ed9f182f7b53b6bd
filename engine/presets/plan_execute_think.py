"""Plan, execute, think: a ready engine that works in rounds, made of nothing but public pieces.

    engine = plan_execute_think(provider, [read_file, edit_file])
    outcome = await engine.run("Set the port to 8080 everywhere")

A round is two steps of the model. It plans 1 to 8 steps, each a call of one of the tools, and they are executed as one
batch; then it thinks about the results and decides: go on with a new plan, or done. The plan is checked as a whole
before anything runs. In a batch, steps that only read and stand side by side run at once, all others one after
another; after a step that failed nothing more is run. Nothing is kept between calls, so one engine serves any number
of runs, and a record of it replays like any other.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

import anyio
from msgspec.structs import replace

from ...decision import POLICIES, Limits, Policy, WrongUse
from ...decision.errors import error_text
from ...providers import Provider
from ...providers.clock import Clock, SystemClock
from ..answers import Completion, Phase, Settled
from ..calling import apart
from ..engine import Engine
from ..results import LONGEST, as_text, shortened
from ..schema import InvalidArguments
from ..tools import Tool

STEPS = 8
"""Steps that a plan may have, 1 or more."""
SYSTEM = (
    "You are an agent that works on a user's task in rounds. In each round, first plan the next steps, 1 to 8 of them, "
    "and have them executed as one batch. Then think about the results, and decide: go on with a new plan, or done. "
    "Plan only what you can know already; what depends on a result belongs into the next round. "
    "The user reads only what you say when the task is done."
)
PLANNED = replace(
    POLICIES["strict"],
    name="plan_execute_think",
    max_inner_steps=2,  # a round of the loop is then a round of this pattern
    limits=Limits(steps=60),
)
"""The policy of the ready engine: only "done" ends a run; 60 steps are 30 rounds."""


def plan_execute_think(
    provider: Provider,
    tools: Sequence[Tool],
    *,
    policy: Policy = PLANNED,
    clock: Clock | None = None,
    **options: Any,
) -> Engine:
    """An engine that works in rounds of plan, execute and think.

    tools: what a step of a plan may call. Those of another kind than ordinary (a question, a thought) are offered to
    the model directly. `options` are those of `Engine`.

    Raises WrongUse if no tool is ordinary, or two have one name.
    """
    steps = [tool for tool in tools if tool.kind == "ordinary"]
    others = [tool for tool in tools if tool.kind != "ordinary"]
    time = clock or SystemClock()
    offered = [plan_tool(steps, time), think_tool(), *others]
    return Engine(provider, **{"system": SYSTEM, **options, "tools": offered, "policy": policy, "clock": time})


def plan_tool(tools: Sequence[Tool], clock: Clock) -> Tool:
    """The tool that takes a plan and executes it: one result for each step, in its order."""
    known = {tool.name: tool for tool in tools}
    if not known:
        raise WrongUse("plan_execute_think needs a tool of kind ordinary, or a plan could hold nothing")
    if len(known) < len(tools):
        raise WrongUse("two tools of one name: rename one, as in tool.renamed('other')")

    async def plan_and_execute(steps: Sequence[Mapping[str, Any]], goal: str = "") -> Settled:
        batch = Batch(known, steps, clock)
        await batch.run()
        return batch.told()

    return Tool(plan_and_execute, description=_description(tools), parameters=_parameters(list(known)), timeout=None)


def think_tool() -> Tool:
    """The tool that ends a round: go on, or done."""

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
            '"go on" if something is missing, "done" as soon as the task is finished or you know that it cannot be. '
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


class Batch:
    """The steps of one plan. Raises InvalidArguments, before anything runs, if one of them cannot."""

    def __init__(self, tools: Mapping[str, Tool], steps: Sequence[Mapping[str, Any]], clock: Clock) -> None:
        self._clock = clock
        self._steps = [(tools[step["tool"]], step.get("arguments", {})) for step in steps]
        self._parsed: list[dict[str, Any]] = []
        self.results: list[tuple[str, str]] = [("skipped", "Not run: a step before it failed.")] * len(steps)
        """Status and text of each step, in the order of the plan."""
        for number, (tool, arguments) in enumerate(self._steps, 1):
            try:
                self._parsed.append(tool.parse(json.dumps(arguments)))
            except InvalidArguments as error:
                raise InvalidArguments(f"Step {number} of the plan: {error} Nothing of the plan was run.") from None

    async def run(self) -> None:
        """Run the steps, up to one that fails."""
        for reads, group in groupby(range(len(self._steps)), lambda index: self._steps[index][0].spec.reads):
            together = list(group)
            for some in [together] if reads else [[index] for index in together]:
                async with anyio.create_task_group() as tasks:
                    for index in some:
                        tasks.start_soon(self._run, index)
                if any(self.results[index][0] != "ok" for index in some):
                    return

    def told(self) -> Settled:
        """All results as JSON; an error if a step failed, so that no completion beside it is taken."""
        longest = LONGEST // (2 * STEPS)
        lines = [
            {"step": number, "tool": tool.name, "status": status, "result": shortened(text, longest)}
            for number, ((tool, _), (status, text)) in enumerate(zip(self._steps, self.results, strict=True), 1)
        ]
        good = all(status == "ok" for status, _ in self.results)
        return Settled(content=json.dumps(lines, ensure_ascii=False), status="ok" if good else "error")

    async def _run(self, index: int) -> None:
        tool, _ = self._steps[index]
        said: Any = None
        with self._clock.deadline(tool.timeout) as deadline:
            try:
                said = await apart(tool.run(self._parsed[index]), tool.name)
            except (Exception, SystemExit) as error:
                said = Settled(content=error_text(error), status="error")
        if deadline.cancelled_caught:
            said = Settled(content=f"{tool.name} was stopped after {tool.timeout:g} seconds.", status="error")
        text, status = as_text(said)
        self.results[index] = (status, text)


def _description(tools: Sequence[Tool]) -> str:
    lines = [
        f"Call this with a plan of 1 to {STEPS} steps. They are executed at once, as one batch, and you get the result "
        "of each. After a step that failed, the rest is skipped. A step calls one of these tools:"
    ]
    for tool in tools:
        about = " ".join(tool.spec.description.split())
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
            "steps": {"type": "array", "minItems": 1, "maxItems": STEPS, "items": step},
        },
        "required": ["steps"],
    }
