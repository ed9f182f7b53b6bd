"""Records: what is torn, newer or no record at all, and what a kill leaves behind."""

import re
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from endstop import Engine, read_record, tool
from endstop.decision import Policy, WrongUse
from endstop.decision.events import RunFinished
from endstop.providers import Scripted, call, say
from endstop.records.recorder import RecordWriter
from endstop.replay import replay


@tool
async def work(path: str) -> str:
    """Work."""
    return f"worked on {path}"


@pytest.fixture
async def record(tmp_path: Path) -> Path:
    path = tmp_path / "r.jsonl"
    provider = Scripted([say("first"), call("work", path="a")], [call("finish_task", summary="done")])
    await Engine(provider, tools=[work]).run("go", record=path)
    return path


def test_a_record_begins_with_a_header_and_holds_the_whole_policy_with_every_default(record: Path) -> None:
    lines = [msgspec.json.decode(line) for line in record.read_bytes().splitlines()]
    assert lines[0]["format"] == "endstop-record"
    assert lines[1]["type"] == "RUN_STARTED"
    policy = lines[1]["policy"]
    assert set(policy) == set(Policy.__struct_fields__)
    assert policy["limits"]["steps"] == 30
    assert lines[1]["tools"][0]["name"] == "work"
    assert lines[-1]["type"] == "RUN_FINISHED"
    numbers = [line["seq"] + place for line in lines[1:] for place in range(line.get("count", 1))]
    assert numbers == list(range(1, len(numbers) + 1))


def test_a_torn_last_line_costs_that_line_only(record: Path) -> None:
    whole = len(read_record(record).runs[0].events)
    data = record.read_bytes()
    record.write_bytes(data[:-20])
    read = read_record(record)
    assert len(read.runs[0].events) == whole - 1
    assert read.runs[0].finished is None
    assert read.damaged == [len(data.splitlines())]


async def test_a_session_goes_on_in_a_record_whose_last_line_is_torn(record: Path) -> None:
    record.write_bytes(record.read_bytes()[:-20])
    await Engine(Scripted("fine")).resume(record).run("again")
    read = read_record(record)
    assert [run.finished is not None for run in read.runs] == [False, True]
    assert len(read.damaged) == 1


def test_a_damaged_line_in_the_middle_of_a_run_is_named(record: Path) -> None:
    lines = record.read_bytes().splitlines(keepends=True)
    lines[5] = b'{"type": "TEXT_MESS\n'
    record.write_bytes(b"".join(lines))
    with pytest.raises(WrongUse, match=r"events 5 to 5 of a run are missing \(damaged line 6\)"):
        read_record(record)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "not an endstop record"),
        (b"hello\n", "not an endstop record"),
        (b"\x00\xff\x00", "not an endstop record"),
        (b'{"type":"HEADER","format":"other","version":"1.0","session_id":"s"}\n', "not an endstop record"),
        (b'{"type":"HEADER","format":"endstop-record","version":"4.0","session_id":"s"}\n', "version 4.0"),
        (b'{"type":"HEADER","format":"endstop-record","version":"1.0","session_id":"s"}\n', "holds no run"),
    ],
)
def test_what_is_no_record_is_refused_with_what_is_wrong(tmp_path: Path, content: bytes, complaint: str) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(content)
    with pytest.raises(WrongUse, match=complaint):
        read_record(path)


def test_a_record_that_is_missing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WrongUse, match="No such file"):
        read_record(tmp_path / "nowhere.jsonl")


async def test_a_file_that_is_something_else_is_never_written_to(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("my notes\n")
    with pytest.raises(WrongUse, match="not an endstop record"):
        await Engine(Scripted("hi")).run("go", record=path)
    assert path.read_text() == "my notes\n"


def test_events_of_a_newer_minor_version_are_passed_over(record: Path) -> None:
    text = record.read_text().replace('"version":"2.0"', '"version":"2.7"')
    record.write_text(text + '{"type":"SOMETHING_NEW","seq":999}\n')
    read = read_record(record)
    assert read.damaged == []
    assert read.runs[0].finished is not None


async def test_every_event_is_in_the_file_before_a_tool_has_its_effect(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    seen: list[str] = []

    @tool
    async def look() -> str:
        """Look into the record."""
        seen.extend(re.findall(r'"type":"(\w+)"', path.read_text()))
        return "ok"

    await Engine(Scripted([call("look")], "done"), tools=[look]).run("go", record=path)
    assert seen[-1] == "TOOL_EXECUTION_STARTED"
    assert "RESPONSE_FINISHED" in seen


async def test_drain_shows_what_came_after_the_cut_and_changes_nothing_else(tmp_path: Path) -> None:
    def script() -> list[Any]:
        return [call("finish_task", id="c", summary="done"), say("and on and on", 5), call("finish_task", summary="x")]

    plain, drained = tmp_path / "plain.jsonl", tmp_path / "drained.jsonl"
    first = await Engine(Scripted(script())).run("go", record=plain)
    second = await Engine(Scripted(script())).run("go", record=drained, drain=True)
    assert first.answer == second.answer
    assert [type(e) for e in read_record(plain).runs[0].events] == [
        type(e) for e in read_record(drained).runs[0].events
    ]
    assert read_record(plain).runs[0].after_cut == []
    assert len(read_record(drained).runs[0].after_cut) == 9
    report = await replay(str(drained))
    assert report.same
    assert len(report.runs[0].saved_chunks) == 9


async def test_a_full_disk_ends_the_run_with_its_reason_and_its_readers_get_the_end(tmp_path: Path) -> None:
    class Full:
        """A file that takes the first lines and then no more."""

        def __init__(self, file: Any) -> None:
            self.file = file

        def write(self, data: bytes) -> int:
            raise OSError(28, "No space left on device")

        def flush(self) -> None:
            raise OSError(28, "No space left on device")

        def close(self) -> None:
            self.file.close()

    begun = anyio.Event()
    script = [say("a"), begun, call("finish_task", summary="x")]
    async with Engine(Scripted(script)).start("go", record=tmp_path / "r.jsonl") as run:
        assert run.context is not None
        writer = next(sink.__self__ for sink in run.context.log._sinks if isinstance(sink.__self__, RecordWriter))
        writer._file = Full(writer._file)
        begun.set()
        events = [event async for event in run]
    assert run.outcome.stop_reason == "internal_error"
    assert "No space left on device" in run.outcome.detail
    assert isinstance(events[-1], RunFinished)


async def test_a_record_that_cannot_be_begun_is_refused_before_the_first_request() -> None:
    provider = Scripted("hi")
    with pytest.raises(WrongUse, match=r"/dev/full: No space left"):
        await Engine(provider).run("go", record="/dev/full")
    assert provider.requests == []


async def test_text_that_is_no_utf8_is_recorded_with_replacements(tmp_path: Path) -> None:
    @tool
    async def names() -> str:
        """Name files."""
        return "caf\udce9.txt"

    outcome = await Engine(Scripted([call("names")], "done"), tools=[names]).run("go", record=tmp_path / "r.jsonl")
    assert outcome.answer == "done"
    assert "caf\N{REPLACEMENT CHARACTER}.txt" in (tmp_path / "r.jsonl").read_text("utf-8")
