"""Load on `endstop serve`: many sessions stream to many readers, some slow, some that drop and come back.

    python tests/benchmarks/serving.py [--sessions 500] [--readers 1000] [--store sqlite|postgresql://...] [--no-write]

Provider, server and readers are processes of their own on loopback. Each phase has a fresh server. First the sessions
run without any reader, then with all of them: a step takes as long as the provider makes it take, so what it takes
longer is the server's doing. The figures go to docs/performance.md.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
from run import Process
from task import Scenario

HERE = Path(__file__).resolve().parent
SLOW, DROPPING = 0.1, 0.1
"""Shares of the readers."""
LONGEST = 240.0
"""Seconds that a phase may take."""


@dataclass
class Phase:
    """What one phase has shown."""

    name: str
    step_p50: float
    step_p99: float
    cpu: float
    """CPU seconds of the server, of a session."""
    memory: tuple[float, float, float]
    """MB of the server: before, while all run, at the end."""
    seconds: float
    readers: dict[str, Any] | None
    ended: int


class Server:
    """`endstop serve` as users start it."""

    def __init__(self, api_base: str, store: str, log: Path) -> None:
        command = [sys.executable, "-m", "endstop.engine.hosts.command_line", "serve", "--port", "0"]
        command += ["--model", "bench", "--api-base", f"{api_base}/v1", "--tools", str(HERE / "serving_tools.py")]
        command += ["--store", store, "--max-running", "5000", "--rate", "0", "--quiet"]
        self._log = log.open("wb")
        self.popen = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self._log, text=True)

    def url(self) -> str:
        """Where it listens, as it says in its first line."""
        assert self.popen.stdout is not None
        line = self.popen.stdout.readline()
        return line[line.index("http://") :].split()[0].rstrip("/")

    def memory(self) -> float:
        """MB that it holds."""
        status = Path(f"/proc/{self.popen.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) / 1024

    def cpu(self) -> float:
        """CPU seconds that it has used."""
        fields = Path(f"/proc/{self.popen.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> None:
        """End it as a service manager would."""
        self.popen.send_signal(signal.SIGTERM)
        try:
            self.popen.wait(30)
        finally:
            self.popen.kill()
            self._log.close()


async def started(http: aiohttp.ClientSession, url: str, scenario: Scenario, sessions: int) -> list[dict[str, Any]]:
    """Start so many sessions, twenty at a time."""
    turn = asyncio.Semaphore(20)

    async def start() -> dict[str, Any]:
        async with turn, http.post(f"{url}/sessions", json={"prompt": scenario.prompt}) as response:
            assert response.status == 201, await response.text()
            made: dict[str, Any] = await response.json()
            return made

    return list(await asyncio.gather(*(start() for _ in range(sessions))))


async def durations(http: aiohttp.ClientSession, url: str, sessions: list[dict[str, Any]]) -> tuple[list[float], int]:
    """How long each step of all sessions took, in milliseconds, by their records; and how many sessions ended well."""
    found: list[float] = []
    ended = 0
    for session in sessions:
        async with http.get(f"{url}/sessions/{session['id']}/record") as response:
            lines = [json.loads(line) for line in (await response.read()).splitlines()]
        begun: dict[int, int] = {}
        for line in lines:
            if line["type"] == "STEP_STARTED":
                begun[line["step"]] = line.get("t", 0)
            elif line["type"] == "STEP_FINISHED":
                found.append(line["t"] - begun[line["step"]])
        ended += lines[-1]["type"] == "RUN_FINISHED" and lines[-1]["outcome"]["status"] == "completed"
    return sorted(found), ended


async def phase(name: str, provider: str, given: argparse.Namespace, folder: Path, readers: int) -> Phase:
    """One server, all sessions, so many readers."""
    store = str(folder / f"{name}.db") if given.store == "sqlite" else given.store
    server = Server(provider, store, folder / f"{name}.log")
    try:
        url = server.url()
        before = server.memory()
        scenario = Scenario(session="load", steps=given.steps, chunks=given.chunks, delay=given.delay, mode="dated")
        timeout = aiohttp.ClientTimeout(total=LONGEST)
        async with aiohttp.ClientSession(timeout=timeout, connector=aiohttp.TCPConnector(limit=50)) as http:
            began = time.monotonic()
            sessions = await started(http, url, scenario, given.sessions)
            watching = read(folder, url, [session["run_id"] for session in sessions], readers) if readers else None
            peak = server.memory()
            while True:
                async with http.get(f"{url}/health") as response:
                    running = (await response.json())["running"]
                peak = max(peak, server.memory())
                if not running or time.monotonic() - began > LONGEST:
                    break
                await asyncio.sleep(1)
            seconds = time.monotonic() - began
            cpu = server.cpu()
            seen = None
            if watching is not None:
                seen = json.loads(await asyncio.to_thread(watching.line))
                watching.popen.wait(10)
            took, ended = await durations(http, url, sessions)
            return Phase(
                name=name,
                step_p50=took[len(took) // 2],
                step_p99=took[len(took) * 99 // 100],
                cpu=cpu / given.sessions,
                memory=(before, peak, server.memory()),
                seconds=seconds,
                readers=seen,
                ended=ended,
            )
    finally:
        server.stop()


def read(folder: Path, url: str, runs: list[str], number: int) -> Process:
    """Begin to read, in a process of its own."""
    slow, dropping = round(number * SLOW), round(number * DROPPING)
    kinds = ["slow"] * slow + ["dropping"] * dropping + ["steady"] * (number - slow - dropping)
    plan = folder / "plan.json"
    pairs = [[kind, runs[place % len(runs)]] for place, kind in enumerate(kinds)]
    plan.write_text(json.dumps({"url": url, "token": "", "readers": pairs}))
    process = Process("sse_readers.py", str(plan))
    assert process.line().strip() == "reading"
    return process


def shown(phases: list[Phase], given: argparse.Namespace) -> str:
    """The figures as a table."""
    alone, read_ = phases
    seen = read_.readers or {}
    latency = seen["latency_ms"]
    lines = [
        f"{given.sessions} sessions of {given.steps} steps, a chunk every {given.delay:g} ms each; "
        f"{given.readers} readers, of them {round(given.readers * SLOW)} slow and {round(given.readers * DROPPING)} "
        f"that drop and resume ({seen['resumed']} times); store: {given.store.partition(':')[0]}.",
        "",
        "| | without readers | with readers |",
        "|---|--:|--:|",
        f"| sessions that completed | {alone.ended} | {read_.ended} |",
        f"| a step, median | {alone.step_p50:.0f} ms | {read_.step_p50:.0f} ms |",
        f"| a step, p99 | {alone.step_p99:.0f} ms | {read_.step_p99:.0f} ms |",
        f"| CPU of the server, of a session | {1000 * alone.cpu:.0f} ms | {1000 * read_.cpu:.0f} ms |",
        f"| memory of the server: before, peak | {alone.memory[0]:.0f}, {alone.memory[1]:.0f} MB "
        f"| {read_.memory[0]:.0f}, {read_.memory[1]:.0f} MB |",
        f"| memory of a session, of a reader | {1024 * (alone.memory[1] - alone.memory[0]) / given.sessions:.0f} KB "
        f"| {1024 * (read_.memory[1] - alone.memory[1]) / given.readers:.0f} KB |",
        f"| provider's chunk to reader: p50, p95, p99 | | {latency['p50']:.0f}, {latency['p95']:.0f}, "
        f"{latency['p99']:.0f} ms |",
        f"| events read; wrong order, doubled or missing; markers | | {sum(seen['events'].values()):,}; "
        f"{seen['wrong']}; {seen['markers']} |",
    ]
    return "\n".join([*lines, *seen["first_wrong"]]) + "\n"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=500)
    parser.add_argument("--readers", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--chunks", type=int, default=20)
    parser.add_argument("--delay", type=float, default=200.0, help="milliseconds between two chunks of a session")
    parser.add_argument("--store", default="sqlite", help="sqlite, or the URL of an empty PostgreSQL database")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, Process("mock_provider.py") as provider:
        api = f"http://127.0.0.1:{provider.line().strip()}"
        phases = []
        for name, readers in (("alone", 0), ("read", given.readers)):
            print(f"{name} ...", file=sys.stderr, flush=True)
            phases.append(asyncio.run(phase(name, api, given, Path(folder), readers)))
        print(shown(phases, given))


if __name__ == "__main__":
    main()
