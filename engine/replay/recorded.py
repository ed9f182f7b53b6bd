"""The parts of a recorded run that a replay reuses: tool results, verdicts of user functions, limits reached."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from math import inf
from types import MappingProxyType
from typing import Any

import msgspec

from ..budget import BudgetShare
from ..decision import AnyChunk, AssistantMessage, Event, Image, Outcome, Policy, ToolCall, ToolSpec, Usage
from ..decision import events as ev
from ..decision.compared_results import ComparedResult
from ..decision.confirmation import Reply
from ..decision.run_origin import is_foreign
from ..decision.step_history import StepJudgement
from ..decision.transcript import PROCESS_DIED, estimate_tokens, message_size
from ..effects import EffectKey, Live
from ..evaluation import Evaluation, EvaluationInput
from ..event_log import Log
from ..hard_limits import BYTES_PER_TOKEN, HardLimits, ResponseMeter
from ..hooks import Verdict
from ..providers.clock import Clock
from ..records.reader import RecordedRun
from ..tools.results import CallOutcome
from ..tools.schema import InvalidArguments
from ..tools.tool import Tool
from ..until_events import WAITING_PLACES, RecordedChecks
from .recorded_decisions import LoopDecisions


class RecordedTool(Tool):
    """A tool of a recorded run, without a function.

    complaints: the error messages for invalid arguments, by the arguments' text. not_final: the arguments' texts of
    completions that could not be the last one. approval: stand-in for the function that told whether a call needs
    approval; None if it was asked about none of the tool's calls.
    """

    def __init__(
        self,
        spec: ToolSpec,
        complaints: Mapping[str, str],
        not_final: frozenset[str],
        approval: StandIn | None,
    ) -> None:
        self.name, self.kind = spec.name, spec.kind
        self.spec = spec
        self.timeout = self.check = self.inner = self.folder = None
        self.approval = approval or spec.approval
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
        """Return whether a completion with these arguments could be the last one."""
        return arguments["arguments"] not in self._not_final

    async def run(self, arguments: Mapping[str, Any]) -> Any:
        """Raise NotImplementedError: a replay answers calls from the record."""
        raise NotImplementedError("a recorded tool has no function")


_PARTS = frozenset({ev.ToolCallStart, ev.ToolCallArgs, ev.ResponseFinished})


def recorded_tools(recorded: RecordedRun) -> list[Tool]:
    """Return the tools of a recorded run, including called tools that are not listed, as in other programs' records."""
    calls: dict[str, tuple[str, list[str]]] = {}
    approvals: dict[str, StandIn] = {}
    noted: list[tuple[ev.ToolCallResult | ev.ToolCallEnd, str | None]] = []
    specs = {spec.name: spec for spec in recorded.started.tools}
    for event in recorded.events:
        kind = type(event)
        if kind in _PARTS:
            _collect_arguments(event, calls)
        elif isinstance(event, ev.VerdictGiven) and event.role == "approval" and event.call_id in calls:
            approvals[calls[event.call_id][0]] = StandIn(event.name)
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
        given = {"".join(pieces)} if until_then is None else {"".join(pieces), until_then}  # more deltas followed
        if isinstance(event, ev.ToolCallResult):
            complaints.setdefault(name, {}).update(dict.fromkeys(given, event.content))
        else:
            not_final.setdefault(name, set()).update(given)
    return [
        RecordedTool(spec, complaints.get(name, {}), frozenset(not_final.get(name, ())), approvals.get(name))
        for name, spec in specs.items()
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


def void_calls(recorded: RecordedRun) -> set[str]:
    """Return the ids of the calls of failed or retracted attempts. They have no result, even if they had started."""
    failed = {
        e.attempt for e in without_stream_parts(recorded) if isinstance(e, ev.AttemptFailed | ev.AttemptRetracted)
    }
    if not failed:
        return set()
    return {e.call_id for e in recorded.events if isinstance(e, ev.ToolCallStart) and e.attempt in failed}


def without_stream_parts(recorded: RecordedRun) -> list[Event]:
    """Return the events of a run without stream parts (deltas), which are most events of a run."""
    return [event for event in recorded.events if type(event) not in ev.STREAM_PARTS]


# ---- user functions and other input from outside the loop


class StandIn:
    """A gate, judge, text rule or handler of which only the name is known."""

    def __init__(self, name: str) -> None:
        self.__module__, _, self.__qualname__ = name.partition(":")

    def __call__(self, *arguments: Any) -> Any:
        """Raise LookupError: it is called only where the record has no verdict of it."""
        raise LookupError("the record holds no verdict of this function")


class RecordedEvaluator(StandIn):
    """Evaluator of a recorded run, which returns the recorded verdict if the replay ended like the record."""

    def __init__(self, recorded: RecordedRun, evaluated: ev.EvaluationFinished, reach: Callable[[int], None]) -> None:
        super().__init__(evaluated.name)
        self._recorded = recorded
        self._evaluated = evaluated
        self._reach = reach

    def __call__(self, evaluated: EvaluationInput) -> Evaluation:
        """Return the recorded verdict. Raises LookupError if there is none, or the replay ended differently."""
        finished = self._recorded.finished
        if finished is not None and _end(finished.outcome) != _end(evaluated.outcome):
            raise LookupError("the replay ended differently, so the recorded verdict does not apply")
        if self._evaluated.verdict == "not_run":
            raise LookupError(str(self._evaluated.details.get("error") or "there was no verdict"))
        self._reach(self._evaluated.t)
        return Evaluation(passed=self._evaluated.verdict == "passed", details=self._evaluated.details)


def _end(outcome: Outcome) -> tuple[str, int, str]:
    return outcome.stop_reason, outcome.steps, outcome.answer


def recorded_function(started: ev.RunStarted, role: str) -> StandIn | None:
    """Return the user's function of a recorded run in a role with at most one function, such as the compactor."""
    return next(map(StandIn, started.functions.get(role, ())), None)


def recorded_check(events: Sequence[Event]) -> StandIn | None:
    """Return the check of a recorded run, if it had one."""
    return next((StandIn(f":{event.name}") for event in events if isinstance(event, ev.CheckStarted)), None)


def recorded_evaluator(recorded: RecordedRun, reach: Callable[[int], None]) -> RecordedEvaluator | None:
    """Return the evaluator of a recorded run, if it had one. `reach`: sets the time of the replay, in milliseconds."""
    found = next((e for e in reversed(recorded.events) if isinstance(e, ev.EvaluationFinished)), None)
    return None if found is None else RecordedEvaluator(recorded, found, reach)


class RecordedEffects(Live):
    """Effects of a replayed run: verdicts of user functions, refusals of a budget, failed attempts.

    Responses and results of tools come through the provider and the `execute` of the replay (`player.py`), so that
    they are processed, cut and settled as they were.

    reach: called with the time of each effect that is used, in milliseconds since the run began. hang: awaited where
    the run waited for a check whose answer is not in the record. decisions: decisions of the record. live: whether
    tools are really called.
    """

    def __init__(
        self,
        recorded: RecordedRun,
        reach: Callable[[int], None],
        hang: Callable[[], Awaitable[None]],
        decisions: LoopDecisions,
        *,
        live: bool,
    ) -> None:
        self._reach = reach
        self._hang = hang
        self._decisions = decisions
        self._log: Log | None = None
        events = without_stream_parts(recorded)
        results = [event for event in events if isinstance(event, ev.ToolCallResult)]
        self._unknown = {result.call_id for result in results if result.status == "unknown"}
        """Calls that were open when the process was killed and were answered `unknown`."""
        self._ended = {result.call_id for result in results if result.status in ("ok", "error")}
        """Calls that ran to their end."""
        self._settled = _settled(events) if is_foreign(recorded.started.engine) and not live else None
        """How another loop settled the calls of each step, because its rules differ from the engine's."""
        self._answered_late = _answered_late(recorded, events)
        """Calls that never ran and were answered after their response was complete."""
        self._results = {result.call_id: result for result in results}
        asked = {e.asker.call_id: e.seq for e in reversed(events) if isinstance(e, ev.QuestionAsked) and e.asker}
        self._returned = {id: result.seq for id, result in self._results.items()} | asked
        """Number of the first event that follows from a call's result, by the call's id."""
        self._responses = {event.step: event for event in events if isinstance(event, ev.ResponseFinished)}
        self._estimates = {
            event.attempt: event.usage
            for event in events
            if isinstance(event, ev.ResponseFinished | ev.AttemptFailed) and event.usage and event.usage.estimated
        }
        """Estimated usage, by attempt."""
        self._judged = {event.step: event.judged for event in events if isinstance(event, ev.StepFinished)}
        self._failed = _failed_before_kill(events)
        self._refused = _refusals_by_step(events)
        self._limits = _limits_by_step(events)
        self._step_ends = {event.step: event for event in events if isinstance(event, ev.StepFinished)}
        about = (event for event in events if isinstance(event, ev.SubagentStarted | ev.SubagentUsed))
        self._subagents: deque[Event] = deque(() if live else about)
        """Recorded events about sub-agents that are not logged yet; empty if live tools run their sub-agents again."""
        self._checks = RecordedChecks(events)
        self._verdicts: dict[tuple[str, str, str], deque[ev.VerdictGiven]] = {}
        self._stand_ins: dict[str, dict[str, StandIn]] = {}
        for event in events:
            if isinstance(event, ev.VerdictGiven):
                key = (event.role, event.name, event.call_id or "")
                self._verdicts.setdefault(key, deque()).append(event)
                self._stand_ins.setdefault(event.role, {}).setdefault(event.name, StandIn(event.name))

    def effects(self, log: Log) -> RecordedEffects:
        """Return the effects of a run; see `ReplaySource`."""
        self._log = log
        return self

    def limits(self, log: Log, policy: Policy, clock: Clock) -> RecordedLimits:
        """Return the limits of a run; see `ReplaySource`."""
        take = partial(self._take_limit, begun=True)
        return RecordedLimits(log, policy, clock, take, self._responses, self._estimates, self._end_step)

    async def once(self, key: EffectKey, work: Callable[[], Awaitable[Any]]) -> Any:
        """Return the recorded result of the work; see `Effects`."""
        match key.kind:
            case "room":
                return self._refusal(key.step)
            case "check_start" | "check":
                event = self._checks.take(key)
                if event is not None:
                    self._reach(event.t)
                elif key.kind == "check" and key.name in WAITING_PLACES and self._checks.running:
                    await self._hang()
                return event
            case "response":
                assert self._log is not None
                for failed in self._failed.get(key.step, ()):
                    self._log.append(failed)
            case "call" if key.call_id in self._unknown:
                return CallOutcome(content=PROCESS_DIED, status="unknown")
            case "call":
                value = await work()
                self._log_subagents(self._returned.get(key.call_id, 0))
                return value
            case _:
                verdict = self._verdict(key)
                if verdict is not None:
                    return verdict
        return await work()

    def _end_step(self, step: int) -> None:
        ended = self._step_ends.get(step)
        if ended is not None:
            self._log_subagents(ended.seq)
            self._reach(ended.t)

    def _log_subagents(self, before: int) -> None:
        """Log the recorded events about sub-agents that came before event `before`, because no call runs them here."""
        assert self._log is not None
        while self._subagents and self._subagents[0].seq < before:
            self._log.append(self._subagents.popleft())

    def has_result(self, call_id: str) -> bool:
        """Return whether this call ran to its end, and thus before more of its arguments arrived."""
        return call_id in self._ended

    def may_start_early(self, call_id: str) -> bool:
        """Return whether this call may start early: not if it never ran and got its result after the response."""
        return self._settled is None and call_id not in self._answered_late and call_id not in self._unknown

    def fingerprint(self, call: ToolCall, content: str, images: tuple[Image, ...], compared: ComparedResult) -> str:
        """Return the recorded fingerprint of the same result, because redaction can make different results equal."""
        result = self._results.get(call.id)
        recorded = result.fingerprint if result is not None and result.content == content else ""
        return recorded or super().fingerprint(call, content, images, compared)

    def judgement(self, step: int, results: Sequence[ev.ToolCallResult]) -> StepJudgement | None:
        """Return the recorded judgement of the same results, because it was made before redaction."""
        same = all(self._is_recorded(result) for result in results)
        return self._judged.get(step) if same else None

    def settled(self, step: int) -> Sequence[Event] | None:
        """Return the events that settled the step; see `Effects`. The time is set to that of the last one."""
        if self._settled is None:
            return None
        events = self._settled.get(step, ())
        if events:
            self._reach(events[-1].t)
        return events

    def has_decision(self, steps: int) -> bool:
        """Return whether the record of another loop has another decision after this many steps."""
        return self._decisions.has_decision(steps)

    def _is_recorded(self, result: ev.ToolCallResult) -> bool:
        recorded = self._results.get(result.call_id)
        return recorded is not None and (recorded.content, recorded.status) == (result.content, result.status)

    def _verdict(self, key: EffectKey) -> Verdict | None:
        left = self._verdicts.get((key.kind, key.name, key.call_id))
        if not left:
            return None
        event = left.popleft()
        self._reach(event.t)
        return Verdict(event.said, event.detail, event.usage)

    def _refusal(self, step: int) -> ev.BudgetRefused | ev.LimitReached | None:
        """Return why this step was not made; None if it was."""
        refused = self._take_limit(step, begun=False) or self._refused.get(step)
        if refused is not None:
            self._reach(refused.t)
        return refused

    def _take_limit(self, step: int, *, begun: bool) -> ev.LimitReached | None:
        """Return the limit that was reached in this step (`begun`) or before it began. It is returned only once."""
        reached = self._limits.pop((step, begun), None)
        if reached is not None:
            self._reach(reached.t)
        return reached

    def stand_ins(self, role: str) -> list[Any]:
        """Return a `StandIn` for each function of this role, in the order of their first verdicts."""
        return list(self._stand_ins.get(role, {}).values())

    def stand_in(self, role: str) -> Any:
        """Return the `StandIn` for the first function of this role; None if there is none."""
        return next(iter(self._stand_ins.get(role, {}).values()), None)


class RecordedLimits(HardLimits):
    """Limits of a replayed run: they are reached where the record says so, without a clock or meter.

    take: takes the limit that was reached in a step that had begun. responses: the recorded responses, by step.
    estimates: estimated usage, by attempt. on_end: called with each step that ends.
    """

    def __init__(
        self,
        log: Log,
        policy: Policy,
        clock: Clock,
        take: Callable[[int], ev.LimitReached | None],
        responses: Mapping[int, ev.ResponseFinished],
        estimates: Mapping[str, Usage],
        on_end: Callable[[int], None],
    ) -> None:
        super().__init__(log, policy, clock)
        self._on_end = on_end
        self._take = take
        self._responses = responses
        self._estimates = estimates

    def seconds_left(self) -> None:
        """Return None."""

    def used_up(self, step: int) -> str:
        """Return "": an attempt that was not made is not in the record."""
        return ""

    def end_step(self, step: int) -> None:
        """Log the limit that was reached in this step, after the usage of its sub-agents."""
        self._on_end(step)
        if not self.reached and (reached := self._take(step)) is not None:
            self.record(reached)

    def cut_without_end(self, step: int) -> str:
        """Return why this step's response was cut."""
        response = self._responses.get(step)
        if response is None or not response.cut_for:
            return ""
        self.end_step(step)
        return response.cut_for

    def repetition_detector(self) -> None:
        """Return None: the record says where a response was cut."""

    def meter(
        self, step: int, input_tokens: int, priced: Callable[[Usage, str], Usage], share: BudgetShare | None
    ) -> ResponseMeter:
        """Return a meter that never cuts, and that knows the estimates."""
        meter = RecordedMeter(self, step, input_tokens, priced, share, inf)
        meter.estimates = self._estimates
        return meter


class RecordedMeter(ResponseMeter):
    """Meter of a replayed response."""

    estimates: Mapping[str, Usage] = MappingProxyType({})
    """Estimates in the record, by attempt."""

    def count(self, chunk: AnyChunk) -> None:
        """Do nothing."""

    def limit_to_cut_for(self, t: int) -> str:
        """Return ""."""
        return ""

    def has_room_for(self, chunk: AnyChunk) -> bool:
        """Return True."""
        return True

    def estimate(self, reported: Usage, message: AssistantMessage, attempt: str) -> Usage:
        """Return the recorded estimate; if there is none for an attempt, one from the message's size."""
        recorded = self.estimates.get(attempt)
        if recorded is not None:
            return recorded
        self.written = BYTES_PER_TOKEN * estimate_tokens(message_size(message))
        return super().estimate(reported, message, attempt)


def recorded_replies(events: Sequence[ev.Event]) -> dict[str, Reply]:
    """Return how the user's replies to confirmations were understood, by call id."""
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


def recorded_messages(events: Sequence[ev.Event]) -> dict[int, list[ev.MessageAdded]]:
    """Return the user's messages during the run, by the step before which they were delivered."""
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
    """Return the failed attempts of steps that were interrupted by a kill and restarted, by step."""
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
    """Return the refusals of a shared budget, by the step that was not made because of it."""
    refused: dict[int, ev.BudgetRefused] = {}
    for event in events:
        if isinstance(event, ev.BudgetRefused):
            refused[event.step] = event
        elif isinstance(event, ev.StepStarted):
            refused.pop(event.step, None)  # the step was made: the process was killed, and another budget had room
    return refused


def _limits_by_step(events: Sequence[ev.Event]) -> dict[tuple[int, bool], ev.LimitReached]:
    """Return the limits that were reached, by step and whether the step had begun."""
    reached: dict[tuple[int, bool], ev.LimitReached] = {}
    step: int | None = None
    for event in events:
        if isinstance(event, ev.LimitReached):
            reached[event.step, event.step == step] = event
        elif isinstance(event, ev.RunResumed) and step is not None and event.interrupted_step == step:
            reached.pop((step, True), None)  # the step is restarted, or another limit is reached before it
            step = None
        elif isinstance(event, ev.StepStarted):
            step = event.step
            if not event.closing:
                reached.pop((step, False), None)
    return reached


_SETTLES = (
    ev.ToolExecutionStarted
    | ev.ToolCallResult
    | ev.CompletionAccepted
    | ev.CompletionRejected
    | ev.PhaseReported
    | ev.QuestionAsked
    | ev.ThoughtRecorded
)


def _settled(events: Sequence[ev.Event]) -> dict[int, list[ev.Event]]:
    """Return the events of the calls of each step, by step."""
    settled: dict[int, list[ev.Event]] = {}
    step = 0
    for event in events:
        if isinstance(event, ev.StepStarted):
            step = event.step
        elif isinstance(event, _SETTLES):
            settled.setdefault(step, []).append(event)
    return settled


def _answered_late(recorded: RecordedRun, events: Sequence[ev.Event]) -> set[str]:
    """Return the calls that never ran and were answered after their response; empty if no run of calls is recorded."""
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
