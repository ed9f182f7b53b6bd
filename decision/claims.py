"""When the model first said that it was done and did nothing any more but say so again.

Saying so is a plain text or a completion call, accepted or not. What it called after that, thoughts aside, takes it
back. Whether the work was done then, only the end can tell: if it is good, nothing was added to the work since.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import events as ev
from .facts import Facts

_RAN = frozenset({"ok", "error", "cancelled", "unknown"})
"""Statuses of calls that were run, at least in part."""


class Claim:
    """Folds one run, from its RUN_STARTED on. Feed it each event with the facts after it."""

    def __init__(self, started: ev.RunStarted) -> None:
        self.facts: Facts | None = None
        """The facts after the step in which the model said so; None if it has not."""
        self._completing = frozenset(tool.name for tool in started.tools if tool.kind == "completion")
        self._idle = self._completing | {tool.name for tool in started.tools if tool.kind == "think"}
        prompts = started.policy.prompts
        self._no_answer = frozenset((prompts.empty, prompts.truncated, prompts.refused, prompts.echo))
        self._says_so = False

    def take(self, event: ev.Event, facts: Facts) -> None:
        """One more event, and the facts after it."""
        change = _CLAIM_CHANGES.get(type(event))
        if change is not None:
            change(self, event, facts)

    def _response(self, event: ev.ResponseFinished, facts: Facts) -> None:
        calls = event.message.calls
        said = any(call.name in self._completing for call in calls) if calls else bool(facts.text.strip())
        self._says_so = said and not facts.closing and not facts.truncated

    def _result(self, event: ev.ToolCallResult, facts: Facts) -> None:
        if event.status in _RAN and event.name not in self._idle:
            self.facts = None

    def _phase(self, event: ev.PhaseReported, facts: Facts) -> None:
        self._says_so = self._says_so and event.percentage >= 100

    def _step_finished(self, event: ev.StepFinished, facts: Facts) -> None:
        if self._says_so and self.facts is None:
            self.facts = facts
        self._says_so = False

    def _told(self, event: ev.MessageAdded, facts: Facts) -> None:
        if event.origin == "user" or (event.origin == "nudge" and event.text in self._no_answer):
            self.facts = None


_CLAIM_CHANGES: dict[type, Callable[[Claim, Any, Facts], None]] = {
    ev.ResponseFinished: Claim._response,
    ev.ToolCallResult: Claim._result,
    ev.PhaseReported: Claim._phase,
    ev.StepFinished: Claim._step_finished,
    ev.MessageAdded: Claim._told,
}
CLAIMING = frozenset(_CLAIM_CHANGES)
"""The types of events that change a claim."""
