"""A follower that goes on from a snapshot, in another process, decides as one that never stopped."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
from endstop import Policy, read_record
from endstop.decision import GoOn, ToolCall, ToolResult
from endstop.decision.repetition import call_mark_of
from endstop.follow import Follower
from endstop.follow.follower_snapshot import FollowerSnapshot, snapshot_of_record
from endstop.replay import replay
from endstop.testing import FakeClock
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

STEPS = st.lists(
    st.tuples(st.sampled_from(["ls", "cat a", "cat b", "echo x > a", "pytest"]), st.sampled_from(["", "one", "two"])),
    min_size=1,
    max_size=14,
)


def follow(steps: list[tuple[str, str]], record: Path | None, *, again: bool) -> list[str]:
    """Follow these steps, and return the decisions. again: whether to go on from a snapshot before each."""
    one = Follower("agent", record=record, session_id="s", clock=FakeClock())
    one.prompt("go")
    said = []
    for number, (command, output) in enumerate(steps):
        if again:
            data = msgspec.json.encode(one.snapshot())
            one.abandon()
            snapshot = msgspec.json.decode(data, type=FollowerSnapshot)
            one = Follower("agent", record=record, session_id="s", clock=FakeClock(), snapshot=snapshot)
        call = ToolCall(f"call_{number}", "bash", msgspec.json.encode({"command": command}).decode())
        said.append(repr(one.step("", [call], [ToolResult(call.id, "bash", output)])))
        if not one.running:
            break
    said.append(repr(one.facts.repetitions))
    one.close()
    return said


@settings(max_examples=30)
@given(steps=STEPS)
def test_a_follower_that_goes_on_from_snapshots_decides_the_same(steps: list[tuple[str, str]]) -> None:
    assert follow(steps, None, again=True) == follow(steps, None, again=False)


async def test_its_record_replays_the_same_and_gives_the_same_state(tmp_path: Path) -> None:
    steps = [("ls", "one")] * 3 + [("cat a", "text"), ("echo x > a", "")] + [("ls", "one")] * 4
    follow(steps, tmp_path / "run.jsonl", again=True)
    (run,) = read_record(tmp_path / "run.jsonl").runs
    assert [event.seq for event in run.events] == list(range(1, len(run.events) + 1))
    assert (await replay(tmp_path / "run.jsonl")).same


def test_a_snapshot_of_the_record_is_that_of_the_follower(tmp_path: Path) -> None:
    one = Follower("agent", record=tmp_path / "run.jsonl", session_id="s", clock=FakeClock())
    one.prompt("go")
    for number in range(4):
        one.step("", [ToolCall(f"c{number}", "bash", "{}")], [ToolResult(f"c{number}", "bash", "same")])
    kept, read = one.snapshot(), snapshot_of_record(tmp_path / "run.jsonl", "s", one.policy)
    one.abandon()
    assert (read.facts, read.history, read.recent) == (kept.facts, kept.history, kept.recent)
    assert (read.seq, read.nudged, read.messages, read.finished) == (kept.seq, kept.nudged, kept.messages, False)


def test_a_run_whose_record_ends_in_a_step_has_ended(tmp_path: Path) -> None:
    one = Follower("agent", record=tmp_path / "run.jsonl", session_id="s", clock=FakeClock())
    one.prompt("go")
    one.response("", [ToolCall("c1", "bash", "{}")])
    one.abandon()
    assert snapshot_of_record(tmp_path / "run.jsonl", "s", one.policy).finished


def test_a_run_under_another_policy_ends_and_the_next_one_counts_it(tmp_path: Path) -> None:
    one = Follower("agent", record=tmp_path / "run.jsonl", session_id="s", clock=FakeClock())
    one.prompt("go")
    one.step("", [ToolCall("c1", "bash", "{}")], [ToolResult("c1", "bash", "a")])
    snapshot = one.snapshot()
    one.abandon()
    other = replace(Policy(), name="other")
    two = Follower(other, record=tmp_path / "run.jsonl", clock=FakeClock(), snapshot=snapshot)
    assert not two.running
    assert isinstance(two.step("", [ToolCall("c2", "bash", "{}")], [ToolResult("c2", "bash", "b")]), GoOn)
    two.close()
    first, second = read_record(tmp_path / "run.jsonl").runs
    assert (first.started.policy.name, second.started.policy.name) == ("agent", "other")
    assert second.started.before is not None
    assert second.started.before.steps == 1


def test_the_mark_of_a_call_is_the_same_in_every_process() -> None:
    call = ToolCall("c1", "bash", '{"command":"ls"}')
    code = (
        "from endstop.decision import ToolCall; from endstop.decision.repetition import call_mark_of;"
        """print(call_mark_of(ToolCall("other", "bash", '{"command":"ls"}')))"""
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(ran.stdout) == call_mark_of(call)
    assert call_mark_of(ToolCall("c1", "bas", 'h{"command":"ls"}')) != call_mark_of(call)
