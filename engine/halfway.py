"""A step that was under way when its process was killed: what of it had happened.

If its response had come whole, the step is entered again, and each of its calls goes on where it stood.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .decision import Event
from .decision.events import (
    AttemptFailed,
    CompletionAccepted,
    CompletionRejected,
    PhaseReported,
    QuestionAsked,
    ResponseFinished,
    ThoughtRecorded,
    ToolCallEnd,
    ToolCallResult,
    ToolExecutionStarted,
)

MEANINGS = (CompletionAccepted, CompletionRejected, PhaseReported, QuestionAsked, ThoughtRecorded)
"""What a call may have come to before its result was written."""


@dataclass(slots=True)
class Halfway:
    """One step, as far as it had come."""

    step: int
    response: ResponseFinished | None = None
    """None if it had not come whole: it is asked for again."""
    whole: list[str] = field(default_factory=list)
    """The calls that had come whole, by id."""
    begun: set[str] = field(default_factory=set)
    """Those that had begun to run."""
    results: list[ToolCallResult] = field(default_factory=list)
    came_to: dict[str, Event] = field(default_factory=dict)
    """What each call had come to, of `MEANINGS`, by call id."""

    def take(self, event: Event) -> None:
        """One more event of the step."""
        match event:
            case ToolCallEnd():
                self.whole.append(event.call_id)
            case AttemptFailed(beside=False):
                self.whole.clear()
                self.results.clear()
            case ToolExecutionStarted():
                self.begun.add(event.call_id)
            case ToolCallResult():
                self.results.append(event)
            case ResponseFinished():
                self.response = event
                if not self.whole:  # no stream was recorded
                    broken_off = {*event.without_arguments, event.truncated}
                    self.whole = [call.id for call in event.message.calls if call.id not in broken_off]
            case _ if isinstance(event, MEANINGS):
                self.came_to[event.call_id] = event
            case _:
                pass
