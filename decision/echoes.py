"""Tells a short text that only echoes an instruction ("Okay, I understand. I will answer directly.") from an answer.

An echo has one of the policy's phrases and nothing of substance apart from it. The rest of the text is judged clause by
clause, and a clause is empty if the speaker

- is polite, or assents ("okay", 谢谢, はい); an assent after the last phrase may be the answer, and is not empty;
- says what they will do with answers, questions, instructions or tools ("I will use a tool if one is needed"), or what
  they were asked for ("you want a short answer", "your request");
- asks the user to go on ("feel free to ask").

Each of these is a pair of expressions in `echoes.toml`, by language: how such a clause begins, and what it has to be
about. A clause with a word of substance is not empty, nor is any clause next to a digit, a quotation, a path or code,
or after a colon. In doubt a text is an answer: holding back an answer costs more than an echo that ends a run.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import cache, lru_cache
from itertools import pairwise

from .chinese_script import simplified
from .deferred_patterns import deferred
from .empty_clauses import Language
from .policy import Echo
from .word_tables import word_tables


def is_echo(text: str, echo: Echo) -> bool:
    """Return whether a short text has one of the phrases, and apart from it no more than `echo.beside` allows."""
    if len(text) >= echo.shorter_than:
        return False
    if echo.beside == "nothing":
        return _consists_of(text, echo.phrases)
    rest, found = _finder(echo.phrases).subn(_PHRASE, _folded(text.replace(_PHRASE, " ")))
    if not found:
        return False
    return echo.beside == "anything" or _is_empty(rest, _names(text))


def is_announcement(text: str, echo: Echo) -> bool:
    """Return whether a short text begins with one of the policy's own announcements of what comes next."""
    if len(text) >= echo.shorter_than or not echo.announcements:
        return False
    return _finder(echo.announcements).match(_OPENING.sub("", _folded(text))) is not None


def _consists_of(text: str, phrases: tuple[str, ...]) -> bool:
    """Return whether a text consists of the phrases alone, word for word, as in records of older versions."""
    rest = _plain(text)
    if not rest.strip():
        return False  # a symbol without a word ("👍") may well be the answer
    for phrase in sorted((_plain(phrase) for phrase in phrases), key=len, reverse=True):
        rest = rest.replace(phrase, " ") if phrase.strip() else rest
    return not rest.strip()


def _plain(text: str) -> str:
    """Return the words in lower case between single spaces, ignoring case, white space and punctuation."""
    return f" {_NOISE.sub(' ', text.casefold()).strip()} "


def _folded(text: str) -> str:
    """Return a text in lower case, normal width and simplified characters, with contractions written out."""
    if text.isascii():
        text = text.lower()
    else:
        text = simplified(unicodedata.normalize("NFKC", text).casefold().replace("’", "'"))
    if "'" in text:
        for short, whole in _SHORT.items():
            text = text.replace(short, whole)
    return text


@lru_cache(maxsize=64)
def _finder(phrases: tuple[str, ...]) -> re.Pattern[str]:
    """Return a pattern for any of the phrases, the longest first, ignoring punctuation and white space in them."""
    return _any_of({found for phrase in phrases if (found := tuple(_WORD.findall(_folded(phrase))))}, whole=True)


def _any_of(phrases: Iterable[tuple[str, ...]], whole: bool) -> re.Pattern[str]:
    """Return a pattern for any of the sequences of words, the longest first.

    In scripts with spaces, no letter may follow a match, nor precede it if it is to be a whole word.
    """
    written: dict[tuple[bool, bool], list[str]] = {}
    for words in sorted(phrases, key=len, reverse=True):
        ends = bool(_SPACED.match(words[0])), bool(_SPACED.match(words[-1]))
        written.setdefault(ends, []).append(_written(words))
    return re.compile(
        "|".join(
            (rf"(?<!{_SPACED.pattern})" if begins and whole else "")
            + f"(?:{'|'.join(some)})"
            + (rf"(?!{_SPACED.pattern})" if ends else "")
            for (begins, ends), some in written.items()
        )
        or "(?!)"
    )


def _written(words: tuple[str, ...]) -> str:
    """Return a pattern for consecutive words. In scripts without spaces, nothing is required between them."""
    pattern = re.escape(words[0])
    for left, right in pairwise(words):
        apart = _SPACED.match(left) and _SPACED.match(right)
        pattern += rf"[\W_]{{{1 if apart else 0},9}}{re.escape(right)}"
    return pattern


