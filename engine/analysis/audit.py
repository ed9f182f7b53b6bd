"""Audit of one recorded session.

It says where the work was reported as done, what the session did after that, which calls it repeated, which calls were
never answered, and which line of which policy would have ended it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct, field

from ..decision import (
    EvaluationVerdict,
    Event,
    Facts,
    LimitUse,
    Outcome,
    Policy,
    Question,
    Status,
    TextKind,
    ToolKind,
    Usage,
    Work,
    fold,
)
from ..decision import events as ev
from ..decision.call_judgement import CallJudge
from ..decision.limits import STOP_REASONS
from ..decision.messages import ResultStatus
from ..decision.run_origin import is_foreign
from ..decision.until_rules import ALL_GUARDS, ALL_RULES
from .anchors import CheckResult, check_result
from .foreign_loops import without_shipped_limit
from .policy_simulation import BacktestResult, Finding, Parting, backtest
from .summary import ResourceUse, RunSummary, is_error

MAX_TEXT = 2_000
"""Number of characters kept of each text."""
MAX_STEPS = 5_000
"""Number of steps kept per run; further ones are only counted."""
_RULES = {rule.name: rule for rule in (*ALL_RULES, *ALL_GUARDS)}


class Audit(Struct, kw_only=True):
    """Audit of a session."""

    session_id: str
    model: str
    engine: str
    """The program that wrote the record: a version of endstop, or `import:<format>`."""
    usage: Usage
    duration_ms: int
    runs: list[AuditedRun]
    lost: dict[str, int] = {}
    """Losses of an import, by kind."""
    parent: ev.ParentCall | None = None
    """The call that runs it as a sub-agent's session; None for any other session."""


class AuditedRun(Struct, kw_only=True):
    """Audit of a run."""

    number: int
    prompt: str
    steps: list[AuditedStep]
    made: int
    """Number of steps, including those that were not kept."""
    last: int
    """Number of its last step. It is higher than `made` for a run that continues another one's count."""
    origin: ev.Origin | None = None
    """The session, run and decision that a fork comes from; None for a run that is not a fork."""
    copied: int = 0
    """Number of the steps that a fork copied from there; they are counted there."""
    is_copy: bool = False
    """Whether a fork copied all of it."""
    status: Status | None
    stop_reason: str
    error: str | None
    """The kind of the provider's latest error, with no response after it; None if there is none."""
    limit: LimitUse | None
    """The limit that ended the run; None if none did, or if it is not recorded."""
    questions: tuple[Question, ...]
    """What a paused run asks the user."""
    detail: str
    answer: str
    verdict: EvaluationVerdict
    work: Work | None
    """Whether the work was evaluated as good or wrong, or only reported as done; None if it was not reported."""
    evaluated_by: str | None
    """Name of the evaluator; None if there was none."""
    accepted_by: tuple[str, ...]
    """Gates, the judge and the user, as far as they accepted the completion."""
    checked_by: str
    """The check of the run (`until`) whose last answer is the verdict; empty without one."""
    scores: tuple[float, ...]
    """The first score that the check gave, and the last if it differs."""
    score_of: float | None
    """The most that the score can be; None if that is not known."""
    judged_by: str
    """The model that judged the work, if the check asks one."""
    guard_changed: tuple[str, ...]
    """Files that the check stands on and that the run changed: the check passes only with the changed ones."""
    failed_calls: tuple[str, ...]
    """Tools that failed before the work was reported as done and did not succeed afterwards."""
    done_at: int | None
    """The step at which the work was reported as done; None if it never was."""
    done_by: str
    """Name of the completion tool, or `text`."""
    phases: list[tuple[int, str]]
    """Progress that a completion tool reported: percentage and summary."""
    pending_issues: tuple[str, ...]
    """What the completion left open."""
    ms: int
    """Milliseconds that it took; 0 if the record has no times."""
    last_text: TextKind | None
    """The kind of the text that ended the run; None if its last step made calls."""
    wasted_steps: int
    wasted_output_tokens: int
    said: AuditedAnchor | None
    """The step that said that the work was done, accepted or not; None if there is none."""
    changed: AuditedAnchor | None
    """The step with the last change of the work; None if nothing was changed."""
    checked: AuditedAnchor | None
    """The step at which a check passed, with no change after it; None if there is none."""
    repeated: list[RepeatedCall]
    unanswered: list[AuditedCall]
    failed: dict[str, int]
    """Number of failed calls by tool."""
    stoppings: list[PolicyStop]


