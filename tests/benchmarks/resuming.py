"""Measures how long a killed session takes to go on, and how large its record is.

    python tests/benchmarks/resuming.py [--steps 500] [--rounds 5] [--delay 0]

A session of so many steps is played over loopback by `mock_provider.py`: 19 deltas a step (15 of text, 4 of a call),
and a call of a tool. Its record is cut where the last step has begun, once before its response and once in its middle.
What is timed is what the next process does: from opening the record to the first request. `delay` is in milliseconds
between two chunks; with 0 a response comes in one piece or a few. The input is the bodies of the responses as bytes on
the wire; its text is what of them is no JSON: pieces of text, the call's name and arguments.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median
from typing import Any

from endstop import Engine, read_record, tool
from endstop.decision import Limits, Policy, Repetition
from endstop.providers import OpenAICompatible
from mock_provider import planned
from task import Scenario, add

HERE = Path(__file__).resolve().parent
CHUNKS = 15
WANTED = 0.5
"""Seconds from opening the record to the first request."""


class Asked:
    """A provider that notes when it is asked, and never answers."""

    model = "bench"

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.messages = 0
        self.at = 0.0
        self.cpu = 0.0

    @asynccontextmanager
    async def stream(self, request: Any) -> AsyncIterator[Any]:
        """Note the time."""
        self.at, self.cpu = time.perf_counter(), time.process_time()
        self.messages = len(request.messages)
        self.asked.set()
        await asyncio.get_running_loop().create_future()
        yield


def an_engine(provider: Any, steps: int) -> Engine:
    policy = Policy(limits=Limits(steps=steps + 1), repetition=Repetition(nudge_at=(), stop_at=None))
    return Engine(provider, tools=[tool(add)], policy=policy)


async def record(path: Path, port: int, scenario: Scenario) -> None:
    """Play the session, and write its record."""
    provider = OpenAICompatible("bench", f"http://127.0.0.1:{port}/v1", api_key="none")
    outcome = await an_engine(provider, scenario.steps).run(scenario.prompt, record=path)
    assert (outcome.status, outcome.steps) == ("completed", scenario.steps), outcome


def input_of(scenario: Scenario) -> tuple[int, int]:
    """Bytes of all responses on the wire, and of the text in them."""
    wire = sum(len(write) for turns in range(scenario.steps) for write in planned(scenario.nameless, turns).writes)
    text = CHUNKS * len(" word00") + len("add") + len('{"a": 100, "b": 1}')
    return wire, text * scenario.steps


def cut(lines: list[bytes], steps: int, *, share: float) -> list[bytes]:
    """The record up to the beginning of the last step's response, and this share of the response's lines more."""
    begun = next(n for n, line in enumerate(lines) if b'"ATTEMPT_STARTED"' in line and b'"%d.1"' % steps in line)
    whole = next(n for n, line in enumerate(lines) if n > begun and b'"RESPONSE_FINISHED"' in line)
    return lines[: begun + 1 + int(share * (whole - begun - 1))]


async def resume(path: Path, steps: int) -> dict[str, float]:
    """Go on from the record up to the first request. Seconds by the clock, and of CPU for all of it."""
    provider = Asked()
    engine = an_engine(provider, steps)
    began, used = time.perf_counter(), time.process_time()
    runs = read_record(path).runs
    read = time.perf_counter()
    session = engine.session("bench", record=path)
    session.load(runs)
    loaded = time.perf_counter()
    async with session.start_resumed() as run:
        await provider.asked.wait()
        run.cancel()
    assert provider.messages == 2 * steps, provider.messages  # system and prompt, and two of each finished step
    return {
        "read the record": read - began,
        "load the session": loaded - read,
        "to the first request": provider.at - loaded,
        "all": provider.at - began,
        "all, CPU": provider.cpu - used,
    }


def measure(path: Path, left: list[bytes], steps: int, rounds: int) -> dict[str, float]:
    """Medians over the rounds."""
    taken = []
    for _ in range(rounds):
        path.write_bytes(b"".join(left))
        taken.append(asyncio.run(resume(path, steps)))
    return {name: median(one[name] for one in taken) for name in taken[0]}


def main() -> int:
    """Print the figures; exit code 1 if a resume takes too long."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--delay", type=float, default=0)
    given = parser.parse_args()
    scenario = Scenario(session="resuming", steps=given.steps, chunks=CHUNKS, delay=given.delay)
    command = [sys.executable, str(HERE / "mock_provider.py")]
    slowest = 0.0
    with tempfile.TemporaryDirectory(prefix="endstop-resuming-") as folder:
        whole, killed = Path(folder) / "whole.jsonl", Path(folder) / "killed.jsonl"
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            try:
                asyncio.run(record(whole, int(server.stdout.readline()), scenario))
            finally:
                server.kill()
        content = whole.read_bytes()
        lines = content.splitlines(keepends=True)
        wire, text = input_of(scenario)
        size = len(content)
        print(f"{given.steps} steps, 19 deltas each, {given.delay:g} ms between two: {len(lines):,} lines")
        packed = len(gzip.compress(content))
        print(f"    record              {size:12,} bytes, {size / given.steps:,.0f} a step; {packed:,} with gzip")
        print(f"    input on the wire   {wire:12,} bytes: the record is {size / wire:.2f} times that")
        print(f"    text in it          {text:12,} bytes: the record is {size / text:.1f} times that")
        for where, share in (("before the last response", 0.0), ("in the middle of it", 0.5)):
            print(f"killed {where}: medians of {given.rounds}, in ms")
            figures = measure(killed, cut(lines, given.steps, share=share), given.steps, given.rounds)
            for what, seconds in figures.items():
                print(f"    {what:<24}{1000 * seconds:10.1f}")
            slowest = max(slowest, figures["all"])
    print(f"load of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    print(f"wanted: {WANTED:g} s from opening the record to the first request; the slower: {slowest:.2f} s")
    return 0 if slowest <= WANTED else 1


if __name__ == "__main__":
    sys.exit(main())
