"""The effects of a run that continues: answered from the record of its open round, then by other effects."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from anyio.lowlevel import checkpoint

from .decision import Event, Image, ToolCall, ToolSpec
from .decision import events as ev
from .decision.compared_results import ComparedResult
from .decision.step_history import StepJudgement
from .decision.transcript import PROCESS_DIED
from .effects import EffectKey, Effects, Response
from .event_log import Log
from .hooks import Verdict
from .recorded_events import A_CALL
from .recorded_values import recorded_values
from .records.format import REDACTION_MARK
from .records.qualified_names import current_name
from .resume_point import ResumePoint
from .tools.results import CallOutcome, Phase, SubagentAsks
from .until_events import RecordedChecks

OUR_REDACTION = "endstop.records.redaction:Redaction"
_MISSING: Any = object()


def _name_effect(key: EffectKey) -> str:
    if key.call_id:
        return A_CALL
    if key.kind == "room":
        return f"STEP_STARTED {key.step}"
    return f"VERDICT_GIVEN {key.kind} {key.name}" if key.name else f"{key.kind} {key.step}"


class RecordedRound:
    """Effects of a run that continues: answered from the record of the open round, then by other effects.

    A call that had begun and has no result is not answered here, but in `tool_execution.py`. A call whose arguments
    exist only in redacted form cannot be run, and its result is `unknown`.
    """

    def __init__(self, point: ResumePoint, log: Log, then: Effects) -> None:
        """Take the recorded answers of the open round. then: does what the record does not hold."""
        self._log = log
        self._then = then
        self._tools = point.started.tools
        self._redaction = point.started.functions.get("redaction", ())
        events = [event for number, event in enumerate(point.events) if number not in point.void]
        self._steps: dict[int, Response | None] = _responses(events)
        self._calls = {
            call.id: call
            for found in self._steps.values()
            if found is not None
            for call in found.finished.message.calls
        }
        self._values = _values(events, self._tools)
        self._started = {event.call_id for event in events if isinstance(event, ev.ToolExecutionStarted)}
        self._closing = any(isinstance(e, ev.MessageAdded) and e.origin == "closing" for e in events)
        self._refusals: dict[int, Event] = {}
        if self._steps:  # a refusal before the first step of a round is not reused: another budget may have room
            self._refusals = {e.step: e for e in events if isinstance(e, ev.BudgetRefused | ev.LimitReached)}
        self._checks = RecordedChecks(events)
        self._round_started = any(isinstance(event, ev.RoundStarted) for event in events)
        self._settled_claims = _settled_claims(events)
        """Steps in which a completion or a report of the model was answered."""
        self._verdicts: dict[tuple[str, str, str], deque[Any]] = {}
        for event in events:
            match event:
                case ev.VerdictGiven():
                    self._keep(event.role, event.name, event.call_id, Verdict(event.said, event.detail, event.usage))
                case ev.EvaluationFinished():
                    self._keep("evaluator", event.name, None, (event.verdict, event.details))
                case _:
                    pass

    async def once(self, key: EffectKey, work: Callable[[], Awaitable[Any]]) -> Any:
        """Return the recorded result if there is one; otherwise go beyond the record and do the effect."""
        known = self._known(key) if self._log.has_past else _MISSING
        if known is not _MISSING:
            return known
        if self._log.catching_up:
            self._log.end_past(_name_effect(key))
            await checkpoint()  # a run that was already cancelled does nothing new
        return await self._then.once(key, work)

    def began(self, key: EffectKey) -> bool:
        """Return whether the record holds the beginning; False once the run is beyond all of the record."""
        if not self._log.has_past:
            return False
        return key.step in self._steps if key.kind == "response" else key.call_id in self._started

    def has_result(self, call_id: str) -> bool:
        """Return whether the record holds the result."""
        return call_id in self._values

    def may_start_early(self, call_id: str) -> bool:
        """Return whether this call may start before its response is complete."""
        return self._then.may_start_early(call_id)

    def fingerprint(self, call: ToolCall, content: str, images: tuple[Image, ...], compared: ComparedResult) -> str:
        """Return the fingerprint of this result of a call."""
        return self._then.fingerprint(call, content, images, compared)

    def judgement(self, step: int, results: Sequence[ev.ToolCallResult]) -> StepJudgement | None:
        """Return the judgement from the next effects. The log takes a recorded end of a step from the record itself."""
        return self._then.judgement(step, results)

    def settled(self, step: int) -> Sequence[Event] | None:
        """Return the events with which another program's loop settled the calls of this step, if there are any."""
        return self._then.settled(step)

    def has_decision(self, steps: int) -> bool:
        """Return whether another program's loop made another decision after this many steps."""
        return self._then.has_decision(steps)

    def _keep(self, role: str, name: str, call_id: str | None, said: Any) -> None:
        self._verdicts.setdefault((role, name, call_id or ""), deque()).append(said)

    @property
    def _has_system_prompt(self) -> bool:
        """Whether the record has an answer of the system prompt's function. It is called only if the step has room."""
        return any(said for (role, _, _), said in self._verdicts.items() if role == "system")

    def _known(self, key: EffectKey) -> Any:
        match key.kind:
            case "response":
                return self._steps.get(key.step, _MISSING)
            case "call":
                return self._value(key.call_id)
            case "check_start" | "check":
                return self._check(key)
            case "room":
                made = key.step in self._steps or self._closing or self._has_system_prompt
                return None if made else self._refusals.get(key.step, _MISSING)
            case _:
                said = self._verdicts.get((key.kind, key.name, key.call_id))
                return said.popleft() if said else _MISSING

    def _check(self, key: EffectKey) -> Any:
        """Return the recorded event of a check; None where the run passed this place without one."""
        event = self._checks.take(key)
        if event is not None:
            return event
        if key.kind == "check":  # a check that was running when the process died is not running now
            return None if self._log.catching_up else _MISSING
        match key.name:
            case "start":
                return None if self._round_started else _MISSING
            case "step":
                return None if key.step + 1 in self._steps or self._closing or self._has_system_prompt else _MISSING
            case "claim":
                return None if key.step in self._settled_claims else _MISSING
            case _:
                return _MISSING

    def _value(self, call_id: str) -> Any:
        call = self._calls.get(call_id)
        if call_id in self._values or call is None or not self._may_be_redacted(call):
            return self._values.get(call_id, _MISSING)
        return CallOutcome(content=PROCESS_DIED, status="unknown")

    def _may_be_redacted(self, call: ToolCall) -> bool:
        return may_be_redacted(call, self._redaction)


