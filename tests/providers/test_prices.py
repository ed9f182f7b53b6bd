"""Which model has which price."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
from endstop.decision import Price, Usage
from endstop.providers import Anthropic, Chaos, Gemini, LiteLLM, OpenAICompatible, OpenAIResponses, Prices, Scripted
from endstop.providers import prices as module
from endstop.providers.prices import _TELLING as TELLING

HAIKU = Price(input=1.0, output=5.0, cached=0.1)


@pytest.mark.parametrize("name", ["claude-haiku-4-5", "anthropic/claude-haiku-4-5"])
def test_a_model_is_found_by_its_bare_name_and_by_litellms(name: str) -> None:
    assert Prices().price(name) == HAIKU


@pytest.mark.parametrize(
    "name",
    [
        "gpt-4o",
        "openai/gpt-4o",
        "azure/gpt-4o",
        "gemini/gemini-2.5-pro",
        "vertex_ai/gemini-2.5-pro",
        "bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0",
        "bedrock/converse/us.anthropic.claude-sonnet-4-5-20250929-v1:0",
        "mistral/mistral-large-latest",
        "deepseek/deepseek-chat",
    ],
)
def test_every_way_to_write_a_vendors_model_has_a_price_with_cached_tokens_cheaper(name: str) -> None:
    price = Prices().price(name)
    assert price is not None
    assert price.cached is not None
    assert 0 < price.cached < price.input < price.output


@pytest.mark.parametrize(
    "name",
    ["qwen", "scripted", "my-model", "ollama/llama3", "openrouter/gpt-4o", "azure/my-deployment", "", "/", "nobody/x"],
)
def test_a_local_or_unknown_model_and_one_of_another_vendor_has_none(name: str) -> None:
    assert Prices().price(name) is None
    assert Prices().cost(Usage(input_tokens=1), name) is None


def test_a_long_context_costs_more_where_the_vendor_says_so() -> None:
    price = Prices().price("gemini/gemini-2.5-pro")
    assert price is not None
    assert price.above[200_000].input > price.input
    assert price.above[200_000].cached == 2 * (price.cached or 0)


def test_prices_that_the_table_holds_as_ranges_are_tiers() -> None:
    price = Prices().price("dashscope/qwen-flash")
    assert price is not None
    assert [tier.input > price.input for tier in price.above.values()] == [True]


def test_your_own_price_wins_over_the_table_and_may_point_into_it() -> None:
    mine = Price(input=1, output=2)
    prices = Prices({"gpt-4o": mine, "my-deployment": "anthropic/claude-haiku-4-5"})
    assert prices.price("gpt-4o") == mine
    assert prices.price("my-deployment") == HAIKU
    assert prices.price("my-deployment", "http://127.0.0.1:8080/v1") == HAIKU
    assert prices.cost(Usage(input_tokens=1_000_000), "gpt-4o") == 1.0
    assert Prices({"gpt-4o": mine}, listed=False).price("claude-haiku-4-5") is None


def test_a_server_of_ones_own_has_no_list_price_unless_one_is_given() -> None:
    own = OpenAICompatible("gpt-4o", "http://127.0.0.1:8080/v1")
    assert Prices().of(own) is None
    assert Prices().of(LiteLLM("anthropic/claude-haiku-4-5", api_base="http://127.0.0.1:1")) is None
    assert Prices().of(LiteLLM("anthropic/claude-haiku-4-5")) == HAIKU
    assert Prices({"gpt-4o": HAIKU}).of(own) == HAIKU


def test_a_vendors_own_address_has_its_list_price_on_the_direct_path_too() -> None:
    direct = OpenAICompatible("gpt-4o", "https://api.openai.com/v1")
    assert Prices().of(direct) == Prices().price("openai/gpt-4o")
    assert Prices().of(Chaos(direct)) == Prices().of(direct), "a wrapper is asked for what it wraps"
    assert Prices().of(Scripted("x", model="gpt-4o")) == Prices().price("gpt-4o")


def test_a_vendors_own_wire_has_its_vendors_price_whether_the_name_says_so_or_not() -> None:
    for wire, name, listed in (
        (Anthropic, "claude-haiku-4-5", "anthropic/claude-haiku-4-5"),
        (OpenAIResponses, "gpt-4o", "openai/gpt-4o"),
        (Gemini, "gemini-3-pro-image", "gemini/gemini-3-pro-image"),  # Vertex AI, which has the bare name, charges more
    ):
        price = Prices().price(listed)
        assert price is not None
        assert Prices().of(wire(name, api_key="k")) == price
        assert Prices().of(Chaos(wire(listed, api_key="k"))) == price
        assert Prices({name: HAIKU}).of(wire(name, api_key="k")) == HAIKU
    assert Prices().price("gemini-3-pro-image") != Prices().price("gemini/gemini-3-pro-image")


def test_a_name_of_one_plain_word_is_nobodys_and_the_lists_agree() -> None:
    plain = {
        name: msgspec.json.decode(line) for name, line in module._litellm_list().items() if not TELLING.search(name)
    }
    served = {name for name, entry in plain.items() if entry.get("mode") == "chat" and module.read_price(entry)}
    assert served <= {"chatdolphin"}, "which has not been served since 2023"
    assert [name for name in module._own_list() if not TELLING.search(name)] == []


def test_the_list_is_there_in_the_installed_litellm_and_can_be_read_line_by_line() -> None:
    entries = map(msgspec.json.decode, module._litellm_list().values())
    priced = [entry for entry in entries if entry.get("mode") == "chat" and module.read_price(entry)]
    assert len(priced) > 2000


def test_every_model_of_our_list_has_a_price() -> None:
    entries = [msgspec.json.decode(line) for line in module._own_list().values()]
    assert len(entries) > 300
    assert all(module.read_price(entry) for entry in entries)
    assert (
        {"anthropic", "gemini", "openai"}
        < {entry["litellm_provider"] for entry in entries}
        < {*module.VENDORS.values()}
    )


@pytest.fixture
def fresh() -> Iterator[None]:
    """The lists as they are read for the first time, before and after the test."""
    for cached in (module._own_list, module._litellm_list, module._list_price):
        cached.cache_clear()
    yield
    for cached in (module._own_list, module._litellm_list, module._list_price):
        cached.cache_clear()


@pytest.mark.usefixtures("fresh")
def test_without_litellm_a_vendors_models_cost_the_same_and_what_needs_litellm_has_no_price(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = ["anthropic/claude-haiku-4-5", "openai/gpt-4o", "gemini/gemini-2.5-pro", "deepseek/deepseek-chat"]
    direct = OpenAICompatible("mistral-large-latest", "https://api.mistral.ai/v1")
    with_it = [*map(Prices().price, names), Prices().of(direct)]
    module._list_price.cache_clear()
    monkeypatch.setattr(module, "_litellm_list", dict)
    assert [*map(Prices().price, names), Prices().of(direct)] == with_it
    assert None not in with_it
    assert Prices().price("bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0") is None


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("content", [None, "", "[]", "{", '{"azure/gpt-4o": {"input_cost_per_token": "dear"}}'])
def test_a_list_that_is_not_there_or_not_as_it_was_gives_no_price(
    content: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if content is not None:
        (tmp_path / module.FILE).write_text(content)
    monkeypatch.setattr(module, "find_spec", lambda name: SimpleNamespace(origin=str(tmp_path / "__init__.py")))
    assert Prices().price("azure/gpt-4o") is None


def test_a_price_takes_neither_the_import_of_litellm_nor_the_network_and_a_plain_name_not_even_a_list() -> None:
    code = """
import socket, sys
def refuse(*a, **k): raise AssertionError("the network was asked")
socket.socket.connect = socket.getaddrinfo = socket.create_connection = refuse
import endstop
from endstop.providers import OpenAICompatible, Prices, prices
def read(): return [f for f in (prices._own_list, prices._litellm_list) if f.cache_info().currsize]
assert not read(), "importing the engine read a list"
assert Prices().price("scripted") is None
assert Prices().of(OpenAICompatible("gpt-4o", "http://127.0.0.1:1/v1")) is None
assert not read(), "read for nothing"
assert Prices().price("gpt-4o") is not None
assert read() == [prices._own_list], "litellm's list is 3 MB"
assert Prices().price("azure/gpt-4o") is not None
assert "litellm" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
