"""One line of a record, from bytes and to bytes. What all readers and writers of records share."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from functools import lru_cache
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
from ..decision.events import CutOff, RunStarted
from ..decision.settings import settings_from_record
from ..decision.transcript import estimate_tokens

FORMAT = "endstop-record"
HEADER_PREFIX = f'{{"type":"HEADER","format":"{FORMAT}"'.encode()
"""How every record begins."""
VERSION = (1, 0)
"""Major and minor. A reader refuses a newer major version and passes over events that it does not know."""


class Header(Struct, frozen=True, kw_only=True, tag="HEADER"):
    """The first line."""

    format: str = FORMAT
    version: str = f"{VERSION[0]}.{VERSION[1]}"
    session_id: str
    created_at: str = ""
    engine: str = ""


class DrainedChunk(Struct, frozen=True, kw_only=True, tag="AFTER_CUT"):
    """A chunk that came after a cut and was read only to show what the cut saved. No event."""

    attempt: str
    chunk: AnyChunk


def summarize_drained(chunks: Iterable[AnyChunk]) -> CutOff:
    """What these chunks, which came after a cut, amount to."""
    characters = 0
    calls: dict[tuple[int, str], str] = {}
    whole = False
    for chunk in chunks:
        match chunk:
            case TextDelta(text=text) | ReasoningDelta(text=text):
                characters += len(text)
            case ToolCallDelta():
                characters += len(chunk.name) + len(chunk.arguments)
                if chunk.name:
                    calls[chunk.index, chunk.id] = chunk.name
            case FinishReport():
                whole = True
            case _:
                pass
    return CutOff(output_tokens=estimate_tokens(characters), calls=tuple(calls.values()), whole=whole)


def step_of_attempt(attempt: str) -> int:
    """The step that an attempt belongs to: `{step}.{number}`."""
    step = attempt.partition(".")[0]
    return int(step) if step.isdecimal() else 0


NO_RUN = "the record holds no run; its process was killed before one began, so start anew"

_encoder = msgspec.json.Encoder()
encode_lines = _encoder.encode_lines
"""All of these as lines. Raises TypeError or ValueError if one has no form in JSON."""


def encode_line(line: object) -> bytes:
    """One line. What has no form in JSON stands there in words, and half a surrogate pair as a question mark."""
    try:
        return _encoder.encode(line)
    except (TypeError, ValueError):
        return json.dumps(msgspec.to_builtins(line, enc_hook=repr), ensure_ascii=False).encode("utf-8", "replace")


def parse_header(path: str | os.PathLike[str], line: bytes) -> Header:
    """The header that stands in the first line of a file. Raises WrongUse if it does not, or is newer."""
    try:
        header = msgspec.json.decode(line, type=Header)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        header = None
    if header is None or header.format != FORMAT:
        raise WrongUse(f"{path} is no endstop record: its first line is not the header of one")
    major = header.version.split(".", 1)[0]
    if not (major.isdecimal() and len(major) < 10):
        raise WrongUse(f"{path} is damaged: its version is {header.version!r}, and should be like {VERSION[0]}.0")
    if int(major) > VERSION[0]:
        raise WrongUse(
            f"{path} has version {header.version}, and this endstop reads up to {VERSION[0]}.x: upgrade endstop"
        )
    return header


Line = Header | DrainedChunk | Event | Literal["damaged", "blank", "unknown"]
"""What a line of a record can be."""


DECODE_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_decode: Callable[[bytes], Header | DrainedChunk | Event] = msgspec.json.Decoder(Header | DrainedChunk | Event).decode


def decode_generic(line: bytes) -> Header | DrainedChunk | Event:
    """What a line says that is whole and known. Raises what is in `DECODE_ERRORS`."""
    said = _decode(line)
    # its fields in another order than our writer's: once more, for the settings that it does not name
    return decode_run_started(line) if type(said) is RunStarted else said


def parse_line(line: bytes) -> Line:
    """What this line says. Events of a newer minor version are unknown, and passed over."""
    try:
        return decode_line(line)
    except DECODE_ERRORS:
        return classify_bad_line(line)


def decode_line(line: bytes) -> Header | DrainedChunk | Event:
    """What a line says that is whole and known, by the quickest way. Raises what is in `DECODE_ERRORS`."""
    return decode_run_started(line) if line.startswith(RUN_STARTED_PREFIX) else decode_generic(line)


def classify_bad_line(line: bytes) -> Literal["damaged", "blank", "unknown"]:
    """Why a line could not be decoded."""
    if not line.strip():
        return "blank"
    try:
        plain: Any = msgspec.json.decode(line)
    except DECODE_ERRORS:
        return "damaged"
    kind = plain.get("type", "") if isinstance(plain, dict) else None
    return "unknown" if isinstance(kind, str) and kind not in _KNOWN else "damaged"


_KNOWN = {kind.__struct_config__.tag for kind in (Header, DrainedChunk, *Event.__args__)}


# ---- the first event of a run: a whole policy, which takes longer to check than all that follows to read

RUN_STARTED_PREFIX = b'{"type":"RUN_STARTED",'
"""How its line begins, where our own writer wrote it."""
_SHARED = ("policy", "tools")
"""Its fields that are the same in many records, and made once."""
_KEPT_BYTES = 64 * 1024
"""Larger ones are not kept."""


def decode_run_started(line: bytes) -> RunStarted:
    """Decode a line that begins with `RUN_STARTED_PREFIX`. Raises one of `DECODE_ERRORS`."""
    raw = _decode_raw(line)
    values = {name: getattr(raw, name) for name in RunStarted.__struct_fields__}
    for name in _SHARED:
        values[name] = _made(name, bytes(values[name]))
    return RunStarted(**values)


def _made(name: str, raw: bytes) -> Any:
    return _kept(name, raw) if len(raw) <= _KEPT_BYTES else _shared[name](raw)


def _policy(raw: bytes) -> Policy:
    return settings_from_record(Policy, msgspec.json.decode(raw))


_shared: dict[str, Callable[[bytes], Any]] = {
    "policy": _policy,
    "tools": msgspec.json.Decoder(tuple[ToolSpec, ...]).decode,
}
_kept = lru_cache(maxsize=64)(lambda name, raw: _shared[name](raw))


def _raw_started() -> Callable[[bytes], Struct]:
    """A decoder of the same line that leaves the shared fields as they are written."""
    fields: list[Any] = []
    for field in msgspec.structs.fields(RunStarted):
        kind: Any = Raw if field.name in _SHARED else field.type
        if field.required:
            fields.append((field.name, kind))
        elif field.default_factory is not NODEFAULT:
            fields.append((field.name, kind, msgspec.field(default_factory=field.default_factory)))
        else:
            fields.append((field.name, kind, Raw(b"[]") if kind is Raw else field.default))
    return msgspec.json.Decoder(msgspec.defstruct("_Raw", fields, tag="RUN_STARTED", kw_only=True)).decode


_decode_raw = _raw_started()
