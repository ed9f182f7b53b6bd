"""What of a policy holds for a loop that is not ours: its length and its texts are its own affair.

Most agents of others work longer than a run of ours may, and go on after texts by rules of their own.
"""

from __future__ import annotations

from msgspec.structs import replace

from ..decision.decisions import Decision, Stop
from ..decision.facts import Facts
from ..decision.limits import Limits
from ..decision.policy import POLICIES, Policy


def without_shipped_limit(policy: Policy) -> Policy:
    """The policy without a limit of steps, if nobody has chosen one: the number is the shipped one with its grants.

    That of `chat`, which has no grants, could be written by hand, and is known by being the very same limits.
    """
    shipped, default = POLICIES.get(policy.name), Limits()
    limits = policy.limits
    same = shipped is not None and limits is shipped.limits
    if same or (limits.steps, limits.soft_steps, limits.extend) == (default.steps, None, default.extend):
        return replace(policy, limits=limits.with_steps(None))
    return policy


def ends_without_calls(facts: Facts, decision: Decision) -> bool:
    """Whether a rule ends the run for its latest response, which is a text or empty: other loops may go on after it.

    Not if a guard does, such as the one against the same text again and again, or a rule of the user's own.
    """
    answered = facts.finish is not None and not facts.calls
    return answered and isinstance(decision, Stop) and decision.rule in ("finish_reason", "message_shape")
