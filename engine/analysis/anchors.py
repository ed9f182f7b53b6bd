"""Anchors of a run: where it said that it was done, where its work was last changed, and where that was checked.

The question when a run should have ended has three different answers:

- said: the first step in which the model said that it was done and after which it did no work (`DoneClaim`).
- changed: the last step with a call that changed something and succeeded (`decision/call_judgement.py`). One of the
  run's own tools that only reads never changes anything, whatever its name.
- checked: the first step since the last change with a test that passed, or a gate that accepted; else the end of a run
  whose evaluation passed. A later change takes it back, and so does a test that failed, or a gate that rejected. A test
  that passed before anything was changed checks nothing that the run has done, and does not count.

All calls of a step count together, so the result does not depend on the order in which parallel calls end: a test in
the step of a change counts as made after it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from ..decision import events as ev
from ..decision.call_judgement import CallJudge, CallJudgement
from ..decision.call_results import has_failed, has_passed
from ..decision.facts import Facts
from ..decision.text_kinds import is_last_word

CheckResult = Literal["passed", "failed"]
"""What a check said of the work."""


def check_result(event: ev.ToolCallResult, call: CallJudgement) -> CheckResult | None:
    """Return what a check said of the work; None for any other call, or if its result does not say it."""
    if not call.checks:
        return None
    passed = has_passed(event.content, event.status)
    if passed:
        return "passed"
    return "failed" if passed is False or has_failed(event.content, event.status, "checks") else None


class DoneClaim:
    """Finds the step in which the model first said that it was done, without doing any work after it.

    A claim is a completion call, accepted or not, or a text without calls that is an answer or a refusal without
    another offer (`text_kinds.LAST_WORDS`), unless the user's text rule keeps it from ending the run. Any later call of
    another tool withdraws it, except a think call. If the result is good at the end of the run, the work was already
    done at the claim, because nothing was added to it since. Feed it each event of the run, from RUN_STARTED on, with
    the facts after it.
    """

    def __init__(self, started: ev.RunStarted) -> None:
        self.facts: Facts | None = None
        """The facts after the step with the claim; None if there is none."""
        self._completion_tools = frozenset(tool.name for tool in started.tools if tool.kind == "completion")
        self._idle = self._completion_tools | {tool.name for tool in started.tools if tool.kind == "think"}
        prompts = started.policy.prompts
        self._no_answer = frozenset(
            (
                prompts.empty,
                prompts.truncated,
                prompts.refused,
                prompts.echo,
                prompts.announcement,
                prompts.partial,
                prompts.result_echo,
                prompts.decide,
            )
        )
        self._claims_done = False

    def feed(self, event: ev.Event, facts: Facts) -> None:
        """Add one event, with the facts after it."""
        change = _CLAIM_CHANGES.get(type(event))
        if change is not None:
            change(self, event, facts)

    def _response(self, event: ev.ResponseFinished, facts: Facts) -> None:
        calls = event.message.calls
        said = any(call.name in self._completion_tools for call in calls) if calls else bool(facts.text.strip())
        self._claims_done = said and not facts.closing and not facts.truncated

    def _result(self, event: ev.ToolCallResult, facts: Facts) -> None:
        if event.status in _RAN and event.name not in self._idle:
            self.facts = None

    def _phase(self, event: ev.PhaseReported, facts: Facts) -> None:
        self._claims_done = self._claims_done and event.percentage >= 100

    def _step_finished(self, event: ev.StepFinished, facts: Facts) -> None:
        ends = is_last_word(facts.text_kind) and facts.text_verdict != "nudge"
        if self._claims_done and ends and self.facts is None:
            self.facts = facts
        self._claims_done = False

    def _message_added(self, event: ev.MessageAdded, facts: Facts) -> None:
        if event.origin == "user" or (event.origin == "nudge" and event.text in self._no_answer):
            self.facts = None


_RAN = frozenset({"ok", "error", "cancelled", "unknown"})
"""Statuses of calls that ran, at least in part."""
_CLAIM_CHANGES: dict[type, Callable[[DoneClaim, Any, Facts], None]] = {
    ev.ResponseFinished: DoneClaim._response,
    ev.ToolCallResult: DoneClaim._result,
    ev.PhaseReported: DoneClaim._phase,
    ev.StepFinished: DoneClaim._step_finished,
    ev.MessageAdded: DoneClaim._message_added,
}


class WorkAnchors:
    """Finds the last change of the work and the check of it. Feed it each event of the run, with the facts after it.

    judge: the `CallJudge` of the run's calls.
    """

    def __init__(self, started: ev.RunStarted, judge: CallJudge) -> None:
        self.changed: Facts | None = None
        """The facts after the step with the last change; None if nothing was changed."""
        self.changed_by = ""
        """The tool that made the change."""
        self.checked: Facts | None = None
        """The facts after the check; None if there is none."""
        self.checked_by = ""
        """The tool that ran the test, or the name of the gate or of the evaluator."""
        self._judge = judge
        self._ordinary = frozenset(tool.name for tool in started.tools if tool.kind == "ordinary")
        self._change = self._pass = self._failure = ""
        """Tools of the current step with a change, with a test that passed, and with one that failed; the first of
        each."""

    def feed(self, event: ev.Event, facts: Facts) -> None:
        """Add one event, with the facts after it."""
        change = _CHANGES.get(type(event))
        if change is not None:
            change(self, event, facts)

    def end_step(self, facts: Facts) -> None:
        """Take the calls of the current step into account, even if a record ends within it."""
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

    def _result(self, event: ev.ToolCallResult, facts: Facts) -> None:
        name = event.name
        if name not in self._ordinary:
            return
        call = self._judge.judge(event, facts)
        if call.changed:
            self._change = self._change or name
        match check_result(event, call):
            case "passed":
                self._pass = self._pass or name
            case "failed":
                self._failure = self._failure or name
            case None:
                pass

    def _step_finished(self, event: ev.StepFinished, facts: Facts) -> None:
        self.end_step(facts)

    def _verdict(self, event: ev.VerdictGiven, facts: Facts) -> None:
        if event.role != "gate":
            return
        self.end_step(facts)  # a gate sees the effects of the calls before the completion
        if event.said == "accept":
            self._check(event.name, facts)
        elif event.said == "reject":
            self._withdraw_check()

    def _evaluated(self, event: ev.EvaluationFinished, facts: Facts) -> None:
        if event.verdict == "passed":
            self._check(event.name, facts)


_CHANGES: dict[type, Callable[[WorkAnchors, Any, Facts], None]] = {
    ev.ToolCallResult: WorkAnchors._result,
    ev.StepFinished: WorkAnchors._step_finished,
    ev.VerdictGiven: WorkAnchors._verdict,
    ev.EvaluationFinished: WorkAnchors._evaluated,
}
ANCHOR_EVENTS = frozenset(_CHANGES) | frozenset(_CLAIM_CHANGES)
"""Event types that may move an anchor."""
