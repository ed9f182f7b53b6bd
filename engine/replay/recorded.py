"""What a replay takes from a recorded run: tool results, verdicts of user functions, and all else from outside."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from ..decision import Event, Outcome, ToolSpec
from ..decision import events as ev
from ..decision.confirmation import Reply
from ..decision.rules import rejection_message
from ..evaluation import Evaluation, EvaluationInput
from ..records.reader import RecordedRun
from ..tool_calls import phase_reply
from ..tools.results import CallOutcome, Completion, Continue, NeedsUserInput, Phase
from ..tools.schema import InvalidArguments
from ..tools.tool import Tool


class RecordedValue(Struct, frozen=True):
    """What the function of a tool returned."""

    t: int
    """When: milliseconds since the run began."""
    value: Any


class RecordedTool(Tool):
    """A tool of a recorded run, which has no function.

    complaints: the error messages for invalid arguments, by the arguments' text. not_final: the arguments' texts of
    completions that could not be the last one.
    """

    def __init__(self, spec: ToolSpec, complaints: Mapping[str, str], not_final: frozenset[str]) -> None:
        self.name, self.kind = spec.name, spec.kind
        self.spec = spec
        self.timeout = self.check = None
        self._complaints = complaints
        self._not_final = not_final

    def parse(self, arguments: str) -> dict[str, Any]:
        """Parse the arguments without a schema. Raises InvalidArguments for those that were invalid in the record."""
        if arguments in self._complaints:
            raise InvalidArguments(self._complaints[arguments])
        try:
            value = msgspec.json.decode(arguments or "{}")
        except (msgspec.DecodeError, RecursionError) as error:
            raise InvalidArguments(str(error)) from None
        return {"arguments": arguments, "value": value}

    def is_final(self, arguments: Mapping[str, Any]) -> bool:
        """Whether a completion with these arguments could be the last one."""
        return arguments["arguments"] not in self._not_final

    async def run(self, arguments: Mapping[str, Any]) -> Any:
        """Always raises NotImplementedError: a replay answers calls from the record."""
        raise NotImplementedError("a recorded tool has no function")


_PARTS = frozenset({ev.ToolCallStart, ev.ToolCallArgs, ev.ResponseFinished})


def recorded_tools(recorded: RecordedRun) -> list[Tool]:
    """The tools of a recorded run, including tools that were called but not listed, as in records of other programs."""
    calls: dict[str, tuple[str, list[str]]] = {}
    noted: list[tuple[ev.ToolCallResult | ev.ToolCallEnd, str | None]] = []
    specs = {spec.name: spec for spec in recorded.started.tools}
    for event in recorded.events:
        kind = type(event)
        if kind in _PARTS:
            _collect_arguments(event, calls)
        if kind is not ev.ToolCallResult and kind is not ev.ToolCallEnd:
            continue
        match event:
            case ev.ToolCallResult(call_id=id, status="invalid") | ev.ToolCallEnd(call_id=id, may_end=False):
                noted.append((event, "".join(calls[id][1]) if id in calls else None))
            case ev.ToolCallResult(name=name, status="ok" | "error") if name not in specs:
                specs[name] = ToolSpec(name=name, description="not listed in the record", parameters={})
            case _:
                pass
    complaints: dict[str, dict[str, str]] = {}
    not_final: dict[str, set[str]] = {}
    for event, until_then in noted:
        if event.call_id not in calls:
            continue
        name, pieces = calls[event.call_id]
        given = {"".join(pieces)} if until_then is None else {"".join(pieces), until_then}  # more deltas came later
        if isinstance(event, ev.ToolCallResult):
            complaints.setdefault(name, {}).update(dict.fromkeys(given, event.content))
        else:
            not_final.setdefault(name, set()).update(given)
    return [
        RecordedTool(spec, complaints.get(name, {}), frozenset(not_final.get(name, ()))) for name, spec in specs.items()
    ]


def _collect_arguments(event: Event, parts: dict[str, tuple[str, list[str]]]) -> None:
    """Collect the name and the arguments of each call, by call id; also of calls whose response failed."""
    match event:
        case ev.ToolCallStart(call_id=id, name=name):
            parts[id] = (name, [])
        case ev.ToolCallArgs(call_id=id, delta=delta) if id in parts:
            parts[id][1].append(delta)
        case ev.ResponseFinished(message=message):
            parts |= {call.id: (call.name, [call.arguments]) for call in message.calls}
        case _:
            pass


def recorded_values(recorded: RecordedRun) -> dict[str, RecordedValue]:
    """What the function of each call returned, by call id. Calls that were cut off have no value."""
    events = without_stream_parts(recorded)
    results = {e.call_id: e for e in events if isinstance(e, ev.ToolCallResult)}
    cut_off = next((e.seq for e in events if isinstance(e, ev.LimitReached)), None)
    kinds = {spec.name: spec.kind for spec in recorded.started.tools}
    completing = {spec.name for spec in recorded.started.tools if spec.completes}
    named = {call.id: call.name for e in events if isinstance(e, ev.ResponseFinished) for call in e.message.calls}
    values = {
        id: RecordedValue(result.t, CallOutcome(content=result.content, status=result.status, images=result.images))
        for id, result in results.items()
        if result.status in ("ok", "error", "unknown", "skipped")  # a skipped call may start early in a replay
        or (result.status == "cancelled" and cut_off is not None and result.seq > cut_off)
    }
    for event in events:
        match event:
            case ev.CompletionAccepted(call_id=id, answer=answer, pending_issues=pending):
                content = results[id].content if id in results else None
                phase = values[id].value if id in values else None  # the last phase, reported by the completion itself
                values[id] = RecordedValue(
                    event.t,
                    Completion(
                        answer=answer,
                        content=content,
                        pending_issues=pending,
                        percentage=phase.percentage if isinstance(phase, Phase) else None,
                    ),
                )
            case ev.CompletionRejected(call_id=id, reason=reason, by="tool"):
                values[id] = RecordedValue(
                    event.t, Continue(reason, _rest_of_content(results.get(id), rejection_message(reason)))
                )
            case ev.CompletionRejected(call_id=id, by=by) if by != "user" and (
                by not in ("failed_call", "open_question") or named.get(id) in completing
            ):  # rejected by a gate, whose verdict is in the record
                rest = _rest_of_content(results.get(id), rejection_message(event.reason))
                values[id] = RecordedValue(event.t, Completion(answer="", content=rest))
            case ev.PhaseReported(call_id=id):
                rest = _rest_of_content(results.get(id), phase_reply(event.percentage, event.next_phase))
                phase = Phase(
                    percentage=event.percentage,
                    summary=event.summary,
                    next_phase=event.next_phase,
                    content=rest,
                )
                values[id] = RecordedValue(event.t, phase)
            case ev.QuestionAsked(call_id=id, text=text, confirms=str() as answer, pending_issues=pending):
                asked = Completion(answer=answer, confirm=text, pending_issues=pending, percentage=event.percentage)
                values[id] = RecordedValue(event.t, asked)
            case ev.QuestionAsked(call_id=id, text=text) if kinds.get(named.get(id, ""), "question") != "question":
                values[id] = RecordedValue(
                    event.t, NeedsUserInput(text)
                )  # what became of the call when its process died
            case ev.QuestionAsked(call_id=id, text=text) | ev.ThoughtRecorded(call_id=id, text=text):
                values[id] = RecordedValue(event.t, text)
            case _:
                pass
    return values


def _rest_of_content(result: ev.ToolCallResult | None, first_line: str) -> str | None:
    """The part of a result's content after this first line; None if it begins otherwise."""
    if result is None or not result.content.startswith(f"{first_line}\n"):
        return None
    return result.content[len(first_line) + 1 :]


