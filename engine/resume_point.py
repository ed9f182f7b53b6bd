"""Finds the point from which a run continues whose process was killed, and replays the recorded part of its open round.

State is folded from the record up to the last decision. The round after it is run again by the ordinary loop: effects
are answered from the record (`RecordedRound`), and the events that the record holds are recognised instead of written
once more (`RecordedEvents`). Where the record ends, the run is live.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

import msgspec
from anyio.lowlevel import checkpoint
from msgspec.structs import replace

from .decision import Decision, Event, Facts, GoOn, Image, StepJudge, Stop, ToolCall, ToolSpec, WrongUse, fold
from .decision import events as ev
from .decision.decide import applies_before_first_step
from .decision.decisions import made_by_policy
from .decision.step_history import StepHistory, StepJudgement
from .decision.transcript import PROCESS_DIED
from .durability import ResumeRefused
from .effects import EffectKey, Effects, Response
from .event_log import Log
from .hooks import Verdict
from .recorded_values import recorded_values
from .records.format import REDACTION_MARK, DrainedChunk
from .records.qualified_names import current_name
from .tools.results import CallOutcome, Phase, SubagentAsks

OUR_REDACTION = "endstop.records.redaction:Redaction"

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
    ev.ContextCompacted: ("strategy", "in_vain"),
    ev.StepFinished: ("step",),
    ev.CancelRequested: (),
    ev.StageFinished: ("stage",),
    ev.EvaluationFinished: (),
}
"""By which fields an event of the loop is recognised in the record. Events of other types come with the one after."""
_HOOKS = ("gate", "judge", "text_rule", "handler", "system")
"""Roles of hooks that an engine has by name."""
_DELTAS = ev.STREAM_PARTS - {ev.ToolCallEnd}
_SETTLES = (ev.CompletionAccepted, ev.CompletionRejected, ev.QuestionAsked, ev.ToolCallResult)
"""Events with the result of a call."""
_BOUNDARIES = (ev.StepStarted, ev.StepFinished, ev.DecisionMade, ev.RunFinished)
"""Once the run appends a new one of these, nothing before it in the record can still be recognised."""


@dataclass(slots=True)
class ResumePoint:
    """The state of a run whose record has no end."""

    before: Sequence[Event]
    """The events up to the last decision, or the first event if there is no decision; without deltas."""
    facts: Facts
    """The facts after `before`."""
    history: StepHistory
    """The memory of the steps in `before`, to judge those that follow."""
    latest: Facts
    """The facts after all events."""
    events: Sequence[Event]
    """The events after `before`, without deltas."""
    void: Set[int]
    """Positions in `events` of those of which nothing is repeated: of interrupted steps and failed attempts."""
    started: ev.RunStarted
    interrupted_step: int | None
    """The step whose response is incomplete, which is requested again; None if there is none."""
    last: Event
    """The last event, a stream part perhaps."""
    decision: Decision | None = None
    """The last decision, which the loop acts on first."""
    decided_at: int = 0
    """Sequence number of the last decision."""
    decided_on: Facts = field(default_factory=Facts)
    """The facts of which the last decision was made."""
    no_next_step_prompt: bool = False
    """Whether a handler asked for no next-step prompt."""
    due: bool = False
    """Whether the next event is a decision that is not made yet: the run is a fork without one of its own."""
    copies: Sequence[Event | DrainedChunk] = ()
    """For a fork that has not begun: the copied lines that its record begins with."""

    @classmethod
    def at(cls, events: Sequence[Event]) -> ResumePoint:
        """The resume point after these events of a run, the first of which is RUN_STARTED."""
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
        """The first recorded verdict of the open round whose hook is not among these any more; None if all are there.

        functions: names of the hooks by role. That the verdict is not repeated would show only at the end of its step,
        when the run has gone on already.
        """
        for number, event in enumerate(self.events):
            if isinstance(event, ev.VerdictGiven) and event.role in _HOOKS and number not in self.void:
                brought = functions.get(event.role, ())
                if event.name not in brought:
                    now = f"VERDICT_GIVEN {event.role} {', '.join(brought)}" if brought else f"no {event.role}"
                    return ev.ResumeDiverged(at=event.seq, recorded=_describe(event), now=now)
        return None

    def check_copy(self) -> None:
        """Raises WrongUse for a fork whose process was killed while it wrote its copy of the origin."""
        origin = self.started.origin
        if origin is not None and self.last.seq < origin.at - 1:
            raise WrongUse(
                f"run {self.started.run_id} is a fork whose process was killed before it had copied its origin "
                f"(event {self.last.seq} of {origin.at - 1}): nothing was done yet, so remove its record and fork "
                f"{origin.session_id} again"
            )

    def first_decision(self, decide: Callable[[Facts], Decision]) -> Decision:
        """The decision with which a fork begins. Before the first step no nudge applies, as in any run."""
        decision = decide(self.facts)
        if self.facts.attempt or applies_before_first_step(decision):
            return decision
        return GoOn(rule=decision.rule, why="no step has been made", trace=decision.trace)

    @property
    def answers(self) -> list[ev.QuestionAnswered]:
        """The user's answers with which the run began, if what follows from them is not settled by a decision yet."""
        return [event for event in self.events if isinstance(event, ev.QuestionAnswered)]

    def divergence(self, decide: Callable[[Facts], Decision]) -> ev.ResumeDiverged | None:
        """How the last decision would be another one now; None if it would be the same.

        decide: the run's function of decision. A decision that it did not make (a cancellation, an internal error) is
        not compared.
        """
        then = self.decision
        if then is None or not made_by_policy(then):
            return None
        now = decide(self.decided_on)
        if _comparable(now) == _comparable(then):
            return None
        return ev.ResumeDiverged(at=self.decided_at, recorded=_name_decision(then), now=_name_decision(now))


