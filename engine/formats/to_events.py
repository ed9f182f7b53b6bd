"""A foreign session as the events of a record: what the engine would have written, had it run that loop.

Each message of the user begins a run, each response is a step. What the loop itself said in the user's role stands
where it was said, with the decision that it amounts to, and begins a round. An answered question ends its run as a
pause, and the answer begins one that goes on from it. Calls after an accepted completion stay: they are the waste
that a report measures.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ..decision import (
    AssistantMessage,
    Event,
    Facts,
    FinishReason,
    GoOn,
    Pause,
    Stop,
    ToolCall,
    ToolKind,
    ToolResult,
    Usage,
    UserMessage,
    Verdict,
    build_outcome,
    decide,
    fold,
)
from ..decision import events as ev
from ..decision.events import (
    STREAM_PARTS,
    CompletionAccepted,
    CompletionRejected,
    PhaseReported,
    QuestionAsked,
    ThoughtRecorded,
    ToolCallResult,
    ToolExecutionStarted,
)
from ..decision.finish_words import parse_finish_reason
from ..decision.messages import ResultStatus
from ..evaluation import STAGE
from ..session import added, carried
from ..tool_calls import SKIPPED
from ..tools.results import ANSWER_FIELDS, Completion, Continue, Phase, fingerprint, parse_completion
from .imported_session import Foreign, Kinds, Said, tools_of
from .parsing import iso, listed, mapping
from .reconstruction import fill_in, policy_for, stop_of

_PREPARED = ev.StageFinished(stage="prepare", status="absent")


class Told(Struct, frozen=True):
    """How much a session came to."""

    runs: int
    steps: int
    tools: frozenset[str]
    """Names of the tools that were offered or called."""


def events_of(foreign: Foreign, session_id: str, format: str, kinds: Kinds = Kinds()) -> list[Event]:  # noqa: B008
    """The events of a session."""
    events: list[Event] = []
    tell(foreign, session_id, format, kinds, events.append)
    return events


def tell(foreign: Foreign, session_id: str, format: str, kinds: Kinds, sink: Sink) -> Told:
    """Hand the events of a session to `sink`, in order. What could only be guessed is added to its losses."""
    teller = _Teller(foreign, session_id, format, kinds, sink)
    teller.tell()
    return Told(teller.runs, teller.steps, frozenset(teller.kinds))


class _Teller:
    def __init__(self, foreign: Foreign, session_id: str, format: str, kinds: Kinds, sink: Sink) -> None:
        self.runs = 0
        self.steps = 0
        self._foreign = foreign
        self._session_id = session_id
        self._format = format
        self._words = kinds.finish_words
        self._sink = sink
        self._tools = tools_of(foreign, kinds, format)
        self.kinds = {spec.name: spec.kind for spec in self._tools}
        self._policy = policy_for(foreign, self._tools)
        self._log: RunLog | None = None
        self._run_id = ""
        self._own_steps = 0
        """Steps of the present run."""
        self._failed: list[Said] = []
        """Requests that failed since the latest response: another may yet take their place."""
        self._waiting: list[Said] = []
        """What the loop said since the last response."""
        self._before = ev.Carried()
        self._latest: Facts | None = None
        """What was known at the end of the latest run; not yet in `before`, as the next one may go on from it."""
        fill_in(foreign, self._tools)
        self._mark = _mark(foreign)
        foreign.lose("time", sum(said.t is None for said in foreign.said))

    def tell(self) -> None:
        said = self._foreign.said
        results, goes_on, times = looked_ahead(said)
        for place, one in enumerate(said):
            match one.message:
                case UserMessage(text):
                    self._hear_user(one, text, times[place])
                case AssistantMessage() if one.failed is not None:
                    self._fail(one, times[place])
                case AssistantMessage() as message:
                    self._respond(one, message, results.get(place, {}), goes_on[place], times[place])
                case _:
                    pass  # a result: told with its call
        self._close(last=True)

    # ---- runs

    def _hear_user(self, said: Said, text: str, t: float | None) -> None:
        self._give_up()
        log = self._log
        by_loop = said.origin == "nudge" or (said.origin == "beside" and (log is None or log.facts.accepted is None))
        if log is not None and by_loop:
            self._waiting.append(said)
        elif log is not None and not self._own_steps:
            self._say_what_waits(log)
            log.reach(said.t)
            log.append(ev.MessageAdded(text=text, origin="user"))
        else:
            self._close(user_speaks=True)
            self._open(text, t)

    def _open(self, prompt: str | None, t: float | None, paused: Facts | None = None) -> RunLog:
        foreign = self._foreign
        if paused is None and self._latest is not None:
            self._before, self._latest = added(self._before, carried(self._latest)), None
        self.runs += 1
        continues, self._run_id = self._run_id, self._new_run_id()
        self._own_steps = 0
        self._log = log = RunLog(self._sink, t)
        log.append(
            ev.RunStarted(
                run_id=self._run_id,
                session_id=self._session_id,
                prompt=prompt,
                system=foreign.system,
                model=foreign.model,
                policy=self._policy,
                tools=self._tools,
                settings=foreign.settings,
                continues=continues if paused else None,
                carried=carried(paused) if paused else None,
                before=self._before if self._before != ev.Carried() else None,
                started_at="" if t is None else iso(t),
                engine=f"import:{self._format}",
            )
        )
        if paused is None:
            log.append(_PREPARED)
        return log

    def _close(self, *, last: bool = False, user_speaks: bool = False) -> None:
        """End the present run, if there is one."""
        self._give_up()
        log, self._log = self._log, None
        if log is None:
            return
        if last:
            self._say_what_waits(log)
        decision = stop_of(log.facts, self._policy, self._foreign, last=last, user_speaks=user_speaks)
        if isinstance(decision, Stop) and decision.reason == "cancelled":
            log.append(ev.CancelRequested(cause="user"))
        log.append(ev.DecisionMade(round=log.facts.rounds, decision=decision))
        self._finish(log, decision, last)
        self._latest = log.facts

    def _finish(self, log: RunLog, decision: Stop | Pause, last: bool) -> None:
        outcome = build_outcome(log.facts, self._policy, decision)
        if outcome.stop_reason.startswith("custom:") and outcome.status == "completed" and not outcome.answer:
            outcome = replace(outcome, answer=log.facts.text)
        log.append(ev.StageFinished(stage="run", status=STAGE[outcome.status], detail=outcome.stop_reason))
        judged = self._foreign.judged if last else None
        if judged is None:
            log.append(ev.StageFinished(stage="evaluate", status="absent", detail=f"the run is {outcome.status}"))
        else:
            verdict: Verdict = "passed" if judged.passed else "failed"
            log.append(ev.EvaluationFinished(verdict=verdict, name=judged.name, details=judged.details))
            log.append(ev.StageFinished(stage="evaluate", status="ok", detail=verdict))
            outcome = replace(outcome, verdict=verdict, evaluation={"name": judged.name, **judged.details})
        log.append(ev.RunFinished(outcome=outcome))

    def _new_run_id(self) -> str:
        mark = blake2b(f"{self._session_id}\0{self.runs}".encode("utf-8", "replace"), key=self._mark, digest_size=6)
        return f"run_{mark.hexdigest()}"

    # ---- steps

    def _respond(
        self, said: Said, message: AssistantMessage, results: dict[str, Said], goes_on: bool, t: float | None
    ) -> None:
        if said.begins:
            self._close()
        log = self._log or self._open(None, t)
        step, attempt = self._begin_step(log)
        self._stream(log, said, message, attempt, step)
        settling = Settling(log, self.kinds, message.calls, goes_on)
        for call in message.calls:
            result = results.get(call.id)
            if result is None:
                settling.missing(call)
            else:
                assert isinstance(result.message, ToolResult)
                settling.given(call, result, result.message)
        if settling.lost:
            self._foreign.lose("result", settling.lost)
        log.append(ev.StepFinished(step=step))
        if settling.answers:
            self._go_on_after_pause(log, settling.answers)

    def _begin_step(self, log: RunLog) -> tuple[int, str]:
        """Begin a step, with the requests of it that failed; gives its number and the next attempt's id."""
        self._begin_round(log)
        self.steps += 1
        self._own_steps += 1
        step = log.facts.steps + 1
        log.append(ev.StepStarted(step=step, round=log.facts.rounds))
        failed, self._failed = self._failed, []
        for number, one in enumerate(failed, 1):
            assert one.failed is not None
            attempt, model = f"{step}.{number}", one.model or self._foreign.model
            log.append(ev.AttemptStarted(attempt=attempt, model=model))
            log.reach(one.t)
            error = one.failed
            log.append(
                ev.AttemptFailed(
                    attempt=attempt, model=model, kind=error.kind, message=error.message, status=error.status
                )
            )
        return step, f"{step}.{len(failed) + 1}"

    def _fail(self, said: Said, t: float | None) -> None:
        """A request that failed. What comes next says whether another took its place."""
        if said.begins:
            self._close()
        if self._log is None:
            self._open(None, t)
        self._failed.append(said)

    def _give_up(self) -> None:
        """Make a step of the requests that failed, if no response took their place."""
        if self._failed:
            assert self._log is not None
            step, _ = self._begin_step(self._log)
            self._log.append(ev.StepFinished(step=step))

    def _begin_round(self, log: RunLog) -> None:
        """Begin a round: the first of the run, or one after a decision that was more than to go on."""
        facts = log.facts
        if self._own_steps and (self._waiting or facts.rejection is not None):
            log.append(ev.DecisionMade(round=facts.rounds, decision=self._go_on(facts)))
        elif self._own_steps:
            return
        self._say_what_waits(log)
        log.append(ev.RoundStarted(round=log.facts.rounds + 1))

    def _go_on(self, facts: Facts) -> GoOn:
        say = "\n".join(said.message.text for said in self._waiting if isinstance(said.message, UserMessage))
        decision = decide(facts, self._policy)
        if isinstance(decision, GoOn) and (decision.say == say or facts.rejection is not None):
            return decision
        return GoOn(rule="imported", say=say, why="the loop that was imported said this and went on")

    def _say_what_waits(self, log: RunLog) -> None:
        waiting, self._waiting = self._waiting, []
        for said in waiting:
            assert isinstance(said.message, UserMessage)
            log.reach(said.t)
            log.append(ev.MessageAdded(text=said.message.text, origin="nudge"))

    def _go_on_after_pause(self, log: RunLog, answers: list[tuple[str, Said]]) -> None:
        """The user answered: the run ends as a pause, and another goes on from it."""
        paused = log.facts
        self._close()
        log = self._open(None, answers[0][1].t, paused)
        for call_id, said in answers:
            assert isinstance(said.message, ToolResult)
            log.reach(said.t)
            log.append(ev.QuestionAnswered(call_id=call_id, text=said.message.content))
        log.append(_PREPARED)

    # ---- one response

    def _stream(self, log: RunLog, said: Said, message: AssistantMessage, attempt: str, step: int) -> None:
        """A response as it would have come: its parts, then the whole."""
        model = said.model or self._foreign.model
        log.append(ev.AttemptStarted(attempt=attempt, model=model))
        log.reach(said.t)
        for thought in message.reasoning:
            log.append(
                ev.ReasoningMessageContent(
                    attempt=attempt, delta=thought.text, signature=thought.signature, redacted=thought.redacted
                )
            )
        if message.text:
            log.append(ev.TextMessageContent(attempt=attempt, delta=message.text))
        for call in message.calls:
            log.append(ev.ToolCallStart(attempt=attempt, call_id=call.id, name=call.name))
            if call.arguments:
                log.append(ev.ToolCallArgs(attempt=attempt, call_id=call.id, delta=call.arguments))
            may_end = True if self.kinds.get(call.name) == "completion" else None
            log.append(ev.ToolCallEnd(attempt=attempt, call_id=call.id, may_end=may_end))
        finish = self._finish_of(said, message)
        log.append(ev.FinishReported(attempt=attempt, reason=finish, raw=said.raw_finish))
        usage = said.usage or Usage(estimated=True)
        if not usage.estimated:
            log.append(ev.UsageReported(attempt=attempt, usage=usage))
        log.append(
            ev.ResponseFinished(
                step=step, attempt=attempt, message=message, finish=finish, raw_finish=said.raw_finish, usage=usage
            )
        )

    def _finish_of(self, said: Said, message: AssistantMessage) -> FinishReason:
        if said.raw_finish:
            return parse_finish_reason(said.raw_finish, self._words)
        self._foreign.lose("finish reason")
        return "tool_calls" if message.calls else "stop"


