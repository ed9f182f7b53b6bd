"""The options that the adapters of all frameworks take."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

import pytest
from endstop import WrongUse

from .frameworks import FRAMEWORKS, skip_without


@pytest.mark.parametrize("module", FRAMEWORKS)
@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"policy": "agnt"}, "unknown policy 'agnt' (did you mean 'agent'?)"),
        ({"completed": ("done",)}, "unknown option 'completed' (did you mean 'completion'?)"),
    ],
)
def test_what_is_not_known_is_refused_at_once(module: str, options: dict[str, Any], told: str) -> None:
    skip_without(module)
    with pytest.raises(WrongUse, match=re.escape(told)):
        import_module(f"endstop.adapters.{module}").Endstop(**options)
