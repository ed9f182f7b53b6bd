"""Answers to the open questions of a paused run: what is checked of them, and what a run that begins with them records.

A question of the model is answered with any text. One that asks to confirm a completion, or to approve a call, is
answered with yes or no, and asked again if the answer is neither.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from .approvals import Approve, Deny, check_edited, has_expired
from .context import Context
from .decision import AssistantMessage, Question, WrongUse
from .decision.confirmation import Reply, parse_reply
from .decision.events import CompletionRejected, QuestionAnswered
from .tool_calls import record_acceptance
from .tools.results import Completion
from .tools.tool import Toolbox
from .validation import check_prompt

ASK_AGAIN = 2
"""How often the user is asked again whose reply to a confirmation or an approval is neither yes nor no. After that,
such a reply is a no, and the model gets the reply."""


@dataclass(frozen=True, slots=True)
class AnswerGiven:
    """The answer to an open question."""

    question: Question
    text: str
    says: Reply | None = None
    """How the reply to a confirmation or an approval was understood, if that is known."""
    arguments: dict[str, Any] | None = None
    """For an approved call: the arguments that replace those of the model."""
    expired: bool = False
    """True if nobody answered in time: a denial."""


def check_answers(
    questions: Sequence[Question], answers: Mapping[str, Any], toolbox: Toolbox, redacted: Collection[str], where: str
) -> tuple[AnswerGiven, ...]:
    """The answers to open questions. Raises WrongUse for one that does not fit its question.

    redacted: ids of calls whose arguments are known only in redacted form. where: the session, for messages.
    """
    if not answers:
        raise WrongUse(f"no answer is given to {where}: give at least one, under the id of its call")
    return tuple(_check_answer(questions, id, given, toolbox, redacted, where) for id, given in answers.items())


def _check_answer(
    questions: Sequence[Question], call_id: str, given: Any, toolbox: Toolbox, redacted: Collection[str], where: str
) -> AnswerGiven:
    question = next((question for question in questions if question.call_id == call_id), None)
    if question is None:
        waiting = ", ".join(q.call_id for q in questions) or "none"
        raise WrongUse(f"no question {call_id!r} is open in {where} (open: {waiting})")
    if isinstance(given, Approve | Deny) and question.tool is None:
        raise WrongUse(f"question {call_id!r} in {where} asks for no approval: use answer({call_id!r}, text)")
    answer = _read(question, given, toolbox)
    if answer.says == "yes" and answer.arguments is None and call_id in redacted:
        raise WrongUse(
            f"call {call_id!r} in {where} cannot run as it is: its arguments are in the record only in redacted form. "
            f"Give all of them with approve({call_id!r}, arguments={{...}}), or deny it"
        )
    return answer


def _read(question: Question, given: Any, toolbox: Toolbox) -> AnswerGiven:
    match given:
        case Approve(arguments=None):
            return AnswerGiven(question, "yes", "yes")
        case Approve(arguments=arguments):
            return AnswerGiven(question, "yes, with other arguments", "yes", check_edited(toolbox, question, arguments))
        case Deny(reason):
            if not isinstance(reason, str):
                check_prompt(reason, "reason")
            return AnswerGiven(question, reason.strip() or "no", "no")
        case _:
            if not isinstance(given, str):
                check_prompt(given, "answer")
            return AnswerGiven(question, given, understood(question, given))


def understood(question: Question, text: str) -> Reply | None:
    """How a text answers a question; None if the question takes any text."""
    if question.confirms is None and question.tool is None:
        return None
    says = parse_reply(text)
    return "no" if says == "unclear" and question.unclear >= ASK_AGAIN else says


def with_expired(
    questions: Sequence[Question], answers: Sequence[AnswerGiven], now: datetime, seconds: float | None
) -> tuple[AnswerGiven, ...]:
    """These answers, and a denial of each call that was not approved in time, in place of an answer that comes later.

    seconds: how long there was for an approval.
    """
    late = [question for question in questions if has_expired(question, now)]
    text = "no approval came in time" if seconds is None else f"no approval came within {seconds:g} seconds"
    kept = (answer for answer in answers if answer.question not in late)
    return (*kept, *(AnswerGiven(question, text, "no", expired=True) for question in late))


def recorded_answers(questions: Sequence[Question], events: Sequence[QuestionAnswered]) -> tuple[AnswerGiven, ...]:
    """The answers with which a recorded run began, to those of these questions that they answer."""
    by_id = {question.call_id: question for question in questions}
    return tuple(
        AnswerGiven(
            by_id[event.call_id],
            event.text,
            _recorded_reply(by_id[event.call_id], event),
            event.arguments,
            event.expired,
        )
        for event in events
        if event.call_id in by_id
    )


def _recorded_reply(question: Question, answer: QuestionAnswered) -> Reply | None:
    """How an answer was understood. Records of older versions do not say it; there, unclear answers were refusals."""
    if answer.says is not None or question.confirms is None:
        return answer.says
    return "yes" if parse_reply(answer.text) == "yes" else "no"


def record_answers(context: Context, answers: Sequence[AnswerGiven]) -> None:
    """Log the answers with which a run begins, and accept or reject a completion that the user was asked about."""
    for given in answers:
        question = given.question
        context.log.append(
            QuestionAnswered(
                call_id=question.call_id,
                text=given.text,
                says=given.says,
                arguments=given.arguments,
                expired=given.expired,
            )
        )
        _settle_confirmation(context, question, given.text, given.says)


def _settle_confirmation(context: Context, question: Question, text: str, says: Reply | None) -> None:
    """Accept or reject the completion, if the question was to confirm one."""
    if says is None or says == "unclear" or question.confirms is None:
        return
    name = _name_of(context, question.call_id)
    if says == "yes":
        confirmed = Completion(
            answer=question.confirms, pending_issues=question.pending_issues, percentage=question.percentage
        )
        record_acceptance(context, question.call_id, name, confirmed)
    else:
        reason = f"The user does not confirm it and says: {text}"
        context.log.append(CompletionRejected(call_id=question.call_id, name=name, reason=reason, by="user"))


def _name_of(context: Context, call_id: str) -> str:
    """The name of the tool that a call in the transcript calls."""
    latest = (message for message in reversed(context.transcript.messages) if isinstance(message, AssistantMessage))
    return next((call.name for message in latest for call in message.calls if call.id == call_id), "")
