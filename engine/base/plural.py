"""Numbers with the words that follow them, in the singular or the plural. Imports nothing."""

from __future__ import annotations

import re

_CHOICE = re.compile(r"\((s|es|[\w' ]+\|[\w' ]+)\)")


def counted(number: int, thing: str) -> str:
    """Return a number with what it counts, as in `1 step` or `2 steps`.

    thing: the singular; or a longer text in which `(s)`, `(es)` and `(singular|plural)` mark what depends on the
    number, as in `call(s) without an id: (it was|they were) numbered`.
    """
    return f"{number:,} {inflected(number, thing)}"


def inflected(number: int, thing: str) -> str:
    """Return the words of `counted` without the number."""
    if "(" not in thing:
        return thing if number == 1 else f"{thing}s"
    return _CHOICE.sub(lambda choice: _chosen(choice[1], number), thing)


def _chosen(choice: str, number: int) -> str:
    singular, _, plural = choice.rpartition("|")
    return singular if number == 1 else plural
