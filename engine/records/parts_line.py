"""Write neighbouring parts of a response as one line of a record, and read the line back as single events.

A stream delivers a few characters at a time. As a separate line each delta would take twenty times the size of its
text, for its type, number, time and attempt. Therefore the parts of one attempt that are neighbours in what is passed
to the operating system become one line, which states once what they share. The texts of neighbouring deltas are joined,
with the length of each:

    {"type":"PARTS","seq":6,"t":410,"attempt":"1.1","count":4,"parts":[
        {"type":"TEXT_MESSAGE_CONTENT","delta":"I look.","lengths":[1,5,1]},
        {"type":"TOOL_CALL_START","call_id":"c1","name":"look"}],"waits":[21,19]}

No event waits for another because of this, and none is lost: `PartsLine.events` returns all of them unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Any

from msgspec import Struct, ValidationError

from ..decision import Event, FinishReason, Usage
from ..decision.events import (
    STREAM_PARTS,
    FinishReported,
    Milliseconds,
    ProviderToolReported,
    ReasoningMessageContent,
    TextMessageContent,
    ToolCallArgs,
    ToolCallEnd,
    ToolCallStart,
    UsageReported,
)
from .short_forms import without_defaults

MAX_CHARACTERS = 64 * 1024
"""A line takes no further part once its deltas have this many characters: damage to a line costs no more than these."""
PARTS_TAG = "PARTS"
"""`type` of such a line."""
DELTAS: frozenset[type] = frozenset({TextMessageContent, ReasoningMessageContent, ToolCallArgs})
"""Types of events whose texts are joined."""
PACKED_KINDS = STREAM_PARTS | {FinishReported, UsageReported}
"""Types of events that such a line may hold."""


# ---- the parts within a line: the events without `seq`, `t` and `attempt`


class _Entry(Struct, omit_defaults=True, gc=False):
    pass


class TextEntry(_Entry, tag="TEXT_MESSAGE_CONTENT"):
    """Neighbouring deltas of the answer's text. lengths: characters of each delta, if there are several."""

    delta: str
    lengths: tuple[int, ...] = ()


class ReasoningEntry(_Entry, tag="REASONING_MESSAGE_CONTENT"):
    """Neighbouring deltas of a block of reasoning without a signature, or one delta."""

    delta: str = ""
    lengths: tuple[int, ...] = ()
    signature: str = ""
    redacted: bool = False
    vendor: str = ""


class StartEntry(_Entry, tag="TOOL_CALL_START"):
    """Start of a call."""

    call_id: str
    name: str


class ArgumentsEntry(_Entry, tag="TOOL_CALL_ARGS"):
    """Neighbouring deltas of a call's arguments. `call_id` is left out if it is that of the part before."""

    delta: str
    lengths: tuple[int, ...] = ()
    call_id: str | None = None


class EndEntry(_Entry, tag="TOOL_CALL_END"):
    """End of a call. `call_id` as in `ArgumentsEntry`."""

    call_id: str | None = None
    may_end: bool | None = None


class ProviderToolEntry(_Entry, tag="PROVIDER_TOOL_REPORTED"):
    """A tool that the provider ran."""

    id: str
    name: str
    arguments: str = ""
    result: str = ""


class FinishEntry(_Entry, tag="FINISH_REPORTED"):
    """The finish reason."""

    reason: FinishReason
    raw: str = ""


class UsageEntry(_Entry, tag="USAGE_REPORTED"):
    """The usage."""

    usage: Usage


Entry = (
    TextEntry | ReasoningEntry | StartEntry | ArgumentsEntry | EndEntry | ProviderToolEntry | FinishEntry | UsageEntry
)


class PartsLine(Struct, kw_only=True, tag=PARTS_TAG, omit_defaults=True, gc=False):
    """A line with several events of one attempt, which have the numbers from `seq` on."""

    seq: int
    t: Milliseconds = 0
    """Time of the first event."""
    attempt: str
    count: int
    """Number of events."""
    parts: list[Entry]
    waits: list[Milliseconds] = []
    """Milliseconds between each event after the first and the one before it; zeros at the end are left out."""

    @property
    def last(self) -> int:
        """Number of the last event."""
        return self.seq + self.count - 1

    def complete(self) -> None:
        """Fill in what the parts leave out. Raises ValidationError if the numbers in the line do not fit together."""
        events, call_id = 0, ""
        entry: Any  # types are compared instead of matched: a record has thousands of these
        for entry in self.parts:
            kind = type(entry)
            if kind is TextEntry or kind is ArgumentsEntry or kind is ReasoningEntry:
                lengths = entry.lengths
                if lengths and (sum(lengths) != len(entry.delta) or min(lengths) < 0):
                    raise ValidationError("`lengths` are not those of the deltas in `delta`")
                events += len(lengths) or 1
            else:
                events += 1
            if kind is StartEntry or kind is ArgumentsEntry or kind is EndEntry:
                if entry.call_id is None:
                    entry.call_id = call_id
                call_id = entry.call_id
        if events != self.count or len(self.waits) >= max(events, 1):
            raise ValidationError(f"`count` is {self.count}, but there are {events} events and {len(self.waits)} waits")

    def events(self, *, deltas: bool = True) -> Iterator[Event]:
        """Yield the events, in order. deltas: whether to include those that are `STREAM_PARTS`."""
        times = list(accumulate(self.waits, initial=self.t))
        times += times[-1:] * (self.count - len(times))
        attempt, number = self.attempt, 0
        entry: Any
        for entry in self.parts:
            kind = type(entry)
            if kind is TextEntry or kind is ArgumentsEntry or kind is ReasoningEntry:
                texts = _divided(entry)
                if deltas:
                    seq = self.seq + number
                    for place, text in enumerate(texts):
                        yield _delta(kind, entry, text, seq + place, times[number + place], attempt)
                number += len(texts)
            else:
                if deltas or kind is FinishEntry or kind is UsageEntry:
                    yield _single(kind, entry, self.seq + number, times[number], attempt)
                number += 1

    def message_parts(self, first: int) -> Iterator[tuple[Entry, int]]:
        """Yield the parts of the message from this event number on, each with the number of deltas joined in it."""
        number = self.seq
        entry: Any
        for entry in self.parts:
            kind = type(entry)
            if kind is TextEntry or kind is ArgumentsEntry or kind is ReasoningEntry:
                count = len(entry.lengths) or 1
                if number >= first:
                    yield entry, count
                number += count
            else:
                if kind is StartEntry and number >= first:
                    yield entry, 1
                number += 1


