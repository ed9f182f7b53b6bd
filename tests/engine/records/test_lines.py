"""Lines in batches: the same as any other way to split a file, but bounded."""

from __future__ import annotations

from pathlib import Path

import pytest
from endstop.records import compression as zst
from endstop.records import lines as lines_module
from endstop.records.files import CUT, batches
from hypothesis import given, settings
from hypothesis import strategies as st


def lines(path: Path, longest: int = lines_module.LONGEST) -> list[bytes]:
    return [line for batch in batches(path, longest) for line in batch]


@pytest.fixture
def tiny_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zst, "BLOCK", 7)


@settings(max_examples=300, deadline=None)
@given(data=st.lists(st.sampled_from([b"a", b"bcd", b"\n", b"\n\n", b"\r", b"\x00", b"0123456789"])).map(b"".join))
def test_the_lines_are_those_of_the_file_however_the_blocks_fall(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    path = tmp_path_factory.mktemp("lines") / "x"
    path.write_bytes(data)
    expected = data.split(b"\n")
    if not expected[-1]:
        expected.pop()  # a line feed ends the last line and begins none
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(zst, "BLOCK", 7)
        assert lines(path) == expected


@pytest.mark.usefixtures("tiny_blocks")
def test_a_line_that_is_too_long_is_cut_and_those_after_it_are_whole(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"first\n" + b"x" * 60 + b"\nlast\n")
    first, cut, last = lines(path, longest=20)
    assert (first, last) == (b"first", b"last")
    assert cut.strip(b"x") == CUT
    assert lines(path, longest=60) == [b"first", b"x" * 60, b"last"]


@pytest.mark.usefixtures("tiny_blocks")
def test_a_line_without_an_end_in_sight_ends_the_reading(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"first\n" + b"x" * 200 + b"\nnever seen\n")
    first, cut = lines(path, longest=20)
    assert (first, cut.strip(b"x")) == (b"first", CUT)


@pytest.mark.usefixtures("tiny_blocks")
def test_where_compressed_data_breaks_off_the_line_is_marked(tmp_path: Path) -> None:
    path = tmp_path / "x.zst"
    with zst.writing(path) as file:
        file.write(b"whole\n" * 5)
    path.write_bytes(path.read_bytes()[:-2])
    assert lines(path)[-1].endswith(CUT)
    assert set(lines(path)[:-1]) <= {b"whole"}
