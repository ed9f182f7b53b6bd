"""The record format: the types of its lines, and how to encode and decode them.

A record is JSON Lines: a header, then events, of which each run has its own sequence from RUN_STARTED on, and chunks
that were read after a response was cut. All readers and writers of records go through this module.
"""

from __future__ import annotations

import json
import os
from _thread import allocate_lock
from collections.abc import Callable, Iterable
from functools import cache, lru_cache
from typing import Any, Literal

import msgspec
from msgspec import NODEFAULT, Raw, Struct

from ..decision import (
    AnyChunk,
    Event,
    FinishReport,
    Policy,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    ToolSpec,
    WrongUse,
)
from ..decision.events import CutOff, ResponseFinished, RunStarted
from ..decision.messages import NO_MESSAGE
from ..decision.settings import settings_from_record
from ..decision.transcript import estimate_tokens
from .parts_line import PartsLine

FORMAT = "endstop-record"
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
"""Bytes that some programs put before the first line of a UTF-8 file."""
VERSION = (3, 0)
"""Major and minor version. A reader refuses a newer major version and skips events that it does not know.

Version 2 leaves out what a record holds twice (`deduplication.py`); version 3 also writes parts of a response that are
written together as one line (`parts_line.py`). A record begun in an older version is continued in that version.
"""


