"""Writes the list of prices that comes with endstop, `providers/prices.json`, from the one of the installed litellm.

    python docs/price_list.py       (or `make prices`)

It has the models of the vendors that endstop reaches without litellm (`VENDORS` in `providers/prices.py`), and of each
what a price is read from. `constraints.txt` says which litellm that is.
"""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from endstop.providers.prices import FILE, VENDORS, read_price

ROOT = Path(__file__).parent.parent
PLACE = ROOT / "providers" / "prices.json"
READ = re.compile(
    r"litellm_provider|tiered_pricing|input_cost_per_token_cache_hit|output_cost_per_reasoning_token"
    r"|(input_cost_per_token|output_cost_per_token|cache_read_input_token_cost)(_above_\d+k_tokens)?"
)
"""What `read_price` reads of an entry."""


def litellms_list() -> dict[str, dict[str, Any]]:
    """The list of the installed litellm."""
    found = importlib.util.find_spec("litellm")
    if found is None or found.origin is None:
        raise SystemExit('litellm is not installed: pip install "endstop[litellm]"')
    entries: dict[str, dict[str, Any]] = json.loads((Path(found.origin).parent / FILE).read_text("utf-8"))
    return entries


def own_list(entries: Mapping[str, Mapping[str, Any]], release: str) -> str:
    """What stands in `prices.json`: a line for each model, so that a change can be read."""
    lines = [
        f"{json.dumps(name)}: {json.dumps(_extract(entries[name]))}" for name in sorted(entries) if _ours(entries[name])
    ]
    return f'{{"litellm": {json.dumps(release)}, "prices": {{\n' + ",\n".join(lines) + "\n}}\n"


def _ours(entry: Mapping[str, Any]) -> bool:
    return entry.get("litellm_provider") in VENDORS.values() and read_price(entry) is not None


def _extract(entry: Mapping[str, Any]) -> dict[str, Any]:
    extract = {name: value for name, value in entry.items() if READ.fullmatch(name)}
    assert read_price(extract) == read_price(entry)
    return extract


def main() -> None:
    """Write the list."""
    PLACE.write_text(own_list(litellms_list(), version("litellm")), "utf-8")


if __name__ == "__main__":
    main()
