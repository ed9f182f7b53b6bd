"""How a run begins: with a prompt, with the answer to a question, or where a killed process left it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ._version import __version__
from .completions import record_acceptance
from .context import Context
from .decision import AssistantMessage, Facts, Question, ToolCall, ToolSpec, UserMessage, WrongUse
from .decision.confirmation import Reply, reply_of
from .decision.events import (
    Carried,
    CompletionRejected,
    QuestionAnswered,
    RunResumed,
    RunStarted,
    StepFinished,
    ToolCallResult,
)
from .halfway import Halfway
from .resume_point import Interrupted
from .tools.answers import Completion
from .tools.results import AT_THE_LIMIT, CANCELLED, UNKNOWN
from .tools.toolbox import Toolbox

if TYPE_CHECKING:
    from .engine import Engine

ASKED_AGAIN = 2
"""How often the user is asked again whose reply to a confirmation is neither yes nor no. The next such reply hands the
completion back to the model, with what the user said."""


@dataclass(frozen=True, slots=True)
class PromptGiven:
    """The user says something new."""

    prompt: str


@dataclass(frozen=True, slots=True)
class AnswerGiven:
    """The user answers an open question."""

    question: Question
    text: str


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
            finish_words=dict(context.finish_words),
            endpoint=getattr(engine.provider, "endpoint", ""),
            prices=dict(context.prices),
            functions=engine.functions,
            continues=paused.run_id if paused else None,
            carried=carried(paused) if paused else None,
            before=before if before != Carried() else None,
            started_at=context.started_at,
            engine=__version__,
        )
    )
    if isinstance(opening, AnswerGiven):
        _answer(context, opening.question, opening.text)


def resume(context: Context, interrupted: Interrupted) -> None:
    """Go on with a run that was killed.

    A response that was not whole is asked for again. Else the round enters its step again, where it stood.
    """
    facts, halfway = interrupted.facts, interrupted.halfway
    context.interrupted = interrupted
    context.started_at = interrupted.started_at
    context.skip_next_step = interrupted.skip_next_step
    context.ephemeral += [UserMessage(text) for text in interrupted.ephemeral]
    if facts.cancelled is not None:
        context.cancel(facts.cancelled)
    unfinished = halfway is not None and halfway.response is None
    context.log.append(RunResumed(interrupted_step=halfway.step if halfway is not None and unfinished else None))
    if interrupted.answered is not None:
        question, text, says = interrupted.answered
        if says is None and question.confirms is not None:  # an answer that no version wrote the meaning of
            says = "yes" if reply_of(text) == "yes" else "no"
        _settle_confirmation(context, question, text, says)
    if halfway is not None and not unfinished and not interrupted.in_round:
        _close(context, halfway)


def _close(context: Context, halfway: Halfway) -> None:
    """End a step outside of the rounds, in which nothing runs any more: the closing one, or one that was cancelled."""
    asked = {question.call_id for question in context.log.facts.questions}
    for call in context.transcript.open_calls:
        if call.id not in asked:
            context.log.append(_given_up(call, halfway, closing=context.log.facts.closing))
    context.log.append(StepFinished(step=halfway.step))


def _given_up(call: ToolCall, halfway: Halfway, *, closing: bool) -> ToolCallResult:
    if closing:
        return ToolCallResult(call_id=call.id, name=call.name, content=AT_THE_LIMIT, status="skipped")
    if call.id in halfway.begun:
        return ToolCallResult(call_id=call.id, name=call.name, content=UNKNOWN, status="unknown")
    return ToolCallResult(call_id=call.id, name=call.name, content=CANCELLED, status="cancelled")


def _answer(context: Context, question: Question, text: str) -> None:
    says = None if question.confirms is None else _said(context, question, text)
    context.log.append(QuestionAnswered(call_id=question.call_id, text=text, says=says))
    _settle_confirmation(context, question, text, says)


def _said(context: Context, question: Question, text: str) -> Reply:
    """What a reply to a confirmation says; in a replay, what was made of it then."""
    recorded = None if context.recalled is None else context.recalled.reply(question.call_id)
    if recorded is not None:
        return recorded
    says = reply_of(text)
    return "no" if says == "unclear" and question.unclear >= ASKED_AGAIN else says


def _settle_confirmation(context: Context, question: Question, text: str, says: Reply | None) -> None:
    """Accept or hand back the completion that the user was asked to confirm, if that was the question."""
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


def check_functions(recorded: Mapping[str, Sequence[str]], brought: Mapping[str, Sequence[str]]) -> None:
    """Refuse to go on without a role that had a say when the run began: it would end by other rules unnoticed.

    Another function in that role will do, as functions get new names.
    """
    for role, names in recorded.items():
        if role not in brought:
            raise WrongUse(
                f"the run began with a {role.replace('_', ' ')}, {', '.join(names)}, which no record can hold: "
                "bring it, or another one in its place"
            )


def check_tools(recorded: Sequence[ToolSpec], brought: Toolbox) -> None:
    """Refuse to go on with other tools than the run was offered: the model has read them, and may have called them.

    Another description will do, and so will tools that were added.
    """
    missing = [spec.name for spec in recorded if spec.name not in brought]
    if missing:
        raise WrongUse(
            f"the run was offered tools that are not there now: {', '.join(missing)}: bring them, or tools of these "
            "names that take the same parameters"
        )
    for spec in recorded:
        now = brought[spec.name].spec
        kept = ("parameters", "kind", "reads") if spec.kind == "ordinary" else ("parameters", "kind")
        changed = [name for name in kept if getattr(now, name) != getattr(spec, name)]
        if changed:
            raise WrongUse(
                f"tool {spec.name!r} has changed since the run was offered it, in its {' and '.join(changed)}: "
                "bring it as it was"
            )


def _name_of(context: Context, call_id: str) -> str:
    """The tool that a call of the transcript names; looked for from its end."""
    latest = (message for message in reversed(context.transcript.messages) if isinstance(message, AssistantMessage))
    return next((call.name for message in latest for call in message.calls if call.id == call_id), "")


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
        context_tokens=facts.context_tokens,
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
        context_tokens=other.context_tokens,
    )
