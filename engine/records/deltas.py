"""The texts of a response that came in pieces."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec.structs import replace

from ..decision import events as ev
from ..decision.chunks import ReasoningDelta, TextDelta, ToolCallDelta
from .format import AfterCut
from .texts import Texts


class Deltas:
    """Puts the texts together, has them redacted, and deals them out again. For one response."""

    def __init__(self, texts: Texts) -> None:
        self._texts = texts
        self._pieces: dict[tuple[Any, ...], list[tuple[int, Any]]] = {}
        self._block: dict[tuple[Any, ...], int] = {}
        """The block of reasoning that is being written, by stream: a signature ends it."""

    def _add(self, number: int, event: Any) -> None:
        """One more event; all but deltas are passed over."""
        stream: tuple[Any, ...]
        match event:
            case ev.TextMessageContent():
                stream = ("text", event.attempt)
            case ev.ReasoningMessageContent():
                stream = self._reasoning(("reasoning", event.attempt), event)
            case ev.ToolCallArgs():
                stream = ("arguments", event.attempt, event.call_id)
            case AfterCut(chunk=TextDelta()):
                stream = ("text", event.attempt, "after")
            case AfterCut(chunk=ReasoningDelta() as chunk):
                stream = self._reasoning(("reasoning", event.attempt, "after"), chunk)
            case AfterCut(chunk=ToolCallDelta(index=index)):
                stream = ("arguments", event.attempt, "after", index)
            case _:
                return
        self._pieces.setdefault(stream, []).append((number, event))

    def _reasoning(self, stream: tuple[Any, ...], part: Any) -> tuple[Any, ...]:
        block = self._block.get(stream, 0)
        if part.signature or part.redacted:
            self._block[stream] = block + 1
        return (*stream, block)

    def dealt(self, lines: Iterable[Any]) -> dict[int, Any]:
        """The deltas among these lines, by their places: each with its share of the text that it is part of."""
        for number, line in enumerate(lines):
            self._add(number, line)
        dealt: dict[int, Any] = {}
        for (kind, *_), pieces in self._pieces.items():
            texts = [_delta_of(event) for _, event in pieces]
            whole = "".join(texts)
            redacted = self._texts.arguments(whole) if kind == "arguments" else self._texts.text(whole)
            if redacted == whole:
                dealt |= dict(pieces)
                continue
            shares = _shares(redacted, [len(text) for text in texts])
            dealt |= {number: _changed(event, share) for (number, event), share in zip(pieces, shares, strict=True)}
        return dealt


def _shares(text: str, lengths: Sequence[int]) -> list[str]:
    """The text in as many pieces, of lengths in proportion; the last of them that is not empty ends it."""
    total, so_far, begin = sum(lengths), 0, 0
    shares = []
    for length in lengths:
        so_far += length
        end = len(text) * so_far // total
        shares.append(text[begin:end])
        begin = end
    return shares


def _delta_of(event: Any) -> str:
    match event:
        case AfterCut(chunk=ToolCallDelta(arguments=text)):
            return text
        case AfterCut(chunk=TextDelta(text) | ReasoningDelta(text)):
            return text
        case _:
            delta: str = event.delta
            return delta


def _changed(event: Any, text: str) -> Any:
    """The delta with another text; what signed the old one goes."""
    match event:
        case AfterCut(chunk=ToolCallDelta() as chunk):
            return replace(event, chunk=replace(chunk, arguments=text))
        case AfterCut(chunk=ReasoningDelta(redacted=False) as chunk):
            return replace(event, chunk=replace(chunk, text=text, signature=""))
        case AfterCut(chunk=TextDelta() | ReasoningDelta() as chunk):
            return replace(event, chunk=replace(chunk, text=text))
        case ev.ReasoningMessageContent(redacted=False):
            return replace(event, delta=text, signature="")
        case _:
            return replace(event, delta=text)
