"""A sweep: one policy, with one of its settings at many values."""

from __future__ import annotations

import tomllib
from decimal import Decimal, InvalidOperation
from typing import Any

from ..decision import Policy, WrongUse
from ..decision.policy_files import with_setting
from .backtest import Named

MOST = 200
"""Values of a sweep."""


def sweep(policy: Policy, given: str) -> tuple[str, list[Named]]:
    """The setting and the policies for `SETTING=FROM:TO:STEP` (both ends included) or `SETTING=VALUE,VALUE,...`.

    Raises WrongUse for what is none, for a setting that does not exist and for values that it does not take.
    """
    setting, equals, text = given.partition("=")
    setting = setting.strip()
    if not equals or not setting or not text.strip():
        raise WrongUse(f"--sweep {given}: write SETTING=FROM:TO:STEP, as limits.steps=5:40:5, or SETTING=VALUE,VALUE")
    values = _range(given, text) if ":" in text else [_value(given, word) for word in text.split(",")]
    named = []
    for value in values:
        try:
            changed = with_setting(policy, setting, value)
        except WrongUse as error:
            raise WrongUse(f"--sweep {given}: {error}") from None
        shown = _shown(value)
        named.append(Named(shown, changed, shown if isinstance(value, str | bool) else value))
    return setting, named


def _range(given: str, text: str) -> list[int | float]:
    try:
        first, last, step = (Decimal(word) for word in text.split(":"))
    except (ValueError, InvalidOperation):
        raise WrongUse(f"--sweep {given}: write FROM:TO:STEP in numbers, as 5:40:5") from None
    if not (first.is_finite() and last.is_finite() and step.is_finite()) or step <= 0 or last < first:
        raise WrongUse(f"--sweep {given}: from {first} to {last} no step of {step} leads; use a step above 0")
    if (last - first) / step >= MOST:
        raise WrongUse(f"--sweep {given}: these are more than {MOST} values; use a larger step")
    count = int((last - first) / step) + 1
    values = [first + step * number for number in range(count)]
    whole = all(value == value.to_integral_value() for value in (first, step))
    return [int(value) if whole else float(value) for value in values]


def _value(given: str, word: str) -> Any:
    """One value as it would stand in a policy file; a bare word is a text."""
    word = word.strip()
    if not word:
        raise WrongUse(f"--sweep {given}: a value is empty")
    try:
        return tomllib.loads(f"value = {word}")["value"]
    except tomllib.TOMLDecodeError:
        return word


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value).lower() if isinstance(value, bool) else str(value)