class AuditedStep(Struct, kw_only=True):
    """Audit of a step."""

    step: int
    t: int
    """Milliseconds since the run began."""
    text: str = ""
    calls: list[AuditedCall] = field(default_factory=list)
    usage: Usage = Usage()
    notes: list[str] = field(default_factory=list)
    """What the loop did before the next step: `nudge: ...`, `rejected (by): ...`."""
    repeats: int = 0
    """How often in a row these calls had the same results, this step included; 0 if they do not count as repetition."""
    after_done: bool = False
    """Whether it came after an accepted completion."""
    closing: bool = False
    """Whether it is the closing step after a limit, in which the model only sums up. Not counted as a step."""


class AuditedCall(Struct, kw_only=True):
    """Audit of a tool call."""

    id: str
    name: str
    arguments: str
    kind: ToolKind = "ordinary"
    status: ResultStatus | None = None
    """Status of the result; None without a result."""
    result: str = ""
    """The beginning of the result."""
    failed: bool = False
    """Whether it counts as an error: by its status or, in a foreign loop, by its result."""
    changed: bool = False
    """Whether it changed the work, as far as that is known."""
    may_have_changed: bool = False
    """Whether it is unknown what it did, so that it may have changed the work."""
    check: CheckResult | None = None
    """What a check said of the work; None for any other call, and for a check whose result does not say it."""


class AuditedAnchor(Struct, frozen=True, kw_only=True):
    """A step after which the run could have ended, according to one of the three anchors."""

    step: int
    by: str
    """The tool, gate or evaluator; `text` for a text that said that the work was done. May be empty."""
    steps_after: int
    """Number of steps of the run after it."""


class RepeatedCall(Struct, frozen=True, kw_only=True):
    """A call that was made more than once with the same result."""

    name: str
    arguments: str
    steps: tuple[int, ...]


class PolicyStop(Struct, frozen=True, kw_only=True):
    """Where a policy would have ended the run, and by which of its rules and settings."""

    policy: str
    parting: Parting
    step: int | None
    """The step after which it would have stopped; None if it would not have stopped, or that is unknown."""
    saved_steps: int
    before_change: bool
    """Whether it would have stopped before the last change of the work."""
    rule: str
    """The rule or guard with its priority, such as `P0.5 control_flow`."""
    says: str
    line: str
    """The line of a policy file that leads to the stop."""
    supposed: bool
    """True if the stop is hypothetical: before it, the policy would have sent the model something that is not in the
    record, and it is assumed that the model would have continued as recorded."""
    why: str


def audit(events: Iterable[Event], policies: Sequence[Policy], lost: dict[str, int] | None = None) -> Audit:
    """Audit the events of one session, with or without stream parts.

    events: iterated twice, so that a large record need not be held in memory; a one-shot iterator does not work.
    policies: the policies to compare; for a foreign loop, without the limit of steps that nobody chose. lost: losses of
    the import, if the session was imported.
    """
    return audit_with_summaries(events, policies, lost)[0]


