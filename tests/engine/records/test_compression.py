"""Files in blocks, compressed or not."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from endstop import Engine, read_record
from endstop.decision import WrongUse
from endstop.providers import Scripted
from endstop.records import compression as zst
from endstop.records.compression import CorruptData, create_file, is_compressed, read_blocks
from endstop.records.reader import read_header
from endstop.records.scan import scan
from endstop.replay import replay
from hypothesis import given, settings
from hypothesis import strategies as st

from .made import play

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd


@settings(max_examples=60, deadline=None)
@given(data=st.binary(max_size=5000), frames=st.integers(1, 5), times=st.integers(1, 200))
def test_what_is_compressed_in_frames_comes_out_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, frames: int, times: int
) -> None:
    path = tmp_path_factory.mktemp("zst") / "x.zst"
    path.write_bytes(zstd.compress(data * times) * frames)
    assert b"".join(read_blocks(path)) == data * times * frames


def test_a_file_is_compressed_by_its_first_bytes_and_not_by_its_name(tmp_path: Path) -> None:
    play(tmp_path / "plain.jsonl")
    (tmp_path / "packed.jsonl").write_bytes(zstd.compress((tmp_path / "plain.jsonl").read_bytes()))
    (tmp_path / "plain.zst").write_bytes((tmp_path / "plain.jsonl").read_bytes())
    assert [is_compressed(tmp_path / name) for name in ("packed.jsonl", "plain.zst", "absent")] == [True, False, False]
    runs = [read_record(tmp_path / name).runs for name in ("plain.jsonl", "packed.jsonl", "plain.zst")]
    assert runs[0] == runs[1] == runs[2]


async def test_a_compressed_record_is_read_replayed_and_scanned_like_the_plain_one(tmp_path: Path) -> None:
    packed = tmp_path / "r.jsonl.zst"
    await Engine(Scripted("A plain answer.")).run("go", record=tmp_path / "r.jsonl")
    packed.write_bytes(zstd.compress((tmp_path / "r.jsonl").read_bytes()))
    assert read_header(packed) == read_header(tmp_path / "r.jsonl")
    assert list(scan(packed, parts=True)) == read_record(tmp_path / "r.jsonl").runs[0].events
    assert (await replay(str(packed))).same


@pytest.mark.parametrize("lost", [1, 5, 40, 200])
def test_compressed_data_that_breaks_off_is_told_and_what_came_before_it_is_kept(tmp_path: Path, lost: int) -> None:
    data = os.urandom(300_000)
    path = tmp_path / "x.zst"
    path.write_bytes(zstd.compress(data)[:-lost])
    kept = bytearray()
    with pytest.raises(CorruptData, match="ends early"):
        b"".join(iter_into(kept, path))
    assert data.startswith(bytes(kept))
    assert len(kept) > 200_000


def iter_into(kept: bytearray, path: Path) -> Iterator[bytes]:
    """Nothing, but `kept` grows by what can be read."""
    for block in read_blocks(path):
        kept += block
        yield b""


def test_damaged_or_trailing_bytes_are_torn_and_never_taken_for_data(tmp_path: Path) -> None:
    whole = zstd.compress(b"line\n" * 10)
    (tmp_path / "trailing.zst").write_bytes(whole + b"something else")
    (tmp_path / "damaged.zst").write_bytes(whole[:6] + b"\xff" * 20)
    for name in ("trailing.zst", "damaged.zst"):
        with pytest.raises(CorruptData):
            list(read_blocks(tmp_path / name))


def test_endless_empty_frames_end_the_reading(tmp_path: Path) -> None:
    path = tmp_path / "x.zst"
    path.write_bytes(zstd.compress(b"") * 3000)
    with pytest.raises(CorruptData, match="empty frames in a row"):
        list(read_blocks(path))


def test_what_expands_a_thousandfold_comes_in_blocks_of_bounded_size(tmp_path: Path) -> None:
    path = tmp_path / "bomb.zst"
    path.write_bytes(zstd.compress(b"\0" * 50_000_000))
    assert path.stat().st_size < 10_000
    sizes = [len(block) for block in read_blocks(path)]
    assert sum(sizes) == 50_000_000
    assert max(sizes) <= zst.BLOCK


def test_what_cannot_be_read_is_wrong_use_with_the_reason(tmp_path: Path) -> None:
    for place, reason in ((tmp_path / "absent", "No such file"), (tmp_path, "Is a directory")):
        with pytest.raises(WrongUse, match=reason):
            list(read_blocks(place))


@pytest.mark.parametrize("name", ["x.jsonl", "x.jsonl.zst"])
def test_a_file_appears_under_its_name_once_it_is_whole_compressed_if_its_name_says_so(
    tmp_path: Path, name: str
) -> None:
    with create_file(tmp_path / name) as file:
        file.write(b"line\n")
        assert [path.name for path in tmp_path.iterdir() if not path.name.startswith(".")] == []
    assert b"".join(read_blocks(tmp_path / name)) == b"line\n"
    assert is_compressed(tmp_path / name) == name.endswith(".zst")
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_writing_that_fails_leaves_nothing_and_never_replaces_a_file(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), create_file(tmp_path / "x.jsonl"):
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "x.jsonl").write_text("mine")
    with pytest.raises(WrongUse, match="exists already"), create_file(tmp_path / "x.jsonl"):
        pass
    assert (tmp_path / "x.jsonl").read_text() == "mine"
    with pytest.raises(WrongUse, match="cannot write"), create_file(tmp_path / "absent" / "x.jsonl"):
        pass


async def test_nothing_is_added_to_a_compressed_record_and_none_is_begun_as_one(tmp_path: Path) -> None:
    await Engine(Scripted("hi")).run("go", record=tmp_path / "r.jsonl")
    packed = tmp_path / "packed.jsonl"
    packed.write_bytes(zstd.compress((tmp_path / "r.jsonl").read_bytes()))
    before = packed.read_bytes()
    with pytest.raises(WrongUse, match="cannot be appended to: run `zstd -d` on it first"):
        await Engine(Scripted("hi")).run("go", record=packed)
    assert packed.read_bytes() == before
    with pytest.raises(WrongUse, match=r"name it new\.jsonl"):
        await Engine(Scripted("hi")).run("go", record=tmp_path / "new.jsonl.zst")
