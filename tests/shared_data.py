"""The recorded material in ../shared: where it is, how it is served, and what it says when it is read naively.

It is no part of the project. Tests that use it take their parameters from `recorded`, which skips them where the
folder is absent.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from . import scripts

SHARED = Path(__file__).resolve().parents[2] / "shared"
STREAMS = SHARED / "data" / "streams"
SESSIONS = SHARED / "data" / "sessions"
ABSENT = pytest.mark.skipif(not STREAMS.is_dir(), reason=f"the recorded material is not here: no folder {STREAMS}")


def serve_fixture() -> Any:
    """The module that serves recordings on loopback, loaded from its place in ../shared/tools."""
    return scripts.load(SHARED / "tools" / "serve_fixture.py")


def recorded(paths: Iterable[Path]) -> list[Any]:
    """The files as parameters of a test, named by folder and file; one that is skipped where there are none."""
    found = [pytest.param(path, id=f"{path.parent.name}/{path.name.split('.chunks')[0]}") for path in paths]
    return found or [pytest.param(None, id="absent", marks=ABSENT)]


@cache
def replies_in(path: Path) -> tuple[Any, ...]:
    """A recording as the server's replies. They are read once, and nobody changes them."""
    return tuple(serve_fixture().load(path))


@cache
def events_in(path: Path) -> tuple[Any, ...]:
    """The JSON events of a chunks file; a line that is none as None. They are read once, and nobody changes them."""
    events = []
    for line in path.read_text().splitlines():
        if line.strip():
            try:
                events.append(json.loads(line))
            except ValueError:
                events.append(None)
    return tuple(events)


@cache
def _format_of(path: Path) -> str:
    formats = (serve_fixture().wire_format(event) for event in events_in(path))
    return next((name for name in formats if name != "sse"), "sse")


def streams(*formats: str, other: bool = False) -> list[Path]:
    """The recorded streams in one of these wire formats; with `other`, those in none of them."""
    if not STREAMS.is_dir():
        return []
    return [path for path in sorted(STREAMS.glob("*/*.chunks.txt")) if (_format_of(path) in formats) is not other]


def different(paths: list[Path]) -> set[Path]:
    """The smallest file of each folder, and the smallest that has characters of several bytes.

    How bytes become events depends on neither the words nor their number: only on the vendor, for which litellm may
    have a reader of its own, and on whether a character can be cut.
    """
    by_size = sorted(paths, key=lambda path: path.stat().st_size, reverse=True)
    smallest = {path.parent: path for path in by_size}
    with_long_characters = [path for path in by_size if not path.read_bytes().isascii()]
    return {*smallest.values(), *with_long_characters[-1:]}


def sessions(folder: str, pattern: str = "*.json") -> list[Path]:
    return sorted((SESSIONS / folder).glob(pattern))


# ---- what a recording says, by walking its events and joining what they hold


@dataclass
class Said:
    """A response as it stands in the recording. `finish` is the provider's own word."""

    text: str = ""
    reasoning: str = ""
    calls: list[tuple[str, str, str]] = field(default_factory=list)
    server_calls: list[str] = field(default_factory=list)
    finish: str | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    cost_usd: float | None = None


def said_by_chat(events: Iterable[Any]) -> Said:
    """OpenAI's chat format."""
    said = Said()
    calls: dict[int, list[str]] = {}
    for event in events:
        for choice in event.get("choices") or []:
            delta = choice.get("delta") or {}
            content = delta.get("content") or choice.get("text") or ""
            for part in [{"text": content}] if isinstance(content, str) else content:
                said.text += part.get("text", "")
                said.reasoning += "".join(piece["text"] for piece in part.get("thinking", []))
            said.reasoning += delta.get("reasoning_content") or delta.get("reasoning") or ""
            said.finish = choice.get("finish_reason") or said.finish
            for fragment in delta.get("tool_calls") or []:
                call = calls.setdefault(fragment.get("index", 0), ["", "", ""])
                for place, value in enumerate(
                    (fragment.get("id"), *map(fragment["function"].get, ("name", "arguments")))
                ):
                    call[place] += value or ""
        if usage := event.get("usage"):
            said.input_tokens, said.output_tokens = usage["prompt_tokens"], usage["completion_tokens"]
            said.cached_tokens = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
            said.reasoning_tokens = (usage.get("completion_tokens_details") or {}).get("reasoning_tokens") or 0
            if usage.get("total_tokens", 0) > said.input_tokens + said.output_tokens:
                said.output_tokens += said.reasoning_tokens  # xAI bills it beside the output
            if ticks := usage.get("cost_in_usd_ticks"):
                said.cost_usd = ticks / 10_000_000_000
    said.calls = [(id, name, arguments) for id, name, arguments in calls.values()]
    return said


def said_by_anthropic(events: Iterable[Any]) -> Said:
    """Anthropic's messages."""
    said = Said()
    blocks: dict[int, dict[str, Any]] = {}
    for event in events:
        match event:
            case {"type": "content_block_start", "index": index, "content_block": block}:
                blocks[index] = {**block, "json": ""}
                said.text += block.get("text", "") if block["type"] == "text" else ""
            case {"type": "content_block_delta", "index": index, "delta": delta}:
                said.text += delta.get("text", "")
                said.reasoning += delta.get("thinking", "")
                blocks.setdefault(index, {"type": "", "json": ""})["json"] += delta.get("partial_json", "")
            case {"type": "message_start", "message": {"usage": usage}} | {"type": "message_delta", "usage": usage}:
                said.finish = event.get("delta", {}).get("stop_reason") or said.finish
                said.output_tokens = usage.get("output_tokens", said.output_tokens)
    for block in blocks.values():
        if block["type"] == "tool_use":
            said.calls.append((block["id"], block["name"], block["json"] or json.dumps(block["input"])))
        elif block["type"] in ("server_tool_use", "mcp_tool_use"):
            said.server_calls.append(block["id"])
    return said


@cache
def said_by(path: Path) -> Said:
    return reader_of(path)(events_in(path))


def reader_of(path: Path) -> Callable[[Iterable[Any]], Said]:
    return said_by_anthropic if _format_of(path) == "anthropic" else said_by_chat


@cache
def finish_place(path: Path) -> int:
    """How many of the recorded events come before the one with the finish reason."""
    read = reader_of(path)
    events = events_in(path)
    return next((n for n, event in enumerate(events) if read([event]).finish), len(events))


def events_of_sse(pieces: Iterable[bytes]) -> Iterator[Any]:
    """The JSON events of a recorded body."""
    for line in b"".join(pieces).decode().splitlines():
        if line.startswith("data:") and line != "data: [DONE]":
            yield json.loads(line[5:])


def plain(calls: Iterable[tuple[str, str, str]]) -> list[tuple[str, str, Any]]:
    """Calls with their arguments as data: how they are written is the provider's business."""
    return [(id, name, json.loads(arguments or "{}")) for id, name, arguments in calls]
