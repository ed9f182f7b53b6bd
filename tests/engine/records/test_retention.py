"""Old records are deleted, and nothing else."""

from __future__ import annotations

import os
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from endstop.records.recorder import RecordWriter
from endstop.records.retention import Deletion, day_folder, delete_old_records

TODAY = datetime(2026, 11, 30, 12, tzinfo=UTC)
ALL = 1_000


def record(folder: Path, days: float, name: str = "session_0123456789ab.jsonl", *, begun: float | None = None) -> Path:
    """A record whose last event was so many days ago. begun: days since its first, if they are more."""
    place = day_folder(folder, (TODAY - timedelta(days=days if begun is None else begun)).date())
    place.mkdir(exist_ok=True)
    path = place / name
    path.write_bytes(b"{}\n")
    set_back(path, days)
    return path


def set_back(path: Path, days: float) -> None:
    os.utime(path, ((TODAY - timedelta(days=days)).timestamp(),) * 2)


def test_records_of_each_day_have_a_folder() -> None:
    assert day_folder(Path("records"), date(2026, 1, 2)) == Path("records/2026-01-02")


def test_old_records_go_with_all_that_belongs_to_them_and_with_their_folder(tmp_path: Path) -> None:
    old, new = record(tmp_path, 8), record(tmp_path, 6)
    for suffix in ("files", "subagents"):
        beside = old.with_suffix(f".{suffix}")
        (beside / "deep").mkdir(parents=True)
        (beside / "deep" / "child.jsonl").touch()
    record(tmp_path, 9, "session_00ff.jsonl.zst")
    assert delete_old_records(tmp_path, TODAY - timedelta(days=7), ALL) == Deletion(2, 0, "")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [new]
    assert not old.parent.exists()


def test_what_is_not_endstops_stays(tmp_path: Path) -> None:
    kept = [record(tmp_path, 90, name) for name in ("mine.jsonl", "session_0123456789ab.txt", "session_x.jsonl")]
    flat = tmp_path / "session_0123456789ab.jsonl"
    elsewhere = tmp_path / "2026-01" / "session_0123456789ab.jsonl"
    linked = tmp_path / "linked" / "session_0123456789ab.jsonl"
    for path in (flat, elsewhere, linked):
        path.parent.mkdir(exist_ok=True)
        path.touch()
        set_back(path, 90)
    (tmp_path / "2026-01-01").symlink_to(linked.parent)
    assert delete_old_records(tmp_path, TODAY - timedelta(days=7), ALL).records == 0
    assert all(path.exists() for path in (*kept, flat, elsewhere, linked))


def test_a_record_of_an_old_day_to_which_a_run_was_added_or_is_being_written_stays(tmp_path: Path) -> None:
    added = record(tmp_path, 1, begun=30)
    written = day_folder(tmp_path, date(2026, 10, 1)) / "session_00.jsonl"
    written.parent.mkdir()
    writer = RecordWriter(written, "s", "", "test")
    set_back(written, 60)
    before = TODAY - timedelta(days=7)
    assert delete_old_records(tmp_path, before, ALL).records == 0
    assert added.exists()
    writer.close()
    set_back(written, 60)
    assert delete_old_records(tmp_path, before, ALL).records == 1
    assert not written.exists()


def test_the_work_at_a_time_is_bounded_and_goes_on(tmp_path: Path) -> None:
    for number in range(25):
        record(tmp_path, 10 + number % 3, f"session_{number:012x}.jsonl")
    before = TODAY - timedelta(days=7)
    assert [delete_old_records(tmp_path, before, 10).records for _ in range(4)] == [10, 10, 5, 0]
    assert not [*tmp_path.iterdir()]


def test_one_that_cannot_be_deleted_is_told_and_keeps_none_of_the_others(tmp_path: Path) -> None:
    stuck = record(tmp_path, 30, "session_00.jsonl")
    stuck.with_suffix(".files").write_text("a file where the folder of attachments should be")
    record(tmp_path, 20)
    deleted = delete_old_records(tmp_path, TODAY - timedelta(days=7), ALL)
    assert (deleted.records, deleted.kept) == (1, 1)
    assert "session_00.files" in deleted.error
    assert stuck.exists()
