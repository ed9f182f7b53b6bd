"""Rounds of a planning model, which plans some steps, has them executed as one batch, and thinks about the results.

A tool takes plans if the schema of its arguments has `steps` that each name a `tool` (see `plan_execute_think.py`). A
call of such a tool begins a round; the next completion call, which reports a phase or ends the run, ends it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from ...decision import ToolSpec
from .text import call_summary


@dataclass(slots=True)
class RoundStep:
    """One step of a plan, and its result."""

    call: str
    """Tool and arguments, in brief."""
    status: str = ""
    """Empty until the plan was executed."""
    result: str = ""


@dataclass(slots=True)
class Round:
    """One round, as far as it got."""

    number: int
    goal: str = ""
    steps: list[RoundStep] = field(default_factory=list)
    thought: str = ""
    percentage: int | None = None
    next: str = ""

    def add_plan(self, arguments: str, result: str) -> None:
        """Add a plan and its results, as far as both are well-formed."""
        plan = _object(arguments)
        self.goal = _word(plan.get("goal")) or self.goal
        results = _list(_decoded(result))
        for number, step in enumerate(_list(plan.get("steps"))):
            outcome = results[number] if number < len(results) and isinstance(results[number], dict) else {}
            if isinstance(step, dict):
                call = call_summary(_word(step.get("tool")), msgspec.json.encode(step.get("arguments") or {}).decode())
                self.steps.append(RoundStep(call, _word(outcome.get("status")), _word(outcome.get("result"))))


def takes_plans(tool: ToolSpec) -> bool:
    """Return whether a call of this tool is a plan."""
    steps = _object(_object(tool.parameters.get("properties")).get("steps"))
    return "tool" in _object(_object(steps.get("items")).get("properties"))


def _decoded(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return None


def _object(value: Any) -> dict[str, Any]:
    if isinstance(value, str):
        value = _decoded(value)
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _word(value: Any) -> str:
    return value if isinstance(value, str) else ""
