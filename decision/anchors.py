"""Anchors of a run: where its work was last changed, and where it was checked.

When a run should have ended has three answers, which are not the same: when the model *said* that it was done
(`summary.DoneClaim`), when it last *changed* the work, and when the work was *checked*.

- changed: the last step with a call that changed something and succeeded. A tool of ours that only reads never changes
  anything, whatever its name. Of any other tool, and of each tool of an imported session, the name and the arguments
  say what a call did (`call_effects.py`).
- checked: the first step with a test that passed, or a gate that accepted, since the last change; else the end of a run
  whose evaluation passed. A later change takes it back, and so does a test that failed, or a gate that rejected. A test
  that passed before anything was changed checks nothing that the run has done, and does not count.

All calls of a step count together, so the result does not depend on the order in which parallel calls end: a test in
the step of a change counts as made after it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import events as ev
from .call_effects import call_effect
from .call_results import has_failed, has_passed
from .call_verbs import CallEffect
from .facts import Facts


class WorkAnchors:
    """Finds the last change of the work and the check of it. Feed it each event of the run, with the facts after it.

    imported: whether the record was imported, so that a tool that is not declared to read may still only read.
    """

    def __init__(self, started: ev.RunStarted, *, imported: bool) -> None:
        self.changed: Facts | None = None
        """The facts after the step with the last change; None if nothing was changed."""
        self.changed_by = ""
        """The tool that made it."""
        self.checked: Facts | None = None
        """The facts after the check; None if there is none."""
        self.checked_by = ""
        """The tool that ran the test, or the name of the gate or of the evaluator."""
        undeclared = None if imported else False
        self._reads = {tool.name: tool.reads or undeclared for tool in started.tools if tool.kind == "ordinary"}
        self._arguments: dict[str, str] = {}
        """Arguments of the calls of the latest response, by call id."""
        self._change = self._pass = self._failure = ""
        """Tools of the current step with a change, a test that passed, and one that failed; the first of each."""

    def feed(self, event: ev.Event, facts: Facts) -> None:
        """Add one event, with the facts after it."""
        change = _CHANGES.get(type(event))
        if change is not None:
            change(self, event, facts)

    def end_step(self, facts: Facts) -> None:
        """Take the calls of the current step into account, also if a record ends within it."""
        if self._change:
            self.changed, self.changed_by = facts, self._change
            self._withdraw_check()
        if self._failure:
            self._withdraw_check()
        elif self._pass and self.changed is not None:
            self._check(self._pass, facts)
        self._change = self._pass = self._failure = ""

    def _check(self, by: str, facts: Facts) -> None:
        if self.checked is None:
            self.checked, self.checked_by = facts, by

    def _withdraw_check(self) -> None:
        self.checked, self.checked_by = None, ""

    def _response(self, event: ev.ResponseFinished, facts: Facts) -> None:
        self._arguments = {call.id: call.arguments for call in event.message.calls}

    def _result(self, event: ev.ToolCallResult, facts: Facts) -> None:
        name = event.name
        if name not in self._reads:
            return
        call = call_effect(name, self._arguments.get(event.call_id, ""), self._reads[name])
        if self._changes(call, event):
            self._change = self._change or name
        if call.checks:
            passed = has_passed(event.content, event.status)
            if passed:
                self._pass = self._pass or name
            elif passed is False or has_failed(event.content, event.status, "checks"):
                self._failure = self._failure or name

    def _changes(self, call: CallEffect, event: ev.ToolCallResult) -> bool:
        """Whether a call changed the work, as far as its result tells."""
        if event.status != "ok":
            return False
        match call.effect:
            case "changes":  # if it checks as well, it may be the check that failed
                return call.checks or not has_failed(event.content, event.status, "changes")
            case "unknown":
                return self._reads[event.name] is False and not has_failed(event.content, event.status)
            case "reads" | "checks" | "waits" | "controls":
                return False

    def _step_finished(self, event: ev.StepFinished, facts: Facts) -> None:
        self.end_step(facts)

    def _verdict(self, event: ev.VerdictGiven, facts: Facts) -> None:
        if event.role != "gate":
            return
        self.end_step(facts)  # a gate sees what the calls before the completion did
        if event.said == "accept":
            self._check(event.name, facts)
        elif event.said == "reject":
            self._withdraw_check()

    def _evaluated(self, event: ev.EvaluationFinished, facts: Facts) -> None:
        if event.verdict == "passed":
            self._check(event.name, facts)


_CHANGES: dict[type, Callable[[WorkAnchors, Any, Facts], None]] = {
    ev.ResponseFinished: WorkAnchors._response,
    ev.ToolCallResult: WorkAnchors._result,
    ev.StepFinished: WorkAnchors._step_finished,
    ev.VerdictGiven: WorkAnchors._verdict,
    ev.EvaluationFinished: WorkAnchors._evaluated,
}
ANCHOR_EVENTS = frozenset(_CHANGES)
"""Event types that may move an anchor."""
