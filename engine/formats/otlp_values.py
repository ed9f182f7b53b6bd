"""Spans of OpenTelemetry as OTLP/JSON writes them: read, and values written.

Source: OpenTelemetry Protocol 1.x, "JSON Protobuf Encoding": ids are hexadecimal, 64-bit numbers are text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from .parsing import as_dict, as_list, as_number, as_text

ERROR_STATUS = 2
LONGEST_NUMBER = 20
"""Characters of a 64-bit number, with its sign."""
LATEST = 253_402_300_799.0
"""The end of the year 9999, in seconds since 1970. What says that it is later was not recorded."""


class Span(Struct, kw_only=True):
    """One span, whatever encoding it came in."""

    trace: str
    """Hexadecimal, as the other two ids."""
    id: str
    parent: str = ""
    """Empty for the first span of a trace."""
    name: str = ""
    start: float = 0.0
    """Seconds since 1970, as `end`; 0 if not recorded."""
    end: float = 0.0
    attributes: dict[str, Any]
    events: list[tuple[str, dict[str, Any]]]
    """Name and attributes of each."""
    failed: bool = False
    error: str = ""
    """The message of a failed span."""
    resource: dict[str, Any]
    """Attributes of what made the span; spans of one resource share them."""

    @property
    def size(self) -> int:
        """About how many characters it holds in memory."""
        told = (self.attributes, *(attributes for _, attributes in self.events))
        return 500 + sum(len(one) if isinstance(one, str) else 100 for each in told for one in each.values())


def json_spans(data: Any) -> Iterator[Span]:
    """All spans of an export request, or of a line of a file of them, in their order."""
    for resource in as_list(as_dict(data).get("resourceSpans")):
        about = read_attributes(as_dict(as_dict(resource).get("resource")).get("attributes"))
        for scope in as_list(as_dict(resource).get("scopeSpans")):
            for span in map(as_dict, as_list(as_dict(scope).get("spans"))):
                yield _span(span, about)


def _span(span: dict[str, Any], resource: dict[str, Any]) -> Span:
    status = as_dict(span.get("status"))
    events = [
        (as_text(event.get("name")), read_attributes(event.get("attributes")))
        for event in map(as_dict, as_list(span.get("events")))
    ]
    return Span(
        trace=as_text(span.get("traceId")),
        id=as_text(span.get("spanId")),
        parent=as_text(span.get("parentSpanId")),
        name=as_text(span.get("name")),
        start=_seconds(span.get("startTimeUnixNano")),
        end=_seconds(span.get("endTimeUnixNano")),
        attributes=read_attributes(span.get("attributes")),
        events=events,
        failed=status.get("code") in (ERROR_STATUS, "STATUS_CODE_ERROR"),
        error=as_text(status.get("message")),
        resource=resource,
    )


def _seconds(nanoseconds: Any) -> float:
    found = (as_number(_integer(nanoseconds)) or 0.0) / 1e9
    return found if 0 <= found < LATEST else 0.0


def read_attributes(pairs: Any) -> dict[str, Any]:
    """Attributes by name, from OTLP's list of keys and values."""
    return {as_text(as_dict(pair).get("key")): _value(as_dict(pair).get("value")) for pair in as_list(pairs)}


def _value(value: Any) -> Any:
    one = as_dict(value)
    if "arrayValue" in one:
        return [_value(part) for part in as_list(as_dict(one["arrayValue"]).get("values"))]
    if "kvlistValue" in one:
        return read_attributes(as_dict(one["kvlistValue"]).get("values"))
    if "intValue" in one:
        return _integer(one["intValue"])
    return next(iter(one.values()), None)


def _integer(value: Any) -> Any:
    """The number, which OTLP/JSON writes as text."""
    if not isinstance(value, str) or len(value) > LONGEST_NUMBER:
        return value
    return int(value) if value.removeprefix("-").isdecimal() and value.isascii() else value


# ---- writing


def write_attributes(attributes: Mapping[str, Any]) -> list[dict[str, Any]]:
    """OTLP's list of keys and values. Attributes that are None are left out."""
    return [{"key": name, "value": _written(value)} for name, value in attributes.items() if value is not None]


def _written(value: Any) -> dict[str, Any]:
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
        case list() | tuple():
            return {"arrayValue": {"values": [_written(one) for one in value]}}
        case dict():
            return {"kvlistValue": {"values": write_attributes(value)}}
        case _:
            return {"stringValue": str(value)}
