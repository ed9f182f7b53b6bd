"""Work is linear in a stream whose events name something new again and again: an index, an id, a member, a type."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from endstop.decision import Policy
from endstop.follow.followed_response import FollowedResponse
from endstop.providers import Anthropic, Gemini, OpenAICompatible, OpenAIResponses
from endstop.proxy.anthropic_wire import ANTHROPIC
from endstop.proxy.chat_wire import CHAT
from endstop.proxy.exchange import EventSplitter
from endstop.proxy.responses_wire import RESPONSES

from .measure import growth

BLOCK = 500
PROVIDERS = {
    "chat": OpenAICompatible("m", "http://127.0.0.1/v1"),
    "anthropic": Anthropic("m", api_key="none"),
    "responses": OpenAIResponses("m", api_key="none"),
    "gemini": Gemini("m", api_key="none"),
}
PROXIED = {"chat": CHAT, "anthropic": ANTHROPIC, "responses": RESPONSES}
SMALL, LARGE = 40_000, 320_000
LONG = "x" * 380
HALF = "\ud83d"


def event(value: dict[str, Any]) -> str:
    name = f"event: {value['type']}\n" if "type" in value else ""
    return f"{name}data: {json.dumps(value)}\n\n"


def chat(**delta: Any) -> str:
    return event({"choices": [{"index": 0, "delta": delta}]})


def chat_call(index: int, arguments: str = "", name: str = "", id: str = "") -> str:
    function = {"name": name, "arguments": arguments}
    return chat(tool_calls=[{"index": index, "id": id, "function": function}])


def block(index: int, **fields: Any) -> str:
    return event({"type": "content_block_start", "index": index, "content_block": fields})


def delta(index: int, **fields: Any) -> str:
    return event({"type": "content_block_delta", "index": index, "delta": fields})


def stop(index: int) -> str:
    return event({"type": "content_block_stop", "index": index})


def message(**fields: Any) -> str:
    return event({"type": "message_start", "message": {"id": "m", "content": [], **fields}})


def item(index: int, done: bool = True, **fields: Any) -> str:
    kind = "response.output_item.done" if done else "response.output_item.added"
    return event({"type": kind, "output_index": index, "item": fields})


def part(**fields: Any) -> str:
    return event({"candidates": [{"content": {"parts": [fields]}}]})


def piece(path: str, **value: Any) -> str:
    return part(functionCall={"partialArgs": [{"jsonPath": path, **value}], "willContinue": True})


def repeated(make: Callable[[int], str], begins: str = "") -> Callable[[int], str]:
    """A stream of about this length, of the events for 0, 1, 2 and so on."""
    return lambda length: begins + "".join(map(make, range(length // len(make(100)))))


GROWING = part(functionCall={"name": "f", "willContinue": True})
STREAMS: dict[str, Callable[[int], str]] = {
    "chat, details of new indexes": repeated(lambda n: chat(reasoning_details=[{"index": n, "text": "a"}])),
    "chat, details of new types": repeated(lambda n: chat(reasoning_details=[{"index": 0, "type": f"t{n}"}])),
    "chat, a detail in long pieces": repeated(
        lambda n: chat(reasoning_details=[{"index": 0, "type": "reasoning.text", "text": LONG}])
    ),
    "chat, new members": repeated(lambda n: chat(x={f"x{n}": 1})),
    "chat, new members of the head": repeated(lambda n: event({"choices": [], "x": {f"x{n}": 1}})),
    "chat, a name in long pieces": repeated(lambda n: chat_call(0, name=LONG)),
    "chat, an id in long pieces": repeated(lambda n: chat_call(0, id=LONG)),
    "chat, new calls": repeated(lambda n: chat_call(n, '{"a":1}', "f", f"c{n}")),
    "chat, new calls that stay open": repeated(lambda n: chat_call(n, '{"a":"', "f", f"c{n}")),
    "chat, halves in new calls": repeated(lambda n: chat_call(n, HALF, "f", f"c{n}")),
    "chat, one event of unknown calls": lambda length: chat(
        tool_calls=[{"index": n, "type": "odd", "x": 1} for n in range(length // 40)]
    ),
    "anthropic, blocks that stay open": repeated(lambda n: block(n, type="text", text="a"), message()),
    "anthropic, blocks closed from the last on": lambda length: (
        message()
        + "".join(block(n, type="text", text="a") for n in range(length // 200))
        + "".join(stop(n) for n in reversed(range(length // 200)))
    ),
    "anthropic, a signature in long pieces": repeated(
        lambda n: delta(0, type="signature_delta", signature=LONG), message() + block(0, type="thinking")
    ),
    "anthropic, an unknown text in long pieces": repeated(
        lambda n: delta(0, type="odd_delta", x=LONG), message() + block(0, type="odd", x="")
    ),
    "anthropic, citations": repeated(
        lambda n: delta(0, type="citations_delta", citation={"a": n}), message() + block(0, type="text", text="")
    ),
    "anthropic, new counts": repeated(
        lambda n: event({"type": "message_delta", "delta": {}, "usage": {f"x{n}": 1}}), message()
    ),
    "anthropic, the message again": repeated(lambda n: message(**{f"x{n}": 1}), message()),
    "anthropic, texts between blocks of the vendor": repeated(
        lambda n: block(2 * n, type="text", text="a") + block(2 * n + 1, type="odd") + stop(2 * n + 1), message()
    ),
    "responses, items that stay open": repeated(
        lambda n: (
            item(n, done=False, type="message", id=f"i{n}")
            + event({"type": "response.output_text.delta", "output_index": n, "delta": "a"})
        )
    ),
    "responses, items that wait, and messages": repeated(
        lambda n: item(2 * n, type="odd_call", id=f"w{n}") + item(2 * n + 1, type="message", id=f"m{n}")
    ),
    "gemini, one event of odd parts": lambda length: event(
        {"candidates": [{"content": {"parts": [{"odd": {"a": 1}}] * (length // 20)}}]}
    ),
    "gemini, one event of candidates": lambda length: event(
        {"candidates": [{"content": {"parts": [{"odd": {"a": 1}}]}}] * (length // 50)}
    ),
    "gemini, tools that began": lambda length: (
        "".join(part(toolCall={"toolType": "a", "id": str(n)}) for n in range(length // 200))
        + part(toolResponse={"toolType": "b"}) * (length // 200)
    ),
    "gemini, a text in long pieces": repeated(lambda n: piece("$.a", stringValue=LONG), GROWING),
    "gemini, items far behind": repeated(lambda n: piece(f"$.a{n}[99999]", numberValue=1), GROWING),
}


def engine(wire: str, body: bytes) -> None:
    """The provider's parser, and a follower of what it says."""
    parser = PROVIDERS[wire].open_parser()
    response = FollowedResponse(1, "1.1", Policy(), {}, set(), lambda event: None, cuts=False)
    for at in range(0, len(body), BLOCK):
        for chunk in parser.feed(body[at : at + BLOCK]):
            response.feed(chunk)
    response.finish("stop", "stop", None, 0, "m")


def proxy(wire: str, body: bytes) -> None:
    """What the proxy keeps so that it could end the stream, and what puts it together."""
    proxied = PROXIED[wire]
    end = proxied.open_end(proxied.read({proxied.items: [{"role": "user", "content": "a"}]}))
    splitter, assembler = EventSplitter(), proxied.open_assembler()
    for at in range(0, len(body), BLOCK):
        for found, _ in splitter.feed(body[at : at + BLOCK]):
            end.see(found)
        assembler.feed(body[at : at + BLOCK])
    assembler.build()


@pytest.mark.parametrize("name", STREAMS)
def test_what_a_stream_names_anew_costs_no_more_the_later_it_comes(name: str) -> None:
    wire = name.partition(",")[0]
    small, large = (STREAMS[name](length).encode() for length in (SMALL, LARGE))
    for read in (engine, *([proxy] if wire in PROXIED else [])):
        read(wire, small)
        assert growth(partial(read, wire), small, large, bound=1.4) < 1.4, read.__name__
