"""Options of an engine written flat, for tests that take them from a table, put into the groups of `endstop.config`."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from endstop.config import GROUPS

GROUP_OF = {setting.name: parameter for parameter, group in GROUPS.items() for setting in fields(group)}
"""The parameter of `Engine` that holds the group of a setting."""


def grouped(**options: Any) -> dict[str, Any]:
    """The keywords for `Engine`: what belongs to no group stays as it is."""
    keywords = {name: value for name, value in options.items() if name not in GROUP_OF}
    for parameter, group in GROUPS.items():
        inside = {name: value for name, value in options.items() if GROUP_OF.get(name) == parameter}
        if inside:
            assert parameter not in keywords, f"{parameter} is given whole and in parts: {sorted(inside)}"
            keywords[parameter] = group(**inside)
    return keywords