def _names(text: str) -> frozenset[str]:
    """Return the words with a capital letter that do not begin a sentence, in lower case."""
    return frozenset(word.casefold() for word in _WITHIN.findall(text) if word[0].isupper()) - _NO_NAMES


def _is_empty(rest: str, names: frozenset[str]) -> bool:
    """Return whether a text says nothing apart from the phrases, which are marked in it."""
    rest = rest.strip(_QUOTES)
    first, last = rest.index(_PHRASE), rest.rindex(_PHRASE)
    if _SIGN.search(rest) or _AFTER_COLON.search(rest, first):
        return False
    before, after = rest[:last], rest[last:]
    return all(_is_empty_clause(clause, names, _polite(True)) for clause in _clauses(before)) and all(
        _is_empty_clause(clause, names, _polite(False)) for clause in _clauses(after)
    )


def _clauses(text: str) -> list[str]:
    return [clause for part in _BETWEEN.split(text) if _LETTER.search(clause := part.strip(" '-"))]


def _is_empty_clause(clause: str, names: frozenset[str], polite: re.Pattern[str]) -> bool:
    """Return whether a clause is empty: words of `polite`, then nothing or an empty clause of one of the languages."""
    places = [0]
    while word := polite.match(clause, places[-1]):
        places.append(word.end())
    if places[-1] == len(clause):
        return True
    return any(language.says_nothing(clause, places[:_MOST_POLITE], names) for language in _languages())


@cache
def _languages() -> tuple[Language, ...]:
    return tuple(Language(**words) for words in word_tables("echoes").values())


@cache
def _polite(assents: bool) -> re.Pattern[str]:
    """Return a pattern for a word that may accompany a phrase, and the space after it."""
    written = "|".join(f"{one.polite}|{one.assent}" if assents else one.polite for one in _languages())
    words = {tuple(_WORD.findall(_folded(word))) for word in written.split("|")}
    return re.compile(rf"(?:{_any_of(words, whole=False).pattern})[\s'{_MARKS}-]*")


# ---- how texts are read

_PHRASE = "\0"
"""Placeholder for a phrase of the policy in a text."""
_NO_SPACES = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
"""Characters of Thai, Lao, Burmese, Khmer, Japanese and Chinese, which are written without spaces between words."""
_SPACED = deferred(rf"[^\W_{_NO_SPACES}]")
_WORD = deferred(rf"[{_NO_SPACES}]|[^\W_{_NO_SPACES}]+")
_MARKS = "\u0300-\u036f\u0900-\u0dff\u0e30-\u0e4e"
"""Accents and vowel signs that are combined with a letter."""
_NOISE = deferred(r"[\W_]+")
_OPENING = deferred(r"^[\W_]+")
_SHORT = {
    "let's": "let us",
    "won't": "will not",
    "can't": "cannot",
    "that's": "that is",
    "what's": "what is",
    "here's": "here is",
    "it's": "it is",
    "there's": "there is",
    "n't": " not",
    "'ll": " will",
    "'m": " am",
    "'re": " are",
    "'ve": " have",
    "'d": " would",
    "'s": "",
}
_MOST_POLITE = 8
"""Number of words of politeness after which the rest of a clause is still looked at."""
_QUOTES = " \n\t\"'“”‘*_"
_SIGN = deferred(r"[\d\"“”„«»「」『』《》〈〉`=<>{}\[\]@#/\\$€£¥%^|+]|[^\W_]_[^\W_]")
"""Signs that no echo has apart from its phrases: digits, quotations, paths, code."""
_AFTER_COLON = deferred(r":[^\w\0]{0,9}\w")
_BETWEEN = deferred(
    rf"[^\w\s'{_MARKS}-]+|\n+|(?<!\w)-+|-+(?!\w)|\s(?=(?:and|but|y|pero|e|mas|ma|et|mais|und|aber|и|но|а)\s)"
)
"""Separators of clauses."""
_LETTER = deferred(r"[^\W_]")
_WITHIN = deferred(r"(?<=\w )[^\W\d_][\w'’]*")
"""A word that follows another within a clause."""
_NO_NAMES = frozenset(
    "i english german french spanish italian portuguese russian chinese japanese korean json markdown".split()
)