def _is_due(events: Sequence[Event]) -> bool:
    """Whether these are the events of a fork that has made no decision of its own."""
    started = events[0]
    if not isinstance(started, ev.RunStarted) or started.origin is None or events[-1].seq < started.origin.at - 1:
        return False
    return not any(isinstance(event, ev.DecisionMade) and event.seq >= started.origin.at for event in events)


def _fold(facts: Facts, events: Iterable[Event], judge: StepJudge) -> Facts:
    for event in events:
        facts = fold(facts, judge.feed(facts, event))
    return facts


def _with_current_name(event: Event) -> Event:
    """The event with the present name of the function that it names."""
    if isinstance(event, ev.VerdictGiven | ev.EvaluationFinished):
        return replace(event, name=current_name(event.name))
    return event


def _interrupted_step(events: Sequence[Event]) -> int | None:
    """The step that was in progress at the end of these events and whose response is incomplete."""
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
    """The decision without texts of a model or a user, as in `DECISION_MADE stop(completed) by finished`."""
    said = "go on" if isinstance(decision, GoOn) else str(decision)
    return f"DECISION_MADE {said} by {decision.rule}"


class RecordedEvents:
    """The events of the open round that the record holds already, for the log, which recognises them.

    Some of them the loop does not make by itself: a limit on time, a message of the user, the attempts at a response,
    a kill before. These are taken together with the next event that it makes.
    """

    def __init__(self, point: ResumePoint, diverged: ev.ResumeDiverged | None, *, strict: bool) -> None:
        """diverged: a difference that is known already. strict: raise ResumeRefused at the first difference."""
        self.ended = self.passed = False
        """See `Past`."""
        self._events: list[Event | None] = list(point.events)
        self._expected: list[int] = []
        self._others = deque[int]()
        self._by_identity: dict[tuple[Any, ...], deque[int]] = {}
        self._unsaid: list[Event] = [ev.RunResumed(interrupted_step=point.interrupted_step)]
        self._diverged = diverged
        self._told = any(isinstance(event, ev.ResumeDiverged) for event in point.events)
        self._strict = strict
        self._cancelled = any(isinstance(event, ev.CancelRequested) for event in point.events)
        void = point.void
        settled = {_call_of(event) for event in point.events if isinstance(event, _SETTLES)}
        for number, event in enumerate(point.events):
            ours = number not in void and not _is_from_outside(event)
            if isinstance(event, ev.VerdictGiven) and event.call_id is not None:
                ours = ours and event.call_id in settled  # else the call may end as `unknown`, and no gate is asked
            (self._expected if ours else self._others).append(number)
            if number not in void and (identity := _identity(event)) is not None:
                self._by_identity.setdefault(identity, deque()).append(number)

    def take(self, event: Event) -> Sequence[Event]:
        """The recorded form of this event, after those that come with it; empty if the record does not hold it."""
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
        """See `Past`. New are RUN_RESUMED, once, and RESUME_DIVERGED at the first difference."""
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
        """How the run differs, if it does not repeat a recorded event although it is beyond it.

        Events of calls may come in any order until their step ends, because calls run at the same time.
        """
        if self._cancelled or _is_of_call(new):
            return None
        for number in self._expected:
            event = self._events[number]
            if event is not None and (isinstance(new, _BOUNDARIES) or not _is_of_call(event)):
                now = new if isinstance(new, str) else _describe(new)
                return ev.ResumeDiverged(at=event.seq, recorded=_describe(event), now=now)
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
    return new == _A_CALL if isinstance(new, str) else bool(getattr(new, "call_id", None))


