"""`Engine.run_sync`: a run of a program without `async`."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from endstop import Engine, RunContext, WrongUse, read_record, tool
from endstop.providers import Scripted, call


@tool
def who(ctx: RunContext[str]) -> str:
    """Say whose run it is."""
    return ctx.deps


def test_it_returns_the_outcome_and_takes_what_run_takes(tmp_path: Path) -> None:
    model = Scripted([call("who")], "Hello.")
    engine = Engine(model, tools=[who])
    path = tmp_path / "run.jsonl"
    outcome = engine.run_sync("x", deps="ann", history=[{"role": "user", "content": "before"}], record=path, drain=True)
    assert (outcome.answer, model.requests[1].messages[-1].content) == ("Hello.", "ann")
    assert [run.started.run_id for run in read_record(path).runs] == [outcome.run_id]


def test_one_engine_runs_twice_and_in_threads() -> None:
    engine = Engine(Scripted(lambda request: "Hello."))
    assert [engine.run_sync("x").answer for _ in range(2)] == ["Hello.", "Hello."]
    with ThreadPoolExecutor(2) as pool:
        assert [outcome.answer for outcome in pool.map(engine.run_sync, ["a", "b", "c"])] == ["Hello."] * 3


async def test_in_a_running_loop_it_says_what_to_write_and_leaves_nothing_behind() -> None:
    engine = Engine(Scripted("Hello."))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(WrongUse, match=r"an event loop is running.*await engine\.run\(\.\.\.\)"):
            engine.run_sync("x")
    assert await asyncio.to_thread(lambda: engine.run_sync("x").answer) == "Hello."


def test_what_a_run_raises_is_raised() -> None:
    with pytest.raises(WrongUse, match="prompt"):
        Engine(Scripted("Hello.")).run_sync("")


INTERRUPTED = """
import asyncio, sys
from endstop import Engine, tool
from endstop.providers import Scripted, call

@tool
async def wait() -> str:
    "Wait."
    print("waiting", flush=True)
    await asyncio.sleep(60)
    return "waited"

try:
    Engine(Scripted([call("wait")], "Done."), tools=[wait]).run_sync("x", record=sys.argv[1])
except KeyboardInterrupt:
    print("interrupted")
"""


def test_ctrl_c_cancels_the_run_and_leaves_a_whole_record(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    command = [sys.executable, "-W", "error", "-c", INTERRUPTED, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        process.send_signal(signal.SIGINT)
        out, error = process.communicate(timeout=60)
    assert (out, error, process.returncode) == ("interrupted\n", "", 0)
    (run,) = read_record(path).runs
    assert run.finished is not None
    assert run.finished.outcome.status == "cancelled"