ATTACH_ABOVE = 256 * 1024
"""Default limit in bytes above which a text or image is attached (`attachments.py`)."""
Redact = Callable[[str], str]
"""Function that returns what may be written of a complete text. Must return the same for the same text."""
REDACTION_MARK = "[redacted:"
"""Prefix of each text that endstop's own redaction inserts. What another redaction inserts is unknown."""
NO_RUN = "the record holds no run: its process was killed before a run began, so start again"
SHARED_FIELDS = ("system", "policy", "tools")
"""Fields of RUN_STARTED that a later run of a file leaves out if all are equal to those of its first run."""
MAX_WHOLE = 2.0**53
"""Limit below which a whole float is exactly that number."""
DECODE_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Exceptions that decoding a line may raise."""


class Header(Struct, frozen=True, kw_only=True, tag="HEADER"):
    """First line of a record."""

    format: str = FORMAT
    version: str = f"{VERSION[0]}.{VERSION[1]}"
    session_id: str
    created_at: str = ""
    engine: str = ""


class DrainedChunk(Struct, frozen=True, kw_only=True, tag="AFTER_CUT"):
    """A chunk that arrived after its response was cut, read only to measure what the cut saved. It is not an event."""

    attempt: str
    chunk: AnyChunk


BadLine = Literal["damaged", "blank", "unknown"]
"""Reason why a line could not be decoded. `unknown`: an event of a newer minor version."""
Decoded = Header | DrainedChunk | PartsLine | Event
"""A decoded line."""


def summarize_drained(chunks: Iterable[AnyChunk]) -> CutOff:
    """Return what a cut saved: the tokens and calls in the chunks that arrived after it."""
    characters = 0
    calls: dict[tuple[int, str], str] = {}
    complete = False
    for chunk in chunks:
        match chunk:
            case TextDelta(text=text) | ReasoningDelta(text=text):
                characters += len(text)
            case ToolCallDelta():
                characters += len(chunk.name) + len(chunk.arguments)
                if chunk.name:
                    calls[chunk.index, chunk.id] = chunk.name
            case FinishReport():
                complete = True
            case _:
                pass
    return CutOff(output_tokens=estimate_tokens(characters), calls=tuple(calls.values()), whole=complete)


def step_of_attempt(attempt: str) -> int:
    """Return the step of an attempt, whose id is `{step}.{number}`; 0 if the id has no step."""
    step = attempt.partition(".")[0]
    return int(step) if step.isdecimal() else 0


# ---- encoding

_encoder = msgspec.json.Encoder()
encode_lines = _encoder.encode_lines
"""Encode many lines, each with its line feed. Raises TypeError or ValueError if one of them cannot be JSON."""


def encode_line(line: object) -> bytes:
    """Encode one line, without a line feed. What JSON cannot express becomes its `repr`, and a lone surrogate `?`."""
    try:
        return _encoder.encode(line)
    except (TypeError, ValueError):
        return json.dumps(msgspec.to_builtins(line, enc_hook=repr), ensure_ascii=False).encode("utf-8", "replace")


# ---- decoding


class _Beginning(Struct):
    type: str = ""
    format: str = ""


_decode_beginning = msgspec.json.Decoder(_Beginning).decode


def begins_record(lines: Iterable[bytes]) -> bool:
    """Return whether the first of these lines that is not blank is the header of a record of any version.

    Like every line of a record it is JSON: spaces, the order of members and a byte order mark do not matter.
    """
    try:
        begins = _decode_beginning(_first_of(lines))
    except DECODE_ERRORS:
        return False
    return (begins.type, begins.format) == ("HEADER", FORMAT)


def _first_of(lines: Iterable[bytes]) -> bytes:
    """Return the first line that is not blank, without a byte order mark; empty if there is none."""
    plain = (line.removeprefix(BYTE_ORDER_MARK) for line in lines)
    return next((line for line in plain if line.strip()), b"")


_decode_header = msgspec.json.Decoder(Header).decode


def parse_header(path: str | os.PathLike[str], lines: Iterable[bytes]) -> Header:
    """Parse the header in the first lines of a file. Raises WrongUse if there is none, or of a newer major version."""
    line = _first_of(lines)
    if not line:
        raise WrongUse(f"{path} is not an endstop record: it is empty, or its first line is")
    try:
        header = _decode_header(line)
    except DECODE_ERRORS:
        header = None
    if header is None or header.format != FORMAT:
        raise WrongUse(f"{path} is not an endstop record: its first line is not a record header")
    major = header.version.split(".", 1)[0]
    if not (major.isdecimal() and len(major) < 10):
        raise WrongUse(f"{path} is damaged: its version is {header.version!r}, but should look like {VERSION[0]}.0")
    if int(major) > VERSION[0]:
        raise WrongUse(
            f"{path} has version {header.version}, but this endstop reads up to {VERSION[0]}.x: upgrade endstop"
        )
    return header


def leaves_out(header: Header) -> bool:
    """Return whether lines of a record with this header may leave out what the record holds elsewhere."""
    return int(header.version.split(".", 1)[0]) >= 2


def packs(header: Header) -> bool:
    """Return whether a record with this header may have lines with several events (`parts_line.py`)."""
    return int(header.version.split(".", 1)[0]) >= 3


_BUILDING = allocate_lock()  # of `threading`, which a hook of an agent does not import


def build_decoder(kind: Any) -> Callable[[bytes], Any]:
    """Build a decoder for lines of a type: while one thread builds one, others wait.

    msgspec learns a type at its first use, and keeps what it has learnt before it knows all of it. A second thread that
    comes to the same type meanwhile crashes the process (msgspec 0.22).
    """
    with _BUILDING:
        return msgspec.json.Decoder(kind).decode


@cache
def _decode() -> Callable[[bytes], Decoded]:
    """Return the decoder for all types of lines. Building it takes 10 ms, which who only writes a record saves."""
    return build_decoder(Decoded)


def decode_generic(line: bytes, first: RunStarted | None = None) -> Decoded:
    """Decode any line with the decoder for all types of lines. `decode_line` is faster for RUN_STARTED lines.

    Raises one of `DECODE_ERRORS`.
    """
    try:
        decoded = _decode()(line)
    except msgspec.ValidationError:
        if b'"as_in"' not in line:
            raise
        return decode_run_started(line, first)
    kind = type(decoded)
    if kind is RunStarted:  # fields in another order: decode it again, with the defaults of its time
        return decode_run_started(line, first)
    if kind is ResponseFinished and decoded.message is NO_MESSAGE and decoded.deltas is None:  # type: ignore[union-attr]
        raise msgspec.ValidationError("Object missing required field `message`")
    if kind is PartsLine:
        decoded.complete()  # type: ignore[union-attr]
    return decoded


def parse_line(line: bytes, first: RunStarted | None = None) -> Decoded | BadLine:
    """Decode any line, or return why it cannot be decoded. Never raises. first: as in `decode_run_started`."""
    try:
        return decode_line(line, first)
    except DECODE_ERRORS:
        pass
    try:
        return decode_line(rewrite_line(line), first)
    except DECODE_ERRORS:
        return classify_bad_line(line)


def decode_line(line: bytes, first: RunStarted | None = None) -> Decoded:
    """Decode any line, and RUN_STARTED by its fast path. Raises one of `DECODE_ERRORS`."""
    return decode_run_started(line, first) if line.startswith(RUN_STARTED_PREFIX) else decode_generic(line, first)


def rewrite_line(line: bytes) -> bytes:
    """Encode a line that another JSON encoder wrote as our own does. Raises one of `DECODE_ERRORS`.

    `type` and `seq` come first, without spaces, and a whole number is one, where others write `1.0` or `1e0`.
    """
    plain = msgspec.json.decode(line)
    if not isinstance(plain, dict):
        raise msgspec.ValidationError("a line of a record is an object")
    begin = {name: plain[name] for name in ("type", "seq") if name in plain}
    return encode_line(_with_whole_numbers(begin | plain))


def _with_whole_numbers(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer() and abs(value) < MAX_WHOLE:
        return int(value)
    if isinstance(value, dict):
        return {name: _with_whole_numbers(member) for name, member in value.items()}
    return [_with_whole_numbers(element) for element in value] if isinstance(value, list) else value


def classify_bad_line(line: bytes) -> BadLine:
    """Return the reason why a line cannot be decoded."""
    if not line.strip():
        return "blank"
    try:
        plain: Any = msgspec.json.decode(line)
    except DECODE_ERRORS:
        return "damaged"
    kind = plain.get("type", "") if isinstance(plain, dict) else None
    return "unknown" if isinstance(kind, str) and kind not in _KNOWN_TYPES else "damaged"


_KNOWN_TYPES = {kind.__struct_config__.tag for kind in (Header, DrainedChunk, PartsLine, *Event.__args__)}


# ---- RUN_STARTED
#
# Its policy takes longer to validate than a whole short run takes to read, and is usually the same from record to
# record. Therefore the policy and the tools are decoded once for equal bytes, and the other fields directly.

RUN_STARTED_PREFIX = b'{"type":"RUN_STARTED",'
"""First bytes of a RUN_STARTED line written by endstop. Another writer may put `type` elsewhere."""
_CACHED_FIELDS = ("policy", "tools")
_MAX_CACHED_BYTES = 64 * 1024
"""Size limit for caching policies and lists of tools, in bytes of JSON."""


def decode_run_started(line: bytes, first: RunStarted | None = None) -> RunStarted:
    """Decode a RUN_STARTED line. Raises one of `DECODE_ERRORS`.

    first: the first run of the file, which has what a later run's line leaves out.
    """
    _decode()  # with it msgspec learns all types whose fields are decoded below
    raw: Any = _decode_raw()(line)
    values = {name: getattr(raw, name) for name in RunStarted.__struct_fields__}
    shared = not bytes(raw.policy)
    if shared and (not raw.as_in or first is None or first.run_id != raw.as_in):
        raise msgspec.ValidationError(f"no policy, and no run {raw.as_in[:100]!r} before it that has one")
    for name in _CACHED_FIELDS:
        if not shared:
            values[name] = _decode_field(name, bytes(values[name]))
    if shared:
        values |= {name: getattr(first, name) for name in SHARED_FIELDS}
    return RunStarted(**values)


def _decode_field(name: str, raw: bytes) -> Any:
    return _decode_cached(name, raw) if len(raw) <= _MAX_CACHED_BYTES else _field_decoders[name](raw)


def _policy(raw: bytes) -> Policy:
    return settings_from_record(Policy, msgspec.json.decode(raw))


_field_decoders: dict[str, Callable[[bytes], Any]] = {
    "policy": _policy,
    "tools": lambda raw: msgspec.json.decode(raw, type=tuple[ToolSpec, ...]),
}
_decode_cached = lru_cache(maxsize=64)(lambda name, raw: _field_decoders[name](raw))


@cache
def _decode_raw() -> Callable[[bytes], Struct]:
    """Return a decoder of RUN_STARTED that leaves the cached fields as raw JSON."""
    fields: list[Any] = []
    for field in msgspec.structs.fields(RunStarted):
        kind: Any = Raw if field.name in _CACHED_FIELDS else field.type
        if field.name == "policy":
            fields.append((field.name, kind, Raw(b"")))  # may be left out (`as_in`)
        elif field.required:
            fields.append((field.name, kind))
        elif field.default_factory is not NODEFAULT:
            fields.append((field.name, kind, msgspec.field(default_factory=field.default_factory)))
        else:
            fields.append((field.name, kind, Raw(b"[]") if kind is Raw else field.default))
    fields.append(("as_in", str, ""))
    return build_decoder(msgspec.defstruct("_Raw", fields, tag="RUN_STARTED", kw_only=True))