def _divided(entry: TextEntry | ArgumentsEntry | ReasoningEntry) -> list[str]:
    text, lengths = entry.delta, entry.lengths
    return [text[begin:end] for begin, end in pairwise(accumulate(lengths, initial=0))] if lengths else [text]


def _delta(kind: type, entry: Any, text: str, seq: int, t: int, attempt: str) -> Event:
    if kind is TextEntry:
        return TextMessageContent(seq=seq, t=t, attempt=attempt, delta=text)
    if kind is ArgumentsEntry:
        return ToolCallArgs(seq=seq, t=t, attempt=attempt, call_id=entry.call_id, delta=text)
    return ReasoningMessageContent(
        seq=seq,
        t=t,
        attempt=attempt,
        delta=text,
        signature=entry.signature,
        redacted=entry.redacted,
        vendor=entry.vendor,
    )


def _single(kind: type, entry: Any, seq: int, t: int, attempt: str) -> Event:
    if kind is StartEntry:
        return ToolCallStart(seq=seq, t=t, attempt=attempt, call_id=entry.call_id, name=entry.name)
    if kind is EndEntry:
        return ToolCallEnd(seq=seq, t=t, attempt=attempt, call_id=entry.call_id, may_end=entry.may_end)
    if kind is FinishEntry:
        return FinishReported(seq=seq, t=t, attempt=attempt, reason=entry.reason, raw=entry.raw)
    if kind is UsageEntry:
        return UsageReported(seq=seq, t=t, attempt=attempt, usage=entry.usage)
    return ProviderToolReported(
        seq=seq, t=t, attempt=attempt, id=entry.id, name=entry.name, arguments=entry.arguments, result=entry.result
    )


# ---- writing


def pack(lines: Iterable[Any]) -> list[Any]:
    """Return the lines as they are written together: neighbouring parts of one attempt become a `PartsLine`."""
    written: list[Any] = []
    parts: list[Any] = []
    size = 0
    for line in lines:
        kind = type(line)
        if parts and (
            kind not in PACKED_KINDS
            or line.seq != parts[-1].seq + 1
            or line.attempt != parts[0].attempt
            or size >= MAX_CHARACTERS
        ):
            written += _packed(parts)
            parts, size = [], 0
        if kind in PACKED_KINDS:
            parts.append(line)
            if kind in DELTAS:
                size += len(line.delta)
        else:
            written.append(line)
    return written + _packed(parts) if parts else written


def _packed(parts: list[Any]) -> list[Any]:
    """Return the line for these parts, or the part itself if it is the only one."""
    first = parts[0]
    if len(parts) == 1:
        return parts
    waits = [after.t - before.t for before, after in pairwise(parts)]
    while waits and not waits[-1]:
        waits.pop()
    line = PartsLine(
        seq=first.seq, t=first.t, attempt=first.attempt, count=len(parts), parts=_entries(parts), waits=waits
    )
    return [line]


def _entries(parts: Sequence[Any]) -> list[Entry]:
    entries: list[Any] = []
    call_id: str | None = None
    text: object = None
    """What distinguishes the text of the latest entry from others; None if nothing can be joined to it."""
    texts: list[str] = []
    for part in parts:
        kind = type(part)
        before, text = text, _text_of(kind, part) if kind in DELTAS else None
        if text is not None and text == before:
            texts.append(part.delta)
            continue
        if len(texts) > 1:
            _join(entries[-1], texts)
        texts = [] if text is None else [part.delta]
        if kind is TextMessageContent:
            entries.append(TextEntry(part.delta))
        elif kind is ReasoningMessageContent:
            entries.append(ReasoningEntry(part.delta, (), part.signature, part.redacted, part.vendor))
        elif kind is ToolCallStart:
            entries.append(StartEntry(part.call_id, part.name))
            call_id = part.call_id
        elif kind is ToolCallArgs:
            entries.append(ArgumentsEntry(part.delta, (), None if part.call_id == call_id else part.call_id))
            call_id = part.call_id
        elif kind is ToolCallEnd:
            entries.append(EndEntry(None if part.call_id == call_id else part.call_id, part.may_end))
            call_id = part.call_id
        elif kind is FinishReported:
            entries.append(FinishEntry(part.reason, part.raw))
        elif kind is UsageReported:
            entries.append(UsageEntry(without_defaults(part.usage)))
        else:
            entries.append(ProviderToolEntry(part.id, part.name, part.arguments, part.result))
    if len(texts) > 1:
        _join(entries[-1], texts)
    return entries


def _text_of(kind: type, part: Any) -> object:
    if kind is TextMessageContent:
        return kind
    if kind is ToolCallArgs:
        return part.call_id
    if kind is ReasoningMessageContent and not part.signature and not part.redacted:
        return kind, part.vendor
    return None


def _join(entry: Any, texts: list[str]) -> None:
    entry.delta, entry.lengths = "".join(texts), tuple(map(len, texts))
