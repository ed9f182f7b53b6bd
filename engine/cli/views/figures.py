"""Figures as text, the same in the terminal and on a page."""

from __future__ import annotations

from ...analysis.comparison import MetricDifference
from ...analysis.metrics import Proportion
from ...analysis.statistics import Interval
from .text import duration


def percent(share: float | None) -> str:
    """Format a share in percent, with a decimal if it is small; `-` for None."""
    if share is None:
        return "-"
    figure = 100 * share + (1e-9 if share >= 0 else -1e-9)  # rounds half away from zero
    return f"{figure:.1f} %" if 0 < abs(figure) < 9.95 and round(figure, 1) != round(figure) else f"{figure:.0f} %"


def between(interval: Interval | None) -> str:
    """Format a share's 95 % confidence interval, in percent."""
    if interval is None:
        return "-"
    low, high = 100 * interval.low, 100 * interval.high
    digits = 1 if high < 10 else 0
    return f"{low:.{digits}f} to {high:.{digits}f}"


def of(share: Proportion) -> str:
    """Format a share as numbers of runs, as in `10 of 80`; `-` for a share of no runs."""
    return f"{share.runs:,} of {share.of:,}" if share.of else "-"


def part(share: Proportion) -> str:
    """Format the share alone, in percent."""
    return percent(share.value)


def short(number: float | None) -> str:
    """Shorten a number, as in `950`, `12.3k` or `4.56M`; `-` for None."""
    if number is None:
        return "-"
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(number) >= 10 * size or (abs(number) >= size and size > 1e3):
            return f"{number / size:.3g}{letter}" if abs(number) < 100 * size else f"{number / size:,.0f}{letter}"
    return f"{number:,.0f}" if number == round(number) or abs(number) >= 100 else f"{number:.1f}"


def dollars(amount: float | None) -> str:
    """Format US dollars to two decimals, small amounts to four; `-` if no price is known."""
    if amount is None:
        return "-"
    return f"${amount:,.4f}" if 0 < amount < 1 else f"${amount:,.2f}"


def long(seconds: float) -> str:
    """Format a time of `seconds`, which may be days, in a fitting unit."""
    if seconds < 3600:
        return duration(1000 * seconds)
    hours = seconds / 3600
    return f"{hours:,.1f} h" if hours < 48 else f"{hours / 24:,.1f} days"


def in_unit(difference: MetricDifference, value: float, *, signed: bool = False) -> str:
    """Format a value of a comparison in its unit."""
    sign = "+" if signed and value > 0 else "-" if value < 0 else ""
    amount = abs(value)
    match difference.unit:
        case "share":
            return f"{sign}{100 * amount:.1f} {'points' if signed else '%'}"
        case "usd":
            return f"{sign}{dollars(amount)}"
        case "seconds":
            return f"{sign}{long(amount)}"
        case "tokens":
            return f"{sign}{short(amount)}"
        case "steps":
            return f"{sign}{amount:.1f}"
