"""What tokens cost: the arithmetic."""

from __future__ import annotations

import msgspec
import pytest
from endstop.decision import Price, Usage, WrongUse
from endstop.decision.cost import with_cost
from hypothesis import given
from hypothesis import strategies as st

TOKENS = st.integers(0, 10**7)
DOLLARS = st.floats(0, 1000)


def test_tokens_are_priced_per_million_cached_and_reasoning_ones_as_what_they_are() -> None:
    price = Price(input=3, output=15, cached=0.3, reasoning=20)
    usage = Usage(input_tokens=1_000_000, cached_tokens=400_000, output_tokens=200_000, reasoning_tokens=50_000)
    assert price.cost(usage) == pytest.approx(0.6 * 3 + 0.4 * 0.3 + 0.15 * 15 + 0.05 * 20)


def test_without_prices_of_their_own_cached_tokens_cost_as_input_and_reasoning_as_output() -> None:
    usage = Usage(input_tokens=1000, cached_tokens=900, output_tokens=100, reasoning_tokens=99)
    assert Price(input=1, output=10).cost(usage) == pytest.approx((1000 * 1 + 100 * 10) / 1e6)


def test_a_request_above_a_tier_costs_as_a_whole_what_the_tier_says() -> None:
    price = Price(input=1, output=1, above={200_000: Price(input=2, output=3), 500_000: Price(input=5, output=7)})
    assert price.cost(Usage(input_tokens=200_000)) == pytest.approx(0.2)
    assert price.cost(Usage(input_tokens=200_001)) == pytest.approx(0.400002)
    assert price.cost(Usage(input_tokens=600_000, output_tokens=1_000_000)) == pytest.approx(3.0 + 7.0)


def test_a_reported_cost_stays_and_an_estimate_stays_an_estimate() -> None:
    price = Price(input=1, output=1)
    assert with_cost(Usage(input_tokens=5, cost_usd=0.25), price).cost_usd == 0.25
    assert with_cost(Usage(input_tokens=5), None) == Usage(input_tokens=5)
    estimated = with_cost(Usage(input_tokens=1_000_000, estimated=True), price)
    assert (estimated.cost_usd, estimated.estimated) == (1.0, True)


@pytest.mark.parametrize("value", [-1, float("nan"), float("inf")])
@pytest.mark.parametrize("field", ["input", "output", "cached", "reasoning"])
def test_a_price_that_is_none_is_refused_by_its_name(field: str, value: float) -> None:
    with pytest.raises(WrongUse, match=f"Price.{field} is {value}"):
        Price(**({"input": 1, "output": 1} | {field: value}))


@given(st.builds(Price, input=DOLLARS, output=DOLLARS, cached=st.none() | DOLLARS), TOKENS, TOKENS, TOKENS, TOKENS)
def test_a_cost_is_never_below_zero_and_never_above_the_dearest_token(
    price: Price, tokens_in: int, tokens_out: int, cached: int, reasoning: int
) -> None:
    usage = Usage(input_tokens=tokens_in, output_tokens=tokens_out, cached_tokens=cached, reasoning_tokens=reasoning)
    dearest = max(price.input, price.output, price.cached or 0)
    assert 0 <= price.cost(usage) <= (tokens_in + tokens_out) * dearest / 1e6 * (1 + 1e-9)


def test_a_price_comes_out_of_a_record_as_it_went_in() -> None:
    price = Price(input=1, output=2, cached=0.5, above={1000: Price(input=3, output=4)})
    assert msgspec.json.decode(msgspec.json.encode(price), type=Price) == price