def void_calls(recorded: RecordedRun) -> set[str]:
    """Ids of the calls of failed or retracted attempts. They have no result, even if they had started."""
    failed = {
        e.attempt for e in without_stream_parts(recorded) if isinstance(e, ev.AttemptFailed | ev.AttemptRetracted)
    }
    if not failed:
        return set()
    return {e.call_id for e in recorded.events if isinstance(e, ev.ToolCallStart) and e.attempt in failed}


def without_stream_parts(recorded: RecordedRun) -> list[Event]:
    """The events of a run without stream parts (deltas), which are most events of a run."""
    return [event for event in recorded.events if type(event) not in ev.STREAM_PARTS]


# ---- user functions, and whatever else came from outside the loop


class StandIn:
    """A gate, judge, text rule or handler of which only the name is known."""

    def __init__(self, name: str) -> None:
        self.__module__, _, self.__qualname__ = name.partition(":")

    def __call__(self, *arguments: Any) -> Any:
        """Always raises LookupError: it is called only where the record has no verdict of it."""
        raise LookupError("the record holds no verdict of this function")


class RecordedEvaluator(StandIn):
    """The evaluator of a recorded run: gives the recorded verdict, if the replay ended like the record."""

    def __init__(self, recorded: RecordedRun, evaluated: ev.EvaluationFinished, reach: Callable[[int], None]) -> None:
        super().__init__(evaluated.name)
        self._recorded = recorded
        self._evaluated = evaluated
        self._reach = reach

    def __call__(self, evaluated: EvaluationInput) -> Evaluation:
        """The recorded verdict. Raises LookupError if there is none, or the replay ended differently."""
        finished = self._recorded.finished
        if finished is not None and _end(finished.outcome) != _end(evaluated.outcome):
            raise LookupError("the replay ended differently, so the recorded verdict does not apply")
        if self._evaluated.verdict == "not_run":
            raise LookupError(str(self._evaluated.details.get("error") or "there was no verdict"))
        self._reach(self._evaluated.t)
        return Evaluation(passed=self._evaluated.verdict == "passed", details=self._evaluated.details)