def may_be_redacted(call: ToolCall, redaction: Sequence[str]) -> bool:
    """Return whether the recorded arguments of a call may differ from those that the model wrote.

    redaction: names of the functions that redacted the record (`RunStarted.functions`).
    """
    if not redaction:
        return False
    return REDACTION_MARK in call.arguments or tuple(map(current_name, redaction)) != (OUR_REDACTION,)


def _settled_claims(events: Sequence[Event]) -> set[int]:
    step, settled = 0, set[int]()
    for event in events:
        if isinstance(event, ev.StepStarted):
            step = event.step
        elif isinstance(event, ev.CompletionAccepted | ev.CompletionRejected | ev.BlockReported):
            settled.add(step)
    return settled


def _responses(events: Sequence[Event]) -> dict[int, Response | None]:
    """Return the responses of the steps in these events, by step; None for a step that ended without one."""
    found: dict[int, Response | None] = {}
    complete: dict[str, list[str]] = {}
    for event in events:
        match event:
            case ev.StepStarted(step=step):
                found[step] = None
            case ev.ToolCallEnd(call_id=id, attempt=attempt):
                complete.setdefault(attempt, []).append(id)
            case ev.ResponseFinished(step=step, attempt=attempt):
                found[step] = Response(event, complete.get(attempt) or _all_complete(event))
            case _:
                pass
    return found


def _all_complete(response: ev.ResponseFinished) -> list[str]:
    """Return the complete calls of a response without a recorded stream."""
    broken_off = {*response.without_arguments, response.truncated}
    return [call.id for call in response.message.calls if call.id not in broken_off]


def _values(events: Sequence[Event], tools: Sequence[ToolSpec]) -> dict[str, Any]:
    """Return what the functions of calls returned, by call id; for calls that did not run, their result itself."""
    values: dict[str, Any] = {
        event.call_id: CallOutcome(content=event.content, status=event.status, images=event.images)
        for event in events
        if isinstance(event, ev.ToolCallResult)
    }
    values |= {id: recorded.value for id, recorded in recorded_values(events, tools).items()}
    return {id: value for id, value in values.items() if not _has_to_say_it_again(value)}


def _has_to_say_it_again(value: Any) -> bool:
    """Return whether the record may hold only a part of what a call returned.

    This is the case for a last phase without its acceptance, and for a sub-agent's questions, which are several events.
    """
    return isinstance(value, SubagentAsks) or (isinstance(value, Phase) and value.percentage >= 100)
