"""Former home of `endstop.analysis.policy_simulation`; its names can be imported from here for one more release."""

from importlib import import_module
from typing import Any
from warnings import warn


def __getattr__(name: str) -> Any:
    """Import a name from its new home, and warn with the new name."""
    place = "endstop.analysis.policy_simulation"
    if name.startswith("__") or not hasattr(module := import_module(place), name):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warn(f"endstop.decision.backtest is now {place}: import {name} from there", DeprecationWarning, stacklevel=2)
    return getattr(module, name)