def _end(outcome: Outcome) -> tuple[str, int, str]:
    return outcome.stop_reason, outcome.steps, outcome.answer


def recorded_evaluator(recorded: RecordedRun, reach: Callable[[int], None]) -> RecordedEvaluator | None:
    """The evaluator of a recorded run, if it had one. `reach`: sets the time of the replay, in milliseconds."""
    found = next((e for e in reversed(recorded.events) if isinstance(e, ev.EvaluationFinished)), None)
    return None if found is None else RecordedEvaluator(recorded, found, reach)


class RecordedEffects:
    """What came from outside the loop in a recorded run, for its replay.

    That is verdicts of user functions, the user's messages and replies, budget refusals, limits on time, responses and
    failed attempts. `reach`: called with the time of each that is used, in milliseconds since the run began.
    """

    def __init__(self, recorded: RecordedRun, reach: Callable[[int], None]) -> None:
        self._reach = reach
        events = without_stream_parts(recorded)
        results = [event for event in events if isinstance(event, ev.ToolCallResult)]
        self.lost = {result.call_id for result in results if result.status == "unknown"}
        """Calls that were open when the process was killed, and were answered `unknown`."""
        self.ended = {result.call_id for result in results if result.status in ("ok", "error")}
        """Calls that ran to their end."""
        self.answered_late = _answered_late(recorded, events)
        """Calls that never ran and were answered after their response was complete."""
        self._results = {result.call_id: result for result in results}
        self._responses = {event.step: event for event in events if isinstance(event, ev.ResponseFinished)}
        self._replies = _replies_in(events)
        self._messages = _messages_by_step(events)
        self._failed = _failed_before_kill(events)
        self._refused = _refusals_by_step(events)
        self._limits = _limits_by_step(events)
        self._verdicts: dict[tuple[str, str, str | None], deque[ev.VerdictGiven]] = {}
        self._stand_ins: dict[str, dict[str, StandIn]] = {}
        for event in events:
            if isinstance(event, ev.VerdictGiven):
                self._verdicts.setdefault((event.role, event.name, event.call_id), deque()).append(event)
                self._stand_ins.setdefault(event.role, {}).setdefault(event.name, StandIn(event.name))

    def __call__(self, role: str, name: str, call_id: str | None) -> ev.VerdictGiven | None:
        """The next recorded verdict of this function about this call; None if there is none."""
        left = self._verdicts.get((role, name, call_id))
        if not left:
            return None
        self._reach(left[0].t)
        return left.popleft()

    def reply(self, call_id: str) -> Reply | None:
        """How the user's reply to the confirmation of this call was understood; None if there was none."""
        return self._replies.get(call_id)

    def fingerprint(self, call_id: str, content: str) -> str:
        """The fingerprint of the recorded result of this call, if the result has this content; else empty."""
        result = self._results.get(call_id)
        return result.fingerprint if result is not None and result.content == content else ""

    def refused(self, step: int) -> ev.BudgetRefused | None:
        """The refusal of a shared budget because of which this step was not made; None if there was none."""
        refused = self._refused.get(step)
        if refused is not None:
            self._reach(refused.t)
        return refused

    def reached(self, step: int, *, begun: bool) -> ev.LimitReached | None:
        """The limit that was reached in this step (`begun`) or before it began; returned once, then None."""
        reached = self._limits.pop((step, begun), None)
        if reached is not None:
            self._reach(reached.t)
        return reached

    def failed_before(self, step: int) -> Sequence[ev.AttemptFailed]:
        """The attempts of this step that failed before the process was killed and the step started again."""
        return self._failed.get(step, ())

    def response(self, step: int) -> ev.ResponseFinished | None:
        """The recorded response of this step."""
        return self._responses.get(step)

    def heard(self, step: int) -> list[ev.MessageAdded]:
        """The user's messages that were delivered before this step; returned once."""
        heard = self._messages.pop(step, [])
        if heard:
            self._reach(heard[-1].t)
        return heard

    def stand_ins(self, role: str) -> list[Any]:
        """A `StandIn` for each function of this role, in the order of their first verdicts."""
        return list(self._stand_ins.get(role, {}).values())

    def stand_in(self, role: str) -> Any:
        """The `StandIn` for the first function of this role; None if there is none."""
        return next(iter(self._stand_ins.get(role, {}).values()), None)


