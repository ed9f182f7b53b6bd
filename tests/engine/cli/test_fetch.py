"""`endstop fetch`, with an archive in a folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from endstop.cli.main import main

NOVEMBER = "alice/2026/11/30/session_1.jsonl.zst"


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    for key in (
        NOVEMBER,
        "alice/2026/11/30/session_1.subagents/clerk-2.jsonl.zst",
        "bob/2026/12/01/session_3.jsonl.zst",
    ):
        path = tmp_path / "archive" / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(key.encode())
    (tmp_path / "archive" / "README.txt").write_text("about")
    return tmp_path / "archive"


def fetched(capfd: pytest.CaptureFixture[str], *words: object) -> dict[str, object]:
    assert main(["fetch", "--json", *map(str, words)]) == 0
    answer: dict[str, object] = json.loads(capfd.readouterr().out)
    return answer


def files_in(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_records_are_copied_once_and_what_is_another_size_again(
    archive: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "copies"
    size = sum(path.stat().st_size for path in archive.rglob("*.zst"))
    first = fetched(capfd, archive, "-o", target)
    assert first == {"folder": str(target), "copied": 3, "bytes": size, "kept": 0}
    assert files_in(target) == files_in(archive) - {"README.txt"}
    assert (fetched(capfd, archive, "-o", target)["copied"], len(files_in(target))) == (0, 3)
    (archive / NOVEMBER).write_bytes(b"it went on")
    assert fetched(capfd, archive, "-o", target)["kept"] == 2
    assert (target / NOVEMBER).read_bytes() == b"it went on"


def test_a_part_of_an_archive_has_the_rest_of_its_names(
    archive: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["fetch", str(archive / "bob/2026"), "-o", str(tmp_path / "bob")]) == 0
    assert "1 record copied into" in capfd.readouterr().out
    assert files_in(tmp_path / "bob") == {"12/01/session_3.jsonl.zst"}


@pytest.mark.parametrize(
    ("place", "told"),
    [
        ("nowhere", "nowhere: no records (*.jsonl, *.jsonl.zst, *.jsonl.gz) there"),
        ("gs://bucket", "'gs://...' is no archive: give the path of a folder, or s3://BUCKET/PREFIX"),
        ("s3://key:secret@bucket/x", "holds no keys"),
        ("s3://bucket?endpiont=http://x", "has no setting 'endpiont': it takes endpoint and region"),
        ("s3:///x", "is wrong"),
        (" ", "is no archive"),
    ],
)
def test_what_is_no_archive_is_told(
    place: str, told: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["fetch", place, "-o", "copies"]) == 2
    said = capfd.readouterr().err
    assert told in said
    assert "secret" not in said
    assert not (tmp_path / "copies").exists()
