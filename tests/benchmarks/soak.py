"""Many sessions at once over three providers that fail: every one ends, and nothing is left behind.

    python tests/benchmarks/soak.py [--sessions 1000] [--minutes 10] [--seed 1]

So many sessions are always under way, each of five steps with a tool; a new one begins when one has ended. The main
provider and its two spares are processes of their own on loopback (`faulty_provider.py`). It fails, with exit code 1,
if a session is lost, has not exactly one terminal event, or leaves a task or a socket behind, or if memory grows:
the last tenth of the time against the second, by more than 5 %.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from endstop import Engine, Observers, tool
from endstop.decision import Limits, Policy
from endstop.decision.events import AttemptFailed, RunFinished
from endstop.providers import Fallback, OpenAICompatible, Provider, RateLimit, Retry, Timeouts
from task import Scenario, add

HERE = Path(__file__).resolve().parent
EVERY = 5.0
"""Seconds between two looks at the memory."""


@dataclass
class Seen:
    """The ends of all sessions so far, counted."""

    begun: int = 0
    ended: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    steps: int = 0
    requests: int = 0
    memory: list[float] = field(default_factory=list)


def providers(ports: list[int]) -> Provider:
    """The first endpoint, and the others when it fails."""
    guarded = []
    for name, port in zip(("fast", "flaky", "steady"), ports, strict=True):
        direct = OpenAICompatible(name, f"http://127.0.0.1:{port}/v1", api_key="none")
        bounded = Timeouts(direct, connect=10, first=5, between=5, total=60)
        patience = None if name == "steady" else 2.0  # the last one has nobody behind it
        guarded.append(Retry(RateLimit(bounded, longest_wait=patience), times={"server": 1}, first_wait=0.05))
    return Fallback(*guarded)


async def session(engine: Engine, number: int, seen: Seen) -> None:
    """One session, looked at as a reader would."""
    seen.begun += 1
    terminal = 0
    async with engine.start(Scenario(session=str(number), steps=5, chunks=3).prompt) as run:
        async for event in run:
            if isinstance(event, RunFinished):
                terminal += 1
            elif isinstance(event, AttemptFailed):
                seen.failures[f"{event.model}: {event.kind}"] += 1
    outcome = run.outcome
    seen.ended[outcome.stop_reason] += 1
    seen.steps += outcome.steps
    seen.requests += outcome.requests
    if terminal != 1:
        seen.wrong.append(f"{outcome.run_id}: {terminal} terminal events")
    if outcome.stop_reason == "internal_error":
        seen.wrong.append(f"{outcome.run_id}: {outcome.detail}")
    if outcome.stop_reason == "completed" and outcome.steps != 5:
        seen.wrong.append(f"{outcome.run_id}: {outcome.steps} steps")


async def stream_of_sessions(engine: Engine, place: int, until: float, seen: Seen) -> None:
    """One place that is never empty: a session after another."""
    number = 0
    while time.monotonic() < until:
        await session(engine, place * 1_000_000 + number, seen)
        number += 1


async def watch(seen: Seen, began: float, until: float) -> None:
    while (now := time.monotonic()) < until:
        seen.memory.append(megabytes())
        ended = sum(seen.ended.values())
        line = f"{now - began:5.0f} s  {ended:7} ended  {seen.requests:8} requests  {seen.memory[-1]:5.0f} MB"
        print(line, end="\r" if sys.stderr.isatty() else "\n", file=sys.stderr, flush=True)
        await asyncio.sleep(min(EVERY, max(0.1, until - now)))


async def soak(sessions: int, minutes: float, ports: list[int]) -> Seen:
    seen = Seen()
    before = sockets()
    began = time.monotonic()
    until = began + minutes * 60
    engine = Engine(
        providers(ports), tools=[tool(add)], policy=Policy(limits=Limits(steps=20)), observers=Observers(buffer=512)
    )
    async with engine, asyncio.TaskGroup() as tasks:
        tasks.create_task(watch(seen, began, until))
        for place in range(sessions):
            tasks.create_task(stream_of_sessions(engine, place, until, seen))
    await asyncio.sleep(0.5)  # closed sockets leave the table a moment later
    if (left := len(asyncio.all_tasks()) - 1) > 0:
        seen.wrong.append(f"{left} tasks are left")
    if (left := sockets() - before) > 0:
        seen.wrong.append(f"{left} sockets are left")
    return seen


def judged(seen: Seen) -> list[str]:
    """Return what is wrong, a sentence each."""
    wrong = list(seen.wrong)
    lost = seen.begun - sum(seen.ended.values())
    if lost:
        wrong.append(f"{lost} sessions are lost")
    tenth = max(1, len(seen.memory) // 10)
    early, late = median(seen.memory[tenth : 2 * tenth]), median(seen.memory[-tenth:])
    if len(seen.memory) >= 20 and late > early * 1.05:
        wrong.append(f"memory grew from {early:.0f} to {late:.0f} MB")
    return wrong


def megabytes() -> float:
    """Resident memory now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def sockets() -> int:
    """Open sockets of this process."""
    return sum(
        os.readlink(entry).startswith("socket:") for entry in Path("/proc/self/fd").iterdir() if entry.is_symlink()
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sessions", type=int, default=1000)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1, help="of the faults")
    given = parser.parse_args()
    command = [sys.executable, str(HERE / "faulty_provider.py"), str(given.seed)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            ports = [int(port) for port in server.stdout.readline().split()]
            seen = asyncio.run(soak(given.sessions, given.minutes, ports))
        finally:
            server.kill()
    ended = sum(seen.ended.values())
    about = f"{given.sessions} at once, {given.minutes:g} minutes, seed {given.seed}"
    print(f"\n{ended} sessions, {about}: {dict(seen.ended)}")
    print(f"{seen.steps} steps, {seen.requests} requests; failed attempts: {dict(seen.failures.most_common())}")
    print(
        f"memory in MB: {[round(seen.memory[i]) for i in range(0, len(seen.memory), max(1, len(seen.memory) // 20))]}"
    )
    wrong = judged(seen)
    print("\n".join(["wrong:", *wrong]) if wrong else "all ended, none lost, one terminal event each, nothing left")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
