"""Timeline of a session: what happened in each step of its runs, in bounded memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Literal, get_args

from msgspec import Struct

from ..decision import Event, Facts, fold
from ..decision import events as ev
from ..records.scan import scan
from .summary import RunSummary, SummaryBuilder, is_error

STEPS_PER_END = 150
"""Number of steps kept from each end of a run; those in between are only counted."""
MAX_CALLS = 8
"""Maximum number of calls kept per step; further ones are only counted."""
MAX_NAME_LENGTH = 60
"""Number of characters kept of a tool's name."""
MAX_RUNS = 20
"""Maximum number of runs kept per session, the first ones."""

StepMark = Literal["completion", "rejected", "error", "question", "calls", "text", "closing", "empty"]
"""What happened in a step. If several apply, the first one counts: a completion was accepted; a completion was
rejected; a call or the request failed; the user was asked; tools were called; plain text; the closing step after a
limit; nothing."""
Intervention = Literal["nudge", "reminder", "compaction", "retry", "resumed", "user"]
"""Something that the loop or the user did before a step, or a request that was retried in it."""


class StepCall(Struct, frozen=True, array_like=True):
    """A call and the status of its result (`decision.messages.ResultStatus`)."""

    name: str
    status: str
    id: str = ""
    failed: bool = False
    """Whether it counts as an error, whatever its status (`summary.is_error`)."""


