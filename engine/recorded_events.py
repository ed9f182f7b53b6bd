"""Recorded events of an interrupted round, which the log recognises instead of writing them again."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence, Set
from typing import Any

from .decision import Event
from .decision import events as ev
from .durability import ResumeRefused

_BY_CALL = ("call_id",)
_IDENTITY: dict[type, tuple[str, ...]] = {
    ev.QuestionAnswered: _BY_CALL,
    ev.RoundStarted: ("round",),
    ev.MessageAdded: ("origin",),
    ev.BudgetRefused: ("step",),
    ev.LimitReached: ("step",),
    ev.LimitExtended: ("allowed",),
    ev.StepStarted: ("step",),
    ev.ResponseFinished: ("step",),
    ev.ToolExecutionStarted: _BY_CALL,
    ev.ToolCallResult: _BY_CALL,
    ev.QuestionAsked: _BY_CALL,
    ev.ThoughtRecorded: _BY_CALL,
    ev.PhaseReported: _BY_CALL,
    ev.CompletionAccepted: _BY_CALL,
    ev.CompletionRejected: _BY_CALL,
    ev.VerdictGiven: ("role", "name", "call_id"),
    ev.CheckStarted: ("step", "place"),
    ev.CheckEnded: ("step", "place"),
    ev.BlockReported: _BY_CALL,
    ev.ContextCompacted: ("strategy", "in_vain"),
    ev.StepFinished: ("step",),
    ev.CancelRequested: (),
    ev.StageFinished: ("stage",),
    ev.EvaluationFinished: (),
}
"""Fields by which the log recognises an event of the loop in the record. Events of other types go with the next one."""
_SETTLES = (ev.CompletionAccepted, ev.CompletionRejected, ev.QuestionAsked, ev.ToolCallResult)
"""Events that accompany the result of a call."""
_BOUNDARIES = (ev.StepStarted, ev.StepFinished, ev.DecisionMade, ev.RunFinished)
"""Events after which, once the run appends a new one, nothing earlier in the record can still be recognised."""


A_CALL = "a call"
"""Name for an effect of any call: calls run at the same time, so which of them comes next is not significant."""


class RecordedEvents:
    """Events of the open round that the record already holds, for the log, which recognises them.

    The loop does not make some of them by itself: a time limit, a message of the user, the attempts at a response, an
    earlier kill. These are taken together with the next event that it makes.
    """

    def __init__(
        self,
        events: Sequence[Event],
        void: Set[int],
        interrupted_step: int | None,
        diverged: ev.ResumeDiverged | None,
        *,
        strict: bool,
    ) -> None:
        """Take the recorded events of the open round.

        events, void, interrupted_step: as in `ResumePoint`. diverged: a difference that is already known. strict: raise
        ResumeRefused at the first difference.
        """
        self.ended = self.passed = False
        """See `Past`."""
        self._events: list[Event | None] = list(events)
        self._expected: list[int] = []
        self._others = deque[int]()
        self._by_identity: dict[tuple[Any, ...], deque[int]] = {}
        self._unsaid: list[Event] = [ev.RunResumed(interrupted_step=interrupted_step)]
        self._diverged = diverged
        self._told = any(isinstance(event, ev.ResumeDiverged) for event in events)
        self._strict = strict
        self._cancelled = any(isinstance(event, ev.CancelRequested) for event in events)
        settled = {call_of(event) for event in events if isinstance(event, _SETTLES)}
        for number, event in enumerate(events):
            ours = number not in void and not _is_from_outside(event)
            if isinstance(event, ev.VerdictGiven) and event.call_id is not None:
                ours = ours and event.call_id in settled  # or the call may end as `unknown`, and no gate is asked
            (self._expected if ours else self._others).append(number)
            if number not in void and (identity := _identity(event)) is not None:
                self._by_identity.setdefault(identity, deque()).append(number)

    def take(self, event: Event) -> Sequence[Event]:
        """Return the recorded form of this event, after those that go with it; empty if the record does not hold it."""
        identity = _identity(event)
        numbers = self._by_identity.get(identity) if identity is not None else None
        while numbers:
            number = numbers.popleft()
            recorded = self._events[number]
            if recorded is not None:
                others = self._take_others(number)
                self._events[number] = None
                return [*others, recorded]
        return ()

    def end(self, new: Event | str) -> tuple[Sequence[Event], Sequence[Event]]:
        """Implement `Past.end`. New events are RUN_RESUMED, once, and RESUME_DIVERGED at the first difference."""
        self.passed = True
        self._cancelled = self._cancelled or isinstance(new, ev.CancelRequested)
        if self._diverged is None:
            self._diverged = self._difference(new)
        if self._diverged is not None and self._strict:
            raise ResumeRefused(_refusal(self._diverged))
        said, self._unsaid = self._unsaid, []
        if self._diverged is not None and not self._told:
            self._told = True
            said.append(self._diverged)
        if not isinstance(new, _BOUNDARIES):
            return self._take_others(len(self._events)), said
        self.ended = True
        return [one for one in self._events if one is not None], said

    def _difference(self, new: Event | str) -> ev.ResumeDiverged | None:
        """Return how the run differs, if it has gone beyond a recorded event without repeating it.

        Events of calls may come in any order until their step ends, because calls run at the same time.
        """
        if self._cancelled or _is_of_call(new):
            return None
        for number in self._expected:
            event = self._events[number]
            if event is not None and (isinstance(new, _BOUNDARIES) or not _is_of_call(event)):
                now = new if isinstance(new, str) else describe(new)
                return ev.ResumeDiverged(at=event.seq, recorded=describe(event), now=now)
        return None

    def _take_others(self, end: int) -> list[Event]:
        """Take the events before this position that the loop does not make by itself."""
        taken: list[Event] = []
        while self._others and self._others[0] < end:
            number = self._others.popleft()
            event = self._events[number]
            if event is not None:
                taken.append(event)
                self._events[number] = None
        return taken


def _refusal(diverged: ev.ResumeDiverged) -> str:
    return (
        f"the run would go on differently from its record: event {diverged.at} is {diverged.recorded}, and now it "
        f"would be {diverged.now}. Nothing was written. Resume it with what it began with, or without strict_resume"
    )


def _identity(event: Event) -> tuple[Any, ...] | None:
    fields = _IDENTITY.get(type(event))
    return None if fields is None else (type(event), *(getattr(event, name) for name in fields))


def _is_of_call(new: Event | str) -> bool:
    return new == A_CALL if isinstance(new, str) else bool(getattr(new, "call_id", None))


def _is_from_outside(event: Event) -> bool:
    """Return whether the loop does not make this event by itself when it runs the round again."""
    match event:
        case ev.MessageAdded(origin="user") | ev.VerdictGiven(role="check"):
            return True
        case ev.ToolExecutionStarted() | ev.BudgetRefused() | ev.LimitReached() | ev.CancelRequested():
            return True
        case _:
            return type(event) not in _IDENTITY


def call_of(event: Event) -> str | None:
    """Return the call of the run that an event is about; None if it is about none."""
    if isinstance(event, ev.QuestionAsked):
        return event.waiting_call
    return getattr(event, "call_id", None)


def describe(event: Event) -> str:
    """Return the event's type and what it is about, for example `VERDICT_GIVEN gate tests:checked`."""
    about = (str(getattr(event, name)) for name in _IDENTITY.get(type(event), ()) if getattr(event, name) is not None)
    return " ".join((str(type(event).__struct_config__.tag), *about))
