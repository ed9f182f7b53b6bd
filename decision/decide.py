"""`decide`: the rules in order, then the guards, with a trace of what each saw and said.

An ordinary function over frozen data. It costs the same after ten steps and after ten thousand, and it is the same
function in a live run, in a replay and in a backtest.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import msgspec
from msgspec.structs import replace

from .decisions import Considered, Decision, GoOn, Pause, Stop
from .errors import WrongUse, nearest
from .facts import Facts
from .guards import GUARDS
from .policy import Policy
from .rules import RULES, Rule


def decide(facts: Facts, policy: Policy, own: tuple[Rule, ...] = (), *, traced: bool = True) -> Decision:
    """What to do after the latest step.

    `own` are a user's rules and guards, for the names in `policy.rules` and `policy.guards` that are not ours.
    `traced=False` says the same without the trace, which is half of what a decision costs.
    Raises WrongUse if the policy names a rule that nobody brought.
    """
    trace: list[Considered] | None = [] if traced else None
    added: list[GoOn] = []
    decision: Decision = GoOn(rule="none", why="no rule spoke")
    for rule in select(policy.rules, (*RULES, *own)):
        said = _ask(rule, facts, policy, trace)
        if isinstance(said, GoOn) and said.compact:
            added.append(said)
        elif said is not None:
            decision = said
            break
    if isinstance(decision, GoOn):
        for guard in select(policy.guards, (*GUARDS, *own)):
            said = _ask(guard, facts, policy, trace)
            if isinstance(said, GoOn):
                added.append(said)
            elif said is not None:
                decision = said
                break
    if isinstance(decision, GoOn):
        for more in added:
            decision = decision.and_also(more)
    return replace(decision, trace=tuple(trace)) if trace is not None else decision


@lru_cache(maxsize=256)
def select(names: tuple[str, ...], offered: tuple[Rule, ...]) -> tuple[Rule, ...]:
    """The rules of these names, in this order."""
    by_name = {rule.name: rule for rule in offered}
    for name in names:
        if name not in by_name:
            raise WrongUse(f"policy: unknown rule or guard {name!r}{nearest(name, by_name)}")
    return tuple(by_name[name] for name in names)


def _ask(rule: Rule, facts: Facts, policy: Policy, trace: list[Considered] | None) -> Decision | None:
    try:
        said = rule.judge(facts, policy)
        saw = {name: getattr(facts, name) for name in rule.sees} if trace is not None else {}
    except Exception as error:
        raise WrongUse(f"rule {rule.name!r}: {type(error).__name__}: {error}") from error
    if not (said is None or isinstance(said, GoOn | Pause | Stop)):
        raise WrongUse(f"rule {rule.name!r} answers {said!r}, and not GoOn, Pause, Stop or None")
    if trace is not None:
        for name, value in saw.items():
            if type(value) not in _PLAIN:
                saw[name] = msgspec.to_builtins(value)
        trace.append(Considered(f"{rule.priority} {rule.name}", saw, "" if said is None else _words(said)))
    return said


def _words(said: Decision) -> str:
    if not isinstance(said, GoOn):
        return str(said)
    return "compact" if said.compact else "remind" if said.remind else str(said)


_PLAIN = frozenset({type(None), str, int, bool})


# Rounds: when the inner layer makes another step by itself, and when the outer one looks.


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
