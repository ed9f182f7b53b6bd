"""gzip, zstandard and ZIP: what is in them is found as if it lay there unpacked, and a bomb is refused."""

from __future__ import annotations

import gzip
import json
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from endstop.formats import FoundSession, SkippedSession, find_sessions, packed_files
from endstop.formats.session_files import find_sessions_in_stream

from .heard import says, user

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd


def session(id: str) -> dict[str, Any]:
    return {"id": id, "messages": [user("go"), says("done")]}


LINES = b"".join(json.dumps(session(id)).encode() + b"\n" for id in ("a", "b"))
NAMELESS = json.dumps({"messages": [user("go"), says("done")]}).encode()


def ids(path: Path, format: str = "auto") -> list[str]:
    return [found.id for found in find_sessions(path, format) if isinstance(found, FoundSession)]


def skips(path: Path) -> list[SkippedSession]:
    return [found for found in find_sessions(path) if isinstance(found, SkippedSession)]


def write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def archive(path: Path, members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as file:
        for name, data in members.items():
            file.writestr(name, data)
    return path


@pytest.mark.parametrize("pack", [gzip.compress, zstd.compress])
def test_a_packed_file_is_read_as_the_file_that_is_in_it(pack: Callable[[bytes], bytes], tmp_path: Path) -> None:
    assert ids(write(tmp_path / "whatever", pack(LINES))) == ["a", "b"]
    assert ids(write(tmp_path / "two", pack(LINES) + pack(LINES))) == ["a", "b", "a", "b"], "two streams in a file"
    for name in ("chat.json.gz", "chat.json.zst"):
        (found,) = find_sessions(write(tmp_path / name, pack(NAMELESS)))
        assert isinstance(found, FoundSession)
        assert (found.id, found.place, found.source) == ("chat", "", str(tmp_path / name))
        assert found.session.source is not None
        assert found.session.source.file == f"{tmp_path.name}/{name}"
    with open(tmp_path / "whatever", "rb") as stream:
        found_in_stream = list(find_sessions_in_stream(stream))
    assert [found.id for found in found_in_stream if isinstance(found, FoundSession)] == ["a", "b"]


@pytest.mark.parametrize("pack", [gzip.compress, zstd.compress])
def test_of_a_torn_file_the_beginning_is_read_and_the_tear_is_named(
    pack: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    whole = pack(LINES) + pack(LINES)
    path = write(tmp_path / "torn", whole[: len(whole) - 40])
    assert ids(path)[:2] == ["a", "b"]
    assert skips(path)[-1].why == "the compressed data ends early or is damaged"
    (only,) = skips(write(tmp_path / "short", pack(LINES)[:8]))[-1:]
    assert "ends early" in only.why


def test_each_file_of_an_archive_is_read_at_its_place(tmp_path: Path) -> None:
    path = archive(
        tmp_path / "all.zip",
        {
            "b/chat.jsonl": LINES,
            "a.json": NAMELESS,
            "deep/c.json.gz": gzip.compress(NAMELESS),
            "notes.txt": b"words",
            "__MACOSX/._a.json": b"\x00\x05",
            "../../evil.json": NAMELESS,
        },
    )
    found = [one for one in find_sessions(path) if isinstance(one, FoundSession)]
    assert [(one.id, one.place) for one in found] == [
        ("evil", "../../evil.json"),
        ("a", "a.json"),
        ("a", "b/chat.jsonl, line 1"),
        ("b", "b/chat.jsonl, line 2"),
        ("c", "deep/c.json.gz"),
    ]
    assert {one.session.source.file for one in found if one.session.source} == {f"{tmp_path.name}/all.zip"}
    assert [(one.place, one.aside) for one in skips(path)] == [("notes.txt", True)]
    assert not (tmp_path.parent.parent / "evil.json").exists()


def test_a_member_in_zstandard_is_read(tmp_path: Path) -> None:
    module = packed_files._zipfile()
    with module.ZipFile(tmp_path / "log.zip", "w", module.ZIP_ZSTANDARD) as file:
        file.writestr("runs/1.json", NAMELESS)
    assert ids(tmp_path / "log.zip") == ["1"]


def test_a_damaged_archive_is_named_and_a_damaged_member_costs_itself(tmp_path: Path) -> None:
    path = archive(tmp_path / "all.zip", {"a.json": NAMELESS, "b.json": NAMELESS}, zipfile.ZIP_STORED)
    data = path.read_bytes()
    at = data.index(b'"go"')
    write(path, data[:at] + b'"gO"' + data[at + 4 :])
    assert ids(path)[-1] == "b"
    assert [(one.place, one.why) for one in skips(path)] == [("a.json", "the compressed data ends early or is damaged")]
    (torn,) = skips(write(tmp_path / "torn.zip", data[:60]))
    assert torn.why.startswith("a damaged ZIP archive")
    encrypted = bytearray(data)
    for mark in (b"PK\x03\x04", b"PK\x01\x02"):
        at = encrypted.index(mark)
        encrypted[at + (6 if mark[2] == 3 else 8)] |= 1
    assert [one.why for one in skips(write(tmp_path / "locked.zip", bytes(encrypted)))] == [
        "encrypted: unpack it first"
    ]


def test_what_unpacks_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed_files, "MAX_UNPACKED_BYTES", 1024 * 1024)
    bomb = gzip.compress(bytes(8 * 1024 * 1024))
    assert len(bomb) < 10_000
    (skipped,) = find_sessions(write(tmp_path / "bomb.gz", bomb))
    assert isinstance(skipped, SkippedSession)
    assert skipped.why == "larger than 1 MiB when unpacked: if it is meant to be, unpack it first"
    many = archive(tmp_path / "many.zip", {"a.json": NAMELESS, **{f"{n}.json": b" " * 300_000 for n in range(9)}})
    assert "larger than 1 MiB" in skips(many)[-1].why, "all files of an archive together"
    nested = LINES
    for _ in range(9):
        nested = gzip.compress(nested)
    (skipped,) = find_sessions(write(tmp_path / "nested.gz", nested))
    assert isinstance(skipped, SkippedSession)
    assert skipped.why == "packed 4 times: unpack it first"


def test_nothing_unpacked_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    path = archive(tmp_path / "all.zip", {"a.jsonl": LINES, "b.json.gz": gzip.compress(NAMELESS)})
    assert ids(path) == ["a", "b", "b"]
    assert not list((tmp_path / "tmp").iterdir())
    results = find_sessions(path)
    next(results)
    results.close()  # type: ignore[attr-defined]
    assert not list((tmp_path / "tmp").iterdir())
