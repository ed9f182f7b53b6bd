"""Writer of the events of a run whose loop is not ours, as the engine would have written them.

An import passes the contents of a transcript, a follower the reports of a live loop (`follow/follower.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec
from msgspec.structs import replace

from ..decision import (
    EvaluationVerdict,
    Facts,
    Pause,
    Policy,
    Stop,
    ToolCall,
    ToolKind,
    ToolResult,
    build_outcome,
)
from ..decision import events as ev
from ..decision.events import (
    CompletionAccepted,
    CompletionRejected,
    PhaseReported,
    QuestionAsked,
    ThoughtRecorded,
    ToolCallResult,
    ToolExecutionStarted,
)
from ..decision.facts import add_usage, usage_of
from ..decision.messages import ResultStatus
from ..decision.outcome import RUN_STAGE_STATUS, Outcome
from ..tools.results import ANSWER_FIELDS, SKIPPED, Completion, Continue, Phase, fingerprint, parse_completion
from .imported_session import ImportedVerdict
from .parsing import as_dict, as_list

NO_RESULT = "The transcript that was imported holds no result of this call."
CANCELLED = "Cancelled while it was running or waiting to run."
MAX_OPEN_QUESTIONS = 100
"""Maximum number of open questions of a step, because a run's facts hold each of them. Further ones are ordinary
calls."""
PREPARED = ev.StageFinished(stage="prepare", status="absent")
"""Event after RUN_STARTED, or after the user's answers with which a run begins: nothing was prepared."""
_ANSWER_ARGUMENTS = (*ANSWER_FIELDS, "reason")
_QUESTION_ARGUMENTS = ("question", "questions", "message", "text", "prompt", "query", "response")
_THOUGHT_ARGUMENTS = ("thought", "thinking", "thoughts", "text", "content", "message")


class RunLog(Protocol):
    """Log of one run, which numbers, dates and folds each event that is appended."""

    facts: Facts

    def append(self, event: Any) -> Any:
        """Append an event."""
        ...


class RunStarts:
    """Writer of the RUN_STARTED of each run of a session, with what a run takes over from those before it.

    before: usage of earlier runs of the session, in a record that is continued. latest: the log of its latest run, if
    that can go on; it is not in `before`.
    """

    def __init__(self, before: ev.Carried = ev.Carried(), latest: RunLog | None = None) -> None:  # noqa: B008
        self._run_id = "" if latest is None else latest.facts.run_id
        self.before = before
        """Usage of the session's runs before the latest one."""
        self._latest = latest

    def write(self, log: RunLog, run: ev.RunStarted, *, answered: bool = False) -> ev.RunStarted:
        """Write the start of a run, and return the event as it is recorded.

        run: the event without what is taken over. answered: whether the run continues the latest one with the user's
        answers.
        """
        paused = self._latest.facts if self._latest is not None and answered else None
        if self._latest is not None and not answered:
            self.before = add_usage(self.before, usage_of(self._latest.facts))
        started: ev.RunStarted = log.append(
            replace(
                run,
                continues=None if paused is None else self._run_id,
                carried=None if paused is None else usage_of(paused),
                before=self.before if self.before != ev.Carried() else None,
            )
        )
        self._run_id, self._latest = run.run_id, log
        return started


def write_outcome(
    log: RunLog, policy: Policy, decision: Stop | Pause, verdict: ImportedVerdict | None = None
) -> Outcome:
    """Write the events that follow the last decision of a run, and return its outcome."""
    outcome = build_outcome(log.facts, policy, decision)
    if outcome.stop_reason.startswith("custom:") and outcome.status == "completed" and not outcome.answer:
        outcome = replace(outcome, answer=log.facts.text)
    log.append(ev.StageFinished(stage="run", status=RUN_STAGE_STATUS[outcome.status], detail=outcome.stop_reason))
    if verdict is None:
        log.append(ev.StageFinished(stage="evaluate", status="absent", detail=f"the run is {outcome.status}"))
    else:
        said: EvaluationVerdict = "passed" if verdict.passed else "failed"
        log.append(ev.EvaluationFinished(verdict=said, name=verdict.name, details=verdict.details))
        log.append(ev.StageFinished(stage="evaluate", status="ok", detail=said))
        outcome = replace(outcome, verdict=said, evaluation={"name": verdict.name, **verdict.details})
    log.append(ev.RunFinished(outcome=outcome))
    return outcome


