"""Where a killed run stands: what of it had happened, so that what is finished is not done again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from ..decision import AssistantMessage, Decision, Event, Facts
from ..decision.events import (
    CompletionRejected,
    ContextCompacted,
    DecisionMade,
    MessageAdded,
    ResponseFinished,
    RoundStarted,
    RunResumed,
    RunStarted,
    StepFinished,
    StepStarted,
    VerdictGiven,
)


@dataclass(slots=True)
class Interrupted:
    """A run without an end: what was known, and how far it had come."""

    facts: Facts
    seq: int = 0
    t: int = 0
    prompt: str | None = None
    started_at: str = ""
    step: int | None = None
    """The step that was under way."""
    message: AssistantMessage | None = None
    """The response of that step, if it had come whole."""
    in_round: bool = False
    """Whether a round had begun and its decision was not made."""
    decision: Decision | None = None
    """What had been decided, if no round has begun since."""
    since: list[Event] = field(default_factory=list)
    """What was done since the latest round, step or decision began."""
    ephemeral: list[str] = field(default_factory=list)
    """Reminders that no response has followed yet."""
    rejected: dict[str, str] = field(default_factory=dict)
    """Why completions were handed back, by call id: one of them may not have its result yet."""
    skip_next_step: bool = False
    """A handler had asked for no next-step prompt."""

    @classmethod
    def at(cls, events: Iterable[Event], facts: Facts) -> Interrupted:
        """Where these events end."""
        here = cls(facts)
        for event in events:
            here.seq, here.t = event.seq, event.t
            here._take(event)
        return here

    def _take(self, event: Event) -> None:
        match event:
            case RunStarted():
                self.prompt, self.started_at = event.prompt, event.started_at
            case RunResumed():
                self.step = None
            case RoundStarted():
                self.in_round, self.decision, self.since = True, None, []
            case StepStarted():
                self.step, self.message, self.since = event.step, None, []
            case DecisionMade():
                self.in_round, self.decision, self.since = False, event.decision, []
            case CompletionRejected():
                self.rejected[event.call_id] = event.reason
            case MessageAdded() | VerdictGiven() | ContextCompacted() | ResponseFinished() | StepFinished():
                self._note(event)
            case _:
                pass

    def _note(self, event: Event) -> None:
        self.since.append(event)
        match event:
            case MessageAdded(ephemeral=True, origin="reminder"):
                self.ephemeral.append(event.text)
            case ResponseFinished():
                self.message, self.ephemeral = event.message, []
            case StepFinished():
                self.step = None
            case VerdictGiven(role="handler", said="prepared"):
                wanted = msgspec.json.decode(event.detail).get("next_step", True)
                self.skip_next_step = self.skip_next_step or not wanted
            case _:
                pass

    def has(self, origin: str) -> bool:
        """Whether a message of this origin was added already."""
        return any(isinstance(event, MessageAdded) and event.origin == origin for event in self.since)

    def heard(self, role: str) -> list[VerdictGiven]:
        """What functions of this role have said already."""
        return [event for event in self.since if isinstance(event, VerdictGiven) and event.role == role]

    @property
    def compacted(self) -> bool:
        """Whether the context was made smaller already."""
        return any(isinstance(event, ContextCompacted) for event in self.since)

    @property
    def closed(self) -> bool:
        """Whether the closing step was made already."""
        return self.decision is not None and any(isinstance(e, ResponseFinished | StepFinished) for e in self.since)
