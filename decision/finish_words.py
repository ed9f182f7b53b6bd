"""Finish reasons: the words in which each vendor says why a response ended, from a table with its sources.

The table, `finish_words.toml`, is in this package because providers, importers and the documentation all read it, and
all of them may import `decision`. `parse_finish_reason` maps a word to what the loop does. A word that is not in the
table is not a success by itself; see `rules.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import get_args

from msgspec import Struct

from .errors import WrongUse
from .messages import FinishReason
from .word_tables import word_tables

ACTIONS: dict[FinishReason, str] = {
    "stop": "success: the setting `text` decides",
    "tool_calls": "runs the calls and goes on",
    "pause": "asks the model to continue where it stopped",
    "length": "tells the model that it was cut off, and goes on; a few times, then `no_answer`",
    "context_full": "as `length`, after compacting the context",
    "content_filter": "tells the model that it was blocked, and goes on; then `refusal`",
    "retry": "asks the model once more; then `provider_error`",
    "error": "ends the run as `provider_error`",
    "other": "unknown: runs the calls; without calls, asks the model once more; then `provider_error`",
}
"""What the loop does after each finish reason. Complete calls are run after every reason but `error`."""


class FinishWord(Struct, frozen=True):
    """One finish word that a vendor documents."""

    wire: str
    """The wire format, as the vendor names it."""
    vendor: str
    word: str
    does: FinishReason
    """The finish reason that the loop acts on; see `ACTIONS`."""
    meaning: str
    """What the vendor means by it, paraphrased."""
    source: str
    """URL of the vendor's documentation or code."""
    fails: bool = False
    """Whether the server failed, and may answer the same request when asked again."""


@cache
def documented_words() -> tuple[FinishWord, ...]:
    """Return every finish word that the vendors document. A word means the same for all of them, whatever its case."""
    tables = word_tables("finish_words")
    return tuple(
        FinishWord(
            wire=vendor["wire"],
            vendor=vendor["vendor"],
            word=word,
            source=vendor["source"],
            **(tables["meanings"][meaning] if isinstance(meaning, str) else meaning),
        )
        for vendor in tables["vendors"]
        for word, meaning in vendor["words"].items()
    )


@cache
def _by_word() -> dict[str, FinishWord]:
    """Return the first row of each word, in lower case."""
    return {row.word.casefold(): row for row in reversed(documented_words())}


@cache
def _failures() -> frozenset[str]:
    return frozenset(row.word.casefold() for row in documented_words() if row.fails)


NO_WORDS: Mapping[str, FinishReason] = {}


def parse_finish_reason(raw: str, taught: Mapping[str, FinishReason] = NO_WORDS) -> FinishReason:
    """Return the finish reason for a vendor's word: from `taught` (given by the user), from the table, or `other`."""
    if raw in taught:
        return taught[raw]
    known = _by_word().get(raw.casefold())
    return "other" if known is None else known.does


def is_server_failure(reason: FinishReason, raw: str) -> bool:
    """Return whether a response that ended with the word `raw` failed at the server, which may answer if asked again.

    reason: what the word was taken for. A word to which the user gave the meaning of an end is not a failure.
    """
    return reason in ("retry", "error") and raw.casefold() in _failures()


def describe_finish_word(raw: str) -> str:
    """Return what a vendor means by a word; empty if the table does not have it."""
    known = _by_word().get(raw.casefold())
    return "" if known is None else known.meaning


TEACHABLE_REASONS: tuple[FinishReason, ...] = tuple(reason for reason in get_args(FinishReason) if reason != "other")
"""Finish reasons that the user can assign to a word."""


def check_finish_words(words: Mapping[str, FinishReason] | None) -> dict[str, FinishReason]:
    """Check an argument `finish_words` and return it as a dict. Raises WrongUse for an invalid word or meaning."""
    if words is None:
        return {}
    if not isinstance(words, Mapping):
        raise WrongUse(f'finish_words is {words!r}: give words with what they mean, as {{"done": "stop"}}')
    for word, means in words.items():
        if not isinstance(word, str) or not word:
            raise WrongUse(f'finish_words has the word {word!r}: use the text that the vendor sends, as "done"')
        if means not in TEACHABLE_REASONS:
            raise WrongUse(f"finish_words[{word!r}] is {means!r}: use one of {', '.join(TEACHABLE_REASONS)}")
    return dict(words)
