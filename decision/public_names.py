"""Names of a package that are imported on first use, and deprecated names, which work for one more release."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from importlib import import_module
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any, ParamSpec, TypeVar

from .errors import WrongAttribute, WrongName, similar
from .other_names import other_name

P = ParamSpec("P")
R = TypeVar("R")

PACKAGES = (
    "endstop",
    *(f"endstop.{name}" for name in ("decision", "providers", "tools", "observers", "follow", "testing")),
)
"""Public packages. If a name is looked up in the wrong one, the error says which of these has it."""


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
            raise _unknown(package, name, home_of.keys() | set(namespace["__all__"]))
        home, _, new = old[name].rpartition(".")
        _warn(f"{package}.{name}", old[name], stacklevel=3)
        return getattr(import_module(home), new)

    def names() -> list[str]:
        return list(namespace["__all__"])

    return get, names


def _unknown(package: str, name: str, known: Iterable[str]) -> Exception:
    """Return the error for a name that a package does not have.

    `from ... import ...` says nothing of an AttributeError, so it gets an ImportError, unless a module is wanted.
    """
    if name.startswith("_"):
        return AttributeError(f"module {package!r} has no attribute {name!r}")
    if find_spec(f"{package}.{name}") is not None:
        return WrongAttribute(f"{package}.{name} is not imported: write `import {package}.{name}`", name)
    text = f"{package} has no {name!r}{other_name(package, name) or _home(name) or similar(name, known)}"
    return WrongName(text) if _asked_by_import() else WrongAttribute(text, name)


def _home(name: str) -> str:
    """Return which package has a public name; empty if none has it."""
    for package in PACKAGES:
        if name in import_module(package).__all__:
            return f": it is in {package}: write `from {package} import {name}`"
    return ""


def _asked_by_import() -> bool:
    """Return whether `from ... import ...` asks a package for a name."""
    frame = inspect.currentframe()
    for _ in range(4):  # this function, `_unknown`, `__getattr__`, and what has asked
        if frame is None:
            return False
        asks = frame.f_code.co_name
        frame = frame.f_back
    return asks == "_handle_fromlist"


def renamed_keywords(**renamed: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Let a function also accept keywords under their old names, each mapped to its new name here, and warn."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def call(*args: P.args, **keywords: P.kwargs) -> R:
            for old in renamed.keys() & keywords.keys():
                _warn(f"the argument {old}", renamed[old], stacklevel=4)  # `checked` calls the constructor
                keywords[renamed[old]] = keywords.pop(old)
            return function(*args, **keywords)

        return call

    return decorate


def _warn(old: str, new: str, stacklevel: int) -> None:
    message = f"{old} is deprecated and will be removed in the next release: use {new}"
    warnings.warn(message, DeprecationWarning, stacklevel=stacklevel)
