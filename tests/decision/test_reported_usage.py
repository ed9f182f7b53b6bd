"""What a provider says of its usage: numbers are taken as they are, and whatever else stands there as missing."""

from __future__ import annotations

from math import inf, nan
from typing import Any

import msgspec
import pytest
from endstop.decision import Usage
from endstop.decision.messages import MOST_DOLLARS, MOST_TOKENS
from endstop.decision.reported_usage import dollars, reported_usage, sum_of_counts, token_count
from hypothesis import given
from hypothesis import strategies as st

IMPOSSIBLE: list[Any] = [
    *(-1, -1_000_000, -(2**70), MOST_TOKENS + 1, 2**64, 10**400),
    *(0.5, -0.5, nan, inf, -inf, 1e300, 1e-300, -0.1),
    *("", "many", "-5", "1.5", "1e3", "0x10", "١٢", "²", " 12 ", "9" * 400),
    *(True, False, None, [], [5], {}, {"tokens": 5}, b"5"),
]
VALUES = st.one_of(
    st.integers(), st.floats(), st.booleans(), st.none(), st.text(max_size=6), st.lists(st.integers(), max_size=2)
)


@pytest.mark.parametrize("value", IMPOSSIBLE, ids=repr)
def test_what_is_no_count_is_not_reported(value: Any) -> None:
    assert token_count(value) is None
    assert reported_usage(value, value) is None
    assert reported_usage(value, 5) == Usage(output_tokens=5, estimated=True)
    assert reported_usage(5, value) == Usage(input_tokens=5, estimated=True)
    assert reported_usage(5, 5, cached=value, reasoning=value) == Usage(input_tokens=5, output_tokens=5)


@pytest.mark.parametrize("value", [0, 7, 7.0, "7", MOST_TOKENS])
def test_a_whole_number_is_a_count_however_it_is_written(value: Any) -> None:
    assert token_count(value) == int(value)


@pytest.mark.parametrize("value", [-0.01, nan, inf, -inf, 10**400, 2 * MOST_DOLLARS, "0.5", True, None, [1.0], {}])
def test_what_is_no_cost_is_not_reported(value: Any) -> None:
    assert dollars(value) is None
    assert reported_usage(1, 1, cost=value) == Usage(input_tokens=1, output_tokens=1)


def test_a_part_is_within_its_whole_or_not_reported() -> None:
    assert reported_usage(5, 5, cached=6, reasoning=6) == Usage(input_tokens=5, output_tokens=5)
    assert reported_usage(5, 5, cached=5, reasoning=5) == Usage(
        input_tokens=5, output_tokens=5, cached_tokens=5, reasoning_tokens=5
    )
    assert reported_usage(None, 5, cached=1) == Usage(output_tokens=5, estimated=True)


def test_a_sum_that_is_too_large_for_a_count_is_not_reported() -> None:
    assert sum_of_counts(None, "x", -1) is None
    assert sum_of_counts(1, -5, 2.0) == 3
    assert reported_usage(sum_of_counts(MOST_TOKENS, 1), 1) == Usage(output_tokens=1, estimated=True)


@given(st.lists(st.tuples(VALUES, VALUES, VALUES, VALUES, VALUES), max_size=20))
def test_no_report_lowers_a_sum_and_every_sum_can_be_written(reports: list[tuple[Any, ...]]) -> None:
    total = Usage(cost_usd=0.0)
    for input, output, cached, reasoning, cost in reports:
        used = reported_usage(input, output, cached=cached, reasoning=reasoning, cost=cost)
        after = total if used is None else total + used
        for name in ("input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens", "cost_usd"):
            assert getattr(after, name) >= getattr(total, name)
        total = after
        assert msgspec.msgpack.decode(msgspec.msgpack.encode(total), type=Usage) == total
        assert msgspec.json.decode(msgspec.json.encode(total), type=Usage) == total


def test_sums_stay_at_the_largest_number() -> None:
    most = Usage(input_tokens=MOST_TOKENS, output_tokens=MOST_TOKENS, cost_usd=MOST_DOLLARS)
    assert most + most == most


@pytest.mark.parametrize("number", [-5, 2**64, -(2**64), MOST_TOKENS + 1])
def test_a_record_of_an_older_version_is_read_as_if_the_impossible_were_missing(number: int) -> None:
    line = msgspec.json.encode({"input_tokens": number, "output_tokens": 3, "cost_usd": 1e308})
    assert msgspec.json.decode(line, type=Usage) == Usage(output_tokens=3, estimated=True)


def test_a_later_report_leaves_what_it_lacks_to_the_earlier_one() -> None:
    earlier = Usage(input_tokens=100, output_tokens=5, cached_tokens=60, cost_usd=0.5)
    later = reported_usage(-1, 20)
    assert later is not None
    assert later.completed_by(earlier) == Usage(
        input_tokens=100, output_tokens=20, cached_tokens=60, cost_usd=0.5, estimated=True
    )
    assert later.completed_by(None) == later
    assert earlier.completed_by(Usage(input_tokens=7)) == earlier
