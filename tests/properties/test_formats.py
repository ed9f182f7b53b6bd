"""What holds for every session of another loop, whole or broken."""

from __future__ import annotations

import asyncio
import tempfile
from contextlib import suppress
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import msgspec
from endstop.decision import AssistantMessage, Message, SystemMessage, ToolCall, ToolResult, Transcript, UserMessage
from endstop.decision import events as ev
from endstop.formats import FORMATS, ImportOptions, Unreadable, detect_format, events_of
from endstop.formats import export_atif as to_atif
from endstop.formats import export_openai as to_openai
from endstop.formats.agent_notes import is_note
from endstop.formats.file_values import split_array, split_values
from endstop.records.reader import read_record
from endstop.records.recorder import RecordWriter
from endstop.replay import replay
from endstop.testing import check_transcript
from hypothesis import given
from hypothesis import strategies as st

from ..engine.formats.heard import check_runs
from ..engine.formats.test_exports import check_atif

WORDS = st.text(st.characters(codec="utf-8"), max_size=12).filter(lambda text: not is_note(text))
SPOKEN = WORDS.filter(str.strip)
TOOLS = st.sampled_from(["read", "write", "think", "ask_user", "finish_task", "attempt_completion", "Söme tool"])
ARGUMENTS = st.one_of(
    st.dictionaries(st.sampled_from(["summary", "question", "path", "thought"]), WORDS, max_size=2).map(
        lambda given: msgspec.json.encode(given).decode()
    ),
    st.sampled_from(["", "{}", "{broken", "[]", "null"]),
)


@st.composite
def conversations(draw: st.DrawFn) -> tuple[list[dict[str, Any]], list[Message]]:
    """Whole sessions in OpenAI's format, and the messages that they are in our words."""
    raw: list[dict[str, Any]] = []
    expected: list[Message] = []
    if system := draw(WORDS):
        raw.append({"role": "system", "content": system})
        expected.append(SystemMessage(system))
    count = 0
    for _ in range(draw(st.integers(1, 6))):
        if draw(st.booleans()):
            text = draw(WORDS)
            raw.append({"role": "user", "content": text})
            expected.append(UserMessage(text))
        calls = []
        for _ in range(draw(st.integers(0, 3))):
            count += 1
            calls.append(ToolCall(f"c{count}", draw(TOOLS), draw(ARGUMENTS)))
        message = AssistantMessage(draw(WORDS if calls else SPOKEN), tuple(calls))
        raw.append(_raw(message))
        expected.append(message)
        results = [ToolResult(call.id, call.name, draw(WORDS)) for call in calls]
        raw += [
            {"role": "tool", "tool_call_id": one.call_id, "content": one.content}
            for one in draw(st.permutations(results))
        ]
        expected += results
    return raw, expected


def _raw(message: AssistantMessage) -> dict[str, Any]:
    raw: dict[str, Any] = {"role": "assistant", "content": message.text}
    if message.calls:
        raw["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.calls
        ]
    return raw


def projected(events: list[ev.Event]) -> list[Message]:
    transcript = Transcript()
    for event in events:
        transcript.feed(event)
    check_transcript(transcript.messages, [call.id for call in transcript.open_calls])
    return transcript.messages


@given(conversations())
def test_an_imported_session_is_the_session_exported_and_recorded_too(session: tuple[list[Any], Any]) -> None:
    """All is checked on the same sessions: to make one up takes most of the time."""
    raw, expected = session
    (foreign,) = FORMATS["openai"].sessions(raw)
    events = events_of(foreign, "s", "openai")
    the_transcript_of_an_imported_session_is_the_session(events, expected)
    an_export_imported_again_is_the_same_session_and_a_valid_trajectory(events)
    a_record_of_an_imported_session_is_read_back_and_its_replay_does_not_crash(events)


def the_transcript_of_an_imported_session_is_the_session(events: list[ev.Event], expected: list[Message]) -> None:
    check_runs(events)
    assert projected(events) == expected


def an_export_imported_again_is_the_same_session_and_a_valid_trajectory(events: list[ev.Event]) -> None:
    whole = msgspec.json.decode(msgspec.json.encode(to_openai.export("s", events)[0]))
    (again,) = FORMATS["openai"].sessions(whole)
    assert projected(events_of(again, "s", "openai")) == projected(events)
    check_atif(msgspec.json.decode(msgspec.json.encode(to_atif.export("s", events)[0])))


