"""Parser of a user's reply to "do you confirm?": yes, no or unclear. After an unclear reply the user is asked again.

Phrases are looked up in `confirmation.toml`, by meaning and language, whatever language the user writes. Case, accents,
punctuation and full-width letters do not count. At each position the longest phrase wins ("no problem" before "no", or
没问题 before 没), so the order of the table does not matter. A reply is read clause by clause:

- a condition or a request ("but", "first", 先, "please fix") is a no, whatever else the clause says: work remains;
- a clause with a negation is a no ("not ok", "das stimmt nicht", 承認しません);
- a doubt or a question is unclear, and so is a bare no next to a yes ("yes and no");
- a yes among unknown words is a yes if it comes first, or nearly first, in a short reply.

When in doubt the reply is unclear: asking once more costs less than ending work that is not done.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from typing import Literal

from .chinese_script import simplified
from .deferred_patterns import deferred
from .word_tables import expression, word_tables

Reply = Literal["yes", "no", "unclear"]

_ALONE = frozenset("y k n 1 是 对 行 可 成 中 妥 恩".split())
"""Phrases that count only as a whole clause: within a sentence they are parts of other words, or mean something else
(Spanish "y": and)."""
_ARTICLES = frozenset("the a this that la le el un une der die das".split())
"""A verb after one of these is a noun."""
ASKING_ENDINGS = ("か", "吗", "呢", "까요", "나요", "습니까")
"""Endings of questions that need no question mark."""
_UNKNOWN_BESIDE_A_YES = 12
"""Maximum number of unknown words in a reply that still counts as a yes."""
_UNKNOWN_BEFORE_A_YES = 4
"""Maximum number of unknown words before the yes, in its clause."""


def parse_reply(text: str, *, plain: bool = False) -> Reply:
    """Parse a reply as yes, no or unclear. plain: whether a yes beside any word that is not known is unclear."""
    clauses = [clause for part in _CLAUSE.split(_folded(text)) if (clause := _Clause(part)).said or clause.unknown]
    said = {clause.says for clause in clauses}
    asks = "?" in _folded(text) or "asks" in said
    if "request" in said:
        return "unclear" if asks and "yes" not in said and "no" not in said else "no"
    if "doubt" in said:  # "yes, but not now" is a no
        return "no" if "no" in said or ("yes" in said and any("request" in c.said for c in clauses)) else "unclear"
    if "no" in said:
        contradicts = "yes" in said and all(clause.says == "yes" or clause.bare for clause in clauses)
        return "unclear" if contradicts else "no"
    idiom = len(clauses) == 1 and clauses[0].idiom
    if "yes" not in said or (asks and not idiom):
        return "unclear"
    allowed = 0 if plain else _UNKNOWN_BESIDE_A_YES
    return "yes" if sum(clause.unknown for clause in clauses) <= allowed else "unclear"


class _Clause:
    """The part of a reply up to the next comma or full stop."""

    def __init__(self, text: str) -> None:
        text = text.strip()
        self.unknown = 0
        self.said: list[str] = []
        """Meanings of its phrases, in order."""
        self.bare = text in _BARE
        """Whether the clause consists only of a word for no."""
        self.idiom = text in _WHY_NOT
        before = previous = ""
        for match in _words().finditer(text):
            word = match[0]
            what = _meanings().get(word)
            if what is None or (word in _ALONE and word != text and what == "yes"):
                self.unknown += 1 if word.isascii() else len(word) % 2 + len(word) // 2
                previous, before = word, before or "unknown"
                continue
            if what == "verb":
                what = "request" if before in ("", "yes", "filler") and previous not in _ARTICLES else "filler"
            if what == "asks" and word.isascii() and self.said:
                what = "filler"
            if what == "yes" and "yes" not in self.said and self.unknown > _UNKNOWN_BEFORE_A_YES:
                what = "filler"
            self.said.append(what)
            previous = word
            before = before if before == "unknown" else what
        if text.endswith(ASKING_ENDINGS):
            self.said.append("asks")

    @property
    def says(self) -> str:
        """Its meaning: a negation outweighs a yes, and a condition or a doubt outweighs both."""
        for what in ("doubt", "request", "no", "asks", "yes"):
            if what in self.said:
                return what
        return ""


def _folded(text: str) -> str:
    """Return a text without case, accents, full-width forms, skin tones and drawn-out letters.

    Apostrophes become spaces, Chinese characters simplified ones.
    """
    text = unicodedata.normalize("NFKC", text).casefold().replace("o.k.", "ok")
    apart = unicodedata.normalize("NFD", text)
    text = unicodedata.normalize("NFC", re.sub("[\u0300-\u036f\u200d\ufe0e\ufe0f\U0001f3fb-\U0001f3ff]", "", apart))
    text = re.sub(r"n['’]t\b", " not", simplified(text))
    return re.sub(r"([^\W\d])\1{2,}", r"\1", re.sub(r"['’`´\"“”«»„*_~()\[\]\s-]+", " ", text))


_CLAUSE = deferred(r"[,.;:!?…、。，；：！？¡¿\n—–]+")
_BARE = frozenset({"no", "non", "nein", "nope", "不", "いいえ", "いえ", "いや", "nee", "no no", "nah"})
_WHY_NOT = frozenset(map(_folded, ("why not", "pourquoi pas", "por qué no", "cómo no", "warum nicht", "为什么不")))


@cache  # on first use, not on import: it takes 0.1 s, and few runs ask for a confirmation
def _meanings() -> dict[str, str]:
    """Return the meaning of each phrase, by the phrase as `_folded` normalises it."""
    return {
        _folded(phrase).strip(): what
        for what, languages in reversed(word_tables("confirmation").items())
        for lines in languages.values()
        for phrase in expression(lines).split("|")
    }


@cache
def _words() -> re.Pattern[str]:
    """Return a pattern for all phrases, longest first, and for any other word.

    Phrases are grouped by their first character, so that few are tried at each position.
    """
    by_first: dict[str, list[str]] = {}
    for phrase in sorted(_meanings(), key=len, reverse=True):
        rest = re.escape(phrase[1:])
        if phrase.isascii() and phrase[0].isalnum():
            rest += rf"(?<![a-z0-9]{re.escape(phrase)})(?![a-z0-9])"
        by_first.setdefault(phrase[0], []).append(rest)
    phrases = [f"{re.escape(first)}(?:{'|'.join(rests)})" for first, rests in by_first.items()]
    return re.compile("|".join(phrases) + r"|[a-z0-9]+|[^\W]")
