"""The text policy: is a plain answer an end? One place, asked by the finish reason and by the message's shape.

First the user's own rule, if there is one; then the filters for short texts that are no answer (echoes of an
instruction, announcements after tool calls); then the policy.
"""

from __future__ import annotations

import re

from .decisions import Decision, GoOn, Stop
from .facts import Facts
from .policy import Echo, Policy

_NOISE = re.compile(r"[\W_]+")


def settle_text(facts: Facts, policy: Policy, rule: str) -> Decision:
    """What a response of text without calls means. Blank text never comes here."""
    if facts.text_verdict == "final":
        return _final(rule, "the text rule says that this is the answer")
    if facts.text_verdict == "nudge":
        return GoOn(rule=rule, say=policy.prompts.text_is_no_end, why="the text rule says that this is no answer")
    if echoes(facts.text, policy.echo) or (facts.tool_calls and announces(facts.text, policy.echo)):
        if facts.monologue > policy.patience.echoes:
            detail = f"{facts.monologue} texts in a row, and the last only echoes or announces: {facts.text!r}"
            return Stop(rule=rule, reason="no_answer", detail=detail)
        return GoOn(rule=rule, say=policy.prompts.echo, why="the text only echoes or announces")
    if policy.text == "final":
        return _final(rule, "a plain answer ends the run")
    return GoOn(rule=rule, say=policy.prompts.text_is_no_end, why="text alone is no end")


def settle_calls(facts: Facts, rule: str, why: str) -> Decision:
    """What a response with calls means, once they are answered: the text rule may end the run even so."""
    if facts.text_verdict == "final":
        return _final(rule, "the text rule says that this is the answer")
    return GoOn(rule=rule, why=why)


def not_accepted(reason: str) -> str:
    """What the model reads where its answer, a completion or plain text, is handed back."""
    return f"Not accepted as complete: {reason}"


def echoes(text: str, echo: Echo) -> bool:
    """Whether a short text is made of nothing but the phrases."""
    if len(text) >= echo.shorter_than:
        return False
    rest = _plain(text)
    if not rest.strip():
        return False  # a sign without a word ("👍") may well be the answer
    for phrase in sorted((_plain(phrase) for phrase in echo.phrases), key=len, reverse=True):
        rest = rest.replace(phrase, " ") if phrase.strip() else rest
    return not rest.strip()


def announces(text: str, echo: Echo) -> bool:
    """Whether a short text begins by saying what will come."""
    if len(text) >= echo.shorter_than:
        return False
    return any(_plain(text).startswith(_plain(phrase)) for phrase in echo.announcements if phrase.strip())


def _plain(text: str) -> str:
    """Words in one case between single spaces, so that case, spaces and punctuation do not count."""
    return f" {_NOISE.sub(' ', text.casefold()).strip()} "


def _final(rule: str, detail: str) -> Stop:
    return Stop(rule=rule, reason="text_final", detail=detail)
