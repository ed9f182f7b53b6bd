"""Guarantees about a share: the bounds against exact fractions and known tables, and the promise against the truth."""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cache
from math import comb
from typing import NamedTuple

import pytest
from endstop.analysis.guarantee import (
    Certification,
    binomial_tail,
    check_bound,
    error_level,
    exact_interval,
    fixed_sequence,
    learn_then_test,
    lower_bound,
    most_harmed,
    percent_of,
    split,
    units_needed,
    upper_bound,
    what_data_show,
)
from endstop.decision import WrongUse
from hypothesis import given
from hypothesis import strategies as st

SHARES = st.floats(1e-6, 1 - 1e-6)
CONFIDENCES = st.sampled_from([0.5, 0.8, 0.9, 0.95, 0.99, 0.999])


@st.composite
def counts(draw: st.DrawFn, most: int = 300) -> tuple[int, int]:
    """How many units are harmed, and of how many."""
    units = draw(st.integers(1, most))
    return draw(st.integers(0, units)), units


# ---- the binomial distribution


def tail_in_fractions(harmed: int, units: int, share: float) -> float:
    exact = Fraction(str(share))  # decimal: far smaller than the fraction of a float
    return float(sum(comb(units, k) * exact**k * (1 - exact) ** (units - k) for k in range(harmed + 1)))


