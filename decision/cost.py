"""Cost of tokens at a given price. The prices of models are in `providers/prices.py`."""

from __future__ import annotations

from math import inf

from msgspec.structs import replace

from .errors import WrongUse
from .messages import Usage
from .wrong_calls import CheckedStruct

MILLION = 1_000_000


class Price(CheckedStruct, frozen=True, kw_only=True, omit_defaults=True):
    """A model's price, in US dollars per million tokens. Raises WrongUse for a negative or infinite value."""

    input: float
    output: float
    cached: float | None = None
    """Price of input tokens read from the provider's cache; None: the same as `input`."""
    reasoning: float | None = None
    """Price of reasoning tokens; None: the same as `output`, which nearly all providers charge."""
    above: dict[int, Price] = {}
    """Prices for long requests: a request with more input tokens than the key pays this price for all of its tokens."""

    def __post_init__(self) -> None:
        for name in ("input", "output", "cached", "reasoning"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < inf:
                raise WrongUse(f"Price.{name} is {value}: use 0 or more, in US dollars per million tokens")

    def cost(self, usage: Usage) -> float:
        """Return the US dollars for the usage of one request. Cached and reasoning tokens are not counted twice."""
        price = self._at(usage.input_tokens)
        cached = min(usage.cached_tokens, usage.input_tokens)
        reasoning = min(usage.reasoning_tokens, usage.output_tokens)
        return (
            (usage.input_tokens - cached) * price.input
            + cached * _or(price.cached, price.input)
            + (usage.output_tokens - reasoning) * price.output
            + reasoning * _or(price.reasoning, price.output)
        ) / MILLION

    def output_cost(self, tokens: int, input_tokens: int) -> float:
        """Return the US dollars for additional output tokens of a request with this number of input tokens."""
        return tokens * self._at(input_tokens).output / MILLION

    def _at(self, input_tokens: int) -> Price:
        passed = [tokens for tokens in self.above if input_tokens > tokens]
        return self.above[max(passed)] if passed else self


def with_cost(usage: Usage, price: Price | None) -> Usage:
    """Add the cost to the usage of one request, unless the provider reported it or no price is known."""
    if price is None or usage.cost_usd is not None:
        return usage
    return replace(usage, cost_usd=price.cost(usage))


def _or(price: float | None, other: float) -> float:
    return other if price is None else price
