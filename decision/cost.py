"""What tokens cost: the arithmetic. Which model has which price is the business of `providers/prices.py`."""

from __future__ import annotations

from math import inf

from msgspec import Struct
from msgspec.structs import replace

from .errors import WrongUse
from .messages import Usage

MILLION = 1_000_000


class Price(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A model's price, in US dollars per million tokens. Raises WrongUse if one of them is below 0."""

    input: float
    output: float
    cached: float | None = None
    """Of input tokens that the provider had in its cache; None: as `input`."""
    reasoning: float | None = None
    """Of reasoning tokens; None: as `output`, which nearly all providers charge."""
    above: dict[int, Price] = {}
    """What a whole request costs instead, once it has more input tokens than the key."""

    def __post_init__(self) -> None:
        for name in ("input", "output", "cached", "reasoning"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < inf:
                raise WrongUse(f"Price.{name} is {value}: use 0 or more, in US dollars per million tokens")

    def cost(self, usage: Usage) -> float:
        """US dollars for the usage of one request. Tokens that are part of others are counted once."""
        price = self._at(usage.input_tokens)
        cached = min(usage.cached_tokens, usage.input_tokens)
        reasoning = min(usage.reasoning_tokens, usage.output_tokens)
        return (
            (usage.input_tokens - cached) * price.input
            + cached * _or(price.cached, price.input)
            + (usage.output_tokens - reasoning) * price.output
            + reasoning * _or(price.reasoning, price.output)
        ) / MILLION

    def _at(self, input_tokens: int) -> Price:
        passed = [tokens for tokens in self.above if input_tokens > tokens]
        return self.above[max(passed)] if passed else self


def with_cost(usage: Usage, price: Price | None) -> Usage:
    """The usage of one request with its cost, unless the provider reported one or no price is known."""
    if price is None or usage.cost_usd is not None:
        return usage
    return replace(usage, cost_usd=price.cost(usage))


def _or(price: float | None, other: float) -> float:
    return other if price is None else price
