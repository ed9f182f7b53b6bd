"""The index: what was made of a file is found again, and whatever is wrong with the index hinders nobody."""

from __future__ import annotations

import os
import random
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest
from endstop.records import index as index_module
from endstop.records.index import SCHEMA_VERSION, Index, default_path, file_stamp, map_files_cached
from endstop.records.parallel import FileFailure
from hypothesis import given
from hypothesis import strategies as st


def place(folder: Path) -> Path:
    return folder / "cache" / "index.sqlite"


def files(folder: Path, many: int) -> list[Path]:
    paths = [folder / f"{number:03}" for number in range(many)]
    for path in paths:
        path.write_text(path.name)
    return paths


class Work:
    """Reads a file, and counts how often it was asked to."""

    def __init__(self) -> None:
        self.asked: list[Path] = []

    def __call__(self, path: Path) -> bytes:
        self.asked.append(path)
        if path.read_text() == "bad":
            raise ValueError("bad")
        return path.read_bytes() * 2


def test_a_second_query_reads_no_file(tmp_path: Path) -> None:
    paths, work = files(tmp_path, 500), Work()
    told: list[tuple[int, int]] = []
    for _ in range(2):
        with Index("twice", "1", place(tmp_path)) as index:
            results = list(map_files_cached(index, work, paths, progress=lambda *far: told.append(far)))
            assert index.problem == ""
        assert results == [(path, path.name.encode() * 2) for path in paths]
        assert told[-1] == (500, 500)
    assert work.asked == paths


def test_only_files_that_have_changed_are_read_again(tmp_path: Path) -> None:
    paths, work = files(tmp_path, 5), Work()

    def query() -> list[bytes | FileFailure]:
        with Index("twice", "1", place(tmp_path)) as index:
            return [result for _, result in map_files_cached(index, work, paths)]

    query()
    paths[1].write_text("longer than before")
    os.utime(paths[3], ns=(1, 1))
    work.asked.clear()
    assert query()[1] == b"longer than before" * 2
    assert work.asked == [paths[1], paths[3]]


def test_another_kind_and_another_version_are_made_anew(tmp_path: Path) -> None:
    (path,), stamp = files(tmp_path, 1), (1, 2)
    with Index("a", "1", place(tmp_path)) as index:
        index.put(path, stamp, b"one")
    for kind, version, found in (("a", "1", b"one"), ("b", "1", None), ("a", "2", None)):
        with Index(kind, version, place(tmp_path)) as index:
            assert index.get(path, stamp) == found
    with Index("a", "2", place(tmp_path)) as index:
        index.put(path, stamp, b"two")
    with Index("a", "2", place(tmp_path)) as index:
        assert index.get(path, stamp) == b"two"
        assert index.get(os.path.relpath(path), stamp) == b"two"
        assert index.get(path, (1, 3)) is None


def test_failures_are_not_remembered(tmp_path: Path) -> None:
    (path,), work = files(tmp_path, 1), Work()
    path.write_text("bad")
    for _ in range(2):
        with Index("twice", "1", place(tmp_path)) as index:
            ((_, result),) = map_files_cached(index, work, [path])
        assert isinstance(result, FileFailure)
    assert len(work.asked) == 2


def test_a_file_that_changes_while_it_is_read_is_read_again(tmp_path: Path) -> None:
    (path,) = files(tmp_path, 1)

    def slow(path: Path) -> bytes:
        content = path.read_bytes()
        path.write_text("written meanwhile")
        return content

    with Index("twice", "1", place(tmp_path)) as index:
        assert [result for _, result in map_files_cached(index, slow, [path])] == [b"000"]
    with Index("twice", "1", place(tmp_path)) as index:
        assert index.get(path, file_stamp(path)) is None


