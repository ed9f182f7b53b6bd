"""The texts in an event: what somebody said, by a table of types and fields, and a function applied to all of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ..decision import (
    AssistantMessage,
    Event,
    Image,
    Outcome,
    Question,
    Reasoning,
    SystemMessage,
    ToolCall,
    ToolResult,
    ToolSpec,
    UserMessage,
)
from ..decision import events as ev
from ..decision.chunks import AttemptEnded, ProviderToolReport, ReasoningDelta, TextDelta, ToolCallDelta
from ..decision.decisions import GoOn, Pause, Stop, TraceEntry
from ..decision.events import STREAM_PARTS, AttemptFailed, ResponseFinished, RunFinished, StepFinished, ToolCallResult
from ..decision.policy import Echo, Policy, Prompts
from .attachments import ATTACH_ABOVE, AttachmentReader, AttachmentWriter
from .compression import create_file
from .files import line_batches
from .format import DrainedChunk, Header, encode_line, parse_header, parse_line

Redact = Callable[[str], str]
"""A function from a text to what may be written of it. Called with whole texts; the same text, the same answer."""
REDACTION_FAILED = "[redacted: the function that redacts failed]"
"""Stands for a text with which the function raised, or for which it gave no text."""
MAX_LABELLED_CHARS = 500
"""Characters up to which a text is looked at together with its name."""
S = TypeVar("S", bound=Struct)

TEXT_FIELDS: dict[type, Mapping[str, str]] = {
    ev.RunStarted: {
        "prompt": "text",
        "system": "text",
        "policy": "struct",
        "tools": "many",
        "settings": "plain",
        "functions": "names",
        "carried": "struct",
        "before": "struct",
    },
    ev.Carried: {"phases": "many", "questions": "many"},
    ev.MessageAdded: {"text": "text"},
    ev.CancelRequested: {"cause": "text"},
    ev.RunFinished: {"outcome": "struct"},
    ev.AttemptFailed: {"message": "text", "text": "text"},
    ev.ResponseFinished: {"message": "struct"},
    ev.DecisionMade: {"decision": "struct"},
    ev.TextMessageContent: {"delta": "text"},
    ev.ReasoningMessageContent: {"delta": "text"},
    ev.ToolCallArgs: {"delta": "arguments"},
    ev.ProviderToolReported: {"arguments": "arguments", "result": "text"},
    ev.ToolCallResult: {"content": "text", "images": "many"},
    ev.CompletionAccepted: {"answer": "text", "pending_issues": "texts"},
    ev.CompletionRejected: {"reason": "text"},
    ev.PhaseReported: {"summary": "text", "next_phase": "text"},
    ev.QuestionAsked: {"text": "text", "confirms": "text", "pending_issues": "texts"},
    ev.QuestionAnswered: {"text": "text"},
    ev.ThoughtRecorded: {"text": "text"},
    ev.VerdictGiven: {"name": "text", "detail": "arguments"},
    ev.ContextCompacted: {"put_first": "many"},
    ev.StageFinished: {"detail": "text"},
    ev.EvaluationFinished: {"name": "text", "details": "plain"},
    DrainedChunk: {"chunk": "struct"},
    ProviderToolReport: {"arguments": "arguments", "result": "text"},
    AttemptEnded: {"message": "text", "text": "text"},
    Outcome: {
        "detail": "text",
        "answer": "text",
        "evaluation": "plain",
        "phases": "many",
        "pending_issues": "texts",
        "accepted_by": "texts",
        "questions": "many",
    },
    Question: {"text": "text", "confirms": "text", "pending_issues": "texts"},
    SystemMessage: {"text": "text"},
    UserMessage: {"text": "text"},
    AssistantMessage: {"text": "text", "calls": "many", "reasoning": "many"},
    ToolResult: {"content": "text", "images": "many"},
    ToolCall: {"arguments": "arguments"},
    Reasoning: {"text": "text"},
    Image: {"url": "text"},
    ToolSpec: {"description": "text", "parameters": "schema"},
    GoOn: {"say": "text", "why": "text", "remind": "text", "trace": "many"},
    Pause: {"trace": "many"},
    Stop: {"detail": "text", "trace": "many"},
    TraceEntry: {"saw": "plain", "said": "text"},
    Policy: {"prompts": "struct", "echo": "struct"},
    Prompts: dict.fromkeys(Prompts.__struct_fields__, "text"),
    Echo: {"phrases": "texts", "announcements": "texts"},
}
"""What is a text of somebody's, by type and field. All else are names, ids, numbers and words of ours."""
_REJECTED_BY = frozenset({"tool", "failed_call", "open_question", "user"})
"""Words of ours in `CompletionRejected.by`, which is else the name of a gate."""


