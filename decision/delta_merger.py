"""Merges neighbouring deltas that arrived in one network read, and splits merged ones again.

A delta has no meaning by itself: where the server cuts a text into deltas is arbitrary. Servers send a delta for each
token, and on a fast or busy connection one read brings many of them. Merged, they cost one event, one line of the
record and one frame for each reader.

What follows from the stream stays exact. A completion call is found at its last byte, and nothing after it is used, so
a delta of a call is never merged into one that may hold the end of the call's arguments: a closing brace, or a
quotation mark if the arguments are a JSON string (`call_arguments.py`). If a limit falls inside a merged delta,
`split_delta` returns the deltas as they came.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from .call_arguments import JSON_WHITESPACE
from .chunks import AnyChunk, FinishReport, ReasoningDelta, TextDelta, ToolCallDelta

MERGEABLE = (TextDelta, ReasoningDelta, ToolCallDelta)
"""Types of chunks that may be merged."""


class DeltaMerger:
    """Merges the deltas of one response. Feed it the chunks of each read, in order."""

    def __init__(self) -> None:
        self._begun: dict[int, bool] = {}
        """By index of the call: whether its arguments are an object; False while only white space has come."""
        self._strings: set[int] = set()
        """Indexes of calls whose arguments are a JSON string: their deltas are not merged."""
        self._finished = False
        """Whether the response reported its finish. What follows is rare and of doubtful meaning, and not merged."""

    def merge(self, chunks: list[AnyChunk]) -> list[AnyChunk]:
        """Return the chunks of one read, with neighbouring deltas of one kind and one call merged."""
        if self._finished or (len(chunks) == 1 and type(chunks[0]) is TextDelta):  # usual if the stream is slow
            return chunks
        merged: list[AnyChunk] = []
        count, begin = len(chunks), 0
        while begin < count:
            chunk, end = chunks[begin], begin + 1
            kind = type(chunk)
            if kind is TextDelta:
                while end < count and type(chunks[end]) is TextDelta:
                    end += 1
                if end > begin + 1:
                    chunk = _merged_text(chunks[begin:end])
            elif kind is ToolCallDelta:
                end = self._end_of_call_deltas(chunks, begin)
                if end > begin + 1:
                    chunk = _merged_call(chunks[begin:end])
            elif kind is ReasoningDelta:
                end = _end_of_block(chunks, begin)
                if end > begin + 1:
                    chunk = _merged_reasoning(chunks[begin:end])
            elif kind is FinishReport:
                self._finished = True
                return merged + chunks[begin:]
            merged.append(chunk)
            begin = end
        return merged

    def _end_of_call_deltas(self, chunks: Sequence[AnyChunk], begin: int) -> int:
        """Return the index after the last chunk that can be merged with the one at `begin`."""
        first = chunks[begin]
        assert isinstance(first, ToolCallDelta)
        end = begin
        while True:
            may_end = self._may_end(chunks[end])
            end += 1
            if may_end or end == len(chunks):
                return end
            after = chunks[end]
            if type(after) is not ToolCallDelta or after.name or after.id:
                return end
            if after.index != first.index or (after.whole is None) != (first.whole is None):
                return end

    def _may_end(self, chunk: AnyChunk) -> bool:
        """Return whether the call's arguments may end within this delta."""
        assert isinstance(chunk, ToolCallDelta)
        if chunk.whole is not None:
            return chunk.whole
        index, arguments = chunk.index, chunk.arguments
        if chunk.name or chunk.id:  # possibly another call
            self._begun.pop(index, None)
            self._strings.discard(index)
        if not self._begun.get(index) and (shown := arguments.lstrip(JSON_WHITESPACE)):
            self._begun[index] = True
            if shown[0] == '"':
                self._strings.add(index)
        if "}" in arguments:  # what follows may be the real arguments after the placeholder `{}`
            self._begun[index] = False
            return True
        return index in self._strings


def _end_of_block(chunks: Sequence[AnyChunk], begin: int) -> int:
    """Return the index after the last chunk of the same reasoning block.

    A signature ends a block; a hidden block is separate.
    """
    end = begin
    while True:
        chunk = chunks[end]
        assert isinstance(chunk, ReasoningDelta)
        end += 1
        if chunk.signature or chunk.redacted or end == len(chunks):
            return end
        after = chunks[end]
        if type(after) is not ReasoningDelta or after.redacted:
            return end


def _merged_text(chunks: Sequence[AnyChunk]) -> TextDelta:
    texts = [chunk.text for chunk in chunks]  # type: ignore[union-attr]
    return TextDelta("".join(texts), tuple(map(len, texts)))


def _merged_reasoning(chunks: Sequence[AnyChunk]) -> ReasoningDelta:
    texts = [chunk.text for chunk in chunks]  # type: ignore[union-attr]
    last: ReasoningDelta = chunks[-1]  # type: ignore[assignment]
    return ReasoningDelta("".join(texts), last.signature, vendor=last.vendor, pieces=tuple(map(len, texts)))


def _merged_call(chunks: Sequence[AnyChunk]) -> ToolCallDelta:
    first: ToolCallDelta = chunks[0]  # type: ignore[assignment]
    texts = [chunk.arguments for chunk in chunks]  # type: ignore[union-attr]
    whole: bool | None = chunks[-1].whole  # type: ignore[union-attr]
    return ToolCallDelta(first.index, first.id, first.name, "".join(texts), whole, tuple(map(len, texts)))


def split_delta(chunk: AnyChunk) -> list[AnyChunk]:
    """Return the deltas that were merged into this one, as they came; the chunk itself if it was not merged.

    The chunk itself is also returned if its text was changed and no longer has the length of its pieces.
    """
    if not isinstance(chunk, MERGEABLE) or not chunk.pieces:
        return [chunk]
    text = chunk.arguments if isinstance(chunk, ToolCallDelta) else chunk.text
    if sum(chunk.pieces) != len(text):
        return [chunk]
    edges = [0]
    for length in chunk.pieces:
        edges.append(edges[-1] + length)
    texts = [text[begin:end] for begin, end in pairwise(edges)]
    if isinstance(chunk, TextDelta):
        return [TextDelta(text) for text in texts]
    if isinstance(chunk, ReasoningDelta):
        return [
            *map(ReasoningDelta, texts[:-1]),
            ReasoningDelta(texts[-1], chunk.signature, chunk.redacted, chunk.vendor),
        ]
    whole = None if chunk.whole is None else False
    head = ToolCallDelta(chunk.index, chunk.id, chunk.name, texts[0], whole)
    rest = [ToolCallDelta(chunk.index, arguments=text, whole=whole) for text in texts[1:-1]]
    return [head, *rest, ToolCallDelta(chunk.index, arguments=texts[-1], whole=chunk.whole)]
