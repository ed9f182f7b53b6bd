"""Row A1: of all recorded responses those that a person would call endless are cut, and no other."""

from __future__ import annotations

import json
import tarfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from endstop import read_record
from endstop.decision import Degeneration
from endstop.decision import events as ev
from endstop.decision.degeneration import Part, RepeatedText, find_repetition

from ..shared_data import ABSENT, SESSIONS, SHARED, STREAMS, events_in, said_by, said_by_chat, sessions

RECORDS = Path(__file__).parents[1] / "records"
Said = Iterator[tuple[str, Part, str]]
"""A source, a part of a response, and what was said in it."""

ENDLESS = {"scikit-learn__scikit-learn-25102.json": 208_000}
"""The one recorded response that has no end of its own: 207,000 of its characters say the same two lines."""


def _message(source: str, message: dict[str, Any]) -> Said:
    """Every text, thought and call of an assistant's message, in whatever format."""
    content = message.get("content")
    for block in [content] if isinstance(content, str) else content or []:
        match block:
            case str() | {"type": "text" | "output_text"}:
                yield source, "text", block if isinstance(block, str) else block["text"]
            case {"type": "thinking", "thinking": thinking}:
                yield source, "reasoning", thinking
            case {"type": "tool_use" | "toolCall"}:
                given = block.get("input") or block.get("arguments") or {}
                yield source, "arguments", json.dumps(given, ensure_ascii=False)
            case _:
                pass
    for name in ("reasoning_content", "reasoning", "thought"):
        if isinstance(message.get(name), str):
            yield source, "reasoning", message[name]
    for call in message.get("tool_calls") or []:
        arguments = call["function"]["arguments"]
        yield source, "arguments", arguments if isinstance(arguments, str) else json.dumps(arguments)


def _walked(source: str, data: Any) -> Said:
    """All assistants' messages and all steps of trajectories anywhere in data out of JSON."""
    waiting = [data]
    while waiting:
        match waiting.pop():
            case {"role": "assistant" | "model"} as message:
                yield from _message(source, message)
            case {"response": str(response), "thought": thought, "action": action, **rest}:
                yield source, "text", response
                yield source, "reasoning", thought or ""
                yield source, "arguments", action or ""
                waiting += rest.values()
            case dict() as one:
                waiting += one.values()
            case list() as many:
                waiting += many
            case _:
                pass


def _parsed(source: str, text: str) -> Said:
    try:
        yield from _walked(source, json.loads(text))
    except ValueError:
        for line in text.splitlines():
            if line.startswith("{"):
                yield from _walked(source, json.loads(line))


def _archived(name: str) -> Said:
    with tarfile.open(SHARED / "data" / name, "r:xz") as archive:
        for member in archive:
            file = archive.extractfile(member) if member.isfile() else None
            if file is not None and not member.name.endswith(("labels.json", ".md")):
                yield from _parsed(member.name, file.read().decode(errors="replace"))


def _sessions() -> Said:
    for folder in ("tau-bench", "swe-agent"):
        for path in sorted((SESSIONS / folder).iterdir()):
            if path.suffix in (".jsonl", ".traj"):
                yield from _parsed(path.name, path.read_text())
    for path in sessions("cline"):
        for exchange in json.loads(path.read_text()):
            body = exchange["response"]
            body = "".join(body) if isinstance(body, list) else body if isinstance(body, str) else ""
            data = [line[5:] for line in body.splitlines() if line.startswith("data:") and "[DONE]" not in line]
            said = said_by_chat(json.loads(line) for line in data)
            yield path.name, "text", said.text
            yield path.name, "reasoning", said.reasoning
            yield from ((path.name, "arguments", arguments) for _, _, arguments in said.calls)


def _streams() -> Said:
    """What the readers of this project's tests make of each stream, and every text in it, joined by its place."""
    for path in sorted(STREAMS.glob("*/*.chunks.txt")):
        joined: dict[str, list[str]] = {}
        waiting: list[tuple[str, Any]] = [("", event) for event in reversed(events_in(path))]
        while waiting:
            place, value = waiting.pop()
            if isinstance(value, dict):
                waiting += [(f"{place}/{name}", inner) for name, inner in value.items()]
            elif isinstance(value, list):
                waiting += [(place, inner) for inner in reversed(value)]
            elif isinstance(value, str):
                joined.setdefault(place, []).append(value)
        spoken = ("text", "content", "delta", "thinking", "arguments", "partial_json", "reasoning_content")
        yield from ((path.name, "text", "".join(them)) for place, them in joined.items() if place.endswith(spoken))
        try:
            said = said_by(path)
        except (AttributeError, KeyError, TypeError):  # in none of the formats that these readers know
            continue
        yield path.name, "reasoning", said.reasoning
        yield from ((path.name, "arguments", arguments) for _, _, arguments in said.calls)


def _records() -> Said:
    for path in sorted(RECORDS.rglob("*.jsonl")):
        for run in read_record(path).runs:
            for event in run.events:
                if isinstance(event, ev.ResponseFinished):
                    yield path.name, "text", event.message.text
                    yield path.name, "reasoning", "".join(block.text for block in event.message.reasoning)
                    yield from ((path.name, "arguments", call.arguments) for call in event.message.calls)


SOURCES: dict[str, tuple[Callable[[], Said], int]] = {
    "known_ends": (lambda: _archived("known_ends.tar.xz"), 15_000_000),
    "swe_java": (lambda: _archived("swe_java.tar.xz"), 8_000_000),
    "sessions": (_sessions, 250_000),
    "streams": (_streams, 150_000),
    "records": (_records, 7_000),
}
"""Each with the characters that are read of it at least, so that the test cannot pass by reading nothing."""


QUARTER = Degeneration(text=1_000, reasoning=1_000, arguments=5_000, periods=5)


@pytest.mark.parametrize("source", [pytest.param(name, marks=() if name == "records" else ABSENT) for name in SOURCES])
def test_A1_no_recorded_response_is_cut_that_would_have_ended_nor_at_a_quarter_of_the_numbers(source: str) -> None:
    """Both are asked while it is read, which takes most of the time."""
    read, least = SOURCES[source]
    counts: Counter[str] = Counter()
    found: dict[str, RepeatedText] = {}
    at_a_quarter: set[str] = set()
    for member, part, text in read():
        counts["parts"] += bool(text)
        counts["characters"] += len(text)
        if repeated := find_repetition(part, text, Degeneration()):
            found[Path(member).name] = repeated
        if find_repetition(part, text, QUARTER):
            at_a_quarter.add(Path(member).name)
    print(f"{source}: {counts['parts']:,} parts of responses, {counts['characters']:,} characters")
    assert counts["characters"] >= least, counts
    assert {name for name in found if found[name].end > 0} <= set(ENDLESS)
    for name, repeated in found.items():
        assert repeated.end < 6_000, f"{name} is cut early, at {ENDLESS[name]:,} characters of repetition"
    assert (source == "known_ends") == bool(found)
    assert at_a_quarter <= set(ENDLESS)
