"""Conversion of an imported session to the events of a record, as the engine would have written them.

Each user message begins a run, each response is a step. A message that the loop wrote in the user's role begins a
round, after the decision to go on. An answered question ends its run as a pause, and the answer begins a run that
continues it. Calls after an accepted completion are kept: a report measures them as waste.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ..decision import (
    AssistantMessage,
    Event,
    Facts,
    FinishReason,
    GoOn,
    StepJudge,
    Stop,
    ToolResult,
    Transcript,
    Usage,
    UserMessage,
    decide,
    fold,
)
from ..decision import events as ev
from ..decision.decisions import IMPORTED
from ..decision.events import STREAM_PARTS
from ..decision.finish_words import parse_finish_reason
from ..decision.transcript import estimate_tokens, message_size
from ..decision.wrong_calls import explained
from .imported_session import ImportedCompaction, ImportedMessage, ImportedSession, ImportOptions, tool_specs
from .parsing import format_time
from .reconstruction import estimate_usage, final_decision, infer_policy
from .run_events import PREPARED, CallResolver, RunStarts, write_outcome

Sink = Callable[[Event], None]


class ImportStats(Struct, frozen=True):
    """Counts of the events that `write_events` wrote for a session."""

    runs: int
    steps: int
    tool_names: frozenset[str]
    """Tools that were offered or called."""


@explained
def events_of(
    session: ImportedSession,
    session_id: str,
    format: str,
    options: ImportOptions = ImportOptions(),  # noqa: B008
) -> list[Event]:
    """Return the events of a session."""
    events: list[Event] = []
    write_events(session, session_id, format, options, events.append)
    return events


def write_events(
    session: ImportedSession, session_id: str, format: str, options: ImportOptions, sink: Sink
) -> ImportStats:
    """Pass the events of a session to `sink`, in order. Estimates are added to the session's losses."""
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
        self._starts = RunStarts()
        self._run_steps = 0
        """Number of steps of the current run."""
        self._failed_requests: list[ImportedMessage] = []
        """Failed requests since the latest response; a retry may follow."""
        self._nudges: list[ImportedMessage] = []
        """Messages of the loop since the last response."""
        self._interrupted = False
        """Whether the user has interrupted the run since its latest response."""
        self._transcript = Transcript() if _is_compacted(session) else None
        """What the model reads, for a session with a compaction: it tells how much was dropped."""
        self._sizes: dict[int, int] = {}
        """Number of messages in the transcript before the message of this index."""
        estimate_usage(session, self._tools)
        self._mark = _session_digest(session)
        session.count_loss("time", sum(imported.t is None for imported in session.messages))

    def write(self) -> None:
        messages = self._session.messages
        results, goes_on, times = _look_ahead(messages)
        kept_from = {one.kept_from for one in messages if isinstance(one, ImportedCompaction)}
        for index, one in enumerate(messages):
            if index in kept_from:
                self._sizes[index] = self._context_size
            if isinstance(one, ImportedCompaction):
                self._add_compaction(one)
                continue
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
        for one in (*self._nudges, *self._session.held):
            assert isinstance(one.message, UserMessage)
            self._session.count_dropped("last words", one.message.text)

    # ---- runs

    def _add_user_message(self, imported: ImportedMessage, message: UserMessage, t: float | None) -> None:
        self._end_failed_step()
        log = self._log
        if imported.origin == "interrupt":
            self._interrupted = self._interrupted or (log is not None and self._run_steps > 0)
            if not message.text:
                return
            if log is None:
                self._session.count_dropped("last words", message.text)
                return
        by_loop = imported.origin in ("nudge", "interrupt") or (
            imported.origin == "beside" and (log is None or log.facts.accepted is None)
        )
        if by_loop and (log is not None or imported.origin == "nudge"):
            self._session.count_loss("image", len(message.images))
            self._nudges.append(imported)
        elif log is not None and not self._run_steps:
            self._write_nudges(log)
            log.advance_to(imported.t)
            log.append(ev.MessageAdded(text=message.text, origin="user", images=message.images))
        else:
            self._end_run(user_speaks=True)
            self._start_run(message, t)

    def _start_run(self, prompt: UserMessage | None, t: float | None, *, answered: bool = False) -> ImportLog:
        session = self._session
        self.runs += 1
        self._run_steps = 0
        self._log = log = ImportLog(self._sink, t, self._transcript)
        self._starts.write(
            log,
            ev.RunStarted(
                run_id=self._new_run_id(),
                session_id=self._session_id,
                prompt=None if prompt is None else prompt.text,
                images=() if prompt is None else prompt.images,
                system=session.system,
                model=session.model,
                policy=self._policy,
                tools=self._tools,
                settings=session.settings,
                started_at="" if t is None else format_time(t),
                engine=f"{ev.IMPORT_PREFIX}{self._format}",
                source=session.source,
                parent=session.parent,
            ),
            answered=answered,
        )
        if not answered:
            log.append(PREPARED)
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
        interrupted, self._interrupted = self._interrupted, False
        if last or interrupted:
            self._write_nudges(log)
        decision = final_decision(
            log.facts, self._policy, self._session, last=last, user_speaks=user_speaks, interrupted=interrupted
        )
        if isinstance(decision, Stop) and decision.reason == "cancelled":
            log.append(ev.CancelRequested(cause="user"))
        log.append(ev.DecisionMade(round=log.facts.rounds, decision=decision))
        write_outcome(log, self._policy, decision, self._session.verdict if last else None)

    def _new_run_id(self) -> str:
        mark = blake2b(f"{self._session_id}\0{self.runs}".encode("utf-8", "replace"), key=self._mark, digest_size=6)
        return f"run_{mark.hexdigest()}"

    # ---- compaction

    @property
    def _context_size(self) -> int:
        """Number of messages that the model reads, without the system prompt."""
        return 0 if self._transcript is None else len(self._transcript.messages) - bool(self._transcript.system)

    def _add_compaction(self, compaction: ImportedCompaction) -> None:
        self._end_failed_step()
        log, transcript = self._log, self._transcript
        if log is None or transcript is None:  # there is no message before it
            for message in compaction.put_first:
                self._session.count_dropped("last words", message.text)
            return
        log.advance_to(compaction.t)
        size = self._context_size
        dropped = size if compaction.kept_from is None else min(size, self._sizes[compaction.kept_from])
        head = len(transcript.messages) - size
        left = [*transcript.messages[:head], *compaction.put_first, *transcript.messages[head + dropped :]]
        log.append(
            ev.ContextCompacted(
                strategy="summarise" if compaction.put_first else "drop_oldest",
                before_tokens=compaction.before_tokens
                or log.facts.context_tokens
                or estimate_tokens(transcript.characters),
                after_tokens=compaction.after_tokens or estimate_tokens(sum(map(message_size, left))),
                dropped=dropped,
                put_first=compaction.put_first,
            )
        )

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
        self._interrupted = False
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
                if not resolver.is_answer(call, result.message):
                    log.advance_to(result.t)  # the time of the user's answer does not count
                resolver.resolve(call, result.message)
        if resolver.lost:
            self._session.count_loss("result", resolver.lost)
        log.append(ev.StepFinished(step=step))
        if resolver.answers:
            self._resume_after_answers(log, [results[answer.call_id] for answer in resolver.answers])

    def _start_step(self, log: ImportLog) -> tuple[int, str]:
        """Begin a step with its failed requests, and return its number and the id of the next attempt."""
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
        """Write the failed requests as a separate step if no response followed."""
        if self._failed_requests:
            assert self._log is not None
            step, _ = self._start_step(self._log)
            self._log.append(ev.StepFinished(step=step))

    def _start_round(self, log: ImportLog) -> None:
        """Begin the first round of a run, or another round after nudges or a rejected completion."""
        facts = log.facts
        if self._run_steps and (self._nudges or facts.rejection is not None):
            log.append(ev.DecisionMade(round=facts.rounds, decision=self._continue_decision(facts)))
        elif self._run_steps:
            return
        self._write_nudges(log)
        log.append(ev.RoundStarted(round=log.facts.rounds + 1))

    def _continue_decision(self, facts: Facts) -> GoOn:
        say = "\n".join(imported.message.text for imported in self._nudges if isinstance(imported.message, UserMessage))
        decision = decide(facts, self._policy, traced=False)
        if isinstance(decision, GoOn) and (decision.say == say or facts.rejection is not None):
            return decision
        return GoOn(rule=IMPORTED, say=say, why="the loop that was imported said this and went on")

    def _write_nudges(self, log: ImportLog) -> None:
        waiting, self._nudges = self._nudges, []
        for imported in waiting:
            assert isinstance(imported.message, UserMessage)
            log.advance_to(imported.t)
            log.append(ev.MessageAdded(text=imported.message.text, origin="nudge"))

    def _resume_after_answers(self, log: ImportLog, answers: list[ImportedMessage]) -> None:
        """End the run as a pause and continue it in another run, because the user answered."""
        self._end_run()
        log = self._start_run(None, answers[0].t, answered=True)
        for imported in answers:
            assert isinstance(imported.message, ToolResult)
            log.advance_to(imported.t)
            log.append(ev.QuestionAnswered(call_id=imported.message.call_id, text=imported.message.content))
        log.append(PREPARED)

    # ---- one response

    def _write_response(
        self, log: ImportLog, imported: ImportedMessage, message: AssistantMessage, attempt: str, step: int
    ) -> None:
        """Write a response as a whole: it was not streamed here."""
        model = imported.model or self._session.model
        log.append(ev.AttemptStarted(attempt=attempt, model=model))
        log.advance_to(imported.t)
        finish = self._finish_of(imported, message)
        usage = imported.usage or Usage(estimated=True)
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