def _mark(foreign: Foreign) -> bytes:
    """What tells this session from others of the same id: some of what was said."""
    some = [foreign.id, foreign.model, len(foreign.said), foreign.said[:2], foreign.said[-2:]]
    return blake2b(msgspec.json.encode(some), digest_size=16).digest()


# The calls of one imported step: each gets the one result that the other loop gave it, or what the engine says.

NO_RESULT = "The transcript that was imported holds no result of this call."
CANCELLED = "Cancelled while it was running or waiting to run."

MOST_QUESTIONS = 100
"""Questions of one step that may be open at once: what is known of a run holds each of them."""
_ANSWER = (*ANSWER_FIELDS, "reason")
_QUESTION = ("question", "questions", "message", "text", "prompt", "query", "response")
_THOUGHT = ("thought", "thinking", "thoughts", "text", "content", "message")


class Settling:
    """Settles the calls of one step."""

    def __init__(self, log: RunLog, kinds: Mapping[str, ToolKind], calls: Sequence[ToolCall], goes_on: bool) -> None:
        self._log = log
        self._kinds = kinds
        self._goes_on = goes_on
        self._may_pause = log.facts.accepted is None and not any(kinds.get(call.name) == "completion" for call in calls)
        self._completed = False
        self._asked = 0
        self.answers: list[tuple[str, Said]] = []
        """What the user answered to questions of this step, by call id: for the run that goes on."""
        self.lost = 0
        """Calls whose result is not known."""

    def given(self, call: ToolCall, said: Said, result: ToolResult) -> None:
        """A call that the other loop answered."""
        log, kind, status = self._log, self._kinds.get(call.name, "ordinary"), result.status
        asks = kind == "question" and status == "ok" and self._may_ask and not result.images
        if not asks:
            log.reach(said.t)  # how long the user took for an answer is no time of this run
        if status in ("ok", "error", "rejected"):
            log.append(ToolExecutionStarted(call_id=call.id, name=call.name))
        if asks:
            self._ask(call)
            self.answers.append((call.id, said))
            return
        if kind == "completion" and log.facts.accepted is None:
            status = self._complete(call, result)
        elif kind == "think" and status == "ok":
            log.append(ThoughtRecorded(call_id=call.id, text=_said_in(call, _THOUGHT)))
        self._answer(call, result.content, status, result)

    def missing(self, call: ToolCall) -> None:
        """A call that the other loop did not answer, as far as is known."""
        log, kind = self._log, self._kinds.get(call.name, "ordinary")
        if kind == "completion" and log.facts.accepted is None:
            log.append(ToolExecutionStarted(call_id=call.id, name=call.name))
            answer = _said_in(call, _ANSWER)
            self._accept(call, answer)
            self._answer(call, answer, "ok")
        elif kind == "question" and self._may_ask and not self._goes_on:
            log.append(ToolExecutionStarted(call_id=call.id, name=call.name))
            self._ask(call)
        elif self._completed and not self._goes_on:
            self._answer(call, SKIPPED, "skipped")
        elif self._goes_on:
            self.lost += 1
            log.append(ToolExecutionStarted(call_id=call.id, name=call.name))
            self._answer(call, NO_RESULT, "unknown")
        else:
            self.lost += 1
            self._answer(call, CANCELLED, "cancelled")

    @property
    def _may_ask(self) -> bool:
        return self._may_pause and self._asked < MOST_QUESTIONS

    def _ask(self, call: ToolCall) -> None:
        self._asked += 1
        self._log.append(QuestionAsked(call_id=call.id, text=_said_in(call, _QUESTION)))

    def _complete(self, call: ToolCall, result: ToolResult) -> ResultStatus:
        """Accept a completion, or note that it was handed back; gives the status of its result."""
        said = parse_completion(result.content, {})
        if result.status == "ok" and isinstance(said, Completion):
            self._accept(call, _said_in(call, _ANSWER) or said.answer)
            return "ok"
        if result.status == "ok" and isinstance(said, Phase):
            phase = PhaseReported(
                call_id=call.id, percentage=said.percentage, summary=said.summary, next_phase=said.next_phase
            )
            self._log.append(phase)
            return "ok"
        if result.status == "ok":
            reason = said.reason if isinstance(said, Continue) else result.content
            self._log.append(CompletionRejected(call_id=call.id, name=call.name, reason=reason, by="tool"))
            return "rejected"
        if result.status in ("error", "rejected"):
            self._log.append(CompletionRejected(call_id=call.id, name=call.name, reason=result.content, by="tool"))
            return "rejected"
        return result.status

    def _accept(self, call: ToolCall, answer: str) -> None:
        self._completed = True
        self._log.append(CompletionAccepted(call_id=call.id, name=call.name, answer=answer))

    def _answer(self, call: ToolCall, content: str, status: ResultStatus, result: ToolResult | None = None) -> None:
        images = () if result is None else result.images
        mark = "" if status == "unknown" else fingerprint(call, content, images)
        self._log.append(
            ToolCallResult(
                call_id=call.id, name=call.name, content=content, status=status, fingerprint=mark, images=images
            )
        )


