"""Rules for secrets that have a recognisable form, such as API keys. `secret_rules.toml` has those of gitleaks."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from .entropy import entropy


@dataclass(frozen=True)
class SecretRule:
    """One form of secret."""

    id: str
    regex: str
    keywords: tuple[str, ...]
    """Words in lower case. Every match contains one of them, so a text without any need not be searched."""
    entropy: float = 0.0
    """The least entropy of a secret, in bits per character."""
    at_start: bool = False
    """Whether every match begins with one of the keywords, so that only these positions need be tried."""

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The compiled regex. Most rules are never tried, so it is compiled when first used."""
        return re.compile(self.regex)

    def matches_at_keywords(self, text: str, lowered: str) -> Iterator[re.Match[str]]:
        """The matches of an `at_start` rule, tried only where a keyword begins. `lowered`: the text in lower case."""
        if len(lowered) != len(text):
            yield from self.pattern.finditer(text)
            return
        for keyword in self.keywords:
            for at in find_all(keyword, lowered):
                if found := self.pattern.match(text, at):
                    yield found

    def is_random_enough(self, found: re.Match[str]) -> bool:
        """Whether the match is random enough to be a secret."""
        return entropy(self.secret(found)) >= self.entropy

    def secret(self, found: re.Match[str]) -> str:
        """The secret part of a match: its first group, or all of it."""
        return (found[1] if self.pattern.groups and found[1] else found[0]) or found[0]


def find_all(word: str, text: str) -> Iterator[int]:
    """Each index at which the word occurs in the text; occurrences may overlap."""
    at = text.find(word)
    while at >= 0:
        yield at
        at = text.find(word, at + 1)


@cache
def secret_rules() -> tuple[SecretRule, ...]:
    """All rules, in the order of the file."""
    data = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
    return tuple(
        SecretRule(
            rule["id"], rule["regex"], tuple(rule["keywords"]), rule.get("entropy", 0.0), rule.get("at_start", False)
        )
        for rule in data["rules"]
    )
