"""A stream that was put together says what the stream says, and looks as the provider's own response."""

from __future__ import annotations

import json
import random
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from endstop.decision import Assembler, AssistantMessage, Usage
from endstop.providers.anthropic_stream import AnthropicStream
from endstop.providers.chat_stream import ChatStream
from endstop.providers.event_stream import EventStream
from endstop.providers.gemini_stream import GeminiStream
from endstop.providers.responses_stream import ResponsesStream
from endstop.proxy.anthropic_wire import ANTHROPIC
from endstop.proxy.chat_wire import CHAT
from endstop.proxy.gemini_wire import GEMINI
from endstop.proxy.responses_wire import RESPONSES
from endstop.proxy.wire import ProxyWire, ReportedError, UnfinishedCall

from ...shared_data import events_in, recorded, streams
from .test_wires import sse

PARSERS: dict[str, type[EventStream]] = {
    "openai": ChatStream,
    "anthropic": AnthropicStream,
    "responses": ResponsesStream,
    "gemini": GeminiStream,
}
IN_PIECES = "arguments in pieces, which have no form without a stream"
LEFT_OUT = {
    "google-stream-tool-call-array-arguments-missing-terminal-function-call": IN_PIECES,
    "google-vertex-stream-tool-call-arguments-nested.1": IN_PIECES,
    "parallel-tool-call-wrapper.1": "events that are no JSON",
    "openai-error.1": "an error",
    "openai-completion-text": "the older completions, which have no message",
    "openai-shell-container.1": "its last event has another text than its deltas",
}


def wire_of(path: Path) -> ProxyWire:
    vendors = {"anthropic": ANTHROPIC, "openai-responses": RESPONSES, "gemini": GEMINI}
    return next((wire for vendor, wire in vendors.items() if path in streams(vendor)), CHAT)


def framed(events: list[dict[str, Any]]) -> bytes:
    """Events as they come over the wire."""
    return b"".join(sse(events))


def assembled(wire: ProxyWire, body: bytes, seed: object = 0) -> dict[str, Any]:
    """The response of a stream whose bytes are cut anywhere."""
    chance, assembler = random.Random(str(seed)), wire.open_assembler()
    while body:
        size = chance.randint(1, 400)
        assembler.feed(body[:size])
        body = body[size:]
    response = assembler.response()
    assert response is not None
    return json.loads(json.dumps(response))


def first_response(path: Path) -> list[dict[str, Any]]:
    """The events of the first response in a recording."""
    events = []
    for event in events_in(path):
        events.append(event)
        if event.get("type") in ("response.completed", "response.incomplete", "response.failed"):
            break
    return events


READABLE = [
    path
    for path in streams("openai-chat", "anthropic", "openai-responses", "gemini")
    if path.name.removesuffix(".chunks.txt") not in LEFT_OUT
]


def heard(parser: EventStream, body: bytes, *, whole: bool) -> tuple[AssistantMessage, str, str, Usage | None]:
    """What the engine reads of a body: message, finish, the provider's word for it, and usage."""
    reader = Assembler(1, "1.1", set())
    for chunk in parser.read_whole(body) if whole else [*parser.feed(body), *parser.end()]:
        reader.feed(chunk)
    reader.close()
    return reader.message, str(reader.finish), reader.raw_finish, reader.usage


@pytest.mark.parametrize("path", recorded(READABLE))
def test_a_recorded_stream_says_the_same_when_it_is_put_together(path: Path) -> None:
    wire, events = wire_of(path), first_response(path)
    whole = assembled(wire, framed(events) + b"data: [DONE]\n\n", path)
    of_stream = heard(PARSERS[wire.name](), framed(events), whole=False)
    of_whole = heard(PARSERS[wire.name](), json.dumps(whole).encode(), whole=True)
    for part, expected in zip(of_whole[1:], of_stream[1:], strict=True):
        assert part == expected
    assert of_whole[0].text == of_stream[0].text
    assert [(c.name, json.loads(c.arguments or "{}")) for c in of_whole[0].calls] == [
        (c.name, json.loads(c.arguments or "{}")) for c in of_stream[0].calls
    ]
    assert "".join(one.text for one in of_whole[0].reasoning) == "".join(one.text for one in of_stream[0].reasoning)


# ---- pairs: a response as the vendors' references describe it, and the stream of the same

