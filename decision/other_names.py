"""Names that other libraries and programs have for what endstop has, or has not."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from .word_tables import word_tables


def other_name(owner: str, given: str) -> str:
    """Return what `owner` has for a name of another library, to follow a message; empty if the table lacks it.

    owner: a key of the table `other_names.toml`, such as `Limits`, `Engine.run`, `Outcome.` or `use of Run`.
    """
    entry = _by_owner().get(owner, {}).get(given)
    if entry is None:
        return ""
    return f": write {entry}" if entry.startswith("`") else f": {entry}"


@cache
def _by_owner() -> Mapping[str, Mapping[str, str]]:
    tables: dict[str, dict[str, str]] = {}
    for owners, names in word_tables("other_names").items():
        for owner in owners.split(", "):
            tables.setdefault(owner, {}).update(names)
    return tables
