"""Deprecated names: a name or keyword that was replaced works for one more release."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import wraps
from importlib import import_module
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def old_name(module: str, name: str, replaced: Mapping[str, str]) -> Any:
    """Return what a deprecated name of a module stands for, and warn. For the `__getattr__` of that module.

    replaced: for each deprecated name, the one that replaces it, with its module: `endstop.RunContext`. Raises
    AttributeError for any other name.
    """
    if name not in replaced:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    home, _, new = replaced[name].rpartition(".")
    _warn(f"{module}.{name}", replaced[name], stacklevel=4)
    return getattr(import_module(home), new)


def renamed_keywords(**renamed: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Let a function take keywords under their old names, too, each with its new name here, and warn."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def call(*args: P.args, **keywords: P.kwargs) -> R:
            for old in renamed.keys() & keywords.keys():
                _warn(f"the argument {old}", renamed[old], stacklevel=3)
                keywords[renamed[old]] = keywords.pop(old)
            return function(*args, **keywords)

        return call

    return decorate


def _warn(old: str, new: str, stacklevel: int) -> None:
    message = f"{old} is deprecated and will be removed in the next release: use {new}"
    warnings.warn(message, DeprecationWarning, stacklevel=stacklevel)