def _is_from_outside(event: Event) -> bool:
    """Whether the loop does not make this event by itself when it runs the round again."""
    match event:
        case ev.MessageAdded(origin="user") | ev.VerdictGiven(role="check"):
            return True
        case ev.ToolExecutionStarted() | ev.BudgetRefused() | ev.LimitReached() | ev.CancelRequested():
            return True
        case _:
            return type(event) not in _IDENTITY


def _void(events: Sequence[Event], interrupted_step: int | None) -> set[int]:
    """Positions of events of which nothing is repeated: of interrupted steps, and of calls of failed attempts."""
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
    """Positions of the events in a step about calls that its response does not hold."""
    response = next((event for event in events[begin:end] if isinstance(event, ev.ResponseFinished)), None)
    known = {call.id for call in response.message.calls} if response is not None else set()
    for number in range(begin, end):
        if isinstance(events[number], ev.StepFinished):
            break
        about = _call_of(events[number])
        if about and about not in known:
            yield number


def _call_of(event: Event) -> str | None:
    """The call of the run that an event is about; None if it is about none."""
    if isinstance(event, ev.QuestionAsked):
        return event.waiting_call
    return getattr(event, "call_id", None)


def _describe(event: Event) -> str:
    """The event's type and what it is about, as in `VERDICT_GIVEN gate tests:checked`."""
    about = (str(getattr(event, name)) for name in _IDENTITY.get(type(event), ()) if getattr(event, name) is not None)
    return " ".join((str(type(event).__struct_config__.tag), *about))


_MISSING: Any = object()
_A_CALL = "a call"


def _name_effect(key: EffectKey) -> str:
    if key.call_id:
        return _A_CALL
    if key.kind == "room":
        return f"STEP_STARTED {key.step}"
    return f"VERDICT_GIVEN {key.kind} {key.name}" if key.name else f"{key.kind} {key.step}"


