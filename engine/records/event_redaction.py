"""Redaction of events: apply a function from text to text to every text of a user, a model or a tool.

A session redacts what it writes; the model sees, and the caller gets, everything unchanged. `TEXT_FIELDS` says which
fields hold such texts. A secret may be cut anywhere between two deltas of a response, so the deltas are held back until
the response is complete. Then each text is redacted as a whole and divided among its deltas again: a redacted record
has the same events at the same times. A process that is killed in the middle of a response loses the events of that
response, which is requested again anyway.
"""

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
from ..decision.events import STREAM_PARTS, AttemptFailed, ResponseFinished, RunFinished, StepFinished
from ..decision.policy import Echo, Policy, Prompts
from .attachments import ATTACH_ABOVE, AttachmentReader, AttachmentWriter
from .compression import create_file
from .deduplication import LineShortener
from .files import line_batches
from .format import DrainedChunk, Header, encode_line, parse_header
from .reader import LineReader

Redact = Callable[[str], str]
"""Takes a complete text and returns what may be written of it. Must return the same for the same text."""
REDACTION_FAILED = "[redacted: the function that redacts failed]"
"""Replaces a text for which the function raised, or did not return a string."""
MAX_LABELLED_CHARS = 4000
"""A value of at most this many characters is also redacted together with its name and the values beside it."""
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
        "source": "struct",
        "images": "many",
        "history": "many",
    },
    ev.SubagentStarted: {"record": "text"},
    ev.SessionSource: {"file": "text", "id": "text"},
    ev.Carried: {"phases": "many", "questions": "many"},
    ev.AlarmRaised: {"detail": "text"},
    ev.MessageAdded: {"text": "text", "images": "many"},
    ev.CancelRequested: {"cause": "text"},
    ev.RunFinished: {"outcome": "struct"},
    ev.AttemptFailed: {"message": "text", "text": "text"},
    ev.ResponseFinished: {"message": "struct"},
    ev.DecisionMade: {"decision": "struct"},
    ev.TextMessageContent: {"delta": "text"},
    ev.ReasoningMessageContent: {"delta": "text"},
    ev.ToolCallArgs: {"delta": "arguments"},
    ev.ProviderToolReported: {"arguments": "arguments", "result": "text"},
    ev.ToolProgress: {"text": "text"},
    ev.ToolCallResult: {"content": "text", "images": "many"},
    ev.CompletionAccepted: {"answer": "text", "pending_issues": "texts"},
    ev.CompletionRejected: {"reason": "text"},
    ev.PhaseReported: {"summary": "text", "next_phase": "text"},
    ev.QuestionAsked: {"text": "text", "confirms": "text", "pending_issues": "texts", "arguments": "plain"},
    ev.QuestionAnswered: {"text": "text", "arguments": "plain", "images": "many"},
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
    Question: {"text": "text", "confirms": "text", "pending_issues": "texts", "arguments": "plain"},
    SystemMessage: {"text": "text"},
    UserMessage: {"text": "text", "images": "many"},
    AssistantMessage: {"text": "text", "calls": "many", "reasoning": "many"},
    ToolResult: {"content": "text", "images": "many"},
    ToolCall: {"arguments": "arguments"},
    Reasoning: {"text": "text"},
    Image: {"url": "text"},
    ToolSpec: {"description": "text", "parameters": "schema"},
    GoOn: {"say": "text", "why": "text", "remind": "text", "trace": "many"},
    Pause: {"say": "text", "trace": "many"},
    Stop: {"detail": "text", "trace": "many"},
    TraceEntry: {"saw": "plain", "said": "text"},
    Policy: {"prompts": "struct", "echo": "struct"},
    Prompts: dict.fromkeys(Prompts.__struct_fields__, "text"),
    Echo: {"phrases": "texts", "announcements": "texts"},
}
"""The fields that hold texts of a user, a model or a tool, by type, and how each is redacted (see
`TextRedactor._field`). All other fields are names, ids, numbers and our own words.
"""
_REJECTED_BY = frozenset({"tool", "failed_call", "open_question", "user"})
"""Our own words in `CompletionRejected.by`. Any other value is the name of a gate, and so a text."""


