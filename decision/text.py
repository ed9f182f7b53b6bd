"""The text policy: is a plain answer an end? One place, asked by the finish reason and by the message's shape."""

from __future__ import annotations

from .decisions import Decision, GoOn, Stop
from .facts import Facts
from .policy import Policy


def settle_text(facts: Facts, policy: Policy, rule: str) -> Decision:
    """What a response of text without calls means. Blank text never comes here."""
    if policy.text == "final":
        return Stop(rule=rule, reason="text_final", detail="a plain answer ends the run")
    return GoOn(rule=rule, say=policy.prompts.text_is_no_end, why="text alone is no end")
