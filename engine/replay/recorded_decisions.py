"""Decisions of a recorded run: another loop's own decisions are repeated, all others are made again."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from msgspec import Struct

from ..decision import Decision, Event, Facts, GoOn, Policy, fold
from ..decision import events as ev
from ..decision.decisions import IMPORTED, made_by_other_loop
from ..decision.run_origin import is_foreign, is_imported
from ..records.reader import RecordedRun

_WENT_ON = GoOn(rule=IMPORTED, why="the loop that was imported went on")


class RecordedDecision(Struct, frozen=True):
    """A decision of a recorded run."""

    step: int
    """Number of steps made before it."""
    event: ev.DecisionMade
    told: ev.MessageAdded | None = None
    """The user's latest message between the previous step and the decision."""


def decisions_in(events: Iterable[Event], step: int) -> tuple[list[RecordedDecision], int]:
    """Return the decisions of a recorded run, and its last step. step: the number of steps made before these events."""
    decided: list[RecordedDecision] = []
    told: ev.MessageAdded | None = None
    for event in events:
        if isinstance(event, ev.StepStarted):
            step, told = event.step - event.closing, None
        elif isinstance(event, ev.RunResumed) and event.interrupted_step == step:
            step -= 1  # the step was not made: it may begin again
        elif isinstance(event, ev.MessageAdded) and event.origin == "user":
            told = event
        elif isinstance(event, ev.DecisionMade):
            decided.append(RecordedDecision(step, event, told))
    return decided, step


class LoopDecisions:
    """Decision function of a replay: repeats the decisions that another loop made, and makes the engine's own again.

    An import has no decision where its loop simply went on, so that is repeated, too. In a record of our own engine,
    every decision is made again.

    decide: makes a decision.
    """

    def __init__(self, recorded: RecordedRun, decide: Callable[[Facts, Policy], Decision]) -> None:
        started, carried = recorded.started, recorded.started.carried
        foreign = is_foreign(started.engine)
        begun = 0 if carried is None else carried.steps
        decided, last = decisions_in(recorded.events if foreign else (), begun)
        self._decide = decide
        self._left = deque(decided)
        """Decisions that the replay has not reached."""
        self._steps = {one.step for one in decided}
        self._made = begun
        """Number of steps that the replay has made."""
        self._goes_on_before = last if is_imported(started.engine) else 0
        self.ended_it = bool(decided) and made_by_other_loop(decided[-1].event.decision)
        """Whether the other loop ended the run by itself."""

    def take(self, event: Event) -> None:
        """Process an event of the replay's log: if a decision was made here, too, drop the next one of the record."""
        if type(event) is ev.StepStarted:
            self._made = event.step - event.closing
        elif type(event) is ev.DecisionMade and self.has_decision(self._made):
            self._left.popleft()

    def decide(self, facts: Facts, policy: Policy) -> Decision:
        """Return the decision that the other loop made at this point; the policy's if it made none."""
        if not self.has_decision(facts.steps):
            return self.silent(facts.steps) or self._decide(facts, policy)
        recorded, told = self._left[0].event.decision, self._left[0].told
        if made_by_other_loop(recorded):
            return recorded
        # a loop may have reported the user's message before it asked; the engine delivers it before the next request
        return self._decide(facts if told is None else fold(facts, told), policy)

    def has_decision(self, steps: int) -> bool:
        """Return whether the record of another loop has another decision after this many steps."""
        return bool(self._left) and self._left[0].step == steps

    def silent(self, steps: int) -> GoOn | None:
        """Return a bare "go on" if an imported loop made another step here and no decision is recorded."""
        return _WENT_ON if steps < self._goes_on_before and steps not in self._steps else None
