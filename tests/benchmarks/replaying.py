"""Measures how fast records are replayed, beside how fast they are read.

    python tests/benchmarks/replaying.py             five rounds, about a minute
    python tests/benchmarks/replaying.py --rounds 1 --steps 200

Two records are made, of the same number of steps: one session of one long run, and one of many runs of 50 steps. A
step streams twenty pieces of text and one call, whose result has 200 characters. Reading is `read_record` and nothing
more; a replay reads, too. `CPU` is of the process that replays, `clock` is what somebody waits: the two part on a
machine that has other work. The command is a process of its own, from its start to its end.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from endstop import Engine, read_record, tool
from endstop.decision import Limits, Policy
from endstop.providers import Scripted, call, say
from endstop.replay import replay

PIECES = 20
STEPS_OF_A_RUN = 50
WANTED = 500
"""Steps a second."""
COMMAND = str(Path(sys.executable).with_name("endstop"))


@tool(reads=True)
async def look(place: int) -> str:
    """Look somewhere."""
    return f"found {place} " + "x" * 190


async def record(path: Path, runs: int, steps: int) -> None:
    """Write a session of so many runs, each of so many steps."""

    def response(step: int) -> list[Any]:
        if step == steps:
            return [call("finish_task", summary="It is done.")]
        return [*(say(f"piece {n} ") for n in range(PIECES)), call("look", place=step)]

    script = [response(step) for _ in range(runs) for step in range(1, steps + 1)]
    engine = Engine(Scripted(*script), tools=[look], policy=Policy(limits=Limits(steps=steps + 1)))
    session = engine.session(record=path)
    for number in range(runs):
        outcome = await session.run(f"Look around, for the {number}th time")
        assert (outcome.status, outcome.steps) == ("completed", steps), outcome


def replay_once(path: Path, steps: int) -> None:
    """Replay in this process, without a view; anything but the same is an error."""
    report = asyncio.run(replay(path))
    assert report.same
    assert sum(run.outcome.steps for run in report.runs) == steps


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Seconds by the clock, and of CPU."""
    began, used = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - began, time.process_time() - used


def measure(path: Path, steps: int, rounds: int) -> dict[str, float]:
    """Medians over the rounds."""
    command = [COMMAND, "replay", "--quiet", str(path)]
    taken: list[dict[str, float]] = []
    for _ in range(rounds):
        read, read_cpu = timed(lambda: read_record(path))
        played, played_cpu = timed(lambda: replay_once(path, steps))
        before = os.times()
        process, _ = timed(lambda: subprocess.run(command, check=True, capture_output=True))
        after = os.times()
        process_cpu = after.children_user + after.children_system - before.children_user - before.children_system
        taken.append(
            {
                "read": read,
                "replay": played,
                "steps a second, clock": steps / played,
                "steps a second, CPU": steps / played_cpu,
                "replay / read, CPU": played_cpu / read_cpu,
                "command": process,
                "command, steps a second, clock": steps / process,
                "command, steps a second, CPU": steps / process_cpu,
            }
        )
    return {name: median(one[name] for one in taken) for name in taken[0]}


def main() -> int:
    """Print a table; exit code 1 if one of the records is replayed too slowly."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    runs = max(1, given.steps // STEPS_OF_A_RUN)
    shapes = {f"1 run of {given.steps} steps": (1, given.steps), f"{runs} runs of 50": (runs, STEPS_OF_A_RUN)}
    slowest = float("inf")
    for name, (number, steps) in shapes.items():
        with tempfile.TemporaryDirectory(prefix="endstop-replaying-") as folder:
            path = Path(folder) / "record.jsonl"
            asyncio.run(record(path, number, steps))
            lines = path.read_bytes().count(b"\n")
            print(f"{name}: {lines:,} lines, {path.stat().st_size / 1e6:.1f} MB")
            figures = measure(path, number * steps, given.rounds)
        for what, figure in figures.items():
            print(f"    {what:<32}{figure:10,.0f}" if figure >= 100 else f"    {what:<32}{figure:10,.3f}")
        slowest = min(slowest, *(figure for what, figure in figures.items() if "a second, clock" in what))
    print(f"load of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    print(f"wanted: {WANTED} steps a second by the clock; the slowest: {slowest:,.0f}")
    return 0 if slowest >= WANTED else 1


if __name__ == "__main__":
    sys.exit(main())
