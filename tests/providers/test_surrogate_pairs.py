"""Characters that a server split between two deltas, in every text that grows, on every wire, in engine and proxy."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from endstop.decision import Assembler
from endstop.decision.events import Event
from endstop.providers.anthropic_stream import AnthropicStream
from endstop.providers.chat_stream import ChatStream
from endstop.providers.event_stream import EventStream
from endstop.providers.gemini_stream import GeminiStream
from endstop.providers.responses_stream import ResponsesStream

Value = dict[str, Any]
Split = Callable[[str], Value]
"""The event of a delta, from its text."""
PIECES = ("a \ud83d", "\ude00 b")
WHOLE = "a \U0001f600 b"


def chat(**delta: Any) -> Value:
    return {"id": "x", "object": "chat.completion.chunk", "model": "m", "choices": [{"index": 0, "delta": delta}]}


def chat_call(**call: Any) -> Value:
    return chat(tool_calls=[{"index": 0, **call}])


def detail(**fields: Any) -> Value:
    return chat(reasoning_details=[{"type": "reasoning.text", "index": 0, **fields}])


CHAT_FIELDS: dict[str, Split] = {
    "text": lambda text: chat(content=text),
    "text in parts": lambda text: chat(content=[{"type": "text", "text": text}]),
    "thoughts in parts": lambda text: chat(
        content=[{"type": "thinking", "thinking": [{"type": "text", "text": text}]}]
    ),
    "reasoning_content": lambda text: chat(reasoning_content=text),
    "reasoning": lambda text: chat(reasoning=text),
    "reasoning_details": lambda text: detail(text=text),
    "refusal": lambda text: chat(refusal=text),
    "spoken text": lambda text: chat(audio={"id": "a", "transcript": text}),
    "name": lambda text: chat_call(id="c", function={"name": text}),
    "arguments": lambda text: chat_call(id="c", function={"name": "f", "arguments": text}),
    "id": lambda text: chat_call(id=text, function={"name": "f"} if text[0] == "a" else {}),
    "custom name": lambda text: chat_call(id="c", type="custom", custom={"name": text}),
    "custom input": lambda text: chat_call(id="c", type="custom", custom={"name": "f", "input": text}),
    "older name": lambda text: chat(function_call={"name": text}),
    "older arguments": lambda text: chat(function_call={"name": "f", "arguments": text}),
}


def block(kind: str, **delta: Any) -> Value:
    return {"type": "content_block_delta", "index": 0, "delta": {"type": kind, **delta}}


ANTHROPIC_FIELDS: dict[str, tuple[Value, Split]] = {
    "text": ({"type": "text", "text": ""}, lambda text: block("text_delta", text=text)),
    "thoughts": ({"type": "thinking", "thinking": ""}, lambda text: block("thinking_delta", thinking=text)),
    "signature": ({"type": "thinking", "thinking": ""}, lambda text: block("signature_delta", signature=text)),
    "input": (
        {"type": "tool_use", "id": "t", "name": "f", "input": {}},
        lambda text: block("input_json_delta", partial_json=text),
    ),
    "server input": (
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}},
        lambda text: block("input_json_delta", partial_json=text),
    ),
    "compaction": ({"type": "compaction", "content": ""}, lambda text: block("compaction_delta", content=text)),
}


def grows(kind: str) -> Split:
    return lambda text: {"type": f"response.{kind}.delta", "output_index": 0, "item_id": "i", "delta": text}


FUNCTION = {"type": "function_call", "id": "i", "call_id": "c", "name": "f", "arguments": ""}
CUSTOM = {"type": "custom_tool_call", "id": "i", "call_id": "c", "name": "f", "input": ""}
MESSAGE = {"type": "message", "id": "i", "role": "assistant", "content": []}
THOUGHT = {"type": "reasoning", "id": "i", "summary": []}
RESPONSES_FIELDS: dict[str, tuple[Value, Split]] = {
    "text": (MESSAGE, grows("output_text")),
    "refusal": (MESSAGE, grows("refusal")),
    "thoughts": (THOUGHT, grows("reasoning_text")),
    "summary": (THOUGHT, grows("reasoning_summary_text")),
    "arguments": (FUNCTION, grows("function_call_arguments")),
    "custom input": (CUSTOM, grows("custom_tool_call_input")),
}


def parts(*members: Value, **more: Any) -> Value:
    return {"candidates": [{"content": {"role": "model", "parts": [*members]}, "index": 0, **more}]}


def piece(text: str) -> Value:
    going_on = {"jsonPath": "$.x", "stringValue": text, "willContinue": True}
    return {"functionCall": {"partialArgs": [going_on], "willContinue": True}}


GEMINI_FIELDS: dict[str, tuple[list[Value], Split, list[Value]]] = {
    "text": ([], lambda text: parts({"text": text}), []),
    "thoughts": ([], lambda text: parts({"text": text, "thought": True}), []),
    "arguments": (
        [parts({"functionCall": {"name": "f", "willContinue": True}})],
        lambda text: parts(piece(text)),
        [parts({"functionCall": {}})],
    ),
}


def anthropic_events(name: str, pieces: tuple[str, ...]) -> list[Value]:
    begin, split = ANTHROPIC_FIELDS[name]
    return [
        {"type": "message_start", "message": {"id": "m", "type": "message", "role": "assistant", "content": []}},
        {"type": "content_block_start", "index": 0, "content_block": begin},
        split(pieces[0]),
        {"type": "ping"},
        *map(split, pieces[1:]),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 3}},
        {"type": "message_stop"},
    ]


def responses_events(name: str, pieces: tuple[str, ...]) -> list[Value]:
    item, split = RESPONSES_FIELDS[name]
    whole: Value = {"id": "r", "status": "completed", "output": []}
    return [
        {"type": "response.created", "response": {"id": "r", "status": "in_progress"}},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        *map(split, pieces),
        {"type": "response.completed", "response": whole},
    ]


def gemini_events(name: str, pieces: tuple[str, ...]) -> list[Value]:
    begin, split, end = GEMINI_FIELDS[name]
    return [*begin, *map(split, pieces), *end, parts(finishReason="STOP")]


def chat_events(name: str, pieces: tuple[str, ...]) -> list[Value]:
    end = chat()
    end["choices"][0]["finish_reason"] = "stop"
    return [*map(CHAT_FIELDS[name], pieces), end]


def responses_parser() -> ResponsesStream:
    return ResponsesStream(custom=frozenset({"f"}))


Wire = tuple[Callable[[], EventStream], Callable[[str, tuple[str, ...]], list[Value]]]
CHAT_WIRE: Wire = (lambda: ChatStream(vendor="host", returns_text=True), chat_events)
FIELDS: list[tuple[Wire, str]] = [
    *((CHAT_WIRE, name) for name in CHAT_FIELDS),
    *(((AnthropicStream, anthropic_events), name) for name in ANTHROPIC_FIELDS),
    *(((responses_parser, responses_events), name) for name in RESPONSES_FIELDS),
    *(((GeminiStream, gemini_events), name) for name in GEMINI_FIELDS),
]
NAMES = [f"{wire[1].__name__.removesuffix('_events')}: {name}" for wire, name in FIELDS]


def body_of(events: list[Value]) -> bytes:
    """A stream in which each half of a pair is an escape of its own, as `json.dumps` writes it."""
    return b"".join(b"data: %s\n\n" % json.dumps(event).encode() for event in events)


def read(parser: EventStream, blocks: list[bytes]) -> str:
    """All that is recorded of a response that comes in these blocks, as JSON in which `WHOLE` stands as it is."""
    assembler = Assembler(1, "1.1", set())
    events: list[Event] = []
    for chunk in [chunk for block in blocks for chunk in parser.feed(block)] + parser.end():
        events += assembler.feed(chunk)
    events += assembler.close()
    return msgspec.json.encode([events, assembler.message]).decode()


@pytest.mark.parametrize(("wire", "name"), FIELDS, ids=NAMES)
def test_a_pair_split_between_two_deltas_is_one_character(wire: Wire, name: str) -> None:
    parser, events = wire
    body = body_of(events(name, PIECES))
    begin = body.index(b"\\ud83d")
    end = body.index(b"\\ude00") + len(b"\\ude00")
    for cut in range(begin, end + 1):  # at every byte of both escapes, and of what is between them
        found = read(parser(), [body[:cut], body[cut:]])
        assert WHOLE in found
        assert "\ufffd" not in found


@pytest.mark.parametrize(("wire", "name"), FIELDS, ids=NAMES)
@pytest.mark.parametrize("pieces", [("a \ud83d", " b"), ("a ", "\ude00 b"), ("a \ud83d",), ("a\ude00\ud83d", "b")])
def test_half_a_pair_is_one_replacement_character(wire: Wire, name: str, pieces: tuple[str, ...]) -> None:
    parser, events = wire
    found = read(parser(), [body_of(events(name, pieces))])
    expected = "".join("\ufffd" if "\ud800" <= one <= "\udfff" else one for one in "".join(pieces))
    assert expected in found
    assert expected + "\ufffd" not in found
