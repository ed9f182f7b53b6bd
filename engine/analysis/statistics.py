"""Confidence intervals at 95 %, and distributions, computed in one pass and in bounded memory."""

from __future__ import annotations

from collections import Counter
from math import ceil, floor, log10, sqrt

from msgspec import Struct

MAX_BINS = 20
"""Maximum number of bins of a distribution, not counting the open one at its end."""
EXACT_UP_TO = 1000
"""Largest value that is counted exactly; larger ones are rounded to three digits."""
Z = 1.959964
"""95 % of a normal distribution lie within this many standard deviations of its mean."""


# ---- confidence intervals


class Interval(Struct, frozen=True):
    """A value with its 95 % confidence interval."""

    value: float
    low: float
    high: float


def wilson_interval(part: int, whole: int) -> Interval | None:
    """Return a proportion with its score interval (Wilson 1927). None if `whole` is 0."""
    if whole == 0:
        return None
    p, z2 = part / whole, Z * Z
    middle = (p + z2 / (2 * whole)) / (1 + z2 / whole)
    half = Z / (1 + z2 / whole) * sqrt(p * (1 - p) / whole + z2 / (4 * whole * whole))
    return Interval(p, max(0.0, middle - half), min(1.0, middle + half))


def clamp_share(interval: Interval | None) -> Interval | None:
    """Return an interval limited to 0 to 1, which the normal approximation may exceed."""
    return interval and Interval(interval.value, max(0.0, interval.low), min(1.0, interval.high))


class RatioEstimator:
    """Ratio of two sums over sessions, such as steps saved to steps made, with a confidence interval.

    The sample unit is the session, so that the interval reflects how much sessions differ (ratio estimator: Cochran,
    Sampling Techniques, 3rd edition, chapter 6).
    """

    def __init__(self) -> None:
        self.n = 0
        self.numerator = self.denominator = 0.0
        self._nn = self._dd = self._nd = 0.0

    def add(self, numerator: float, denominator: float) -> None:
        """Add a session."""
        self.n += 1
        self.numerator += numerator
        self.denominator += denominator
        self._nn += numerator * numerator
        self._dd += denominator * denominator
        self._nd += numerator * denominator

    def interval(self) -> Interval | None:
        """Return the ratio so far with its confidence interval.

        None for fewer than two sessions, or if the denominator is 0.
        """
        if self.n < 2 or self.denominator <= 0:
            return None
        ratio = self.numerator / self.denominator
        spread = max(0.0, self._nn - 2 * ratio * self._nd + ratio * ratio * self._dd)
        half = Z * sqrt(spread / (self.n - 1) * self.n) / self.denominator
        return Interval(ratio, ratio - half, ratio + half)


# ---- distributions


class Bin(Struct, frozen=True, kw_only=True):
    """Number of values between `low` and `high`, both included. `high` is None in an open last bin."""

    low: int
    high: int | None
    runs: int


class Distribution(Struct, frozen=True, kw_only=True):
    """The distribution of a value over runs. Without runs, all other fields are None or empty."""

    runs: int
    mean: float | None = None
    median: float | None = None
    p90: int | None = None
    """90th percentile."""
    largest: int | None = None
    bins: tuple[Bin, ...] = ()


class RunningDistribution:
    """A distribution of whole numbers from 0 that grows by one value at a time.

    The mean and the variance are exact. Quantiles of values above `EXACT_UP_TO` are exact to three digits.
    """

    def __init__(self) -> None:
        self.counts: Counter[int] = Counter()
        self.total = 0
        self.largest = 0
        self._squares = 0

    def add(self, value: int) -> None:
        """Add a value."""
        self.counts[value if value <= EXACT_UP_TO else _three_digits(value)] += 1
        self.total += value
        self._squares += value * value
        self.largest = max(self.largest, value)

    @property
    def runs(self) -> int:
        """Number of values added so far."""
        return self.counts.total()

    def count_up_to(self, most: int) -> int:
        """Return the number of values that are `most` or less."""
        return sum(times for value, times in self.counts.items() if value <= most)

    def mean(self) -> Interval | None:
        """Return the mean with its confidence interval, by the normal approximation. None for fewer than two values."""
        runs = self.runs
        if runs < 2:
            return None
        mean = self.total / runs
        half = Z * sqrt(self.variance / runs)
        return Interval(mean, mean - half, mean + half)

    @property
    def variance(self) -> float:
        """Sample variance; 0 for fewer than two values."""
        runs = self.runs
        return max(0.0, (self._squares - self.total * self.total / runs) / (runs - 1)) if runs > 1 else 0.0

    def distribution(self) -> Distribution:
        """Return a summary of all values so far."""
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
    """Return bins of equal, round width. If a few values are far from the rest, they share an open last bin."""
    lowest, far = values[0][0], values[-1][0]
    most = _nth(values, min(runs - 1, ceil(0.98 * runs) - 1))
    width = _round_width(max(1, (most - lowest + 1) / MAX_BINS))
    if far - lowest < width * MAX_BINS or far < 2 * most:
        most, width = far, _round_width(max(1, (far - lowest + 1) / MAX_BINS))
    zero = 1 if lowest and width <= 50 else 0  # counts in bins 1-10, 11-20; measurements in bins 0-999, 1000-1999
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
    """Return the width of a histogram's bins: the smallest round number (1, 2, 5, 10, 20, 50, ...) from `least` on.

    `least`, 1 or more, is the width at which the values fit into `MAX_BINS` bins.
    """
    power = int(10 ** floor(log10(least)))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= least)
