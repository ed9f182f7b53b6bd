"""From events to what is worth telling people: what the live view and the plain one have in common.

A view brings the few ways of telling (`Teller`); the story knows which event is told how. An event that is in
neither `_TOLD` nor `UNTOLD` is one that somebody forgot, and a test finds it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from ...decision import Decision, Event, Outcome, Usage
from ...decision import events as ev
from ...decision.messages import ResultStatus, ToolKind
from ..bus import Lagged
from .clean import brief, one_line
from .phrases import Ending, ending_of, failure_words

Kind = Literal["text", "reasoning"]
Shade = Literal["quiet", "loop", "good", "warning", "bad", "user"]
NOTE = 400
"""Characters of a note."""


@dataclass(slots=True)
class Call:
    """A call and what became of it."""

    name: str
    kind: ToolKind = "ordinary"
    written: list[str] = field(default_factory=list)
    running: bool = False
    began: int = 0
    ended: int = 0
    result: str = ""
    status: ResultStatus = "ok"

    @property
    def arguments(self) -> str:
        """What the model wrote so far."""
        return "".join(self.written)


class Teller(Protocol):
    """The ways in which a view tells things."""

    def begin(self, started: ev.RunStarted) -> None:
        """A run begins."""
        ...

    def step(self, number: int, closing: bool) -> None:
        """A step begins."""
        ...

    def write(self, kind: Kind, delta: str) -> None:
        """The model writes."""
        ...

    def end_writing(self) -> None:
        """What the model wrote is whole, or will never be."""
        ...

    def call(self, call: Call) -> None:
        """An ordinary call, or one that went wrong, has its result."""
        ...

    def thought(self, text: str) -> None:
        """The model called a tool to think."""
        ...

    def phase(self, percentage: int, summary: str, next_phase: str | None) -> None:
        """A part of the work is done."""
        ...

    def note(self, text: str, shade: Shade) -> None:
        """Something in a line."""
        ...

    def decided(self, round: int, decision: Decision) -> None:
        """The loop's decision, for those who want it explained."""
        ...

    def end(self, ending: Ending, outcome: Outcome) -> None:
        """The run is over."""
        ...


