"""How a run begins: with a prompt, with the answer to a question, or where a killed process left it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..decision import Event, Facts, Question
from ..decision.events import (
    Carried,
    CompletionAccepted,
    CompletionRejected,
    QuestionAnswered,
    ResponseFinished,
    RunResumed,
    RunStarted,
    StepFinished,
    StepStarted,
    ToolCallResult,
)
from .context import Context
from .version import VERSION

if TYPE_CHECKING:
    from .engine import Engine

UNKNOWN = (
    "The process died while this call was running or waiting to run. Its effect is not known: find out what it is "
    "before you call it again."
)
YES = frozenset(
    {"yes", "y", "ok", "okay", "confirm", "confirmed", "true", "done", "ja", "oui", "si", "sí", "是", "はい"}
)
"""Answers that confirm a completion; everything else hands it back with what the user said."""


@dataclass(frozen=True, slots=True)
class PromptGiven:
    """The user says something new."""

    prompt: str


@dataclass(frozen=True, slots=True)
class AnswerGiven:
    """The user answers an open question."""

    question: Question
    text: str


@dataclass(frozen=True, slots=True)
class Interrupted:
    """A run without an end: what was known, and where it stands."""

    facts: Facts
    seq: int
    t: int
    step: int | None
    """The step that was under way."""
    answered: bool
    """Whether the response of that step had come whole."""

    @classmethod
    def at(cls, events: Iterable[Event], facts: Facts) -> Interrupted:
        """Where these events end."""
        step, answered, seq, t = None, False, 0, 0
        for event in events:
            seq, t = event.seq, event.t
            match event:
                case StepStarted():
                    step, answered = event.step, False
                case ResponseFinished():
                    answered = True
                case StepFinished():
                    step = None
                case _:
                    pass
        return cls(facts, seq, t, step, answered)


Opening = PromptGiven | AnswerGiven | Interrupted


@dataclass(frozen=True, slots=True)
class RunIds:
    """Who the run is."""

    run: str
    session: str


def start(
    context: Context,
    engine: Engine,
    opening: PromptGiven | AnswerGiven,
    ids: RunIds,
    paused: Facts | None,
    before: Carried,
) -> None:
    """Write the first events of a new run. `paused`: the run that it goes on from."""
    context.started_at = context.clock.wall().isoformat(timespec="milliseconds")
    context.log.append(
        RunStarted(
            run_id=ids.run,
            session_id=ids.session,
            prompt=opening.prompt if isinstance(opening, PromptGiven) else None,
            system=engine.system,
            model=engine.provider.model,
            policy=context.policy,
            tools=context.toolbox.specs,
            tool_choice=context.tool_choice,
            settings=dict(context.settings),
            continues=paused.run_id if paused else None,
            carried=carried(paused) if paused else None,
            before=before if before != Carried() else None,
            started_at=context.started_at,
            engine=VERSION,
        )
    )
    if isinstance(opening, AnswerGiven):
        _answer(context, opening.question, opening.text)


def resume(context: Context, interrupted: Interrupted) -> None:
    """Go on with a run that was killed: an unfinished response is asked for again, an open call is `unknown`."""
    step = interrupted.step
    context.log.append(RunResumed(interrupted_step=step if not interrupted.answered else None))
    asked = {question.call_id for question in interrupted.facts.questions}
    for call in context.transcript.open_calls:
        if call.id not in asked:
            context.log.append(ToolCallResult(call_id=call.id, name=call.name, content=UNKNOWN, status="unknown"))
    if step is not None and interrupted.answered:
        context.log.append(StepFinished(step=step))


def _answer(context: Context, question: Question, text: str) -> None:
    name = next((call.name for call in context.transcript.open_calls if call.id == question.call_id), "")
    context.log.append(QuestionAnswered(call_id=question.call_id, text=text))
    if question.confirms is None:
        return
    if text.strip().strip(".!").casefold() in YES:
        context.log.append(
            CompletionAccepted(
                call_id=question.call_id,
                name=name,
                answer=question.confirms,
                pending_issues=question.pending_issues,
            )
        )
    else:
        reason = f"The user does not confirm it and says: {text}"
        context.log.append(CompletionRejected(call_id=question.call_id, name=name, reason=reason, by="user"))


def carried(facts: Facts) -> Carried:
    """What a run has used, for the one that goes on from it."""
    return Carried(
        steps=facts.steps,
        rounds=facts.rounds,
        requests=facts.requests,
        tool_calls=facts.tool_calls,
        rejections=facts.rejections,
        usage=facts.usage,
        elapsed_ms=facts.t + facts.carried_ms,
        reminded=facts.reminded,
        phases=facts.phases,
        questions=facts.questions,
    )


def added(one: Carried, other: Carried) -> Carried:
    """What both have used, for limits of the session."""
    return Carried(
        steps=one.steps + other.steps,
        rounds=one.rounds + other.rounds,
        requests=one.requests + other.requests,
        tool_calls=one.tool_calls + other.tool_calls,
        usage=one.usage + other.usage if one != Carried() else other.usage,
        elapsed_ms=one.elapsed_ms + other.elapsed_ms,
    )
