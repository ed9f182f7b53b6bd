"""Search of a text for any of many phrases (regular expressions), much faster than with one expression for all of them.

Nearly every phrase has words that each of its matches contains (`please`, or one of `tell`, `give` and `send`), and a
text without them need not be searched. Those words are derived from the expression and looked up by their first three
characters, which costs a hundredth of trying the expression at every character. The matches are the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property, lru_cache
from typing import NamedTuple

from .deferred_patterns import deferred

_TOKEN = deferred(r"\\.|\[\^?\]?[^\]\\]*+(?:\\.[^\]\\]*+)*+(?:\]|\\?\Z)|\(\?(?:[:=!]|<[=!])|.", re.DOTALL)
_QUANTIFIER = deferred(r"(?:[*+?]|\{(\d*)(?:,\d*)?\})[?+]?")

Words = frozenset[str]
"""Words of which each match of an expression contains at least one; empty if none are known."""

_ByWord = list[tuple[str, list[int]]]
_BEGINNING = 3
"""Number of characters by which a word is looked up."""


class _Words(NamedTuple):
    """Words of phrases, each with the numbers of its phrases."""

    short: _ByWord
    """ASCII words that are shorter than `_BEGINNING`."""
    short_others: _ByWord
    """Other words that are shorter."""
    by_beginning: dict[str, _ByWord]
    beginnings: frozenset[str]
    always: list[int]
    """Phrases that have no words and are always searched for."""


@lru_cache(maxsize=64)  # a sentence is searched for many kinds of phrases
def _threes(text: str) -> frozenset[str]:
    """Return all runs of `_BEGINNING` characters."""
    return frozenset(map("".join, zip(text, text[1:], text[2:], strict=False)))


class Phrases:
    """Finds the first of many phrases in a text.

    expression: the phrases, joined by `|`. It may contain groups, classes and lookarounds, but no flags, names of
    groups or references to them. It is compiled when a text has the words of a phrase for the first time.
    """

    def __init__(self, expression: str) -> None:
        self._expression = expression

    def may_be_in(self, text: str) -> bool:
        """Return whether a text has the words of a phrase. Faster than `find`, for a text that is analysed further."""
        short, short_others, by_beginning, _, always = self._words
        words = short if text.isascii() else (*short, *short_others)
        if always or any(word in text for word, _ in words):
            return True
        found = (by_beginning[beginning] for beginning in self._words.beginnings if beginning in text)
        return any(word in text for words in found for word, _ in words)

    def find(self, text: str) -> int:
        """Return the index at which the first phrase in a text begins; -1 if there is none."""
        first = -1
        for number in {*self._words.always, *self._found(text)}:
            match = self._pattern(number).search(text)
            if match is not None and not 0 <= first <= match.start():
                first = match.start()
        return first

    def _found(self, text: str) -> Iterator[int]:
        """Yield the numbers of the phrases of which the text has a word."""
        short, short_others, by_beginning, beginnings, _ = self._words
        for word, numbers in short if text.isascii() else (*short, *short_others):
            if word in text:
                yield from numbers
        for beginning in beginnings & _threes(text):
            for word, numbers in by_beginning[beginning]:
                if word in text:
                    yield from numbers

    @cached_property
    def _words(self) -> _Words:
        by_word: dict[str, list[int]] = {}
        always = []
        for number, phrase in enumerate(self._phrases):
            words = needed_words(phrase)
            for word in words:
                by_word.setdefault(word, []).append(number)
            if not words:
                always.append(number)
        by_beginning: dict[str, _ByWord] = {}
        for word, numbers in by_word.items():
            by_beginning.setdefault(word[:_BEGINNING], []).append((word, numbers))
        short = [one for beginning, found in by_beginning.items() if len(beginning) < _BEGINNING for one in found]
        latin = [one for one in short if one[0].isascii()]
        others = [one for one in short if not one[0].isascii()]
        beginnings = frozenset(one for one in by_beginning if len(one) == _BEGINNING)
        return _Words(latin, others, by_beginning, beginnings, always)

    @cached_property
    def _phrases(self) -> list[str]:
        return split_alternatives(self._expression)

    @cached_property
    def _patterns(self) -> dict[int, re.Pattern[str]]:
        return {}

    def _pattern(self, number: int) -> re.Pattern[str]:
        pattern = self._patterns.get(number)
        if pattern is None:
            pattern = self._patterns[number] = re.compile(self._phrases[number])
        return pattern


def split_alternatives(expression: str) -> list[str]:
    """Return the alternatives of an expression, without those inside its groups."""
    found, start, depth = [], 0, 0
    for token in _TOKEN.finditer(expression):
        shown = token[0]
        if shown[0] == "(":
            depth += 1
        elif shown == ")":
            depth -= 1
        elif shown == "|" and depth == 0:
            found.append(expression[start : token.start()])
            start = token.end()
    return [*found, expression[start:]]


def needed_words(phrase: str) -> Words:
    """Return words of which each match of a phrase (an expression without alternatives) contains at least one.

    Of several such sets, the one that is probably the rarest is returned.
    """
    sets: list[Words] = []
    run, at = "", 0
    while at < len(phrase):
        token = _TOKEN.match(phrase, at)
        assert token is not None
        shown, at = token[0], token.end()
        inside: Words = frozenset()
        if shown[0] == "(":
            end = _end_of_group(phrase, at)
            if shown in ("(", "(?:"):
                inside = _words_of_all(split_alternatives(phrase[at : end - 1]))
            at = end
        quantifier = _QUANTIFIER.match(phrase, at)
        at = at if quantifier is None else quantifier.end()
        optional = quantifier is not None and (quantifier[0][0] in "?*" or quantifier[1] in ("", "0"))
        letter = _letter(shown)
        if letter and not optional:
            run += letter
        if not letter or quantifier is not None:
            sets.append(frozenset({run}))
            run = ""
        if not optional:
            sets.append(inside)
    sets.append(frozenset({run}))
    return max((words - {""} for words in sets), key=_rarity, default=frozenset())


def _words_of_all(alternatives: list[str]) -> Words:
    """Return words of which each match of any alternative contains one; none if they are unknown for an alternative."""
    found = [needed_words(one) for one in alternatives]
    return frozenset().union(*found) if all(found) else frozenset()


def _end_of_group(phrase: str, at: int) -> int:
    """Return the index at which the group ends whose inside begins here."""
    depth = 1
    while depth:
        token = _TOKEN.match(phrase, at)
        assert token is not None, "a group without an end"
        depth += (token[0][0] == "(") - (token[0] == ")")
        at = token.end()
    return at


def _letter(token: str) -> str:
    """Return the character that a token matches; empty if it matches none, or several."""
    if token[0] == "\\":
        return token[1] if not token[1].isalnum() else ""
    return "" if token[0] in "[(.^$" else token


def _rarity(words: Words) -> float:
    """Return how rarely a text has one of these words: longer words and those of other scripts are rarer."""
    if not words:
        return 0
    return min(sum(1 if letter.isascii() else 3 for letter in word) for word in words) - len(words) / 100
