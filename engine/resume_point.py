"""The point from which a run whose process was killed goes on.

State is folded from the record up to the last decision. The ordinary loop runs the open round again: effects are
answered from the record (`recorded_round.py`), and the log recognises the events that the record already holds
(`recorded_events.py`). Where the record ends, the run is live.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field

import msgspec
from msgspec.structs import replace

from .decision import Decision, Event, Facts, GoOn, StepJudge, Stop, WrongUse, fold
from .decision import events as ev
from .decision.decide import applies_before_first_step
from .decision.decisions import made_by_policy
from .decision.step_history import StepHistory
from .recorded_events import call_of, describe
from .records.qualified_names import current_name

_HOOKS = ("gate", "judge", "text_rule", "handler", "system")
"""Roles of the hooks whose recorded verdicts need a hook of the same name."""
_DELTAS = ev.STREAM_PARTS - {ev.ToolCallEnd}


@dataclass(slots=True)
class ResumePoint:
    """State of a run whose record has no end."""

    before: Sequence[Event]
    """The events up to the last decision, or the first event if there is no decision; without deltas."""
    facts: Facts
    """The facts after `before`."""
    history: StepHistory
    """The memory of the steps in `before`, needed to judge the steps after them."""
    latest: Facts
    """The facts after all events."""
    events: Sequence[Event]
    """The events after `before`, without deltas."""
    void: Set[int]
    """Positions in `events` of events that are not repeated: those of interrupted steps and failed attempts."""
    started: ev.RunStarted
    interrupted_step: int | None
    """The step whose response is incomplete and is requested again; None if there is none."""
    last: Event
    """The last event, which may be a stream part."""
    decision: Decision | None = None
    """The last decision, on which the loop acts first."""
    decided_at: int = 0
    """Sequence number of the last decision."""
    decided_on: Facts = field(default_factory=Facts)
    """The facts from which the last decision was made."""
    no_next_step_prompt: bool = False
    """Whether a handler asked for the run to have no next-step prompt."""
    due: bool = False
    """Whether the next event is a decision that has not been made: the run is a fork without a decision yet."""

    @classmethod
    def at(cls, events: Sequence[Event]) -> ResumePoint:
        """Return the resume point after these events of a run, the first of which is RUN_STARTED."""
        all_of = [_with_current_name(event) for event in events if type(event) not in _DELTAS]
        due = _is_due(all_of)
        decided = max((n for n, event in enumerate(all_of) if isinstance(event, ev.DecisionMade) or due), default=0)
        judge = StepJudge()
        before = _fold(Facts(), all_of[:decided], judge)
        facts, last_decision = _fold(before, all_of[decided : decided + 1], judge), all_of[decided]
        history = judge.history
        rest, interrupted_step = all_of[decided + 1 :], _interrupted_step(all_of)
        started = all_of[0]
        assert isinstance(started, ev.RunStarted)
        here = cls(
            before=all_of[: decided + 1],
            facts=facts,
            history=history,
            latest=_fold(facts, rest, judge),
            events=rest,
            void=_void(rest, interrupted_step),
            started=started,
            interrupted_step=interrupted_step,
            last=events[-1],
            no_next_step_prompt=any(map(_wants_no_prompt, all_of[: decided + 1])),
            due=due,
        )
        if not due and isinstance(last_decision, ev.DecisionMade):
            here.decision, here.decided_at, here.decided_on = last_decision.decision, last_decision.seq, before
        return here

    def missing_hook(self, functions: Mapping[str, Sequence[str]]) -> ev.ResumeDiverged | None:
        """Return the first recorded verdict of the open round whose hook is not among `functions`; None if all are.

        functions: names of the hooks by role. Otherwise the missing verdict would be noticed only at the end of its
        step, when the run has already continued.
        """
        for number, event in enumerate(self.events):
            if isinstance(event, ev.VerdictGiven) and event.role in _HOOKS and number not in self.void:
                brought = functions.get(event.role, ())
                if event.name not in brought:
                    now = f"VERDICT_GIVEN {event.role} {', '.join(brought)}" if brought else f"no {event.role}"
                    return ev.ResumeDiverged(at=event.seq, recorded=describe(event), now=now)
        return None

    def check_copy(self) -> None:
        """Raise WrongUse for a fork whose process was killed while it wrote its copy of the origin."""
        origin = self.started.origin
        if origin is not None and self.last.seq < origin.at - 1:
            raise WrongUse(
                f"run {self.started.run_id} is a fork whose process was killed before it had copied its origin "
                f"(event {self.last.seq} of {origin.at - 1}): nothing was done yet, so remove its record and fork "
                f"{origin.session_id} again"
            )

    def first_decision(self, decide: Callable[[Facts], Decision]) -> Decision:
        """Return the decision with which a fork begins. Before the first step no nudge applies, as in any run."""
        decision = decide(self.facts)
        if self.facts.attempt or applies_before_first_step(decision):
            return decision
        return GoOn(rule=decision.rule, why="no step has been made", trace=decision.trace)

    @property
    def answers(self) -> list[ev.QuestionAnswered]:
        """The user's answers with which the run began, if no decision has settled their consequences yet."""
        return [event for event in self.events if isinstance(event, ev.QuestionAnswered)]

    def divergence(self, decide: Callable[[Facts], Decision]) -> ev.ResumeDiverged | None:
        """Return how the last decision would differ now; None if it would be the same.

        decide: the run's decision function. A decision that it did not make (a cancellation, an internal error) is not
        compared.
        """
        then = self.decision
        if then is None or not made_by_policy(then):
            return None
        now = decide(self.decided_on)
        if _comparable(now) == _comparable(then):
            return None
        return ev.ResumeDiverged(at=self.decided_at, recorded=_name_decision(then), now=_name_decision(now))


