"""Import in several processes: the same records, results and messages as in one."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import msgspec
import pytest
from endstop import WrongUse
from endstop.formats import ImportedSession, ImportOptions, SkippedSession
from endstop.formats.importer import ImportedRecord, RecordFolder
from endstop.formats.parallel_import import ImportPlan, import_files

from ...console import endstop
from .heard import answer, call, says, user

LONG = "long " * 60_000
"""A result that is stored as an attachment."""


def chat(id: str, word: str = "Go") -> dict[str, Any]:
    return {"id": id, "messages": [user(word), says("Look.", call("c", "read")), answer("c", LONG), says(f"{word}!")]}


@pytest.fixture(autouse=True)
def tests_can_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Worker processes are new ones: they find the functions of this file by the path of this one."""
    monkeypatch.syspath_prepend(Path(__file__).parents[3])


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Files with sessions of one id, in one file and in several, and with what is no session."""
    folder = tmp_path / "files"
    (folder / "deep").mkdir(parents=True)
    contents: dict[str, Any] = {
        "a.json": chat("same"),
        "b.json": [chat("same", "Again"), chat("own"), chat("same", "Third")],
        "c.json": {"theme": "dark"},
        "deep/d.json": chat("same", "Last"),
        "deep/e.json": chat("kept"),
    }
    for name, content in contents.items():
        (folder / name).write_bytes(msgspec.json.encode(content))
    (folder / "f.json").write_bytes(b'[{"messages": [')
    return folder


def written(folder: Path) -> dict[str, Any]:
    """All files below a folder; of records, the header without the time at which they were made."""
    contents: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        if path.suffix == ".jsonl":
            header, _, events = path.read_text().partition("\n")
            contents[path.name] = ({**json.loads(header), "created_at": ""}, events)
        else:
            contents[str(path.relative_to(folder))] = path.read_bytes() if path.is_file() else None
    return contents


def imported(out: Path, *searched: Path, processes: int, **options: Any) -> tuple[list[Any], set[str]]:
    complete = options.pop("complete", None)
    plan = ImportPlan(folder=RecordFolder(out, **options), options=ImportOptions(), complete=complete)
    return import_files(plan, searched, processes=processes)


def told(out: Path, results: list[Any]) -> list[Any]:
    return msgspec.json.decode(msgspec.json.encode(results).replace(str(out).encode(), b"OUT"))  # type: ignore[no-any-return]


def test_the_records_are_the_same_as_in_one_process(files: Path, tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for out in (one, two):
        imported(out, files / "deep" / "e.json", processes=1)
    serial, parallel = imported(one, files, processes=1), imported(two, files, processes=2)
    names = [Path(done.record).stem for done in serial[0] if isinstance(done, ImportedRecord)]
    assert names == ["same", "same-2", "own", "same-3", "same-4"]
    assert sum(done.known for done in serial[0] if isinstance(done, SkippedSession)) == 1
    assert (told(one, serial[0]), serial[1]) == (told(two, parallel[0]), parallel[1])
    assert written(one) == written(two)
    assert "own.files" in written(two)
    replaced = imported(two, files, processes=2, replace=True, compress=True)[0]
    assert sum(isinstance(done, ImportedRecord) for done in replaced) == 6
    assert not list(two.glob("*.jsonl"))
    assert len(list(two.glob("*.jsonl.zst"))) == 6


def die(name: str, session: ImportedSession) -> None:
    if name == "own":
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_file_whose_process_died_is_named_and_the_others_are_imported(files: Path, tmp_path: Path) -> None:
    results = imported(tmp_path / "out", files, processes=2, complete=die)[0]
    (died,) = (one for one in results if isinstance(one, SkippedSession) and "killed" in one.why)
    assert died.source == str(files / "b.json")
    assert sorted(path.name for path in (tmp_path / "out").glob("*")) == sorted(
        [f"{name}{ending}" for name in ("kept", "same", "same-2") for ending in (".files", ".jsonl")]
    )


def refuse(name: str, session: ImportedSession) -> None:
    raise WrongUse("no folder")


def test_an_error_of_the_folder_ends_the_import_and_leaves_nothing(files: Path, tmp_path: Path) -> None:
    with pytest.raises(WrongUse, match="no folder"):
        imported(tmp_path / "out", files, processes=2, complete=refuse)
    assert not list((tmp_path / "out").iterdir())


def test_files_that_are_named_twice_are_imported_twice(files: Path, tmp_path: Path) -> None:
    results = imported(tmp_path / "out", files / "a.json", files / "a.json", processes=2)[0]
    assert [Path(one.record).stem for one in results] == ["same", "same-2"]


async def test_the_command_takes_processes_with_labels(files: Path, tmp_path: Path) -> None:
    labels = tmp_path / "labels.json"
    labels.write_text('{"own": true}')
    told = []
    for processes in (1, 2):
        out = tmp_path / f"out{processes}"
        done = await endstop("import", "auto", files, "-o", out, "--labels", labels, "--processes", processes, "--json")
        assert done.code == 0
        told.append((done.err, {**done.json, "folder": "", "sessions": len(done.json["sessions"])}, written(out)))
    assert told[0] == told[1]
    assert '"label:labels.json"' in told[1][2]["own.jsonl"][1]
    refused = await endstop("import", "auto", files, "-o", tmp_path / "out", "--processes", "0")
    assert refused.code == 2
    assert "processes is 0: use 1 or more" in refused.err
