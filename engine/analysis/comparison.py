"""Groups of runs beside a baseline: what differs, and whether that can be chance.

The runs are compared as they are. Where the groups had other tasks or other models, that is part of the difference;
only a backtest (`endstop backtest`) sets two policies on the same sessions.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt
from typing import Literal

from msgspec import Struct

from .metrics import Group, Share
from .statistics import Interval, Spread, Z

FEW = 30
"""Below so many runs in a group the intervals are rough."""

Unit = Literal["steps", "share", "tokens", "usd", "seconds"]


class Difference(Struct, frozen=True, kw_only=True):
    """One figure in a group and in the baseline."""

    name: str
    unit: Unit
    baseline: float
    value: float
    change: Interval
    """`value` less `baseline`, with a 95 % confidence interval: Welch's for means, Newcombe's for shares."""

    @property
    def sure(self) -> bool:
        """Whether the interval leaves out zero."""
        return self.change.low > 0 or self.change.high < 0


class Against(Struct, frozen=True, kw_only=True):
    """One group beside the baseline."""

    name: str
    runs: int
    differences: tuple[Difference, ...]


class Comparison(Struct, frozen=True, kw_only=True):
    """All groups beside the baseline."""

    baseline: str
    runs: int
    groups: tuple[Against, ...]


def compare(baseline: str, groups: Mapping[str, Group]) -> Comparison:
    """The other groups beside the one of this name."""
    base = groups[baseline]
    return Comparison(
        baseline=baseline,
        runs=base.runs,
        groups=tuple(
            Against(name=name, runs=group.runs, differences=_differences(base, group))
            for name, group in groups.items()
            if name != baseline
        ),
    )


def _differences(base: Group, group: Group) -> tuple[Difference, ...]:
    ended = base.figures(), group.figures()
    found = [
        _means("steps per run", "steps", base.steps, group.steps),
        _means("steps until reported as done", "steps", base.before_done, group.before_done),
        _shares("runs that passed", base.judged(), group.judged()),
        _shares("reported as done and not good", *(one.false_positives.runs for one in ended)),
        _shares("went on after the report", *(one.false_negatives.went_on for one in ended)),
        _shares("ended by a limit", *(one.ended["limit"] for one in ended)),
        _means("tokens out per run", "tokens", base.output, group.output),
        _means("cost per run", "usd", base.micros, group.micros, 1e-6),
        _means("time per run", "seconds", base.ms, group.ms, 1e-3),
    ]
    return tuple(one for one in found if one is not None)


def _means(name: str, unit: Unit, base: Spread, other: Spread, factor: float = 1.0) -> Difference | None:
    """Welch 1947, by the normal approximation."""
    if base.runs < 2 or other.runs < 2:
        return None
    then, now = base.total / base.runs * factor, other.total / other.runs * factor
    half = Z * sqrt(base.variance / base.runs + other.variance / other.runs) * factor
    return Difference(
        name=name,
        unit=unit,
        baseline=then,
        value=now,
        change=Interval(now - then, now - then - half, now - then + half),
    )


def _shares(name: str, base: Share, other: Share) -> Difference | None:
    """Newcombe 1998, method 10: from the two Wilson intervals."""
    then, now = base.share, other.share
    if then is None or now is None:
        return None
    change = now.value - then.value
    low = change - sqrt((now.value - now.low) ** 2 + (then.high - then.value) ** 2)
    high = change + sqrt((now.high - now.value) ** 2 + (then.value - then.low) ** 2)
    return Difference(name=name, unit="share", baseline=then.value, value=now.value, change=Interval(change, low, high))
