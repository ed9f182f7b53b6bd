"""Recorded streams of Gemini: what stands in them, however their bytes are cut, and what of it goes back."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest
from endstop.decision import UsageReport
from endstop.decision.messages import ToolResult, UserMessage
from endstop.providers import Gemini, Request
from endstop.providers.gemini_stream import GeminiStream

from ..shared_data import events_in, recorded, replies_in, streams
from .endpoint import Endpoint, Reply
from .gemini_endpoint import finish, gemini, parts
from .played import Heard, server_of
from .streams import chunks_of, unmerged

GEMINI = streams("gemini")
each = pytest.mark.parametrize("path", recorded(GEMINI))
DONE = gemini(parts({"text": "done"}), finish("STOP"))


def parts_in(path: Path) -> list[dict[str, Any]]:
    """Every part of a recording, in order."""
    return [
        part
        for event in events_in(path)
        for candidate in event.get("candidates", [])
        for part in candidate.get("content", {}).get("parts", [])
    ]


def calls_in(path: Path) -> list[tuple[str, Any]]:
    """The calls of a recording, read with no code of the project: pieces are put where their paths say."""
    calls: list[tuple[str, Any]] = []
    for part in parts_in(path):
        function = part.get("functionCall", {})
        if "name" in function:
            calls.append((function["name"], function.get("args", {})))
        for piece in function.get("partialArgs", []):
            at: Any = calls[-1][1]
            steps = re.findall(r"\w+", piece["jsonPath"])
            for step, after in zip(steps, [*steps[1:], ""], strict=True):
                if isinstance(at, list):
                    step = int(step)
                    at += [None] * (step + 1 - len(at))
                known = at[step] if isinstance(at, list) else at.get(step)
                if after:
                    at[step] = known if known is not None else [] if after.isdigit() else {}
                    at = at[step]
                else:
                    value = next(v for name, v in piece.items() if name.endswith("Value"))
                    at[step] = (known or "") + value if isinstance(value, str) else value
    return calls


def signatures_in(path: Path) -> list[str]:
    return [part["thoughtSignature"] for part in parts_in(path) if "thoughtSignature" in part]


async def heard(path: Path, **serving: Any) -> Heard:
    async with server_of(path, **serving) as server:
        return await Heard().all_of(Gemini("recorded", api_key="placeholder", api_base=server.url))


@each
async def test_a_recording_says_what_stands_in_it(path: Path) -> None:
    got = await heard(path)
    assert [(name, arguments) for _, name, arguments in got.calls] == calls_in(path)
    assert got.message.text == "".join(part.get("text", "") for part in parts_in(path))
    assert got.complete == [id for id, _, _ in got.calls]
    assert (got.assembler.finish, got.assembler.raw_finish) == ("stop", "STOP")
    counted = events_in(path)[-1]["usageMetadata"]
    (report,) = [chunk for chunk in got.chunks if isinstance(chunk, UsageReport)]
    assert report.usage.input_tokens == counted["promptTokenCount"]
    assert report.usage.output_tokens == counted["candidatesTokenCount"] + counted["thoughtsTokenCount"]
    assert report.usage.reasoning_tokens == counted["thoughtsTokenCount"]
    assert report.usage.input_tokens + report.usage.output_tokens == counted["totalTokenCount"]


@each
@pytest.mark.parametrize("newline", [b"\n", b"\r\n"])
@pytest.mark.parametrize("ping", [b"", b": ping\n\n"])
def test_the_bytes_of_a_recording_give_the_same_chunks_in_pieces_of_any_size(
    path: Path, newline: bytes, ping: bytes
) -> None:
    pieces = [piece.replace(b"\r\n", b"\n") for piece in replies_in(path)[0].pieces]
    body = b"".join(ping + piece for piece in pieces).replace(b"\n", newline)

    def read(size: int) -> list[Any]:
        stream = GeminiStream()
        chunks = [chunk for at in range(0, len(body), size) for chunk in stream.feed(body[at : at + size])]
        return unmerged(chunks + stream.end())

    whole = read(len(body))
    assert [read(size) == whole for size in (1, 2, 7, 1000)] == [True] * 4


@each
async def test_a_recording_in_gzip_gives_the_same_chunks(path: Path) -> None:
    body = gzip.compress(b"".join(replies_in(path)[0].pieces))
    reply = Reply(headers={"content_encoding": "gzip"}, pieces=[body[at : at + 100] for at in range(0, len(body), 100)])
    async with Endpoint(reply) as endpoint:
        got = await Heard().all_of(Gemini("recorded", api_key="placeholder", api_base=endpoint.url))
    assert got.chunks == (await heard(path)).chunks


@each
async def test_the_signatures_of_a_recording_go_back_byte_for_byte_with_their_calls(path: Path) -> None:
    message = (await heard(path)).message
    results = [ToolResult(call.id, call.name, "ok") for call in message.calls]
    async with Endpoint(DONE) as endpoint:
        request = Request(messages=[UserMessage("go"), message, *results])
        await chunks_of(Gemini("gemini-3-pro-preview", api_key="placeholder", api_base=endpoint.url), request)
    back = endpoint.body()["contents"][1]["parts"]
    assert [part["thoughtSignature"] for part in back if "thoughtSignature" in part] == signatures_in(path)
    assert [(part["functionCall"]["name"], part["functionCall"]["args"]) for part in back] == calls_in(path)
    assert all(json.dumps(signature).encode() in endpoint.requests[0] for signature in signatures_in(path))
    assert signatures_in(path) != []
