"""The rule and the guard of the user's check of the work (`until`).

A run with a check has the rule at the head of its rules and the guard at the head of its guards. Other runs have
neither, so their order of priorities is the one of `rules.py` and `guards.py`.
"""

from __future__ import annotations

from msgspec.structs import replace

from .decisions import Decision, GoOn, Stop
from .facts import Facts
from .guards import GUARDS
from .policy import Policy, fill_in
from .rules import RULES, Rule


def _until(facts: Facts, policy: Policy) -> Decision | None:
    check = facts.check
    if check is None:
        return None
    if check.blocked is not None:
        return Stop(rule="until", reason="blocked", detail=f"the model cannot do it: {check.blocked}")
    if check.said == "impossible":
        return Stop(rule="until", reason="blocked", detail=f"the check says that it cannot be done: {check.detail}")
    if check.said != "met":
        return None
    if check.judged_by:
        detail = f"{check.judged_by} judges that the work is done: {check.name}"
    elif check.guard_changed:
        detail = (
            f"`{check.name}` passes, but only with changed files that it stands on: {', '.join(check.guard_changed)}"
        )
    elif facts.steps == 0:
        detail = f"`{check.name}` already passed before the first request, so nothing was done"
    else:
        detail = f"`{check.name}` passes"
    return Stop(rule="until", reason="until_met", detail=detail)


def _check_stalled(facts: Facts, policy: Policy) -> Decision | None:
    check, patience = facts.check, policy.patience
    if check is None or not check.in_vain:
        return None
    if patience.checks is not None and check.in_vain > patience.checks:
        detail = f"`{check.name}` was no better after {check.in_vain} changes in a row; the last answer: {check.detail}"
        return Stop(rule="check_stalled", reason="until_stalled", detail=detail)
    if patience.checks_untold is None or not check.told < patience.checks_untold <= check.in_vain:
        return None
    say = fill_in(policy.prompts.check, count=str(check.in_vain), check=check.name, detail=check.detail)
    return GoOn(rule="check_stalled", say=say, why=f"{check.in_vain} changes without a better check")


CHECK_RULE = Rule(
    "check",
    "until",
    "Stops as `until_met` once the user's check of the work is met, and as `blocked` if the check or the model says "
    "that the task cannot be done.",
    ("check_said", "blocked"),
    _until,
)
CHECK_GUARD = Rule(
    "guard",
    "check_stalled",
    "Tells the model what the user's check says if its changes do not improve it, then stops as `until_stalled`.",
    ("check_in_vain",),
    _check_stalled,
)
ALL_RULES = (CHECK_RULE, *RULES)
ALL_GUARDS = (CHECK_GUARD, *GUARDS)
"""The built-in rules and guards, with those of a run with a check."""


def policy_for_until(policy: Policy) -> Policy:
    """Return the policy of a run with a check: with the rule and the guard of the check, and with nobody to ask."""
    rules, guards = _with_first(CHECK_RULE.name, policy.rules), _with_first(CHECK_GUARD.name, policy.guards)
    question = "decide" if policy.question == "as_text" else policy.question
    return replace(policy, rules=rules, guards=guards, question=question)


def _with_first(name: str, names: tuple[str, ...]) -> tuple[str, ...]:
    return names if name in names else (name, *names)