class TextRedactor:
    """Applies a function to every text. Keyed anew for each: marks of results say nothing about what was in them."""

    def __init__(self, redact: Redact) -> None:
        self._redact = redact
        self._key = os.urandom(16)

    def text(self, text: str) -> str:
        """A text, redacted. Where the function fails, nothing of the text is left."""
        if not text:
            return text
        try:
            redacted = self._redact(text)
        except Exception:
            return REDACTION_FAILED
        return redacted if isinstance(redacted, str) else REDACTION_FAILED

    def arguments(self, text: str) -> str:
        """Arguments of a call: the texts and numbers in them, so that JSON stays JSON. What is no JSON is a text."""
        try:
            value = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return self.text(text)
        if not isinstance(value, dict | list):
            return self.text(text)
        redacted = {name: self._part(name, part) for name, part in value.items()} if isinstance(value, dict) else None
        redacted = self.plain(value) if redacted is None else redacted
        return text if redacted == value else msgspec.json.encode(redacted).decode()

    def plain(self, value: Any) -> Any:
        """Plain data of any depth, with every text in it redacted. A number becomes a text if it has to."""
        match value:
            case str():
                return self.text(value)
            case bool() | float() | None:
                return value
            case int():
                text = self.text(str(value))
                return value if text == str(value) else text
            case dict():
                return dict(self._members(value))
            case list() | tuple():
                return [self.plain(part) for part in value]
            case Struct():
                return self.struct(value)
            case _:
                return self.text(repr(value))

    def _members(self, value: Mapping[Any, Any]) -> Iterator[tuple[Any, Any]]:
        names: set[Any] = set()
        for name, part in value.items():
            called = name
            name = redacted = self.text(name) if isinstance(name, str) else name
            while name in names:
                name = f"{redacted} ({len(names)})"
            names.add(name)
            yield name, self._part(called, part)

    def _part(self, name: Any, part: Any) -> Any:
        """A part of plain data with the name that it has: only that may say what it is, as in `{"password": ...}`."""
        redacted = self.plain(part)
        if not isinstance(part, str):
            return redacted
        text = part
        if redacted != text or not isinstance(name, str) or len(text) > MAX_LABELLED_CHARS or '"' in text:
            return redacted
        begins = f'{name}="'
        whole = self.text(f'{begins}{text}"')
        return whole[len(begins) : -1] if whole.startswith(begins) and whole.endswith('"') else redacted

    def struct(self, struct: S) -> S:
        """An event, a message or a part of one."""
        changes: dict[str, Any] = {}
        for name, kind in TEXT_FIELDS.get(type(struct), {}).items():
            value = getattr(struct, name)
            if value:
                changes[name] = self._value(kind, value)
        if isinstance(struct, Reasoning) and changes.get("text", struct.text) != struct.text:
            changes["signature"] = ""  # it signs what was there
        if isinstance(struct, ev.ToolCallResult) and struct.fingerprint:
            mark = blake2b(struct.fingerprint.encode(), key=self._key, digest_size=8)  # what was there can be guessed
            changes["fingerprint"] = mark.hexdigest()
        if isinstance(struct, ev.CompletionRejected) and struct.by not in _REJECTED_BY:
            changes["by"] = self.text(struct.by)
        return replace(struct, **changes) if changes else struct

    def _value(self, kind: str, value: Any) -> Any:
        match kind:
            case "text":
                return self.text(value)
            case "texts":
                return tuple(map(self.text, value))
            case "arguments":
                return self.arguments(value)
            case "plain":
                return self.plain(value)
            case "schema":
                return _schema(value, self.text)
            case "names":
                return {role: tuple(map(self.text, names)) for role, names in value.items()}
            case "struct":
                return self.struct(value)
            case _:
                return tuple(self.plain(part) if isinstance(part, dict) else self.struct(part) for part in value)


_SCHEMA_TEXTS = frozenset({"description", "title", "default", "examples", "const", "enum"})
"""Members of a JSON Schema that hold what people wrote; all others are names and types."""


def _schema(value: Any, text: Redact, said: bool = False) -> Any:
    match value:
        case str():
            return text(value) if said else value
        case dict():
            return {name: _schema(part, text, said or name in _SCHEMA_TEXTS) for name, part in value.items()}
        case list() | tuple():
            return [_schema(part, text, said) for part in value]
        case _:
            return value


# Redaction of what goes into a record: each text of a user, a model or a tool, by a function from text to text.
#
# What the model sees is never changed, only what is written. The deltas of a response are held back until it is
# whole, because a secret may be cut anywhere: then each text is redacted as a whole and dealt out over its deltas
# again, so that a record has the same events at the same times. A process that is killed in the middle of a response
# therefore loses the events of that response, which is asked for again anyway.

