"""Whether a text looks random."""

from __future__ import annotations

import math
import re
from collections import Counter
from itertools import pairwise


def entropy(text: str) -> float:
    """Bits a character (Shannon), by how often each stands in it."""
    return -sum(times / len(text) * math.log2(times / len(text)) for times in Counter(text).values()) if text else 0.0


_WORDS = re.compile(r"[A-Za-z]?[a-z]{3,}|[A-Z]{4,}")


def looks_random(text: str) -> bool:
    """Whether it was probably drawn and not written: digits and letters in turns, or capitals without a rule.

    Identifiers, paths, words with numbers and plain numbers do not.
    """
    kinds = ["d" if c.isdigit() else "u" if c.isupper() else "l" for c in text if c.isalnum() and c.isascii()]
    if len(kinds) < 8:
        return False
    turns = sum(one != other for one, other in pairwise(kinds)) / (len(kinds) - 1)
    worded = sum(len(word) for word in _WORDS.findall(text)) / len(kinds)
    if "d" in kinds and kinds.count("d") < len(kinds):
        return turns >= 0.2 and worded < 0.6
    return "u" in kinds and "l" in kinds and turns >= 0.35 and worded < 0.4


def looks_generated(value: str) -> bool:
    """Whether a value looks random, or is no word at least: small and capital letters and digits together."""
    mixed = any(map(str.islower, value)) and any(map(str.isupper, value)) and any(map(str.isdigit, value))
    return looks_random(value) or (mixed and len(value) >= 8)


def has_many_humps(value: str) -> bool:
    """Whether small and capital letters change more often than in a name like `parseNextLine`."""
    humps = _CAMEL_HUMPS.findall(value)
    return len(value) >= 10 and value.isalpha() and len(humps) >= 4 and len(value) / len(humps) <= 3.5


_CAMEL_HUMPS = re.compile(r"[A-Z]+[a-z]*|[a-z]+")
