"""The calls of one imported step: each gets the one result that the other loop gave it, or what the engine says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ..decision import ToolCall, ToolKind, ToolResult
from ..decision.events import (
    CompletionAccepted,
    CompletionRejected,
    PhaseReported,
    QuestionAsked,
    ThoughtRecorded,
    ToolCallResult,
    ToolExecutionStarted,
)
from ..decision.messages import ResultStatus
from ..tool_calls import SKIPPED
from ..tools.results import ANSWERS, Completion, Continue, Phase, completion_of, fingerprint
from .log import RunLog
from .parsing import listed, mapping
from .transcript import Said

NO_RESULT = "The transcript that was imported holds no result of this call."
CANCELLED = "Cancelled while it was running or waiting to run."

MOST_QUESTIONS = 100
"""Questions of one step that may be open at once: what is known of a run holds each of them."""
_ANSWER = (*ANSWERS, "reason")
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
        said = completion_of(result.content, {})
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
