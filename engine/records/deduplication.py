"""Leave out of a record what the record already holds, and restore it when the record is read.

- The message of a response is contained in its deltas. `RESPONSE_FINISHED` is written without it if the deltas of its
  attempt have exactly the same content, and then names them (`deltas`). The deltas are kept, because a record is only
  appended to, and after a kill they are all that is left of a response. After redaction the redacted texts are
  compared.
- In a file, a later run of the session usually has the system prompt, policy and tools of the first one. Its
  `RUN_STARTED` is written without these three if all are equal, and names the run that has them (`as_in`).
- All imported runs have the same policy, which is longer than many sessions. It is written without the settings that a
  reader fills in.

In memory, on the bus and over HTTP events are always whole. Writers of record files use `LineShortener`, which also
writes neighbouring parts of a response as one line (`parts_line.py`). Writers of a store's pages use `Deduplicator`.
Readers use `MessageRestorer`; `format.decode_line` restores `RUN_STARTED`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import cache, lru_cache
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from ..decision import AssistantMessage, Event, Policy
from ..decision.assembler import TextLength, block_of
from ..decision.events import (
    ReasoningMessageContent,
    ResponseFinished,
    RunFinished,
    RunStarted,
    TextMessageContent,
    ToolCallArgs,
    ToolCallStart,
    is_imported,
)
from ..decision.messages import NO_MESSAGE, MessageDeltas, Reasoning, new_call, new_message
from ..decision.settings import settings_to_record
from .format import DECODE_ERRORS, SHARED_FIELDS, Header, build_decoder, encode_line, leaves_out, packs, parse_line
from .parts_line import ArgumentsEntry, Entry, PartsLine, StartEntry, TextEntry, pack
from .short_forms import short_form, with_short_tools

MAX_DELTAS = 4096
"""A response with more deltas is written whole: that costs hardly anything, and it bounds what a reader has to keep."""
MESSAGE_PARTS: frozenset[type] = frozenset({TextMessageContent, ReasoningMessageContent, ToolCallStart, ToolCallArgs})
"""Types of events that make up a message."""
SHORTENED: frozenset[type] = frozenset({RunStarted, ResponseFinished, RunFinished})
"""Types of events from which something may be left out."""
_PREFIXES = tuple(f'{{"type":"{kind.__struct_config__.tag}"'.encode() for kind in cast(Any, MESSAGE_PARTS))
_RESPONSE = b'{"type":"RESPONSE_FINISHED"'
_DELTAS = b',"deltas":{"first":'
"""Bytes that encode `deltas` of a response. Inside a JSON text the quotation marks would be escaped."""

Part = TextMessageContent | ReasoningMessageContent | ToolCallStart | ToolCallArgs


class LineShortener:
    """Shortener of the lines of a record file, as far as the record's version allows. Feed it all lines, in order.

    header: that of the file that is appended to; None for a new one. first: reads the first run of that file, and is
    only called if a run begins in it.
    """

    def __init__(self, header: Header | None = None, first: Callable[[], RunStarted | None] | None = None) -> None:
        self._deduplicator = Deduplicator(first) if header is None or leaves_out(header) else None
        self._packs = header is None or packs(header)

    def shorten(self, lines: Iterable[Any]) -> list[Any]:
        """Return the lines as they are written. Lines of one call are written together."""
        if self._deduplicator is None:
            return list(lines)
        shortened: list[Any] = []
        for line in lines:
            if type(line) in MESSAGE_PARTS:
                self._deduplicator.hold(line)
                shortened.append(line)
            else:
                shortened.append(self._shortened(line, self._deduplicator) if type(line) in SHORTENED else line)
        return pack(shortened) if self._packs else shortened

    def _shortened(self, line: Any, deduplicator: Deduplicator) -> Any:
        if not self._packs:
            return deduplicator.feed(line)
        # tools last, because they are first compared with those of the first run
        return with_short_tools(deduplicator.feed(short_form(line)))


class Deduplicator:
    """Remover of what earlier lines already contain. Feed it the lines in the order in which they are written.

    first: reads the first run of the file, if there may be one already. in_file: whether later runs follow in the same
        file; each page of a store belongs to one run.
    """

    def __init__(self, first: Callable[[], RunStarted | None] | None = None, *, in_file: bool = True) -> None:
        self._read_first = first
        self._first: RunStarted | None = None
        self._in_file = in_file
        self._parts: deque[Part] = deque(maxlen=MAX_DELTAS + 1)
        self.hold: Callable[[Part], None] = self._parts.append
        """Process a part of a message, like `feed` but without checking the type first."""

    def feed(self, line: Any) -> Any:
        """Return the line as it is written."""
        kind = type(line)
        if kind in MESSAGE_PARTS:
            self._parts.append(line)
        elif kind is ResponseFinished:
            parts = [part for part in self._parts if part.attempt == line.attempt]
            self._parts.clear()
            return _without_message(line, parts)
        elif kind is RunStarted:
            self._parts.clear()
            if self._in_file:
                return self._without_shared(line)
        return line

    def _without_shared(self, started: RunStarted) -> RunStarted | dict[str, Any]:
        if self._first is None and self._read_first is not None:
            self._first = self._read_first()
        first = self._first = self._first or started
        if first is started or any(getattr(started, name) != getattr(first, name) for name in SHARED_FIELDS):
            return _with_short_policy(started) if is_imported(started.engine) else started
        plain: dict[str, Any] = msgspec.to_builtins(started, enc_hook=repr)
        for name in SHARED_FIELDS:
            plain.pop(name, None)
        return {**plain, "as_in": first.run_id}


def _with_short_policy(started: RunStarted) -> RunStarted:
    policy: Any = _short_policy(started.policy)
    return replace(started, policy=policy)


@lru_cache(maxsize=16)
def _short_policy(policy: Policy) -> msgspec.Raw:
    return msgspec.Raw(encode_line(settings_to_record(policy)))


def _without_message(response: ResponseFinished, parts: Sequence[Part]) -> ResponseFinished:
    if response.deltas is not None:  # read from a damaged record: missing parts stay missing
        return replace(response, message=NO_MESSAGE)
    if not 0 < len(parts) <= MAX_DELTAS or message_of(parts) != response.message:
        return response
    return replace(response, message=NO_MESSAGE, deltas=MessageDeltas(parts[0].seq, len(parts)))


def message_of(parts: Iterable[Part | Entry]) -> AssistantMessage:
    """Return the message that these parts of one attempt make up."""
    text: list[str] = []
    length = TextLength(text)
    reasoning: list[Reasoning] = []
    block: list[str] = []
    calls: dict[str, tuple[str, list[str]]] = {}
    part: Any  # types are compared instead of matched: most of the time of a scan is spent here
    for part in parts:
        kind = type(part)
        if kind is TextMessageContent or kind is TextEntry:
            text.append(part.delta)
        elif kind is ToolCallArgs or kind is ArgumentsEntry:
            calls.setdefault(part.call_id, ("", []))[1].append(part.delta)
        elif kind is ToolCallStart or kind is StartEntry:
            calls[part.call_id] = (part.name, [])
        else:
            _add_reasoning(part, block, reasoning, length, len(calls))
    if any(block):
        reasoning.append(Reasoning("".join(block)))
    made = tuple([new_call(id, name, "".join(arguments)) for id, (name, arguments) in calls.items()])
    return new_message("".join(text), made, tuple(reasoning))


def _add_reasoning(part: Any, block: list[str], reasoning: list[Reasoning], length: TextLength, calls: int) -> None:
    if part.redacted:
        reasoning.append(block_of(part.delta, part, length, calls))
        return
    block.append(part.delta)
    if part.signature:
        reasoning.append(block_of("".join(block), part, length, calls))
        block.clear()


class MessageRestorer:
    """Restorer of whole responses. Feed it the events of a record, or of one run, in order."""

    def __init__(self) -> None:
        self._parts: deque[Part | PartsLine | bytes] = deque(maxlen=MAX_DELTAS)
        self.hold_line: Callable[[bytes], None] = self._parts.append
        """Process the line of a part without decoding it. It is decoded if a response needs it."""
        self.hold: Callable[[PartsLine], None] = self._parts.append
        """Process the parts of a line."""

    def feed(self, event: Event) -> Event:
        """Return the whole event. A response that lacks deltas has the text of the others, and keeps `deltas`."""
        kind = type(event)
        if kind in MESSAGE_PARTS:
            self._parts.append(cast(Part, event))
        elif kind is ResponseFinished:
            return self.restore(cast(ResponseFinished, event))
        elif kind is RunStarted:
            self._parts.clear()
        return event

    def restore(self, response: ResponseFinished) -> ResponseFinished:
        """Return the whole response, as far as its deltas were there."""
        parts = list(self._parts)
        self._parts.clear()
        wanted = response.deltas
        if wanted is None:
            return response
        attempt, first, last = response.attempt, wanted.first, response.seq
        found: list[Part | Entry] = []
        count = 0
        for part in _decoded(parts):
            if part.attempt != attempt or part.seq >= last:
                continue
            if isinstance(part, PartsLine):
                for entry, deltas in part.message_parts(first):
                    found.append(entry)
                    count += deltas
            elif part.seq >= first:
                found.append(part)
                count += 1
        return replace(response, message=message_of(found), deltas=None if count == wanted.count else wanted)


def is_part(line: bytes) -> bool:
    """Return whether a line that endstop wrote is a part of a message."""
    return line.startswith(_PREFIXES)


def lacks_message(line: bytes) -> bool:
    """Return whether a line that endstop wrote is a response without its message."""
    return line.startswith(_RESPONSE) and _DELTAS in line


@cache
def _decode_parts() -> Callable[[bytes], list[Part]]:
    return build_decoder(list[Part])


def _decoded(parts: Sequence[Part | PartsLine | bytes]) -> Sequence[Part | PartsLine]:
    """Decode the parts that are lines; lines that are damaged are left out."""
    lines = [part for part in parts if type(part) is bytes]
    if len(lines) < len(parts) or not lines:
        return [one for part in parts if (one := _decoded_one(part)) is not None]
    try:
        return _decode_parts()(b"[%b]" % b",".join(lines))  # all at once is twice as fast
    except DECODE_ERRORS:
        return [one for line in lines if (one := _decoded_one(line)) is not None]


def _decoded_one(part: Part | PartsLine | bytes) -> Part | PartsLine | None:
    if not isinstance(part, bytes):
        return part
    decoded: Any = parse_line(part)
    return decoded if type(decoded) in MESSAGE_PARTS else None


def missing_deltas(response: ResponseFinished) -> str:
    """Describe, for people, what is missing of a response that could not be made whole."""
    assert response.deltas is not None
    return (
        f"the message of step {response.step} (event {response.seq}) stands in {response.deltas.count} deltas from "
        f"event {response.deltas.first} on, and not all of them are there"
    )
