"""Recorded streams of the Responses API over HTTP: text, reasoning, calls, finish, usage, reports and what goes back,
however the bytes are cut."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from endstop import Engine, Tool
from endstop.decision import AnyChunk, Assembler, ProviderToolReport
from endstop.decision.messages import AssistantMessage, Usage
from endstop.providers import Interrupted, OpenAIResponses, ProtocolError, ProviderError, QuotaExceeded
from endstop.providers.responses_stream import ResponsesStream

from ..shared_data import recorded, streams
from .endpoint import Endpoint, Reply
from .played import Heard
from .responses_wire import items, message
from .streams import unmerged

ENDS = {"response.completed", "response.incomplete", "response.failed"}
BROKEN = {"parallel-tool-call-wrapper.1": ProtocolError, "openai-error.1": QuotaExceeded}
"""Recordings that fail: one has events that are no JSON, one an error."""


def name_of(path: Path) -> str:
    return path.name.removesuffix(".chunks.txt")


@cache
def replies_of(path: Path) -> tuple[tuple[bytes, ...], ...]:
    """The responses of a recording, each as its events; some recordings hold several."""
    replies: list[tuple[bytes, ...]] = []
    events: list[bytes] = []
    for line in path.read_text().split("\n"):  # not `splitlines`: a text may hold other line ends
        if not line.strip():
            continue
        kind = json.loads(line)["type"] if name_of(path) not in BROKEN else ""
        events.append((f"event: {kind}\n" if kind else "").encode() + f"data: {line}\n\n".encode())
        if kind in ENDS:
            replies.append(tuple(events))
            events = []
    return (*replies, tuple(events)) if events else tuple(replies)


EVERY = streams("openai-responses")
WHOLE = [path for path in EVERY if name_of(path) not in BROKEN]
SMALL = [path for path in WHOLE if path.stat().st_size < 40_000]
every_whole = pytest.mark.parametrize("path", recorded(WHOLE))


# ---- what stands in a recording, read by its deltas and, for the rest, by its last event


FOR_CLIENTS = {
    "openai-apply-patch-tool.1": "apply_patch_call",
    "openai-client-tool-search.1": "tool_search_call",
    "openai-local-shell-tool.1": "local_shell_call",
    "openai-mcp-tool-approval.1": "mcp_approval_request (create_short_url)",
    "openai-shell-tool.1": "shell_call",
}
"""Recordings, one response of which waits for something that only a client can do."""


@dataclass
class Said:
    text: str = ""
    reasoning: str = ""
    calls: list[tuple[str, str, str]] = field(default_factory=list)
    reported: list[str] = field(default_factory=list)
    citations: int = 0
    encrypted: list[str] = field(default_factory=list)
    finish: str = ""
    usage: Usage | None = None


def said_in(events: Iterable[bytes]) -> Said:
    """Deltas were cut out of some recordings, and in one they contradict the whole item: what was shown stands."""
    said, texts, thoughts = Said(), dict[Any, str](), dict[Any, str]()
    items: dict[int, dict[str, Any]] = {}
    for event in (json.loads(raw.partition(b"data: ")[2]) for raw in events):
        match event:
            case {"type": "response.output_text.delta", "output_index": index, "delta": delta}:
                texts[index] = texts.get(index, "") + delta
            case {"type": "response.reasoning_summary_text.delta", "output_index": index, "summary_index": part}:
                thoughts[index, part] = thoughts.get((index, part), "") + event["delta"]
            case {"type": "response.reasoning_text.delta", "output_index": index}:
                thoughts[index, 0] = thoughts.get((index, 0), "") + event["delta"]
            case {"type": "response.output_item.done", "output_index": index, "item": item}:
                items[index] = item
            case {"type": kind, "response": response} if kind in ENDS:
                said.finish, said.usage = response["status"], usage_in(response.get("usage"))
    for index, item in sorted(items.items()):
        if item["type"] == "message":
            whole = "".join(part["text"] for part in item["content"])
            texts[index] = whole if whole.startswith(texts.get(index, "")) else texts[index]
        _note(item, said)
    said.text, said.reasoning = "\n\n".join(filter(None, texts.values())), "\n\n".join(thoughts.values())
    return said


def _note(item: dict[str, Any], said: Said) -> None:
    match item["type"]:
        case "function_call":
            said.calls.append((item["call_id"], item["name"], item["arguments"]))
        case "message":
            said.citations += sum(len(part.get("annotations", ())) for part in item["content"])
        case "reasoning":
            said.encrypted += filter(None, [item.get("encrypted_content")])
        case _:
            said.reported.append(item.get("call_id") or item["id"])


def usage_in(usage: Any) -> Usage | None:
    if usage is None:
        return None
    return Usage(
        input_tokens=usage["input_tokens"],
        output_tokens=usage["output_tokens"],
        cached_tokens=(usage.get("input_tokens_details") or {}).get("cached_tokens", 0),
        reasoning_tokens=(usage.get("output_tokens_details") or {}).get("reasoning_tokens", 0),
        cost_usd=usage["cost_in_usd_ticks"] / 10**10 if usage.get("cost_in_usd_ticks") else None,
    )


# ---- what is heard of it


async def heard(reply: Reply) -> Heard:
    async with Endpoint(reply) as endpoint:
        return await Heard().all_of(OpenAIResponses("recorded", api_base=endpoint.url))


def reports(chunks: Iterable[AnyChunk]) -> list[ProviderToolReport]:
    return [chunk for chunk in chunks if isinstance(chunk, ProviderToolReport)]


def encrypted_in(message: AssistantMessage) -> list[str]:
    kept = [json.loads(block.signature) for block in message.reasoning if block.signature]
    return [item["encrypted_content"] for item in kept if item["type"] == "reasoning" and "encrypted_content" in item]


def as_said(message: AssistantMessage, assembler: Assembler, chunks: list[AnyChunk]) -> Said:
    found = reports(chunks)
    return Said(
        text=message.text,
        reasoning="".join(block.text for block in message.reasoning),
        calls=[(call.id, call.name, call.arguments) for call in message.calls],
        reported=sorted(one.id for one in found if one.name != "citations"),
        citations=sum(len(json.loads(one.result)) for one in found if one.name == "citations"),
        encrypted=encrypted_in(message),
        finish=assembler.raw_finish,
        usage=assembler.usage,
    )


@every_whole
async def test_a_recorded_response_says_what_stands_in_it(path: Path) -> None:
    for events in replies_of(path):
        got, said = await heard(Reply(pieces=events)), said_in(events)
        waits_for = "" if said.text else FOR_CLIENTS.get(name_of(path), "")
        if waits_for:
            said.finish = f"{waits_for}: for a client to run"
        assert as_said(got.message, got.assembler, got.chunks) == Said(
            **{**vars(said), "reported": sorted(said.reported)}
        )
        assert got.complete == [id for id, _, _ in said.calls]
        finish = "error" if waits_for else "tool_calls" if said.calls else "stop"
        assert got.assembler.finish == finish


@pytest.mark.parametrize("path", recorded(path for path in EVERY if name_of(path) in BROKEN))
async def test_a_recording_that_fails_is_an_error_of_its_kind(path: Path) -> None:
    with pytest.raises(ProviderError) as error:
        await heard(Reply(pieces=replies_of(path)[0]))
    assert type(error.value) is BROKEN[name_of(path)]


def read(body: bytes, size: int) -> list[AnyChunk]:
    stream = ResponsesStream(runs_items=False)
    chunks = [chunk for at in range(0, len(body), size) for chunk in stream.feed(body[at : at + size])]
    return unmerged(chunks + stream.end())


@pytest.mark.parametrize("path", recorded(SMALL))
def test_the_bytes_of_a_recording_cut_at_every_place_give_the_same_chunks(path: Path) -> None:
    for events in replies_of(path):
        body = b"".join(events)
        assert read(body, 1) == read(body, len(body))


@every_whole
def test_other_line_ends_comments_and_cuts_give_the_same_chunks(path: Path) -> None:
    for events in replies_of(path):
        body = b"".join(events)
        whole = read(body, len(body))
        assert read(body.replace(b"\n", b"\r\n"), 1000) == whole
        assert read(b": hello\n\n" + body.replace(b"\n\n", b"\n\n: ping\n\n"), 7) == whole


@every_whole
async def test_a_compressed_recording_gives_the_same_chunks(path: Path) -> None:
    for events in replies_of(path):
        body = b"".join(events)
        packed = Reply(pieces=[gzip.compress(body)], headers={"content_encoding": "gzip"})
        assert unmerged((await heard(packed)).chunks) == read(body, len(body))


@pytest.mark.parametrize("path", recorded(SMALL))
def test_a_body_that_ends_before_its_last_event_is_interrupted(path: Path) -> None:
    for events in replies_of(path):
        body = b"".join(events[:-1])
        for end in range(len(b"data: {"), len(body), max(1, len(body) // 500)):
            stream = ResponsesStream(runs_items=False)
            stream.feed(body[:end])
            with pytest.raises(Interrupted):
                stream.end()


# ---- what goes back


def anything(name: str) -> Tool:
    async def work() -> str:
        return "12"

    return Tool(work, name=name, description="Anything.")


def kept_items(events: Iterable[bytes]) -> Iterator[bytes]:
    """The bytes of the reasoning items, as they stand in the stream."""
    for event in events:
        data = event.partition(b"data: ")[2].strip()
        if b'"response.output_item.done"' in data and json.loads(data)["item"]["type"] == "reasoning":
            item = data[data.index(b'"item":') + len(b'"item":') :]
            length = json.JSONDecoder().raw_decode(item.decode())[1]
            yield item.decode()[:length].encode()


@pytest.mark.parametrize(
    "path", recorded(path for path in WHOLE if any(said_in(events).encrypted for events in replies_of(path)))
)
async def test_the_encrypted_reasoning_of_a_recording_goes_back_byte_for_byte(path: Path) -> None:
    replies = [Reply(pieces=events) for events in replies_of(path)]
    names = {name for events in replies_of(path) for _, name, _ in said_in(events).calls}
    async with Endpoint(*replies, items(message("Done."))) as endpoint:
        engine = Engine(
            OpenAIResponses("recorded", api_base=endpoint.url), tools=[*map(anything, sorted(names))], presets=()
        )
        session = engine.session()
        await session.run("go")
        await session.run("and more")
    reasoning = [item for events in replies_of(path) for item in kept_items(events)]
    assert reasoning
    assert [item in endpoint.requests[-1] for item in reasoning] == [True] * len(reasoning)
