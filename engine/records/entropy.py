"""Tell randomly generated text, such as a key or a token, from text that a person wrote."""

from __future__ import annotations

import math
import re
from collections import Counter

_WORDS = re.compile(r"[A-Za-z]?[a-z]{3,}|[A-Z]{4,}")
_RUNS = re.compile(r"[a-z]+|[A-Z]+|[0-9]+")
_OTHER = re.compile(r"[^A-Za-z0-9]+")
_DIGITS = re.compile(r"[0-9]")
_CAMEL_HUMPS = re.compile(r"[A-Z]+[a-z]*|[a-z]+")


def entropy(text: str) -> float:
    """The Shannon entropy of the text's characters, in bits per character; 0 for an empty text."""
    return -sum(times / len(text) * math.log2(times / len(text)) for times in Counter(text).values()) if text else 0.0


def looks_random(text: str) -> bool:
    """Whether a text was probably generated: digits and letters alternate, or capitals follow no rule.

    False for identifiers, paths, words with numbers, plain numbers, and anything of fewer than eight ASCII letters and
    digits.
    """
    plain = _OTHER.sub("", text)
    if len(plain) < 8:
        return False
    runs = _RUNS.findall(plain)
    turns = (len(runs) - 1) / (len(plain) - 1)
    worded = sum(map(len, _WORDS.findall(text))) / len(plain)
    if _DIGITS.search(plain) and not plain.isdigit():
        return turns >= 0.2 and worded < 0.6
    return not plain.islower() and not plain.isupper() and turns >= 0.35 and worded < 0.4


def looks_generated(value: str) -> bool:
    """A weaker test than `looks_random`: eight characters that mix small letters, capitals and digits are enough."""
    mixed = any(map(str.islower, value)) and any(map(str.isupper, value)) and any(map(str.isdigit, value))
    return looks_random(value) or (mixed and len(value) >= 8)


def has_many_humps(value: str) -> bool:
    """Whether letters change case more often than in an identifier such as `parseNextLine`."""
    humps = _CAMEL_HUMPS.findall(value)
    return len(value) >= 10 and value.isalpha() and len(humps) >= 4 and len(value) / len(humps) <= 3.5
