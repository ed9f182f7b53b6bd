"""Calls and messages of chat completions in forms that servers send and nobody documents: none is lost."""

from __future__ import annotations

import json
from typing import Any

import pytest
from endstop.decision import Assembler, AssistantMessage, UsageReport
from endstop.providers.chat_stream import ChatStream
from endstop.proxy.chat_assembler import ChatAssembler

from .endpoint import delta, sse


def calls(*pieces: dict[str, Any]) -> list[dict[str, Any]]:
    """One event for each piece of a call."""
    return [delta(tool_calls=[piece]) for piece in pieces]


def read(*events: dict[str, Any], finish: str = "tool_calls") -> AssistantMessage:
    parser, assembler = ChatStream(), Assembler(1, "1.1", set())
    chunks = [chunk for block in sse(*events, delta(finish=finish)) for chunk in parser.feed(block)]
    for chunk in [*chunks, *parser.end()]:
        assembler.feed(chunk)
    assembler.close()
    return assembler.message


def function(name: str, arguments: str | None = None) -> dict[str, Any]:
    return {"function": {"name": name} if arguments is None else {"name": name, "arguments": arguments}}


@pytest.mark.parametrize("arguments", ["", None, "{}", '{"x": 1}'])
def test_calls_without_index_and_id_are_told_apart_by_their_names(arguments: str | None) -> None:
    events = calls(function("look", arguments), function("find", arguments), function("done", arguments))
    assert [call.name for call in read(*events).calls] == ["look", "find", "done"]
    assembler = ChatAssembler()
    for block in sse(*events, delta(finish="tool_calls")):
        assembler.feed(block)
    whole = assembler.response()
    assert whole is not None
    assert [call["function"]["name"] for call in whole["choices"][0]["message"]["tool_calls"]] == [
        "look",
        "find",
        "done",
    ]


def test_a_call_without_index_goes_on_where_no_name_begins_another() -> None:
    pieces = function("look", '{"x":'), {"function": {"arguments": "1}"}}, function("find", "{}")
    assert [(call.name, call.arguments) for call in read(*calls(*pieces)).calls] == [
        ("look", '{"x":1}'),
        ("find", "{}"),
    ]


def test_a_name_in_pieces_is_one_name_where_calls_are_numbered() -> None:
    pieces = {"index": 0, "id": "c", **function("lo")}, {"index": 0, **function("ok")}
    assert [call.name for call in read(*calls(*pieces)).calls] == ["look"]


def test_a_call_of_an_unknown_type_keeps_the_members_of_every_delta() -> None:
    first = {"index": 0, "id": "c", "type": "shell", "shell": {"command": "ec", "args": ["a"], "limit": 1}}
    events = calls(
        first, {"index": 0, "shell": {"command": "ho", "args": ["b"], "limit": 2}}, {"index": 0, "note": "n"}
    )
    (call,) = read(*events).calls
    assert (call.id, call.name) == ("c", "shell")
    assert json.loads(call.arguments) == {"shell": {"command": "echo", "args": ["a", "b"], "limit": 2}, "note": "n"}


def test_a_message_in_place_of_deltas_is_read_and_one_after_them_is_their_repetition() -> None:
    message = {"choices": [{"index": 0, "message": {"role": "assistant", "content": "8080."}}]}
    assert read(message, finish="stop").text == "8080."
    assert read(delta(content="8080."), message, finish="stop").text == "8080."


def test_a_usage_within_the_choice_is_the_responses() -> None:
    last = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop", "usage": {"prompt_tokens": 7}}]}
    parser = ChatStream()
    chunks = [chunk for block in sse(delta(content="8080."), last) for chunk in parser.feed(block)]
    assert [chunk.usage.input_tokens for chunk in chunks if isinstance(chunk, UsageReport)] == [7]
