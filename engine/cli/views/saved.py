"""What the cut at a completion call has saved. Known only if the rest was read into the record (`--drain`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ...decision import AnyChunk
from ...records.format import rest_of
from .text import saved_words


@dataclass(frozen=True, slots=True, kw_only=True)
class Savings:
    """What was never paid for: output that was not written, and calls that were not made."""

    tokens: int = 0
    calls: tuple[str, ...] = ()

    def __str__(self) -> str:
        return saved_words(self.tokens, self.calls)


Saved = Callable[[], Savings | None]
"""Asked at the end of each run what its cuts have saved; None if nobody knows."""


def savings_of(chunks: Iterable[AnyChunk]) -> Savings:
    """What the chunks after cuts amount to, 4 characters a token."""
    rest = rest_of(chunks)
    return Savings(tokens=rest.output_tokens, calls=rest.calls)
