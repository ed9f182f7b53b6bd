"""State of a session after its runs so far. Each run begins from it and changes it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from .answers import calls_of
from .decision import Event, Facts, Question, ToolSpec, Transcript, Usage
from .decision.events import Carried, ResponseFinished, ToolCallStart
from .decision.facts import add_usage, usage_of
from .decision.run_origin import is_foreign
from .message_history import call_ids
from .records.format import DrainedChunk

if TYPE_CHECKING:
    from .records.reader import RecordedRun
    from .resume_point import ResumePoint


@dataclass(slots=True)
class SessionState:
    """State of a session between two runs."""

    transcript: Transcript = field(default_factory=Transcript)
    questions: tuple[Question, ...] = ()
    """The open questions of a paused run."""
    taken_ids: set[str] = field(default_factory=set)
    """The call ids used so far."""
    latest: Facts | None = None
    """The facts at the end of the latest run; None if the next run does not continue it."""
    before: Carried = field(default_factory=Carried)
    """Usage of all runs before the latest one."""
    end: tuple[str, int] | None = None
    """The id of the latest run that has ended or was loaded, and the number of its last event."""
    interrupted: ResumePoint | None = None
    """Where the latest loaded run stopped, if it has no end. The transcript is then that of its last decision."""
    fork_lines: Sequence[Event | DrainedChunk] = ()
    """The copied lines that the record of a fork begins with; empty once the fork has begun, and in other sessions."""
    functions: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Names of the hooks of the latest loaded run, by role. To continue the run, each role needs a hook again."""
    tools: Sequence[ToolSpec] = ()
    """The tools that the latest loaded run offered its model; checked in the same way."""
    redacted_calls: Collection[str] = ()
    """Ids of calls that wait for approval and were loaded in redacted form."""
    waiting_subagents: dict[str, Any] = field(default_factory=dict)
    """Sessions of sub-agents that this process has run and that wait for the user's answers, by id."""

    @property
    def usage(self) -> Usage:
        """The usage of all runs that have ended."""
        return self.before.usage if self.latest is None else add_usage(self.before, usage_of(self.latest)).usage

    def copy(self) -> SessionState:
        """Return a copy that changes independently of this state."""
        return replace(self, transcript=self.transcript.copy(), taken_ids=set(self.taken_ids))

    def load(self, run: RecordedRun) -> None:
        """Load a recorded run."""
        from .recorded_round import may_be_redacted
        from .resume_point import ResumePoint

        self.pass_over()
        self.taken_ids.update(_started_calls(run), _responded_calls(run), call_ids(run.started.history))
        self.end_usage(continues=run.started.continues is not None)
        self.functions, self.tools = run.started.functions, run.started.tools
        point = ResumePoint.at(run.events)
        for event in point.before:
            self.transcript.feed(event)
        self.interrupted = point
        if run.finished is not None:
            self.pass_over()
        self.remember(point.latest, (run.started.run_id, run.events[-1].seq))
        redaction = run.started.functions.get("redaction", ())
        waiting = (*self.transcript.waiting_calls, *calls_of(self.questions))
        self.redacted_calls = {call.id for call in waiting if may_be_redacted(call, redaction)}

    def pass_over(self) -> None:
        """Take the rest of an interrupted run into the transcript, because it is not resumed."""
        if self.interrupted is not None:
            for event in self.interrupted.events:
                self.transcript.feed(event)
            self.interrupted = None

    def end_usage(self, *, continues: bool) -> None:
        """Add the latest run's usage to that of all earlier runs, unless the next run continues it."""
        if self.latest is not None and not continues:
            self.before, self.latest = add_usage(self.before, usage_of(self.latest)), None

    def remember(self, facts: Facts, end: tuple[str, int]) -> None:
        """Keep the facts with which a run ended. end: the field of that name."""
        self.latest, self.questions, self.end = facts, facts.questions, end

    def begin_as_recorded(self, run: RecordedRun) -> None:
        """Begin the next run as the record of another program's loop says: it may know less of the earlier runs.

        Their usage is what the run says it is, and the run's calls may reuse ids of earlier calls.
        """
        if not is_foreign(run.started.engine):
            return
        self.taken_ids.difference_update(_started_calls(run), _responded_calls(run))
        self.before = run.started.before or Carried()
        if run.started.continues is None:
            self.latest = None


def _started_calls(run: RecordedRun) -> set[str]:
    return {event.call_id for event in run.events if isinstance(event, ToolCallStart)}


def _responded_calls(run: RecordedRun) -> set[str]:
    """Return the ids of calls in the responses of a run. An imported run has no stream, so its calls are only there."""
    return {call.id for event in run.events if isinstance(event, ResponseFinished) for call in event.message.calls}