def audit_with_summaries(
    events: Iterable[Event], policies: Sequence[Policy], lost: dict[str, int] | None = None
) -> tuple[Audit, list[RunSummary]]:
    """Audit the events of one session like `audit`, and return the summaries of its runs, too."""
    started = next((event for event in events if isinstance(event, ev.RunStarted)), None)
    if started is not None and is_foreign(started.engine):
        policies = [without_shipped_limit(policy) for policy in policies]
    backtested = list(backtest(events, policies))
    auditors: list[_RunAuditor] = []
    for event in events:
        if isinstance(event, ev.RunStarted):
            auditors.append(_RunAuditor(event))
        if auditors:
            auditors[-1].feed(event)
    digests = [one.digest for one in backtested]
    usage = sum((digest.used.usage for digest in digests), Usage())
    audited = Audit(
        session_id=digests[0].session_id if digests else "",
        model=digests[-1].model if digests else "",
        engine=digests[0].engine if digests else "",
        usage=usage,
        duration_ms=sum(digest.used.ms for digest in digests),
        runs=[
            auditor.finish(number, one, policies)
            for number, (auditor, one) in enumerate(zip(auditors, backtested, strict=True), 1)
        ],
        lost=lost or {},
        parent=next((auditor.parent for auditor in auditors), None),
    )
    return audited, digests


