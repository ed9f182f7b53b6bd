"""`decide`: the rules in order, then the guards, with a trace of what each saw and said.

An ordinary function over frozen data. It costs the same after ten steps and after ten thousand, and it is the same
function in a live run, in a replay and in a backtest.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import msgspec
from msgspec.structs import replace

from .decisions import Decision, GoOn, Pause, Stop, TraceEntry
from .errors import WrongUse, did_you_mean
from .facts import Facts
from .guards import GUARDS
from .limit_usage import limit_statuses
from .limits import STOP_REASONS
from .messages import is_blank
from .outcome import AnswerFrom, Outcome
from .policy import Policy
from .rules import RULES, Rule

_PLAIN = frozenset({type(None), str, int, bool})


def decide(facts: Facts, policy: Policy, user_rules: tuple[Rule, ...] = (), *, traced: bool = True) -> Decision:
    """What to do after the latest step.

    `user_rules` are a user's rules and guards, for the names in `policy.rules` and `policy.guards` that are not ours.
    `traced=False` says the same without the trace, which is half of what a decision costs.
    Raises WrongUse if the policy names a rule that nobody brought.
    """
    trace: list[TraceEntry] | None = [] if traced else None
    added: list[GoOn] = []
    decision: Decision = GoOn(rule="none", why="no rule spoke")
    for rule in select_rules(policy.rules, (*RULES, *user_rules)):
        said = _evaluate(rule, facts, policy, trace)
        if isinstance(said, GoOn) and said.compact:
            added.append(said)
        elif said is not None:
            decision = said
            break
    if isinstance(decision, GoOn):
        for guard in select_rules(policy.guards, (*GUARDS, *user_rules)):
            said = _evaluate(guard, facts, policy, trace)
            if isinstance(said, GoOn):
                added.append(said)
            elif said is not None:
                decision = said
                break
    if isinstance(decision, GoOn):
        for more in added:
            decision = decision.combine(more)
    return replace(decision, trace=tuple(trace)) if trace is not None else decision


# Rounds: when the inner layer makes another step by itself, and when the outer one looks.


def continues_round(facts: Facts, policy: Policy, decide: Callable[[Facts, Policy], Decision]) -> bool:
    """Whether the round goes on after its latest step: a bare "go on", while the round may have more steps."""
    if facts.inner_steps >= policy.max_inner_steps or facts.questions:
        return False
    decision = decide(facts, without_round_limits(policy))
    return isinstance(decision, GoOn) and decision.bare


def applies_before_first_step(decision: Decision) -> bool:
    """Whether what is decided before a run's first step is to be acted on: there is nothing yet to say a word about."""
    return not isinstance(decision, GoOn) or decision.compact or bool(decision.remind)


def without_round_limits(policy: Policy) -> Policy:
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


def needs_closing_step(facts: Facts, policy: Policy, stop: Stop) -> bool:
    """Whether the model is asked once more after this stop, without tools, to sum up.

    Every exhausted ending is summed up, unless the policy says `limits` or something speaks against it: a budget that
    is used up is not this run's alone, a context that is too large leaves no room for one more request, and a run
    that has asked nothing yet has nothing to sum up.
    """
    if not policy.closing or stop.final_status != "exhausted" or facts.refused is not None or not facts.attempt:
        return False
    if policy.closing_after == "limits":
        return stop.reason in STOP_REASONS.values()
    window = policy.compaction.window
    return stop.reason != "compaction_stalled" or window is None or facts.context_tokens < window


# From the last decision to the outcome.


def build_outcome(facts: Facts, policy: Policy, decision: Stop | Pause) -> Outcome:
    """The outcome of a run that this decision ends or pauses."""
    if isinstance(decision, Stop):
        status, reason, detail = decision.final_status, decision.reason, decision.detail
    else:
        status, reason, detail = "awaiting_input", "awaiting_input", "the model waits for the user's answer"
    spent = list(limit_statuses(facts, policy))
    answer, answer_from = _answer(facts, reason)
    return Outcome(
        run_id=facts.run_id,
        session_id=facts.session_id,
        status=status,
        stop_reason=reason,
        detail=detail,
        answer=answer,
        answer_from=answer_from,
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


def complete_outcome(outcome: Outcome, facts: Facts) -> Outcome:
    """A recorded outcome with what older versions did not write into it; `facts`: at the end of its run."""
    accepted_by = facts.accepted_by if outcome.status == "completed" else ()
    return replace(outcome, accepted_by=accepted_by, failed_calls=facts.failures.names)


def _answer(facts: Facts, reason: str) -> tuple[str, AnswerFrom]:
    """The answer, and what it is."""
    if facts.accepted is not None and not is_blank(facts.answer):
        return facts.answer, "completion"
    if facts.handled is not None and not is_blank(facts.handled):
        return facts.handled, "handler"
    if facts.closing and not is_blank(facts.text):
        return facts.text, "closing"
    if reason in ("text_final", "judged") and not is_blank(facts.text):
        return facts.text, "text"
    if facts.latest_text:
        return facts.latest_text, "partial_text" if facts.latest_text_partial else "latest_text"
    if facts.completion_text and reason != "awaiting_input":  # while the user is asked it is not decided
        return facts.completion_text, "not_accepted"
    return "", ""


@lru_cache(maxsize=256)
def select_rules(names: tuple[str, ...], offered: tuple[Rule, ...]) -> tuple[Rule, ...]:
    """The rules of these names, in this order."""
    by_name = {rule.name: rule for rule in offered}
    for name in names:
        if name not in by_name:
            raise WrongUse(f"policy: unknown rule or guard {name!r}{did_you_mean(name, by_name)}")
    return tuple(by_name[name] for name in names)


def _evaluate(rule: Rule, facts: Facts, policy: Policy, trace: list[TraceEntry] | None) -> Decision | None:
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
        trace.append(TraceEntry(f"{rule.priority} {rule.name}", saw, "" if said is None else _trace_text(said)))
    return said


def _trace_text(said: Decision) -> str:
    if not isinstance(said, GoOn):
        return str(said)
    return "compact" if said.compact else "remind" if said.remind else str(said)
