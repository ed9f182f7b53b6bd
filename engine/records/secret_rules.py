"""Find secrets that have a known form, such as the keys of a vendor.

`secret_rules.toml` has the forms and their sources.

A key is looked for at the beginnings of long words only, by one pattern of all prefixes; a rule only where one of its
keywords stands. A key whose vendor is unknown is found by its build: a label that says what it is, and a long random
rest.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

from .entropy import entropy, looks_random

Span = tuple[int, int]

LEAST_ENTROPY = 1.5
"""Bits per character of what follows the prefix of a key, if its form does not say more: `sk-xxxxxxxx` is none."""
LEAST_ENTROPY_OF_LETTERS = 3.0
"""The same, of what has capitals and no digit. What has small letters only is no key."""
JUDGED_CHARS = 100
"""How many characters of a run decide whether it is a key."""
_LONG_WORD = re.compile(r"(?<![A-Za-z0-9_.~+/$:|!&\[-])[A-Za-z0-9_.~+/$:|!&\[-]{18,}+")
"""A word in which a key may begin. Keys with other characters begin with enough of these."""
_DIGIT = re.compile("[0-9]")
_WORD_START = re.compile(r"(?:(?<![A-Za-z0-9])|(?<=\\[nrtbf]))")
_LONG_RUN = re.compile(r"(?<![A-Za-z0-9_-])[A-Za-z0-9_-]{35,}+")
_LABELLED = re.compile(
    r"(?P<label>[A-Za-z][A-Za-z0-9]{1,14}(?:[_-][A-Za-z0-9]{1,8}){0,2})[_-](?P<rest>[A-Za-z0-9]{32,}+)"
    r"\Z"
)
_KEY_LABEL = re.compile(
    r"(?i:\b|_)(?:sk|rk|pk|pat|pats?|key|apikey|token|tok|secret|sec|api|live|prod|cred)(?:\b|_|\Z)"
)
_ID_LABEL = re.compile(
    r"(?i:(?:msg|resp|rs|fc|call|toolu|chatcmpl|gen|run|req|file|batch|item|step|trace|span|sha\d*|md5|cs|evt|in|id"
    r"|build|commit|rev|hash|digest|etag|img|image|css|chunk|main|index|vendor|session|thread|asst|vs)(?:[_-].*)?)"
)
"""Labels of ids and hashes, which are no secrets."""


@dataclass(frozen=True)
class SecretForm:
    """How the keys of one vendor look."""

    vendor: str
    prefix: str
    rest: str
    """What follows the prefix: a regular expression whose classes are those of ASCII."""
    entropy: float = LEAST_ENTROPY
    """The least entropy of what follows the prefix, in bits per character."""

    @cached_property
    def _beginning(self) -> re.Pattern[str]:
        return re.compile(self.rest.replace(",}", f",{JUDGED_CHARS}}}"), re.ASCII)

    @cached_property
    def _whole(self) -> re.Pattern[str]:
        return re.compile(rf"{self.rest}(?![^\W_])", re.ASCII)

    def judge(self, text: str, at: int) -> tuple[int, bool]:
        """What looks like a key whose prefix stands at this index: where it ends, 0 if nothing; and whether it is one.

        Only its beginning is judged, so that this takes the same time however long the word is, if it is no key.
        """
        at += len(self.prefix)
        found = self._beginning.match(text, at)
        if found is None:
            return 0, False
        rest = found[0]
        least = self.entropy
        if _DIGIT.search(rest) is None:
            least = float("inf") if rest.islower() else max(least, LEAST_ENTROPY_OF_LETTERS)
        if entropy(rest) < least:
            return found.end(), False
        whole = self._whole.match(text, at)
        return (whole.end(), True) if whole else (0, False)


@dataclass(frozen=True)
class SecretRule:
    """A form of secret that does not begin with a fixed text."""

    id: str
    regex: str
    keywords: tuple[str, ...]
    """Words in lower case. Every match contains one of them, so a text without any need not be searched."""
    entropy: float = 0.0
    """The least entropy of a secret, in bits per character."""
    back: int | None = None
    """How many characters before a keyword every match begins; None if that is not fixed."""

    @property
    def at_start(self) -> bool:
        """Whether every match begins with one of the keywords."""
        return self.back == 0

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The compiled regex. Most rules are never tried, so it is compiled when first used."""
        return re.compile(self.regex)

    def matches_at_keywords(self, text: str, lowered: str) -> Iterator[re.Match[str]]:
        """The matches, tried only where a keyword stands if their beginning is fixed.

        lowered: the text in lower case.
        """
        present = [keyword for keyword in self.keywords if keyword in lowered]
        if not present:
            return
        if self.back is None or len(lowered) != len(text):
            yield from self.pattern.finditer(text)
            return
        for keyword in present:
            for at in find_all(keyword, lowered):
                if at >= self.back and (found := self.pattern.match(text, at - self.back)):
                    yield found

    def is_random_enough(self, found: re.Match[str]) -> bool:
        """Whether the match is random enough to be a secret."""
        return entropy(found[self._group(found)]) >= self.entropy

    def span(self, found: re.Match[str]) -> Span:
        """The begin and end of the secret part of a match: its first group, or all of it."""
        return found.span(self._group(found))

    def _group(self, found: re.Match[str]) -> int:
        return 1 if self.pattern.groups and found[1] else 0


