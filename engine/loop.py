"""The outer layer: a round of steps, one decision, and acting on what it says."""

from __future__ import annotations

from ..decision import GoOn, Outcome, Pause, Stop, conclude
from ..decision.events import CancelRequested, DecisionMade, MessageAdded, RoundStarted, ToolCallResult
from ..decision.transcript import UNANSWERED
from .compaction import compact
from .context import Context
from .step import run_round


async def run_rounds(context: Context) -> Outcome:
    """Drive a run to its outcome."""
    log = context.log
    while True:
        log.append(RoundStarted(round=log.facts.rounds + 1))
        await run_round(context)
        if context.cancelled is not None and log.facts.accepted is None:
            return cancelled(context)
        decision = context.decide(log.facts, context.policy)
        log.append(DecisionMade(round=log.facts.rounds, decision=decision))
        match decision:
            case Stop() | Pause():
                return conclude(log.facts, context.policy, decision)
            case GoOn():
                _prepare(context, decision)


def cancelled(context: Context) -> Outcome:
    """The outcome of a run that was ended from outside."""
    cause = context.cancelled.detail if context.cancelled is not None else "shutdown"
    context.log.append(CancelRequested(cause=cause))
    stop = Stop(rule="cancelled", reason="cancelled", detail=f"cancelled from outside: {cause}")
    context.log.append(DecisionMade(round=context.log.facts.rounds, decision=stop))
    return conclude(context.log.facts, context.policy, stop)


def _prepare(context: Context, decision: GoOn) -> None:
    """Do what a go-on asks for before the next request."""
    for call in context.transcript.open_calls:  # only where the rule that pauses was taken out of the policy
        context.log.append(ToolCallResult(call_id=call.id, name=call.name, content=UNANSWERED, status="unanswered"))
    if decision.compact:
        compact(context)
    if decision.say:
        context.log.append(MessageAdded(text=decision.say, origin="nudge"))