def _said_in(call: ToolCall, names: Sequence[str]) -> str:
    """The text that a call carries: the first of these arguments that holds one, else any text but a command."""
    try:
        arguments: Any = msgspec.json.decode(call.arguments)
    except (msgspec.DecodeError, RecursionError):
        return call.arguments
    given = mapping(arguments)
    texts = (given[name] for name in (*names, *(name for name in given if name != "command")) if name in given)
    return next((text for value in texts if (text := _text(value))), "")


def _text(value: Any) -> str:
    """A text, or the texts of a list of questions."""
    if isinstance(value, str):
        return value.strip() and value
    parts = [mapping(part).get("question", part) for part in listed(value)]
    return "\n".join(part for part in parts if isinstance(part, str))


# What comes later in a foreign session, seen from each message: found once, so that a session costs one pass.


def looked_ahead(said: list[Said]) -> tuple[dict[int, dict[str, Said]], list[bool], list[float | None]]:
    """What comes later, by place: the results of a response, whether its run goes on, the first time that is known."""
    results: dict[int, dict[str, Said]] = {}
    goes_on, times = [False] * len(said), [one.t for one in said]
    response = -1
    for place, one in enumerate(said):
        if isinstance(one.message, AssistantMessage):
            response = place
        elif isinstance(one.message, ToolResult):
            results.setdefault(response, {})[one.message.call_id] = one
    on, t = False, None
    for place in range(len(said) - 1, -1, -1):
        one = said[place]
        goes_on[place] = on
        t = times[place] = t if one.t is None else one.t
        if isinstance(one.message, AssistantMessage):
            on = not one.begins
        elif isinstance(one.message, UserMessage) and one.origin == "user":
            on = False
    return results, goes_on, times


# The log of one imported run: numbers an event, dates it, folds it, hands it on, as the engine's does.

Sink = Callable[[Event], None]


class RunLog:
    """Append-only; time only goes forward. `start` is when the run began, in seconds since 1970, if that is known."""

    def __init__(self, sink: Sink, start: float | None) -> None:
        self.facts = Facts()
        self._sink = sink
        self._start = start
        self._seq = 0
        self._t = 0

    def reach(self, t: float | None) -> None:
        """It is so late now, in seconds since 1970."""
        if t is not None and self._start is not None:
            self._t = max(self._t, round((t - self._start) * 1000))

    def append(self, event: Event) -> None:
        """Add an event."""
        self._seq += 1
        stamped = replace(event, seq=self._seq, t=self._t)
        if type(stamped) not in STREAM_PARTS:
            self.facts = fold(self.facts, stamped)
        self._sink(stamped)
