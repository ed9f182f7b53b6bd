"""What stands twice in a session is written once, and everybody who reads the record gets it whole."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from endstop import Engine, RecordOptions, WrongUse, read_record, tool
from endstop.decision import (
    POLICIES,
    AnyChunk,
    Assembler,
    AssistantMessage,
    Event,
    Policy,
    Prompts,
    ReasoningDelta,
    ToolCallDelta,
)
from endstop.decision import events as ev
from endstop.decision.messages import MessageDeltas
from endstop.decision.settings import settings_from_record, settings_to_record
from endstop.formats.reconstruction import IMPORTED_POLICY
from endstop.providers import Interrupted, Retry, Scripted, call, say
from endstop.records.deduplication import MAX_DELTAS, Deduplicator, MessageRestorer, is_part, lacks_message
from endstop.records.event_redaction import redact_file
from endstop.records.format import DECODE_ERRORS, RUN_STARTED_PREFIX, decode_generic, decode_line, encode_line
from endstop.records.parts_line import PartsLine
from endstop.records.recorder import RecordWriter
from endstop.records.scan import scan
from endstop.replay import replay
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ...decision.test_delta_merger import STREAMS
from ...handmade import write_whole

SECRET = "jane@example.com"


@tool
async def look(path: str) -> str:
    """Look."""
    return f"seen {path}"


def thinking(text: str) -> list[Any]:
    return [ReasoningDelta(text[:3]), ReasoningDelta(text[3:], "signed")]


SCRIPT = [
    [
        thinking("I should look first."),
        say(f"I look for {SECRET} and for others.", 4),
        call("look", path="a", pieces=3),
    ],
    [say("And again."), call("look", path="b"), call("look", path="c")],
    [call("finish_task", summary="All is done, as it should be.", pieces=4), say("More")],
]


def engine_of(*script: Any, **options: Any) -> Engine:
    return Engine(Scripted(*(script or SCRIPT)), tools=[look], **options)


async def recorded(path: Path, runs: int = 1, engine: Engine | None = None) -> tuple[Path, list[Any]]:
    """A record, and the events that a reader of the runs got."""
    session = (engine or engine_of(*SCRIPT * runs)).session(record=path)
    told: list[Any] = []
    for number in range(runs):
        async with session.start(f"Do it {number}.") as run:
            told += [event async for event in run]
    return path, told


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def unpacked(path: Path) -> list[Any]:
    """The lines of a record, each with one event, as version 2 has them."""
    lines = [decode_generic(line) for line in path.read_bytes().splitlines()]
    return [one for line in lines for one in (line.events() if isinstance(line, PartsLine) else [line])]


def plain(events: Any) -> list[Any]:
    """Events as JSON has them, where a tuple is a list."""
    return [json.loads(encode_line(event)) for event in events]


def responses_in(path: Path) -> list[dict[str, Any]]:
    return [line for line in lines_of(path) if line["type"] == "RESPONSE_FINISHED"]


async def test_a_response_is_written_without_what_its_deltas_say_and_read_with_it(tmp_path: Path) -> None:
    path, told = await recorded(tmp_path / "r.jsonl")
    for line in responses_in(path):
        assert "message" not in line
        first, count = line["deltas"]["first"], line["deltas"]["count"]
        parts = [one for one in told if first <= one.seq < line["seq"] and is_part(encode_line(one))]
        assert len(parts) == count
    assert plain(read_record(path).runs[0].events) == plain(told)
    assert plain(scan(path, parts=True)) == plain(told)
    assert plain(scan(path)) == plain(event for event in told if type(event) not in ev.STREAM_PARTS)
    assert [event.seq for event in told] == list(range(1, len(told) + 1))


async def test_each_text_stands_once_in_a_record(tmp_path: Path) -> None:
    path, _ = await recorded(tmp_path / "r.jsonl", engine=engine_of("The port is 8080 now."))
    parts = [line for line in path.read_bytes().splitlines() if b"8080" in line]
    kinds = [json.loads(line)["type"] for line in parts]
    assert kinds == ["PARTS", "RUN_FINISHED"], "its deltas, and the run's answer"


async def test_a_later_run_is_written_without_what_the_first_says(tmp_path: Path) -> None:
    path, told = await recorded(tmp_path / "r.jsonl", runs=3)
    started = [line for line in lines_of(path) if line["type"] == "RUN_STARTED"]
    assert ["policy" in line for line in started] == [True, False, False]
    assert {line.get("as_in") for line in started[1:]} == {started[0]["run_id"]}
    assert plain(event for run in read_record(path).runs for event in run.events) == plain(told)
    assert plain(scan(path, parts=True)) == plain(told)


async def test_a_run_with_another_policy_is_written_whole(tmp_path: Path) -> None:
    path, _ = await recorded(tmp_path / "r.jsonl")
    session = engine_of("Done.", policy=Policy(text="final", max_inner_steps=3)).resume(path)
    async with session.start("Again.") as run:
        await run.wait()
    assert "policy" in [line for line in lines_of(path) if line["type"] == "RUN_STARTED"][1]
    assert read_record(path).runs[1].started.policy.max_inner_steps == 3


async def test_a_record_of_version_1_is_read_and_goes_on_as_it_was(tmp_path: Path) -> None:
    path, told = await recorded(tmp_path / "r.jsonl")
    write_whole(path)
    assert all("message" in line for line in responses_in(path))
    assert plain(read_record(path).runs[0].events) == plain(told)
    assert (await replay(path)).same
    session = engine_of().resume(path)
    async with session.start("Again.") as run:
        await run.wait()
    assert all("message" in line for line in responses_in(path)), "whoever reads version 1 goes on to understand it"
    assert [len(run.events) for run in read_record(path).runs] == [len(told), len(told)]


async def test_a_replay_of_a_record_decides_the_same(tmp_path: Path) -> None:
    path, _ = await recorded(tmp_path / "r.jsonl", runs=2)
    report = await replay(path)
    assert report.same, report


async def test_a_void_attempt_and_one_that_begins_again_are_not_mixed_up(tmp_path: Path) -> None:
    provider = Retry(Scripted([say("I be"), Interrupted("cut")], "I begin."), first_wait=0, longest_wait=0)
    path, told = await recorded(tmp_path / "r.jsonl", engine=Engine(provider))
    assert "message" not in responses_in(path)[0]
    assert plain(scan(path, parts=True)) == plain(told)


# ---- redaction


async def test_what_is_left_out_is_compared_after_redaction(tmp_path: Path) -> None:
    def redact(text: str) -> str:
        return text.replace(SECRET, "[gone]")

    options = RecordOptions(redact=redact)
    path, _ = await recorded(tmp_path / "r.jsonl", engine=engine_of(record_options=options))
    assert SECRET.encode() not in path.read_bytes()
    assert "message" not in responses_in(path)[0]
    response = next(event for event in scan(path) if isinstance(event, ev.ResponseFinished))
    assert response.message.text == "I look for [gone] and for others."
    later = tmp_path / "later.jsonl"
    plain, _ = await recorded(tmp_path / "p.jsonl")
    redact_file(plain, later, redact)
    assert SECRET.encode() not in later.read_bytes()
    responses = [event for event in scan(later) if isinstance(event, ev.ResponseFinished)]
    assert [one.message.text for one in responses] == [response.message.text, "And again.", ""]
    assert all("message" not in line for line in responses_in(later))


async def test_a_redaction_that_treats_text_and_deltas_differently_is_written_whole(tmp_path: Path) -> None:
    count = iter(range(10**6))
    options = RecordOptions(redact=lambda text: f"[{next(count)}]")
    path, _ = await recorded(tmp_path / "r.jsonl", engine=engine_of(record_options=options))
    assert all("message" in line for line in responses_in(path))


# ---- damage


async def test_a_response_of_which_deltas_are_gone_is_told_and_keeps_the_rest(tmp_path: Path) -> None:
    path, told = await recorded(tmp_path / "r.jsonl")
    path.write_bytes(b"".join(encode_line(line) + b"\n" for line in unpacked(path)))
    lines = path.read_bytes().splitlines(keepends=True)
    gone = next(number for number, line in enumerate(lines) if b'"TEXT_MESSAGE_CONTENT"' in line)
    del lines[gone]
    path.write_bytes(b"".join(lines))
    with pytest.raises(WrongUse, match=r"the message of step 1 .* stands in \d+ deltas from event .* not all of them"):
        read_record(path)
    events = scan(path)
    got = [event for event in events if isinstance(event, ev.ResponseFinished)]
    wanted = [event for event in told if isinstance(event, ev.ResponseFinished)]
    assert (events.incomplete, events.lost) == (1, 1)
    assert got[1:] == wanted[1:]
    assert got[0].message.calls == wanted[0].message.calls
    assert got[0].message.text
    assert wanted[0].message.text.endswith(got[0].message.text)
    copy = tmp_path / "copy.jsonl"
    redact_file(path, copy, lambda text: text)
    again = scan(copy)
    assert [event for event in again if isinstance(event, ev.ResponseFinished)] == got
    assert again.incomplete == 1, "a copy of a damaged record does not look like a whole one"


async def test_a_run_whose_first_run_is_gone_is_damaged(tmp_path: Path) -> None:
    path, _ = await recorded(tmp_path / "r.jsonl", runs=2)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(line for number, line in enumerate(lines) if number != 1))
    with pytest.raises(WrongUse, match="line 2: an event before any RUN_STARTED"):
        read_record(path)
    with pytest.raises(WrongUse):
        list(scan(path))


async def test_a_record_cut_at_every_byte_is_read_up_to_there(tmp_path: Path) -> None:
    path, told = await recorded(tmp_path / "r.jsonl", runs=2)
    content = path.read_bytes()
    begin = content.index(b"\n", content.index(RUN_STARTED_PREFIX)) + 1
    for end in range(begin, len(content), 7):
        path.write_bytes(content[:end])
        lines = content[: end + (content[end : end + 1] == b"\n")].split(b"\n")
        whole = sum(json.loads(line).get("count", 1) for line in lines[1 : content[: end + 1].count(b"\n")])
        assert plain(event for run in read_record(path).runs for event in run.events) == plain(told[:whole])


def test_a_response_with_neither_message_nor_deltas_is_damaged() -> None:
    with pytest.raises(DECODE_ERRORS):
        decode_line(b'{"type":"RESPONSE_FINISHED","seq":1,"step":1,"finish":"stop"}')


def test_a_run_that_leaves_out_its_policy_cannot_be_read_alone() -> None:
    line = b'{"type":"RUN_STARTED","seq":1,"run_id":"b","session_id":"s","as_in":"a"}'
    first = ev.RunStarted(run_id="a", session_id="s", system="Be good.", policy=Policy(name="mine"))
    with pytest.raises(msgspec.ValidationError, match="no run 'a' before it"):
        decode_line(line)
    with pytest.raises(msgspec.ValidationError, match="no run 'a' before it"):
        decode_line(line, replace(first, run_id="z"))
    whole = ev.RunStarted(run_id="b", session_id="s", system="Be good.", policy=Policy(name="mine"), seq=1)
    assert decode_line(line, first) == whole
    moved = b'{"seq":1,"run_id":"b","type":"RUN_STARTED","session_id":"s","as_in":"a"}'
    assert decode_line(moved, first) == whole, "another program may have moved its fields"


def test_a_response_with_very_many_deltas_is_written_whole() -> None:
    def written(count: int) -> Any:
        deduplicator = Deduplicator()
        for number in range(count):
            deduplicator.feed(ev.TextMessageContent(seq=number + 1, attempt="1.1", delta="a"))
        message = AssistantMessage("a" * count)
        return deduplicator.feed(
            ev.ResponseFinished(seq=count + 1, step=1, attempt="1.1", message=message, finish="stop")
        )

    assert written(MAX_DELTAS).deltas == MessageDeltas(1, MAX_DELTAS)
    assert written(MAX_DELTAS + 1).deltas is None
    assert len(written(MAX_DELTAS + 1).message.text) == MAX_DELTAS + 1


# ---- any response


@given(STREAMS, st.booleans())
def test_any_response_comes_back_as_it_was(stream: list[AnyChunk], other: bool) -> None:
    """However strange the deltas are: what does not follow from them is written whole."""
    assembler, events = Assembler(1, "1.2", set()), list[Event]()
    for chunk in stream:
        events += assembler.feed(chunk)
    events += assembler.close()
    if other:  # parts of an attempt that was retracted
        void = [ev.TextMessageContent(attempt="1.1", delta="a"), ev.ToolCallStart(attempt="1.1", call_id="v", name="v")]
        events = [*void, *events]
    events.append(ev.ResponseFinished(step=1, attempt="1.2", message=assembler.message, finish="stop"))
    stamped = [replace(event, seq=number) for number, event in enumerate(events, 5)]
    deduplicator, restorer, held = Deduplicator(), MessageRestorer(), MessageRestorer()
    lines = [encode_line(deduplicator.feed(event)) for event in stamped]
    assert [restorer.feed(decode_line(line)) for line in lines] == stamped  # type: ignore[arg-type]
    for line in lines:
        if is_part(line):
            held.hold_line(line)
    assert held.restore(decode_line(lines[-1])) == stamped[-1]  # type: ignore[arg-type]
    assert lacks_message(lines[-1]) == (decode_line(lines[-1]).deltas is not None)  # type: ignore[union-attr]


def makes_no_plain_deltas(chunk: AnyChunk) -> bool:
    """Whether it is of a call, or of redacted reasoning without a text, which stands in the message alone."""
    return isinstance(chunk, ToolCallDelta) or (isinstance(chunk, ReasoningDelta) and chunk.redacted and not chunk.text)


@given(STREAMS.filter(lambda stream: not any(map(makes_no_plain_deltas, stream))))
def test_a_response_without_strange_calls_is_never_written_whole(stream: list[AnyChunk]) -> None:
    assembler = Assembler(1, "1.1", set())
    events = [event for chunk in stream for event in assembler.feed(chunk)]
    deduplicator = Deduplicator()
    for number, event in enumerate(events):
        deduplicator.feed(replace(event, seq=number + 1))
    response = ev.ResponseFinished(step=1, attempt="1.1", message=assembler.message, finish="stop", seq=len(events) + 1)
    parts = [event for event in events if is_part(encode_line(event))]
    assert (deduplicator.feed(response).deltas is not None) == bool(parts)


async def test_a_writer_that_goes_on_with_a_file_leaves_out_what_its_first_run_says(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    for number in range(3):
        writer = RecordWriter(path, "s", "", "")
        writer.write(ev.RunStarted(run_id=f"run_{number}", session_id="s", policy=Policy(), seq=1))
        writer.write(ev.RoundStarted(round=1, seq=2))
        writer.close()
    assert [line.get("as_in") for line in lines_of(path) if line["type"] == "RUN_STARTED"] == [None, "run_0", "run_0"]
    assert [run.started.policy for run in read_record(path).runs] == [Policy()] * 3


# ---- the policy of an imported run


def imported_run() -> ev.RunStarted:
    return replace(run_started(), engine="import:openai", policy=IMPORTED_POLICY)


def run_started() -> ev.RunStarted:
    return ev.RunStarted(run_id="r", session_id="s", seq=1, policy=Policy(name="mine"))


def test_the_policy_of_an_imported_run_is_written_without_what_a_reader_fills_in(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    nudging = replace(IMPORTED_POLICY, text="nudge", prompts=Prompts(text_is_no_end="Go \N{SNOWMAN} on"))
    for run in (imported_run(), replace(imported_run(), policy=nudging), run_started()):
        path.unlink(missing_ok=True)
        writer = RecordWriter(path, "s", "", "test")
        writer.write(run)
        writer.close()
        line = path.read_bytes().splitlines()[1]
        assert len(encode_line(run)) > 3000
        assert (len(line) < 1200) is bool(run.engine), "only imported ones: our own say all that they were made with"
        (read,) = scan(path)
        assert read == run


@pytest.mark.parametrize("policy", [IMPORTED_POLICY, Policy(), *POLICIES.values()])
def test_settings_that_are_left_out_are_read_as_they_were(policy: Policy) -> None:
    written = settings_to_record(policy)
    assert settings_from_record(Policy, json.loads(encode_line(written))) == policy
    assert encode_line(written) != encode_line(policy)


def test_what_a_left_out_setting_means_never_changes() -> None:
    """Records of imported runs leave settings out. A default may change if `legacy_defaults` names the old one."""
    held = json.loads((Path(__file__).parent / "policy_of_no_settings.json").read_text(encoding="utf-8"))
    read = msgspec.to_builtins(settings_from_record(Policy, {}))
    assert list(_changed(held, json.loads(encode_line(read)))) == []


def _changed(held: dict[str, Any], read: dict[str, Any], section: str = "") -> Iterator[str]:
    for name, value in held.items():
        if isinstance(value, dict) and isinstance(read.get(name), dict):
            yield from _changed(value, read[name], f"{section}{name}.")
        elif read.get(name, ...) != value:
            yield f"{section}{name}: give legacy_defaults the value {value!r}"