def test_the_default_place_is_the_users_cache_and_nobody_else_reads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with Index("a", "1") as index:
        assert index.path == tmp_path / "cache" / "endstop" / "index.sqlite" == default_path()
    assert stat.S_IMODE(index.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(index.path.parent.stat().st_mode) == 0o700
    monkeypatch.setenv("XDG_CACHE_HOME", "relative/paths/do/not/count")
    monkeypatch.setenv("HOME", "/home/somebody")
    assert default_path() == Path("/home/somebody/.cache/endstop/index.sqlite")


def goes_on_without(folder: Path, at: Path, said: str) -> None:
    """A query gives its results all the same, and says once what is wrong."""
    paths, work = files(folder, 3), Work()
    with Index("twice", "1", at) as index:
        results = [result for _, result in map_files_cached(index, work, paths)]
    assert results == [path.name.encode() * 2 for path in paths]
    assert index.problem.startswith(f"the index {at} is not used: ")
    assert said in index.problem


def test_an_index_that_is_no_database_is_left_as_it_is(tmp_path: Path) -> None:
    at = tmp_path / "notes.txt"
    at.write_text("these are my notes, and no database, " * 50)
    before = at.read_bytes()
    goes_on_without(tmp_path, at, "not a database")
    assert at.read_bytes() == before


def test_a_database_of_somebody_else_is_left_as_it_is(tmp_path: Path) -> None:
    at = tmp_path / "other.sqlite"
    with closing(sqlite3.connect(at, isolation_level=None)) as other:
        other.execute("CREATE TABLE made (x)")
    other.close()
    before = at.read_bytes()
    goes_on_without(tmp_path, at, "not an endstop index")
    assert at.read_bytes() == before


def test_an_index_of_a_newer_endstop_is_left_as_it_is(tmp_path: Path) -> None:
    at = place(tmp_path)
    Index("twice", "1", at).close()
    with closing(sqlite3.connect(at, isolation_level=None)) as newer:
        newer.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    newer.close()
    goes_on_without(tmp_path, at, f"it has version {SCHEMA_VERSION + 1}")


def test_an_index_that_is_damaged_in_the_middle_is_given_up(tmp_path: Path) -> None:
    at = place(tmp_path)
    paths, work = files(tmp_path, 200), Work()
    with Index("twice", "1", at) as index:
        for path in paths:
            index.put(path, file_stamp(path), random.Random(str(path)).randbytes(2000))
    content = bytearray(at.read_bytes())
    content[8192:-1] = random.Random(3).randbytes(len(content) - 8193)
    at.write_bytes(content)
    with Index("twice", "1", at) as index:
        results = [result for _, result in map_files_cached(index, work, paths)]
    assert results == [path.name.encode() * 2 for path in paths]
    assert "malformed" in index.problem


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    goes_on_without(tmp_path, tmp_path / "file" / "index.sqlite", "")
    goes_on_without(tmp_path, tmp_path, "Is a directory")


def test_an_index_that_another_process_has_locked_is_not_waited_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = place(tmp_path)
    monkeypatch.setattr(index_module, "LOCK_TIMEOUT_SECONDS", 0.05)
    Index("twice", "1", at).close()
    other = sqlite3.connect(at, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        goes_on_without(tmp_path, at, "locked")
    finally:
        other.close()


def test_two_at_once_both_get_their_results_and_the_index_is_whole(tmp_path: Path) -> None:
    paths, work, at = files(tmp_path, 900), Work(), place(tmp_path)
    with Index("twice", "1", at) as one, Index("twice", "1", at) as other:
        both = zip(map_files_cached(one, work, paths), map_files_cached(other, work, paths), strict=True)
        assert all(first == second for first, second in both)
        assert (one.problem, other.problem) == ("", "")
    with Index("twice", "1", at) as index:
        assert all(index.get(path, file_stamp(path)) == path.name.encode() * 2 for path in paths)


def test_a_file_that_is_gone_between_two_looks_is_a_failure_and_no_end(tmp_path: Path) -> None:
    paths = files(tmp_path, 3)
    paths[1].unlink()
    with Index("twice", "1", place(tmp_path)) as index:
        results = [result for _, result in map_files_cached(index, Work(), paths)]
    assert [isinstance(result, FileFailure) for result in results] == [False, True, False]


def test_an_index_that_has_grown_too_large_loses_its_oldest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_module, "MAX_BYTES", 100_000)
    paths, at = files(tmp_path, 40), place(tmp_path)
    with Index("twice", "1", at) as index:
        for path in paths:
            index.put(path, file_stamp(path), b"x" * 5000)
    with Index("twice", "1", at) as index:
        found = [index.get(path, file_stamp(path)) is not None for path in paths]
    assert found == [False] * 10 + [True] * 30


@given(st.binary(max_size=200), st.text(max_size=20), st.tuples(st.integers(0, 2**60), st.integers(0, 2**62)))
def test_what_was_put_is_got(
    tmp_path_factory: pytest.TempPathFactory, value: bytes, name: str, stamp: tuple[int, int]
) -> None:
    at = tmp_path_factory.getbasetemp() / "shared.sqlite"
    path = "/records/" + name.replace("\0", "")
    with Index("a", "1", at) as index:
        index.put(path, stamp, value)
        index._write()
        assert (index.get(path, stamp), index.problem) == (value, "")


def test_a_name_that_is_no_text_is_one_like_any_other(tmp_path: Path) -> None:
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    odd.write_text("x")
    work = Work()
    for _ in range(2):
        with Index("twice", "1", place(tmp_path)) as index:
            assert [result for _, result in map_files_cached(index, work, [odd])] == [b"xx"]
            assert index.problem == ""
    assert work.asked == [odd]


def test_a_damaged_schema_whose_message_is_no_text_makes_the_index_unused(tmp_path: Path) -> None:
    at = place(tmp_path)
    with Index("twice", "1", at) as index:
        assert index.problem == ""
    content = at.read_bytes()
    assert b"tablemademade" in content
    at.write_bytes(
        content.replace(b"tablemademade", b"table\xb6\xb6\xb6\xb6made").replace(b"CREATE TABLE", b"DAMAGE TABLE")
    )
    with Index("twice", "1", at) as index:
        assert "is not used" in index.problem
