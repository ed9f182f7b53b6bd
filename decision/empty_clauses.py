"""Clauses without substance: the description of a language for `echoes.py`, which explains their purpose.

The descriptions are in `echoes.toml`. A language is compiled when the first clause asks for it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property

from .chinese_script import simplified
from .deferred_patterns import deferred
from .word_tables import expression

_CONDITION = deferred(
    r"\b(?:if|when|whenever|unless|once|si|cuando|quand|lorsque|sauf|sinon|wenn|falls|sofern|quando|если|когда|"
    r"se (?=non|nec|ser|for|ric|occ|pre))\b"
)
"""Start of the rest of a clause that says on what condition something will be done."""


class Language:
    """What is empty in a language. Expressions are matched against folded texts: lower case, simplified characters.

    letters: a clause of this language has no other characters; a class of a regular expression, without its brackets
    assent: words that may come before a phrase; after the last phrase they are the answer
    polite: words without substance, allowed anywhere
    substance: what no empty clause has after its beginning
    spaced: whether words are separated by spaces, so that expressions match whole words
    capitals: whether a capital letter within a sentence means a name
    clauses: kinds of empty clauses: how they begin, and what must be found in them; anything, without `about`
    """

    def __init__(
        self,
        *,
        letters: str,
        assent: str,
        polite: str,
        substance: str,
        clauses: Sequence[Mapping[str, str]] = (),
        spaced: bool = True,
        capitals: bool = True,
    ) -> None:
        self.assent = expression(assent)
        self.polite = expression(polite)
        self._letters = letters
        self._clauses = clauses
        self._substance = substance
        self._spaced = spaced
        self._capitals = capitals

    def says_nothing(self, clause: str, places: list[int], names: frozenset[str]) -> bool:
        """Return whether a clause, from one of these positions on, is of one of the kinds and without substance."""
        if not self._alphabet.fullmatch(clause):
            return False
        if self._capitals and not names.isdisjoint(clause.split()):
            return False
        return any(self._is_one(begins, about, clause, at) for at in places for begins, about in self._pairs)

    def _is_one(self, begins: re.Pattern[str], about: re.Pattern[str], clause: str, at: int) -> bool:
        beginning = begins.match(clause, at)
        if beginning is None or not about.search(clause, at):
            return False
        condition = _CONDITION.search(clause, at)
        return not self._veto.search(clause, beginning.end(), condition.start() if condition else len(clause))

    @cached_property
    def _alphabet(self) -> re.Pattern[str]:
        return re.compile(rf"(?:[{self._letters}\s'-]|json|markdown|ai)+")

    @cached_property
    def _pairs(self) -> tuple[tuple[re.Pattern[str], re.Pattern[str]], ...]:
        return tuple((self._whole(one["begins"]), self._whole(one.get("about", ""), ends="")) for one in self._clauses)

    @cached_property
    def _veto(self) -> re.Pattern[str]:
        return self._whole(self._substance)

    def _whole(self, lines: str, ends: str = r"\b") -> re.Pattern[str]:
        """Return an expression that matches whole words, if the language writes spaces."""
        written = simplified(f"(?:{expression(lines)})")
        return re.compile(rf"\b{written}{ends}" if self._spaced else written)
