"""Which files are records, and the lines of one: the same as any other way to split a file, but bounded."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from endstop.decision import WrongUse
from endstop.records import compression as zst
from endstop.records import files as files_module
from endstop.records.files import CUT_MARK, find_records, line_batches
from hypothesis import given
from hypothesis import strategies as st


def put(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x")


def test_folders_are_searched_through_and_the_records_come_in_order(tmp_path: Path) -> None:
    put(
        tmp_path,
        "b.jsonl",
        "a/z.jsonl.zst",
        "a/b/c.jsonl",
        "notes.txt",
        "a/index.sqlite",
        ".hidden.jsonl",
        ".git/x.jsonl",
    )
    found = [str(path.relative_to(tmp_path)) for path in find_records([str(tmp_path)])]
    assert found == ["a/b/c.jsonl", "a/z.jsonl.zst", "b.jsonl"]


def test_a_file_that_is_named_may_have_any_name(tmp_path: Path) -> None:
    put(tmp_path, "odd", "more/x.jsonl")
    assert find_records([tmp_path / "odd", tmp_path / "more"]) == [tmp_path / "more/x.jsonl", tmp_path / "odd"]


def test_attachments_are_no_records(tmp_path: Path) -> None:
    put(tmp_path, "x.jsonl", "x.files/y.jsonl")
    assert find_records([tmp_path]) == [tmp_path / "x.jsonl"]


def test_each_file_comes_once_under_however_many_names(tmp_path: Path) -> None:
    put(tmp_path, "a/x.jsonl")
    (tmp_path / "a" / "round").symlink_to(tmp_path)
    (tmp_path / "a" / "self").symlink_to(tmp_path / "a")
    (tmp_path / "b.jsonl").symlink_to(tmp_path / "a" / "x.jsonl")
    (tmp_path / "c.jsonl").symlink_to(tmp_path / "c.jsonl")
    os.link(tmp_path / "a" / "x.jsonl", tmp_path / "d.jsonl")
    assert (
        find_records([tmp_path])
        == find_records([tmp_path, tmp_path / "a", tmp_path / "b.jsonl"])
        == [tmp_path / "a/x.jsonl"]
    )


def test_what_is_no_plain_file_is_no_record(tmp_path: Path) -> None:
    put(tmp_path, "x.jsonl")
    os.mkfifo(tmp_path / "pipe.jsonl")
    (tmp_path / "folder.jsonl").mkdir()
    (tmp_path / "gone.jsonl").symlink_to(tmp_path / "nowhere")
    assert find_records([tmp_path]) == [tmp_path / "x.jsonl"]


def test_names_that_are_no_text_are_found(tmp_path: Path) -> None:
    odd = os.fsencode(tmp_path) + b"/caf\xe9.jsonl"
    with open(odd, "w"):
        pass
    assert [os.fsencode(path) for path in find_records([tmp_path])] == [odd]


@pytest.mark.parametrize(
    ("places", "complaint"),
    [
        (["absent"], "absent: no such file or directory"),
        (["empty"], "empty: no records"),
        (["x.jsonl/y"], "not a directory"),
    ],
)
def test_a_place_without_records_is_refused(tmp_path: Path, places: list[str], complaint: str) -> None:
    (tmp_path / "empty").mkdir()
    put(tmp_path, "x.jsonl")
    with pytest.raises(WrongUse, match=complaint):
        find_records([tmp_path / place for place in places])


def test_one_name_alone_is_refused_with_how_to_write_it() -> None:
    with pytest.raises(WrongUse, match=r"write \['records'\]"):
        find_records("records")


# ---- lines


def lines(path: Path, longest: int = files_module.MAX_LINE_BYTES) -> list[bytes]:
    return [line for batch in line_batches(path, longest) for line in batch]


@pytest.fixture
def tiny_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zst, "BLOCK", 7)


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
    assert cut.strip(b"x") == CUT_MARK
    assert lines(path, longest=60) == [b"first", b"x" * 60, b"last"]


@pytest.mark.usefixtures("tiny_blocks")
def test_a_line_without_an_end_in_sight_ends_the_reading(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"first\n" + b"x" * 200 + b"\nnever seen\n")
    first, cut = lines(path, longest=20)
    assert (first, cut.strip(b"x")) == (b"first", CUT_MARK)


@pytest.mark.usefixtures("tiny_blocks")
def test_where_compressed_data_breaks_off_the_line_is_marked(tmp_path: Path) -> None:
    path = tmp_path / "x.zst"
    with zst.create_file(path) as file:
        file.write(b"whole\n" * 5)
    path.write_bytes(path.read_bytes()[:-2])
    assert lines(path)[-1].endswith(CUT_MARK)
    assert set(lines(path)[:-1]) <= {b"whole"}
