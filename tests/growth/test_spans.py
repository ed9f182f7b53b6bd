"""Work is linear in a file of spans, whatever is repeated in it: spans, attributes, events, messages, values."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from endstop.formats import find_sessions
from endstop.formats.importer import Importer, RecordFolder
from endstop.formats.otlp_protobuf import MalformedMessage, protobuf_spans

from .measure import growth

SMALL, LARGE = 60_000, 480_000


def value(given: Any) -> dict[str, Any]:
    """An `AnyValue`."""
    if isinstance(given, dict):
        return {"kvlistValue": {"values": pairs(given)}}
    if isinstance(given, list):
        return {"arrayValue": {"values": [value(one) for one in given]}}
    return {"intValue": str(given)} if isinstance(given, int) else {"stringValue": given}


def pairs(attributes: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": name, "value": value(given)} for name, given in attributes.items()]


def span(number: int, start: int = 0, events: Any = (), **attributes: Any) -> dict[str, Any]:
    named = {name.replace("__", "."): given for name, given in attributes.items()}
    return {
        "traceId": "1" * 32,
        "spanId": f"{number:016x}",
        "startTimeUnixNano": str(start),
        "attributes": pairs({"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 7, **named}),
        "events": events,
    }


def tool(number: int, start: int = 0, id: str = "") -> dict[str, Any]:
    named = {"gen_ai__operation__name": "execute_tool", "gen_ai__tool__name": "look"}
    return span(number, start, **named, **({"gen_ai__tool__call__id": id} if id else {}))


def spans(*given: dict[str, Any]) -> str:
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": given}]}]})


def repeated(make: Callable[[int], Any]) -> Callable[[int], list[Any]]:
    """So many of what `make` makes of 0, 1, 2 and so on that they have about this length."""
    return lambda length: [*map(make, range(length // len(json.dumps(make(100)))))]


def requests_and_tools(length: int) -> str:
    """Calls and requests without contents that began at once."""
    half = length // 2
    return spans(span(0), *repeated(tool)(half), *repeated(lambda n: span(n + 10**6))(half))


def said(text: str, role: str = "user") -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": text}]}


def calls(count: int) -> dict[str, Any]:
    parts = [{"type": "tool_call", "id": f"c{n}", "name": "f", "arguments": {}} for n in range(count)]
    return {"role": "assistant", "parts": parts}


FILES: dict[str, Callable[[int], str]] = {
    "requests": lambda length: spans(*repeated(span)(length)),
    "requests that follow each other": lambda length: spans(*repeated(lambda n: span(n, n))(length)),
    "requests of new conversations": lambda length: spans(
        *repeated(lambda n: span(n, gen_ai__conversation__id=f"c{n}"))(length)
    ),
    "requests of new traces": lambda length: spans(*repeated(lambda n: span(n) | {"traceId": f"{n:032x}"})(length)),
    "requests and tools at once": requests_and_tools,
    "tools without requests": lambda length: spans(*repeated(tool)(length)),
    "tools with ids": lambda length: spans(
        span(0, gen_ai__output__messages=[calls(length // 1000)]), *repeated(lambda n: tool(n + 1, 1, f"c{n}"))(length)
    ),
    "requests with a text": lambda length: spans(
        *repeated(lambda n: span(n, n, gen_ai__input__messages=[said(f"a{n}")], gen_ai__output__messages=[]))(length)
    ),
    "requests after many calls": lambda length: spans(
        span(0, gen_ai__input__messages=[said("a")], gen_ai__output__messages=[calls(length // 200)]),
        *repeated(lambda n: span(n + 1, n + 1, gen_ai__input__messages=[said("a")]))(length // 2),
    ),
    "attributes": lambda length: spans(
        span(0, **{f"a{n}": 1 for n in range(length // 50)}),
    ),
    "numbered messages": lambda length: spans(
        span(0, **{f"llm.input_messages.{n}.message.content": "a" for n in range(length // 90)})
    ),
    "numbered parts": lambda length: spans(
        span(0, **{f"llm.input_messages.0.message.contents.{n}.message_content.text": "a" for n in range(length // 90)})
    ),
    "numbered calls": lambda length: spans(
        span(0, **{f"gen_ai.completion.0.tool_calls.{n}.name": "f" for n in range(length // 90)})
    ),
    "a long number": lambda length: spans(
        span(0, **{"llm.input_messages.0.message.role": "user", f"llm.input_messages.{'1' * length}.a": "a"})
    ),
    "numbers of 4,000 digits": lambda length: spans(
        span(0, **{f"gen_ai.prompt.{n}{'1' * 4000}.content": "a" for n in range(1, length // 4000)})
    ),
    "a long whole number": lambda length: spans(span(0)).replace('"0"', f'"{"1" * length}"'),
    "a long number of tokens": lambda length: spans(span(0, gen_ai__usage__input_tokens=7)).replace(
        '"7"', f'"{"1" * length}"'
    ),
    "events": lambda length: spans(
        span(0, events=[{"name": "gen_ai.user.message", "attributes": pairs({"content": "a"})}] * (length // 100))
    ),
    "failed attempts": lambda length: spans(
        span(0, events=[{"name": "endstop.attempt.failed", "attributes": pairs({"error.type": "a"})}] * (length // 100))
    ),
    "messages": lambda length: spans(
        span(0, gen_ai__input__messages=[said("a", ("user", "assistant")[n % 2]) for n in range(length // 250)])
    ),
    "messages as JSON": lambda length: spans(
        span(0, gen_ai__input__messages=json.dumps([said("a", "user") for _ in range(length // 80)]))
    ),
    "results of unknown calls": lambda length: spans(
        span(
            0,
            gen_ai__input__messages=json.dumps(
                [
                    {"role": "tool", "parts": [{"type": "tool_call_response", "id": f"c{n}", "response": "a"}]}
                    for n in range(length // 100)
                ]
            ),
        )
    ),
    "many calls and their results": lambda length: spans(
        span(
            0,
            gen_ai__input__messages=json.dumps(
                [
                    said("a"),
                    calls(length // 200),
                    *(
                        {"role": "tool", "parts": [{"type": "tool_call_response", "id": f"c{n}", "response": "a"}]}
                        for n in reversed(range(length // 200))
                    ),
                ]
            ),
        )
    ),
    "tools that are offered": lambda length: spans(
        span(
            0,
            gen_ai__tool__definitions=json.dumps(
                [{"type": "function", "name": f"f{n}", "parameters": {}} for n in range(length // 60)]
            ),
        )
    ),
    "agents": lambda length: spans(*repeated(lambda n: span(n, gen_ai__operation__name="invoke_agent"))(length)),
    "resources": lambda length: json.dumps(
        {"resourceSpans": [{"scopeSpans": [{"spans": [span(n)]}]} for n in range(length // 300)]}
    ),
    "lines": lambda length: "\n".join(spans(span(n)) for n in range(length // 300)),
    "empty scopes": lambda length: json.dumps({"resourceSpans": [{"scopeSpans": [{}] * (length // 4)}]}),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_spans_is_read_in_time_that_grows_as_it_does(name: str, tmp_path: Path) -> None:
    records, file = RecordFolder(tmp_path / "records", replace=True), tmp_path / "spans.json"

    def read(text: str) -> None:
        file.write_text(text)
        list(Importer(records).import_all(find_sessions(file)))

    small, large = FILES[name](SMALL), FILES[name](LARGE)
    read(small)
    assert growth(read, small, large, bound=1.4) < 1.4


# ---- protobuf


def field(number: int, data: bytes) -> bytes:
    """A field of bytes."""
    size, written = len(data), bytearray([number << 3 | 2])
    while size > 0x7F:
        written.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes([*written, size]) + data


def message(*of_span: bytes) -> bytes:
    """A message with one span."""
    return field(1, field(2, field(2, b"".join(of_span))))


def pair(key: bytes, given: bytes) -> bytes:
    return field(9, field(1, key) + field(2, given))


def nested(inside: bytes, levels: int = 60) -> bytes:
    for _ in range(levels):
        inside = field(5, field(1, inside))
    return inside


MESSAGES: dict[str, Callable[[int], bytes]] = {
    "attributes": lambda length: message(*(pair(b"a%d" % n, field(1, b"x")) for n in range(length // 12))),
    "one attribute": lambda length: message(pair(b"a", field(1, b"x")) * (length // 10)),
    "a long text": lambda length: message(pair(b"a", field(1, b"x" * length))),
    "a list": lambda length: message(pair(b"a", field(5, field(1, field(1, b"x")) * (length // 5)))),
    "a map": lambda length: message(
        pair(b"a", field(6, b"".join(field(1, field(1, b"%d" % n)) for n in range(length // 8))))
    ),
    "a text far inside": lambda length: message(pair(b"a", nested(field(1, b"x" * length)))),
    "lists far inside": lambda length: message(pair(b"a", nested(field(1, b"x")) * (length // 200))),
    "empty events": lambda length: message(field(11, b"") * (length // 2)),
    "empty spans": lambda length: field(1, field(2, field(2, b"") * (length // 2))),
    "empty scopes": lambda length: field(1, field(2, b"") * (length // 2)),
    "empty resources": lambda length: field(1, b"") * (length // 2),
    "values of one attribute": lambda length: message(field(9, field(2, field(1, b"")) * (length // 4))),
    "long numbers": lambda length: message((b"\x50" + b"\xff" * 9 + b"\x01") * (length // 11)),
    "a number without end": lambda length: message(b"\x50" + b"\xff" * length),
    "unknown fields": lambda length: message(field(13, b"x") * (length // 3)),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_a_message_of_spans_is_read_in_time_that_grows_as_it_does(name: str) -> None:
    def read(data: bytes) -> None:
        try:
            list(protobuf_spans(data))
        except MalformedMessage:
            return

    small, large = MESSAGES[name](SMALL), MESSAGES[name](LARGE)
    assert growth(read, small, large, bound=1.4) < 1.4
