"""Parts of a policy that apply to a foreign loop, one that endstop does not run: it chooses its length and its texts.

Most agents of others work longer than a run of endstop may, and continue after texts by their own rules.
"""

from __future__ import annotations

from msgspec.structs import replace

from ..decision.decisions import Decision, Stop
from ..decision.facts import Facts
from ..decision.limits import Limits
from ..decision.policy import POLICIES, Policy


def without_shipped_limit(policy: Policy) -> Policy:
    """Return the policy without its limit of steps, if nobody chose that limit: the shipped number with its grants.

    The limits of `chat`, which have no grants, could also be written by hand; they are recognised by identity.
    """
    shipped, default = POLICIES.get(policy.name), Limits()
    limits = policy.limits
    same = shipped is not None and limits is shipped.limits
    if same or (limits.steps, limits.soft_steps, limits.extend) == (default.steps, None, default.extend):
        return replace(policy, limits=limits.with_steps(None))
    return policy


def ends_without_calls(facts: Facts, decision: Decision) -> bool:
    """Return whether a rule ends the run for its latest response, a text or empty, after which other loops may go on.

    False if a guard ends it, such as the one against repeating the same text, or a rule of the user.
    """
    answered = facts.finish is not None and not facts.calls
    return answered and isinstance(decision, Stop) and decision.rule in ("finish_reason", "message_shape")
