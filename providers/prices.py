"""Prices of models: the user's own, then litellm's price table. The only module that reads that table.

The table is the JSON file in litellm's package. It is read without importing litellm, which would take a hundred times
as long, and without network access; see `docs/decisions/0007-*.md`.
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
"""litellm's price table in its package (seen in every release from 1.103.0 to 1.109.1)."""
VENDORS = {
    "api.anthropic.com": "anthropic",
    "api.deepseek.com": "deepseek",
    "api.groq.com": "groq",
    "api.mistral.ai": "mistral",
    "api.openai.com": "openai",
    "api.x.ai": "xai",
    "generativelanguage.googleapis.com": "gemini",
    "openrouter.ai": "openrouter",
}
"""Hosts with the vendor's own prices, and the vendor's name in the table."""
_TELLING = re.compile(r"[-/.\d]")
"""Characters of which a model's name must have one to be looked up: a name without any (`qwen`, `scripted`) is not in
the table, which then need not be read."""
_TIER = re.compile(r"input_cost_per_token_above_(\d+)k_tokens")


class Prices:
    """Prices of models.

    `own`: prices by model name, which take precedence over the table; or the name of another model with the same price,
    as in `Prices({"my-deployment": "azure/gpt-4o", "qwen": Price(input=0.1, output=0.3)})`. `listed=False` ignores the
    table.
    """

    def __init__(self, own: Mapping[str, Price | str] | None = None, *, listed: bool = True) -> None:
        self._own = dict(own or {})
        self._listed = listed

    def price(self, model: str, endpoint: str = "") -> Price | None:
        """The price of a model by its litellm name; None if it is not known.

        `endpoint`: its URL, if it was set explicitly. A server of your own has no list price, whatever its model is
        called.
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
        """US dollars for the usage of one request; None if no price is known."""
        price = self.price(model, endpoint)
        return None if price is None else price.cost(usage)


@lru_cache(maxsize=256)
def _of_table(model: str) -> Price | None:
    """The list price of a model; None if it is not in the table, or free there, as local models are."""
    if not _TELLING.search(model):
        return None
    for entry in _entries(model):
        price = _price(entry)
        if price is not None:
            return price
    return None


def _entries(model: str) -> Iterator[Mapping[str, Any]]:
    """The table's entries for a model, best match first: by its full name, then without provider and route.

    `anthropic/claude-sonnet-4-5` is listed as `claude-sonnet-4-5`, `bedrock/converse/amazon.nova-pro-v1:0` as
    `amazon.nova-pro-v1:0`. A shorter name counts only for the same provider, because others charge different prices.
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
    """The table with undecoded entries; empty if litellm is not installed."""
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
    """The price without tiers, or of one tier; a price that the tier does not name is the same as without it."""

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
