"""C4, C5: only a ProviderError leaves a provider, for any bytes; no empty result is ever sent."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from endstop.decision import Assembler, ToolResult
from endstop.decision.messages import Image
from endstop.providers.chat_stream import ChatStream, parse_whole_reply
from endstop.providers.errors import ProviderError
from endstop.providers.openai_format import NO_OUTPUT, encode_message
from hypothesis import given
from hypothesis import strategies as st


def read(*events: bytes) -> Any:
    reader, assembler = ChatStream(), Assembler(1, "1.1", set())
    for event in events:
        for chunk in reader.feed(b"data: " + event + b"\n\n"):
            assembler.feed(chunk)
    for chunk in reader.end():
        assembler.feed(chunk)
    return assembler


STOP = b'{"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}'


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (b'{"choices": [{"index": 0, "delta": {"content": "hi"}, "logprobs": {"x": NaN}}]}', "hi"),
        (b'{"choices": [{"index": "0", "delta": {"content": "hi", "tool_calls": {}}}]}', "hi"),
        (b'{"choices": [{"index": 0, "delta": {"content": "a\xffb"}}]}', "a\ufffdb"),
        (b'{"id": "\xff", "choices": [{"index": 0, "delta": {"content": "x"}}]}', "x"),
        (b'{"choices": [{"index": 0, "delta": {"content": "a\\ud83db"}}]}', "a\ufffdb"),
        (b'{"choices": [{"delta": {"content": "hi", "refusal": {}, "reasoning": 7}, "finish_reason": 0}]}', "hi"),
        (b'{"choices": [{"index": 0, "delta": {"content": "hi"}}, {"index": 1, "delta": {"content": "XX"}}]}', "hi"),
    ],
)
def test_C5_what_nobody_needs_ends_no_response(event: bytes, text: str) -> None:
    assert read(event, STOP.replace(b'"index": 0', b'"index": 0')).message.text == text


def test_C5_a_call_whose_index_is_a_text_is_a_call() -> None:
    function = b'{"index": "0", "id": "a", "function": {"name": "f", "arguments": %s}}'
    call = b'{"choices": [{"delta": {"tool_calls": [' + function + b"]}}]}"
    assert [c.arguments for c in read(call % b'"{\\"x\\": 1}"', STOP).message.calls] == ['{"x": 1}']


NAMES = """
    choices delta message content tool_calls function name arguments index id finish_reason usage error prompt_tokens
    refusal reasoning text function_call
""".split()
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just("\ud800"),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(NAMES),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)


@given(st.lists(st.binary(max_size=60) | values, max_size=5), st.integers(1, 50))
def test_C5_whatever_the_bytes_only_a_providers_error_comes_out(events: list[Any], cut: int) -> None:
    sent = b"".join(
        b"data: " + (one if isinstance(one, bytes) else json.dumps(one).encode()) + b"\n\n" for one in events
    )
    assembler, reader = Assembler(1, "1.1", set()), ChatStream()
    with suppress(ProviderError):
        for at in range(0, len(sent), cut):
            for chunk in reader.feed(sent[at : at + cut]):
                assembler.feed(chunk)
        for chunk in reader.end():
            assembler.feed(chunk)
    for one in events:
        with suppress(ProviderError):
            parse_whole_reply(one if isinstance(one, bytes) else json.dumps(one).encode())


@pytest.mark.parametrize("content", ["", " ", "\n\t"])
@pytest.mark.parametrize("pictures", ["none", "inside", "after"])
def test_C4_no_empty_result_is_ever_sent(content: str, pictures: Any) -> None:
    for images in ((), (Image(b"x"),)):
        out = encode_message(ToolResult("a", "look", content, images=images), pictures=pictures)
        parts = out["content"] if isinstance(out["content"], list) else [{"type": "text", "text": out["content"]}]
        assert [part["text"] for part in parts if part["type"] == "text"] == [NO_OUTPUT]