def _is_due(events: Sequence[Event]) -> bool:
    """Return whether these are the events of a fork that has not made a decision yet."""
    started = events[0]
    if not isinstance(started, ev.RunStarted) or started.origin is None or events[-1].seq < started.origin.at - 1:
        return False
    return not any(isinstance(event, ev.DecisionMade) and event.seq >= started.origin.at for event in events)


def _fold(facts: Facts, events: Iterable[Event], judge: StepJudge) -> Facts:
    for event in events:
        facts = fold(facts, judge.feed(facts, event))
    return facts


def _with_current_name(event: Event) -> Event:
    """Return the event with the current name of the function that it names."""
    if isinstance(event, ev.VerdictGiven | ev.EvaluationFinished):
        return replace(event, name=current_name(event.name))
    return event


def _interrupted_step(events: Sequence[Event]) -> int | None:
    """Return the step in progress at the end of these events, whose response is incomplete; None if there is none."""
    for event in reversed(events):
        match event:
            case ev.StepStarted(step=step):
                return step
            case ev.StepFinished() | ev.ResponseFinished() | ev.RunResumed(interrupted_step=int()):
                return None
            case _:
                pass
    return None


def _wants_no_prompt(event: Event) -> bool:
    if not (isinstance(event, ev.VerdictGiven) and event.role == "handler" and event.said == "prepared"):
        return False
    return not msgspec.json.decode(event.detail).get("next_step", True)


def _comparable(decision: Decision) -> Decision:
    return replace(decision, trace=(), detail="") if isinstance(decision, Stop) else replace(decision, trace=())


def _name_decision(decision: Decision) -> str:
    """Return the decision without texts of a model or a user, as in `DECISION_MADE stop(completed) by finished`."""
    said = "go on" if isinstance(decision, GoOn) else str(decision)
    return f"DECISION_MADE {said} by {decision.rule}"


def _void(events: Sequence[Event], interrupted_step: int | None) -> set[int]:
    """Return the positions of events that are not repeated: of interrupted steps, and of calls of failed attempts."""
    void: set[int] = set()
    begins = [number for number, event in enumerate(events) if isinstance(event, ev.StepStarted)]
    for begin, end in zip(begins, [*begins[1:], len(events)], strict=False):
        step = events[begin]
        assert isinstance(step, ev.StepStarted)
        killed = (n for n in range(begin, end) if _interrupts(events[n], step.step))
        last = end - 1 if end == len(events) and interrupted_step == step.step else next(killed, None)
        if last is not None:
            void.update(range(begin, last + 1))
        else:
            void.update(_of_other_calls(events, begin, end))
    return void


def _interrupts(event: Event, step: int) -> bool:
    return isinstance(event, ev.RunResumed) and event.interrupted_step == step


def _of_other_calls(events: Sequence[Event], begin: int, end: int) -> Iterator[int]:
    """Yield the positions of the events in a step about calls that its response does not hold."""
    response = next((event for event in events[begin:end] if isinstance(event, ev.ResponseFinished)), None)
    known = {call.id for call in response.message.calls} if response is not None else set()
    for number in range(begin, end):
        if isinstance(events[number], ev.StepFinished):
            break
        about = call_of(events[number])
        if about and about not in known:
            yield number
