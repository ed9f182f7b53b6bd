"""The list of prices that comes with endstop beside litellm's, of which it is an extract."""

from __future__ import annotations

from importlib.metadata import version

import pytest
from endstop.providers import prices

from . import scripts

PRICE_LIST = scripts.load(scripts.DOCS / "price_list.py")


def test_our_list_is_what_the_pinned_litellm_says() -> None:
    written = PRICE_LIST.own_list(PRICE_LIST.litellms_list(), version("litellm"))
    assert PRICE_LIST.PLACE.read_text("utf-8") == written, "make prices"


def test_no_model_costs_anything_else_because_of_our_list(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = PRICE_LIST.litellms_list()
    names = {*entries, *(f"{entry.get('litellm_provider')}/{name}" for name, entry in entries.items())}
    names |= {
        f"{route}/{name}" for name in entries for route in ("azure", "bedrock/converse", "openrouter", "vertex_ai")
    }
    look_up = prices._list_price.__wrapped__
    here = {name: look_up(name) for name in names}
    monkeypatch.setattr(prices, "_own_list", dict)
    assert {name: look_up(name) for name in names} == here
