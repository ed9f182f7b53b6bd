"""For a replay: the functions that are not ours, as stand-ins that only have the names, and what they said then."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from ..decision import Outcome
from ..decision import events as ev
from ..decision.confirmation import Reply
from ..evaluation import Evaluated, Evaluation
from ..records.reader import RecordedRun
from .recorded import unstreamed


class StandIn:
    """A gate, judge, text rule or handler that is known only by its name. It is never called."""

    def __init__(self, name: str) -> None:
        self.__module__, _, self.__qualname__ = name.partition(":")

    def __call__(self, *arguments: Any) -> Any:
        """Where the record holds no word of it."""
        raise LookupError("the record holds no word of this function")


class RecordedEvaluator(StandIn):
    """The evaluator of a recorded run: what it said then, if the work that it looks at is the recorded one."""

    def __init__(self, recorded: RecordedRun, evaluated: ev.EvaluationFinished, reach: Callable[[int], None]) -> None:
        super().__init__(evaluated.name)
        self._recorded = recorded
        self._evaluated = evaluated
        self._reach = reach

    def __call__(self, evaluated: Evaluated) -> Evaluation:
        """The recorded verdict. Raises LookupError if there was none, or the run has ended otherwise."""
        finished = self._recorded.finished
        if finished is not None and _end(finished.outcome) != _end(evaluated.outcome):
            raise LookupError("the replay ended otherwise than the record, whose verdict says nothing of it")
        if self._evaluated.verdict == "not_run":
            raise LookupError(str(self._evaluated.details.get("error") or "there was no verdict"))
        self._reach(self._evaluated.t)
        return Evaluation(passed=self._evaluated.verdict == "passed", details=self._evaluated.details)


def _end(outcome: Outcome) -> tuple[str, int, str]:
    return outcome.stop_reason, outcome.steps, outcome.answer


def recorded_evaluator(recorded: RecordedRun, reach: Callable[[int], None]) -> RecordedEvaluator | None:
    """The evaluator of this run, if it had one."""
    found = next((e for e in reversed(recorded.events) if isinstance(e, ev.EvaluationFinished)), None)
    return None if found is None else RecordedEvaluator(recorded, found, reach)


class RecordedVerdicts:
    """The verdicts of a recorded run, each given once, in order. `reach` is told when each was given."""

    def __init__(self, recorded: RecordedRun, reach: Callable[[int], None]) -> None:
        self._reach = reach
        self._left: dict[tuple[str, str, str | None], deque[ev.VerdictGiven]] = {}
        self._names: dict[str, dict[str, StandIn]] = {}
        self._refused: dict[int, ev.BudgetRefused] = {}
        self._reached: dict[tuple[int, bool], ev.LimitReached] = {}
        begun: int | None = None
        self._responses: dict[int, ev.ResponseFinished] = {}
        self._heard: dict[int, list[ev.MessageAdded]] = {}
        events = unstreamed(recorded)
        self._replies: dict[str, Reply] = {}
        for event in events:
            match event:
                case ev.QuestionAnswered(call_id=id, says=str() as says):
                    self._replies[id] = says
                case ev.CompletionAccepted(call_id=id):  # a record of before the reply's meaning was written
                    self._replies.setdefault(id, "yes")
                case ev.CompletionRejected(call_id=id, by="user"):
                    self._replies.setdefault(id, "no")
                case _:
                    pass
        results = [event for event in events if isinstance(event, ev.ToolCallResult)]
        self.lost = {result.call_id for result in results if result.status == "unknown"}
        self.answered_late = _answered_late(recorded, events)
        self.ended = {result.call_id for result in results if result.status in ("ok", "error")}
        self._results: dict[str, ev.ToolCallResult] = {}
        waiting: list[ev.MessageAdded] = []
        self._failed: dict[int, list[ev.AttemptFailed]] = {}
        failed: list[ev.AttemptFailed] = []
        for event in events:
            if isinstance(event, ev.MessageAdded) and event.origin == "user":
                waiting.append(event)
            elif isinstance(event, ev.StepStarted) and waiting:
                self._heard.setdefault(event.step, []).extend(waiting)
                waiting = []
            if isinstance(event, ev.ToolCallResult):
                self._results[event.call_id] = event
            elif isinstance(event, ev.BudgetRefused):
                self._refused[event.step] = event
            elif isinstance(event, ev.LimitReached):
                self._reached[event.step, event.step == begun] = event
            elif isinstance(event, ev.ResponseFinished):
                self._responses[event.step] = event
            elif isinstance(event, ev.RunResumed) and begun is not None and event.interrupted_step == begun:
                self._reached.pop((begun, True), None)  # the step is begun anew
            elif isinstance(event, ev.AttemptFailed):
                failed.append(event)
            elif isinstance(event, ev.StepStarted):
                if event.step == begun:  # the process was killed in it
                    self._failed.setdefault(begun, []).extend(failed)
                failed = []
                begun = event.step
                self._refused.pop(event.step, None)  # the process was killed after it, and another budget had room
                self._reached.pop((event.step, False), None)
            elif isinstance(event, ev.VerdictGiven):
                self._left.setdefault((event.role, event.name, event.call_id), deque()).append(event)
                self._names.setdefault(event.role, {}).setdefault(event.name, StandIn(event.name))

    def __call__(self, role: str, name: str, call_id: str | None) -> ev.VerdictGiven | None:
        """What this function said then; None if the record does not hold it."""
        left = self._left.get((role, name, call_id))
        if not left:
            return None
        self._reach(left[0].t)
        return left.popleft()

    def reply(self, call_id: str) -> Reply | None:
        """What was made then of the user's reply to the confirmation of this call."""
        return self._replies.get(call_id)

    def fingerprint(self, call_id: str, content: str) -> str:
        """That of the recorded result of this call, if it has this content; else empty."""
        result = self._results.get(call_id)
        return result.fingerprint if result is not None and result.content == content else ""

    def refused(self, step: int) -> ev.BudgetRefused | None:
        """What a shared budget said before this step, if it was therefore not made."""
        refused = self._refused.get(step)
        if refused is not None:
            self._reach(refused.t)
        return refused

    def reached(self, step: int, *, begun: bool) -> ev.LimitReached | None:
        """The limit that was used up in this step, or before it, so that it was not made; given once."""
        reached = self._reached.pop((step, begun), None)
        if reached is not None:
            self._reach(reached.t)
        return reached

    def failed_before(self, step: int) -> Sequence[ev.AttemptFailed]:
        """The attempts of this step that failed before the process was killed in it."""
        return self._failed.get(step, ())

    def response(self, step: int) -> ev.ResponseFinished | None:
        """What this step's response was then."""
        return self._responses.get(step)

    def heard(self, step: int) -> list[ev.MessageAdded]:
        """What the user said while the run was going that was heard before this step; given once."""
        heard = self._heard.pop(step, [])
        if heard:
            self._reach(heard[-1].t)
        return heard

    def stand_ins(self, role: str) -> list[Any]:
        """Those who were asked in this role, in the order in which they were first asked."""
        return list(self._names.get(role, {}).values())

    def stand_in(self, role: str) -> Any:
        """The only one in this role, if there was one."""
        return next(iter(self._names.get(role, {}).values()), None)


def _answered_late(recorded: RecordedRun, events: Sequence[ev.Event]) -> set[str]:
    """The calls that never ran and were answered after their response. None where the record never says what ran."""
    ran: set[str] = set()
    asked: set[str] = set()
    answered: set[str] = set()
    for event in events:
        match event:
            case ev.ToolExecutionStarted(call_id=id):
                ran.add(id)
            case ev.ResponseFinished(message=message):
                asked.update(call.id for call in message.calls)
            case ev.ToolCallResult(call_id=id) if id in asked:
                answered.add(id)
            case _:
                pass
    return answered - ran if recorded.started.engine or ran else set()
