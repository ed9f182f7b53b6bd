"""A record is JSON: one that another encoder wrote is read as ours is, by every reader."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from endstop import read_record
from endstop.decision import WrongUse
from endstop.formats import find_sessions
from endstop.records.event_redaction import redact_file
from endstop.records.frames import Frame, RecordFrames
from endstop.records.reader import is_record, last_seq, read_beginning
from endstop.records.recorder import RecordWriter
from endstop.records.scan import scan
from endstop.replay import replay

RECORDS = Path(__file__).parents[2] / "records"
NAMES = ("both", "question", "approval", "port_server", "scenes")
BOM = b"\xef\xbb\xbf"


def floats(value: Any) -> Any:
    """Every whole number as a float, as encoders of languages write it that have no other numbers."""
    if isinstance(value, dict):
        return {name: floats(member) for name, member in value.items()}
    if isinstance(value, list):
        return [floats(element) for element in value]
    return float(value) if type(value) is int else value


def packed(content: bytes) -> bytes:
    """In two members, as files that were appended to one another are."""
    half = len(content) // 2
    return gzip.compress(content[:half]) + gzip.compress(content[half:])


def rewritten(change: Callable[[Any], str]) -> Callable[[bytes], bytes]:
    return lambda content: "".join(change(json.loads(line)) + "\n" for line in content.splitlines()).encode()


VARIANTS: dict[str, Callable[[bytes], bytes]] = {
    "spaces": rewritten(json.dumps),
    "only spaces after commas": rewritten(lambda line: json.dumps(line, separators=(", ", ":"))),
    "much white space": rewritten(lambda line: " \t" + json.dumps(line, separators=(" ,\t", " : ")) + "  "),
    "sorted members": rewritten(lambda line: json.dumps(line, sort_keys=True)),
    "reversed members": rewritten(lambda line: json.dumps(dict(reversed(line.items())), separators=(",", ":"))),
    "raw text": rewritten(lambda line: json.dumps(line, ensure_ascii=False)),
    "escaped text": rewritten(lambda line: json.dumps(line, separators=(",", ":"))),
    "escaped slashes": lambda content: content.replace(b"/", b"\\/"),
    "floats": rewritten(lambda line: json.dumps(floats(line))),
    "compact floats": rewritten(lambda line: json.dumps(floats(line), separators=(",", ":"))),
    "exponents": lambda content: content.replace(b'"seq":1,', b'"seq":1e0,').replace(b'"step":1,', b'"step":10E-1,'),
    "carriage returns": lambda content: content.replace(b"\n", b"\r\n"),
    "a byte order mark": lambda content: BOM + content,
    "a byte order mark, and blank lines": lambda content: BOM + b"\n \r\n" + content,
    "blank lines": lambda content: b"\n\n" + content.replace(b"\n", b"\n\n\r\n \n"),
    "no last line feed": lambda content: content.removesuffix(b"\n"),
    "all of it": lambda content: (
        BOM + b"\n" + VARIANTS["reversed members"](VARIANTS["floats"](content)).replace(b"\n", b"\r\n\n")
    ),
}


def frames_of(path: Path) -> list[tuple[str, int, bool, Any]]:
    found: list[tuple[str, int, bool, Any]] = []
    with RecordFrames(path) as frames:
        while read := frames.read():
            for frame in read:
                assert isinstance(frame, Frame)
                found.append((frame.run_id, frame.seq, frame.last, json.loads(frame.line)))
    return found


@pytest.mark.parametrize("variant", VARIANTS)
async def test_every_reader_reads_it_as_it_reads_ours(variant: str, tmp_path: Path) -> None:
    for name in NAMES:
        ours, other = RECORDS / f"{name}.jsonl", tmp_path / f"{name}.jsonl"
        other.write_bytes(VARIANTS[variant](ours.read_bytes()))
        await check_that_all_read_the_same(ours, other)


async def check_that_all_read_the_same(ours: Path, other: Path) -> None:
    then, now = read_record(ours), read_record(other)
    assert not now.damaged
    assert now.header == then.header
    assert [run.events for run in now.runs] == [run.events for run in then.runs]
    assert read_beginning(other) == read_beginning(ours)
    assert is_record(other)
    for parts in (False, True):
        scanned = scan(other, parts=parts)
        assert list(scanned) == list(scan(ours, parts=parts))
        assert (scanned.damaged_lines, scanned.lost, scanned.incomplete) == (0, 0, 0)
    assert frames_of(other) == frames_of(ours)
    assert last_seq(other) == last_seq(ours)
    assert (await replay(other)).same
    (found,) = find_sessions(other)
    assert "already an endstop record" in str(found)


@pytest.mark.parametrize("variant", VARIANTS)
def test_it_is_redacted_and_goes_on(variant: str, tmp_path: Path) -> None:
    ours, other = RECORDS / "both.jsonl", tmp_path / "other.jsonl"
    other.write_bytes(VARIANTS[variant](ours.read_bytes()))
    redact_file(ours, tmp_path / "a.jsonl", lambda text: text)
    redact_file(other, tmp_path / "b.jsonl", lambda text: text)
    a, b = (
        re.sub(r'"fingerprint":"[^"]+"', '"fingerprint":""', (tmp_path / name).read_text())
        for name in ("a.jsonl", "b.jsonl")
    )
    assert [json.loads(line) for line in b.splitlines()] == [json.loads(line) for line in a.splitlines()]
    runs = read_record(other).runs
    writer = RecordWriter(other, "s", "", "")
    for event in runs[0].events:
        writer.write(event)
    writer.close()
    assert read_record(other).runs[-1].events == runs[0].events


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_torn_last_line_costs_that_line_only(variant: str, tmp_path: Path) -> None:
    other = tmp_path / "other.jsonl"
    content = VARIANTS[variant]((RECORDS / "both.jsonl").read_bytes()).rstrip()
    other.write_bytes(content[:-7])
    assert len(read_record(other).damaged) == 1
    assert sum(len(run.events) for run in read_record(other).runs) == len(frames_of(other))


@pytest.mark.parametrize(
    "line",
    [
        b'{"type":"HEADER"}',
        b'{"type":"HEADER","format":"another","session_id":"s"}',
        b'["HEADER"]',
        b'{"text":"{\\"type\\":\\"HEADER\\",\\"format\\":\\"endstop-record\\"}"}',
        b"",
    ],
)
def test_what_only_looks_like_a_header_is_none(line: bytes, tmp_path: Path) -> None:
    (tmp_path / "r.jsonl").write_bytes(line + b"\n")
    assert not is_record(tmp_path / "r.jsonl")


@pytest.mark.parametrize("variant", [*VARIANTS, ""])
def test_it_is_read_compressed_with_gzip_too(variant: str, tmp_path: Path) -> None:
    for name in NAMES:
        ours, other = RECORDS / f"{name}.jsonl", tmp_path / f"{name}.jsonl.gz"
        other.write_bytes(packed(VARIANTS[variant](ours.read_bytes()) if variant else ours.read_bytes()))
        assert [run.events for run in read_record(other).runs] == [run.events for run in read_record(ours).runs]
        assert frames_of(other) == frames_of(ours)
        assert list(scan(other)) == list(scan(ours))
        assert is_record(other)
        with pytest.raises(WrongUse, match="cannot be appended to"):
            RecordWriter(other, "s", "", "")


def test_a_gzip_file_that_ends_early_costs_what_is_missing(tmp_path: Path) -> None:
    whole = gzip.compress((RECORDS / "both.jsonl").read_bytes())
    (tmp_path / "r.jsonl.gz").write_bytes(whole[: len(whole) * 2 // 3])
    record = read_record(tmp_path / "r.jsonl.gz")
    assert len(record.damaged) == 1
    assert record.runs
