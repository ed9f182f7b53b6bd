"""From the last decision to the outcome."""

from __future__ import annotations

from .decisions import Pause, Stop
from .facts import Facts
from .outcome import LimitUse, Outcome
from .policy import Policy


def conclude(facts: Facts, policy: Policy, decision: Stop | Pause) -> Outcome:
    """The outcome of a run that this decision ends or pauses."""
    if isinstance(decision, Stop):
        status, reason, detail = decision.ends_as, decision.reason, decision.detail
    else:
        status, reason, detail = "awaiting_input", "awaiting_input", "the model waits for the user's answer"
    limits = used_limits(facts, policy)
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
        limits=limits,
        exceeded_limit=reason.endswith("_limit") or _over_soft(limits),
        phases=facts.phases,
        pending_issues=facts.pending_issues,
        questions=facts.questions,
        duration_ms=facts.t,
    )


def used_limits(facts: Facts, policy: Policy) -> dict[str, LimitUse]:
    """Each limit that is set, with what was used of it."""
    limits = {"steps": LimitUse(used=facts.steps, allowed=policy.limits.hard_steps)}
    if policy.limits.soft_steps:
        limits["soft_steps"] = LimitUse(used=facts.steps, allowed=policy.limits.soft_steps, soft=True)
    return limits


def _over_soft(limits: dict[str, LimitUse]) -> bool:
    return any(use.soft and use.used > use.allowed for use in limits.values())


def _answer(facts: Facts, reason: str) -> str:
    if facts.accepted is not None:
        return facts.answer
    return facts.text if reason == "text_final" else ""
