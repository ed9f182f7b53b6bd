"""The thread of a check whose agent runs without an event loop."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest
from endstop.adapters.check_thread import CheckThread
from endstop.adapters.followed_run import FollowedRuns
from endstop.decision import GoOn, ToolCall, ToolResult
from endstop.until import Until


async def answer() -> int:
    return 3


async def fail() -> None:
    raise KeyError("no")


def test_it_returns_what_is_returned_and_raises_what_is_raised() -> None:
    thread = CheckThread()
    try:
        assert thread.wait_for(answer()) == 3
        with pytest.raises(KeyError):
            thread.wait_for(fail())
    finally:
        thread.close()
    thread.close()  # once more changes nothing


def test_a_task_goes_on_while_nobody_waits_and_is_cancelled_at_the_end() -> None:
    said: list[str] = []

    async def wait(going: asyncio.Event) -> None:
        going.set()
        try:
            await asyncio.Event().wait()
        finally:
            said.append("ended")

    async def begin() -> asyncio.Task[None]:
        going = asyncio.Event()
        task = asyncio.create_task(wait(going))
        await going.wait()
        return task

    thread = CheckThread()
    task = thread.wait_for(begin())
    assert not task.done()
    thread.close()
    assert said == ["ended"]


ABANDONED = """
import sys
from endstop.adapters.check_thread import CheckThread
async def answer(): return 3
print(CheckThread().wait_for(answer()))
"""


def test_a_process_ends_although_a_run_was_never_closed() -> None:
    ran = subprocess.run([sys.executable, "-c", ABANDONED], capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stdout.strip(), ran.stderr) == (0, "3", "")


def test_a_run_that_ends_leaves_no_command_of_its_check(tmp_path: Path) -> None:
    work, began, marker = tmp_path / "work", tmp_path / "began", tmp_path / "marker"
    work.mkdir()
    marker.write_text("")
    os.mkfifo(began)
    command = f"test -e done || exit 1; echo began > {began}; exec tail -f {marker}"
    runs = FollowedRuns("mine", "agent", {"until": Until(command, folder=work)})
    run = runs.open("key")
    assert run.follower is not None
    run.follower.prompt("go")
    assert run.wait_for_start() is None
    (work / "done").write_text("")
    run.follower.response("", [ToolCall("1", "write", "{}")])
    run.follower.result(ToolResult("1", "write", "ok"))
    assert isinstance(run.wait_for_decision(), GoOn)
    assert began.read_text() == "began\n"  # the check runs, and nobody waits for it
    runs.close()
    running = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert str(marker) not in running