def _replies_in(events: Sequence[ev.Event]) -> dict[str, Reply]:
    """How the user's replies to confirmations were understood, by call id."""
    replies: dict[str, Reply] = {}
    for event in events:
        match event:
            case ev.QuestionAnswered(call_id=id, says=str() as says):
                replies[id] = says
            case ev.CompletionAccepted(call_id=id):  # older records do not say how a reply was understood
                replies.setdefault(id, "yes")
            case ev.CompletionRejected(call_id=id, by="user"):
                replies.setdefault(id, "no")
            case _:
                pass
    return replies


def _messages_by_step(events: Sequence[ev.Event]) -> dict[int, list[ev.MessageAdded]]:
    """The user's messages during the run, by the step before which they were delivered."""
    messages: dict[int, list[ev.MessageAdded]] = {}
    waiting: list[ev.MessageAdded] = []
    for event in events:
        if isinstance(event, ev.MessageAdded) and event.origin == "user":
            waiting.append(event)
        elif isinstance(event, ev.StepStarted) and waiting:
            messages.setdefault(event.step, []).extend(waiting)
            waiting = []
    return messages


def _failed_before_kill(events: Sequence[ev.Event]) -> dict[int, list[ev.AttemptFailed]]:
    """Failed attempts of steps that were interrupted by a kill and started again, by step."""
    failures: dict[int, list[ev.AttemptFailed]] = {}
    failed: list[ev.AttemptFailed] = []
    step: int | None = None
    for event in events:
        if isinstance(event, ev.AttemptFailed):
            failed.append(event)
        elif isinstance(event, ev.StepStarted):
            if event.step == step:
                failures.setdefault(step, []).extend(failed)
            failed, step = [], event.step
    return failures


def _refusals_by_step(events: Sequence[ev.Event]) -> dict[int, ev.BudgetRefused]:
    """Refusals of a shared budget, by the step that was not made because of it."""
    refused: dict[int, ev.BudgetRefused] = {}
    for event in events:
        if isinstance(event, ev.BudgetRefused):
            refused[event.step] = event
        elif isinstance(event, ev.StepStarted):
            refused.pop(event.step, None)  # made after all: the process was killed, and another budget had room
    return refused


def _limits_by_step(events: Sequence[ev.Event]) -> dict[tuple[int, bool], ev.LimitReached]:
    """Limits that were reached, by step and whether the step had begun."""
    reached: dict[tuple[int, bool], ev.LimitReached] = {}
    step: int | None = None
    for event in events:
        if isinstance(event, ev.LimitReached):
            reached[event.step, event.step == step] = event
        elif isinstance(event, ev.RunResumed) and step is not None and event.interrupted_step == step:
            reached.pop((step, True), None)  # the step is started again
        elif isinstance(event, ev.StepStarted):
            step = event.step
            reached.pop((step, False), None)
    return reached


def _answered_late(recorded: RecordedRun, events: Sequence[ev.Event]) -> set[str]:
    """The calls that never ran and were answered after their response. Empty if the record never says what ran."""
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
