"""From the last decision to the outcome."""

from __future__ import annotations

from msgspec.structs import replace

from .decisions import Pause, Stop
from .facts import Facts
from .limits import STOP_REASONS
from .outcome import Outcome
from .policy import Policy
from .spending import spending


def conclude(facts: Facts, policy: Policy, decision: Stop | Pause) -> Outcome:
    """The outcome of a run that this decision ends or pauses."""
    if isinstance(decision, Stop):
        status, reason, detail = decision.ends_as, decision.reason, decision.detail
    else:
        status, reason, detail = "awaiting_input", "awaiting_input", "the model waits for the user's answer"
    spent = list(spending(facts, policy))
    return Outcome(
        run_id=facts.run_id,
        session_id=facts.session_id,
        status=status,
        stop_reason=reason,
        detail=detail,
        answer=_answer(facts, reason),
        steps=facts.steps,
        rounds=facts.rounds,
        requests=facts.requests,
        usage=facts.usage,
        limits={one.name: one.use for one in spent},
        exceeded_limit=reason in STOP_REASONS.values() or any(one.use.used > one.use.allowed for one in spent),
        phases=facts.phases,
        pending_issues=facts.pending_issues,
        accepted_by=facts.accepted_by if status == "completed" else (),
        failed_calls=facts.failures.names,
        questions=facts.questions,
        duration_ms=facts.t + facts.carried_ms,
    )


def renewed(outcome: Outcome, facts: Facts) -> Outcome:
    """A recorded outcome with what older versions did not write into it; `facts`: at the end of its run."""
    accepted_by = facts.accepted_by if outcome.status == "completed" else ()
    return replace(outcome, accepted_by=accepted_by, failed_calls=facts.failures.names)


def _answer(facts: Facts, reason: str) -> str:
    if facts.accepted is not None:
        return facts.answer
    if facts.handled is not None:
        return facts.handled
    return facts.text if reason in ("text_final", "judged", "degenerate") or facts.closing else ""
