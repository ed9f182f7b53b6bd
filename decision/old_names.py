"""Deprecated names: a name that was replaced works for one more release."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from importlib import import_module
from typing import Any


def old_name(module: str, name: str, replaced: Mapping[str, str]) -> Any:
    """Return what a deprecated name of a module stands for, and warn. For the `__getattr__` of that module.

    replaced: for each deprecated name, the one that replaces it, with its module: `endstop.RunContext`. Raises
    AttributeError for any other name.
    """
    if name not in replaced:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    home, _, new = replaced[name].rpartition(".")
    warnings.warn(
        f"{module}.{name} is deprecated and will be removed in the next release: use {replaced[name]}",
        DeprecationWarning,
        stacklevel=3,
    )
    return getattr(import_module(home), new)
