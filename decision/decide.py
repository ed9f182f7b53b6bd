"""The decision from the facts, and the outcome of a run from its last decision.

`decide` evaluates the rules in order, then the guards, and traces what each one saw and said. It is an ordinary
function over frozen data: O(1) however long the run is, and the same in a live run, a replay and a backtest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache

import msgspec
from msgspec.structs import replace

from .decisions import Decision, GoOn, Pause, Stop, TraceEntry
from .errors import WrongUse, did_you_mean
from .facts import Facts
from .limit_usage import limit_statuses
from .limits import STOP_REASONS
from .messages import is_blank
from .outcome import AnswerFrom, Outcome
from .policy import Policy
from .rules import Rule
from .until_facts import CheckFacts
from .until_rules import ALL_GUARDS, ALL_RULES
from .wrong_calls import explained

_PLAIN = frozenset({type(None), str, int, bool})


def decide(facts: Facts, policy: Policy, user_rules: tuple[Rule, ...] = (), *, traced: bool = True) -> Decision:
    """Decide what to do after the latest step.

    `user_rules` are the user's own rules and guards, which `policy.rules` and `policy.guards` may name.
    `traced=False` gives the same decision without its trace, in half the time.
    Raises WrongUse if the policy names an unknown rule or guard, or if one raises or returns no decision.
    """
    trace: list[TraceEntry] | None = [] if traced else None
    added: list[GoOn] = []
    decision: Decision = GoOn(rule="none", why="no rule spoke")
    for said in _evaluate(_rules_of(policy.rules, user_rules), facts, policy, trace):
        if isinstance(said, GoOn) and said.compact:
            added.append(said)
        else:
            decision = said
            break
    if isinstance(decision, GoOn):
        for said in _evaluate(_guards_of(policy.guards, user_rules), facts, policy, trace):
            if isinstance(said, GoOn):
                added.append(said)
            else:
                asks = isinstance(said, Pause) and said.extend
                decision = replace(said, say=decision.say) if asks else said
                break
    if isinstance(decision, GoOn):
        for more in added:
            decision = decision.combine(more)
    return replace(decision, trace=tuple(trace)) if trace is not None else decision


def go_on_in_round(facts: Facts, policy: Policy, decide: Callable[[Facts, Policy], Decision]) -> GoOn | None:
    """Return the bare GoOn with which the inner loop makes another step; None if the outer loop has to decide.

    The outer loop decides if the decision is not a bare GoOn, a question is open, or the round has no steps left.
    """
    if facts.inner_steps >= policy.max_inner_steps or facts.questions:
        return None
    decision = decide(facts, without_round_limits(policy))
    return decision if isinstance(decision, GoOn) and decision.bare else None


def applies_before_first_step(decision: Decision) -> bool:
    """Return whether a decision before the first step takes effect. A bare GoOn or a nudge does not."""
    return not isinstance(decision, GoOn) or decision.compact or bool(decision.remind or decision.extend)


def without_round_limits(policy: Policy) -> Policy:
    """Return the policy for decisions inside a round: a limit on rounds must not cut the last allowed round short."""
    limits, session = policy.limits, policy.session_limits
    if limits.rounds is None and session.rounds is None:
        return policy
    return replace(
        policy,
        limits=replace(limits, rounds=None, soft_rounds=None),
        session_limits=replace(session, rounds=None, soft_rounds=None),
    )


def needs_closing_step(facts: Facts, policy: Policy, stop: Stop) -> bool:
    """Return whether to ask the model for a closing summary, without tools, after this stop.

    By default after every exhausted ending, with `policy.closing_after == "limits"` only after a limit. Never when a
    shared budget is used up (it is not only this run's), when the context is too large for another request, or when no
    request was made, so that there is nothing to sum up, unless the run begins with the user's refusal of more steps.
    """
    if not policy.closing or stop.final_status != "exhausted" or facts.refused is not None:
        return False
    if not facts.attempt and not facts.grants.refused:
        return False
    if _gave_same_text(facts, stop.reason):
        return False
    if policy.closing_after == "limits":
        return stop.reason in STOP_REASONS.values()
    window = policy.compaction.window
    return stop.reason != "compaction_stalled" or window is None or facts.context_tokens < window


@explained
def build_outcome(facts: Facts, policy: Policy, decision: Stop | Pause) -> Outcome:
    """Build the outcome of a run that this decision ends or pauses."""
    if isinstance(decision, Stop):
        status, reason, detail = decision.final_status, decision.reason, decision.detail
    else:
        status, reason, detail = "awaiting_input", "awaiting_input", "the model waits for the user's answer"
        if any(question.is_about_limit for question in facts.questions):
            detail = "the limit of steps is reached, and the user is asked for more"
    spent = list(limit_statuses(facts, policy))
    check = facts.check or CheckFacts()
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
        subagents=facts.subagents,
        saved=facts.saved,
        limits={one.name: one.use for one in spent},
        exceeded_limit=reason in STOP_REASONS.values() or any(one.use.used > one.use.allowed for one in spent),
        verdict=check.verdict,
        checked_by="" if check.verdict == "not_run" else check.name,
        judged_by=check.judged_by,
        check_score=check.score,
        check_of=check.of,
        guard_changed=check.guard_changed,
        phases=facts.phases,
        pending_issues=facts.pending_issues,
        accepted_by=facts.accepted_by if status == "completed" else (),
        failed_calls=facts.failures.names,
        questions=facts.questions,
        duration_ms=facts.t + facts.carried_ms,
    )


def complete_outcome(outcome: Outcome, facts: Facts) -> Outcome:
    """Fill in `accepted_by` and `failed_calls`, which older versions did not write into an outcome.

    facts: those at the end of its run.
    """
    accepted_by = facts.accepted_by if outcome.status == "completed" else ()
    return replace(outcome, accepted_by=accepted_by, failed_calls=facts.failures.names)


def _answer(facts: Facts, reason: str) -> tuple[str, AnswerFrom]:
    """Return the answer and its source, trying the best source first."""
    if facts.accepted is not None and not is_blank(facts.answer):
        return facts.answer, "completion"
    if facts.handled is not None and not is_blank(facts.handled):
        return facts.handled, "handler"
    if facts.closing and not is_blank(facts.text):
        return facts.text, "closing"
    if (reason in ("text_final", "judged") or _asks_in_text(facts, reason)) and not is_blank(facts.text):
        return facts.text, "text"
    if _gave_same_text(facts, reason):
        return facts.text, "not_accepted"
    if facts.latest_text:
        return facts.latest_text, "partial_text" if facts.latest_text_partial else "latest_text"
    if facts.completion_text and reason != "awaiting_input":  # not while the user is asked about it
        return facts.completion_text, "not_accepted"
    return "", ""


def _asks_in_text(facts: Facts, reason: str) -> bool:
    """Return whether the run waits for a reply to its last text, not to a question asked by a call or itself."""
    return reason == "awaiting_input" and not facts.calls and not facts.questions


def _gave_same_text(facts: Facts, reason: str) -> bool:
    """Return whether the run stopped because the model repeatedly gave the same text."""
    return reason == "stuck" and facts.same_texts > 1


@lru_cache(maxsize=256)
def _rules_of(names: tuple[str, ...], user_rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
    return select_rules(names, (*ALL_RULES, *user_rules))


@lru_cache(maxsize=256)
def _guards_of(names: tuple[str, ...], user_rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
    return select_rules(names, (*ALL_GUARDS, *user_rules))


def select_rules(names: tuple[str, ...], offered: tuple[Rule, ...]) -> tuple[Rule, ...]:
    """Return the rules with these names, in this order. Raises WrongUse for an unknown name."""
    by_name = {rule.name: rule for rule in offered}
    for name in names:
        if name not in by_name:
            raise WrongUse(f"policy: unknown rule or guard {name!r}{did_you_mean(name, by_name)}")
    return tuple(by_name[name] for name in names)


def _evaluate(
    rules: Iterable[Rule], facts: Facts, policy: Policy, trace: list[TraceEntry] | None
) -> Iterator[Decision]:
    """Evaluate the rules in order and yield their decisions. What each one saw and said is added to the trace."""
    for rule in rules:
        try:
            said = rule.judge(facts, policy)
            if said is None and trace is None:
                continue  # the usual case, in which nothing is traced
            saw = {name: getattr(facts, name) for name in rule.sees} if trace is not None else {}
        except Exception as error:
            raise WrongUse(f"rule {rule.name!r}: {type(error).__name__}: {error}") from error
        if said is not None and not isinstance(said, GoOn | Pause | Stop):
            raise WrongUse(f"rule {rule.name!r} returned {said!r}: return GoOn, Pause, Stop or None")
        if trace is not None:
            for name, value in saw.items():
                if type(value) not in _PLAIN:
                    saw[name] = msgspec.to_builtins(value)
            trace.append(TraceEntry(f"{rule.priority} {rule.name}", saw, "" if said is None else _trace_text(said)))
        if said is not None:
            yield said


def _trace_text(said: Decision) -> str:
    if not isinstance(said, GoOn):
        return str(said)
    return "compact" if said.compact else "remind" if said.remind else str(said)