CHAT_WHOLE: dict[str, Any] = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1770933892,
    "model": "gpt-x-2026",
    "service_tier": "default",
    "system_fingerprint": "fp_1",
    "choices": [
        {
            "index": 0,
            "message": {
                "role": "assistant",
                "content": "I look \u00fcber there.",
                "refusal": None,
                "reasoning_content": "First look.",
                "reasoning_details": [
                    {"type": "reasoning.text", "text": "First look.", "signature": "s1", "format": "f", "index": 0}
                ],
                "annotations": [{"type": "url_citation", "url_citation": {"url": "http://x", "title": "X"}}],
                "tool_calls": [
                    {
                        "id": "call_1",
                        "type": "function",
                        "function": {"name": "work", "arguments": '{"n": 1}'},
                        "extra_content": {"google": {"thought_signature": "sig"}},
                    },
                    {"id": "call_2", "type": "function", "function": {"name": "work", "arguments": '{"n": 2}'}},
                ],
            },
            "logprobs": {"content": [{"token": "I", "logprob": -0.1}, {"token": " look", "logprob": -0.2}]},
            "finish_reason": "tool_calls",
        }
    ],
    "usage": {
        "prompt_tokens": 16,
        "completion_tokens": 30,
        "total_tokens": 46,
        "prompt_tokens_details": {"cached_tokens": 8},
        "completion_tokens_details": {"reasoning_tokens": 3},
    },
}


def chat_events(response: dict[str, Any] = CHAT_WHOLE) -> list[dict[str, Any]]:
    """The chunks of CHAT_WHOLE, by hand."""
    head = {name: response[name] for name in ("id", "created", "model", "service_tier", "system_fingerprint")}
    (choice,) = response["choices"]
    (detail,) = choice["message"]["reasoning_details"]
    first, second = choice["message"]["tool_calls"]
    words = choice["logprobs"]["content"]
    pieces: list[tuple[dict[str, Any], Any]] = [
        ({"role": "assistant", "content": "", "refusal": None}, None),
        ({"reasoning_content": "First "}, None),
        ({"reasoning_details": [{**detail, "text": "First ", "signature": None}]}, None),
        ({"reasoning_content": "look.", "reasoning_details": [{**detail, "text": "look."}]}, None),
        ({"content": "I"}, {"content": words[:1]}),
        ({"content": " look \u00fcber there."}, {"content": words[1:]}),
        ({"annotations": choice["message"]["annotations"]}, None),
        ({"tool_calls": [{"index": 0, **first, "function": {"name": "work", "arguments": ""}}]}, None),
        ({"tool_calls": [{"index": 0, "id": "call_1", "function": {"arguments": '{"n": '}}]}, None),
        ({"tool_calls": [{"index": 0, "function": {"name": "", "arguments": "1}"}}]}, None),
        ({"tool_calls": [{"index": 1, **second}]}, None),
    ]
    chunks = [{"index": 0, "delta": delta, "logprobs": logprobs, "finish_reason": None} for delta, logprobs in pieces]
    end = {"index": 0, "delta": {}, "logprobs": None, "finish_reason": choice["finish_reason"]}
    common = {**head, "object": "chat.completion.chunk"}
    events = [{**common, "choices": [one], "usage": None, "obfuscation": "x" * 5} for one in [*chunks, end]]
    return [*events, {**common, "choices": [], "usage": response["usage"]}]


ANTHROPIC_WHOLE: dict[str, Any] = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-x",
    "content": [
        {"type": "thinking", "thinking": "First look.", "signature": "c2ln"},
        {"type": "redacted_thinking", "data": "enc"},
        {
            "type": "text",
            "text": "I look there.",
            "citations": [{"type": "char_location", "cited_text": "a"}, {"type": "char_location", "cited_text": "b"}],
        },
        {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "port"}},
        {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": [{"type": "web_search_result"}]},
        {"type": "tool_use", "id": "toolu_1", "name": "work", "input": {"n": 1, "text": "\u00fc"}},
        {"type": "tool_use", "id": "toolu_2", "name": "list", "input": {}},
    ],
    "stop_reason": "tool_use",
    "stop_sequence": None,
    "container": {"id": "container_1", "expires_at": "2026-01-01T00:00:00Z"},
    "context_management": {"applied_edits": []},
    "usage": {
        "input_tokens": 9,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 4,
        "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
        "output_tokens": 60,
        "service_tier": "standard",
        "server_tool_use": {"web_search_requests": 1},
    },
}


