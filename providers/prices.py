"""Which model has which price: a user's own prices, then litellm's table. The only module that reads that table.

The table is the file of JSON that litellm brings along. It is read without importing litellm, which takes a hundred
times as long, and without the network: see `docs/decisions/0007-*.md`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from ..decision import Price, Usage
from ..decision.cost import MILLION
from .provider import Provider

FILE = "model_prices_and_context_window_backup.json"
"""litellm's table, in its package (seen in every release from 1.103.0 to 1.109.1)."""
VENDORS = {
    "api.deepseek.com": "deepseek",
    "api.groq.com": "groq",
    "api.mistral.ai": "mistral",
    "api.openai.com": "openai",
    "api.x.ai": "xai",
    "openrouter.ai": "openrouter",
}
"""Hosts at which a vendor's own prices hold, with its name in the table."""
_TELLING = re.compile(r"[-/.\d]")
"""A name without any of these (`qwen`, `scripted`) is nobody's model: the table need not be read to know it."""
_TIER = re.compile(r"input_cost_per_token_above_(\d+)k_tokens")


class Prices:
    """What models cost.

    `own`: your prices by the model's name, which win over the table; or another name to take the price of, as in
    `Prices({"my-deployment": "azure/gpt-4o", "qwen": Price(input=0.1, output=0.3)})`. `listed=False` leaves the table
    out.
    """

    def __init__(self, own: Mapping[str, Price | str] | None = None, *, listed: bool = True) -> None:
        self._own = dict(own or {})
        self._listed = listed

    def price(self, model: str, endpoint: str = "") -> Price | None:
        """The price of a model, by litellm's name for it; None where none is known.

        `endpoint`: the address, if it was set by hand. A server of your own has no list price, whatever the name of
        its model.
        """
        own = self._own.get(model)
        if isinstance(own, Price):
            return own
        if own is None and endpoint:
            vendor = VENDORS.get(urlsplit(endpoint).hostname or "")
            own = f"{vendor}/{model}" if vendor else ""
        return _of_table(model if own is None else own) if self._listed else None

    def of(self, provider: Provider) -> Price | None:
        """The price of a provider's model."""
        return self.price(provider.model, getattr(provider, "endpoint", ""))

    def cost(self, usage: Usage, model: str, endpoint: str = "") -> float | None:
        """US dollars for the usage of one request; None where no price is known."""
        price = self.price(model, endpoint)
        return None if price is None else price.cost(usage)


@lru_cache(maxsize=256)
def _of_table(model: str) -> Price | None:
    """The list price of a model; None for one that is not in the table, or free in it, as local models are."""
    if not _TELLING.search(model):
        return None
    for entry in _entries(model):
        price = _price(entry)
        if price is not None:
            return price
    return None


def _entries(model: str) -> Iterator[Mapping[str, Any]]:
    """The table's lines on a model, nearest first: under its whole name, then without provider and route.

    `anthropic/claude-sonnet-4-5` stands there as `claude-sonnet-4-5`, `bedrock/converse/amazon.nova-pro-v1:0` as
    `amazon.nova-pro-v1:0`. A shorter name counts only if it is the same provider's: others charge otherwise.
    """
    table = _table()
    if model in table:
        yield msgspec.json.decode(table[model])
    vendor, _, rest = model.partition("/")
    while rest:
        if rest in table:
            entry = msgspec.json.decode(table[rest])
            if str(entry.get("litellm_provider")).startswith(vendor):
                yield entry
        rest = rest.partition("/")[2]


@lru_cache(maxsize=1)
def _table() -> Mapping[str, msgspec.Raw]:
    """The table, each line as it stands there; empty where litellm is not installed."""
    found = find_spec("litellm")  # which imports nothing
    if found is None or found.origin is None:
        return {}
    try:
        return msgspec.json.decode((Path(found.origin).parent / FILE).read_bytes(), type=dict[str, msgspec.Raw])
    except (OSError, msgspec.DecodeError):
        return {}


def _price(entry: Mapping[str, Any]) -> Price | None:
    tiers = entry.get("tiered_pricing")
    if tiers:
        prices = {int(tier["range"][0]): _plain(tier) for tier in tiers if "range" in tier}
        base, above = prices.pop(0, None), prices
    else:
        found = [match for match in map(_TIER.fullmatch, entry) if match]
        base, above = _plain(entry), {int(match[1]) * 1000: _plain(entry, match[0][20:]) for match in found}
    if base is None or not (base.input or base.output):
        return None
    return msgspec.structs.replace(base, above={tokens: tier for tokens, tier in above.items() if tier is not None})


def _plain(entry: Mapping[str, Any], tier: str = "") -> Price | None:
    """The price without its tiers, or that of one tier: what a tier does not name costs the same in it."""

    def of(name: str) -> float | None:
        dollars = entry.get(name + tier, entry.get(name))
        return round(dollars * MILLION, 9) if isinstance(dollars, int | float) else None

    each_input, each_output, cached = of("input_cost_per_token"), of("output_cost_per_token"), of(_CACHED)
    if each_input is None or each_output is None:
        return None
    if cached is None:
        cached = of("input_cost_per_token_cache_hit")
    reasoning = of("output_cost_per_reasoning_token")
    return Price(input=each_input, output=each_output, cached=cached, reasoning=reasoning)


_CACHED = "cache_read_input_token_cost"
