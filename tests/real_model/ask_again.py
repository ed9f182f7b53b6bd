"""A loop that does not know when to stop: only the step limit ends it, and each further step is asked for."""

from __future__ import annotations

from endstop.decision import GoOn, Limits, Policy, Rule

MORE = "What is the next step? Use tools, or go on."
ASK_AGAIN = Rule("P3", "ask_again", "Always goes on, with one more prompt.", (), lambda f, p: GoOn(rule="", say=MORE))


def before(steps: int) -> Policy:
    """The policy with every end but the step limit switched off."""
    limits = Limits(steps=steps)
    return Policy(name="before", limits=limits, rules=("ask_again",), guards=("step_limit",), inner_cancel=False)
