"""Converts an imported session to the events of a record, as the engine would have written them.

Each user message begins a run, each response is a step. A message that the loop wrote in the user's role begins a
round, after the decision to go on. An answered question ends its run as a pause, and the answer begins a run that
continues it. Calls after an accepted completion are kept: a report measures them as waste.
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
    StepJudge,
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
from ..decision.facts import add_usage, usage_of
from ..decision.finish_words import parse_finish_reason
from ..decision.messages import ResultStatus
from ..decision.outcome import RUN_STAGE_STATUS
from ..tools.results import ANSWER_FIELDS, SKIPPED, Completion, Continue, Phase, fingerprint, parse_completion
from .imported_session import ImportedMessage, ImportedSession, ImportOptions, tool_specs
from .parsing import as_dict, as_list, format_time
from .reconstruction import estimate_usage, final_decision, infer_policy

Sink = Callable[[Event], None]
NO_RESULT = "The transcript that was imported holds no result of this call."
CANCELLED = "Cancelled while it was running or waiting to run."
MAX_OPEN_QUESTIONS = 100
"""Open questions of a step at most, since the facts of a run hold each of them. Further ones are ordinary calls."""
_ANSWER_ARGUMENTS = (*ANSWER_FIELDS, "reason")
_QUESTION_ARGUMENTS = ("question", "questions", "message", "text", "prompt", "query", "response")
_THOUGHT_ARGUMENTS = ("thought", "thinking", "thoughts", "text", "content", "message")
_PREPARED = ev.StageFinished(stage="prepare", status="absent")


class ImportStats(Struct, frozen=True):
    """Counts of what `write_events` wrote for a session."""

    runs: int
    steps: int
    tool_names: frozenset[str]
    """Tools that were offered or called."""


def events_of(
    session: ImportedSession,
    session_id: str,
    format: str,
    options: ImportOptions = ImportOptions(),  # noqa: B008
) -> list[Event]:
    """The events of a session."""
    events: list[Event] = []
    write_events(session, session_id, format, options, events.append)
    return events


def write_events(
    session: ImportedSession, session_id: str, format: str, options: ImportOptions, sink: Sink
) -> ImportStats:
    """Pass the events of a session to `sink`, in order. What had to be estimated is added to the session's losses."""
    writer = _EventWriter(session, session_id, format, options, sink)
    writer.write()
    return ImportStats(writer.runs, writer.steps, frozenset(writer.kinds))


