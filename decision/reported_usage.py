"""Conversion of reported usage (what a provider, a framework or a file says it used) to a checked `Usage`.

None of it is trusted. A count is a whole number from 0 to `MOST_TOKENS`, the part of a count is within it, a cost is a
number from 0 to `MOST_DOLLARS`. Anything else counts as not reported, as if it were missing.
"""

from __future__ import annotations

from typing import Any

from .messages import MOST_DOLLARS, MOST_TOKENS, Usage, new_usage

MOST_DIGITS = 16
"""Number of digits of `MOST_TOKENS`."""


def token_count(value: Any) -> int | None:
    """Return a value as a count of tokens; None if it is not one.

    A whole number may be written as 12, as 12.0, or, as some servers do, as the text "12".
    """
    is_digits = type(value) is str and value.isascii() and value.isdigit() and len(value) <= MOST_DIGITS
    if is_digits or (type(value) is float and value.is_integer()):
        value = int(value)
    return value if type(value) is int and 0 <= value <= MOST_TOKENS else None


def dollars(value: Any) -> float | None:
    """Return a value as a cost in US dollars; None if it is not one."""
    if type(value) not in (int, float) or not 0 <= value <= MOST_DOLLARS:
        return None
    return float(value)


def sum_of_counts(*values: Any) -> int | None:
    """Return the sum of counts that a provider reports separately; missing ones are 0. None if all are missing."""
    counts = [count for value in values if (count := token_count(value)) is not None]
    return sum(counts) if counts else None


def reported_usage(
    input: Any, output: Any, *, cached: Any = None, reasoning: Any = None, cost: Any = None
) -> Usage | None:
    """Return the usage that these values report, whatever their types; None if they report nothing.

    cached: input tokens that are part of `input`; reasoning: output tokens that are part of `output`. `estimated` is
    True if input or output tokens were not reported: they are then 0, for the caller to estimate.
    """
    sent, received, paid = token_count(input), token_count(output), None if cost is None else dollars(cost)
    if sent is None and received is None and paid is None:
        return None
    return new_usage(
        input_tokens=sent or 0,
        output_tokens=received or 0,
        cached_tokens=_part(cached, sent) if cached else 0,
        reasoning_tokens=_part(reasoning, received) if reasoning else 0,
        cost_usd=paid,
        estimated=sent is None or received is None,
    )


def _part(value: Any, whole: int | None) -> int:
    part = token_count(value)
    return part if part is not None and whole is not None and part <= whole else 0