class StepCell(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One step of a run, drawn as a cell of the timeline."""

    step: int
    number: int
    """The number in STEP_STARTED. A closing step's is one higher than the last step's; its `step` is that of the last
    step."""
    mark: StepMark
    calls: tuple[StepCall, ...] = ()
    more_calls: int = 0
    said: tuple[Intervention, ...] = ()
    repeated: bool = False
    """Whether it only repeated calls with the same results."""
    input_tokens: int = 0
    output_tokens: int = 0
    estimated: bool = False
    ms: int = 0


class RunTimeline(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One run, step by step."""

    digest: RunSummary
    number: int
    """Number of the run in its record, from 1; copies of a fork's origin are included."""
    cells: tuple[StepCell, ...]
    left_out: int = 0
    """Number of steps in the middle that were not kept."""
    left_out_after: int = 0
    """Number of cells in `cells` that come before the steps that were left out."""


class SessionTimeline(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The runs of one record."""

    runs: tuple[RunTimeline, ...]
    more_runs: int = 0


def record_timeline(path: Path) -> SessionTimeline:
    """Return the timeline of a record. Raises WrongUse if the file is not a record."""
    return build_timeline(scan(path))


def build_timeline(events: Iterable[Event]) -> SessionTimeline:
    """Return the timeline of the events of one record, with or without stream parts; without what a fork copied."""
    runs: list[RunTimeline] = []
    many = started = 0
    facts = Facts()
    builder: TimelineBuilder | None = None

    def end() -> None:
        nonlocal many
        if builder is None or (made := builder.timeline(facts)).digest.is_copy:
            return
        many += 1
        if many <= MAX_RUNS:
            runs.append(made)

    for event in events:
        if isinstance(event, ev.RunStarted):
            end()
            started += 1
            facts = fold(Facts(), event)
            builder = TimelineBuilder(event, facts, started)
        elif builder is not None:
            facts = fold(facts, event)
            builder.feed(event, facts)
    end()
    return SessionTimeline(runs=tuple(runs), more_runs=many - len(runs))


class TimelineBuilder:
    """Builds the timeline of one run."""

    def __init__(self, started: ev.RunStarted, facts: Facts, number: int) -> None:
        self._number = number
        self._digester = SummaryBuilder(started, facts)
        self._started = started
        self._first: list[StepCell] = []
        self._last: deque[StepCell] = deque(maxlen=STEPS_PER_END)
        self._cells = 0
        self._interventions: list[Intervention] = []
        self._open = False
        self._begin(0, 0, 0)

    def feed(self, event: Event, facts: Facts) -> None:
        """Add an event. facts: the facts of the run after it."""
        self._digester.feed(event, facts)
        change = _CHANGES.get(type(event))
        if change is not None and not ev.is_copied(event, self._started):
            change(self, event, facts)

    def timeline(self, facts: Facts) -> RunTimeline:
        """Return the timeline so far."""
        self._close(facts)
        kept = len(self._first) + len(self._last)
        return RunTimeline(
            digest=self._digester.build(facts),
            number=self._number,
            cells=(*self._first, *self._last),
            left_out=self._cells - kept,
            left_out_after=len(self._first) if self._cells > kept else 0,
        )

    def _begin(self, step: int, number: int, t: int) -> None:
        self._step, self._step_number, self._began, self._ended = step, number, t, t
        self._marks: set[StepMark] = set()
        self._calls: list[StepCall] = []
        self._more = 0
        self._tokens = (0, 0, False)
        self._repeated = self._finished = False

    def _close(self, facts: Facts) -> None:
        """Turn the current step into a cell."""
        if not self._open:
            return
        self._open = False
        cell = StepCell(
            step=self._step,
            number=self._step_number,
            mark=next((mark for mark in get_args(StepMark) if mark in self._marks), "empty"),
            calls=tuple(self._calls),
            more_calls=self._more,
            said=tuple(dict.fromkeys(self._interventions)),
            repeated=self._repeated,
            input_tokens=self._tokens[0],
            output_tokens=self._tokens[1],
            estimated=self._tokens[2],
            ms=max(0, self._ended - self._began),
        )
        self._interventions.clear()
        self._cells += 1
        if len(self._first) < STEPS_PER_END:
            self._first.append(cell)
        else:
            self._last.append(cell)

    # ---- events

    def _step_started(self, event: ev.StepStarted, facts: Facts) -> None:
        self._close(facts)
        self._begin(facts.steps, event.step, event.t)
        self._open = True
        if event.closing:
            self._marks.add("closing")

    def _response(self, event: ev.ResponseFinished, facts: Facts) -> None:
        usage = event.usage
        self._tokens = (usage.input_tokens, usage.output_tokens, usage.estimated)
        self._ended = event.t
        self._marks.discard("error")  # the failed attempt was retried
        if event.message.calls:
            self._marks.add("calls")
        elif event.message.text.strip():
            self._marks.add("text")

    def _failed(self, event: ev.AttemptFailed, facts: Facts) -> None:
        if is_error(event, facts, self._digester.judge):
            self._interventions.append("retry")
            self._marks.add("error")
            self._ended = event.t

    def _result(self, event: ev.ToolCallResult, facts: Facts) -> None:
        self._ended = event.t
        failed = is_error(event, facts, self._digester.judge)
        if failed:
            self._marks.add("error")
        if len(self._calls) < MAX_CALLS:
            self._calls.append(StepCall(event.name[:MAX_NAME_LENGTH], event.status, event.call_id, failed))
        else:
            self._more += 1

    def _accepted(self, event: ev.CompletionAccepted, facts: Facts) -> None:
        self._marks.add("completion")

    def _rejected(self, event: ev.CompletionRejected, facts: Facts) -> None:
        self._marks.add("rejected")

    def _asked(self, event: ev.QuestionAsked, facts: Facts) -> None:
        self._marks.add("question")

    def _step_finished(self, event: ev.StepFinished, facts: Facts) -> None:
        self._ended = event.t
        self._finished = True
        self._repeated = facts.repeats > 1

    def _message(self, event: ev.MessageAdded, facts: Facts) -> None:
        self._between(facts, _ORIGINS.get(event.origin))

    def _compacted(self, event: ev.ContextCompacted, facts: Facts) -> None:
        self._between(facts, "compaction")

    def _resumed(self, event: ev.RunResumed, facts: Facts) -> None:
        if event.interrupted_step is None and self._open and not self._finished:
            self._interventions.append("resumed")  # within the step, which continues
        else:
            self._between(facts, "resumed")

    def _between(self, facts: Facts, said: Intervention | None) -> None:
        """Close the current step. said: something that belongs to the next one."""
        self._close(facts)
        if said is not None:
            self._interventions.append(said)


_ORIGINS: dict[str, Intervention] = {"nudge": "nudge", "reminder": "reminder", "user": "user", "next_step": "reminder"}
_CHANGES: dict[type, Callable[[TimelineBuilder, Any, Facts], None]] = {
    ev.StepStarted: TimelineBuilder._step_started,
    ev.ResponseFinished: TimelineBuilder._response,
    ev.AttemptFailed: TimelineBuilder._failed,
    ev.ToolCallResult: TimelineBuilder._result,
    ev.CompletionAccepted: TimelineBuilder._accepted,
    ev.CompletionRejected: TimelineBuilder._rejected,
    ev.QuestionAsked: TimelineBuilder._asked,
    ev.StepFinished: TimelineBuilder._step_finished,
    ev.MessageAdded: TimelineBuilder._message,
    ev.ContextCompacted: TimelineBuilder._compacted,
    ev.RunResumed: TimelineBuilder._resumed,
}