class _EventWriter:
    def __init__(
        self, session: ImportedSession, session_id: str, format: str, options: ImportOptions, sink: Sink
    ) -> None:
        self.runs = 0
        self.steps = 0
        self._session = session
        session.model = options.model or session.model
        self._session_id = session_id
        self._format = format
        self._words = options.finish_words
        self._sink = sink
        self._tools = tool_specs(session, options, format)
        self.kinds = {spec.name: spec.kind for spec in self._tools}
        self._policy = infer_policy(session, self._tools)
        self._log: ImportLog | None = None
        self._run_id = ""
        self._run_steps = 0
        """Steps of the current run."""
        self._failed_requests: list[ImportedMessage] = []
        """Requests that failed since the latest response; a retry may follow."""
        self._nudges: list[ImportedMessage] = []
        """Messages of the loop since the last response."""
        self._before = ev.Carried()
        self._latest: Facts | None = None
        """Facts at the end of the latest run. Not yet in `_before`, since the next run may continue it."""
        estimate_usage(session, self._tools)
        self._mark = _session_digest(session)
        session.count_loss("time", sum(imported.t is None for imported in session.messages))

    def write(self) -> None:
        messages = self._session.messages
        results, goes_on, times = _look_ahead(messages)
        for index, one in enumerate(messages):
            match one.message:
                case UserMessage() as message:
                    self._add_user_message(one, message, times[index])
                case AssistantMessage() if one.failure is not None:
                    self._add_failed_request(one, times[index])
                case AssistantMessage() as message:
                    self._add_response(one, message, results.get(index, {}), goes_on[index], times[index])
                case _:
                    pass  # a tool result: written with its call
        self._end_run(last=True)

    # ---- runs

    def _add_user_message(self, imported: ImportedMessage, message: UserMessage, t: float | None) -> None:
        self._end_failed_step()
        log = self._log
        by_loop = imported.origin == "nudge" or (
            imported.origin == "beside" and (log is None or log.facts.accepted is None)
        )
        if log is not None and by_loop:
            self._session.count_loss("image", len(message.images))
            self._nudges.append(imported)
        elif log is not None and not self._run_steps:
            self._write_nudges(log)
            log.advance_to(imported.t)
            self._session.count_loss("image", len(message.images))
            log.append(ev.MessageAdded(text=message.text, origin="user"))
        else:
            self._end_run(user_speaks=True)
            self._start_run(message, t)

    def _start_run(self, prompt: UserMessage | None, t: float | None, paused: Facts | None = None) -> ImportLog:
        session = self._session
        if paused is None and self._latest is not None:
            self._before, self._latest = add_usage(self._before, usage_of(self._latest)), None
        self.runs += 1
        continues, self._run_id = self._run_id, self._new_run_id()
        self._run_steps = 0
        self._log = log = ImportLog(self._sink, t)
        log.append(
            ev.RunStarted(
                run_id=self._run_id,
                session_id=self._session_id,
                prompt=None if prompt is None else prompt.text,
                images=() if prompt is None else prompt.images,
                system=session.system,
                model=session.model,
                policy=self._policy,
                tools=self._tools,
                settings=session.settings,
                continues=continues if paused else None,
                carried=usage_of(paused) if paused else None,
                before=self._before if self._before != ev.Carried() else None,
                started_at="" if t is None else format_time(t),
                engine=f"{ev.IMPORT_PREFIX}{self._format}",
                source=session.source,
            )
        )
        if paused is None:
            log.append(_PREPARED)
        return log

    def _end_run(self, *, last: bool = False, user_speaks: bool = False) -> None:
        """Write the events that end the current run: its last decision and its outcome. Does nothing without a run.

        `final_decision` says how the run ended. `last`: it is the last run of the session, to which the ending and the
        verdict of the session belong. `user_speaks`: the user's next message ended the run.
        """
        self._end_failed_step()
        log, self._log = self._log, None
        if log is None:
            return
        if last:
            self._write_nudges(log)
        decision = final_decision(log.facts, self._policy, self._session, last=last, user_speaks=user_speaks)
        if isinstance(decision, Stop) and decision.reason == "cancelled":
            log.append(ev.CancelRequested(cause="user"))
        log.append(ev.DecisionMade(round=log.facts.rounds, decision=decision))
        self._write_outcome(log, decision, last)
        self._latest = log.facts

    def _write_outcome(self, log: ImportLog, decision: Stop | Pause, last: bool) -> None:
        outcome = build_outcome(log.facts, self._policy, decision)
        if outcome.stop_reason.startswith("custom:") and outcome.status == "completed" and not outcome.answer:
            outcome = replace(outcome, answer=log.facts.text)
        log.append(ev.StageFinished(stage="run", status=RUN_STAGE_STATUS[outcome.status], detail=outcome.stop_reason))
        judged = self._session.verdict if last else None
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

    def _add_response(
        self,
        imported: ImportedMessage,
        message: AssistantMessage,
        results: dict[str, ImportedMessage],
        goes_on: bool,
        t: float | None,
    ) -> None:
        if imported.starts_run:
            self._end_run()
        log = self._log or self._start_run(None, t)
        step, attempt = self._start_step(log)
        self._write_response(log, imported, message, attempt, step)
        resolver = CallResolver(log, self.kinds, message.calls, goes_on)
        for call in message.calls:
            result = results.get(call.id)
            if result is None:
                resolver.resolve_missing(call)
            else:
                assert isinstance(result.message, ToolResult)
                resolver.resolve(call, result, result.message)
        if resolver.lost:
            self._session.count_loss("result", resolver.lost)
        log.append(ev.StepFinished(step=step))
        if resolver.answers:
            self._resume_after_answers(log, resolver.answers)

    def _start_step(self, log: ImportLog) -> tuple[int, str]:
        """Begin a step with its failed requests. Returns its number and the id of the next attempt."""
        self._start_round(log)
        self.steps += 1
        self._run_steps += 1
        step = log.facts.steps + 1
        log.append(ev.StepStarted(step=step, round=log.facts.rounds))
        failed, self._failed_requests = self._failed_requests, []
        for number, one in enumerate(failed, 1):
            assert one.failure is not None
            attempt, model = f"{step}.{number}", one.model or self._session.model
            log.append(ev.AttemptStarted(attempt=attempt, model=model))
            log.advance_to(one.t)
            error = one.failure
            log.append(
                ev.AttemptFailed(
                    attempt=attempt, model=model, kind=error.kind, message=error.message, status=error.status
                )
            )
        return step, f"{step}.{len(failed) + 1}"

    def _add_failed_request(self, imported: ImportedMessage, t: float | None) -> None:
        """Keep a failed request until it is known whether it was retried."""
        if imported.starts_run:
            self._end_run()
        if self._log is None:
            self._start_run(None, t)
        self._failed_requests.append(imported)

    def _end_failed_step(self) -> None:
        """Write the failed requests as a step of their own if no response followed."""
        if self._failed_requests:
            assert self._log is not None
            step, _ = self._start_step(self._log)
            self._log.append(ev.StepFinished(step=step))

    def _start_round(self, log: ImportLog) -> None:
        """Begin the first round of a run, or another one after nudges or a rejected completion."""
        facts = log.facts
        if self._run_steps and (self._nudges or facts.rejection is not None):
            log.append(ev.DecisionMade(round=facts.rounds, decision=self._continue_decision(facts)))
        elif self._run_steps:
            return
        self._write_nudges(log)
        log.append(ev.RoundStarted(round=log.facts.rounds + 1))

    def _continue_decision(self, facts: Facts) -> GoOn:
        say = "\n".join(imported.message.text for imported in self._nudges if isinstance(imported.message, UserMessage))
        decision = decide(facts, self._policy)
        if isinstance(decision, GoOn) and (decision.say == say or facts.rejection is not None):
            return decision
        return GoOn(rule="imported", say=say, why="the loop that was imported said this and went on")

    def _write_nudges(self, log: ImportLog) -> None:
        waiting, self._nudges = self._nudges, []
        for imported in waiting:
            assert isinstance(imported.message, UserMessage)
            log.advance_to(imported.t)
            log.append(ev.MessageAdded(text=imported.message.text, origin="nudge"))

    def _resume_after_answers(self, log: ImportLog, answers: list[tuple[str, ImportedMessage]]) -> None:
        """The user answered: end the run as a pause and continue it in another run."""
        paused = log.facts
        self._end_run()
        log = self._start_run(None, answers[0][1].t, paused)
        for call_id, imported in answers:
            assert isinstance(imported.message, ToolResult)
            log.advance_to(imported.t)
            log.append(ev.QuestionAnswered(call_id=call_id, text=imported.message.content))
        log.append(_PREPARED)

    # ---- one response

    def _write_response(
        self, log: ImportLog, imported: ImportedMessage, message: AssistantMessage, attempt: str, step: int
    ) -> None:
        """Write a response as if it had been streamed: its parts, then the whole."""
        model = imported.model or self._session.model
        log.append(ev.AttemptStarted(attempt=attempt, model=model))
        log.advance_to(imported.t)
        for thought in message.reasoning:
            log.append(
                ev.ReasoningMessageContent(
                    attempt=attempt,
                    delta=thought.text,
                    signature=thought.signature,
                    redacted=thought.redacted,
                    vendor=thought.vendor,
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
        finish = self._finish_of(imported, message)
        log.append(ev.FinishReported(attempt=attempt, reason=finish, raw=imported.raw_finish))
        usage = imported.usage or Usage(estimated=True)
        if not usage.estimated:
            log.append(ev.UsageReported(attempt=attempt, usage=usage))
        log.append(
            ev.ResponseFinished(
                step=step, attempt=attempt, message=message, finish=finish, raw_finish=imported.raw_finish, usage=usage
            )
        )

    def _finish_of(self, imported: ImportedMessage, message: AssistantMessage) -> FinishReason:
        if imported.raw_finish:
            return parse_finish_reason(imported.raw_finish, self._words)
        self._session.count_loss("finish reason")
        return "tool_calls" if message.calls else "stop"


def _session_digest(session: ImportedSession) -> bytes:
    """A digest of some messages, to distinguish sessions with the same id. Run ids are derived from it."""
    some = [session.id, session.model, len(session.messages), session.messages[:2], session.messages[-2:]]
    return blake2b(msgspec.json.encode(some), digest_size=16).digest()


def _look_ahead(
    messages: list[ImportedMessage],
) -> tuple[dict[int, dict[str, ImportedMessage]], list[bool], list[float | None]]:
    """For each message, by index: its tool results, whether its run has a later response, and the next known time.

    Computed in one pass over the session each way.
    """
    results: dict[int, dict[str, ImportedMessage]] = {}
    goes_on, times = [False] * len(messages), [one.t for one in messages]
    response = -1
    for index, one in enumerate(messages):
        if isinstance(one.message, AssistantMessage):
            response = index
        elif isinstance(one.message, ToolResult):
            results.setdefault(response, {})[one.message.call_id] = one
    continues, t = False, None
    for index in range(len(messages) - 1, -1, -1):
        one = messages[index]
        goes_on[index] = continues
        t = times[index] = t if one.t is None else one.t
        if isinstance(one.message, AssistantMessage):
            continues = not one.starts_run
        elif isinstance(one.message, UserMessage) and one.origin == "user":
            continues = False
    return results, goes_on, times


# ---- the calls of a step


class CallResolver:
    """Writes the events of the calls of one step, with the recorded results, or inferred ones where none is recorded.

    `goes_on`: whether the run has a later response.
    """

    def __init__(self, log: ImportLog, kinds: Mapping[str, ToolKind], calls: Sequence[ToolCall], goes_on: bool) -> None:
        self._log = log
        self._kinds = kinds
        self._goes_on = goes_on
        self._may_pause = log.facts.accepted is None and not any(kinds.get(call.name) == "completion" for call in calls)
        self._completed = False
        self._asked = 0
        self.answers: list[tuple[str, ImportedMessage]] = []
        """Answers of the user to questions of this step, with their call ids, for the run that continues."""
        self.lost = 0
        """Number of calls whose result is unknown."""

    def resolve(self, call: ToolCall, imported: ImportedMessage, result: ToolResult) -> None:
        """Write a call with a recorded result."""
        log, kind, status = self._log, self._kinds.get(call.name, "ordinary"), result.status
        asks = kind == "question" and status == "ok" and self._may_ask and not result.images
        if not asks:
            log.advance_to(imported.t)  # the time that the user takes to answer does not count
        if status in ("ok", "error", "rejected"):
            log.append(ToolExecutionStarted(call_id=call.id, name=call.name))
        if asks:
            self._write_question(call)
            self.answers.append((call.id, imported))
            return
        if kind == "completion" and log.facts.accepted is None:
            status = self._complete(call, result)
        elif kind == "think" and status == "ok":
            log.append(ThoughtRecorded(call_id=call.id, text=_text_argument(call, _THOUGHT_ARGUMENTS)))
        self._write_result(call, result.content, status, result)

    def resolve_missing(self, call: ToolCall) -> None:
        """Write a call without a recorded result.

        By its kind and what follows, it is an accepted completion, an open question, skipped, unknown or cancelled.
        """
        log, kind = self._log, self._kinds.get(call.name, "ordinary")
        if kind == "completion" and log.facts.accepted is None:
            log.append(ToolExecutionStarted(call_id=call.id, name=call.name))
            answer = _text_argument(call, _ANSWER_ARGUMENTS)
            self._write_accepted(call, answer)
            self._write_result(call, answer, "ok")
        elif kind == "question" and self._may_ask and not self._goes_on:
            log.append(ToolExecutionStarted(call_id=call.id, name=call.name))
            self._write_question(call)
        elif self._completed and not self._goes_on:
            self._write_result(call, SKIPPED, "skipped")
        elif self._goes_on:
            self.lost += 1
            log.append(ToolExecutionStarted(call_id=call.id, name=call.name))
            self._write_result(call, NO_RESULT, "unknown")
        else:
            self.lost += 1
            self._write_result(call, CANCELLED, "cancelled")

    @property
    def _may_ask(self) -> bool:
        return self._may_pause and self._asked < MAX_OPEN_QUESTIONS

    def _write_question(self, call: ToolCall) -> None:
        self._asked += 1
        self._log.append(QuestionAsked(call_id=call.id, text=_text_argument(call, _QUESTION_ARGUMENTS)))

    def _complete(self, call: ToolCall, result: ToolResult) -> ResultStatus:
        """Accept or reject a completion. Returns the status of its result."""
        imported = parse_completion(result.content, {})
        if result.status == "ok" and isinstance(imported, Completion):
            self._write_accepted(call, _text_argument(call, _ANSWER_ARGUMENTS) or imported.answer)
            return "ok"
        if result.status == "ok" and isinstance(imported, Phase):
            phase = PhaseReported(
                call_id=call.id,
                percentage=imported.percentage,
                summary=imported.summary,
                next_phase=imported.next_phase,
            )
            self._log.append(phase)
            return "ok"
        if result.status == "ok":
            reason = imported.reason if isinstance(imported, Continue) else result.content
            self._log.append(CompletionRejected(call_id=call.id, name=call.name, reason=reason, by="tool"))
            return "rejected"
        if result.status in ("error", "rejected"):
            self._log.append(CompletionRejected(call_id=call.id, name=call.name, reason=result.content, by="tool"))
            return "rejected"
        return result.status

    def _write_accepted(self, call: ToolCall, answer: str) -> None:
        self._completed = True
        self._log.append(CompletionAccepted(call_id=call.id, name=call.name, answer=answer))

    def _write_result(
        self, call: ToolCall, content: str, status: ResultStatus, result: ToolResult | None = None
    ) -> None:
        images = () if result is None else result.images
        mark = "" if status == "unknown" else fingerprint(call, content, images)
        self._log.append(
            ToolCallResult(
                call_id=call.id, name=call.name, content=content, status=status, fingerprint=mark, images=images
            )
        )


def _text_argument(call: ToolCall, names: Sequence[str]) -> str:
    """The text in a call's arguments: the first of these that has one, else any other but `command`."""
    try:
        arguments: Any = msgspec.json.decode(call.arguments)
    except (msgspec.DecodeError, RecursionError):
        return call.arguments
    values = as_dict(arguments)
    order = (*names, *(name for name in values if name != "command"))
    texts = (values[name] for name in order if name in values)
    return next((text for value in texts if (text := _plain_text(value))), "")


def _plain_text(value: Any) -> str:
    """The text itself, or the texts of a list of questions."""
    if isinstance(value, str):
        return value.strip() and value
    parts = [as_dict(part).get("question", part) for part in as_list(value)]
    return "\n".join(part for part in parts if isinstance(part, str))


# ---- the log


class ImportLog:
    """Event log of an imported run: numbers, dates, judges and folds events. Its clock is set from the transcript.

    start: when the run began, in seconds since 1970; None if unknown.
    """

    def __init__(self, sink: Sink, start: float | None) -> None:
        self.facts = Facts()
        self._judge = StepJudge()
        self._sink = sink
        self._start = start
        self._seq = 0
        self._t = 0

    def advance_to(self, t: float | None) -> None:
        """Set the time of the next events, in seconds since 1970. Time never goes back."""
        if t is not None and self._start is not None:
            self._t = max(self._t, round((t - self._start) * 1000))

    def append(self, event: Event) -> None:
        """Number and date an event, fold it and pass it on."""
        self._seq += 1
        stamped = replace(event, seq=self._seq, t=self._t)
        if type(stamped) not in STREAM_PARTS:
            stamped = self._judge.feed(self.facts, stamped)
            self.facts = fold(self.facts, stamped)
        self._sink(stamped)