class TextRedactor:
    """Redacts the texts in an event, a message or plain data.

    Each instance has a random key for the fingerprints of results: equal results keep equal fingerprints, but nobody
    can confirm a guessed result by computing its fingerprint.
    """

    def __init__(self, redact: Redact) -> None:
        self._redact = redact
        self._key = os.urandom(16)

    def text(self, text: str) -> str:
        """Redact a text. If the function fails, nothing of the text is kept."""
        if not text:
            return text
        try:
            redacted = self._redact(text)
        except Exception:
            return REDACTION_FAILED
        return redacted if isinstance(redacted, str) else REDACTION_FAILED

    def arguments(self, text: str) -> str:
        """Redact the JSON arguments of a call, value by value, so that they stay JSON. Invalid JSON is a text."""
        try:
            value = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return self.text(text)
        if not isinstance(value, dict | list):
            return self.text(text)
        redacted = dict(zip(value, self._values(value), strict=True)) if isinstance(value, dict) else self.plain(value)
        return text if redacted == value else msgspec.json.encode(redacted).decode()

    def plain(self, value: Any) -> Any:
        """Redact every text in plain data of any depth. An integer that must be redacted becomes a text."""
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
        for name, part in zip(value, self._values(value), strict=True):
            redacted = name = self.text(name) if isinstance(name, str) else name
            while name in names:
                name = f"{redacted} ({len(names)})"
            names.add(name)
            yield name, part

    def _is_secret(self, part: Reasoning | ReasoningDelta | ev.ReasoningMessageContent) -> bool:
        """Whether redaction would change an item that its vendor wants back unchanged. The item is then left out."""
        return bool(part.redacted and part.vendor) and self.arguments(part.signature) != part.signature

    def _values(self, members: Mapping[Any, Any]) -> list[Any]:
        """Redact the values of a mapping, alone and then with the names and the values beside them.

        A password looks like any text without its `"password":`, and a part of a key without the others.
        """
        alone = [self.plain(part) for part in members.values()]
        labelled = {
            number: (f'"{name}": "', part)
            for number, (name, part) in enumerate(members.items())
            if isinstance(part, str) and isinstance(name, str) and len(part) <= MAX_LABELLED_CHARS and '"' not in part
        }
        together = self._labelled(list(labelled.values()))
        if together is None:
            together = [(self._labelled([one]) or [one[1]])[0] for one in labelled.values()]
        for number, text in zip(labelled, together, strict=True):
            if alone[number] == labelled[number][1]:
                alone[number] = text
        return alone

    def _labelled(self, members: Sequence[tuple[str, str]]) -> list[str] | None:
        """These texts, redacted together, each after its label; None if what came out cannot be divided again."""
        whole = self.text(",\n".join(f'{label}{text}"' for label, text in members))
        texts: list[str] = []
        at = 0
        for number, (label, _) in enumerate(members):
            end = whole.find('"', at + len(label))
            if not whole.startswith(label, at) or end < 0:
                return None
            texts.append(whole[at + len(label) : end])
            at = end + 1
            if number + 1 < len(members):
                if not whole.startswith(",\n", at):
                    return None
                at += 2
        return texts if at == len(whole) else None

    def struct(self, struct: S) -> S:
        """Redact an event, a message, or a part of one."""
        changes: dict[str, Any] = {}
        for name, kind in TEXT_FIELDS.get(type(struct), {}).items():
            value = getattr(struct, name)
            if value:
                changes[name] = self._field(kind, value)
        if isinstance(struct, Reasoning) and changes.get("text", struct.text) != struct.text:
            changes["signature"] = ""  # it was made for the original text
        if isinstance(struct, Reasoning | ReasoningDelta | ev.ReasoningMessageContent) and self._is_secret(struct):
            changes["signature"] = ""
        if isinstance(struct, ev.ToolCallResult) and struct.fingerprint:
            mark = blake2b(struct.fingerprint.encode(), key=self._key, digest_size=8)
            changes["fingerprint"] = mark.hexdigest()
        if isinstance(struct, ev.CompletionRejected) and struct.by not in _REJECTED_BY:
            changes["by"] = self.text(struct.by)
        return replace(struct, **changes) if changes else struct

    def _field(self, kind: str, value: Any) -> Any:
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
"""Members of a JSON Schema that hold texts; all others are names and types."""


def _schema(value: Any, text: Redact, is_text: bool = False) -> Any:
    match value:
        case str():
            return text(value) if is_text else value
        case dict():
            return {name: _schema(part, text, is_text or name in _SCHEMA_TEXTS) for name, part in value.items()}
        case list() | tuple():
            return [_schema(part, text, is_text) for part in value]
        case _:
            return value


# ---- streams of events

_ENDS_RESPONSE = (ResponseFinished, AttemptFailed, StepFinished, RunFinished)


