"""Answers to the open questions of a paused run: checks them, and records them in the run that begins with them.

A question that the model asks is answered with any text, or with texts and images as in a prompt. A question that asks
to confirm a completion, to approve a call or to grant more steps is answered with yes or no, and asked again if the
answer is neither. A number of steps is also a yes to a question for more steps.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from .approvals import Approve, Deny, check_edited, has_expired
from .context import Context
from .decision import AssistantMessage, Image, Question, ToolCall, UserMessage, WrongUse
from .decision.confirmation import Reply, parse_reply
from .decision.events import CompletionRejected, QuestionAnswered
from .decision.limit_usage import extension
from .records.format import encode_line
from .tool_calls import record_acceptance
from .tools.results import Completion
from .tools.tool import Toolbox
from .user_message import Prompt, user_message
from .validation import check_prompt, preview

Answer = Prompt | Approve | Deny
"""Answer to an open question."""

ASK_AGAIN = 2
"""Number of times the user is asked again when the reply to a yes-or-no question is neither. After that, such a reply
counts as a no, and if the question was about a call, the model gets its text."""
MOST_STEPS_GRANTED = 999_999
"""Most steps that the user may grant at once."""

_STEPS = re.compile(r"\+?(\d{1,6})( more)?( steps?)?\.?", re.IGNORECASE)
"""Matches a reply that is a number of steps."""
_CODE = re.compile(r"[\w.]+\(\s*[^\s)].*\)|[\w.]+\s*=.*|[{\[].*", re.DOTALL)
"""Matches a reply that is a call with arguments, an assignment or JSON."""


@dataclass(frozen=True, slots=True)
class AnswerGiven:
    """The answer to an open question."""

    question: Question
    text: str
    says: Reply | None = None
    """How a reply to a yes-or-no question was understood; None if that is not known."""
    arguments: dict[str, Any] | None = None
    """Arguments of an approved call that replace those of the model."""
    expired: bool = False
    """True if nobody answered in time, which counts as a denial."""
    images: tuple[Image, ...] = ()
    """Images of an answer to a question that the model asked; `text` has their marks."""
    extends: int = 0
    """Number of steps that the user grants with a yes to a question for more steps."""


def calls_of(questions: Sequence[Question]) -> tuple[ToolCall, ...]:
    """Return the calls whose approval these questions ask for, sub-agents' included, each with its question's id."""
    return tuple(ToolCall(q.call_id, q.tool, encode_line(q.arguments).decode()) for q in questions if q.tool)


def under_id(call_id: str, answer: Any) -> Mapping[str, Any]:
    """Return one answer under the id of its question. Raises WrongUse for anything but an id."""
    check_id(call_id)
    return {call_id: answer}


def check_id(call_id: Any) -> None:
    """Raise WrongUse unless this may be the id of a question."""
    if isinstance(call_id, Question):
        raise WrongUse(f"a question is answered under its id: write question.call_id, which is {call_id.call_id!r}")
    if not isinstance(call_id, str):
        raise WrongUse(
            f"the id of a question is a text, not {preview(call_id)}: write question.call_id, as in 'call_1'"
        )


def check_answers(
    questions: Sequence[Question],
    answers: Mapping[str, Any],
    toolbox: Toolbox,
    redacted: Collection[str],
    where: str,
    hint: str = "",
) -> tuple[AnswerGiven, ...]:
    """Check answers to open questions and return them. Raises WrongUse if one does not fit its question.

    redacted: ids of calls whose arguments are known only in redacted form. where: the session, for messages.
    hint: where the questions are that are not open here, for messages.
    """
    if not isinstance(answers, Mapping):
        raise WrongUse(
            f"the answers are {preview(answers)}: write a mapping from the ids of the questions, as in "
            "{'call_1': Approve(), 'call_2': Deny('why')}"
        )
    if not answers:
        raise WrongUse(f"no answer is given to {where}: give at least one, under the id of its call")
    for id in answers:
        check_id(id)
        if not any(question.call_id == id for question in questions):
            waiting = ", ".join(q.call_id for q in questions) or "none"
            raise WrongUse(f"no question {id!r} is open in {where} (open: {waiting}){hint}")
    return tuple(_check_answer(questions, id, given, toolbox, redacted, where) for id, given in answers.items())


def _check_answer(
    questions: Sequence[Question], call_id: str, given: Any, toolbox: Toolbox, redacted: Collection[str], where: str
) -> AnswerGiven:
    question = next(question for question in questions if question.call_id == call_id)
    if isinstance(given, Approve | Deny) and question.tool is None:
        raise WrongUse(f"question {call_id!r} in {where} does not ask for approval: use answer({call_id!r}, text)")
    answer = _read(question, given, toolbox, [other.call_id for other in questions if other is not question])
    if answer.says == "yes" and answer.arguments is None and call_id in redacted:
        raise WrongUse(
            f"call {call_id!r} in {where} cannot run as it is: its arguments are in the record only in redacted form. "
            f"Give all of them with approve({call_id!r}, arguments={{...}}), or deny it"
        )
    return answer


def _read(question: Question, given: Any, toolbox: Toolbox, others: Sequence[str]) -> AnswerGiven:
    match given:
        case Approve(arguments=None):
            return AnswerGiven(question, "yes", "yes")
        case Approve(arguments=arguments):
            return AnswerGiven(question, "yes, with other arguments", "yes", check_edited(toolbox, question, arguments))
        case Deny(reason):
            if not isinstance(reason, str):
                check_prompt(reason, "reason")
            return AnswerGiven(question, reason.strip() or "no", "no")
        case str():
            return _read_message(question, UserMessage(given), others)
        case list() | tuple() | UserMessage():
            return _read_message(question, user_message(given, "answer"), others)
        case _:
            raise WrongUse(
                f"the answer to question {question.call_id!r} is {preview(given)}: write {_answers_to(question)}"
            )


def _answers_to(question: Question) -> str:
    """Return what to write as an answer, for messages."""
    if question.tool is not None:
        return "Approve() or Deny('why')"
    if question.extends:
        return "a text: 'yes', 'no' or a number of steps, as in '10'"
    return "a text: 'yes' or 'no'" if question.confirms is not None else "a text"


def _read_message(question: Question, message: UserMessage, others: Sequence[str]) -> AnswerGiven:
    """Return an answer of texts and images. Raises WrongUse if images answer a yes-or-no question."""
    says = understood(question, message.text, others)
    if message.images and says is not None:
        asks = "for an approval" if question.tool is not None else "to confirm a completion"
        if question.extends:
            asks = "for more steps"
        raise WrongUse(
            f"question {question.call_id!r} asks {asks}: answer yes or no in words. An image can go into a message or "
            "the next prompt"
        )
    extends = (_steps_in(message.text) or question.extends) if says == "yes" else 0
    return AnswerGiven(question, message.text, says, images=message.images, extends=extends)


def understood(question: Question, text: str, others: Sequence[str] = ()) -> Reply | None:
    """Return how a text answers a yes-or-no question; None for a question that takes any text.

    others: ids of the other open questions. A text that names one of them may be meant for that one: it is unclear.
    """
    if not question.wants_yes_or_no:
        return None
    if question.extends:
        says = _parse_extension(text)
    elif any(_names(text, id) for id in others):
        says = "unclear"
    elif question.tool is not None:  # with more than a yes, such as "yes, 5 euros", another call may be meant
        is_code = _CODE.fullmatch(text.strip()) is not None
        says = "unclear" if is_code else parse_reply(_without(text, question.call_id), plain=True)
    else:
        says = parse_reply(text)
    return "no" if says == "unclear" and question.unclear >= ASK_AGAIN else says


def _names(text: str, id: str) -> bool:
    return _id_pattern(id).search(text) is not None


def _without(text: str, id: str) -> str:
    """Return a text without this id in it, unless the id is all that it says."""
    return _id_pattern(id).sub(" ", text).strip() or text


def _id_pattern(id: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w-]){re.escape(id)}(?![\w-])", re.IGNORECASE)


def check_granted(steps: int) -> None:
    """Raise WrongUse unless the user may grant this number of steps."""
    if type(steps) is not int or not 1 <= steps <= MOST_STEPS_GRANTED:
        raise WrongUse(f"{steps!r} steps cannot be granted: use a whole number from 1 to {MOST_STEPS_GRANTED}")


def _parse_extension(text: str) -> Reply:
    """Parse a reply to a question for more steps. A number alone is a yes; a number among other words is unclear."""
    if _steps_in(text):
        return "yes"
    return "unclear" if any(map(str.isdecimal, text)) else parse_reply(text)


def _steps_in(text: str) -> int:
    """Return the number of steps that a reply consists of; 0 if it is not a number."""
    number = _STEPS.fullmatch(text.strip())
    return int(number[1]) if number is not None else 0


def with_expired(
    questions: Sequence[Question], answers: Sequence[AnswerGiven], now: datetime, seconds: float | None
) -> tuple[AnswerGiven, ...]:
    """Return the answers, with a denial for each question whose time is over; it replaces an answer that came late.

    seconds: the time that the policy allows for an approval; None for no limit.
    """
    late = [question for question in questions if has_expired(question, now)]
    text = "no approval came in time" if seconds is None else f"no approval came within {seconds:g} seconds"
    kept = (answer for answer in answers if answer.question not in late)
    return (*kept, *(AnswerGiven(question, text, "no", expired=True) for question in late))


def recorded_answers(questions: Sequence[Question], events: Sequence[QuestionAnswered]) -> tuple[AnswerGiven, ...]:
    """Return the answers with which a recorded run began, without answers to questions that are not in `questions`."""
    by_id = {question.call_id: question for question in questions}
    return tuple(
        AnswerGiven(
            by_id[event.call_id],
            event.text,
            _recorded_reply(by_id[event.call_id], event),
            event.arguments,
            event.expired,
            event.images,
            event.extends,
        )
        for event in events
        if event.call_id in by_id
    )


def _recorded_reply(question: Question, answer: QuestionAnswered) -> Reply | None:
    """Return how an answer was understood. Older records do not say it, and there an unclear answer counts as a no."""
    if answer.says is not None or question.confirms is None:
        return answer.says
    return "yes" if parse_reply(answer.text) == "yes" else "no"


def record_answers(context: Context, answers: Sequence[AnswerGiven]) -> None:
    """Log the answers with which a run begins, and what follows directly from them.

    An answer to a confirmation accepts or rejects its completion; an answer to a question for more steps grants them.
    """
    for given in answers:
        question = given.question
        context.log.append(
            QuestionAnswered(
                call_id=question.call_id,
                text=given.text,
                says=given.says,
                arguments=given.arguments,
                expired=given.expired,
                images=given.images,
                extends=given.extends,
            )
        )
        _settle_confirmation(context, question, given.text, given.says)
        if given.extends and question.is_about_limit and context.policy.limits.steps is not None:
            context.log.append(extension(given.extends, context.log.facts, context.policy))


def _settle_confirmation(context: Context, question: Question, text: str, says: Reply | None) -> None:
    """Accept or reject the completion, if the question was to confirm one."""
    if says is None or says == "unclear" or question.confirms is None or question.asker is not None:
        return  # a sub-agent settles its own question
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
    """Return the name of the tool of this call in the transcript; empty if there is no such call."""
    latest = (message for message in reversed(context.transcript.messages) if isinstance(message, AssistantMessage))
    return next((call.name for message in latest for call in message.calls if call.id == call_id), "")
