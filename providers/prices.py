"""Prices of models: the user's own, then our price list, then litellm's. The only module that reads either list.

Our list, `prices.json`, covers the vendors in `VENDORS`, whose models do not need litellm. It is an extract of
litellm's list, a JSON file in its package that has all the others; `docs/price_list.py` writes the extract. A model in
our list costs the same whether or not litellm is installed, and in any version. litellm's list is read without
importing litellm, which would take a hundred times as long. Neither needs the network; see
`docs/decisions/0028-a-core-that-installs-beside-anything-and-litellm-is-an-extra.md`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from ..decision import Price, Usage
from ..decision.cost import MILLION
from ..decision.deferred_patterns import deferred
from ..decision.wrong_calls import checked

if TYPE_CHECKING:
    from .provider import Provider

OWN = Path(__file__).with_name("prices.json")
FILE = "model_prices_and_context_window_backup.json"
"""litellm's price list in its package (seen in every release from 1.103.0 to 1.109.1)."""
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
"""Hosts that charge the vendor's own prices, and the vendor's name in both lists."""
_TELLING = deferred(r"[-/.\d]")
"""Characters of which a model's name must contain one to be looked up. A name without any (`qwen`, `scripted`) is in
neither list, so that neither needs to be read."""
_TIER = deferred(r"input_cost_per_token_above_(\d+)k_tokens")


@checked
class Prices:
    """Prices of models.

    `own`: prices by model name, which take precedence over the lists; or the name of another model with the same price,
    as in `Prices({"my-deployment": "openai/gpt-4o", "qwen": Price(input=0.1, output=0.3)})`. `listed=False` ignores the
    lists.
    """

    def __init__(self, own: Mapping[str, Price | str] | None = None, *, listed: bool = True) -> None:
        self._own = dict(own or {})
        self._listed = listed

    def price(self, model: str, endpoint: str = "") -> Price | None:
        """Return the price of a model by its litellm name; None if it is not known.

        `endpoint`: its URL, if it was set explicitly. A model on your own server has no list price, whatever its name.
        """
        own = self._own.get(model)
        if isinstance(own, Price):
            return own
        if own is None and endpoint:
            vendor = VENDORS.get(urlsplit(endpoint).hostname or "")
            own = f"{vendor}/{model}" if vendor else ""
        return _list_price(model if own is None else own) if self._listed else None

    def of(self, provider: Provider) -> Price | None:
        """Return the price of a provider's model. For a short name, a vendor's own provider determines the vendor."""
        from ._wrapper import Wrapper

        leaf = provider
        while isinstance(leaf, Wrapper):
            leaf = leaf.provider
        name, endpoint, vendor = leaf.model, getattr(leaf, "endpoint", ""), getattr(leaf, "prefix", "")
        if name not in self._own and not endpoint:
            name = f"{vendor}{name.removeprefix(vendor)}"
        return self.price(name, endpoint)

    def cost(self, usage: Usage, model: str, endpoint: str = "") -> float | None:
        """Return the cost in US dollars of one request's usage; None if no price is known."""
        price = self.price(model, endpoint)
        return None if price is None else price.cost(usage)


@lru_cache(maxsize=256)
def _list_price(model: str) -> Price | None:
    """Return the list price of a model; None if it is in neither list, or listed as free like local models."""
    if not _TELLING.search(model):
        return None
    entries = (entry for prices in (_own_list, _litellm_list) for entry in _entries(model, prices()))
    return next((price for price in map(read_price, entries) if price is not None), None)


def _entries(model: str, prices: Mapping[str, msgspec.Raw]) -> Iterator[Mapping[str, Any]]:
    """Yield a list's entries for a model, best match first: by its full name, then without provider and route.

    `anthropic/claude-sonnet-4-5` is listed as `claude-sonnet-4-5`, `bedrock/converse/amazon.nova-pro-v1:0` as
    `amazon.nova-pro-v1:0`. A shorter name counts only for the same provider, because others charge different prices.
    """
    if model in prices:
        yield msgspec.json.decode(prices[model])
    vendor, _, rest = model.partition("/")
    while rest:
        if rest in prices:
            entry = msgspec.json.decode(prices[rest])
            if str(entry.get("litellm_provider")).startswith(vendor):
                yield entry
        rest = rest.partition("/")[2]


def listed_models(vendor: str) -> list[str]:
    """Return the models of one of `VENDORS` in our price list, with the vendor's name first: `openai/gpt-4o`.

    Fine-tuned models, and models of other vendors that this one serves, are left out.
    """
    entries = ((name, msgspec.json.decode(entry)) for name, entry in _own_list().items())
    names = (name.removeprefix(f"{vendor}/") for name, entry in entries if entry.get("litellm_provider") == vendor)
    return sorted({f"{vendor}/{name}" for name in names if not set(name) & {"/", ":"}})


@lru_cache(maxsize=1)
def _own_list() -> Mapping[str, msgspec.Raw]:
    """Return our list with undecoded entries."""
    return msgspec.json.decode(OWN.read_bytes(), type=_Extract).prices


class _Extract(msgspec.Struct):
    """Content of `prices.json`."""

    litellm: str
    """The litellm release from which it was taken."""
    prices: dict[str, msgspec.Raw]


@lru_cache(maxsize=1)
def _litellm_list() -> Mapping[str, msgspec.Raw]:
    """Return the list in litellm's package with undecoded entries; empty if litellm is not installed."""
    found = find_spec("litellm")  # does not import litellm
    if found is None or found.origin is None:
        return {}
    try:
        return msgspec.json.decode((Path(found.origin).parent / FILE).read_bytes(), type=dict[str, msgspec.Raw])
    except (OSError, msgspec.DecodeError):
        return {}


def read_price(entry: Mapping[str, Any]) -> Price | None:
    """Return the price in an entry of litellm's list; None if it has none or is 0."""
    tiers = entry.get("tiered_pricing")
    if tiers:
        prices = {int(tier["range"][0]): _read_plain(tier) for tier in tiers if "range" in tier}
        base, above = prices.pop(0, None), prices
    else:
        found = [match for match in map(_TIER.fullmatch, entry) if match]
        base, above = _read_plain(entry), {int(match[1]) * 1000: _read_plain(entry, match[0][20:]) for match in found}
    if base is None or not (base.input or base.output):
        return None
    return msgspec.structs.replace(base, above={tokens: tier for tokens, tier in above.items() if tier is not None})


def _read_plain(entry: Mapping[str, Any], tier: str = "") -> Price | None:
    """Return the price without tiers, or of one tier, which keeps the untiered price where it names none."""

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