class CallResolver:
    """Writer of the events of one step's calls, with recorded results, or inferred ones if none are recorded.

    `goes_on`: whether the run has a later response.
    """

    def __init__(self, log: RunLog, kinds: Mapping[str, ToolKind], calls: Sequence[ToolCall], goes_on: bool) -> None:
        self._log = log
        self._kinds = kinds
        self._goes_on = goes_on
        self._may_pause = log.facts.accepted is None and not any(kinds.get(call.name) == "completion" for call in calls)
        self._completed = False
        self._asked = 0
        self.answers: list[ToolResult] = []
        """The user's answers to questions of this step, for the run that continues."""
        self.lost = 0
        """Number of calls whose result is unknown."""

    def is_answer(self, call: ToolCall, result: ToolResult) -> bool:
        """Return whether the result is the user's answer to a question of the model."""
        asks = self._kinds.get(call.name) == "question" and self._may_ask
        return asks and result.status == "ok" and not result.images

    def resolve(self, call: ToolCall, result: ToolResult) -> None:
        """Write a call whose result is known."""
        log, kind, status = self._log, self._kinds.get(call.name, "ordinary"), result.status
        if status in ("ok", "error", "rejected"):
            log.append(ToolExecutionStarted(call_id=call.id, name=call.name))
        if self.is_answer(call, result):
            self._write_question(call)
            self.answers.append(result)
            return
        if kind == "completion" and log.facts.accepted is None:
            status = self._complete(call, result)
        elif kind == "think" and status == "ok":
            log.append(ThoughtRecorded(call_id=call.id, text=_text_argument(call, _THOUGHT_ARGUMENTS)))
        self._write_result(call, result.content, status, result)

    def reject(self, call: ToolCall, result: ToolResult, reason: str, by: str) -> None:
        """Write a completion that is not accepted, whatever its tool has returned."""
        self._log.append(ToolExecutionStarted(call_id=call.id, name=call.name))
        self._log.append(CompletionRejected(call_id=call.id, name=call.name, reason=reason, by=by))
        self._write_result(call, result.content, "rejected", result)

    def resolve_missing(self, call: ToolCall) -> None:
        """Write a call without a recorded result.

        Depending on its kind and on what follows, it is an accepted completion, an open question, skipped, unknown or
        cancelled.
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
        """Accept or reject a completion, and return the status of its result."""
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
        mark = "" if status == "unknown" else fingerprint(call, content, images, self._log.facts.compared)
        self._log.append(
            ToolCallResult(
                call_id=call.id, name=call.name, content=content, status=status, fingerprint=mark, images=images
            )
        )


def completes(result: ToolResult) -> bool:
    """Return whether this result of a completion call completes the task: its tool does not say otherwise."""
    return result.status == "ok" and isinstance(parse_completion(result.content, {}), Completion)


def _text_argument(call: ToolCall, names: Sequence[str]) -> str:
    """Return the text in a call's arguments: the first of these that has one, otherwise any other except `command`."""
    try:
        arguments: Any = msgspec.json.decode(call.arguments)
    except (msgspec.DecodeError, RecursionError):
        return call.arguments
    values = as_dict(arguments)
    order = (*names, *(name for name in values if name != "command"))
    texts = (values[name] for name in order if name in values)
    return next((text for value in texts if (text := _plain_text(value))), "")


def _plain_text(value: Any) -> str:
    """Return the text, or the joined texts of a list of questions."""
    if isinstance(value, str):
        return value.strip() and value
    parts = [as_dict(part).get("question", part) for part in as_list(value)]
    return "\n".join(part for part in parts if isinstance(part, str))
