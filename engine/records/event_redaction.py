"""Redaction of events: apply a function from text to text to every text of a user, a model or a tool.

A session redacts what it writes; the model sees, and the caller gets, everything unchanged. The type of a field says
whether it holds such a text: `Text`, `Json` and the like in `decision/messages.py`. A secret may be cut anywhere
between two deltas of a response, so the deltas are held back until the response is complete. Then each text is redacted
as a whole and divided among its deltas again: a redacted record has the same events at the same times. A process that
is killed in the middle of a response loses the events of that response, which is requested again anyway.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ..decision import Event, Reasoning
from ..decision import events as ev
from ..decision.chunks import ReasoningDelta, TextDelta, ToolCallDelta
from ..decision.events import STREAM_PARTS, AttemptFailed, ResponseFinished, RunFinished, StepFinished
from ..decision.messages import Redacted
from .attachments import AttachmentReader, AttachmentWriter
from .compression import create_file
from .deduplication import LineShortener
from .files import line_batches
from .format import ATTACH_ABOVE, DrainedChunk, Header, Redact, encode_line, encode_lines, parse_header
from .known_secrets import KnownSecrets
from .reader import LineReader

REDACTION_FAILED = "[redacted: the function that redacts failed]"
"""Replaces a text for which the function raised, or did not return a string."""
MAX_LABELLED_CHARS = 4000
"""A value of at most this many characters is also redacted together with its name and the values beside it."""
S = TypeVar("S", bound=Struct)

_REJECTED_BY = frozenset({"tool", "failed_call", "open_question", "until", "user"})
"""Our own words in `CompletionRejected.by`. Any other value is the name of a gate, and so a text."""


@cache
def redacted_fields(kind: type[Struct]) -> Mapping[str, Redacted | None]:
    """How each field of a type is redacted; None: as the values in it are. Fields that are not redacted are left out.

    A field's type says it: `Text`, `Json` and the like, free data (`Any`), or a type that has such fields.
    """
    hints = get_type_hints(kind, include_extras=True)
    marks = {name: _marks(hints[name], set()) for name in kind.__struct_fields__}
    return {name: next(iter(found)) for name, found in marks.items() if found}


def _marks(hint: Any, seen: set[type]) -> Set[Redacted | None]:
    """What redaction finds in a type. seen: types that were looked at already, since a type may hold its own kind."""
    if hint is Any:
        return {None}
    if get_origin(hint) is Annotated:
        return {mark for mark in hint.__metadata__ if isinstance(mark, Redacted)}
    if not (isinstance(hint, type) and issubclass(hint, Struct)):
        return {mark for part in get_args(hint) for mark in _marks(part, seen)}
    if hint in seen:
        return set()
    seen.add(hint)
    hints = get_type_hints(hint, include_extras=True)
    return {None for name in hint.__struct_fields__ if _marks(hints[name], seen)}


class TextRedactor:
    """Redacts the texts in an event, a message or plain data.

    redact: None: only what is known is hidden. known: hides what is known to be secret; in names, too, and before
    `redact` sees a text.

    Each instance has a random key for the fingerprints of results: equal results keep equal fingerprints, but nobody
    can confirm a guessed result by computing its fingerprint.
    """

    def __init__(self, redact: Redact | None, known: Redact | None = None) -> None:
        self._redact = redact
        self._known = known
        self._key = os.urandom(16)

    def text(self, text: str) -> str:
        """Redact a text. If the function fails, nothing of the text is kept."""
        if not text:
            return text
        try:
            redacted = text if self._known is None else self._known(text)
            redacted = redacted if self._redact is None else self._redact(redacted)
        except Exception:
            return REDACTION_FAILED
        return redacted if isinstance(redacted, str) else REDACTION_FAILED

    def arguments(self, text: str) -> str:
        """Redact the JSON arguments of a call, value by value, so that they stay JSON.

        Invalid JSON is redacted as a text, and so is JSON that is nested too deep to be walked.
        """
        try:
            return self._json(text)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return self.text(text)

    def _json(self, text: str) -> str:
        value = msgspec.json.decode(text)
        if not isinstance(value, dict | list):
            return self.text(text)
        if isinstance(value, dict):
            known = self._known or str
            redacted: Any = {known(name): part for name, part in zip(value, self._values(value), strict=True)}
        else:
            redacted = self.plain(value)
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
        for name, how in redacted_fields(type(struct)).items():
            value = getattr(struct, name)
            if value and how is not Redacted.NAME:
                changes[name] = self._field(how, value)
        if isinstance(struct, Reasoning) and changes.get("text", struct.text) != struct.text:
            changes["signature"] = ""  # it was made for the original text
        if isinstance(struct, Reasoning | ReasoningDelta | ev.ReasoningMessageContent) and self._is_secret(struct):
            changes["signature"] = ""
        if isinstance(struct, ev.ToolCallResult) and struct.fingerprint and self._changes_results(struct, changes):
            mark = blake2b(struct.fingerprint.encode(), key=self._key, digest_size=8)
            changes["fingerprint"] = mark.hexdigest()
        if isinstance(struct, ev.CompletionRejected) and struct.by not in _REJECTED_BY:
            changes["by"] = self.text(struct.by)
        return self.names(replace(struct, **changes) if changes else struct)

    def _changes_results(self, result: ev.ToolCallResult, changes: Mapping[str, Any]) -> bool:
        return self._redact is not None or changes.get("content", result.content) != result.content

    def names(self, struct: S) -> S:
        """Hide what is known to be secret in the names of an event, a message, or a part of one."""
        known = self._known
        if known is None:
            return struct
        changes: dict[str, Any] = {}
        for field, how in redacted_fields(type(struct)).items():
            value = getattr(struct, field)
            if how is Redacted.NAME and value:
                changes[field] = known(value) if isinstance(value, str) else tuple(map(known, value))
        if isinstance(struct, DrainedChunk):
            changes["chunk"] = self.names(struct.chunk)
        changes = {field: value for field, value in changes.items() if value != getattr(struct, field)}
        return replace(struct, **changes) if changes else struct

    def _field(self, how: Redacted | None, value: Any) -> Any:
        match how, value:
            case Redacted.JSON, _:
                return self.arguments(value)
            case Redacted.SCHEMA, _:
                return _schema(value if self._known is None else TextRedactor(self._known).plain(value), self.text)
            case Redacted.TEXT, dict():
                return {name: self._field(how, part) for name, part in value.items()}
            case _, tuple():
                return tuple(self._field(how, part) for part in value)
            case _:
                return self.plain(value)


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
    """Takes the events of a session in order, and returns them redacted as soon as they may be written.

    redact, known: see `TextRedactor`.
    """

    def __init__(self, redact: Redact | None, known: Redact | None = None) -> None:
        self._texts = TextRedactor(redact, known)
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
        return _DeltaRedactor(self._texts).redact(held)


class KnownRedactor:
    """Hides what is known to be secret in batches of events, where it occurs at all."""

    def __init__(self, known: KnownSecrets) -> None:
        self._known = known
        self._texts = TextRedactor(None, known)

    def redact(self, lines: list[Event | DrainedChunk]) -> list[Event | DrainedChunk]:
        """These lines, which hold whole responses, redacted."""
        if not self._known.occur_in(b"\n".join(_texts_of(lines))):
            return lines
        return _DeltaRedactor(self._texts).redact(lines)

    def may_be_written(self, lines: list[Event | DrainedChunk]) -> bool:
        """Whether lines that end within a response may be written as they are: no secret stands or begins in them."""
        *unfinished, others = _texts_of(lines)
        if any(map(self._known.may_begin_at_end_of, unfinished)):
            return False
        return not self._known.occur_in(b"\n".join([*unfinished, others]))


def _texts_of(lines: Iterable[Event | DrainedChunk]) -> list[bytes]:
    """The texts of which these lines have deltas, each joined, and behind them all other lines, in UTF-8."""
    texts: dict[str, list[str]] = {}
    reasoning: dict[str, list[str]] = {}
    others: list[Any] = []
    for line in lines:
        match line:
            case ev.TextMessageContent():
                pieces = texts.get(line.attempt)
            case ev.ToolCallArgs():
                pieces = texts.get(line.call_id)
            case ev.ReasoningMessageContent(signature=""):
                pieces = reasoning.get(line.attempt)
            case _:
                others.append(line)
                continue
        if pieces is not None:
            pieces.append(line.delta)
        elif isinstance(line, ev.ReasoningMessageContent):
            reasoning[line.attempt] = [line.delta]
            others.append(line)
        else:
            texts[line.call_id if isinstance(line, ev.ToolCallArgs) else line.attempt] = [line.delta]
    joined = ["".join(pieces) for pieces in (*texts.values(), *reasoning.values())]
    return [*(text.encode("utf-8", "surrogatepass") for text in joined), encode_lines(others)]


class _DeltaRedactor:
    """Redacts the deltas of one response: joins them to whole texts, redacts these, and divides them again."""

    def __init__(self, texts: TextRedactor) -> None:
        self._texts = texts
        self._pieces: dict[tuple[Any, ...], list[int]] = {}
        """The indices of the deltas of each text."""
        self._block: dict[tuple[Any, ...], int] = {}
        """The number of the current reasoning block, by stream. A signature ends a block."""

    def _stream(self, event: Any) -> tuple[Any, ...] | None:
        """The text that a delta belongs to; None for other events, and for what only its vendor can read."""
        match event:
            case ev.TextMessageContent():
                return ("text", event.attempt)
            case ev.ToolCallArgs():
                return ("arguments", event.attempt, event.call_id)
            case ev.ReasoningMessageContent():
                stream = self._reasoning(("reasoning", event.attempt), event)
                return None if event.redacted else stream
            case DrainedChunk(chunk=TextDelta()):
                return ("text", event.attempt, "after")
            case DrainedChunk(chunk=ReasoningDelta() as chunk):
                return self._reasoning(("reasoning", event.attempt, "after"), chunk)
            case DrainedChunk(chunk=ToolCallDelta(index=index)):
                return ("arguments", event.attempt, "after", index)
            case _:
                return None

    def _reasoning(self, stream: tuple[Any, ...], part: Any) -> tuple[Any, ...]:
        block = self._block.get(stream, 0)
        if part.signature or part.redacted:
            self._block[stream] = block + 1
        return (*stream, block)

    def redact(self, lines: Sequence[Any]) -> list[Any]:
        """These lines, redacted."""
        redacted = list(lines)
        for number, line in enumerate(lines):
            stream = self._stream(line)
            if stream is None:
                redacted[number] = self._texts.struct(line)
            elif stream in self._pieces:
                self._pieces[stream].append(number)
            else:
                self._pieces[stream] = [number]
        for (kind, *_), numbers in self._pieces.items():
            self._redact_text(kind, numbers, redacted)
        return redacted

    def _redact_text(self, kind: str, numbers: Sequence[int], lines: list[Any]) -> None:
        """Redact the deltas of one text, and the names in them: these are the same in all, but for reasoning."""
        texts = [_delta_of(lines[number]) for number in numbers]
        whole = "".join(texts)
        redacted = self._texts.arguments(whole) if kind == "arguments" else self._texts.text(whole)
        if redacted != whole:
            for number, share in zip(numbers, _shares(redacted, [len(text) for text in texts]), strict=True):
                lines[number] = _with_text(lines[number], share)
        if kind == "reasoning" or self._texts.names(lines[numbers[0]]) is not lines[numbers[0]]:
            for number in numbers:
                lines[number] = self._texts.names(lines[number])


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
                header = parse_header(source, batch)
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
            parse_header(source, ())
    return RedactionCounts(lines=lines, left_out=left_out, missing=len(attachments.missing))
