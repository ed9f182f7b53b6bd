"""What the parts of one run share. Made by the run, handed down to loop, step and calls."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..decision import Decision, Facts, Policy, ToolCall, Transcript
from ..providers import Provider, ToolChoice
from .clock import Clock
from .log import Log
from .scope import Cause, RoundScope
from .toolbox import Toolbox
from .tools import Tool

Decide = Callable[[Facts, Policy], Decision]

Execute = Callable[[ToolCall, Tool, Mapping[str, Any]], Awaitable[Any]]
"""Runs one call of a tool with its parsed arguments and gives what the function returned."""


async def execute_here(call: ToolCall, tool: Tool, arguments: Mapping[str, Any]) -> Any:
    """Run the tool's own function, in this process."""
    return await tool.run(arguments)


@dataclass(slots=True, kw_only=True)
class Context:
    """One run's parts."""

    log: Log
    transcript: Transcript
    provider: Provider
    toolbox: Toolbox
    policy: Policy
    decide: Decide
    execute: Execute = execute_here
    clock: Clock
    taken_ids: set[str]
    """Call ids used so far in the session."""
    memo: dict[Any, Any]
    """The providers' own notes on the session."""
    tool_choice: ToolChoice = "auto"
    settings: Mapping[str, Any] = field(default_factory=dict)
    flush: Callable[[], None] = lambda: None
    """Hands all events so far to the operating system; called before every side effect."""
    scope: RoundScope | None = None
    cancelled: Cause | None = None

    def cancel(self, cause: str) -> None:
        """End everything in flight, for a reason from outside. Only the first call counts."""
        if self.cancelled is None:
            self.cancelled = Cause("caller", cause)
            if self.scope is not None:
                self.scope.cancel(self.cancelled)
