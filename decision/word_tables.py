"""Tables of words by which texts, calls and finish reasons are told apart: a TOML file next to the module that uses it.

A file is read when the first text, call or response needs it, so a run without such a text loads none of its words. The
words of a language or a program can be changed without a change of code.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from functools import cache
from typing import Any


@cache
def word_tables(name: str) -> dict[str, Any]:
    """Return the tables of the file `name`.toml."""
    import tomllib

    data = pkgutil.get_data("endstop.decision", f"{name}.toml")
    assert data is not None
    return tomllib.loads(data.decode())


def expression(lines: str) -> str:
    """Join lines to one regular expression. Each line holds one alternative or, between `|`, several."""
    return "|".join(lines.strip("\n").split("\n"))


def by_word(table: Mapping[str, str]) -> dict[str, Any]:
    """Return the key of each word in a table whose values are words between spaces."""
    return {word: key for key, words in table.items() for word in words.split()}