@given(counts(most=60), SHARES)
def test_the_tail_is_the_sum_of_its_probabilities(count: tuple[int, int], share: float) -> None:
    assert binomial_tail(*count, share) == pytest.approx(tail_in_fractions(*count, share), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(("harmed", "units", "share"), [(1, 5_000, 0.001), (40, 2_000, 0.02), (450, 1_000, 0.45)])
def test_the_tail_is_exact_for_many_units_too(harmed: int, units: int, share: float) -> None:
    assert binomial_tail(harmed, units, share) == pytest.approx(tail_in_fractions(harmed, units, share), rel=1e-9)


@pytest.mark.parametrize(
    ("harmed", "units", "low", "high"),
    [
        (0, 10, 0.0, 0.3085),
        (1, 10, 0.0025, 0.4450),
        (5, 20, 0.0866, 0.4910),
        (29, 30, 0.8278, 0.9992),
        (10, 10, 0.6915, 1.0),
    ],
)
def test_intervals_are_those_of_the_tables_of_clopper_and_pearson(
    harmed: int, units: int, low: float, high: float
) -> None:
    found = exact_interval(harmed, units)
    assert found is not None
    assert (found.value, found.low, found.high) == pytest.approx((harmed / units, low, high), abs=5e-5)


def test_without_units_nothing_is_known() -> None:
    assert exact_interval(0, 0) is None
    assert (lower_bound(0, 0, 0.95), upper_bound(0, 0, 0.95)) == (0.0, 1.0)


@given(counts(), CONFIDENCES)
def test_at_the_upper_bound_so_little_harm_is_just_as_unlikely_as_the_confidence_says(
    count: tuple[int, int], confidence: float
) -> None:
    harmed, units = count
    bound = upper_bound(harmed, units, confidence)
    assert bound >= harmed / units
    if harmed < units:
        assert binomial_tail(harmed, units, bound) == pytest.approx(1 - confidence, rel=1e-6)


@given(counts(), CONFIDENCES)
def test_the_bound_rises_with_harm_and_with_confidence_and_falls_with_units(
    count: tuple[int, int], confidence: float
) -> None:
    harmed, units = count
    bound = upper_bound(harmed, units, confidence)
    assert upper_bound(harmed, units + 1, confidence) <= bound + 1e-12
    assert upper_bound(min(harmed + 1, units), units, confidence) >= bound
    assert upper_bound(harmed, units, (1 + confidence) / 2) >= bound
    assert lower_bound(harmed, units, confidence) <= harmed / units


@given(st.floats(0.001, 0.5), CONFIDENCES, st.integers(0, 5))
def test_as_many_units_as_are_needed_show_the_bound_and_one_fewer_does_not(
    bound: float, confidence: float, harmed: int
) -> None:
    units = units_needed(bound, confidence, harmed)
    level = error_level(confidence)
    assert binomial_tail(harmed, units, bound) <= level < binomial_tail(harmed, units - 1, bound)
    assert most_harmed(units, bound, confidence) == harmed


def test_too_few_units_show_nothing_even_without_harm() -> None:
    assert most_harmed(298, 0.01, 0.95) is None
    assert most_harmed(299, 0.01, 0.95) == 0
    assert most_harmed(473, 0.01, 0.95) == 1


@pytest.mark.parametrize(
    ("bound", "confidence"),
    [(0, 0.95), (1, 0.95), (-1, 0.95), (0.01, 0), (0.01, 1), (float("nan"), 0.95), (0.01, 1 - 1e-15), (1e-12, 0.95)],
)
def test_bounds_and_confidences_that_nothing_can_show_are_refused(bound: float, confidence: float) -> None:
    with pytest.raises(WrongUse):
        check_bound(bound, confidence)


# ---- learn then test


class Drawn(NamedTuple):
    """A unit, with the candidates that harm it; None if it cannot be harmed."""

    id: str
    harmed: tuple[bool, ...] | None = ()

    @property
    def exposed(self) -> bool:
        """Whether it can be harmed."""
        return self.harmed is not None


def harms(candidates: Sequence[int], units: Sequence[Drawn]) -> Iterator[int]:
    """How many of the units each candidate harms."""
    return (sum(unit.harmed is not None and unit.harmed[candidate] for unit in units) for candidate in candidates)


def least_harm_first(units: Sequence[Drawn]) -> list[int]:
    """All candidates, those first that harm fewest of these units."""
    many = len(units[0].harmed or ())
    return sorted(range(many), key=lambda candidate: (*harms([candidate], units), candidate))


def chosen(units: Sequence[Drawn]) -> int | None:
    """The candidate that is certified."""
    found = learn_then_test(units, least_harm_first, harms, BOUND, CONFIDENCE, choosing_share=0.25)
    return None if found.certified is None else found.sequence[found.certified.candidate]


@given(st.lists(st.booleans(), max_size=80), st.floats(0, 1), st.integers(0, 99))
def test_a_split_has_every_unit_once_whatever_the_order_and_shares_those_that_can_be_harmed(
    exposed: list[bool], share: float, seed: int
) -> None:
    units = [Drawn(str(number), () if one else None) for number, one in enumerate(exposed)]
    choosing, testing = split(units, share, seed)
    assert sorted(one.id for one in choosing + testing) == sorted(one.id for one in units)
    assert split(units[::-1], share, seed) == (choosing, testing)
    assert sum(one.exposed for one in choosing) == round(share * sum(exposed))


def test_another_seed_splits_otherwise() -> None:
    units = [Drawn(str(number)) for number in range(40)]
    assert len({tuple(one.id for one in split(units, 0.5, seed)[0]) for seed in range(5)}) == 5


def test_only_the_part_that_did_not_choose_tests() -> None:
    units = [Drawn(str(number), (number % 3 == 0,)) for number in range(60)] + [Drawn("bad", None)]
    seen: list[set[str]] = []

    def order(choosing: Sequence[Drawn]) -> list[int]:
        seen.append({unit.id for unit in choosing})
        return [0]

    def count(candidates: Sequence[int], testing: Sequence[Drawn]) -> Iterator[int]:
        seen.append({unit.id for unit in testing})
        return harms(candidates, testing)

    found = learn_then_test(units, order, count, 0.5, 0.9, choosing_share=0.5)
    assert not seen[0] & seen[1]
    assert len(seen[1]) == found.trials[0].units == 30
    assert seen[0] | seen[1] | {"bad"} == {unit.id for unit in units}


@given(st.lists(st.integers(0, 40), min_size=1, max_size=12), st.floats(0.01, 0.5), CONFIDENCES)
def test_nothing_is_certified_after_a_failure(harmed: list[int], bound: float, confidence: float) -> None:
    trials = fixed_sequence(harmed, 40, bound, confidence)
    assert [trial.candidate for trial in trials] == list(range(len(trials)))
    assert all(trial.passed for trial in trials[:-1])
    assert len(trials) == len(harmed) or not trials[-1].passed
    nothing: tuple[Drawn, ...] = ()
    found = Certification(sequence=harmed, trials=trials, choosing=nothing, testing=nothing).certified
    if found is not None:
        assert all(upper_bound(harmed[one], 40, confidence) <= bound + 1e-9 for one in range(found.candidate + 1))
        assert found.candidate + 1 == len(harmed) or upper_bound(harmed[found.candidate + 1], 40, confidence) > bound


# ---- the promise, where the truth is known

BOUND, CONFIDENCE, DATA_SETS = 0.1, 0.95, 2_000


@cache
def rows(rates: tuple[float, ...]) -> list[tuple[bool, ...]]:
    """What happens to a unit, by how many candidates harm it: an eager candidate harms all that a cautious one does."""
    return [tuple(number >= len(rates) - many for number in range(len(rates))) for many in range(len(rates) + 1)]


def simulated(random_: random.Random, rates: tuple[float, ...], units: int) -> list[Drawn]:
    """Units of which candidate i harms a share of rates[i], which rises."""
    harm = rows(rates)
    many = len(rates)
    return [Drawn(str(number), harm[many - bisect_right(rates, random_.random())]) for number in range(units)]


def certified(rates: tuple[float, ...], units: int, data_sets: int) -> list[int | None]:
    """The candidate that is certified in each data set."""
    random_ = random.Random(20261122)
    return [chosen(simulated(random_, rates, units)) for _ in range(data_sets)]


def wrong_too_often(wrong: int, data_sets: int) -> bool:
    """Whether so many are no chance: likelier than 1 in 1,000 not, if each were wrong with 5 %."""
    return 1 - binomial_tail(wrong - 1, data_sets, 1 - CONFIDENCE) < 0.001


RATES = (0.0, 0.01, 0.03, 0.06, 0.09, 0.101, 0.15, 0.3)
"""The true share of harm of each candidate: five keep the bound, and three do not, one of them just not."""


def test_what_is_certified_breaks_the_bound_in_at_most_5_percent_of_2000_data_sets() -> None:
    found = certified(RATES, 160, DATA_SETS)
    wrong = sum(one is not None and RATES[one] > BOUND for one in found)
    assert not wrong_too_often(wrong, DATA_SETS), wrong
    assert sum(one is not None and RATES[one] >= 0.03 for one in found) > DATA_SETS / 2, "and it certifies something"


def test_over_the_edge_it_is_wrong_nearly_as_often_as_it_may_be_and_not_oftener() -> None:
    """Every candidate breaks the bound, the first just so: an honest test at 95 % is fooled in up to 5 % of cases."""
    found = certified((0.1001, 0.12, 0.2), 400, DATA_SETS)
    wrong = sum(one is not None for one in found)
    assert not wrong_too_often(wrong, DATA_SETS), wrong
    assert wrong > DATA_SETS / 100, "the test at its edge has some power, or it would prove nothing here"


def test_the_measure_of_the_simulation_would_notice_a_test_that_picks_the_best_looking_candidate() -> None:
    """Looking at all candidates, and taking the most eager that looks good, breaks the promise: it must show."""
    random_ = random.Random(5)
    rates, wrong = (0.105,) * 10, 0
    for _ in range(300):  # ten candidates that harm independently of each other
        harmed = [sum(random_.random() < rate for _ in range(120)) for rate in rates]
        wrong += any(binomial_tail(one, 120, BOUND) <= 1 - CONFIDENCE for one in harmed)
    assert wrong_too_often(wrong, 300)


def test_candidates_that_harm_independently_of_each_other_keep_the_promise_too() -> None:
    random_ = random.Random(6)
    rates = (0.04, 0.102, 0.11, 0.12, 0.08)
    wrong, data_sets = 0, 400
    for _ in range(data_sets):
        units = [Drawn(str(number), tuple(random_.random() < rate for rate in rates)) for number in range(150)]
        found = chosen(units)
        wrong += found is not None and rates[found] > BOUND
    assert not wrong_too_often(wrong, data_sets), wrong


def test_with_too_few_units_nothing_is_certified_however_harmless_the_candidates() -> None:
    """28 units test, and 29 without a harm would show 10 %."""
    assert units_needed(BOUND, CONFIDENCE) == 29
    assert certified((0.0, 0.0), 37, 50) == [None] * 50
    assert certified((0.0, 0.0), 39, 1) == [1]


# ---- in words


def test_the_sentences_say_what_so_many_units_can_show() -> None:
    assert what_data_show(24, 0.01, 0.95) == (
        "24 good runs: nothing below 11.7 % can be shown; 299 without a harm would show 1 %"
    )
    assert what_data_show(1, 0.1, 0.9, "task") == (
        "1 task with a good run: nothing below 90 % can be shown; 22 without a harm would show 10 %"
    )
    assert what_data_show(0, 0.005, 0.95).startswith("no good run: nothing can be shown; 598 without a harm")


def test_a_share_has_three_digits_that_count() -> None:
    assert [percent_of(share) for share in (0.01, 0.0025, 0.11735, 1.0)] == ["1 %", "0.25 %", "11.7 %", "100 %"]
