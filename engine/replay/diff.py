"""Comparison of a replay with its record: whether it decides the same, and where the two first differ.

Every decision of the outer loop and the outcome are compared. A record of another program may have fewer decisions
than the engine makes: if such a record went on without a decision, a "go on" of the engine that tells the model
nothing is not a divergence.

A divergence also names the first event before it that differs, such as a response or a result. A differing event is
not a divergence by itself: a live tool may return something else while the decisions stay the same.

Events are matched by their position: type, step and ordinal. Their numbers may differ, because a replay leaves out
events that a killed process left unfinished, and because older records lack some of today's events.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ..decision import Decision, Event, GoOn, Outcome, Stop
from ..decision import events as ev
from ..decision.wrong_calls import CheckedStruct
from ..records.reader import RecordedRun
from .recorded import without_stream_parts
from .recorded_decisions import decisions_in

RECORD_ENDS = "the record ends here"
"""Cause with which a replay is cancelled at the end of its record."""

MAX_TEXT_SHOWN = 100
"""Maximum number of characters of a text to the model that a divergence quotes."""

_COMPARED: dict[type, tuple[str, ...]] = {
    ev.MessageAdded: ("origin", "text", "images"),
    ev.ResponseFinished: ("message", "truncated"),
    ev.ToolCallResult: ("status", "content", "images"),
    ev.CompletionAccepted: ("call_id", "answer", "pending_issues"),
    ev.CompletionRejected: ("call_id", "reason", "by"),
    ev.PhaseReported: ("percentage", "summary", "next_phase"),
    ev.QuestionAsked: ("call_id", "text", "confirms"),
    ev.ThoughtRecorded: ("call_id", "text"),
    ev.VerdictGiven: ("role", "name", "said", "detail"),
    ev.ContextCompacted: ("strategy", "dropped", "keep_results", "in_vain"),
}
"""Events that are compared, with the fields that matter. Deltas are compared as the whole response."""
_ONCE_PER_RUN = frozenset({ev.ResponseFinished, ev.ToolCallResult, ev.CompletionAccepted, ev.CompletionRejected})
"""Events that are not repeated when a run is resumed after a kill; only these are compared in a resumed run."""


# ---- positions

Position = tuple[type, int | str, int]
"""Position of an event in its run: its type, its step (for a result, the call id), and its ordinal there, from 0."""


class EventAddress(CheckedStruct, frozen=True, kw_only=True):
    """Address of an event in a record."""

    run: int
    """Index of its run in the record, from 0."""
    seq: int
    """`seq` of the event in that run, from 1."""


class PositionCounter:
    """Counter that computes the position of each event of a run, one after another."""

    def __init__(self) -> None:
        self.step = 0
        """The current step."""
        self._counts: dict[tuple[type, int | str], int] = {}

    def of(self, event: Event) -> Position:
        """Return the position of the next event. A step repeated after a kill has the positions of the first try."""
        if isinstance(event, ev.StepStarted):
            self._begin(event.step)
        within = event.call_id if isinstance(event, ev.ToolCallResult) else self.step  # parallel calls end in any order
        number = self._counts.get((type(event), within), 0)
        self._counts[type(event), within] = number + 1
        return type(event), within, number

    def _begin(self, step: int) -> None:
        if step <= self.step:
            self._counts = {at: number for at, number in self._counts.items() if at[1] != step}
        self.step = step


class PositionWatch:
    """Recogniser, in a replay, of the event that has number `seq` in the record of the run."""

    def __init__(self, recorded: RecordedRun, seq: int) -> None:
        positions = PositionCounter()
        self._at_or_after: set[Position] = set()
        self._step = 0
        for event in recorded.events:
            position = positions.of(event)
            if event.seq >= seq:
                self._at_or_after.add(position)
            else:
                self._step = positions.step
        self._places = PositionCounter()

    @property
    def near(self) -> bool:
        """Whether the replay has reached the step of the event, so that the next event may be it."""
        return self._places.step >= self._step

    def reached_by(self, event: Event) -> bool:
        """Add the next event of the replay. Return whether it is the event, or comes after it in the record."""
        return self._places.of(event) in self._at_or_after


def latest_recorded_seq(recorded: RecordedRun, replayed: Iterable[Event]) -> int:
    """Return the `seq` in the record of the latest of these replayed events; 0 if the record has none of them."""
    there, here = PositionCounter(), PositionCounter()
    numbers = {there.of(event): event.seq for event in recorded.events}
    return next((numbers[at] for at in reversed([here.of(event) for event in replayed]) if at in numbers), 0)


# ---- the comparison


class EventDifference(Struct, frozen=True, kw_only=True):
    """An event that differs between a record and its replay."""

    recorded: Event | None
    """The recorded event; None if only the replay has one."""
    replayed: Event | None
    """The replayed event; None if only the record has one."""
    fields: tuple[str, ...] = ()
    """Fields that differ, if both have the event."""


class Divergence(Struct, frozen=True, kw_only=True):
    """The first decision, or the outcome, that differs between a record and its replay."""

    round: int
    step: int
    """Number of steps that the replay had made."""
    recorded: Decision | None
    """The recorded decision; None if the record has none here."""
    replayed: Decision | None
    """The replayed decision; None if the replay made none here, or only the outcome differs."""
    what: str
    """Sentence that says what differs."""
    before: EventDifference | None = None
    """First event before this decision that differs; None if none does."""


class ReplayComparison:
    """Comparison of the events of a replay with a recorded run, one after another."""

    def __init__(self, recorded: RecordedRun) -> None:
        self.decisions = 0
        """Number of decisions that were the same."""
        self.divergence: Divergence | None = None
        self._recorded = recorded
        self._events = without_stream_parts(recorded.own)
        self._marks = {spec.name for spec in recorded.started.tools if spec.kind != "ordinary"}
        """Tools whose results have their own events: completions, questions, thoughts."""
        carried = recorded.started.carried
        self._step = _steps_copied(recorded) or (carried.steps if carried is not None else 0)
        self._decided, self._last_step = decisions_in(self._events, self._step)
        self._next = 0
        self._silent = False
        """Whether the record lacks a decision that the engine makes, so that its round numbers cannot be compared."""
        self._latest: Decision | None = None
        self._seen: list[Event] = []

    def feed(self, event: Event) -> Divergence | None:
        """Add an event of the replay. Return the divergence if this event is the first to show one."""
        if type(event) in ev.STREAM_PARTS:
            return None
        if type(event) in _COMPARED:
            self._seen.append(event)
        elif isinstance(event, ev.StepStarted):
            self._step = event.step - event.closing
            self._seen.append(event)
        elif isinstance(event, ev.DecisionMade):
            self._latest = event.decision
            if self.divergence is None:
                self.divergence = self._check(event)
                return self.divergence
        return None

    def finish(self, outcome: Outcome) -> Divergence | None:
        """End the comparison. Return the divergence of the run, if there is one."""
        if self.divergence is None:
            self.divergence = self._check_end(outcome)
        else:
            went_on = self._record_went_on(self._latest)
            if went_on and went_on not in self.divergence.what:
                self.divergence = replace(self.divergence, what=f"{self.divergence.what}; {went_on}")
        return self.divergence

    @property
    def difference(self) -> EventDifference | None:
        """First event that differs, so far."""
        return self._first_difference(self._events, whole=self._recorded.finished is not None)

    # ---- decisions

    def _check(self, event: ev.DecisionMade) -> Divergence | None:
        now = event.decision
        if self._record_ended(now):
            return None
        then = self._decided[self._next] if self._next < len(self._decided) else None
        if (self._last_step if then is None else then.step) > self._step:
            if isinstance(now, GoOn) and not _instruction_of(now):
                self._silent = True
                return None
            return self._divergence(event, None)
        if then is not None:
            self._next += 1
            if _without_trace(then.event.decision) != _without_trace(now):
                return self._divergence(event, then.event)
            self.decisions += 1
            return None
        finished = self._recorded.finished
        if finished is None or (isinstance(now, Stop) and now.reason == finished.outcome.stop_reason):
            self._silent = True
            return None
        return self._divergence(event, None)

    def _divergence(self, event: ev.DecisionMade, then: ev.DecisionMade | None) -> Divergence:
        before = [e for e in self._events if then is None or e.seq < then.seq]
        if then is None:
            before = _up_to_step(before, self._step)
        return Divergence(
            round=event.round if then is None else then.round,
            step=self._step,
            recorded=None if then is None else then.decision,
            replayed=event.decision,
            what=self._record_went_on(event.decision) or self._describe(event.decision, then),
            before=self._first_difference(before, whole=True),
        )

    def _record_went_on(self, now: Decision | None) -> str:
        """Return a sentence if the replay ended at a point where the record went on; empty otherwise."""
        if now is None or isinstance(now, GoOn) or self._last_step <= self._step or self._record_ended(now):
            return ""
        does = "stops" if isinstance(now, Stop) else "pauses"
        return f"the engine {does} at step {self._step} by {now.rule}; the record went on to step {self._last_step}"

    def _describe(self, now: Decision, then: ev.DecisionMade | None) -> str:
        if then is not None:
            other = _changed_fields(then.decision, now)
            in_what = f", with another {', '.join(other)}" if str(then.decision) == str(now) else ""
            return f"round {then.round}: the record says {then.decision}, the replay {now}{in_what}"
        if self._step < self._last_step:
            return f"step {self._step}: the record went on, and the engine first {_instruction_of(now)}"
        finished = self._recorded.finished
        ended = "" if finished is None else f" as {finished.outcome.stop_reason}"
        return f"step {self._step}: the record ends{ended}, the replay says {now}, by {now.rule}"

    def _record_ended(self, now: Decision | None) -> bool:
        return isinstance(now, Stop) and now.detail.endswith(RECORD_ENDS)

    # ---- events

    def _first_difference(self, then: Sequence[Event], *, whole: bool) -> EventDifference | None:
        """Return the first event that differs. `whole`: the record is complete, so what it lacks is a difference."""
        resumed = any(isinstance(event, ev.RunResumed) for event in then)
        kinds = _ONCE_PER_RUN if resumed else frozenset(_COMPARED)
        was, is_now = _by_position(then, kinds), _by_position(self._seen, kinds)
        replayed, recorded = dict(is_now), dict(was)
        lost = next(
            (n for n, (at, e) in enumerate(was) if at not in replayed or self._fields(e, replayed[at])), len(was)
        )
        added = next((n for n, (at, _) in enumerate(is_now) if whole and at not in recorded), len(is_now))
        if added < min(lost, len(is_now)):
            return EventDifference(recorded=None, replayed=is_now[added][1])
        if lost == len(was):
            return None
        position, event = was[lost]
        other = replayed.get(position)
        return EventDifference(
            recorded=event, replayed=other, fields=() if other is None else self._fields(event, other)
        )

    def _fields(self, one: Event, other: Event) -> tuple[str, ...]:
        names = _COMPARED[type(one)]
        if isinstance(one, ev.ToolCallResult) and (one.status not in ("ok", "error") or one.name in self._marks):
            names = ("status",)  # the content is a text of the loop
        return tuple(name for name in names if getattr(one, name) != getattr(other, name))

    # ---- the end

    def _check_end(self, outcome: Outcome) -> Divergence | None:
        if self._recorded.finished is None:
            return None
        left = self._decided[self._next].event if self._next < len(self._decided) else None
        then = self._recorded.finished.outcome
        if self._record_ended(self._latest):
            what = f"step {self._last_step}: the record ends as {then.stop_reason}, but the engine makes another step"
            return self._at_end(outcome.rounds, what, None if left is None else left.decision)
        if left is not None:
            what = f"round {left.round}: the record says {left.decision}, the replay makes no decision"
            return self._at_end(left.round, what, left.decision)
        names = ["status", "stop_reason", "answer", "steps", *(() if self._silent else ("rounds",))]
        if not then.answer and not then.answer_from:
            names.remove("answer")  # older versions recorded an answer only for runs that ended with one
        differing = [name for name in names if getattr(then, name) != getattr(outcome, name)]
        if not differing:
            return None
        words = (f"{name} was {getattr(then, name)!r} and is {getattr(outcome, name)!r}" for name in differing)
        return self._at_end(outcome.rounds, f"the outcome differs: {'; '.join(words)}", None)

    def _at_end(self, round: int, what: str, then: Decision | None) -> Divergence:
        return Divergence(round=round, step=self._step, recorded=then, replayed=None, what=what, before=self.difference)


def _steps_copied(recorded: RecordedRun) -> int:
    """Return the number of the last step that a fork copied; 0 if there is none."""
    copies = recorded.copies
    events = copies.events if copies is not None else ()
    return max((event.step for event in events if isinstance(event, ev.StepStarted)), default=0)


def _without_trace(decision: Decision) -> dict[str, Any]:
    """Return a decision without its trace and detail, which only explain it."""
    plain: dict[str, Any] = msgspec.to_builtins(replace(decision, trace=()))
    plain.pop("detail", None)
    return plain


def _instruction_of(decision: Decision) -> str:
    """Describe what a decision does before the next step; empty for nothing."""
    if not isinstance(decision, GoOn):
        return ""
    messages = (("tells the model", decision.say), ("reminds the model", decision.remind))
    parts = ["compacts the context"] if decision.compact else []
    parts += [f"{verb}: {' '.join(text.split())[:MAX_TEXT_SHOWN]}" for verb, text in messages if text]
    return " and ".join(parts)


def _changed_fields(then: Decision, now: Decision) -> list[str]:
    one, other = _without_trace(then), _without_trace(now)
    return [name for name in {**one, **other} if one.get(name) != other.get(name)]


def _by_position(events: Iterable[Event], kinds: frozenset[type]) -> list[tuple[Position, Event]]:
    positions, begun = PositionCounter(), 0
    found: list[tuple[Position, Event]] = []
    for event in events:
        if type(event) in kinds:
            found.append((positions.of(event), event))
        elif isinstance(event, ev.StepStarted):
            positions.of(event)
            begun = len(found)
        elif isinstance(event, ev.RunResumed) and event.interrupted_step is not None:
            del found[begun:]  # events of the interrupted step
    return found


def _up_to_step(events: Sequence[Event], step: int) -> list[Event]:
    """Return the events before the start of any step after this one."""
    found: list[Event] = []
    for event in events:
        if isinstance(event, ev.StepStarted) and event.step > step:
            break
        found.append(event)
    return found
