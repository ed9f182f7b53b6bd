"""Where an interrupted run resumes: what its record holds, so that nothing is done twice.

Before the engine calls a user's function or adds a message, it looks for the recorded event of that action
(`take_recorded`). Each event since the latest round, step or decision began can be taken once, in order.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from .decision import Decision, Event, Facts, Price, Question, ToolSpec
from .decision.confirmation import Reply
from .decision.events import (
    AttemptFailed,
    CompletionAccepted,
    CompletionRejected,
    ContextCompacted,
    DecisionMade,
    EvaluationFinished,
    MessageAdded,
    PhaseReported,
    QuestionAnswered,
    QuestionAsked,
    ResponseFinished,
    RoundStarted,
    RunResumed,
    RunStarted,
    StageFinished,
    StepFinished,
    StepStarted,
    ThoughtRecorded,
    ToolCallEnd,
    ToolCallResult,
    ToolExecutionStarted,
    VerdictGiven,
)
from .records.qualified_names import current_name

OUR_REDACTION = "endstop.records.redaction:Redaction"
REDACTION_MARK = "[redacted:"
"""The beginning of each text that endstop's own redaction puts in. What another redaction puts in is unknown."""
CALL_CONSEQUENCES = (CompletionAccepted, CompletionRejected, PhaseReported, QuestionAsked, ThoughtRecorded)
"""Events about a call that may precede its result in the record."""
E = TypeVar("E", bound=Event)


@dataclass(slots=True)
class ResumePoint:
    """The state of a run whose record has no end."""

    facts: Facts
    seq: int = 0
    t: int = 0
    prompt: str | None = None
    started_at: str = ""
    prices: dict[str, Price] = field(default_factory=dict)
    """The prices of the run's models, fixed when it began."""
    tools: tuple[ToolSpec, ...] = ()
    """The tools that the run offers, fixed when it began."""
    redaction: tuple[str, ...] = ()
    """Qualified names of the functions that redacted the record."""
    partial_step: PartialStep | None = None
    """The step that was in progress; None between two steps."""
    in_round: bool = False
    """Whether a round had begun and its decision was still to be made."""
    decision: Decision | None = None
    """The latest decision, if no round has begun since."""
    pending: list[Event] = field(default_factory=list)
    """Events since the latest round, step or decision began that `take_recorded` has not returned yet."""
    ephemeral: list[str] = field(default_factory=list)
    """Texts of reminders after which no response is recorded: the next request must contain them."""
    skip_next_step: bool = False
    """Whether a handler asked for no next-step prompt."""
    questions: tuple[Question, ...] = ()
    """The questions of the paused run that this run continues."""
    answered: tuple[Question, str, Reply | None] | None = None
    """The question that the user answered, the answer's text, and how a reply to a confirmation was understood.

    None once the acceptance or rejection that follows is recorded."""

    @classmethod
    def at(cls, events: Iterable[Event], facts: Facts) -> ResumePoint:
        """The resume point after these events."""
        here = cls(facts)
        for event in events:
            here.seq, here.t = event.seq, event.t
            if isinstance(event, VerdictGiven | EvaluationFinished):
                event = replace(event, name=current_name(event.name))
            here._feed(event)
        return here

    def _feed(self, event: Event) -> None:
        if self.partial_step is not None:
            self.partial_step.feed(event)
        match event:
            case RunStarted():
                self.prompt, self.started_at, self.prices = event.prompt, event.started_at, event.prices
                self.tools, self.redaction = event.tools, tuple(map(current_name, event.functions.get("redaction", ())))
                self.questions = event.carried.questions if event.carried is not None else ()
            case QuestionAnswered(call_id=id, text=text, says=says):
                self.answered = next(((q, text, says) for q in self.questions if q.call_id == id), None)
            case RunResumed(interrupted_step=int()):
                self.partial_step = None
            case RoundStarted():
                self.in_round, self.decision, self.pending = True, None, []
            case StepStarted():
                self.partial_step, self.pending = PartialStep(event.step), []
            case DecisionMade():
                self.in_round, self.decision, self.pending = False, event.decision, []
            case CompletionAccepted():
                self.answered = None
            case CompletionRejected():
                self.answered = None
                self.pending.append(event)
            case StepFinished():
                self.partial_step, self.pending = None, [event]
            case MessageAdded() | VerdictGiven() | ResponseFinished():
                self._feed_pending(event)
            case ContextCompacted() | PhaseReported() | StageFinished() | EvaluationFinished():
                self.pending.append(event)
            case _:
                pass

    def _feed_pending(self, event: Event) -> None:
        self.pending.append(event)
        match event:
            case MessageAdded(ephemeral=True, origin="reminder"):
                self.ephemeral.append(event.text)
            case ResponseFinished():
                self.ephemeral = []
            case VerdictGiven(role="handler", said="prepared"):
                wanted = msgspec.json.decode(event.detail).get("next_step", True)
                self.skip_next_step = self.skip_next_step or not wanted
            case _:
                pass

    def take_recorded(self, kind: type[E], **fields: object) -> E | None:
        """Remove and return the first pending event of this kind with these field values; None if there is none."""
        for number, event in enumerate(self.pending):
            if isinstance(event, kind) and all(getattr(event, name) == value for name, value in fields.items()):
                del self.pending[number]
                return event
        return None

    def may_be_redacted(self, arguments: str) -> bool:
        """Whether the recorded arguments may differ from those that the model wrote."""
        return bool(self.redaction) and (REDACTION_MARK in arguments or self.redaction != (OUR_REDACTION,))

    @property
    def closed(self) -> bool:
        """Whether the closing step is already recorded."""
        return self.decision is not None and any(isinstance(e, ResponseFinished | StepFinished) for e in self.pending)


@dataclass(slots=True)
class PartialStep:
    """A step that was in progress when the process died.

    If its response is complete, the step is resumed, and each call continues from where it was.
    """

    step: int
    response: ResponseFinished | None = None
    """None if it was not complete; it is then requested again."""
    complete_calls: list[str] = field(default_factory=list)
    """Ids of the calls whose arguments were complete."""
    started_calls: set[str] = field(default_factory=set)
    """Ids of the calls that had started to run."""
    results: list[ToolCallResult] = field(default_factory=list)
    call_events: dict[str, Event] = field(default_factory=dict)
    """The event of `CALL_CONSEQUENCES` that each call had led to, by call id."""

    def feed(self, event: Event) -> None:
        """Process one event of the step."""
        match event:
            case ToolCallEnd():
                self.complete_calls.append(event.call_id)
            case AttemptFailed(beside=False):
                self.complete_calls.clear()
                self.results.clear()
            case ToolExecutionStarted():
                self.started_calls.add(event.call_id)
            case ToolCallResult():
                self.results.append(event)
            case ResponseFinished():
                self.response = event
                if not self.complete_calls:  # no stream was recorded
                    broken_off = {*event.without_arguments, event.truncated}
                    self.complete_calls = [call.id for call in event.message.calls if call.id not in broken_off]
            case _ if isinstance(event, CALL_CONSEQUENCES):
                self.call_events[event.call_id] = event
            case _:
                pass