def anthropic_events() -> list[dict[str, Any]]:
    """The events of ANTHROPIC_WHOLE, by hand."""
    thinking, hidden, text, search, found, work, plain = ANTHROPIC_WHOLE["content"]
    arguments = json.dumps(work["input"])
    blocks: list[tuple[dict[str, Any], list[dict[str, Any]]]] = [
        (
            {**thinking, "thinking": "", "signature": ""},
            [
                {"type": "thinking_delta", "thinking": "First "},
                {"type": "thinking_delta", "thinking": "look."},
                {"type": "signature_delta", "signature": "c2ln"},
            ],
        ),
        (hidden, []),
        (
            {"type": "text", "text": "", "citations": []},
            [
                {"type": "citations_delta", "citation": text["citations"][0]},
                {"type": "text_delta", "text": "I look "},
                {"type": "text_delta", "text": "there."},
                {"type": "citations_delta", "citation": text["citations"][1]},
            ],
        ),
        ({**search, "input": {}}, [{"type": "input_json_delta", "partial_json": '{"query": "port"}'}]),
        (found, []),
        (
            {**work, "input": {}},
            [{"type": "input_json_delta", "partial_json": part} for part in ("", arguments[:5], arguments[5:])],
        ),
        (plain, [{"type": "input_json_delta", "partial_json": ""}]),
    ]
    begun = {**ANTHROPIC_WHOLE, "content": [], "stop_reason": None}
    usage = ANTHROPIC_WHOLE["usage"]
    begun["usage"] = {**usage, "output_tokens": 1}
    del begun["usage"]["server_tool_use"], begun["container"], begun["context_management"]
    events: list[dict[str, Any]] = [{"type": "message_start", "message": begun}, {"type": "ping"}]
    for index, (block, deltas) in enumerate(blocks):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        events += ({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas)
        events.append({"type": "content_block_stop", "index": index})
    end = {name: ANTHROPIC_WHOLE[name] for name in ("stop_reason", "stop_sequence", "container")}
    counts = {"output_tokens": 60, "server_tool_use": usage["server_tool_use"], "cache_read_input_tokens": None}
    events.append({"type": "message_delta", "delta": end, "usage": counts, "context_management": {"applied_edits": []}})
    return [*events, {"type": "message_stop"}]


RESPONSES_WHOLE: dict[str, Any] = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1770933892,
    "status": "completed",
    "error": None,
    "incomplete_details": None,
    "model": "gpt-x",
    "output": [
        {"id": "rs_1", "type": "reasoning", "summary": [{"type": "summary_text", "text": "look"}]},
        {
            "id": "fc_1",
            "type": "function_call",
            "status": "completed",
            "call_id": "call_1",
            "name": "work",
            "arguments": "{}",
        },
    ],
    "usage": {"input_tokens": 9, "output_tokens": 5, "total_tokens": 14},
}


def responses_events(*, empty: bool = False) -> list[dict[str, Any]]:
    """The events of RESPONSES_WHOLE, by hand. empty: the last one has no items, as some servers send it."""
    begun = {**RESPONSES_WHOLE, "status": "in_progress", "output": [], "usage": None}
    events: list[dict[str, Any]] = [{"type": "response.created", "response": begun}]
    for index, item in enumerate(RESPONSES_WHOLE["output"]):
        events.append({"type": "response.output_item.added", "output_index": index, "item": {**item}})
        events.append({"type": "response.output_item.done", "output_index": index, "item": item})
    last = {**RESPONSES_WHOLE, "output": []} if empty else RESPONSES_WHOLE
    return [*events, {"type": "response.completed", "response": last}]


PAIRS = [
    pytest.param(CHAT, CHAT_WHOLE, chat_events(), id="chat"),
    pytest.param(ANTHROPIC, ANTHROPIC_WHOLE, anthropic_events(), id="anthropic"),
    pytest.param(RESPONSES, RESPONSES_WHOLE, responses_events(), id="responses"),
    pytest.param(RESPONSES, RESPONSES_WHOLE, responses_events(empty=True), id="responses-empty"),
]


@pytest.mark.parametrize(("wire", "whole", "events"), PAIRS)
@pytest.mark.parametrize("seed", range(5))
def test_each_field_is_that_of_the_response_without_a_stream(
    wire: ProxyWire, whole: dict[str, Any], events: list[dict[str, Any]], seed: int
) -> None:
    body = framed(events)
    assert assembled(wire, body + b"data: [DONE]\n\n", seed) == whole
    assert assembled(wire, body.replace(b"\n", b"\r\n").rstrip() + b"\r\n", seed) == whole


@pytest.mark.parametrize(("wire", "whole", "events"), PAIRS)
def test_a_stream_that_ends_before_the_response_makes_none(
    wire: ProxyWire, whole: dict[str, Any], events: list[dict[str, Any]]
) -> None:
    last = 2 if wire is CHAT else 1  # of chat completions only the usage comes after the end
    for place in range(len(events) - last):
        assembler = wire.open_assembler()
        assembler.feed(framed(events[:place]))
        assert assembler.response() is None


