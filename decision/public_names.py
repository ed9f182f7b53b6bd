"""Names of a package that are imported on first use, and deprecated names, which work for one more release."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import wraps
from importlib import import_module
from types import MappingProxyType
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def lazy_names(
    namespace: dict[str, Any], homes: Mapping[str, str], old: Mapping[str, str] = MappingProxyType({})
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` for a package that imports its names when they are first used.

    namespace: `globals()` of the package. homes: for each module of the package, its public names, separated by spaces.
    old: for each deprecated name, the one that replaces it, with its module: `endstop.RunContext`.
    """
    package = namespace["__name__"]
    home_of = {name: module for module, names in homes.items() for name in names.split()}

    def get(name: str) -> Any:
        if name in home_of:
            value = namespace[name] = getattr(import_module(f".{home_of[name]}", package), name)
            return value
        if name not in old:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home, _, new = old[name].rpartition(".")
        _warn(f"{package}.{name}", old[name], stacklevel=3)
        return getattr(import_module(home), new)

    def names() -> list[str]:
        return list(namespace["__all__"])

    return get, names


def renamed_keywords(**renamed: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Let a function also accept keywords under their old names, each mapped to its new name here, and warn."""

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
