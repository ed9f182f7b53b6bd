"""Guards: each may turn a go-on, and only that, into something else. So no limit can overrule a completion."""

from __future__ import annotations

from .decisions import Decision, Stop
from .facts import Facts
from .policy import Policy
from .rules import Rule


def _invalid_calls(facts: Facts, policy: Policy) -> Decision | None:
    if facts.invalid_steps <= policy.patience.invalid_calls:
        return None
    detail = f"{facts.invalid_steps} steps in a row held nothing but invalid calls"
    return Stop(rule="invalid_calls", reason="invalid_calls", detail=detail)


def _step_limit(facts: Facts, policy: Policy) -> Decision | None:
    allowed = policy.limits.hard_steps
    if facts.steps < allowed:
        return None
    detail = f"{facts.steps} of {allowed} steps used; raise limits.steps if the task needs more"
    return Stop(rule="step_limit", reason="step_limit", detail=detail)


GUARDS: tuple[Rule, ...] = (
    Rule(
        "guard",
        "invalid_calls",
        "Too many steps in a row held nothing but invalid calls: stops as exhausted.",
        ("invalid_steps",),
        _invalid_calls,
    ),
    Rule("guard", "step_limit", "The run's steps are used up: stops as exhausted.", ("steps",), _step_limit),
)
