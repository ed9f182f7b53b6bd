"""Spans in protobuf: what the exporters' own encoder wrote is read as the same spans as in JSON; damage is named."""

from __future__ import annotations

import random
from typing import Any

import pytest
from endstop.formats.otlp_protobuf import MAX_DEPTH, MalformedMessage, protobuf_spans
from endstop.formats.otlp_values import Span, json_spans, read_attributes, write_attributes
from hypothesis import given
from hypothesis import strategies as some
from msgspec.structs import asdict

pb = pytest.importorskip(
    "opentelemetry.proto.collector.trace.v1.trace_service_pb2", reason="opentelemetry-proto is not installed"
)
common = pytest.importorskip("opentelemetry.proto.common.v1.common_pb2")
json_format = pytest.importorskip("google.protobuf.json_format")

TRACE, SPAN, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331", "00f067aa0ba902b7"


def written(value: Any) -> Any:
    """A value as `AnyValue`."""
    match value:
        case bool():
            return common.AnyValue(bool_value=value)
        case int():
            return common.AnyValue(int_value=value)
        case float():
            return common.AnyValue(double_value=value)
        case str():
            return common.AnyValue(string_value=value)
        case list():
            return common.AnyValue(array_value=common.ArrayValue(values=map(written, value)))
        case dict():
            return common.AnyValue(kvlist_value=common.KeyValueList(values=pairs(value)))
        case _:
            return common.AnyValue()


def pairs(attributes: dict[str, Any]) -> list[Any]:
    return [common.KeyValue(key=name, value=written(value)) for name, value in attributes.items()]


def request(attributes: dict[str, Any]) -> Any:
    whole = pb.ExportTraceServiceRequest()
    resource = whole.resource_spans.add(schema_url="https://example.org/1")
    resource.resource.attributes.extend(pairs({"service.name": "porter"}))
    scope = resource.scope_spans.add()
    scope.scope.name = "scope"
    span = scope.spans.add(
        trace_id=bytes.fromhex(TRACE), span_id=bytes.fromhex(SPAN), parent_span_id=bytes.fromhex(PARENT),
        trace_state="a=b", name="chat m", kind=3, start_time_unix_nano=1_700_000_000_000_000_001,
        end_time_unix_nano=1_700_000_001_000_000_000, dropped_attributes_count=2, flags=257,
    )  # fmt: skip
    span.attributes.extend(pairs(attributes))
    span.events.add(name="gen_ai.choice", time_unix_nano=5).attributes.extend(pairs({"finish_reason": "stop"}))
    span.links.add(trace_id=bytes.fromhex(TRACE), span_id=bytes.fromhex(SPAN))
    span.status.code, span.status.message = 2, "it fell over"
    return whole


VALUES = some.recursive(
    some.booleans() | some.integers(-(2**63), 2**63 - 1) | some.floats(allow_nan=False) | some.text(max_size=20),
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(some.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(some.dictionaries(some.text(max_size=10), VALUES, max_size=5))
def test_spans_of_the_exporters_encoder_are_read_whole(attributes: dict[str, Any]) -> None:
    (span,) = protobuf_spans(request(attributes).SerializeToString())
    assert span == Span(
        trace=TRACE, id=SPAN, parent=PARENT, name="chat m", start=1_700_000_000_000_000_001 / 1e9, end=1_700_000_001.0,
        attributes=attributes, events=[("gen_ai.choice", {"finish_reason": "stop"})],
        failed=True, error="it fell over", resource={"service.name": "porter"},
    )  # fmt: skip
    assert read_attributes(write_attributes(attributes)) == attributes


def test_the_two_encodings_are_read_as_the_same_spans() -> None:
    whole = request({"text": "ü", "number": -3, "list": [1, 2.5, "x"], "map": {"a": True}})
    data = json_format.MessageToDict(whole)
    for span in data["resourceSpans"][0]["scopeSpans"][0]["spans"]:  # OTLP writes ids in hexadecimal, not in base64
        span |= {"traceId": TRACE, "spanId": SPAN, "parentSpanId": PARENT}
    (one,), (other,) = json_spans(data), protobuf_spans(whole.SerializeToString())
    assert asdict(one) == asdict(other)


def test_what_is_cut_off_or_changed_raises_one_error_and_nothing_else() -> None:
    whole, chance = request({"a": "b" * 300, "n": 5, "d": 0.5}).SerializeToString(), random.Random(7)
    damaged = [whole[:size] for size in range(len(whole))]
    for _ in range(3000):
        one = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            one[chance.randrange(len(one))] = chance.randrange(256)
        damaged.append(bytes(one))
    wrong = 0
    for data in damaged:
        try:
            list(protobuf_spans(data))
        except MalformedMessage:
            wrong += 1
    assert wrong > len(whole) // 2


def message(number: int, inside: bytes) -> bytes:
    """A field that is a message, by hand: the package refuses to write deep ones."""
    length, size = b"", len(inside)
    while size > 0x7F:
        length, size = length + bytes([size & 0x7F | 0x80]), size >> 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + inside


def test_deep_values_and_wrong_bytes_are_refused() -> None:
    value = message(1, b"x")
    for _ in range(MAX_DEPTH + 2):
        value = message(5, message(1, value))
    span = message(9, message(1, b"deep") + message(2, value))
    with pytest.raises(MalformedMessage, match="nested deeper"):
        list(protobuf_spans(message(1, message(2, message(2, span)))))
    for data, says in (
        (b"\x0a\xff", "ends in the middle"), (b"\x02\x00", "number 0"), (b"\x0b", "wire type 3"),
        (b"\x0a\x05ab", "beyond the end"), (b"\x08" + b"\xff" * 10, "more than ten bytes"), (b"\x08\x01", "wire type"),
    ):  # fmt: skip
        with pytest.raises(MalformedMessage, match=says):
            list(protobuf_spans(data))
    assert list(protobuf_spans(b"")) == []
