"""Rounds: when the inner layer makes another step by itself, and when the outer one looks."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from .decisions import Decision, GoOn
from .facts import Facts
from .policy import Policy


def goes_on_by_itself(facts: Facts, policy: Policy, decide: Callable[[Facts, Policy], Decision]) -> bool:
    """Whether the round goes on after its latest step: a bare "go on", while the round may have more steps."""
    if facts.inner_steps >= policy.max_inner_steps or facts.questions:
        return False
    decision = decide(facts, inside_a_round(policy))
    return isinstance(decision, GoOn) and decision.bare


def due_at_the_start(decision: Decision) -> bool:
    """Whether what is decided before a run's first step is to be acted on: there is nothing yet to say a word about."""
    return not isinstance(decision, GoOn) or decision.compact or bool(decision.remind)


def inside_a_round(policy: Policy) -> Policy:
    """The policy without its limits on rounds: the last round that is allowed is not cut off in its middle.

    By it the inner layer asks after each step whether it may go on by itself.
    """
    limits, session = policy.limits, policy.session_limits
    if limits.rounds is None and session.rounds is None:
        return policy
    return replace(
        policy,
        limits=replace(limits, rounds=None, soft_rounds=None),
        session_limits=replace(session, rounds=None, soft_rounds=None),
    )
