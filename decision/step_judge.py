"""Judges what each finished step of a run brought, and writes it into the step's STEP_FINISHED.

The facts take it from there. So the texts of a run are read once, when it is made, imported or, for a record of an
older version, before it is folded; who folds a record later need not read them again.
"""

from __future__ import annotations

from typing import TypeVar

from msgspec.structs import replace

from . import events as ev
from .facts import Facts
from .step_history import StepHistory

E = TypeVar("E", bound=ev.Event)


class StepJudge:
    """Judges the steps of one run, or of one run after another. Feed it every event, each before it is folded.

    judge, facts = StepJudge(), Facts()
    for event in events:
        facts = fold(facts, judge.feed(facts, event))
    """

    def __init__(self, history: StepHistory | None = None) -> None:
        self.history = history or StepHistory()
        """What is remembered of the run's steps: go on with it to judge the steps that follow."""

    def feed(self, facts: Facts, event: E) -> E:
        """Return the event: a STEP_FINISHED that does not say what its step brought with what it brought.

        `facts` are those before the event.
        """
        if isinstance(event, ev.RunStarted):
            self.history = StepHistory.of(event.tools, ev.is_imported(event.engine))
        elif isinstance(event, ev.StepFinished):
            results = [(call, result.content, result.status) for call, result in facts.answered_calls()]
            self.history = self.history.with_step(facts.calls, results, event.judged)
            if event.judged is None:
                return replace(event, judged=self.history.judgement)
        return event
