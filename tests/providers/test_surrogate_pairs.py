"""Characters that a server split between two deltas, in every text that grows, on every wire, in engine and proxy."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from endstop.decision import Assembler, Usage
from endstop.decision.events import Event
from endstop.providers.anthropic_stream import AnthropicStream
from endstop.providers.chat_stream import ChatStream
from endstop.providers.event_stream import EventStream
from endstop.providers.gemini_stream import GeminiStream
from endstop.providers.responses_stream import ResponsesStream
from endstop.providers.surrogate_pairs import MOST_HELD, EncodableEvents, encodable, whole_characters
from endstop.proxy.anthropic_wire import ANTHROPIC
from endstop.proxy.chat_wire import CHAT
from endstop.proxy.exchange import EventSplitter
from endstop.proxy.responses_wire import RESPONSES
from endstop.proxy.wire import ProxyWire
from hypothesis import given
from hypothesis import strategies as st

Value = dict[str, Any]
Split = Callable[[str], Value]
"""The event of a delta, from its text."""
PIECES = ("a \ud83d", "\ude00 b")
WHOLE = "a \U0001f600 b"


def chat(**delta: Any) -> Value:
    return {"id": "x", "object": "chat.completion.chunk", "model": "m", "choices": [{"index": 0, "delta": delta}]}


def chat_call(**call: Any) -> Value:
    return chat(tool_calls=[{"index": 0, **call}])


def chat_call_delta(index: int, text: str) -> Value:
    return chat(tool_calls=[{"index": index, "function": {"arguments": text}}])


def responses_call_delta(index: int, text: str) -> Value:
    return {
        "type": "response.function_call_arguments.delta",
        "output_index": index,
        "item_id": f"i{index}",
        "delta": text,
    }


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
def test_half_a_pair_is_one_replacement_character(wire: Wire, name: str) -> None:
    parser, events = wire
    for pieces in (("a \ud83d", " b"), ("a ", "\ude00 b"), ("a \ud83d",), ("a\ude00\ud83d", "b")):
        found = read(parser(), [body_of(events(name, pieces))])
        expected = "".join("\ufffd" if "\ud800" <= one <= "\udfff" else one for one in "".join(pieces))
        assert expected in found
        assert expected + "\ufffd" not in found


# ---- the proxy

PROXY_WIRES: dict[str, ProxyWire] = {"chat": CHAT, "anthropic": ANTHROPIC, "responses": RESPONSES}
PROXIED = [(wire, name, kind) for (wire, name), kind in zip(FIELDS, NAMES, strict=True) if kind[0] in "car"]


@pytest.mark.parametrize(("wire", "name", "kind"), PROXIED, ids=[kind for _, _, kind in PROXIED])
def test_the_proxy_puts_a_split_pair_together_and_can_end_the_stream_behind_it(
    wire: Wire, name: str, kind: str
) -> None:
    proxy_wire = PROXY_WIRES[kind.partition(":")[0]]
    events = wire[1](name, PIECES)
    if proxy_wire is RESPONSES:  # which has its items once more, whole
        events = events[:-1]
    body = body_of(events)
    assembler = proxy_wire.open_assembler()
    for at in range(0, len(body), 7):
        assembler.feed(body[at : at + 7])
    if proxy_wire is not RESPONSES and not name.endswith("input"):
        assert WHOLE in json.dumps(assembler.response(), ensure_ascii=False)
    request = proxy_wire.read({"model": "m", "stream": True, proxy_wire.items: [{"role": "user", "content": "go"}]})
    end = proxy_wire.open_end(request)
    for event, _ in EventSplitter().feed(body_of(events if proxy_wire is RESPONSES else events[:-1])):
        end.see(event)
    rest = end.cut(Usage())
    assert all(json.loads(line[6:]) for line in rest.split(b"\n") if line.startswith(b"data: {"))
    if proxy_wire is RESPONSES and name in ("text", "arguments", "custom input"):
        assert WHOLE.encode() in rest


# ---- the class itself

HALVES = st.text(st.sampled_from('a\ud83d\ude00\U0001f600\n"\\é'), max_size=12)


@given(text=HALVES, cuts=st.lists(st.integers(0, 12), max_size=4), size=st.integers(1, 40))
def test_wherever_a_text_is_cut_it_reads_as_it_would_in_one_piece(text: str, cuts: list[int], size: int) -> None:
    edges = [0, *sorted(cuts), len(text)]
    pieces = [text[begin:end] for begin, end in pairwise(edges)]
    body = body_of([chat(content=one) for one in pieces]) + b"data: [DONE]\n\n"
    stream = ChatStream()
    chunks = [one for at in range(0, len(body), size) for one in stream.feed(body[at : at + size])] + stream.end()
    assert "".join(getattr(one, "text", "") for one in chunks) == whole_characters(text)


@pytest.mark.parametrize("interleaved", [False, True])
def test_pairs_of_calls_that_come_in_turns_are_joined_each_for_itself(interleaved: bool) -> None:
    def grows(index: int, text: str) -> Value:
        return chat(tool_calls=[{"index": index, "function": {"arguments": text}}])

    halves = [(0, '{"x":"\ud83d'), (1, '{"y":"\ud83c'), (1, '\udf0d"}'), (0, '\ude00"}')]
    heads = [chat(tool_calls=[{"index": n, "id": f"c{n}", "function": {"name": "f"}}]) for n in (0, 1)]
    order = halves if interleaved else [halves[0], halves[3], halves[1], halves[2]]
    found = read(ChatStream(), [body_of([*heads, *(grows(*one) for one in order)]) + b"data: [DONE]\n\n"])
    assert '{\\"x\\":\\"\U0001f600\\"}' in found
    assert '{\\"y\\":\\"\U0001f30d\\"}' in found


@pytest.mark.parametrize("wire", [AnthropicStream, ChatStream, GeminiStream, ResponsesStream])
def test_a_finish_waits_for_nothing(wire: Callable[[], EventStream]) -> None:
    names = {
        AnthropicStream: anthropic_events, ChatStream: chat_events,
        GeminiStream: gemini_events, ResponsesStream: responses_events,
    }  # fmt: skip
    stream = wire()
    stream.feed(body_of(names[wire]("text", ("a \ud83d",))))  # type: ignore[index]
    assert stream.finished


@pytest.mark.parametrize("events", [anthropic_events, chat_events, gemini_events, responses_events])
@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        (b"\xff", "\ufffd"),
        (b"\xf0\x9f\x98", "\ufffd"),
        (b"\xed\xa0\xbd", "\ufffd"),
        (b"\xf0\x9f\x98\x80", "\U0001f600"),
    ],
)
def test_bytes_that_are_no_utf8_become_replacement_characters(
    events: Callable[[str, tuple[str, ...]], list[Value]], raw: bytes, shown: str
) -> None:
    wire = next(one for one, _ in FIELDS if one[1] is events)
    body = body_of(events("text", ("a MARK b",))).replace(b"MARK", raw)
    at = body.index(raw)
    for cut in range(at, at + len(raw) + 1):
        found = read(wire[0](), [body[:cut], body[cut:]])
        assert "".join(dict.fromkeys(found[found.index("a ") : found.index(" b") + 2])) == f"a {shown}b"


@pytest.mark.parametrize(
    "data", [b'{"a":"\\\\ud83d"}', b'{"a":"\\ud83d\\ude00"}', b'{"a":"\\ud55c"}', b'{"a":"\\\\\\\\"}', b"[DONE]", b""]
)
def test_what_can_be_read_is_not_touched(data: bytes) -> None:
    events = EncodableEvents()
    assert encodable(data) is data
    assert events.feed([data]) == [data]
    assert events.end() == []


@pytest.mark.parametrize("wire", [chat_call_delta, responses_call_delta], ids=["chat", "responses"])
def test_a_half_that_waits_in_vain_holds_a_bounded_number_of_events(wire: Callable[[int, str], Value]) -> None:
    events = EncodableEvents()
    first = wire(0, '{"x":"\ud83d')
    held = [len(events.feed([json.dumps(one).encode()])) for one in [first, *[wire(1, "a")] * 1_000]]
    assert sum(held) == 1_001
    assert held.index(MOST_HELD) == MOST_HELD - 1


def test_a_half_in_a_text_does_not_hold_back_a_call() -> None:
    for events in (
        [chat(content="a \ud83d"), chat_call(id="c", function={"name": "done", "arguments": '{"x":1}'})],
        [{"type": "response.output_text.delta", "output_index": 0, "delta": "a \ud83d"}, responses_call_delta(1, "{")],
    ):
        joined = EncodableEvents()
        assert [len(joined.feed([json.dumps(one).encode()])) for one in events] == [0, 2]


@pytest.mark.parametrize("between", ["\n", " \n\n ", ""])
def test_several_objects_in_one_event_are_each_an_event(between: str) -> None:
    values = between.join(json.dumps(one) for one in (chat(content="8"), chat(content="0")))
    data = "".join(f"data: {line}\n" for line in f"{values}\n[DONE]".split("\n"))
    stream = ChatStream()
    chunks = [*stream.feed(data.encode() + b"\n"), *stream.end()]
    assert "".join(getattr(one, "text", "") for one in chunks) == "80"
    assert stream.done