class Story:
    """What has happened so far, and the telling of it."""

    def __init__(self, teller: Teller, *, explain: bool) -> None:
        self.calls: dict[str, Call] = {}
        """Calls without a result yet, by id."""
        self.doing = "starting"
        """What is going on, in a word or two."""
        self.step = 0
        self.allowed = 0
        self.usage = Usage()
        self.actions: list[str] = []
        """Calls that may have changed something, in brief."""
        self.t = 0
        """Milliseconds since the run began."""
        self._teller = teller
        self._explain = explain
        self._kinds: dict[str, ToolKind] = {}
        self._reading: set[str] = set()
        self._failure: ev.AttemptFailed | None = None
        self._cause = ""

    def take(self, event: Event | Lagged) -> None:
        """Tell one more event."""
        if isinstance(event, Lagged):
            self._teller.note(f"… {event.missed:,} events were not shown: this view was too slow", "quiet")
            return
        self.t = event.t
        tell = _TOLD.get(type(event))
        if tell is not None:
            tell(self, event)

    # ---- the run and its steps

    def _run_started(self, event: ev.RunStarted) -> None:
        carried = event.carried or ev.Carried()
        self.calls.clear()
        self.actions.clear()
        self.step, self.usage = carried.steps, carried.usage
        self.allowed = event.policy.limits.hard_steps
        self._kinds = {tool.name: tool.kind for tool in event.tools}
        self._reading = {tool.name for tool in event.tools if tool.reads}
        self._failure, self._cause = None, ""
        self._teller.begin(event)

    def _run_resumed(self, event: ev.RunResumed) -> None:
        self._teller.note("the run goes on where its process was killed", "quiet")

    def _message_added(self, event: ev.MessageAdded) -> None:
        if event.origin != "user":
            self._note(f"▸ {event.origin.replace('_', ' ')}", event.text, "loop")

    def _step_started(self, event: ev.StepStarted) -> None:
        self._teller.end_writing()
        self.step = event.step
        self._teller.step(event.step, event.closing)

    def _attempt_started(self, event: ev.AttemptStarted) -> None:
        self.doing = "waiting for the model"
        if self._failure is not None:  # one that was not the end
            self._note("✘ the request failed", failure_words(self._failure), "bad")
            self._failure = None

    def _attempt_failed(self, event: ev.AttemptFailed) -> None:
        self._teller.end_writing()
        self.calls.clear()
        self._failure = event

    def _attempt_retracted(self, event: ev.AttemptRetracted) -> None:
        self._teller.end_writing()
        self.calls.clear()
        self._teller.note(f"↺ attempt {event.attempt} is void; another one takes its place", "warning")

    def _response_finished(self, event: ev.ResponseFinished) -> None:
        self._teller.end_writing()
        self.usage += event.usage
        self.doing = "running tools" if event.message.calls else "deciding"

    def _decision_made(self, event: ev.DecisionMade) -> None:
        if self._explain:
            self._teller.decided(event.round, event.decision)

    def _cancel_requested(self, event: ev.CancelRequested) -> None:
        self._cause = event.cause

    def _run_finished(self, event: ev.RunFinished) -> None:
        self._teller.end_writing()
        self.calls.clear()
        self._teller.end(ending_of(event.outcome, self._failure, self._cause), event.outcome)

    # ---- the response

    def _text(self, event: ev.TextMessageContent) -> None:
        self.doing = "writing"
        self._teller.write("text", event.delta)

    def _reasoning(self, event: ev.ReasoningMessageContent) -> None:
        if event.delta:
            self.doing = "thinking"
            self._teller.write("reasoning", event.delta)

    def _call_started(self, event: ev.ToolCallStart) -> None:
        self._teller.end_writing()
        self.calls[event.call_id] = Call(event.name, self._kinds.get(event.name, "ordinary"))
        self.doing = "calling"

    def _call_arguments(self, event: ev.ToolCallArgs) -> None:
        if event.call_id in self.calls:
            self.calls[event.call_id].written.append(event.delta)

    def _provider_tool(self, event: ev.ProviderToolReported) -> None:
        self._note(f"◌ {event.name}", "run by the provider itself", "quiet")

    # ---- what became of calls

    def _execution_started(self, event: ev.ToolExecutionStarted) -> None:
        if (call := self.calls.get(event.call_id)) is not None:
            call.running, call.began = True, event.t

    def _result(self, event: ev.ToolCallResult) -> None:
        call = self.calls.pop(event.call_id, None) or Call(event.name, self._kinds.get(event.name, "ordinary"))
        call.ended, call.result, call.status = event.t, event.content, event.status
        if call.kind != "ordinary" and call.status in ("ok", "rejected", "unanswered"):
            return  # told as what it means: a completion, a phase, a thought, a question
        if call.kind == "ordinary" and call.running and call.name not in self._reading:
            self.actions.append(brief(call.name, call.arguments) + ("" if call.status == "ok" else f" ({call.status})"))
        self._teller.end_writing()
        self._teller.call(call)

    def _thought(self, event: ev.ThoughtRecorded) -> None:
        self._teller.end_writing()
        self._teller.thought(event.text)

    def _rejected(self, event: ev.CompletionRejected) -> None:
        self._note("↩ not accepted as complete", event.reason, "warning")

    def _phase(self, event: ev.PhaseReported) -> None:
        self._teller.phase(event.percentage, event.summary, event.next_phase)

    def _question_asked(self, event: ev.QuestionAsked) -> None:
        self.calls.pop(event.call_id, None)
        self.doing = "about to ask you"

    def _question_answered(self, event: ev.QuestionAnswered) -> None:
        self._note("▸ your answer", event.text, "user")

    # ---- all else

    def _verdict(self, event: ev.VerdictGiven) -> None:
        if self._explain:
            self._note(f"{event.role} {event.name}", event.said, "quiet")

    def _compacted(self, event: ev.ContextCompacted) -> None:
        sizes = f"{event.before_tokens:,} tokens became {event.after_tokens:,}"
        self._note("▸ context compacted", sizes, "loop")

    def _stage(self, event: ev.StageFinished) -> None:
        if event.status != "ok":
            self._note(f"{event.stage}: {event.status}", event.detail, "warning")

    def _evaluated(self, event: ev.EvaluationFinished) -> None:
        self._note("evaluation", event.verdict, "good" if event.verdict == "passed" else "bad")

    def _note(self, head: str, text: str, shade: Shade) -> None:
        self._teller.note(one_line(f"{head}: {text}" if text else head, NOTE), shade)


_TOLD: dict[type, Callable[[Story, Any], None]] = {
    ev.RunStarted: Story._run_started,
    ev.RunResumed: Story._run_resumed,
    ev.MessageAdded: Story._message_added,
    ev.StepStarted: Story._step_started,
    ev.AttemptStarted: Story._attempt_started,
    ev.AttemptFailed: Story._attempt_failed,
    ev.AttemptRetracted: Story._attempt_retracted,
    ev.ResponseFinished: Story._response_finished,
    ev.DecisionMade: Story._decision_made,
    ev.CancelRequested: Story._cancel_requested,
    ev.RunFinished: Story._run_finished,
    ev.TextMessageContent: Story._text,
    ev.ReasoningMessageContent: Story._reasoning,
    ev.ToolCallStart: Story._call_started,
    ev.ToolCallArgs: Story._call_arguments,
    ev.ProviderToolReported: Story._provider_tool,
    ev.ToolExecutionStarted: Story._execution_started,
    ev.ToolCallResult: Story._result,
    ev.ThoughtRecorded: Story._thought,
    ev.CompletionRejected: Story._rejected,
    ev.PhaseReported: Story._phase,
    ev.QuestionAsked: Story._question_asked,
    ev.QuestionAnswered: Story._question_answered,
    ev.VerdictGiven: Story._verdict,
    ev.ContextCompacted: Story._compacted,
    ev.StageFinished: Story._stage,
    ev.EvaluationFinished: Story._evaluated,
}

UNTOLD = frozenset(
    {
        ev.RoundStarted,  # how the loop is built, not what it does
        ev.StepFinished,
        ev.ToolCallEnd,  # the result tells it
        ev.FinishReported,
        ev.UsageReported,
        ev.CompletionAccepted,  # the end of the run tells it
    }
)
TOLD = frozenset(_TOLD)
