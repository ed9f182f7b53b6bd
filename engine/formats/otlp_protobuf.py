"""Spans of OpenTelemetry in OTLP's protobuf encoding, which exporters send unless they are told otherwise.

Only what a span has is decoded; fields that are not known here are passed over, as protobuf says.
`docs/decisions/0031-spans-are-followed-and-an-alarm-changes-nothing.md` says why this is not left to the packages
`protobuf` and `opentelemetry-proto`.
Sources: Protocol Buffers, "Encoding"; opentelemetry-proto 1.x, `trace.proto`, `common.proto`, `resource.proto`.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import unpack_from
from typing import Any, TypeAlias

from .otlp_values import ERROR_STATUS, Span

MAX_DEPTH = 64
"""How deep a value of an attribute may be nested."""
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
"""Wire types. The types 3 and 4 (groups) are in no message of OTLP."""
Field: TypeAlias = tuple[int, int, Any]
"""Number, wire type and value of a field: bytes (`_BYTES`), an int (`_VARINT`), else where its bytes begin."""


class MalformedMessage(ValueError):
    """The bytes are no message of OTLP's. The text says what is wrong."""


def protobuf_spans(data: bytes) -> Iterator[Span]:
    """All spans of an `ExportTraceServiceRequest`, in their order. Raises MalformedMessage."""
    for number, kind, resource in _fields(data):
        if number == 1:
            yield from _resource_spans(_message(kind, resource))


def _resource_spans(data: bytes) -> Iterator[Span]:
    about: dict[str, Any] = {}
    scopes = []
    for number, kind, value in _fields(data):
        if number == 1:
            about = {}
            for inner, wire, pair in _fields(_message(kind, value)):
                if inner == 1:
                    _add_pair(about, _message(wire, pair), 0)
        elif number == 2:
            scopes.append(_message(kind, value))
    for scope in scopes:
        for number, kind, value in _fields(scope):
            if number == 2:
                yield _span(_message(kind, value), about)


def _span(data: bytes, resource: dict[str, Any]) -> Span:
    span = Span(trace="", id="", attributes={}, events=[], resource=resource)
    for number, kind, value in _fields(data):
        match number:
            case 1:
                span.trace = _message(kind, value).hex()
            case 2:
                span.id = _message(kind, value).hex()
            case 4:
                span.parent = _message(kind, value).hex()
            case 5:
                span.name = _text(kind, value)
            case 7:
                span.start = _nanoseconds(data, kind, value) / 1e9
            case 8:
                span.end = _nanoseconds(data, kind, value) / 1e9
            case 9:
                _add_pair(span.attributes, _message(kind, value), 0)
            case 11:
                span.events.append(_event(_message(kind, value)))
            case 15:
                span.failed, span.error = _status(_message(kind, value))
            case _:
                pass
    return span


def _event(data: bytes) -> tuple[str, dict[str, Any]]:
    name = ""
    attributes: dict[str, Any] = {}
    for number, kind, value in _fields(data):
        if number == 2:
            name = _text(kind, value)
        elif number == 3:
            _add_pair(attributes, _message(kind, value), 0)
    return name, attributes


def _status(data: bytes) -> tuple[bool, str]:
    failed, message = False, ""
    for number, kind, value in _fields(data):
        if number == 2:
            message = _text(kind, value)
        elif number == 3 and kind == _VARINT:
            failed = value == ERROR_STATUS
    return failed, message


def _add_pair(attributes: dict[str, Any], data: bytes, depth: int) -> None:
    """Add a `KeyValue`."""
    key, found = "", None
    for number, kind, value in _fields(data):
        if number == 1:
            key = _text(kind, value)
        elif number == 2:
            found = _value(_message(kind, value), depth)
    attributes[key] = found