def a_record_of_an_imported_session_is_read_back_and_its_replay_does_not_crash(events: list[ev.Event]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "s.jsonl"
        writer = RecordWriter(path, "s", "", "test")
        for event in events:
            writer.write(event)
        writer.close()
        record = read_record(path)
        read = [event for run in record.runs for event in run.events]
        assert [msgspec.json.encode(event) for event in read] == [msgspec.json.encode(event) for event in events]
        report = asyncio.run(replay(str(path)))
    assert len(report.runs) == len(record.runs)


# ---- anything at all

NAMES = st.sampled_from(
    ["role", "content", "messages", "tool_calls", "function", "name", "arguments", "id", "type", "text", "traj",
     "reward", "history", "agent", "thought", "action", "trajectory", "observation", "path", "status",
     "response", "choices", "message", "usage", "prompt_tokens", "info", "exit_status", "model_stats",
     "tool_call_id", "tool_use_id", "input", "timestamp", "tools", "system", "source", "data", "image_url",
     "url", "attempts", "sessionId", "request"]
)  # fmt: skip
VALUES = st.sampled_from(
    ["user", "assistant", "system", "tool", "text", "tool_use", "tool_result", "image", "thinking", "message",
     "/chat/completions", "submit", "###STOP###", "exit_cost", "data: {}\n\n", "data:image/png;base64,AA", "1e9"]
)  # fmt: skip
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), VALUES, WORDS)
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(NAMES, inner, max_size=6)),
    max_leaves=25,
)
MESSAGE = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "tool", "system", "critic"])},
    optional={
        "content": ANYTHING,
        "tool_calls": ANYTHING,
        "tool_call_id": SCALARS,
        "usage": ANYTHING,
        "timestamp": SCALARS,
        "action": SCALARS,
    },
)
SOUP = st.one_of(
    ANYTHING,
    st.lists(MESSAGE, max_size=6),
    st.fixed_dictionaries({"messages": st.lists(MESSAGE, max_size=6)}, optional={"tools": ANYTHING, "usage": ANYTHING}),
    st.fixed_dictionaries({"traj": st.lists(MESSAGE, max_size=6), "reward": SCALARS}),
    st.fixed_dictionaries({"history": st.lists(MESSAGE, max_size=6), "info": ANYTHING, "trajectory": ANYTHING}),
    st.lists(
        st.fixed_dictionaries({"path": st.just("/chat/completions"), "status": SCALARS, "response": ANYTHING}),
        max_size=4,
    ),
)


@given(SOUP)
def test_whatever_the_data_is_it_is_a_session_or_refused_in_words(data: Any) -> None:
    """In each format: to make the data up takes most of the time."""
    guessed = detect_format(data)
    assert guessed is None or guessed in FORMATS
    named = ImportOptions(completion=("read",), question=("write",))
    for format, kinds in product(sorted(FORMATS), (ImportOptions(), named)):
        sessions = FORMATS[format].sessions(data)
        with suppress(Unreadable):
            for foreign in sessions:
                events = events_of(foreign, "s", format, kinds)
                check_runs(events)
                projected(events)


@given(st.lists(st.one_of(st.dictionaries(WORDS, ANYTHING, max_size=3), st.lists(ANYTHING, max_size=3)), max_size=5))
def test_splitting_finds_what_a_reader_finds(values: list[Any]) -> None:
    text = msgspec.json.encode(values)
    assert [text[a:b].strip() for a, b in split_array(text)] == [msgspec.json.encode(value) for value in values]
    joined = b"\n".join(msgspec.json.encode(value) for value in values)
    assert [joined[a:b] for a, b in split_values(joined)] == [msgspec.json.encode(value) for value in values]


@given(st.binary(max_size=200))
def test_splitting_never_fails_and_never_overlaps(text: bytes) -> None:
    for find in (split_array, split_values):
        places = list(find(text))
        assert all(start <= end <= len(text) for start, end in places)
        assert all(one[1] <= other[0] for one, other in pairwise(places))