def find_known_forms(text: str, lowered: str) -> list[Span]:
    """Find secrets by their form: the begin and end of each. `lowered`: the text in lower case, of the same length."""
    spans = [span for word in _LONG_WORD.finditer(text) for span in _keys_in(text, *word.span())]
    for rule in secret_rules():
        spans += [rule.span(found) for found in rule.matches_at_keywords(text, lowered) if rule.is_random_enough(found)]
    for word in _LONG_RUN.finditer(text):
        if word.end() - word.start() in (51, 52) and word[0][0] in "5KL" and _has_base58_check(word[0]):
            spans.append(word.span())
        found = _LABELLED.match(text, *word.span())
        if found and _is_labelled_key(found["label"], found["rest"]):
            spans.append(found.span())
    return spans


_BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"


def _has_base58_check(run: str) -> bool:
    """Whether the last four bytes are the checksum of the others, as in the wallet import format of Bitcoin."""
    number = 0
    for letter in run:
        digit = _BASE58.find(letter)
        if digit < 0:
            return False
        number = number * 58 + digit
    content = number.to_bytes(39, "big").lstrip(b"\0")
    return sha256(sha256(content[:-4]).digest()).digest()[:4] == content[-4:]


def begins_key(text: str, at: int) -> bool:
    """Whether a prefix of a key stands at this index."""
    return _prefixes().match(text, at) is not None


_JWT_RUN = re.compile(r"[A-Za-z0-9_-]*+")
_JWT = re.compile(r"eyJ[A-Za-z0-9_-]{8,}+(?:(?:\.|%2E)[A-Za-z0-9_-]{8,}+)++")


def find_json_web_tokens(text: str) -> Iterator[Span]:
    """Find JSON Web Tokens (RFC 7519), and what else begins like one and has two parts or more."""
    run_end = 0
    for at in find_all("eyJ", text):
        if at < run_end or not _WORD_START.match(text, at):
            continue  # where the run ends, and so whether a dot follows, was seen
        found = _JWT.match(text, at)
        run_end = found.end() if found else _JWT_RUN.match(text, at).end()  # type: ignore[union-attr]
        if found:
            yield found.span()


def _keys_in(text: str, begin: int, end: int) -> Iterator[Span]:
    """The keys that begin in one word. A key may reach beyond it."""
    done = begin
    for found in _prefixes().finditer(text, begin, end):
        if found.start() < done:
            continue
        key_end = 0
        for form in _forms_of(found[0]):
            end, is_key = form.judge(text, found.start())
            if end > done:
                done = end
            if is_key and end > key_end:
                key_end = end
        if key_end:
            done = key_end
            yield found.start(), done


def _is_labelled_key(label: str, rest: str) -> bool:
    if _ID_LABEL.fullmatch(label) or entropy(rest) < 3.3:
        return False
    kinds = (any(map(test, rest)) for test in (str.islower, str.isupper, str.isdigit))
    return (all(kinds) and entropy(rest) >= 4 and looks_random(rest)) or (
        _KEY_LABEL.search(label) is not None and any(map(str.isdigit, rest)) and looks_random(rest)
    )


def lower_case(text: str) -> str:
    """The text in lower case; of the same length, so that an index in one is an index in the other."""
    lowered = text.lower()
    if len(lowered) != len(text):
        lowered = "".join(letter.lower() if len(letter.lower()) == 1 else letter for letter in text)
    return lowered


def find_all(word: str, text: str) -> Iterator[int]:
    """Each index at which the word occurs in the text; occurrences may overlap."""
    at = text.find(word)
    while at >= 0:
        yield at
        at = text.find(word, at + 1)


@cache
def _data() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))


@cache
def secret_forms() -> tuple[SecretForm, ...]:
    """The forms that begin with a fixed prefix, in the order of the file."""
    return tuple(SecretForm(*key) for source in _data()["sources"] for key in source["keys"])


@cache
def secret_rules() -> tuple[SecretRule, ...]:
    """The other forms, in the order of the file."""
    return tuple(
        SecretRule(rule["id"], rule["regex"], tuple(rule["keywords"]), rule.get("entropy", 0.0), rule.get("back"))
        for rule in _data()["rules"]
    )


@cache
def _forms_of(prefix: str) -> tuple[SecretForm, ...]:
    """The forms whose prefix this prefix is, or begins with."""
    return tuple(form for form in secret_forms() if prefix.startswith(form.prefix))


@cache
def _prefixes() -> re.Pattern[str]:
    """Matches the longest prefix of a key at the beginning of a word, or after a JSON escape of a line end."""
    return re.compile(_WORD_START.pattern + _either(sorted({form.prefix for form in secret_forms()})))


def _either(texts: Iterable[str]) -> str:
    """A regular expression of these texts, longest first, in which equal beginnings are tried once."""
    rest: dict[str, list[str]] = {}
    for text in texts:
        rest.setdefault(text[:1], []).append(text[1:])
    ways = [re.escape(first) + _either(ends) for first, ends in rest.items() if first]
    return f"(?:{'|'.join(ways)}){'?' if '' in rest else ''}" if ways else ""
