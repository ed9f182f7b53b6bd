"""What is too large for a line of a record, and lies beside it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from endstop import Engine, RecordOptions, Tool, read_record, tool
from endstop.decision import Image, WrongUse
from endstop.decision.events import ResponseFinished, ToolCallResult
from endstop.providers import Scripted, call
from endstop.records.attachments import AttachmentReader, attachments_folder
from endstop.records.compression import create_file
from endstop.records.files import find_records
from endstop.records.format import ATTACH_ABOVE, encode_line
from endstop.records.scan import scan
from endstop.replay import replay

LARGE = "漢字 and more\n" * 6_000
PICTURE = Image(b"\x89PNG" + bytes(range(256)) * 1200)


@tool(reads=True)
async def read_all() -> str:
    """Read a large text."""
    return LARGE


async def photograph(small: bool) -> list[Any]:
    return ["two pictures", PICTURE, Image(b"tiny" if small else b"\xff" + PICTURE.data)]


def play(path: Path, script: list[Any] | None = None, **options: Any) -> Path:
    camera = Tool(photograph, description="Photograph.", reads=True)
    calls = script or [[call("read_all"), call("photograph", small=True)]]
    engine = Engine(Scripted(*calls, [call("finish_task", summary="ok")]), tools=[read_all, camera], **options)
    asyncio.run(engine.run("go", record=path))
    return path


def results(path: Path, **options: bool) -> list[ToolCallResult]:
    return in_order(scan(path, **options))


def in_order(events: Iterable[Any]) -> list[ToolCallResult]:
    """The results in the order of their calls; calls that run at once may end in any."""
    found = list(events)
    called = [call.id for event in found if isinstance(event, ResponseFinished) for call in event.message.calls]
    return sorted((e for e in found if isinstance(e, ToolCallResult)), key=lambda result: called.index(result.call_id))


def test_large_texts_and_pictures_lie_beside_the_record_under_the_hash_of_what_they_hold(tmp_path: Path) -> None:
    path = play(tmp_path / "r.jsonl", record_options=RecordOptions(attach_above=50_000))
    names = {sha256(LARGE.encode()).hexdigest(), sha256(PICTURE.data).hexdigest()}
    assert {file.name for file in (tmp_path / "r.files").iterdir()} == names
    assert path.stat().st_size < 30_000
    text, pictures, _ = results(path)
    assert text.content.startswith(LARGE[:1000])
    assert text.attached in text.content
    assert [image.url[:9] for image in pictures.images] == ["attached:", ""]
    assert pictures.images[1].data == b"tiny"


def test_readers_bring_them_back_and_a_replay_needs_to_know_nothing_of_them(tmp_path: Path) -> None:
    path = play(tmp_path / "r.jsonl", record_options=RecordOptions(attach_above=50_000))
    plain = play(tmp_path / "plain.jsonl", record_options=RecordOptions(attach_above=None))
    assert not attachments_folder(plain).exists()
    events = in_order(read_record(path).runs[0].events)
    assert [(e.content, e.images, e.attached) for e in events] == [(e.content, e.images, "") for e in results(plain)]
    assert results(path, attachments=True) == events
    assert read_record(path).missing == []
    assert asyncio.run(replay(str(path))).same


def test_a_record_that_was_compressed_afterwards_keeps_its_attachments(tmp_path: Path) -> None:
    path = play(tmp_path / "r.jsonl", record_options=RecordOptions(attach_above=50_000))
    with create_file(tmp_path / "r.jsonl.zst") as file:
        file.write(path.read_bytes())
    assert read_record(tmp_path / "r.jsonl.zst").runs == read_record(path).runs
    path.unlink()
    assert find_records([tmp_path]) == [tmp_path / "r.jsonl.zst"]


def test_by_default_only_what_is_really_large_is_put_aside(tmp_path: Path) -> None:
    path = play(tmp_path / "r.jsonl")
    assert len(LARGE.encode()) < ATTACH_ABOVE < len(PICTURE.data)
    assert [bool(event.attached) for event in results(path)] == [False, False, False]
    assert [file.name for file in attachments_folder(path).iterdir()] == [sha256(PICTURE.data).hexdigest()]


def test_the_same_again_takes_no_more_room(tmp_path: Path) -> None:
    script = [[call("read_all", id=f"c{n}")] for n in range(3)]
    path = play(tmp_path / "r.jsonl", script, record_options=RecordOptions(attach_above=50_000))
    assert len({event.attached for event in results(path)} - {""}) == 1
    assert len(list(attachments_folder(path).iterdir())) == 1


@pytest.mark.parametrize("harm", ["gone", "changed", "link", "folder", "pipe"])
def test_one_that_is_missing_is_told_and_costs_only_itself(tmp_path: Path, harm: str) -> None:
    path = play(tmp_path / "r.jsonl", record_options=RecordOptions(attach_above=50_000))
    whole = results(path, attachments=True)
    for file in list(attachments_folder(path).iterdir()):
        file.unlink()
        match harm:
            case "changed":
                file.write_bytes(b"something else")
            case "link":
                (tmp_path / "elsewhere").write_bytes(PICTURE.data)
                file.symlink_to(tmp_path / "elsewhere")
            case "folder":
                file.mkdir()
            case "pipe":
                os.mkfifo(file)
            case _:
                pass
    record = read_record(path)
    assert set(record.missing) == {sha256(LARGE.encode()).hexdigest(), sha256(PICTURE.data).hexdigest()}
    scanned = scan(path, attachments=True)
    text, pictures, completion = in_order(scanned)
    assert scanned.missing == record.missing
    assert text.content.startswith(LARGE[:1000])
    assert text.content.endswith("[the attachment is missing]")
    assert pictures.images == (Image(b"tiny"),)
    assert completion == whole[2]
    report = asyncio.run(replay(str(path)))
    assert (report.same, report.missing) == (True, tuple(record.missing))


@pytest.mark.parametrize(
    "name", ["../r.jsonl", "/etc/passwd", "x" * 64, "A" * 64, "", ".", "0" * 63, "0" * 64 + "/..", "\0" * 64]
)
def test_a_record_can_name_no_other_file(tmp_path: Path, name: str) -> None:
    path = play(tmp_path / "r.jsonl", record_options=RecordOptions(attach_above=50_000))
    (attachments_folder(path) / ("x" * 64)).write_text("secret")
    attachments = AttachmentReader(path)
    image = Image(url=f"attached:{name}")
    event = attachments.restore(
        ToolCallResult(call_id="c", name="t", content="beginning", attached=name, images=(image,))
    )
    assert event.images == ()
    assert event.content == ("beginning\n[the attachment is missing]" if name else "beginning")
    assert set(attachments.missing) == {name[:64]}


def test_a_disk_that_is_full_ends_the_run_with_its_reason(tmp_path: Path) -> None:
    (tmp_path / "r.files").write_text("in the way")

    async def main() -> Any:
        engine = Engine(
            Scripted([call("read_all")], "x"), tools=[read_all], record_options=RecordOptions(attach_above=10)
        )
        return await engine.run("go", record=tmp_path / "r.jsonl")

    outcome = asyncio.run(main())
    assert outcome.stop_reason == "internal_error"
    assert "r.files" in outcome.detail


@pytest.mark.parametrize("above", [-1, 1.5, "many", True])
def test_a_size_that_is_none_is_refused(above: Any) -> None:
    with pytest.raises(WrongUse, match="attach_above is"):
        Engine(Scripted("x"), record_options=RecordOptions(attach_above=above))


def test_an_event_without_attachments_is_written_as_ever() -> None:
    event = ToolCallResult(call_id="c", name="t", content="x", seq=1)
    assert b"attached" not in encode_line(event)
