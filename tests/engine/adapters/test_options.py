"""The options that the adapters of all frameworks take."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

import pytest
from endstop import Limits, Policy, WrongUse

from .frameworks import FRAMEWORKS, skip_without


@pytest.mark.parametrize("module", FRAMEWORKS)
@pytest.mark.parametrize(("policy", "steps"), [("agent", None), (Policy(limits=Limits(steps=30)), 30)])
def test_a_limit_of_steps_is_the_users_or_none(module: str, policy: Any, steps: int | None) -> None:
    skip_without(module)
    assert import_module(f"endstop.adapters.{module}").Endstop(policy=policy).runs.policy.limits.steps == steps


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
