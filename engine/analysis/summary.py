"""Summary of one run in figures: a row of the index, a line of a report.

`SummaryBuilder` folds a run's events, in addition to the facts, in memory that does not grow with the run. A summary
holds figures and names; it keeps only the beginning of texts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from ..decision import events as ev
from ..decision.call_judgement import CallJudge
from ..decision.events import is_copied
from ..decision.facts import Facts
from ..decision.fold import saved_by_cut
from ..decision.messages import Usage
from ..decision.outcome import CutSavings, EvaluationVerdict, Outcome, Status, Work, derive_work
from ..decision.run_origin import is_foreign
from ..decision.text_kinds import TextKind, is_last_word
from .anchors import ANCHOR_EVENTS, DoneClaim, WorkAnchors
from .endings import ending_key
from .task_titles import task_opening

PREVIEW_LENGTH = 200
"""Number of characters kept of a prompt, an answer and a detail."""


class ResourceUse(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Resources that a run had used up to some point."""

    steps: int = 0
    requests: int = 0
    calls: int = 0
    """Number of tool calls that were run."""
    usage: Usage = Usage()
    ms: int = 0

    @classmethod
    def of(cls, facts: Facts) -> ResourceUse:
        """Return what was used so far according to these facts."""
        return cls(
            steps=facts.steps,
            requests=facts.requests,
            calls=facts.tool_calls,
            usage=facts.usage,
            ms=facts.t + facts.carried_ms,
        )

    def __add__(self, other: ResourceUse) -> ResourceUse:
        return ResourceUse(
            steps=self.steps + other.steps,
            requests=self.requests + other.requests,
            calls=self.calls + other.calls,
            usage=self.usage + other.usage,
            ms=self.ms + other.ms,
        )

    def since(self, earlier: ResourceUse) -> ResourceUse:
        """Return what was used between `earlier` and this point. `cost_usd` is None if this point's cost is unknown."""
        now, then = self.usage, earlier.usage
        cost = None if now.cost_usd is None else now.cost_usd - (then.cost_usd or 0.0)
        return ResourceUse(
            steps=self.steps - earlier.steps,
            requests=self.requests - earlier.requests,
            calls=self.calls - earlier.calls,
            usage=Usage(
                input_tokens=now.input_tokens - then.input_tokens,
                output_tokens=now.output_tokens - then.output_tokens,
                cached_tokens=now.cached_tokens - then.cached_tokens,
                reasoning_tokens=now.reasoning_tokens - then.reasoning_tokens,
                cost_usd=cost,
                estimated=now.estimated,
            ),
            ms=self.ms - earlier.ms,
        )


