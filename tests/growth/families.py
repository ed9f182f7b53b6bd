"""Texts that may be slow for a regular expression, made of its own literals, classes, repeats and beginnings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice, product
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any, NamedTuple

_SIGNS = tuple("a0A _\n-./:\"'\\<>(){}[],;=!?$#`*|&%@+~^\té中か。")
"""Characters that are tried for a class, beside those that the expression names."""
_REPEATS = (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT)
_SINGLE = (sre.LITERAL, sre.NOT_LITERAL, sre.ANY, sre.IN)
_LONG = 20
"""Most times of a repeat that is no run."""
_NAMED = 100
"""Characters of an expression that are tried for its classes; some expressions name thousands."""
_MOST_RUNS = 2_000
_PAIRED = 12
"""Pieces that are tried in pairs."""


class Family(NamedTuple):
    """Texts of any length: `begins` once, then `piece` again and again, then `ends` once."""

    begins: str
    piece: str
    ends: str = ""

    def text(self, length: int) -> str:
        """The text with about so many characters."""
        return self.begins + self.piece * max(1, (length - len(self.begins)) // len(self.piece)) + self.ends


def families_of(pattern: re.Pattern[Any]) -> list[Family]:
    """The families of a pattern, each once. A pattern for bytes has those of Latin-1."""
    return _Pieces(pattern).families()


class _Pieces:
    def __init__(self, pattern: re.Pattern[Any]) -> None:
        written = pattern.pattern
        self._bytes = isinstance(written, bytes)
        self._tree = _parser.parse(
            written.decode("latin-1") if isinstance(written, bytes) else written,
            pattern.flags & ~re.UNICODE if self._bytes else pattern.flags,
        )
        self._groups: dict[int | None, str] = {}
        self._signs = tuple(dict.fromkeys((*_SIGNS, *islice(self._named(self._tree), _NAMED))))

    def families(self) -> list[Family]:
        found: dict[Family, None] = {}

        def add(begins: str, piece: str, ends: str = "") -> None:
            if piece and not (self._bytes and max(map(ord, begins + piece)) > 255):
                found.setdefault(Family(begins, piece, ends))

        for begins, piece in islice(self._runs(self._tree, ""), _MOST_RUNS):
            add(begins, piece)
            add(begins, piece, "\x01")
            add("", piece)
            add("", begins + piece)
            add("", begins)
        for variant in range(4):
            whole = ""
            for node in self._tree:
                whole += self._sample_of(*node, variant)
                add("", whole)
        pieces = list(filter(None, dict.fromkeys(self._literals(self._tree))))
        for piece in pieces:
            add("", piece)
        for one, other in product(pieces[:_PAIRED], repeat=2):
            if one != other:
                add("", one + other)
                add(one, other)
        return list(found)

    def _named(self, tree: Any) -> Iterator[str]:
        """The characters that the expression names."""
        for op, value in tree:
            if op in (sre.LITERAL, sre.NOT_LITERAL):
                yield chr(value)
            elif op is sre.IN:
                yield from (
                    chr(one if kind is sre.LITERAL else one[0])
                    for kind, one in value
                    if kind in (sre.LITERAL, sre.RANGE)
                )
            for part in _parts(op, value):
                yield from self._named(part)

    def _accepted(self, op: Any, value: Any) -> list[str]:
        """The characters that a single element accepts."""
        if op is sre.LITERAL:
            return [chr(value)]
        return [sign for sign in self._signs if _accepts(op, value, sign)]

    def _sample(self, tree: Any, variant: int) -> str:
        return "".join(self._sample_of(op, value, variant) for op, value in tree)

    def _sample_of(self, op: Any, value: Any, variant: int) -> str:
        """A text that this element matches, of several variants."""
        if op in _SINGLE:
            accepted = self._accepted(op, value)
            return accepted[variant % len(accepted)] if accepted else ""
        if op in _REPEATS:
            least, most, part = value
            return self._sample(part, variant) * min(max(least, min(most, 1 - variant % 2)), 50)
        if op is sre.BRANCH:
            return self._sample(value[1][variant % len(value[1])], variant)
        if op is sre.SUBPATTERN:
            self._groups[value[0]] = self._sample(value[3], variant)
            return self._groups[value[0]]
        if op is sre.ATOMIC_GROUP:
            return self._sample(value, variant)
        return self._groups.get(value, "") if op is sre.GROUPREF else ""

    def _runs(self, tree: Any, begins: str) -> Iterator[tuple[str, str]]:
        """What comes before each run, at any depth, and what it may consist of."""
        for op, value in tree:
            if op in _REPEATS and value[1] > _LONG:
                part = value[2]
                single = len(part) == 1 and part[0][0] in _SINGLE
                pieces = self._accepted(*part[0]) if single else [self._sample(part, variant) for variant in range(6)]
                yield from ((begins, piece) for piece in pieces)
            for part in _parts(op, value):
                yield from self._runs(part, begins)
            begins += self._sample_of(op, value, 0)

    def _literals(self, tree: Any) -> Iterator[str]:
        """The literals, and single characters for the classes."""
        literal = ""
        for op, value in tree:
            if op is sre.LITERAL:
                literal += chr(value)
                continue
            yield literal
            literal = ""
            if op in _SINGLE:
                yield from self._accepted(op, value)[:3]
            for part in _parts(op, value):
                yield from self._literals(part)
        yield literal


def _parts(op: Any, value: Any) -> list[Any]:
    """The expressions within an element."""
    if op in _REPEATS:
        return [value[2]]
    if op is sre.BRANCH:
        return list(value[1])
    if op is sre.SUBPATTERN:
        return [value[3]]
    if op is sre.ATOMIC_GROUP:
        return [value]
    if op in (sre.ASSERT, sre.ASSERT_NOT):
        return [value[1]]
    return [part for part in value[1:] if part] if op is sre.GROUPREF_EXISTS else []


def _accepts(op: Any, value: Any, sign: str) -> bool:
    """Whether a single element that is no literal accepts a character."""
    if op is sre.ANY:
        return sign != "\n"
    if op is sre.NOT_LITERAL:
        return ord(sign) != value
    accepted = any(_is_in(kind, one, sign) for kind, one in value)
    return accepted != (value[0][0] is sre.NEGATE)


def _is_in(kind: Any, value: Any, sign: str) -> bool:
    if kind is sre.LITERAL:
        return ord(sign) == value
    if kind is sre.RANGE:
        return bool(value[0] <= ord(sign) <= value[1])
    if kind is not sre.CATEGORY:
        return False
    name = str(value)
    inside = sign.isdigit() if "DIGIT" in name else sign.isspace() if "SPACE" in name else sign.isalnum() or sign == "_"
    return inside != ("NOT" in name)
