"""Secrets that have a form of their own, by the rules of gitleaks (`secret_rules.toml`), and what looks random."""

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
    """One form."""

    id: str
    regex: str
    keywords: tuple[str, ...]
    """One of them, in lower case, is in every text that has this form: what cannot match is not tried."""
    entropy: float = 0.0
    at_start: bool = False
    """Whether what matches begins with one of the keywords: then only what follows them is looked at."""

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Compiled when it is first needed: most never are."""
        return re.compile(self.regex)

    def begins(self, text: str, lowered: str) -> Iterator[re.Match[str]]:
        """The matches of this form; where it is `at_start`, each is looked for only where a keyword stands."""
        if len(lowered) != len(text):
            yield from self.pattern.finditer(text)
            return
        for keyword in self.keywords:
            for at in find_all(keyword, lowered):
                if found := self.pattern.match(text, at):
                    yield found

    def holds(self, found: re.Match[str]) -> bool:
        """Whether what was found is random enough to be a secret."""
        return entropy(self.secret(found)) >= self.entropy

    def secret(self, found: re.Match[str]) -> str:
        """The part that is secret."""
        return (found[1] if self.pattern.groups and found[1] else found[0]) or found[0]


def find_all(word: str, text: str) -> Iterator[int]:
    """Each index at which this word begins in the text, also inside other words and over itself."""
    at = text.find(word)
    while at >= 0:
        yield at
        at = text.find(word, at + 1)


@cache
def secret_rules() -> tuple[SecretRule, ...]:
    """All of them, in the order of the file."""
    data = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
    return tuple(
        SecretRule(
            rule["id"], rule["regex"], tuple(rule["keywords"]), rule.get("entropy", 0.0), rule.get("at_start", False)
        )
        for rule in data["rules"]
    )