_ENDS_RESPONSE = (ResponseFinished, AttemptFailed, StepFinished, RunFinished)


class StreamRedactor:
    """Takes the lines of a record in order, and gives those that may be written, redacted."""

    def __init__(self, redact: Redact) -> None:
        self._texts = TextRedactor(redact)
        self._held: list[Event | DrainedChunk] = []
        """A response that is not whole yet, with all that has happened meanwhile."""

    def feed(self, line: Event | DrainedChunk) -> Sequence[Event | DrainedChunk]:
        """What may be written now: this line, nothing yet, or a whole response."""
        if not self._held and type(line) not in STREAM_PARTS and type(line) is not DrainedChunk:
            return (self._texts.struct(line),)
        self._held.append(line)
        closes = isinstance(line, _ENDS_RESPONSE) and not (isinstance(line, AttemptFailed) and line.beside)
        return self.flush() if closes else ()

    def flush(self) -> Sequence[Event | DrainedChunk]:
        """What is still held back; nothing can be added to it any more."""
        held, self._held = self._held, []
        if not held:
            return ()
        dealt = ResponseDeltas(self._texts).dealt(held)
        return [dealt[number] if number in dealt else self._texts.struct(line) for number, line in enumerate(held)]


# The texts of a response that came in pieces.


class ResponseDeltas:
    """Puts the texts together, has them redacted, and deals them out again. For one response."""

    def __init__(self, texts: TextRedactor) -> None:
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
            case DrainedChunk(chunk=TextDelta()):
                stream = ("text", event.attempt, "after")
            case DrainedChunk(chunk=ReasoningDelta() as chunk):
                stream = self._reasoning(("reasoning", event.attempt, "after"), chunk)
            case DrainedChunk(chunk=ToolCallDelta(index=index)):
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
            dealt |= {number: _with_text(event, share) for (number, event), share in zip(pieces, shares, strict=True)}
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
        case DrainedChunk(chunk=ToolCallDelta(arguments=text)):
            return text
        case DrainedChunk(chunk=TextDelta(text) | ReasoningDelta(text)):
            return text
        case _:
            delta: str = event.delta
            return delta


def _with_text(event: Any, text: str) -> Any:
    """The delta with another text; what signed the old one goes."""
    match event:
        case DrainedChunk(chunk=ToolCallDelta() as chunk):
            return replace(event, chunk=replace(chunk, arguments=text))
        case DrainedChunk(chunk=ReasoningDelta(redacted=False) as chunk):
            return replace(event, chunk=replace(chunk, text=text, signature=""))
        case DrainedChunk(chunk=TextDelta() | ReasoningDelta() as chunk):
            return replace(event, chunk=replace(chunk, text=text))
        case ev.ReasoningMessageContent(redacted=False):
            return replace(event, delta=text, signature="")
        case _:
            return replace(event, delta=text)


# A record again, redacted: for records that were written without.


class RedactionCounts(Struct, frozen=True, kw_only=True):
    """What became of a record."""

    lines: int
    """Events and chunks that were written."""
    left_out: int
    """Lines that could not be read, or are of a kind that this endstop does not know: nobody could redact them."""
    missing: int
    """Attachments that were not there."""


def redact_file(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    redact: Redact,
    attach_above: int | None = ATTACH_ABOVE,
) -> RedactionCounts:
    """Write a record again, with its attachments, redacted; compressed if `target` ends in `.zst`.

    Memory does not depend on the record. Pictures are copied as they are. Raises WrongUse if the source is no record,
    or if there is a target already.
    """
    redactor, attachments = StreamRedactor(redact), AttachmentReader(source)
    writer = AttachmentWriter(target, attach_above)
    lines = left_out = 0
    header: Header | None = None

    def written(ready: Iterable[Event | DrainedChunk]) -> bytes:
        return b"".join(
            encode_line(writer.write(line) if isinstance(line, ToolCallResult) else line) + b"\n" for line in ready
        )

    with create_file(Path(target)) as file:
        for batch in line_batches(source):
            if header is None:
                header = parse_header(source, batch[0])
                file.write(encode_line(header) + b"\n")
            for line in batch:
                said = parse_line(line)
                if isinstance(said, str):
                    left_out += said != "blank"
                elif not isinstance(said, Header):
                    whole = attachments.restore(said) if isinstance(said, ToolCallResult) else said
                    file.write(written(redactor.feed(whole)))
                    lines += 1
        file.write(written(redactor.flush()))
        if header is None:
            parse_header(source, b"")
    return RedactionCounts(lines=lines, left_out=left_out, missing=len(attachments.missing))
