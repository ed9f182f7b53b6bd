"""One contender in a process of its own: reads a measurement a line, answers with its figures.

    python worker.py CONTENDER http://127.0.0.1:PORT
    {"measure": "step", "sessions": 5}

Contenders: `endstop`, alone and with what stands in `ours.VOICES`; the floors `lines`, `bytes` and `deaf`; and
`bare-litellm`. CPU is this process's own, so the provider's work
does not count; it includes whatever runs in threads.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import json
import os
import resource
import sys
import time
import urllib.request
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any, Protocol

from task import TALLY, Mode, Scenario

Figures = dict[str, float]


class Contender(Protocol):
    """A loop that answers a prompt. Entering it opens its connections."""

    async def __aenter__(self) -> Any: ...
    async def __aexit__(self, *exc: object) -> None: ...
    async def run(self, prompt: str) -> str: ...


class Bench:
    """The measurements, over one contender."""

    def __init__(self, name: str, server: str) -> None:
        self.name = name
        self.server = server
        self.numbers = itertools.count(1)
        self.warm = False
        """Whether this process has played its sessions before a measurement."""
        self.contender = self.make()

    def make(self) -> Contender:
        if self.name == "bare-litellm":
            from bare_litellm import BareLiteLLM

            return BareLiteLLM(self.server + "/v1")
        from ours import VOICES, Ours

        if self.name in VOICES:
            return Ours(self.server + "/v1", self.name)
        from floors import Floor

        return Floor(self.name, self.server + "/v1")

    def scenario(self, steps: int, chunks: int = 10, delay: float = 0, mode: Mode = "plain") -> Scenario:
        name = f"{self.name}-{os.getpid()}-{next(self.numbers)}"
        return Scenario(session=name, steps=steps, chunks=chunks, delay=delay, mode=mode)

    async def play(self, scenario: Scenario) -> None:
        answer = await self.contender.run(scenario.prompt)
        assert answer == "All numbers were added and nothing is left to do.", answer

    async def accounts(self, scenario: Scenario) -> list[dict[str, Any]]:
        """What the provider says of a session, once all its responses are over."""
        while True:
            accounts: list[dict[str, Any]] = await asyncio.to_thread(self.get, f"/sessions/{scenario.session}")
            if accounts and all(account["over"] for account in accounts):
                return accounts
            await asyncio.sleep(0.02)

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(self.server + path, timeout=30) as reply:
            return json.load(reply)

    # ---- measurements

    async def step(self, sessions: int) -> Figures:
        """CPU of a step: sessions of 20 steps, one after another, no delay."""
        scenarios = [self.scenario(20) for _ in range(sessions)]
        cpu, wall = time.process_time(), time.perf_counter()
        for scenario in scenarios:
            await self.play(scenario)
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        steps = 20 * sessions
        return {"cpu_ms": 1e3 * cpu / steps, "wall_ms": 1e3 * wall / steps}

    async def growth(self, sessions: int) -> Figures:
        """CPU of step 10 and of step 193 in sessions of 200: from one call of `add` to the next, five each side."""
        early: list[float] = []
        late: list[float] = []
        for _ in range(sessions):
            gc.collect()
            TALLY.timed, TALLY.times = True, []
            await self.play(self.scenario(200))
            TALLY.timed = False
            spans = [after - before for before, after in itertools.pairwise(TALLY.times)]
            early += spans[5:15]
            late += spans[188:198]
        return {"step_10_ms": 1e3 * median(early), "step_193_ms": 1e3 * median(late), "x": median(late) / median(early)}

    async def chunk(self, sessions: int, chunks: int, delay: float = 0) -> Figures:
        """CPU of a chunk of text: sessions of one response that is almost all text."""
        scenarios = [self.scenario(1, chunks, delay) for _ in range(sessions)]
        cpu, wall = time.process_time(), time.perf_counter()
        for scenario in scenarios:
            await self.play(scenario)
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        return {"cpu_us": 1e6 * cpu / chunks / sessions, "wall_s": wall / sessions}

    async def finish(self, sessions: int) -> Figures:
        """From the last byte of the completion call, as the provider writes it, to the run's return."""
        spans = []
        for _ in range(sessions):
            scenario = self.scenario(1, 10, 2)
            await self.play(scenario)
            end = time.monotonic_ns()
            (account,) = await self.accounts(scenario)
            spans.append((end - account["call_whole_ns"]) / 1e6)
        return {"ms": median(spans)}

    async def chatty(self, delay: float) -> Figures:
        """What is still sent and run once the completion call has come, when the model talks on."""
        scenario = self.scenario(2, 5, delay, "chatty")
        TALLY.calls = 0
        await self.play(scenario)
        end = time.monotonic_ns()
        accounts = await self.accounts(scenario)
        last = accounts[-1]
        return {
            "chunks_after": last["sent"] - last["call_whole"],
            "chunks_possible": last["planned"] - last["call_whole"],
            "calls_after": TALLY.calls - 1,
            "requests_after": len(accounts) - 2,
            "hung_up": last["hung_up"],
            "return_ms": (end - last["call_whole_ns"]) / 1e6,
        }

    async def waste(self, sessions: int) -> Figures:
        """Requests and chunks of sessions of 3 steps, one after another, 2 ms between two chunks."""
        requests = sent = 0
        for _ in range(sessions):
            scenario = self.scenario(3, 10, 2)
            await self.play(scenario)
            accounts = await self.accounts(scenario)
            requests += len(accounts)
            sent += sum(account["sent"] for account in accounts)
        return {"requests": requests / sessions, "chunks": sent / sessions}

    async def many(self, sessions: int) -> Figures:
        """Sessions at once, 5 steps each, 20 ms between two chunks."""
        scenarios = [self.scenario(5, 10, 20) for _ in range(sessions)]
        rss = peak_mb()
        server: float = self.get("/cpu")
        cpu, wall = time.process_time(), time.perf_counter()
        told = await asyncio.gather(*map(self.play, scenarios), return_exceptions=True)
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        errors = [repr(error) for error in told if error is not None]
        if errors:
            print(f"{self.name}: {len(errors)} of {sessions} sessions failed: {errors[0]}", file=sys.stderr)
        return {
            "sessions_s": (sessions - len(errors)) / wall,
            "cpu_ms": 1e3 * cpu / sessions,
            "cpu_share": cpu / wall,
            "provider_share": (self.get("/cpu") - server) / wall,
            "rss_before_mb": rss,
            "rss_mb": peak_mb(),
            "errors": len(errors),
        }


def peak_mb() -> float:
    """The most memory that this process has held so far."""
    try:
        status = Path("/proc/self/status").read_text()  # ru_maxrss also counts the process that started this one
        return int(status.split("VmHWM:")[1].split()[0]) / 1024
    except (OSError, IndexError):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


WARM_UP = 5
"""Sessions of 20 steps before the first measurement of a process, unless it names another number."""


async def measure(bench: Bench, name: str, options: dict[str, Any]) -> Figures:
    """Open connections, warm up, measure once."""
    method: Callable[..., Awaitable[Figures]] = getattr(bench, name)
    async with bench.contender:
        await bench.play(bench.scenario(3))
        await bench.play(replace(bench.scenario(2), delay=1))
        sessions = options.pop("warm_up", WARM_UP)
        for _ in range(0 if bench.warm else sessions):
            await bench.play(bench.scenario(20))
        bench.warm = bench.warm or sessions > 0
        gc.collect()
        return await method(**options)


def main() -> None:
    name, server = sys.argv[1:]
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # a thousand sessions: as many sockets and records
    bench = Bench(name, server)
    for line in sys.stdin:
        options = json.loads(line)
        figures = asyncio.run(measure(bench, options.pop("measure"), options))
        print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    main()
