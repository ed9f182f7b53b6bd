"""A record as a stream: the same events as `read_record` gives, and no end at what is damaged."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from endstop import RecordOptions, read_record
from endstop.decision import Event, Limits, Policy, WrongUse
from endstop.decision.events import STREAM_PARTS, RunFinished, RunStarted, ToolCallResult
from endstop.records import compression as zst
from endstop.records import scan as scan_module
from endstop.records.format import DECODE_ERRORS, RUN_STARTED_PREFIX, decode_generic, decode_run_started
from endstop.records.scan import Scan, scan
from hypothesis import given
from hypothesis import strategies as st

from .made import lines_of, play


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return play(tmp_path_factory.mktemp("scan") / "r.jsonl", runs=2)


def scanned(path: Path, lines: list[bytes], **options: bool) -> tuple[list[Event], Scan]:
    path.write_bytes(b"".join(lines))
    scan_of = scan(path, **options)
    return list(scan_of), scan_of


def told(scan_of: Scan) -> tuple[list[int], int]:
    return scan_of.damaged, scan_of.lost


def test_a_scan_gives_the_events_that_the_whole_record_holds(whole: Path) -> None:
    recorded = [event for run in read_record(whole).runs for event in run.events]
    with_parts, without = scan(whole, parts=True), scan(whole)
    assert list(with_parts) == recorded
    assert list(without) == [event for event in recorded if type(event) not in STREAM_PARTS]
    assert len(list(without)) < len(recorded)
    for scan_of in (with_parts, without):
        assert scan_of.header == read_record(whole).header
        assert (told(scan_of), scan_of.damaged_lines) == (([], 0), 0)


def test_it_can_be_iterated_again(whole: Path, tmp_path: Path) -> None:
    lines = lines_of(whole)
    lines[5] = b"{\n"
    path = tmp_path / "r.jsonl"
    path.write_bytes(b"".join(lines))
    scan_of = scan(path)
    assert list(scan_of) == list(scan_of)
    assert scan_of.damaged_lines == 1


def test_parts_that_another_hand_wrote_are_passed_over_too(whole: Path, tmp_path: Path) -> None:
    spaced = [msgspec.json.format(line, indent=0).replace(b"\n", b"") + b"\n" for line in lines_of(whole)]
    rewritten = [b'{"seq": 1, ' + line.lstrip(b"{") if b"HEADER" not in line else line for line in spaced]
    assert not any(line.startswith(b'{"type":') for line in rewritten[1:])
    path = tmp_path / "r.jsonl"
    path.write_bytes(b"".join(spaced))
    assert list(scan(path)) == list(scan(whole))
    assert told(scan(path)) == ([], 0)


@given(data=st.data())
def test_lines_that_are_gone_in_the_middle_of_a_run_are_counted(
    data: st.DataObject, whole: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    lines = lines_of(whole)
    starts = [number for number, line in enumerate(lines) if line.startswith(RUN_STARTED_PREFIX)]
    ends = [number for number, line in enumerate(lines) if b'"RUN_FINISHED"' in line]
    middle = [number for start, end in zip(starts, ends, strict=True) for number in range(start + 1, end)]
    gone = data.draw(st.sets(st.sampled_from(middle), max_size=10))
    broken = data.draw(st.sets(st.sampled_from(middle), max_size=5)) - gone
    kept = [b"\xff{\n" if number in broken else line for number, line in enumerate(lines) if number not in gone]
    events, scan_of = scanned(tmp_path_factory.mktemp("gone") / "r.jsonl", kept, parts=data.draw(st.booleans()))
    assert scan_of.lost == sum(msgspec.json.decode(lines[number]).get("count", 1) for number in gone | broken)
    assert scan_of.damaged_lines == len(broken)
    assert [type(event) for event in events].count(RunFinished) == 2


@given(data=st.data())
def test_whatever_happens_to_a_file_a_scan_ends_with_runs_in_order_or_with_wrong_use(
    data: st.DataObject, whole: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    content = bytearray(whole.read_bytes())
    for _ in range(data.draw(st.integers(0, 4))):
        at = data.draw(st.integers(0, len(content)))
        match data.draw(st.sampled_from(["cut", "flip", "null", "double", "tear", "swap"])):
            case "cut":
                del content[at : at + data.draw(st.integers(1, 500))]
            case "flip" if at < len(content):
                content[at] ^= 1 << data.draw(st.integers(0, 7))
            case "null":
                content[at:at] = b"\0" * data.draw(st.integers(1, 5000))
            case "double":
                content[at:at] = content[max(0, at - data.draw(st.integers(1, 3000))) : at]
            case "tear":
                del content[at:]
            case "swap":
                content[:] = content[at:] + content[:at]
            case _:
                pass
    path = tmp_path_factory.mktemp("hurt") / "r.jsonl"
    path.write_bytes(content)
    for parts in (False, True):
        run: list[Any] = []
        with suppress(WrongUse):
            for event in scan(path, parts=parts):
                if isinstance(event, RunStarted):
                    run = []
                assert run or isinstance(event, RunStarted)
                assert not run or event.seq > run[-1].seq
                assert not run or not isinstance(run[-1], RunFinished)
                run.append(event)


NESTED = b'{"type":"EVALUATION_FINISHED","seq":9,"verdict":"passed","details":' + b'{"a":' * 100_000


@pytest.mark.parametrize(
    ("line", "damaged", "lost"),
    [
        (b"[1,2]\n", [5], 0),
        (NESTED + b"1" + b"}" * 100_001 + b"\n", [5], 0),
        (NESTED + b"\n", [5], 0),
        (b'{"type":"USAGE_REPORTED","seq":4,"attempt":"1.1","usage":{"input_tokens":NaN}}\n', [5], 0),
        (b'{"type":"USAGE_REPORTED","seq":4,"attempt":"1.1","usage":{"cost_usd":1e999}}\n', [5], 0),
        (b"\0\0\0\n", [5], 0),
        (b'{"type":"STEP_FINISHED","seq":4}\n', [5], 0),
        (b'{"type":"STEP_FINISHED","seq":-4,"step":1}\n', [5], 0),
        (b'{"type":"STEP_FINISHED","seq":99999999999999999999,"step":1}\n', [5], 0),
        (b"\n", [], 0),
        (b" \t\r\n", [], 0),
        (b'{"type":"HEADER","session_id":"again"}\n', [], 0),
        (b'{"no":"type"}\n', [], 0),
        (b'{"type":"SOMETHING_NEWER","seq":4}\n', [], 0),
    ],
)
def test_a_line_that_says_nothing_known_hurts_no_other(
    whole: Path, tmp_path: Path, line: bytes, damaged: list[int], lost: int
) -> None:
    lines = lines_of(whole)
    events, scan_of = scanned(tmp_path / "r.jsonl", [*lines[:4], line, *lines[4:]], parts=True)
    assert events == list(scan(whole, parts=True))
    assert told(scan_of) == (damaged, lost)


def test_an_event_of_a_newer_version_leaves_no_gap(whole: Path, tmp_path: Path) -> None:
    lines = lines_of(whole)
    lines[4] = b'{"type":"SOMETHING_NEWER","seq":4}\n'
    _, scan_of = scanned(tmp_path / "r.jsonl", lines)
    assert told(scan_of) == ([], 0)


def test_a_run_that_is_told_twice_counts_once(whole: Path, tmp_path: Path) -> None:
    lines = lines_of(whole)
    second = next(number for number, line in enumerate(lines) if number > 1 and line.startswith(RUN_STARTED_PREFIX))
    first = lines[1:second]
    for doubled in ([*lines[:second], *first, *lines[second:]], [*lines[:3], lines[1], lines[2], *lines[3:]]):
        events, scan_of = scanned(tmp_path / "r.jsonl", doubled)
        assert events == list(scan(whole))
        assert scan_of.lost == 0
        assert scan_of.damaged_lines > 0
    assert scan_of.damaged == [4, 5]


def test_events_before_any_run_are_damaged_and_the_runs_after_them_are_not(whole: Path, tmp_path: Path) -> None:
    lines = lines_of(whole)
    events, scan_of = scanned(tmp_path / "r.jsonl", [lines[0], lines[-1], lines[2], *lines[1:]])
    assert events == list(scan(whole))
    assert told(scan_of) == ([2, 3], 0)


def test_a_torn_last_line_is_told_and_a_killed_run_has_no_end(whole: Path, tmp_path: Path) -> None:
    lines = lines_of(whole)
    lines[-1] = lines[-1][:-20]
    events, scan_of = scanned(tmp_path / "r.jsonl", lines)
    assert told(scan_of) == ([len(lines)], 0)
    assert not isinstance(events[-1], RunFinished)


def test_of_countless_damaged_lines_the_first_are_named_and_all_are_counted(whole: Path, tmp_path: Path) -> None:
    lines = lines_of(whole)
    _, scan_of = scanned(tmp_path / "r.jsonl", [*lines[:3], *[b"{\n"] * 5000, *lines[3:]])
    assert scan_of.damaged == list(range(4, 104))
    assert scan_of.damaged_lines == 5000


def test_a_line_that_is_too_long_is_damaged_and_the_rest_is_read(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zst, "BLOCK", 5_000)
    monkeypatch.setattr(scan_module, "line_batches", partial(scan_module.line_batches, longest=20_000))
    lines = lines_of(whole)
    huge = b'{"type":"STEP_FINISHED","seq":3,"step":1}' + b" " * 30_000 + b"\n"
    events, scan_of = scanned(tmp_path / "r.jsonl", [*lines[:3], huge, *lines[3:]])
    assert events == list(scan(whole))
    assert told(scan_of) == ([4], 0)


def test_memory_does_not_grow_with_the_record(whole: Path, tmp_path: Path) -> None:
    lines = lines_of(whole)
    step = [line for line in lines if b'"TOOL_CALL_ARGS"' in line][:4]

    def peak(times: int) -> int:
        path = tmp_path / "r.jsonl"
        path.write_bytes(b"".join([*lines[:4], *step * times]))
        tracemalloc.start()
        for _ in scan(path):
            pass
        _, top = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return top

    assert peak(10_000) < 1.2 * peak(1_000) + 100_000


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "not an endstop record"),
        (b"hello\n", "not an endstop record"),
        (b"\x00\xff\x00" * 100_000, "not an endstop record"),
        (b"{" * 1_000_000, "not an endstop record"),
        (b'{"type":"HEADER","format":"endstop-record","version":"4.0","session_id":"s"}\n', r"version 4\.0.*upgrade"),
        (b'{"type":"HEADER","format":"endstop-record","version":"\xc2\xb2.0","session_id":"s"}\n', "is damaged"),
        (b'{"type":"HEADER","format":"endstop-record","version":"1.0","session_id":"s"}\n', "holds no run"),
    ],
)
def test_what_is_no_record_is_refused_as_the_whole_reader_refuses_it(
    tmp_path: Path, content: bytes, complaint: str
) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(content)
    readers: tuple[Callable[[Path], object], ...] = (lambda path: list(scan(path)), read_record)
    for reader in readers:
        with pytest.raises(WrongUse, match=complaint):
            reader(path)


def test_what_cannot_be_read_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "absent.jsonl", tmp_path):
        with pytest.raises(WrongUse, match="cannot read the record"):
            list(scan(path))


# ---- the first event of a run, which is decoded by parts

POLICIES = st.builds(
    Policy,
    name=st.sampled_from(["agent", "mine", "äöü"]),
    limits=st.builds(Limits, steps=st.integers(1, 50), seconds=st.none() | st.floats(1, 100)),
    text=st.sampled_from(["final", "nudge"]),
)


@given(policy=POLICIES, prompt=st.none() | st.text(), settings_of=st.dictionaries(st.text(), st.integers()))
def test_the_first_event_is_the_same_when_its_policy_was_seen_before(
    policy: Policy, prompt: str | None, settings_of: dict[str, int]
) -> None:
    event = RunStarted(run_id="r", session_id="s", prompt=prompt, policy=policy, settings=settings_of, seq=1)
    line = msgspec.json.encode(event)
    assert decode_run_started(line) == decode_run_started(line) == decode_generic(line)


@pytest.mark.parametrize(
    "change",
    [
        (b'"steps":30', b'"steps":0'),
        (b'"steps":30', b'"steps":"many"'),
        (b'"policy":{', b'"policy":{"more":1,'),
        (b'"policy":', b'"police":'),
        (b'"tools":[', b'"tools":[{"name":3},'),
        (b'"run_id":"', b'"run_id":7,"x":"'),
    ],
)
def test_a_first_event_that_one_reader_refuses_the_other_refuses_too(whole: Path, change: tuple[bytes, bytes]) -> None:
    line = lines_of(whole)[1].replace(*change, 1)
    assert line != lines_of(whole)[1]
    for reader in (decode_generic, decode_run_started):
        with pytest.raises(DECODE_ERRORS):
            reader(line)


def test_results_come_as_they_stand_unless_their_attachments_are_asked_for(tmp_path: Path) -> None:
    path = play(tmp_path / "r.jsonl", record_options=RecordOptions(attach_above=5))
    plain = [event for event in scan(path) if isinstance(event, ToolCallResult)]
    brought = [event for event in scan(path, attachments=True) if isinstance(event, ToolCallResult)]
    assert all(event.attached for event in plain)
    assert brought == [e for e in read_record(path).runs[0].events if isinstance(e, ToolCallResult)]
    assert not any(event.attached for event in brought)
