"""Which files are records."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from endstop.decision import WrongUse
from endstop.records.files import records_in


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
    found = [str(path.relative_to(tmp_path)) for path in records_in([str(tmp_path)])]
    assert found == ["a/b/c.jsonl", "a/z.jsonl.zst", "b.jsonl"]


def test_a_file_that_is_named_may_have_any_name(tmp_path: Path) -> None:
    put(tmp_path, "odd", "more/x.jsonl")
    assert records_in([tmp_path / "odd", tmp_path / "more"]) == [tmp_path / "more/x.jsonl", tmp_path / "odd"]


def test_attachments_are_no_records(tmp_path: Path) -> None:
    put(tmp_path, "x.jsonl", "x.files/y.jsonl")
    assert records_in([tmp_path]) == [tmp_path / "x.jsonl"]


def test_each_file_comes_once_under_however_many_names(tmp_path: Path) -> None:
    put(tmp_path, "a/x.jsonl")
    (tmp_path / "a" / "round").symlink_to(tmp_path)
    (tmp_path / "a" / "self").symlink_to(tmp_path / "a")
    (tmp_path / "b.jsonl").symlink_to(tmp_path / "a" / "x.jsonl")
    (tmp_path / "c.jsonl").symlink_to(tmp_path / "c.jsonl")
    os.link(tmp_path / "a" / "x.jsonl", tmp_path / "d.jsonl")
    assert (
        records_in([tmp_path])
        == records_in([tmp_path, tmp_path / "a", tmp_path / "b.jsonl"])
        == [tmp_path / "a/x.jsonl"]
    )


def test_what_is_no_plain_file_is_no_record(tmp_path: Path) -> None:
    put(tmp_path, "x.jsonl")
    os.mkfifo(tmp_path / "pipe.jsonl")
    (tmp_path / "folder.jsonl").mkdir()
    (tmp_path / "gone.jsonl").symlink_to(tmp_path / "nowhere")
    assert records_in([tmp_path]) == [tmp_path / "x.jsonl"]


def test_names_that_are_no_text_are_found(tmp_path: Path) -> None:
    odd = os.fsencode(tmp_path) + b"/caf\xe9.jsonl"
    with open(odd, "w"):
        pass
    assert [os.fsencode(path) for path in records_in([tmp_path])] == [odd]


@pytest.mark.parametrize(
    ("places", "complaint"),
    [
        (["absent"], "absent: no such file or directory"),
        (["empty"], "empty: no record in it or below it"),
        (["x.jsonl/y"], "not a directory"),
    ],
)
def test_a_place_without_records_is_refused(tmp_path: Path, places: list[str], complaint: str) -> None:
    (tmp_path / "empty").mkdir()
    put(tmp_path, "x.jsonl")
    with pytest.raises(WrongUse, match=complaint):
        records_in([tmp_path / place for place in places])


def test_one_name_alone_is_refused_with_how_to_write_it() -> None:
    with pytest.raises(WrongUse, match=r"write \['records'\]"):
        records_in("records")
