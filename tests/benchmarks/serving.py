"""Load on `endstop serve`: many sessions stream to many readers, some slow, some that drop and come back.

    python tests/benchmarks/serving.py [--sessions 500] [--readers 1000] [--delay 200]

Provider, server and readers are processes of their own on loopback. Each phase has a fresh server. First the sessions
run without any reader, then with all of them: a step takes as long as the provider makes it take, so what it takes
longer is the server's doing. The figures go to docs/explanation/performance.md.
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
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from run import Process
from table import commit, machine, write_page
from task import Scenario

from tests.postgres import Missing, Server

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent.parent / "docs" / "explanation" / "performance.md"
SLOW, DROPPING = 0.1, 0.1
"""Shares of the readers."""
LONGEST = 240.0
"""Seconds that a phase may take."""


@dataclass
class Phase:
    """The measurements of one phase."""

    step_p50: float
    step_p99: float
    cpu: float
    """CPU seconds of the server, of a session."""
    memory: tuple[float, float, float]
    """MB of the server: before, while all run, at the end."""
    seconds: float
    readers: dict[str, Any] | None
    ended: int


class Serve:
    """`endstop serve` as users start it."""

    def __init__(self, api_base: str, store: str, log: Path) -> None:
        command = [sys.executable, "-m", "endstop.cli.main", "serve", "--port", "0"]
        command += ["--model", "bench", "--api-base", f"{api_base}/v1", "--tools", str(HERE / "serving_tools.py")]
        command += ["--store", store, "--max-running", "5000", "--rate", "0", "--quiet"]
        self._log = log.open("wb")
        self.popen = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self._log, text=True)

    def url(self) -> str:
        """The address on which it listens, from its first line of output."""
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


async def phase(store: str, provider: str, given: argparse.Namespace, folder: Path, readers: int) -> Phase:
    """One server, all sessions, so many readers."""
    server = Serve(provider, store, folder / "server.log")
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


def shown(phases: dict[str, tuple[Phase, Phase]], given: argparse.Namespace) -> str:
    """The figures as a table: for each store without and with readers."""
    slow, dropping = round(given.readers * SLOW), round(given.readers * DROPPING)
    columns = [column for pair in phases.values() for column in pair]
    sessions, readers = given.sessions, given.readers

    def row(title: str, of: Callable[[Phase], str]) -> str:
        return f"| {title} | " + " | ".join(map(of, columns)) + " |"

    def read(of: Callable[[dict[str, Any]], str]) -> Callable[[Phase], str]:
        return lambda phase: "" if phase.readers is None else of(phase.readers)

    def latency(seen: dict[str, Any]) -> str:
        return ", ".join(f"{seen['latency_ms'][p]:.0f}" for p in ("p50", "p95", "p99")) + " ms"

    lines = [
        f"{sessions} sessions at once, each of {given.steps} steps with a chunk every {given.delay:g} ms; "
        f"{readers} readers, of them {slow} slow and {dropping} that drop and resume. Provider, server and readers "
        "share the machine.",
        "",
        "| | " + " | ".join(f"{store}, without readers | {store}, with readers" for store in phases) + " |",
        "|---|" + "--:|" * len(columns),
        row("sessions that completed", lambda phase: f"{phase.ended}"),
        row("a step, median", lambda phase: f"{phase.step_p50:,.0f} ms"),
        row("a step, p99", lambda phase: f"{phase.step_p99:,.0f} ms"),
        row("CPU of the server, of a session", lambda phase: f"{1000 * phase.cpu:.0f} ms"),
        row("the same, as a share of a core", lambda phase: f"{100 * phase.cpu * sessions / phase.seconds:.0f}%"),
        row("memory of the server: before, peak", lambda phase: f"{phase.memory[0]:.0f}, {phase.memory[1]:.0f} MB"),
    ]
    sizes = []
    for alone, watched in phases.values():
        sizes += [f"{1024 * (alone.memory[1] - alone.memory[0]) / sessions:.0f} KB a session"]
        sizes += [f"{1024 * (watched.memory[1] - alone.memory[1]) / readers:.0f} KB a reader" if readers else ""]
    lines += [
        "| memory of one more | " + " | ".join(sizes) + " |",
        row("provider's chunk to reader: p50, p95, p99", read(latency)),
        row("events read", read(lambda seen: f"{sum(seen['events'].values()):,}")),
        row("of them doubled, missing or out of order", read(lambda seen: f"{seen['wrong']}")),
        row("markers; readers that came back", read(lambda seen: f"{seen['markers']}; {seen['resumed']}")),
    ]
    return "\n".join(lines)


def measured(given: argparse.Namespace, store: str, api: str) -> tuple[Phase, Phase]:
    """Both phases on one store."""
    with tempfile.TemporaryDirectory() as folder:
        phases = []
        for name, readers in (("alone", 0), ("read", given.readers)):
            place = str(Path(folder) / f"{name}.db") if store == "SQLite" else given.store
            print(f"{store}, {name} ...", file=sys.stderr, flush=True)
            phases.append(asyncio.run(phase(place, api, given, Path(folder), readers)))
            for line in (phases[-1].readers or {}).get("first_wrong", ()):
                print(f"wrong: {line}", file=sys.stderr)
        return phases[0], phases[1]


def main() -> None:
    """Measure, print, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=500)
    parser.add_argument("--readers", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--chunks", type=int, default=20)
    parser.add_argument("--delay", type=float, default=200.0, help="milliseconds between two chunks of a session")
    parser.add_argument("--store", help="the URL of an empty PostgreSQL database, in place of a server of our own")
    parser.add_argument("--no-postgres", action="store_true", help="SQLite only")
    parser.add_argument("--page", type=Path, default=PAGE, help="where the table is written to")
    given = parser.parse_args()
    load, began = os.getloadavg()[0], time.monotonic()
    with ExitStack() as stack:
        api = f"http://127.0.0.1:{stack.enter_context(Process('mock_provider.py')).line().strip()}"
        phases = {"SQLite": measured(given, "SQLite", api)}
        if not given.no_postgres:
            try:
                given.store = given.store or (server := stack.enter_context(Server(durable=True))).url(
                    server.new_database()
                )
                phases["PostgreSQL"] = measured(given, "PostgreSQL", api)
            except Missing as error:
                print(error, file=sys.stderr)
    command = "tests/benchmarks/serving.py " + " ".join(sys.argv[1:])
    about = machine(commit(HERE.parent.parent), command.strip(), 1, load, time.monotonic() - began)
    text = f"{about}\n\n{shown(phases, given)}"
    print(text)
    write_page(given.page, text, "serving")


if __name__ == "__main__":
    main()
