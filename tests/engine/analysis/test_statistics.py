"""How figures are spread, held against the plain way of counting them."""

from __future__ import annotations

import statistics
from itertools import pairwise
from math import ceil

import pytest
from endstop.analysis.statistics import MAX_BINS, Distribution, RunningDistribution
from hypothesis import given
from hypothesis import strategies as st

SMALL = st.lists(st.integers(0, 1000), min_size=1, max_size=200)


def spread_of(values: list[int]) -> RunningDistribution:
    spread = RunningDistribution()
    for value in values:
        spread.add(value)
    return spread


@given(SMALL)
def test_middle_tail_and_mean_are_those_of_the_values(values: list[int]) -> None:
    spread = spread_of(values)
    found = spread.distribution()
    assert (found.runs, found.largest) == (len(values), max(values))
    assert found.mean == pytest.approx(statistics.mean(values))
    assert found.median == statistics.median(values)
    assert found.p90 == sorted(values)[ceil(0.9 * len(values)) - 1]
    if len(values) > 1:
        assert spread.variance == pytest.approx(statistics.variance(values), abs=1e-6)


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=200))
def test_bins_lie_side_by_side_are_not_too_many_and_hold_every_value_once(values: list[int]) -> None:
    bins = spread_of(values).distribution().bins
    assert sum(one.runs for one in bins) == len(values)
    assert len(bins) <= MAX_BINS + 3
    for one, following in pairwise(bins):
        assert one.high is not None
        assert following.low == one.high + 1
    closed = [one for one in bins if one.high is not None]
    assert len({(one.high or 0) - one.low for one in closed}) <= 1
    if max(values) <= 1000:
        for one in closed:
            assert one.runs == sum(one.low <= value <= (one.high or 0) for value in values)


@given(st.lists(st.integers(1001, 10**12), min_size=1, max_size=100))
def test_large_values_are_kept_to_three_digits_so_that_memory_is_bounded(values: list[int]) -> None:
    spread = spread_of(values)
    assert all(len(str(value).rstrip("0")) <= 3 for value in spread.counts)
    found = spread.distribution()
    assert found.median == pytest.approx(statistics.median(values), rel=0.005)
    assert found.mean == pytest.approx(statistics.mean(values))


def test_a_few_values_far_out_do_not_flatten_the_rest() -> None:
    bins = spread_of([*range(5, 20)] * 60 + [5000]).distribution().bins
    assert (bins[-1].high, bins[-1].runs) == (None, 1)
    assert [one.runs for one in bins[:-1]] == [60] * 15


def test_of_nothing_nothing_is_said() -> None:
    assert RunningDistribution().distribution() == Distribution(runs=0)
    assert RunningDistribution().mean() is None
    assert spread_of([3]).mean() is None
