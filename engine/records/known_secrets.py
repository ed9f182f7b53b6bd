"""`KnownSecrets`: hides texts that are known to be secret, as the key is that stands in a header of a request.

What a redaction finds by its form (`redaction.py`) is found here because it is known, whatever its form is: as it
stands, written with the escapes of JSON, URLs or HTML, or only its beginning where a text was cut in its middle.
"""

from __future__ import annotations

import os
import re
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from hashlib import blake2b

from ..providers.endpoint_url import split_credentials
from .format import REDACTION_MARK

SHORTEST = 8
"""Characters of the shortest secret that is hidden: less would hide ordinary words."""
CERTAIN = 16
"""Characters from which a text is hidden whatever it consists of, and with which it is known by its beginning."""
MOST_SECRETS = 2_000
"""Secrets that are known at once; beyond that the one that was seen longest ago is forgotten."""
_ESCAPE = re.compile(
    r"\\{1,8}(?:u00(?P<u>[0-9A-Fa-f]{2})|x(?P<x>[0-9A-Fa-f]{2})|(?P<plain>[^\w\s\\]))"
    r"|%(?P<percent>[0-9A-Fa-f]{2})|&#(?:[xX](?P<hex>[0-9A-Fa-f]{2})|(?P<decimal>[0-9]{2,3}));"
)
"""A character as JSON, URLs and HTML may write it."""

_NAMES = re.compile(r"(?:auth|authorization|key|token|secret|password|passwd|credentials?)\Z", re.IGNORECASE)


class KnownSecrets:
    """A function that returns a text with the known secrets replaced.

    secrets: those that are known from the start. Each becomes a mark such as `[redacted:known:3f9a1c]`; equal secrets
    have equal marks, in this process. What is too short, or might be an ordinary word, is not hidden (`is_telling`).
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._key = os.urandom(32)
        self._marks: OrderedDict[str, str] = OrderedDict()
        """The mark of each secret; the one that was seen last is at the end."""
        self._needles: dict[str, str] = {}
        """How each secret begins, without backslashes."""
        for secret in secrets:
            self.add(secret)

    def add(self, secret: str) -> None:
        """Hide this text from now on, if it is telling."""
        if secret in self._marks:
            self._marks.move_to_end(secret)
        elif is_telling(secret):
            digest = blake2b(secret.encode("utf-8", "surrogatepass"), key=self._key, digest_size=3)
            self._marks[secret] = f"{REDACTION_MARK}known:{digest.hexdigest()}]"
            self._needles[secret] = secret[:CERTAIN].replace("\\", "")
            if len(self._marks) > MOST_SECRETS:
                del self._needles[self._marks.popitem(last=False)[0]]

    def occur_in(self, text: str) -> bool:
        """Whether something in the text may be replaced. It costs little, also where the text is long."""
        plain = text.replace("\\", "") if "\\" in text else text
        if any(needle in plain for needle in self._needles.values()):
            return True
        if "%" not in text and "&#" not in text and "\\u00" not in text and "\\x" not in text:
            return False
        plain = _ESCAPE.sub(_character, text)
        return any(needle in plain for needle in self._needles.values())

    def __call__(self, text: str) -> str:
        """The text with its secrets replaced."""
        if not self.occur_in(text):
            return text
        for secret, mark in self._marks.items():
            if secret in text:
                text = text.replace(secret, mark)
        for secret, mark in self._marks.items():
            if secret[:CERTAIN] in text and len(secret) > CERTAIN:
                text = _without_beginnings(text, secret, mark)
        if "\\" in text or "%" in text or "&#" in text:
            plain = _ESCAPE.sub(_character, text)
            if any(secret in plain for secret in self._marks):
                text = self._without_escaped(text, plain)
        return text

    def _without_escaped(self, text: str, plain: str) -> str:
        """The text without secrets that are written with escapes. plain: the text with its escapes read."""
        found = [
            (place.start(), place.end(), mark)
            for secret, mark in self._marks.items()
            for place in re.finditer(re.escape(secret), plain)
        ]
        ends = _ends_of_characters(text)
        parts: list[str] = []
        done = 0
        for begin, end, mark in sorted(found):
            first = ends[begin - 1] if begin else 0
            if first >= done:
                parts += [text[done:first], mark]
            done = max(done, ends[end - 1])
        return "".join([*parts, text[done:]])


def is_telling(secret: str) -> bool:
    """Whether a text can be hidden without hiding ordinary words and numbers.

    It can from 16 characters on, and from 8 on if it has both letters and digits: `x`, `dummy` and `sk-local` stay.
    """
    if len(secret) >= CERTAIN:
        return True
    return len(secret) >= SHORTEST and any(map(str.isdigit, secret)) and any(map(str.isalpha, secret))


@lru_cache(maxsize=1_000)
def names_secret(name: str) -> bool:
    """Whether a header, a parameter or a variable of this name holds a secret, such as `x-api-key`."""
    return _NAMES.search(name) is not None


def environment_secrets(environment: Mapping[str, str]) -> Iterator[str]:
    """The secrets in variables: keys and tokens by their names, and the passwords in URLs."""
    for name, value in environment.items():
        if names_secret(name) and not value.startswith(("/", "~", ".")):  # or it is the path of a file
            yield value.strip()
        elif "://" in value:
            yield split_credentials(value)[1].partition(":")[2]


def _without_beginnings(text: str, secret: str, mark: str) -> str:
    """The text without what begins like the secret, up to where it goes on otherwise."""
    parts: list[str] = []
    done, at = 0, text.find(secret[:CERTAIN])
    while at >= 0:
        end = at + CERTAIN
        while end - at < len(secret) and text[end : end + 1] == secret[end - at]:
            end += 1
        parts += [text[done:at], mark]
        done, at = end, text.find(secret[:CERTAIN], end)
    return "".join([*parts, text[done:]])


def _ends_of_characters(text: str) -> list[int]:
    """Where each character ends in a text, if an escape is one character."""
    ends: list[int] = []
    done = 0
    for found in _ESCAPE.finditer(text):
        ends += [*range(done + 1, found.start() + 1), found.end()]
        done = found.end()
    return [*ends, *range(done + 1, len(text) + 1)]


def _character(escape: re.Match[str]) -> str:
    if escape["plain"]:
        return escape["plain"]
    if escape["decimal"]:
        return chr(int(escape["decimal"]))
    return chr(int(escape["u"] or escape["x"] or escape["percent"] or escape["hex"], 16))