@pytest.mark.parametrize(
    ("wire", "event"),
    [
        (CHAT, {"error": {"message": "overloaded", "type": "server_error"}}),
        (ANTHROPIC, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
        (RESPONSES, {"type": "error", "code": "server_error", "message": "oops"}),
        (RESPONSES, {"type": "response.failed", "response": {"status": "failed", "error": {"code": "server_error"}}}),
    ],
)
def test_an_error_in_the_stream_is_raised_as_the_provider_said_it(wire: ProxyWire, event: dict[str, Any]) -> None:
    begun = {CHAT: chat_events, ANTHROPIC: anthropic_events, RESPONSES: responses_events}[wire]()[:2]
    assembler = wire.open_assembler()
    with pytest.raises(ReportedError) as raised:
        assembler.feed(framed([*begun, event]))
    assert raised.value.said == event


def test_calls_of_one_index_with_other_ids_are_several() -> None:
    calls = [
        {"index": 0, "id": id, "type": "function", "function": {"name": "work", "arguments": f'{{"n": {n}}}'}}
        for n, id in enumerate("ab")
    ]
    chunks = [{"id": "x", "choices": [{"index": 0, "delta": {"tool_calls": [call]}}]} for call in calls]
    end = {"id": "x", "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}
    message = assembled(CHAT, framed([*chunks, end]))["choices"][0]["message"]
    assert [(call["id"], call["function"]["arguments"]) for call in message["tool_calls"]] == [
        ("a", '{"n": 0}'),
        ("b", '{"n": 1}'),
    ]


def test_content_in_parts_stays_in_parts() -> None:
    thought = [{"type": "thinking", "thinking": [{"type": "text", "text": part}]} for part in ("First ", "look.")]
    deltas: list[Any] = [[thought[0]], [thought[1]], "I ", "look."]
    chunks = [{"id": "x", "choices": [{"index": 0, "delta": {"content": content}}]} for content in deltas]
    end = {"id": "x", "choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": "stop"}]}
    assert assembled(CHAT, framed([*chunks, end]))["choices"][0]["message"]["content"] == [
        {"type": "thinking", "thinking": [{"type": "text", "text": "First look."}]},
        {"type": "text", "text": "I look."},
    ]


def test_input_that_was_cut_off_makes_no_message() -> None:
    events = anthropic_events()
    cut = next(one for one in events if one.get("delta", {}).get("partial_json", "").startswith('{"query'))
    cut["delta"] = {**cut["delta"], "partial_json": '{"query": '}
    assembler = ANTHROPIC.open_assembler()
    assembler.feed(framed(events))
    with pytest.raises(UnfinishedCall):
        assembler.response()


def test_items_of_a_list_go_on_with_the_latest_of_their_index_and_type() -> None:
    items = [
        {"index": 0, "type": "a", "text": "1"},
        {"index": 1, "type": "a", "text": "2"},
        {"index": 0, "type": "b", "text": "3"},
        {"index": 0, "type": "a", "text": "4"},
        {"index": 0, "text": "5"},
        {"text": "6"},
        {"text": "7"},
    ]
    deltas = [{"x": [item]} for item in items]
    events = [{"id": "x", "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    message = assembled(CHAT, framed(events) + b"data: [DONE]\n\n")["choices"][0]["message"]
    assert [(item.get("index"), item.get("type"), item["text"]) for item in message["x"]] == [
        (0, "a", "14"),
        (1, "a", "2"),
        (0, "b", "35"),
        (None, None, "6"),
        (None, None, "7"),
    ]


def is_decodable(text: str) -> bool:
    """Whether this Python decodes JSON nested so deep: 3.13 takes about ten times as much as 3.11."""
    try:
        msgspec.json.decode(text)
    except RecursionError:
        return False
    return True


@pytest.mark.parametrize("depth", [100, 900, 5_000, 100_000])
@pytest.mark.parametrize("wire", [CHAT, ANTHROPIC, RESPONSES], ids=lambda wire: wire.name)
def test_what_is_nested_too_deep_is_an_error_that_says_so(wire: ProxyWire, depth: int) -> None:
    deep = '{"a":' * depth + "1" + "}" * depth
    bodies = {
        "openai": [f'{{"id":"x","choices":[{{"index":0,"delta":{{"x":{deep}}},"finish_reason":"stop"}}]}}'],
        "anthropic": [
            '{"type":"message_start","message":{"id":"m","content":[]}}',
            '{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"c","name":"f"}}',
            json.dumps(
                {
                    "type": "content_block_delta",
                    "index": 0,
                    "delta": {"type": "input_json_delta", "partial_json": deep},
                }
            ),
            '{"type":"message_stop"}',
        ],
        "responses": [f'{{"type":"response.completed","response":{{"id":"r","output":[{deep}]}}}}'],
    }
    assembler = wire.open_assembler()
    refused = pytest.raises(ValueError, match=r"deep|cannot be read|not one")
    joined = nullcontext() if depth == 100 else suppress(ValueError)  # as the stack of the caller allows
    with joined if is_decodable(deep) else refused:
        assembler.feed("".join(f"data: {event}\n\n" for event in bodies[wire.name]).encode())
        assert assembler.response()
