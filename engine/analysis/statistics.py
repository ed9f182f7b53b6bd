"""How a figure is spread over many runs, in memory that does not grow with them."""

from __future__ import annotations

from collections import Counter
from math import ceil, floor, log10, sqrt

from msgspec import Struct

MAX_BINS = 20
"""Bins of a distribution, at most, without the open one at its end."""
EXACT_UP_TO = 1000
"""Whole numbers up to this one are kept as they are; larger ones, to three digits."""
Z = 1.959964
"""Of the standard normal distribution: 95 % lie within so many standard deviations."""


# ---- confidence intervals


class Interval(Struct, frozen=True):
    """A figure with the range in which it lies at 95 % confidence."""

    value: float
    low: float
    high: float


def wilson_interval(part: int, whole: int) -> Interval | None:
    """A part of a whole (Wilson's score interval, Wilson 1927); None of nothing."""
    if whole == 0:
        return None
    p, z2 = part / whole, Z * Z
    middle = (p + z2 / (2 * whole)) / (1 + z2 / whole)
    half = Z / (1 + z2 / whole) * sqrt(p * (1 - p) / whole + z2 / (4 * whole * whole))
    return Interval(p, max(0.0, middle - half), min(1.0, middle + half))


class RatioEstimator:
    """One sum over another, each over sessions, as the steps saved over the steps made. Takes one session at a time.

    Sessions are what varies, so a long one counts with all its steps (ratio estimator, Cochran, Sampling Techniques,
    3rd edition, chapter 6). From fewer than two sessions nothing is said.
    """

    def __init__(self) -> None:
        self.n = 0
        self.numerator = self.denominator = 0.0
        self._nn = self._dd = self._nd = 0.0

    def add(self, numerator: float, denominator: float) -> None:
        """One more session."""
        self.n += 1
        self.numerator += numerator
        self.denominator += denominator
        self._nn += numerator * numerator
        self._dd += denominator * denominator
        self._nd += numerator * denominator

    def interval(self) -> Interval | None:
        """The ratio so far; None from fewer than two sessions, or of nothing."""
        if self.n < 2 or self.denominator <= 0:
            return None
        ratio = self.numerator / self.denominator
        spread = max(0.0, self._nn - 2 * ratio * self._nd + ratio * ratio * self._dd)
        half = Z * sqrt(spread / (self.n - 1) * self.n) / self.denominator
        return Interval(ratio, ratio - half, ratio + half)


# ---- distributions


class Bin(Struct, frozen=True, kw_only=True):
    """How many values lie from `low` to `high`, both included; `high` is None for all that is more."""

    low: int
    high: int | None
    runs: int


class Distribution(Struct, frozen=True, kw_only=True):
    """How a figure is spread over runs. Without any, all but `runs` is None or empty."""

    runs: int
    mean: float | None = None
    median: float | None = None
    p90: int | None = None
    """Nine of ten runs have this or less."""
    largest: int | None = None
    bins: tuple[Bin, ...] = ()


class RunningDistribution:
    """Counts values: whole numbers from 0. The mean is exact, all else to three digits above 1,000."""

    def __init__(self) -> None:
        self.counts: Counter[int] = Counter()
        self.total = 0
        self.largest = 0
        self._squares = 0

    def add(self, value: int) -> None:
        """One more."""
        self.counts[value if value <= EXACT_UP_TO else _three_digits(value)] += 1
        self.total += value
        self._squares += value * value
        self.largest = max(self.largest, value)

    @property
    def runs(self) -> int:
        """How many."""
        return self.counts.total()

    def count_up_to(self, most: int) -> int:
        """How many are this or less."""
        return sum(times for value, times in self.counts.items() if value <= most)

    def mean(self) -> Interval | None:
        """The mean, by the normal approximation; None from fewer than two."""
        runs = self.runs
        if runs < 2:
            return None
        mean = self.total / runs
        half = Z * sqrt(self.variance / runs)
        return Interval(mean, mean - half, mean + half)

    @property
    def variance(self) -> float:
        """Of the population that these were drawn from; 0 for fewer than two."""
        runs = self.runs
        return max(0.0, (self._squares - self.total * self.total / runs) / (runs - 1)) if runs > 1 else 0.0

    def distribution(self) -> Distribution:
        """All of it."""
        runs = self.runs
        if not runs:
            return Distribution(runs=0)
        values = sorted(self.counts.items())
        return Distribution(
            runs=runs,
            mean=self.total / runs,
            median=(_nth(values, (runs - 1) // 2) + _nth(values, runs // 2)) / 2,
            p90=_nth(values, ceil(0.9 * runs) - 1),
            largest=self.largest,
            bins=_bins(values, runs),
        )


def _nth(values: list[tuple[int, int]], place: int) -> int:
    for value, times in values:
        place -= times
        if place < 0:
            return value
    raise IndexError(place)


def _three_digits(value: int) -> int:
    unit = int(10 ** (len(str(value)) - 3))
    return round(value / unit) * unit


def _bins(values: list[tuple[int, int]], runs: int) -> tuple[Bin, ...]:
    """Bins of one round width. Where a few values lie far out, the last bin is open and has them all."""
    lowest, far = values[0][0], values[-1][0]
    most = _nth(values, min(runs - 1, ceil(0.98 * runs) - 1))
    width = _round_width(max(1, (most - lowest + 1) / MAX_BINS))
    if far - lowest < width * MAX_BINS or far < 2 * most:
        most, width = far, _round_width(max(1, (far - lowest + 1) / MAX_BINS))
    zero = 1 if lowest and width <= 50 else 0  # 1 to 10, 11 to 20, where people count; 0 to 999 where they measure
    first = lowest - (lowest - zero) % width
    counts: Counter[int] = Counter()
    for value, times in values:
        counts[min((value - first) // width, (most - first) // width + 1)] += times
    last = max(counts)
    return tuple(
        Bin(
            low=first + number * width,
            high=None if first + number * width > most else first + (number + 1) * width - 1,
            runs=counts[number],
        )
        for number in range(last + 1)
    )


def _round_width(least: float) -> int:
    """The smallest of 1, 2, 5, 10, 20, 50, ... that is no less."""
    power = int(10 ** floor(log10(least)))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= least)
