"""Parts of a response that are written together are one line, and everybody gets the events as they were."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from endstop import Engine, read_record, tool
from endstop.decision import AnyChunk, Assembler, Event, Usage
from endstop.decision import events as ev
from endstop.formats import find_sessions
from endstop.formats.importer import Importer, RecordFolder
from endstop.providers import Scripted, call, say
from endstop.records import parts_line
from endstop.records.event_redaction import redact_file
from endstop.records.format import DECODE_ERRORS, Header, classify_bad_line, decode_generic, encode_line
from endstop.records.frames import Frame, RecordFrames
from endstop.records.parts_line import PACKED_KINDS, PartsLine, pack
from endstop.records.reader import LineReader, last_event, last_seq
from endstop.records.recorder import RecordWriter
from endstop.records.scan import scan
from endstop.replay import replay
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ...decision.test_delta_merger import STREAMS

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
IDS = st.sampled_from(["", "c1", "c2"])
PARTS: list[st.SearchStrategy[Any]] = [
    st.builds(ev.TextMessageContent, attempt=st.just("1.1"), delta=TEXT),
    st.builds(
        ev.ReasoningMessageContent,
        attempt=st.just("1.1"),
        delta=TEXT,
        signature=st.sampled_from(["", "", "signed"]),
        redacted=st.booleans(),
        vendor=st.sampled_from(["", "anthropic"]),
    ),
    st.builds(ev.ToolCallStart, attempt=st.just("1.1"), call_id=IDS, name=TEXT),
    st.builds(ev.ToolCallArgs, attempt=st.just("1.1"), call_id=IDS, delta=TEXT),
    st.builds(ev.ToolCallEnd, attempt=st.just("1.1"), call_id=IDS, may_end=st.sampled_from([None, True, False])),
    st.builds(ev.ProviderToolReported, attempt=st.just("1.1"), id=IDS, name=TEXT, arguments=TEXT, result=TEXT),
    st.builds(ev.FinishReported, attempt=st.just("1.1"), reason=st.sampled_from(["stop", "length"]), raw=TEXT),
    st.builds(
        ev.UsageReported,
        attempt=st.just("1.1"),
        usage=st.builds(
            Usage,
            input_tokens=st.integers(0, 3),
            output_tokens=st.integers(0, 3),
            cached_tokens=st.integers(0, 3),
            reasoning_tokens=st.integers(0, 3),
            cost_usd=st.sampled_from([None, 0.0, 0.25]),
            estimated=st.booleans(),
        ),
    ),
    st.builds(ev.StepFinished, step=st.just(1)),
    st.builds(ev.TextMessageContent, attempt=st.just("1.2"), delta=TEXT),
]
NEIGHBOURS = st.one_of(*PARTS).flatmap(lambda one: st.integers(1, 4).map(lambda times: [one] * times))
EVENTS = st.lists(NEIGHBOURS, max_size=8).map(lambda groups: [event for group in groups for event in group])


def read(lines: list[Any]) -> list[Any]:
    """What a reader makes of lines that are written and read."""
    reader = LineReader()
    return [event for line in lines for event in reader.parse(encode_line(line))]


def stamped(events: list[Any], waits: list[int], first: int = 5) -> list[Any]:
    t = 100
    written = []
    for number, event in enumerate(events):
        t += waits[number % len(waits)]
        written.append(replace(event, seq=first + number, t=t))
    return written


@given(EVENTS, st.lists(st.integers(-2, 30), min_size=1, max_size=5), st.sampled_from([1, 7, 10**6]))
def test_any_events_come_back_as_they_were(events: list[Any], waits: list[int], size: int) -> None:
    given_events = stamped(events, waits)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts_line, "MAX_CHARACTERS", size)
        lines = pack(given_events)
    assert read(lines) == given_events
    assert all(type(line) is not PartsLine or line.count > 1 for line in lines)
    for line, after in pairwise(lines):
        apart = {type(line), type(after)} - PACKED_KINDS - {PartsLine} or line.attempt != after.attempt
        assert apart or size < 10**6, "parts that may stand in one line do"


@given(STREAMS, st.integers(0, 40), st.integers(0, 20))
def test_a_stream_that_is_flushed_anywhere_is_read_as_it_was(stream: list[AnyChunk], wait: int, cut: int) -> None:
    assembler, events = Assembler(1, "1.1", set()), list[Event]()
    for chunk in stream:
        events += assembler.feed(chunk)
    events += assembler.close()
    events.append(ev.ResponseFinished(step=1, attempt="1.1", message=assembler.message, finish="stop"))
    told = stamped(events, [wait])
    assert read([*pack(told[:cut]), *pack(told[cut:])]) == told


def test_numbers_that_have_a_gap_are_not_one_line() -> None:
    deltas = [ev.TextMessageContent(seq=number, attempt="1.1", delta="a") for number in (1, 2, 4, 5)]
    lines = pack(deltas)
    assert [(line.seq, line.count) for line in lines] == [(1, 2), (4, 2)]
    assert read(lines) == deltas


def test_the_line_reads_as_the_page_of_records_says() -> None:
    events = [
        ev.TextMessageContent(seq=6, t=410, attempt="1.1", delta="I"),
        ev.TextMessageContent(seq=7, t=431, attempt="1.1", delta=" look"),
        ev.TextMessageContent(seq=8, t=450, attempt="1.1", delta="."),
        ev.ToolCallStart(seq=9, t=450, attempt="1.1", call_id="c1", name="look"),
    ]
    (line,) = pack(events)
    assert json.loads(encode_line(line)) == {
        "type": "PARTS",
        "seq": 6,
        "t": 410,
        "attempt": "1.1",
        "count": 4,
        "parts": [
            {"type": "TEXT_MESSAGE_CONTENT", "delta": "I look.", "lengths": [1, 5, 1]},
            {"type": "TOOL_CALL_START", "call_id": "c1", "name": "look"},
        ],
        "waits": [21, 19],
    }


@pytest.mark.parametrize(
    "change",
    [
        {"count": 3},
        {"count": 10**15},
        {"waits": [1, 1, 1, 1]},
        {"parts": []},
        {"parts": [{"type": "TEXT_MESSAGE_CONTENT", "delta": "I look.", "lengths": [1, 5, 2]}]},
        {"parts": [{"type": "TEXT_MESSAGE_CONTENT", "delta": "I", "lengths": [3, -2]}], "count": 2},
        {"parts": [{"type": "STEP_FINISHED", "step": 1}], "count": 1},
        {"parts": None},
        {"seq": "1"},
    ],
)
def test_a_line_whose_numbers_do_not_fit_is_damaged(change: dict[str, Any]) -> None:
    line = {
        "type": "PARTS",
        "seq": 6,
        "attempt": "1.1",
        "count": 4,
        "parts": [
            {"type": "TEXT_MESSAGE_CONTENT", "delta": "I look.", "lengths": [1, 5, 1]},
            {"type": "TOOL_CALL_END", "call_id": "c1"},
        ],
        "waits": [21, 19],
    }
    assert isinstance(decode_generic(json.dumps(line).encode()), PartsLine)
    broken = json.dumps({**line, **change}).encode()
    with pytest.raises(DECODE_ERRORS):
        decode_generic(broken)
    assert classify_bad_line(broken) == "damaged"


# ---- records


@tool
async def look(path: str) -> str:
    """Look."""
    return f"seen {path}"


def engine() -> Engine[Any, Any]:
    script = [
        [say("I look for jane@example.com.", 6), call("look", path="a", pieces=3)],
        [call("finish_task", summary="All is done.", pieces=4)],
    ]
    return Engine(Scripted(*script), tools=[look])


async def recorded(path: Path) -> list[Any]:
    async with engine().session("s", record=path).start("Do it.") as run:
        return [event async for event in run]


def kinds_in(path: Path) -> list[str]:
    return [json.loads(line)["type"] for line in path.read_bytes().splitlines()]


def plain(events: Any) -> list[Any]:
    return [json.loads(encode_line(event)) for event in events]


async def test_every_reader_of_a_record_gets_the_events_that_subscribers_got(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    told = await recorded(path)
    assert kinds_in(path).count("PARTS") == 2
    assert not set(kinds_in(path)) & {kind.__struct_config__.tag for kind in PACKED_KINDS}  # type: ignore[attr-defined]
    assert plain(read_record(path).runs[0].events) == plain(told)
    assert plain(scan(path, parts=True)) == plain(told)
    assert plain(scan(path)) == plain(event for event in told if type(event) not in ev.STREAM_PARTS)
    with RecordFrames(path) as frames:
        got = [one for batch in iter(frames.read, []) for one in batch]
    assert all(isinstance(one, Frame) for one in got)
    assert [json.loads(one.line) for one in got if isinstance(one, Frame)] == plain(told)
    assert last_seq(path) == len(told)
    assert (await replay(path)).same


async def test_a_record_that_ends_within_a_response_ends_with_its_last_part(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    told = await recorded(path)
    lines = path.read_bytes().splitlines(keepends=True)
    first = next(number for number, line in enumerate(lines) if b'"PARTS"' in line)
    path.write_bytes(b"".join(lines[: first + 1]))
    left = read_record(path).runs[0].events
    assert plain(left) == plain(told[: len(left)])
    assert last_event(path) == (None, left[-1].seq)
    session = engine().resume(path)
    async with session.start_resumed() as run:
        outcome = await run.wait()
    assert outcome.stop_reason == "completed"
    events = read_record(path).runs[0].events
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert (await replay(path)).same


async def test_a_line_with_parts_that_is_gone_is_counted_with_all_of_them(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    await recorded(path)
    lines = path.read_bytes().splitlines(keepends=True)
    first = next(number for number, line in enumerate(lines) if b'"PARTS"' in line)
    count = json.loads(lines[first])["count"]
    for damage in (b"", lines[first][:-30] + b"\n"):
        path.write_bytes(b"".join([*lines[:first], damage, *lines[first + 1 :]]))
        events = scan(path)
        assert list(events)
        assert (events.lost, events.incomplete, events.damaged_lines) == (count, 1, bool(damage))


async def test_a_record_of_version_2_goes_on_with_an_event_a_line_and_beside_one_of_today_replays(
    tmp_path: Path,
) -> None:
    old, new = tmp_path / "old.jsonl", tmp_path / "new.jsonl"
    writer = RecordWriter(new, "s", "", "")
    writer.close()
    assert msgspec.json.decode(new.read_bytes())["version"] == "3.0"
    old.write_bytes(encode_line(Header(session_id="s", version="2.0")) + b"\n")
    told = {path: await recorded(path) for path in (old, new)}
    assert "PARTS" not in kinds_in(old)
    assert "PARTS" in kinds_in(new)
    assert all("message" not in json.loads(line) for line in old.read_bytes().splitlines() if b'"deltas":' in line)
    for path in (old, new):
        assert plain(read_record(path).runs[0].events) == plain(told[path])
        assert (await replay(path)).same
    assert new.stat().st_size < old.stat().st_size


async def test_a_redacted_copy_has_the_same_events_without_the_secret(tmp_path: Path) -> None:
    path, copy = tmp_path / "r.jsonl", tmp_path / "copy.jsonl"
    await recorded(path)
    redact_file(path, copy, lambda text: text.replace("jane@example.com", "[gone]"))
    assert b"jane" not in copy.read_bytes()
    assert kinds_in(copy) == kinds_in(path)
    before, after = read_record(path).runs[0].events, read_record(copy).runs[0].events
    assert [(type(event), event.seq, event.t) for event in after] == [(type(e), e.seq, e.t) for e in before]
    (first, *_) = [event for event in after if isinstance(event, ev.ResponseFinished)]
    assert first.message.text == "I look for [gone]."
    assert (await replay(copy)).same


# ---- fields with their defaults


async def test_usage_outcome_and_tools_are_written_without_defaults_and_read_with_them(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    told = await recorded(path)
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    (started,) = [line for line in lines if line["type"] == "RUN_STARTED"]
    assert started["tools"][0] == {key: started["tools"][0][key] for key in ("name", "description", "parameters")}
    assert "rounds" in started["policy"]["limits"], "the policy of a run of ours is evidence, with every setting"
    assert "verdict" not in lines[-1]["outcome"]
    assert "cached_tokens" not in lines[-1]["outcome"]["usage"]
    assert told[0] == read_record(path).runs[0].started
    assert told[-1] == read_record(path).runs[0].finished


async def test_a_later_run_says_what_came_before_it_without_defaults(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    session = Engine(Scripted("One.", "Two.")).session(record=path)
    for prompt in ("First.", "Second."):
        await session.run(prompt)
    (_, later) = [json.loads(line) for line in path.read_bytes().splitlines() if b'"RUN_STARTED"' in line]
    assert "cached_tokens" not in later["before"]["usage"]
    before, finished = read_record(path).runs[1].started.before, read_record(path).runs[0].finished
    assert before is not None
    assert finished is not None
    assert before.usage == finished.outcome.usage


def test_subscribers_of_an_imported_record_get_every_field(tmp_path: Path) -> None:
    """Its responses are written whole, without deltas: over HTTP, too, programs expect each field of usage."""
    source = tmp_path / "s.json"
    source.write_text(json.dumps([{"role": "user", "content": "Hello."}, {"role": "assistant", "content": "Hi."}]))
    list(Importer(RecordFolder(tmp_path / "out")).import_all(find_sessions(source)))
    (path,) = (tmp_path / "out").rglob("*.jsonl")
    with RecordFrames(path) as frames:
        got = [json.loads(one.line) for batch in iter(frames.read, []) for one in batch if isinstance(one, Frame)]
    assert got == plain(read_record(path).runs[0].events)
    (response,) = [line for line in got if line["type"] == "RESPONSE_FINISHED"]
    assert response["usage"]["cached_tokens"] == 0
    assert got[-1]["outcome"]["verdict"] == "not_run"
