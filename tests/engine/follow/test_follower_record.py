"""The record of a follower is lost and begun again, and whatever is left of it can be read."""

from __future__ import annotations

import logging
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from endstop import read_record
from endstop.decision import ToolCall, ToolResult, WrongUse
from endstop.follow import Follower
from endstop.testing import FakeClock


class Losses(list[Exception]):
    """What was lost."""

    def follow(self, record: Path) -> Follower:
        return Follower(record=record, session_id="s", clock=FakeClock(), on_record_loss=self.append)


def step(follower: Follower, number: int = 0) -> None:
    """A step of an agent, after which nothing is written until the next one."""
    call = ToolCall(f"c{number}", "work", "{}")
    follower.step("working " * 9, [call], [ToolResult(call.id, call.name, f"result {number}")])
    follower.rest()


@contextmanager
def full_disk(size: int) -> Iterator[None]:
    """No file can have more bytes than this, as if the disk were full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


@pytest.mark.parametrize("replaced", [False, True])
def test_a_record_that_is_deleted_does_not_come_back_without_its_header(tmp_path: Path, replaced: bool) -> None:
    path, losses = tmp_path / "day" / "run.jsonl", Losses()
    follower = losses.follow(path)
    follower.prompt("first")
    step(follower)
    path.unlink()
    if replaced:
        path.write_text("somebody else's")
    step(follower, 1)
    step(follower, 2)
    assert len(losses) == 1
    assert follower.record is None
    assert follower.facts.steps == 3, "it is followed in memory"
    assert [*tmp_path.rglob("*.jsonl")] == ([path] if replaced else [])
    if replaced:
        assert path.read_text() == "somebody else's"
        path.unlink()
    path.parent.rmdir()
    follower.prompt("second")
    step(follower, 3)
    follower.end()
    follower.prompt("third")
    step(follower, 4)
    follower.close()
    record = read_record(path)
    assert (record.header.session_id, record.damaged) == ("s", [])
    assert [run.started.prompt for run in record.runs] == ["third"], "the second was said in the middle of the first"
    assert len(losses) == 1


@pytest.mark.parametrize("room", [0, 90, 2_000, 6_000, 9_000])
def test_after_a_full_disk_the_next_run_is_recorded_whole_and_the_rest_can_be_read(tmp_path: Path, room: int) -> None:
    path, losses = tmp_path / "run.jsonl", Losses()
    with full_disk(room):
        follower = losses.follow(path)
        follower.prompt("first")
        for number in range(30):
            step(follower, number)
        follower.end()
        assert follower.outcome is not None
        follower.prompt("second")
        step(follower, 50)
        follower.end()
        assert len(losses) == 2, "once a run"
    follower.prompt("third")
    step(follower, 60)
    follower.close()
    assert len(losses) == 2
    record = read_record(path)
    assert record.runs[-1].started.prompt == "third"
    assert record.runs[-1].finished is not None
    assert len(record.damaged) <= 1, "a torn line costs itself"


def test_without_somebody_to_tell_a_loss_is_logged_and_the_next_run_is_recorded(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "run.jsonl"
    follower = Follower(record=path, clock=FakeClock())
    follower.prompt("first")
    step(follower)
    path.unlink()
    with caplog.at_level(logging.WARNING):
        step(follower, 1)
        follower.end()
    assert [entry.getMessage().partition(" record=")[0] for entry in caplog.records] == [
        "the record can no longer be written"
    ]
    follower.prompt("second")
    follower.close()
    assert [run.started.prompt for run in read_record(path).runs] == ["second"]


def test_a_record_that_another_session_has_taken_is_not_added_to(tmp_path: Path) -> None:
    path, losses = tmp_path / "run.jsonl", Losses()
    follower = losses.follow(path)
    follower.prompt("first")
    step(follower)
    path.unlink()
    step(follower, 1)
    follower.end()
    with Follower(record=path, session_id="other", clock=FakeClock()) as other:
        other.prompt("mine")
    follower.prompt("second")
    follower.close()
    assert read_record(path).header.session_id == "other"
    assert [type(error) for error in losses] == [FileNotFoundError, WrongUse]