def _value(data: bytes, depth: int) -> Any:
    """An `AnyValue`. Of several members of a oneof, the last one counts."""
    if depth > MAX_DEPTH:
        raise MalformedMessage(f"a value is nested deeper than {MAX_DEPTH} levels")
    found: Any = None
    for number, kind, value in _fields(data):
        match number:
            case 1:
                found = _text(kind, value)
            case 2:
                found = bool(_varint_value(kind, value))
            case 3:
                whole = _varint_value(kind, value)
                found = whole - (1 << 64) if whole >= 1 << 63 else whole
            case 4:
                if kind != _FIXED64:
                    raise MalformedMessage("a double has the wrong wire type")
                found = unpack_from("<d", data, value)[0]
            case 5:
                inner = _fields(_message(kind, value))
                found = [_value(_message(wire, one), depth + 1) for place, wire, one in inner if place == 1]
            case 6:
                found = {}
                for place, wire, one in _fields(_message(kind, value)):
                    if place == 1:
                        _add_pair(found, _message(wire, one), depth + 1)
            case 7:
                found = _message(kind, value).hex()
            case _:
                pass
    return found


# ---- the wire


def _fields(data: bytes) -> Iterator[Field]:
    """The fields of a message, in their order."""
    at, size = 0, len(data)
    while at < size:
        tag = data[at]
        at += 1
        if tag > 0x7F:
            tag, at = _varint(data, at - 1, size)
        kind = tag & 7
        if tag < 8:
            raise MalformedMessage("a field has the number 0")
        if kind == _BYTES:
            length = data[at] if at < size else 0x80
            at += 1
            if length > 0x7F:
                length, at = _varint(data, at - 1, size)
            end = at + length
            if end > size:
                raise MalformedMessage(f"a field of {length:,} bytes goes beyond the end of its message")
            yield tag >> 3, kind, data[at:end]
        elif kind == _VARINT:
            value, end = _varint(data, at, size)
            yield tag >> 3, kind, value
        elif kind in (_FIXED64, _FIXED32):
            end = at + (8 if kind == _FIXED64 else 4)
            if end > size:
                raise MalformedMessage("a number goes beyond the end of its message")
            yield tag >> 3, kind, at
        else:
            raise MalformedMessage(f"a field has the wire type {kind}, which OTLP does not use")
        at = end


def _varint(data: bytes, at: int, size: int) -> tuple[int, int]:
    """A number of variable length, and where it ends."""
    value = shift = 0
    while at < size:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, at
        shift += 7
        if shift > 63:
            raise MalformedMessage("a number has more than ten bytes")
    raise MalformedMessage("it ends in the middle of a number")


def _message(kind: int, value: Any) -> bytes:
    if kind != _BYTES:
        raise MalformedMessage("a field that is a message, or bytes, has the wrong wire type")
    found: bytes = value
    return found


def _varint_value(kind: int, value: Any) -> int:
    if kind != _VARINT:
        raise MalformedMessage("a whole number has the wrong wire type")
    found: int = value
    return found


def _nanoseconds(data: bytes, kind: int, at: Any) -> int:
    if kind != _FIXED64:
        raise MalformedMessage("a time has the wrong wire type")
    found: int = unpack_from("<Q", data, at)[0]
    return found


def _text(kind: int, value: Any) -> str:
    try:
        return _message(kind, value).decode()
    except UnicodeDecodeError:
        raise MalformedMessage("a text is not UTF-8") from None


# ---- answers


def write_partial_success(rejected: int, why: str) -> bytes:
    """An `ExportTraceServiceResponse`. rejected: how many spans were not taken; with 0 it is empty."""
    if not rejected:
        return b""
    return _written_bytes(1, b"\x08" + _written_varint(rejected) + _written_bytes(2, why.encode()))


def write_status(code: int, message: str) -> bytes:
    """A `google.rpc.Status`. code: of gRPC, from 1 on."""
    return b"\x08" + _written_varint(code) + _written_bytes(2, message.encode())


def _written_bytes(number: int, data: bytes) -> bytes:
    return bytes([number << 3 | _BYTES]) + _written_varint(len(data)) + data


def _written_varint(value: int) -> bytes:
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)