class RecordedRound:
    """Effects of a run that continues: answered from the record of the open round, and where it ends by others.

    A call that had begun and has no result is not answered here: see `tool_execution.py`. One whose arguments exist
    only in redacted form cannot be run, and its result is `unknown`.
    """

    def __init__(self, point: ResumePoint, log: Log, then: Effects) -> None:
        """then: does what the record does not hold."""
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
        if self._steps:  # a refusal before the first step of a round is asked for again: another budget may have room
            self._refusals = {e.step: e for e in events if isinstance(e, ev.BudgetRefused | ev.LimitReached)}
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
        """See `Effects`. Answered from the record if it has the result; else the run goes beyond its record."""
        known = self._known(key) if self._log.has_past else _MISSING
        if known is not _MISSING:
            return known
        if self._log.catching_up:
            self._log.end_past(_name_effect(key))
            await checkpoint()  # a run that was cancelled before does nothing new
        return await self._then.once(key, work)

    def began(self, key: EffectKey) -> bool:
        """See `Effects`. Says what the record holds, until the run is beyond all of it."""
        if not self._log.has_past:
            return False
        return key.step in self._steps if key.kind == "response" else key.call_id in self._started

    def has_result(self, call_id: str) -> bool:
        """See `Effects`. True if the record holds the result."""
        return call_id in self._values

    def may_start_early(self, call_id: str) -> bool:
        """See `Effects`."""
        return self._then.may_start_early(call_id)

    def fingerprint(self, call: ToolCall, content: str, images: tuple[Image, ...]) -> str:
        """See `Effects`."""
        return self._then.fingerprint(call, content, images)

    def judgement(self, step: int, results: Sequence[ev.ToolCallResult]) -> StepJudgement | None:
        """See `Effects`. The log itself takes a recorded end of a step, with its judgement, from the record."""
        return self._then.judgement(step, results)

    def settled(self, step: int) -> Sequence[Event] | None:
        """See `Effects`."""
        return self._then.settled(step)

    def has_decision(self, steps: int) -> bool:
        """See `Effects`."""
        return self._then.has_decision(steps)

    def _keep(self, role: str, name: str, call_id: str | None, said: Any) -> None:
        self._verdicts.setdefault((role, name, call_id or ""), deque()).append(said)

    @property
    def _has_system_prompt(self) -> bool:
        """Whether the record holds an answer of the system prompt's function. It is asked only if the step has room."""
        return any(said for (role, _, _), said in self._verdicts.items() if role == "system")

    def _known(self, key: EffectKey) -> Any:
        match key.kind:
            case "response":
                return self._steps.get(key.step, _MISSING)
            case "call":
                return self._value(key.call_id)
            case "room":
                made = key.step in self._steps or self._closing or self._has_system_prompt
                return None if made else self._refusals.get(key.step, _MISSING)
            case _:
                said = self._verdicts.get((key.kind, key.name, key.call_id))
                return said.popleft() if said else _MISSING

    def _value(self, call_id: str) -> Any:
        call = self._calls.get(call_id)
        if call_id in self._values or call is None or not self._may_be_redacted(call):
            return self._values.get(call_id, _MISSING)
        return CallOutcome(content=PROCESS_DIED, status="unknown")

    def _may_be_redacted(self, call: ToolCall) -> bool:
        return may_be_redacted(call, self._redaction)


def may_be_redacted(call: ToolCall, redaction: Sequence[str]) -> bool:
    """Whether the recorded arguments of a call may differ from those that the model wrote.

    redaction: names of the functions that redacted the record (`RunStarted.functions`).
    """
    if not redaction:
        return False
    return REDACTION_MARK in call.arguments or tuple(map(current_name, redaction)) != (OUR_REDACTION,)


def _responses(events: Sequence[Event]) -> dict[int, Response | None]:
    """The responses of the steps in these events, by step; None for a step that ended without one."""
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
    """The complete calls of a response of which no stream was recorded."""
    broken_off = {*response.without_arguments, response.truncated}
    return [call.id for call in response.message.calls if call.id not in broken_off]


def _values(events: Sequence[Event], tools: Sequence[ToolSpec]) -> dict[str, Any]:
    """What the functions of calls returned, by call id; the result itself for calls that had one without running."""
    values: dict[str, Any] = {
        event.call_id: CallOutcome(content=event.content, status=event.status, images=event.images)
        for event in events
        if isinstance(event, ev.ToolCallResult)
    }
    values |= {id: recorded.value for id, recorded in recorded_values(events, tools).items()}
    return {id: value for id, value in values.items() if not _has_to_say_it_again(value)}


def _has_to_say_it_again(value: Any) -> bool:
    """Whether the record may hold only a part of what a call returned.

    That is so for a last phase without its acceptance, and for a sub-agent's questions, which are several events.
    """
    return isinstance(value, SubagentAsks) or (isinstance(value, Phase) and value.percentage >= 100)