class StreamRedactor:
    """Takes the events of a session in order, and returns them redacted as soon as they may be written."""

    def __init__(self, redact: Redact) -> None:
        self._texts = TextRedactor(redact)
        self._held: list[Event | DrainedChunk] = []
        """The events of an unfinished response, and what has happened since it began."""

    def feed(self, line: Event | DrainedChunk) -> Sequence[Event | DrainedChunk]:
        """Add an event; return what may be written now: this event, nothing, or a whole response."""
        if not self._held and type(line) not in STREAM_PARTS and type(line) is not DrainedChunk:
            return (self._texts.struct(line),)
        self._held.append(line)
        closes = isinstance(line, _ENDS_RESPONSE) and not (isinstance(line, AttemptFailed) and line.beside)
        return self.flush() if closes else ()

    def flush(self) -> Sequence[Event | DrainedChunk]:
        """Return what is still held back, as if its response were complete."""
        held, self._held = self._held, []
        if not held:
            return ()
        deltas = _DeltaRedactor(self._texts).redact(held)
        return [self._line(line, deltas.get(number)) for number, line in enumerate(held)]

    def _line(self, line: Event | DrainedChunk, delta: Any) -> Event | DrainedChunk:
        """A line, redacted. `delta`: the same line, redacted as a part of its text; None for other lines."""
        if delta is None or (isinstance(line, ev.ReasoningMessageContent) and line.redacted):
            return self._texts.struct(line)
        redacted: Event | DrainedChunk = delta
        return redacted


class _DeltaRedactor:
    """Redacts the deltas of one response: joins them to whole texts, redacts these, and divides them again."""

    def __init__(self, texts: TextRedactor) -> None:
        self._texts = texts
        self._pieces: dict[tuple[Any, ...], list[tuple[int, Any]]] = {}
        self._block: dict[tuple[Any, ...], int] = {}
        """The number of the current reasoning block, by stream. A signature ends a block."""

    def _add(self, number: int, event: Any) -> None:
        """Add the delta to the text that it belongs to; other events are ignored."""
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

    def redact(self, lines: Iterable[Any]) -> dict[int, Any]:
        """The deltas among these lines, redacted, by their indices."""
        for number, line in enumerate(lines):
            self._add(number, line)
        redacted_deltas: dict[int, Any] = {}
        for (kind, *_), pieces in self._pieces.items():
            texts = [_delta_of(event) for _, event in pieces]
            whole = "".join(texts)
            redacted = self._texts.arguments(whole) if kind == "arguments" else self._texts.text(whole)
            if redacted == whole:
                redacted_deltas |= dict(pieces)
                continue
            shares = _shares(redacted, [len(text) for text in texts])
            redacted_deltas |= {
                number: _with_text(event, share) for (number, event), share in zip(pieces, shares, strict=True)
            }
        return redacted_deltas


def _shares(text: str, lengths: Sequence[int]) -> list[str]:
    """Divide the text into as many pieces, with lengths in proportion to these."""
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
    """The delta with another text, and without the signature of the old one."""
    match event:
        case DrainedChunk(chunk=ToolCallDelta() as chunk):
            return replace(event, chunk=replace(chunk, arguments=text, pieces=()))
        case DrainedChunk(chunk=ReasoningDelta(redacted=False) as chunk):
            return replace(event, chunk=replace(chunk, text=text, signature="", pieces=()))
        case DrainedChunk(chunk=TextDelta() | ReasoningDelta() as chunk):
            return replace(event, chunk=replace(chunk, text=text, pieces=()))
        case ev.ReasoningMessageContent(redacted=False):
            return replace(event, delta=text, signature="")
        case _:
            return replace(event, delta=text)


# ---- files


class RedactionCounts(Struct, frozen=True, kw_only=True):
    """What `redact_file` has done, in numbers."""

    lines: int
    """Events and chunks that were written."""
    left_out: int
    """Lines that were left out because they cannot be decoded, and so not redacted: damaged, or of a newer version."""
    missing: int
    """Attachments that do not exist."""


def redact_file(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    redact: Redact,
    attach_above: int | None = ATTACH_ABOVE,
) -> RedactionCounts:
    """Write a redacted copy of a record and its attachments; compressed if `target` ends in `.zst`.

    Memory does not depend on the size of the record. Images are copied unchanged. Raises WrongUse if the source is not
    a record, or if the target exists.
    """
    redactor, attachments, reader = StreamRedactor(redact), AttachmentReader(source), LineReader()
    writer = AttachmentWriter(target, attach_above)
    lines = left_out = 0
    header: Header | None = None
    shortener = LineShortener()

    def encode(ready: Iterable[Event | DrainedChunk]) -> bytes:
        return b"".join(encode_line(line) + b"\n" for line in shortener.shorten(map(writer.write, ready)))

    with create_file(Path(target)) as file:
        for batch in line_batches(source):
            if header is None:
                header = parse_header(source, batch[0])
                shortener = LineShortener(header)
                file.write(encode_line(header) + b"\n")
            for line in batch:
                for parsed in reader.parse(line):
                    if isinstance(parsed, str):
                        left_out += parsed != "blank"
                    elif not isinstance(parsed, Header):
                        file.write(encode(redactor.feed(attachments.restore(parsed))))
                        lines += 1
        file.write(encode(redactor.flush()))
        if header is None:
            parse_header(source, b"")
    return RedactionCounts(lines=lines, left_out=left_out, missing=len(attachments.missing))
