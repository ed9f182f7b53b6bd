"""Guarantees about a share that was counted: exact binomial bounds, and a choice among candidates that keeps them.

The method is "learn then test" (Angelopoulos, Bates, Candès, Jordan and Lei, arXiv 2110.01052) with fixed-sequence
testing. The harm of a candidate is a yes or no for each unit, such as a good run that it stops too early. Units are
independent draws from what will come later. They are split: one part puts candidates in order, from cautious to eager;
the other part tests them in that order, each at the full level, and stops at the first that fails. The last that passed
is certified. Whatever the true shares are, a candidate whose share of harm is above the bound is certified in at most 1
- confidence of all data sets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from math import ceil, exp, fsum, lgamma, log, log1p
from typing import Generic, Protocol, TypeVar

from msgspec import Struct

from ..decision import WrongUse
from .statistics import Interval

BISECTIONS = 60
"""Number of halvings of the interval from 0 to 1: more than floats between 1e-9 and 1 can distinguish."""


# ---- the binomial distribution


def binomial_tail(harmed: int, units: int, share: float) -> float:
    """Return P(Bin(units, share) <= harmed), the probability that at most `harmed` of `units` are harmed.

    `share` is the true share, from 0 to 1. This is also the p-value of the hypothesis that the true share is `share` or
    more.
    """
    if harmed >= units or share <= 0:
        return 1.0
    if harmed < 0 or share >= 1:
        return 0.0
    if harmed > units * share:  # the other tail is shorter, and its sum more exact
        return max(0.0, 1.0 - binomial_tail(units - harmed - 1, units, 1.0 - share))
    odds = (1.0 - share) / share
    terms = [exp(_log_probability(harmed, units, share))]
    for number in range(harmed, 0, -1):  # decreasing, because `harmed` is below the mean
        terms.append(terms[-1] * number / (units - number + 1) * odds)
        if terms[-1] < terms[0] * 1e-18:
            break
    return min(1.0, fsum(terms))


def _log_probability(harmed: int, units: int, share: float) -> float:
    """Return the logarithm of P(Bin(units, share) = harmed), for a share above 0 and below 1."""
    ways = lgamma(units + 1) - lgamma(harmed + 1) - lgamma(units - harmed + 1) if harmed else 0.0
    return ways + harmed * log(share) + (units - harmed) * log1p(-share)


def upper_bound(harmed: int, units: int, confidence: float) -> float:
    """Return the exact one-sided upper bound of a share (Clopper and Pearson 1934); 1 without units.

    The true share is above it in at most 1 - `confidence` of all data sets.
    """
    if harmed >= units:
        return 1.0
    low, high, level = harmed / units, 1.0, error_level(confidence)
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (low, middle) if binomial_tail(harmed, units, middle) <= level else (middle, high)
    return high


def lower_bound(harmed: int, units: int, confidence: float) -> float:
    """Return the exact one-sided lower bound of a share; 0 without units."""
    return 1.0 - upper_bound(units - harmed, units, confidence)


def exact_interval(harmed: int, units: int, confidence: float = 0.95) -> Interval | None:
    """Return a share with its exact two-sided interval (Clopper and Pearson 1934). None without units."""
    if units == 0:
        return None
    each = (1.0 + confidence) / 2
    return Interval(harmed / units, lower_bound(harmed, units, each), upper_bound(harmed, units, each))


def error_level(confidence: float) -> float:
    """Return how often a statement with this confidence may be wrong: 0.05 for 0.95, not 0.050000000000000044."""
    return round(1.0 - confidence, 12)


# ---- amount of data that a statement needs


def units_needed(bound: float, confidence: float, harmed: int = 0) -> int:
    """Return the number of units, `harmed` of them harmed, that shows a share of at most `bound`."""
    level = error_level(confidence)
    if harmed == 0:
        guess = max(1, ceil(log(level) / log1p(-bound)) - 1)
        return next(n for n in range(guess, guess + 4) if binomial_tail(0, n, bound) <= level)
    low = high = harmed
    while binomial_tail(harmed, high, bound) > level:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if binomial_tail(harmed, middle, bound) > level else (low, middle)
    return high


def most_harmed(units: int, bound: float, confidence: float) -> int | None:
    """Return how many of `units` may be harmed while showing a share of at most `bound`; None if not even 0."""
    level = error_level(confidence)
    if binomial_tail(0, units, bound) > level:
        return None
    low, high = 0, units  # `low` is allowed and `high`, whose probability is 1, is not
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if binomial_tail(middle, units, bound) <= level else (low, middle)
    return low


def check_bound(bound: float, confidence: float) -> None:
    """Raise WrongUse unless both are shares above 0 and below 1, and few enough units could show the bound."""
    for name, value in (("the bound on false stops", bound), ("the confidence", confidence)):
        if not 0 < value < 1:
            raise WrongUse(f"{name} is {value:g}: use a share above 0 and below 1, such as 1% or 0.01")
    if error_level(confidence) <= 0 or bound < 1e-9:
        raise WrongUse("no amount of data shows that: use a bound of 1e-9 or more, and a confidence below 1 - 1e-12")


# ---- learn then test


class Unit(Protocol):
    """A unit that is drawn independently of the others, such as a task."""

    @property
    def id(self) -> str:
        """Identifier that determines, with the seed, in which part the unit is."""

    @property
    def exposed(self) -> bool:
        """Whether the unit could be harmed because it has a good run. Only such units test."""


U = TypeVar("U", bound=Unit)
C = TypeVar("C")


class Trial(Struct, frozen=True, kw_only=True):
    """Test of one candidate of the sequence, on the part that tests."""

    candidate: int
    """Position in the sequence, from 0."""
    harmed: int
    units: int
    p_value: float
    """Probability of seeing no more harm than this if the true share were the bound."""
    passed: bool


class Certification(Struct, Generic[U, C], frozen=True, kw_only=True):
    """The result of choosing and testing."""

    sequence: Sequence[C]
    """The candidates from cautious to eager, as the first part ordered them."""
    trials: tuple[Trial, ...]
    """The tests that were made, in order. A failed one is the last."""
    choosing: Sequence[U]
    testing: Sequence[U]

    @property
    def certified(self) -> Trial | None:
        """The last test that passed; None if the first one failed, or there was none."""
        return next((trial for trial in reversed(self.trials) if trial.passed), None)


def learn_then_test(
    units: Iterable[U],
    order: Callable[[Sequence[U]], Sequence[C]],
    count_harmed: Callable[[Sequence[C], Sequence[U]], Iterable[int]],
    bound: float,
    confidence: float,
    *,
    choosing_share: float,
    seed: int = 0,
) -> Certification[U, C]:
    """Order the candidates on one part of the units, and test them in that order on the other.

    order: returns the candidates from cautious to eager, given the units. count_harmed: returns for each candidate the
    number of these units that it harms. choosing_share: the share of the units used for ordering.
    """
    choosing, testing = split(units, choosing_share, seed)
    sequence = order(choosing)
    exposed = [unit for unit in testing if unit.exposed]
    trials = fixed_sequence(count_harmed(sequence, exposed), len(exposed), bound, confidence)
    return Certification(sequence=sequence, trials=trials, choosing=choosing, testing=testing)


def split(units: Iterable[U], choosing_share: float, seed: int) -> tuple[list[U], list[U]]:
    """Return the units that choose and those that test, by a hash of each id and the seed.

    Units that can be harmed are split separately from the others, so that both parts get their share of them.
    """
    choosing: list[U] = []
    testing: list[U] = []
    ordered = sorted(units, key=lambda unit: (_hash(unit.id, seed), unit.id))
    for exposed in (True, False):
        group = [unit for unit in ordered if unit.exposed == exposed]
        first = round(choosing_share * len(group))
        choosing += group[:first]
        testing += group[first:]
    return choosing, testing


def _hash(id: str, seed: int) -> bytes:
    return sha256(f"{seed}\0{id}".encode("utf-8", "surrogatepass")).digest()


def fixed_sequence(harmed: Iterable[int], units: int, bound: float, confidence: float) -> tuple[Trial, ...]:
    """Test candidates in order until one fails. harmed: for each candidate, how many of the `units` it harms."""
    trials: list[Trial] = []
    for candidate, count in enumerate(harmed):
        p_value = binomial_tail(count, units, bound)
        passed = p_value <= error_level(confidence)
        trials.append(Trial(candidate=candidate, harmed=count, units=units, p_value=p_value, passed=passed))
        if not passed:
            break
    return tuple(trials)


# ---- in words


def percent_of(share: float) -> str:
    """Return a share in percent with up to three significant digits: `11.7 %`, `1 %`, `0.25 %`."""
    return f"{float(f'{100 * share:.3g}'):g} %"


UNITS = {"run": ("good run", "good runs"), "task": ("task with a good run", "tasks with a good run")}
"""The singular and the plural of each unit."""


def what_data_show(units: int, bound: float, confidence: float, unit: str = "run") -> str:
    """Return what this number of units can show at best, and how many would show the bound. unit: a key of `UNITS`."""
    one, many = UNITS[unit]
    enough = f"{units_needed(bound, confidence):,} without a harm would show {percent_of(bound)}"
    if units == 0:
        return f"no {one}: nothing can be shown; {enough}"
    least = percent_of(upper_bound(0, units, confidence))
    return f"{units:,} {one if units == 1 else many}: nothing below {least} can be shown; {enough}"
