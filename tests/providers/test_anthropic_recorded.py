"""Recorded streams of Claude through our own wire: what stands in them comes out, and goes back as it came.

The recordings are read a second time here, naively, by joining the blocks of their events.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
from endstop.decision import AnyChunk, Assembler, AssistantMessage, Message, ProviderToolReport, UserMessage
from endstop.decision.messages import Usage
from endstop.providers import Anthropic, Interrupted, Request
from endstop.providers.anthropic_format import TurnJoiner, encode_turn
from endstop.providers.anthropic_stream import AnthropicStream

from ..shared_data import different, events_in, recorded, streams
from .anthropic_endpoint import event
from .endpoint import Endpoint, Reply, cut_every
from .played import Heard
from .streams import chunks_of, unmerged

CLAUDE = streams("anthropic")
SEVERAL = "anthropic-programmatic-tool-calling.1.chunks.txt"
"""A file with the responses of several requests: each ends with its `message_stop`."""
recordings = pytest.mark.parametrize("path", recorded(CLAUDE))


@cache
def responses(path: Path) -> tuple[tuple[Any, ...], ...]:
    """The events of a recording, a group for each response in it."""
    found: list[list[Any]] = [[]]
    for one in events_in(path):
        found[-1].append(one)
        if one["type"] == "message_stop":
            found.append([])
    return tuple(tuple(group) for group in found if group)


def body_of(events: Iterable[Any]) -> bytes:
    return b"".join(map(event, events))


def read(pieces: Iterable[bytes]) -> list[AnyChunk]:
    stream = AnthropicStream()
    return unmerged([chunk for piece in pieces for chunk in stream.feed(piece)] + stream.end())


def heard_in(events: Sequence[Any]) -> Heard:
    heard = Heard()
    for chunk in read([body_of(events)]):
        heard.note(chunk)
    return heard


def blocks_in(events: Iterable[Any]) -> list[dict[str, Any]]:
    """The content blocks of a response as they stand in its events."""
    blocks: dict[int, dict[str, Any]] = {}
    inputs: dict[int, str] = {}
    for one in events:
        match one:
            case {"type": "message_start", "message": {"content": content}}:
                blocks |= dict(enumerate(content))
            case {"type": "content_block_start", "index": index, "content_block": head}:
                blocks[index] = dict(head)
            case {"type": "content_block_delta", "index": index, "delta": {"type": "input_json_delta"} as delta}:
                inputs[index] = inputs.get(index, "") + delta["partial_json"]
            case {"type": "content_block_delta", "index": index, "delta": {"type": "citations_delta"} as delta}:
                blocks[index]["citations"] = [*(blocks[index].get("citations") or []), delta["citation"]]
            case {"type": "content_block_delta", "index": index, "delta": delta}:
                name = delta["type"].removesuffix("_delta")
                blocks[index][name] = blocks[index].get(name, "") + delta[name]
            case _:
                pass
    for index, text in inputs.items():
        blocks[index]["input"] = json.loads(text or "{}")
    return [block for _, block in sorted(blocks.items())]


def usage_in(events: Iterable[Any]) -> Usage:
    counts: dict[str, int] = {}
    for one in events:
        usage = one.get("usage") or one.get("message", {}).get("usage") or {}
        counts |= {name: value for name, value in usage.items() if isinstance(value, int)}
    cached = counts.get("cache_read_input_tokens", 0)
    return Usage(
        input_tokens=counts["input_tokens"] + counts.get("cache_creation_input_tokens", 0) + cached,
        output_tokens=counts["output_tokens"],
        cached_tokens=cached,
    )


def of_kind(blocks: Iterable[dict[str, Any]], *kinds: str) -> list[dict[str, Any]]:
    return [block for block in blocks if block["type"] in kinds]


# ---- what it says


@recordings
def test_a_recording_says_what_stands_in_it(path: Path) -> None:
    for events in responses(path):
        heard, blocks = heard_in(events), blocks_in(events)
        assert heard.message.text == "".join(block["text"] for block in of_kind(blocks, "text"))
        assert heard.reasoning == "".join(block["thinking"] for block in of_kind(blocks, "thinking"))
        calls = [(block["id"], block["name"], block["input"]) for block in of_kind(blocks, "tool_use")]
        assert heard.calls == calls
        assert heard.complete == [id for id, _, _ in calls]
        words = [one.get("delta", one.get("message", {})).get("stop_reason") for one in events]
        assert heard.assembler.raw_finish == next(filter(None, reversed(words)))
        assert heard.assembler.usage == usage_in(events)


@recordings
def test_tools_that_the_vendor_ran_and_citations_are_reported(path: Path) -> None:
    for events in responses(path):
        blocks = blocks_in(events)
        reports = [chunk for chunk in heard_in(events).chunks if isinstance(chunk, ProviderToolReport)]
        uses = [(r.id, r.name, json.loads(r.arguments)) for r in reports if r.arguments]
        used = of_kind(blocks, "server_tool_use", "mcp_tool_use")
        assert uses == [(block["id"], block["name"], block["input"]) for block in used]
        results = [(r.id, json.loads(r.result)) for r in reports if r.id and r.result]
        assert results == [(b["tool_use_id"], b["content"]) for b in blocks if b["type"].endswith("_tool_result")]
        cited = [citation for block in of_kind(blocks, "text") for citation in block.get("citations") or []]
        assert [json.loads(r.result) for r in reports if r.name == "citation"] == cited


# ---- however the bytes come


def sizes() -> list[Any]:
    """Each file in pieces of each size; all the many smallest ones of most files in `make test-long`."""
    smallest = different(CLAUDE)
    return [
        pytest.param(*param.values, size, id=f"{param.id}-{size}", marks=[*param.marks, *marks])
        for param in recorded(CLAUDE)
        for size in (1, 2, 7, 1000, 65536)
        for marks in [[pytest.mark.long] if size < 7 and param.values[0] not in smallest else []]
    ]


@pytest.mark.parametrize(("path", "size"), sizes())
def test_a_recording_in_pieces_of_any_size_gives_the_same_chunks(path: Path, size: int) -> None:
    body = body_of(responses(path)[0])
    whole = read([body])
    step = size if len(body) < 40_000 or size > 1 else 3
    assert read(cut_every([body], step)) == whole
    assert read(cut_every([body.replace(b"\n", b"\r\n")], step)) == whole
    with_comments = body.replace(b"\n\n", b"\n\n: keep-alive\n\n")
    assert read(cut_every([b": hello\n\n" + with_comments], step)) == whole


@recordings
async def test_a_compressed_recording_over_http_gives_the_same_chunks(path: Path) -> None:
    body = body_of(responses(path)[0])
    packed = cut_every([gzip.compress(body)], 211)
    async with Endpoint(Reply(pieces=packed, headers={"content-encoding": "gzip"})) as endpoint:
        chunks = await chunks_of(Anthropic("recorded", api_base=endpoint.url, api_key="placeholder"))
    assert unmerged(chunks) == read([body])


@pytest.mark.parametrize("path", recorded(path for path in CLAUDE if path.stat().st_size < 3000))
def test_a_body_that_ends_anywhere_before_its_finish_is_interrupted(path: Path) -> None:
    events = responses(path)[0]
    place = next(n for n, one in enumerate(events) if (one.get("delta") or {}).get("stop_reason"))
    body = body_of(events)
    finished = list(accumulate(len(event(one)) for one in events))[place] - 2  # the blank line may be missing
    for end in range(len("event:"), len(body) + 1):
        stream = AnthropicStream()
        stream.feed(body[:end])
        if end < finished:
            with pytest.raises(Interrupted):
                stream.end()
        else:
            stream.end()


# ---- what goes back


def sent_back(message: AssistantMessage) -> list[dict[str, Any]]:
    turns = json.loads(TurnJoiner().join([encode_turn(message)], frozenset(), 1, 0))
    return [block for turn in turns for block in turn["content"]]


def returnable(block: dict[str, Any]) -> dict[str, Any]:
    """A block as the API takes it back: without empty fields, and with a caller only where the vendor calls."""
    caller = block.get("caller") == {"type": "direct"} and block["type"] == "tool_use"
    return {
        name: value
        for name, value in block.items()
        if not (value is None or (name == "citations" and not value) or (name == "caller" and caller))
    }


@recordings
def test_every_block_goes_back_as_it_came_and_in_its_place(path: Path) -> None:
    for events in responses(path):
        came = [returnable(b) for b in blocks_in(events) if b["type"] != "text" or b["text"].strip()]
        assert [returnable(block) for block in sent_back(heard_in(events).message)] == came


@pytest.mark.parametrize("path", recorded(path for path in CLAUDE if path.name == SEVERAL))
async def test_a_conversation_of_recorded_responses_is_sent_back_whole(path: Path) -> None:
    """Each response of a recorded conversation, in the request after it."""
    messages: list[Message] = [UserMessage("Go.")]
    came: list[dict[str, Any]] = []
    for events in responses(path):
        assembler = Assembler(1, "1.1", set())
        for chunk in read([body_of(events)]):
            assembler.feed(chunk)
        messages += [assembler.message, UserMessage("Next.")]
        came += [returnable(b) for b in blocks_in(events) if b["type"] != "text" or b["text"].strip()]
    async with Endpoint(Reply(pieces=[body_of(responses(path)[-1])])) as endpoint:
        provider = Anthropic("recorded", api_base=endpoint.url, api_key="placeholder", cache=False)
        await chunks_of(provider, Request(messages=messages))
    turns = [turn["content"] for turn in endpoint.body()["messages"] if turn["role"] == "assistant"]
    unanswered = {b["id"] for b in came if b["type"] == "server_tool_use"} - {b.get("tool_use_id") for b in came}
    assert [returnable(block) for content in turns for block in content] == [
        block for block in came if block.get("id") not in unanswered
    ]