def _is_compacted(session: ImportedSession) -> bool:
    return any(isinstance(one, ImportedCompaction) for one in session.messages)


def _session_digest(session: ImportedSession) -> bytes:
    """Return a digest of the first messages, to distinguish sessions with the same id. Run ids are derived from it."""
    some = [session.id, session.model, len(session.messages), session.messages[:2], session.messages[-2:]]
    return blake2b(msgspec.json.encode(some), digest_size=16).digest()


def _look_ahead(
    messages: list[ImportedMessage],
) -> tuple[dict[int, dict[str, ImportedMessage]], list[bool], list[float | None]]:
    """Return each message's tool results, by its index; whether its run has a later response; and the next known time.

    Computed in one pass over the session in each direction.
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
        elif isinstance(one.message, UserMessage) and one.origin in ("user", "interrupt"):
            continues = False
    return results, goes_on, times


# ---- the log


class ImportLog:
    """Event log of an imported run: numbers, dates, judges and folds events. Its clock is set from recorded times.

    start: start of the run, in seconds since 1970; None if unknown. transcript: fed with each event, if given.
    """

    def __init__(self, sink: Sink, start: float | None, transcript: Transcript | None = None) -> None:
        self.facts = Facts()
        self._judge = StepJudge()
        self._transcript = transcript
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
        if self._transcript is not None:
            self._transcript.feed(stamped)
        self._sink(stamped)