class _RunAuditor:
    """Audits one run."""

    def __init__(self, started: ev.RunStarted) -> None:
        self._started = started
        self._kinds = {tool.name: tool.kind for tool in started.tools}
        self._facts = Facts()
        self._judge = CallJudge(started)
        self._steps: list[AuditedStep] = []
        self._made = self._copied = 0
        self._calls: dict[str, AuditedCall] = {}
        self._early: dict[str, dict[str, Any]] = {}
        """What the results say of calls whose response has not ended, by call id."""
        carried = started.carried.questions if started.carried is not None else ()
        self._approvals = {question.call_id: question.tool for question in carried if question.tool is not None}
        """The tools of the calls that wait for the user's approval, by call id."""
        self._same: dict[str, list[int]] = {}
        self._first: dict[str, str] = {}
        self._failed: Counter[str] = Counter()
        self._accepted = ""
        self._first_score: float | None = None
        self._evaluated_by: str | None = None
        self._finished: ev.RunFinished | None = None

    @property
    def parent(self) -> ev.ParentCall | None:
        """The call that runs it as a sub-agent; None for any other run."""
        return self._started.parent

    def feed(self, event: Event) -> None:
        """Add an event."""
        self._facts = fold(self._facts, event)
        match event:
            case ev.StepStarted(step=number, t=t, closing=closing):
                self._made += not closing
                self._copied += not closing and ev.is_copied(event, self._started)
                step = AuditedStep(step=number, t=t, closing=closing, after_done=bool(self._accepted))
                self._steps.append(step)
                if len(self._steps) > MAX_STEPS:
                    del self._steps[MAX_STEPS // 2]  # keep the beginning and the end
            case ev.ResponseFinished(message=message):
                calls = [
                    AuditedCall(
                        id=call.id,
                        name=call.name,
                        arguments=call.arguments[:MAX_TEXT],
                        kind=self._kinds.get(call.name, "ordinary"),
                    )
                    for call in message.calls
                ]
                for call in calls:  # a call that only reads may finish before the response does
                    _set(call, self._early.pop(call.id, {}))
                    self._calls[call.id] = call
                step = self._step
                step.text, step.calls, step.usage = message.text[:MAX_TEXT], calls, event.usage
            case ev.ToolCallResult():
                self._result(event)
            case ev.QuestionAnswered(call_id=id, text=text, says=says):
                if (waiting := self._approvals.get(id)) is not None:
                    self._step.notes.append(f"the user on {waiting}: {says}: {text[:MAX_TEXT]}")
                elif id in self._calls and says != "unclear":
                    self._calls[id].status, self._calls[id].result = "ok", text[:MAX_TEXT]
            case ev.QuestionAsked(call_id=id, tool=str(tool)):
                self._approvals[id] = tool
                self._step.notes.append(f"{tool} waits for the user's approval")
            case ev.CompletionAccepted(name=name):
                self._accepted = self._accepted or name
            case ev.CompletionRejected(reason=reason, by=by):
                self._step.notes.append(f"rejected ({by}): {reason[:MAX_TEXT]}")
            case ev.MessageAdded(origin=origin, text=text) if origin != "handler" and self._steps:
                self._step.notes.append(f"{origin.replace('_', ' ')}: {text[:MAX_TEXT]}")
            case ev.ContextCompacted(before_tokens=before, after_tokens=after) if self._steps:
                self._step.notes.append(f"context compacted: {before:,} tokens became {after:,}")
            case ev.AttemptFailed(kind=kind, message=message, beside=False) if self._steps:
                cut = kind == "degenerate"
                what = f"the response was cut: {message}" if cut else f"the request failed: {kind}: {message}"
                self._step.notes.append(what[:MAX_TEXT])
            case ev.StepFinished():
                self._step.repeats = self._facts.repeats
            case ev.CheckEnded(score=score) if self._first_score is None:
                self._first_score = score
            case ev.EvaluationFinished(name=name):
                self._evaluated_by = name
            case ev.RunFinished():
                self._finished = event
            case _:
                pass

    @property
    def _step(self) -> AuditedStep:
        if not self._steps:  # a completion confirmed by the user does not have a step
            self._steps.append(AuditedStep(step=self._facts.steps, t=self._facts.t))
        return self._steps[-1]

    def _result(self, event: ev.ToolCallResult) -> None:
        call, failed = self._calls.get(event.call_id), is_error(event, self._facts, self._judge)
        judged = self._judge.judge(event, self._facts)
        ordinary = self._kinds.get(event.name, "ordinary") == "ordinary"
        said = {
            "status": event.status,
            "result": event.content[:MAX_TEXT],
            "failed": failed,
            "changed": judged.changed,
            "may_have_changed": judged.effect == "unknown" and not judged.changed and ordinary,
            "check": check_result(event, judged) if ordinary else None,
        }
        if call is None:
            self._early[event.call_id] = said
        else:
            _set(call, said)
        if failed:
            self._failed[event.name] += 1
        if event.fingerprint:
            self._same.setdefault(event.fingerprint, []).append(self._facts.steps)
            self._first.setdefault(event.fingerprint, event.call_id)

    def _said_by(self, digest: RunSummary) -> str:
        """Return what said that the work was done: the name of the completion tool, or `text`."""
        at = digest.said.steps if digest.said is not None else None
        names = (_completion_in(step) for step in self._steps if step.step == at and not step.closing)
        return next(filter(None, names), "text")

    def finish(self, number: int, backtested: BacktestResult, policies: Sequence[Policy]) -> AuditedRun:
        """Return the audit of the run, with the step at which each policy would have ended it."""
        digest = backtested.digest
        outcome = self._finished.outcome if self._finished is not None else None
        phases = [one for one in outcome.phases if one.get("summary") != outcome.answer] if outcome is not None else []
        after = digest.after_done
        by_text = digest.done is not None and not self._accepted
        return AuditedRun(
            number=number,
            prompt=(self._started.prompt or "")[:MAX_TEXT],
            steps=self._steps,
            made=self._made,
            last=digest.end.steps,
            origin=digest.origin,
            copied=self._copied,
            is_copy=digest.is_copy,
            status=digest.status,
            stop_reason=digest.stop_reason,
            error=self._facts.error_kind if self._facts.provider_error is not None else None,
            limit=_ending_limit(outcome),
            questions=outcome.questions if outcome is not None else (),
            detail=outcome.detail if outcome is not None else "",
            answer=outcome.answer[:MAX_TEXT] if outcome is not None else "",
            verdict=digest.verdict,
            work=digest.work,
            evaluated_by=self._evaluated_by,
            accepted_by=self._facts.accepted_by if digest.status == "completed" else (),
            checked_by=outcome.checked_by if outcome is not None else "",
            scores=_first_and_last(self._first_score, outcome.check_score if outcome is not None else None),
            score_of=outcome.check_of if outcome is not None else None,
            judged_by=outcome.judged_by if outcome is not None else "",
            guard_changed=outcome.guard_changed if outcome is not None else (),
            failed_calls=digest.failed_calls,
            done_at=digest.done.steps if digest.done is not None else None,
            done_by="text" if by_text else self._accepted,
            phases=[
                (phase.get("completion_percentage") or 0, str(phase.get("summary") or "")[:MAX_TEXT])
                for phase in phases
            ],
            pending_issues=outcome.pending_issues if outcome is not None else (),
            ms=digest.used.ms,
            last_text=digest.last_text,
            wasted_steps=digest.wasted_steps,
            wasted_output_tokens=after.usage.output_tokens if after is not None else 0,
            said=_anchor(digest, digest.said, self._said_by(digest)),
            changed=_anchor(digest, digest.changed, digest.changed_by),
            checked=_anchor(digest, digest.checked, digest.checked_by),
            repeated=[
                RepeatedCall(name=first.name, arguments=first.arguments, steps=tuple(steps))
                for key, steps in self._same.items()
                if len(steps) > 1 and (first := self._calls.get(self._first[key])) is not None
            ],
            unanswered=[call for call in self._calls.values() if call.status in (None, "unknown", "unanswered")],
            failed=dict(self._failed),
            stoppings=[
                _policy_stop(policy, finding, backtested.digest.end.steps)
                for policy, finding in zip(policies, backtested.findings, strict=True)
            ],
        )


def _set(call: AuditedCall, said: dict[str, Any]) -> None:
    for name, value in said.items():
        setattr(call, name, value)


def _ending_limit(outcome: Outcome | None) -> LimitUse | None:
    """Return the hard limit that ended a run."""
    for name, use in outcome.limits.items() if outcome is not None else ():
        base = name.removeprefix("session_").removeprefix("budget_")
        reached = not use.soft and use.used >= use.allowed
        if outcome is not None and reached and STOP_REASONS.get(base) == outcome.stop_reason:
            return use
    return None


def _first_and_last(first: float | None, last: float | None) -> tuple[float, ...]:
    scores = [score for score in (first, last) if score is not None]
    return tuple(dict.fromkeys(scores))


def _completion_in(step: AuditedStep) -> str:
    """Return the completion tool that a step called; empty if it called none."""
    return next((call.name for call in step.calls if call.kind == "completion"), "")


def _anchor(digest: RunSummary, at: ResourceUse | None, by: str) -> AuditedAnchor | None:
    return None if at is None else AuditedAnchor(step=at.steps, by=by, steps_after=digest.used_after(at).steps)


def _policy_stop(policy: Policy, finding: Finding, made: int) -> PolicyStop:
    rule = _RULES.get(finding.rule)
    stops = finding.stops
    return PolicyStop(
        policy=policy.name,
        parting=finding.parting,
        step=stops.steps if stops is not None else None,
        saved_steps=made - stops.steps if stops is not None else 0,
        before_change=finding.before_change,
        rule=f"{rule.priority} {rule.name}" if rule is not None else finding.rule,
        says=rule.says if rule is not None else "",
        line=_policy_line(policy, finding),
        supposed=finding.parting == "diverges" and stops is not None,
        why=finding.why,
    )


def _policy_line(policy: Policy, finding: Finding) -> str:
    """Return the line of a policy file that leads to a stop."""
    match finding.stop_reason:
        case "text_final":
            return f'text = "{policy.text}"'
        case "degenerate":
            cut_at = {name: getattr(policy.degeneration, name) for name in ("text", "reasoning", "arguments")}
            return "; ".join(f"degeneration.{name} = {value}" for name, value in cut_at.items() if value is not None)
        case "stuck":
            return f"repetition.stop_at = {policy.repetition.stop_at}"
        case "no_answer":
            return f"patience.empty_answers = {policy.patience.empty_answers}"
        case "completion_rejected":
            return f"patience.rejections = {policy.patience.rejections}"
        case "invalid_calls":
            return f"patience.invalid_calls = {policy.patience.invalid_calls}"
        case reason if reason in STOP_REASONS.values():
            limits = [name for name, stops in STOP_REASONS.items() if stops == reason]
            return "; ".join(
                f"limits.{name} = {value}" for name in limits if (value := getattr(policy.limits, name)) is not None
            )
        case _:
            return ""
