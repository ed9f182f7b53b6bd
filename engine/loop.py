"""The outer layer: a round of steps, one decision, and acting on what it says."""

from __future__ import annotations

from .compaction import compact
from .context import Context
from .decision import Decision, GoOn, Outcome, Pause, Stop, UserMessage, conclude
from .decision.ending import closes
from .decision.events import (
    CancelRequested,
    Carried,
    ContextCompacted,
    DecisionMade,
    MessageAdded,
    RoundStarted,
    ToolCallResult,
)
from .decision.rounds import due_at_the_start
from .decision.transcript import UNANSWERED
from .hook_runner import ask, progress, read_judge
from .judge import ModelJudge
from .step import run_closing_step, run_round

LOOKED_BACK = 3
"""The next-step prompt is not added while it is among so many of the user's latest messages."""


async def run_rounds(context: Context) -> Outcome:
    """Drive a run to its outcome."""
    decision = _taken_up(context)
    while True:
        if decision is None:
            await _round(context)
            if context.cancelled is None or context.log.facts.accepted is not None:
                decision = _decide(context)
        if decision is None or _cancelled_before_its_end(context, decision):
            return cancelled(context)
        match decision:
            case Stop() | Pause():
                if _wants_closing(context, decision):
                    await run_closing_step(context)
                return conclude(context.log.facts, context.policy, decision)
            case GoOn():
                await _prepare(context, decision)
        context.interrupted = decision = None


def _decide(context: Context) -> Decision:
    decision = context.decide(context.log.facts, context.policy)
    context.log.append(DecisionMade(round=context.log.facts.rounds, decision=decision))
    return decision


def _taken_up(context: Context) -> Decision | None:
    """What is decided before any round: by the run's beginning, or where its process was killed."""
    facts, killed = context.log.facts, context.interrupted
    if killed is not None and (killed.decision is not None or killed.in_round):
        return killed.decision
    if facts.accepted is not None or facts.handled is not None or facts.questions:
        return _decide(context)
    if facts.before == Carried() and facts.steps == 0:
        return None
    # Limits that an earlier run has used up end this one before it costs anything, and a context that is too large is
    # made smaller before it is sent.
    decision = context.look_ahead(facts, context.policy)
    return _decide(context) if due_at_the_start(decision) else None


def _cancelled_before_its_end(context: Context, decision: Decision) -> bool:
    """A stop that was decided stays one, and so does what an accepted completion has come to."""
    if isinstance(decision, GoOn):
        return context.cancelled is not None
    ended = isinstance(decision, Stop) or context.log.facts.accepted is not None
    return context.cancelled is not None and not ended


def cancelled(context: Context) -> Outcome:
    """The outcome of a run that was ended from outside."""
    cause = context.cancelled.detail if context.cancelled is not None else "shutdown"
    context.log.append(CancelRequested(cause=cause))
    stop = Stop(rule="cancelled", reason="cancelled", detail=f"cancelled from outside: {cause}")
    context.log.append(DecisionMade(round=context.log.facts.rounds, decision=stop))
    return conclude(context.log.facts, context.policy, stop)


async def _round(context: Context) -> None:
    killed = context.interrupted
    if killed is None or not killed.in_round:
        context.log.append(RoundStarted(round=context.log.facts.rounds + 1))
    if context.halfway is None:
        _add_next_step_prompt(context)
    await run_round(context)
    if context.judge is not None and context.cancelled is None and _would_go_on(context):
        with context.cancellable():
            tokens = context.tokens_now() if isinstance(context.judge, ModelJudge) else None
            await ask(context, "judge", context.judge, (progress(context),), read_judge, tokens=tokens)


def _would_go_on(context: Context) -> bool:
    return isinstance(context.look_ahead(context.log.facts, context.policy), GoOn)


def _wants_closing(context: Context, decision: Decision) -> bool:
    if context.interrupted is not None and context.interrupted.closed:
        return False
    return isinstance(decision, Stop) and closes(context.log.facts, context.policy, decision)


def _add_next_step_prompt(context: Context) -> None:
    prompt = context.policy.prompts.next_step
    if not prompt or context.skip_next_step:
        return
    latest: list[str] = []
    for message in reversed(context.transcript.messages):
        if isinstance(message, UserMessage):
            latest.append(message.text)
            if len(latest) == LOOKED_BACK:
                break
    if prompt not in latest:
        context.log.append(MessageAdded(text=prompt, origin="next_step"))


async def _prepare(context: Context, decision: GoOn) -> None:
    """Do what a go-on asks for before the next request."""
    for call in context.transcript.open_calls:  # only where the rule that pauses was taken out of the policy
        context.log.append(ToolCallResult(call_id=call.id, name=call.name, content=UNANSWERED, status="unanswered"))
    if decision.compact and context.before_kill(ContextCompacted) is None:
        with context.cancellable():
            await compact(context)
    if decision.say and context.before_kill(MessageAdded, origin="nudge") is None:
        context.log.append(MessageAdded(text=decision.say, origin="nudge"))
    if decision.remind and context.before_kill(MessageAdded, origin="reminder") is None:
        context.ephemeral.append(UserMessage(decision.remind))
        context.log.append(
            MessageAdded(text=decision.remind, origin="reminder", ephemeral=True, topics=decision.topics)
        )