class ToolStats(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """How the calls of one tool ended in one run."""

    calls: int = 0
    failed: int = 0
    """Number of calls that failed (`CallJudgement.failed`)."""
    handed_back: int = 0
    """Number of completions that were rejected."""
    not_run: int = 0
    """Number of calls that were skipped, cancelled, denied, unanswered, cut off by a limit, or whose result is
    unknown."""
    ms: int = 0


class RunSummary(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One run in figures."""

    run_id: str
    session_id: str
    model: str = ""
    policy: str = ""
    """The policy's name."""
    engine: str = ""
    """Writer of the record: a version of endstop, or `import:<format>`."""
    started_at: str = ""
    prompt: str = ""
    """The first `PREVIEW_LENGTH` characters."""
    task: str = ""
    """The beginning of the task in the prompt (`task_titles.py`)."""
    task_key: str = ""
    """Another one for each task; empty without a prompt."""
    answer: str = ""
    """The first `PREVIEW_LENGTH` characters."""
    status: Status | None = None
    """None if the record ends before the run does."""
    stop_reason: str = ""
    ending: str = ""
    """How it ended: the key of `endings.ENDINGS`, or a stop reason that is not among them. Empty without an end."""
    detail: str = ""
    verdict: EvaluationVerdict = "not_run"
    failed_calls: tuple[str, ...] = ()
    """Tools whose calls failed before the work was reported as done, with no later success (`decision/failures.py`)."""
    reward: float | None = None
    """The number `reward` in the details of the evaluation; None if there is none."""
    exceeded_limit: bool = False
    allowed: int = 0
    """The hard limit on steps."""
    soft: int = 0
    """The soft limit on steps; 0 if there is none."""
    start: ResourceUse = ResourceUse()
    """Use that belongs to another run: the paused run that this one continues, or what a fork copied."""
    origin: ev.Origin | None = None
    """For a fork: where it comes from. What it copied counts there: the figures below do not include it, except
    `rounds`, `end`, `done`, `claimed`, `changed` and `checked`."""
    source: ev.SessionSource | None = None
    """Where an imported session was found. None for any other, and in older records."""
    is_copy: bool = False
    """Whether a fork copied all of it, so that nothing of it is counted."""
    rounds: int = 0
    end: ResourceUse = ResourceUse()
    """Total usage, including `start`."""
    done: ResourceUse | None = None
    """Usage when the work was reported as done: at the first accepted completion, or at the end of a run that
    completed, unless it ended on a text that does not end the work (`text_kinds.LAST_WORDS`)."""
    claimed: ResourceUse | None = None
    """Usage when the model first said that it was done and did no more work after it (`anchors.DoneClaim`)."""
    changed: ResourceUse | None = None
    """Usage after the step with the last change of the work; None if nothing was changed (`anchors.py`)."""
    changed_by: str = ""
    """The tool that made that change."""
    checked: ResourceUse | None = None
    """Usage after the first check that passed since that change; None if there is none (`anchors.py`)."""
    checked_by: str = ""
    """The tool that ran the test, or the name of the gate or of the evaluator."""
    last_text: TextKind | None = None
    """Kind of the last text, if the last step had a text and no calls (`decision/text_kinds.py`)."""
    completions: int = 0
    """Number of completion calls, accepted or not."""
    rejections: int = 0
    repeats: int = 0
    """Highest number of times in a row that the same calls had the same results (`Repetitions`); 1 if nothing was
    repeated."""
    repeated_steps: int = 0
    """Number of steps that only repeated earlier calls with the same results."""
    nudges: int = 0
    reminders: int = 0
    compactions: int = 0
    questions: int = 0
    retries: int = 0
    """Number of attempts that failed or were retracted."""
    tools: dict[str, ToolStats] = {}
    saved: CutSavings = CutSavings()
    """Output that cuts of responses saved."""

    @property
    def used(self) -> ResourceUse:
        """Usage of this run alone."""
        return self.end.since(self.start)

    @property
    def errors(self) -> int:
        """Number of calls and requests that failed: the events that are errors (`is_error`)."""
        return self.retries + sum(tool.failed for tool in self.tools.values())

    @property
    def work(self) -> Work | None:
        """What is known about the quality of the work; a text that does not end the work does not report it as done."""
        work = derive_work(self.status, self.verdict)
        return work if work != "said" or is_last_word(self.last_text) else None

    def used_after(self, point: ResourceUse) -> ResourceUse:
        """Return the usage of this run alone after this point, which may be in what a fork copied."""
        return self.end.since(point if point.steps >= self.start.steps else self.start)

    @property
    def after_done(self) -> ResourceUse | None:
        """Usage after the work was reported as done; None if it never was."""
        return None if self.done is None else self.used_after(self.done)

    @property
    def wasted_steps(self) -> int:
        """Number of steps after the work was reported as done."""
        return 0 if self.done is None else self.used_after(self.done).steps

    @property
    def said(self) -> ResourceUse | None:
        """Usage when the run said that it was done, accepted or not: the earlier of `done` and `claimed`."""
        points = [point for point in (self.claimed, self.done) if point is not None]
        return min(points, key=lambda point: point.steps, default=None)

    @property
    def after_said(self) -> ResourceUse | None:
        """Usage after the run said that it was done; None if it never did."""
        return None if self.said is None else self.used_after(self.said)

    @property
    def after_change(self) -> ResourceUse | None:
        """Usage after the last change of the work; None if nothing was changed."""
        return None if self.changed is None else self.used_after(self.changed)

    @property
    def after_check(self) -> ResourceUse | None:
        """Usage after the work was checked; None if it was not."""
        return None if self.checked is None else self.used_after(self.checked)


def is_error(event: ev.Event, facts: Facts, judge: CallJudge) -> bool:
    """Return whether an event counts as an error wherever errors are counted: a call or an attempt at a request failed.

    The way a run ends is not an error, nor is what a limit cuts off, or a verdict on the work: a rejected completion, a
    failed evaluation. facts: those after the event. judge: the run's judge, which says whether a call failed.
    """
    if isinstance(event, ev.ToolCallResult):
        return judge.judge(event, facts).failed
    return isinstance(event, ev.AttemptFailed) and not event.beside and event.kind != "cancelled"


class SummaryBuilder:
    """Folds the events of one run, from its RUN_STARTED on, into a `RunSummary`.

    Feed it each event with the facts after it; event types outside `SUMMARY_EVENTS` change nothing.
    """

    def __init__(self, started: ev.RunStarted, facts: Facts) -> None:
        self._started = started
        self._facts = facts
        self._start = ResourceUse.of(facts)
        self._completion_tools = frozenset(tool.name for tool in started.tools if tool.kind == "completion")
        self._claim = DoneClaim(started)
        self.judge = CallJudge(started)
        """Judge of the run's calls."""
        self._anchors = WorkAnchors(started, self.judge)
        self._outcome: Outcome | None = None
        self._verdict: EvaluationVerdict = "not_run"
        self._reward: float | None = None
        self._accepted = False
        self._last_text: TextKind | None = None
        self._last_is_empty = False
        self._done: ResourceUse | None = None
        self._counts = dict.fromkeys(("repeats", "repeated_steps", "nudges", "reminders", "retries", "questions"), 0)
        self._completions = 0
        self._saved = CutSavings()
        self._running: dict[str, int] = {}
        self._tools: dict[str, list[int]] = {}
        self._copied = Facts()
        """The facts after what a fork copied from its origin; empty facts for any other run."""
        self._copying = started.origin is not None

    def feed(self, event: ev.Event, facts: Facts) -> None:
        """Add one event, with the facts after it."""
        if self._copying and not is_copied(event, self._started):
            self._leave_out_copies()
        self._facts = facts
        self._claim.feed(event, facts)
        self._anchors.feed(event, facts)
        change = _CHANGES.get(type(event))
        if change is not None:
            change(self, event)

    def _leave_out_copies(self) -> None:
        """Begin to count: what came before belongs to the origin of this fork."""
        self._copying, self._copied, self._start = False, self._facts, ResourceUse.of(self._facts)
        self._counts, self._completions, self._tools = dict.fromkeys(self._counts, 0), 0, {}
        self._saved = CutSavings()

    def build(self, facts: Facts) -> RunSummary:
        """Return the summary of the run so far. facts: those after its latest event."""
        is_copy = self._copying
        if is_copy:
            self._facts = facts
            self._leave_out_copies()
        started, outcome, claim = self._started, self._outcome, self._claim.facts
        limits = started.policy.limits
        end = ResourceUse.of(facts)
        anchors = self._anchors
        anchors.end_step(facts)
        task = task_opening(started.prompt or "")
        done = self._done
        if done is None and outcome is not None and outcome.status == "completed" and is_last_word(self._last_text):
            done = end
        return RunSummary(
            run_id=started.run_id,
            session_id=started.session_id,
            model=started.model,
            policy=started.policy.name,
            engine=started.engine,
            started_at=started.started_at,
            prompt=(started.prompt or "")[:PREVIEW_LENGTH],
            task=task.text,
            task_key=task.key,
            answer=outcome.answer[:PREVIEW_LENGTH] if outcome is not None else "",
            status=outcome.status if outcome is not None else None,
            stop_reason=outcome.stop_reason if outcome is not None else "",
            ending=self._ending(outcome) if outcome is not None else "",
            detail=outcome.detail[:PREVIEW_LENGTH] if outcome is not None else "",
            verdict=self._verdict,
            failed_calls=facts.failures.names,
            reward=self._reward,
            exceeded_limit=outcome.exceeded_limit if outcome is not None else False,
            allowed=0 if limits.steps is None else limits.steps + facts.grants.steps,
            soft=limits.soft_steps or 0,
            start=self._start,
            origin=started.origin,
            source=started.source,
            is_copy=is_copy,
            rounds=facts.rounds,
            end=end,
            done=done,
            claimed=_used(claim),
            changed=_used(anchors.changed),
            changed_by=anchors.changed_by,
            checked=_used(anchors.checked),
            checked_by=anchors.checked_by,
            last_text=self._last_text,
            completions=self._completions,
            rejections=facts.rejections - self._copied.rejections,
            repeats=self._counts["repeats"],
            repeated_steps=self._counts["repeated_steps"],
            nudges=self._counts["nudges"],
            reminders=self._counts["reminders"],
            compactions=facts.compactions - self._copied.compactions,
            questions=self._counts["questions"],
            retries=self._counts["retries"],
            tools={
                name: ToolStats(calls=calls, failed=failed, handed_back=back, not_run=not_run, ms=ms)
                for name, (calls, failed, back, not_run, ms) in self._tools.items()
            },
            saved=self._saved,
        )

    def _ending(self, outcome: Outcome) -> str:
        return ending_key(
            outcome.stop_reason,
            foreign=is_foreign(self._started.engine),
            last_text=self._last_text,
            last_is_empty=self._last_is_empty,
            questions=outcome.questions,
        )

    def _response(self, event: ev.ResponseFinished) -> None:
        self._completions += sum(call.name in self._completion_tools for call in event.message.calls)
        self._saved += saved_by_cut(event, self._facts.prices.get(event.model))

    def _execution_started(self, event: ev.ToolExecutionStarted) -> None:
        self._running[event.call_id] = event.t

    def _result(self, event: ev.ToolCallResult) -> None:
        figures = self._tools.setdefault(event.name, [0, 0, 0, 0, 0])
        figures[0] += 1
        column = 1 if is_error(event, self._facts, self.judge) else _COLUMNS.get(event.status)
        if column is not None:
            figures[column] += 1
        figures[4] += event.t - self._running.pop(event.call_id, event.t)

    def _step_finished(self, event: ev.StepFinished) -> None:
        if self._accepted and self._done is None:
            self._done = ResourceUse.of(self._facts)
        if not self._facts.closing:
            self._last_text = self._facts.text_kind
            self._last_is_empty = self._facts.shape == "empty"
        repeats = self._facts.repeats
        self._counts["repeats"] = max(self._counts["repeats"], repeats)
        self._counts["repeated_steps"] += repeats > 1

    def _completion_accepted(self, event: ev.CompletionAccepted) -> None:
        self._accepted = True

    def _message_added(self, event: ev.MessageAdded) -> None:
        self._counts["nudges"] += event.origin == "nudge"
        self._counts["reminders"] += event.origin == "reminder"

    def _question_asked(self, event: ev.QuestionAsked) -> None:
        self._counts["questions"] += 1

    def _attempt_failed(self, event: ev.AttemptFailed) -> None:
        self._counts["retries"] += is_error(event, self._facts, self.judge)

    def _evaluated(self, event: ev.EvaluationFinished) -> None:
        self._verdict = event.verdict
        reward = event.details.get("reward")
        self._reward = float(reward) if isinstance(reward, int | float) else None

    def _finished(self, event: ev.RunFinished) -> None:
        self._outcome = event.outcome
        self._verdict = event.outcome.verdict


def _used(facts: Facts | None) -> ResourceUse | None:
    return None if facts is None else ResourceUse.of(facts)


_COLUMNS = {
    "rejected": 2,
    "skipped": 3,
    "cancelled": 3,
    "unanswered": 3,
    "denied": 3,
    "unknown": 3,
    "truncated": 3,
}
_CHANGES: dict[type, Callable[[SummaryBuilder, Any], None]] = {
    ev.ResponseFinished: SummaryBuilder._response,
    ev.ToolExecutionStarted: SummaryBuilder._execution_started,
    ev.ToolCallResult: SummaryBuilder._result,
    ev.StepFinished: SummaryBuilder._step_finished,
    ev.CompletionAccepted: SummaryBuilder._completion_accepted,
    ev.MessageAdded: SummaryBuilder._message_added,
    ev.QuestionAsked: SummaryBuilder._question_asked,
    ev.AttemptFailed: SummaryBuilder._attempt_failed,
    ev.EvaluationFinished: SummaryBuilder._evaluated,
    ev.RunFinished: SummaryBuilder._finished,
}
SUMMARY_EVENTS = frozenset(_CHANGES) | ANCHOR_EVENTS
"""Event types that change a summary other than through the facts."""
