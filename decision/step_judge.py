"""Judge of what each finished step of a run brought and what its text is, which it writes into its STEP_FINISHED.

The facts read it from that event, so the texts of a run are examined only once: while it runs or is imported or, for a
record of an older version, before its events are folded. Later readers of the record need not examine them again.
"""

from __future__ import annotations

from typing import TypeVar

from msgspec.structs import replace

from . import events as ev
from .facts import Facts
from .run_origin import is_foreign
from .step_history import StepHistory
from .wrong_calls import checked

E = TypeVar("E", bound=ev.Event)
JUDGED_EVENTS: frozenset[type] = frozenset({ev.RunStarted, ev.StepFinished})
"""Types of the events from which a `StepJudge` learns. Events of other types need not be fed to it."""


@checked
class StepJudge:
    """Judges the steps of one run, or of several runs in a row. Feed it every event before you fold the event.

    judge, facts = StepJudge(), Facts()
    for event in events:
        facts = fold(facts, judge.feed(facts, event))
    """

    def __init__(self, history: StepHistory | None = None) -> None:
        self.history = history or StepHistory()
        """The memory of all steps so far. A judge constructed with it continues where this one is."""

    def feed(self, facts: Facts, event: E) -> E:
        """Return the event to fold. A STEP_FINISHED without a judgement gets one; all others come back unchanged.

        facts: the facts before this event.
        """
        if isinstance(event, ev.RunStarted):
            self.history = StepHistory.of(event.tools, is_foreign(event.engine), event.policy.repetition.results)
        elif isinstance(event, ev.StepFinished):
            results = [(call, result.content, result.status) for call, result in facts.answered_calls()]
            self.history = self.history.with_step(facts.calls, results, event.judged, facts.text)
            if event.judged is None:
                return replace(event, judged=replace(self.history.judgement, text_kind=facts.text_kind))
        return event
