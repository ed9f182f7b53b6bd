"""Begin a run: with a prompt, with answers, or where its process was killed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec.structs import replace

from .answers import AnswerGiven, record_answers, recorded_answers
from .config import RunConfig
from .context import Context
from .decision import Decision, Event, Facts, Message, UserMessage
from .decision.events import Carried, DecisionMade, ParentCall, RunStarted
from .decision.facts import usage_of
from .decision.transcript import estimate_tokens, message_size
from .records.format import DrainedChunk

if TYPE_CHECKING:
    from .resume_point import ResumePoint


@dataclass(frozen=True, slots=True)
class PromptGiven:
    """Start of a run with a new prompt."""

    message: UserMessage


@dataclass(frozen=True, slots=True)
class AnswersGiven:
    """Start of a run with answers to open questions."""

    answers: Sequence[AnswerGiven]


@dataclass(frozen=True, slots=True)
class RunContinued:
    """Continuation of a run whose process was killed."""

    point: ResumePoint


@dataclass(frozen=True, slots=True)
class ForkStarted:
    """Start of a fork with a decision of a recorded run, which it makes again."""

    point: ResumePoint
    lines: Sequence[Event | DrainedChunk]
    """The copied lines at the beginning of its record."""


Opening = PromptGiven | AnswersGiven | RunContinued | ForkStarted


def continued(opening: Opening) -> ResumePoint | None:
    """Return where a resumed run or a fork goes on; None for a run that begins with a prompt or an answer."""
    match opening:
        case RunContinued(point) | ForkStarted(point=point):
            return point
        case PromptGiven() | AnswersGiven():
            return None


def prompt_of(opening: Opening) -> str | None:
    """Return the prompt with which a run began; None if it began with an answer."""
    match opening:
        case PromptGiven(message):
            return message.text
        case RunContinued(point) | ForkStarted(point=point):
            return point.started.prompt
        case AnswersGiven():
            return None


@dataclass(frozen=True, slots=True)
class RunIds:
    """Ids of a run and its session."""

    run: str
    session: str
    parent: ParentCall | None = None
    """For a sub-agent's run: the call that started it."""


def start(
    context: Context,
    config: RunConfig,
    opening: PromptGiven | AnswersGiven,
    ids: RunIds,
    paused: Facts | None,
    before: Carried,
    history: Sequence[Message],
) -> None:
    """Append the first events of a new run.

    paused: the facts of the paused run that it continues; None if it continues none. before: usage of all earlier runs
    of the session. history: the messages with which the session begins, if this is its first run.
    """
    message = opening.message if isinstance(opening, PromptGiven) else None
    if history:  # a context that is too large is compacted before the first request
        before = replace(before, context_tokens=estimate_tokens(sum(map(message_size, history))))
    context.log.append(
        RunStarted(
            run_id=ids.run,
            session_id=ids.session,
            prompt=None if message is None else message.text,
            images=() if message is None else message.images,
            history=tuple(history),
            **config.recorded_settings(history),
            continues=paused.run_id if paused else None,
            carried=usage_of(paused) if paused else None,
            before=before if before != Carried() else None,
            started_at=context.started_at,
            parent=ids.parent,
        )
    )
    if isinstance(opening, AnswersGiven):
        record_answers(context, opening.answers)


def resume(context: Context, point: ResumePoint) -> Decision | None:
    """Continue a run whose process was killed, or a fork, and return its last decision; None if it made none."""
    decision = point.decision
    if point.due:
        decision = point.first_decision(lambda facts: context.decide(facts, context.policy))
        context.log.append(DecisionMade(round=point.facts.rounds, decision=decision))
    if point.latest.cancelled is not None:
        context.cancel(point.latest.cancelled)
    questions = point.started.carried.questions if point.started.carried is not None else ()
    record_answers(context, recorded_answers(questions, point.answers))
    return decision
