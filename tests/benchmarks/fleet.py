"""What a fleet costs: sessions a second with 1, 2 and 4 workers, and how long after a death its sessions go on.

    python tests/benchmarks/fleet.py [--sessions 150] [--deaths 5] [--pairs 3]

The load without a queue and with one worker is measured `--pairs` times in turns: given are the medians, and the ratio
of each pair. `bare_dbos.py` says what DBOS costs without sessions. Database, model, server and workers are processes of
their own on loopback. All share the machine, so on one with two cores more workers do not make it faster: what the
table shows is what a session costs, and whom. The figures go to docs/explanation/performance.md.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import psycopg

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from run import Process
from table import commit, machine, write_page
from task import Scenario

from tests.fleet.fleet import Fleet, Member, Model, fleet, until
from tests.fleet.script import Script
from tests.postgres import Server
from tests.temporal import Missing as NoTemporal
from tests.temporal import Server as Temporal

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PAGE = ROOT / "docs" / "explanation" / "performance.md"
LEASE = 15.0
"""Seconds: what users have, unless they say otherwise."""
CONNECTIONS = 200
AT_ONCE = 4
"""Sessions that are under way when a worker is killed."""
OTHER_HOST = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
"""Words before a worker of whose process number nothing can be known here, as on another host."""


@dataclass
class Load:
    """The results for one number of workers."""

    seconds: float
    cpu: dict[str, float]
    """CPU seconds of `server`, `workers`, `PostgreSQL` and `Temporal`."""
    memory: float
    """MB of a worker at the end, or of the server where there is none."""
    connections: int
    """With the database, of all processes together."""
    completed: int


class Provider:
    """The mock provider, as a fleet wants its model."""

    def __init__(self, url: str, folder: Path) -> None:
        self.side_log = folder / "side.log"
        self._url = url

    def api_base(self, name: str, host: str | None = None) -> str:
        """The options that server and workers share."""
        return f"{self._url}/v1"


# ---- sessions a second


async def load(
    workers: int | None,
    given: argparse.Namespace,
    provider: str,
    server: Server,
    folder: Path,
    temporal: Temporal | None = None,
) -> Load:
    """All sessions, with so many workers; None: in the server itself, without a queue.

    temporal: the queue; None: DBOS, in the database of the store.
    """
    store = server.url(server.new_database())
    scenario = Scenario(session="fleet", steps=given.steps, chunks=given.chunks)
    made: Any = Provider(provider, folder)
    queue = None if temporal is None else f"temporal://{temporal.address}/{temporal.namespace()}"
    async with fleet(folder, store, made, queue=queue, tools=HERE / "serving_tools.py") as ships:
        await ships.serve("--max-running", 5000, workers=None if workers is None else 0, lease=LEASE)
        company = await asyncio.gather(*(ships.worker(lease=LEASE) for _ in range(workers or 0)))
        assert ships.server is not None
        await one_more(ships, scenario, store, 1)  # what is imported and connected when first used is no session's
        groups = {"server": [ships.server.pid], "workers": [worker.pid for worker in company]}
        trees = {"PostgreSQL": server.pid} | ({} if temporal is None else {"Temporal": temporal.pid})

        def used() -> dict[str, float]:
            alone = {name: cpu(pids) for name, pids in groups.items()}
            return alone | {name: tree_cpu(pid) for name, pid in trees.items()}

        before = used()
        began = time.monotonic()
        await one_more(ships, scenario, store, given.sessions)
        seconds = time.monotonic() - began
        after = used()
        with psycopg.connect(store) as connection:
            row = connection.execute("SELECT count(*) FROM endstop_sessions WHERE status = 'completed'").fetchone()
            there = connection.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
            ).fetchone()
        return Load(
            seconds=seconds,
            cpu={name: (after[name] - before[name]) / given.sessions for name in before},
            memory=memory((company[0] if company else ships.server).pid),
            connections=there[0] if there else 0,
            completed=row[0] - 1 if row else 0,
        )


async def one_more(ships: Fleet, scenario: Scenario, store: str, number: int) -> None:
    """So many sessions, from the first request until the store has the end of the last one."""
    turn = asyncio.Semaphore(20)

    async def start() -> str:
        async with turn:
            return str((await ships.ask("POST", "/sessions", {"prompt": scenario.prompt}, status=201))["id"])

    await asyncio.gather(*(start() for _ in range(number)))
    with psycopg.connect(store, autocommit=True) as connection:
        unfinished = "SELECT 1 FROM endstop_sessions WHERE status IN ('queued', 'running') LIMIT 1"
        deadline = time.monotonic() + 300
        while connection.execute(unfinished).fetchone():
            if time.monotonic() > deadline:
                raise TimeoutError(f"sessions do not end: {ships.trouble()}")
            await asyncio.sleep(0.02)


def cpu(pids: list[int]) -> float:
    """CPU seconds that these have used."""
    return sum(sum(_times(pid)[:2]) for pid in pids)


def tree_cpu(top: int) -> float:
    """CPU seconds that a server has used, with its children, such as PostgreSQL's connections, also closed ones."""
    while True:
        children = Path(f"/proc/{top}/task/{top}/children").read_text().split()
        try:
            return cpu([int(pid) for pid in children]) + sum(_times(top))
        except (FileNotFoundError, ProcessLookupError):  # one has just ended: its parent counts it from now on
            continue


def _times(pid: int) -> tuple[float, float, float, float]:
    """CPU seconds of a process and of its children that have ended: proc(5), fields 14 to 17."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    user, system, *ended = (int(field) / os.sysconf("SC_CLK_TCK") for field in fields[11:15])
    return user, system, ended[0], ended[1]


def memory(pid: int) -> float:
    """MB that a process holds."""
    return int(Path(f"/proc/{pid}/status").read_text().partition("VmRSS:")[2].split()[0]) / 1024


# ---- DBOS without sessions


def bare(way: str, steps: int, workflows: int, server: Server) -> tuple[float, float]:
    """CPU seconds of a worker and of PostgreSQL for a workflow of so many trivial steps. way: see `bare_dbos.py`."""
    url = server.url(server.new_database())
    with Process("bare_dbos.py", "work", url, way, str(workflows), str(steps)) as worker:
        assert worker.line().strip() == "ready"
        before = tree_cpu(server.pid)
        subprocess.run([sys.executable, HERE / "bare_dbos.py", "submit", url, way, str(workflows)], check=True)
        seconds = float(worker.line())
        return seconds, (tree_cpu(server.pid) - before) / workflows


def bare_table(server: Server, given: argparse.Namespace) -> str:
    """What DBOS costs, with as many steps as a session has and with none."""
    steps = 2 * given.steps
    ways = {
        "DBOS, a workflow without steps": ("dbos", 0),
        "DBOS, its own steps (`run_step_async`)": ("dbos", steps),
        "endstop's queue on DBOS, without steps": ("endstop", 0),
        "endstop's queue on DBOS, endstop's steps": ("endstop", steps),
    }
    lines = [
        f"DBOS without sessions: {given.sessions} workflows at once, of no step or of the {steps} that such a session "
        "has, whose work takes no time.",
        "",
        "| | steps | CPU of a workflow: worker | PostgreSQL |",
        "|---|--:|--:|--:|",
    ]
    for title, (way, number) in ways.items():
        print(f"{title} ...", file=sys.stderr, flush=True)
        worker, database = bare(way, number, given.sessions, server)
        lines.append(f"| {title} | {number} | {1000 * worker:.1f} ms | {1000 * database:.1f} ms |")
    return "\n".join(lines)


# ---- after a death


async def deaths(kind: str, number: int, server: Server, folder: Path) -> list[float]:
    """Seconds from a worker's SIGKILL until each of its sessions does something elsewhere."""
    found: list[float] = []
    folder.mkdir()
    async with Model(folder) as model, fleet(folder, server.url(server.new_database()), model) as ships:
        await ships.serve(workers=2 if kind == "child" else 0, lease=LEASE)
        before = OTHER_HOST if kind == "other host" else ()
        company = [await ships.worker(lease=LEASE, before=before) for _ in range(0 if kind == "child" else 2)]
        for death in range(number):
            scripts = [Script(who=f"{kind}-{death}-{place}", steps=30, pace=0.02) for place in range(AT_ONCE)]
            ids = [await ships.start(script) for script in scripts]
            await until(lambda: all(len(ships.side.of(s.who).calls) >= 6 for s in scripts), "all are under way")  # noqa: B023
            found += await struck(ships, company, scripts)
            for id in ids:
                await ships.reached(id, "completed")
            if company:
                company.append(await ships.worker(lease=LEASE, before=before))
    return found


async def struck(ships: Fleet, company: list[Member], scripts: list[Script]) -> list[float]:
    """Kill the worker that has the first of these sessions; when each of its sessions went on."""
    if company:
        victim = next(member for member in company if member.name == ships.side.of(scripts[0].who).askers[-1])
        hit = [s for s in scripts if ships.side.of(s.who).askers[-1] == victim.name]
        at = time.monotonic_ns()
        await victim.kill()
        company.remove(victim)
    else:
        pid = ships.side.of(scripts[0].who).calls[-1]["pid"]
        hit = [s for s in scripts if ships.side.of(s.who).calls[-1]["pid"] == pid]
        at = time.monotonic_ns()
        os.kill(pid, signal.SIGKILL)

    def went_on() -> list[float] | None:
        later = [[line["t"] for line in ships.side.of(s.who).lines if is_later(line, at)] for s in hit]
        return [(min(times) - at) / 1e9 for times in later] if all(later) else None

    seconds: list[float] = await until(went_on, "its sessions go on", 3 * LEASE)
    return seconds


def is_later(line: dict[str, Any], at: int) -> bool:
    """Whether it was begun after this time by somebody who lives."""
    return line["t"] > at and line["what"] in ("begun", "began")


# ---- the page


def middle(loads: list[Load]) -> Load:
    """The load whose sessions cost the median, in servers and workers together."""
    return sorted(loads, key=of_session)[len(loads) // 2]


def of_session(load: Load) -> float:
    """CPU seconds of a session in the process that runs it: a worker, or the server where there is none."""
    return load.cpu["workers"] or load.cpu["server"]


def compared(alone: Iterable[Load], worker: Iterable[Load]) -> str:
    """How much more a session takes in a worker than in the server alone, in each pair."""
    ratios = sorted(of_session(one) / of_session(other) for other, one in zip(alone, worker, strict=True))
    return (
        f"A session in a worker takes {median(ratios):.2f} times the CPU of one without a queue "
        f"({ratios[0]:.2f} to {ratios[-1]:.2f} in {len(ratios)} pairs), beside what the server does for it."
    )


def shown(loads: dict[str, Load], went_on: dict[str, list[float]], given: argparse.Namespace) -> str:
    """The figures as two tables."""

    def row(title: str, of: Callable[[Load], str]) -> str:
        return f"| {title} | " + " | ".join(map(of, loads.values())) + " |"

    lines = [
        f"{given.sessions} sessions at once, each of {given.steps} steps with {given.chunks} chunks of text, over a "
        "model that answers at once; PostgreSQL waits for the disk. Database, model, server and workers share the "
        "machine, so these are costs, and not what more machines would give.",
        "",
        "| | " + " | ".join(loads) + " |",
        "|---|" + "--:|" * len(loads),
        row("sessions that completed", lambda load: f"{load.completed}"),
        row("sessions a second", lambda load: f"{given.sessions / load.seconds:.1f}"),
        row("CPU of a session: workers", lambda load: f"{1000 * load.cpu['workers']:.0f} ms"),
        row("CPU of a session: server", lambda load: f"{1000 * load.cpu['server']:.0f} ms"),
        row("CPU of a session: PostgreSQL", lambda load: f"{1000 * load.cpu['PostgreSQL']:.0f} ms"),
        row(
            "CPU of a session: Temporal's server",
            lambda load: f"{1000 * load.cpu['Temporal']:.0f} ms" if "Temporal" in load.cpu else "",
        ),
        row("memory of a worker (or of the server)", lambda load: f"{load.memory:.0f} MB"),
        row("connections with the database", lambda load: f"{load.connections}"),
    ]
    if went_on:
        lines += ["", f"| A worker is killed (lease {LEASE:g} s) | its sessions go on after: median | longest |"]
        lines += ["|---|--:|--:|"]
        lines += [f"| {kind} | {median(times):.1f} s | {max(times):.1f} s |" for kind, times in went_on.items()]
    return "\n".join(lines)


def main() -> None:
    """Measure, print, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=150)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--chunks", type=int, default=10)
    parser.add_argument("--pairs", type=int, default=3, help="loads without a queue and with one worker, in turns")
    parser.add_argument("--deaths", type=int, default=5, help="of each kind; of those on another host a third of it")
    parser.add_argument("--page", type=Path, default=PAGE, help="where the tables are written to")
    given = parser.parse_args()
    busy, began = os.getloadavg()[0], time.monotonic()
    went_on: dict[str, list[float]] = {}
    with ExitStack() as stack:
        server = stack.enter_context(Server(durable=True, connections=CONNECTIONS))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        provider = f"http://127.0.0.1:{stack.enter_context(Process('mock_provider.py')).line().strip()}"

        def loaded(name: str, workers: int | None, temporal: Temporal | None = None) -> Load:
            print(f"{name} ...", file=sys.stderr, flush=True)
            place = folder / f"load-{len(list(folder.iterdir()))}"
            return asyncio.run(load(workers, given, provider, server, place, temporal))

        alone, one = [], []
        for _ in range(given.pairs):
            alone.append(loaded("no queue", None))
            one.append(loaded("1 worker", 1))
        loads = {"no queue": middle(alone), "1 worker": middle(one)}
        for workers in (2, 4):
            loads[f"{workers} workers"] = loaded(f"{workers} workers", workers)
        try:
            temporal = stack.enter_context(Temporal(namespaces=1))
            loads["1 worker, Temporal"] = loaded("1 worker, Temporal", 1, temporal)
        except NoTemporal as missing:
            print(f"without Temporal: {missing}", file=sys.stderr)
        without = bare_table(server, given)
        kinds = {"child": given.deaths, "same host": given.deaths, "other host": -(-given.deaths // 3)}
        titles = {
            "child": "a child of `serve --workers 2`",
            "same host": "an `endstop worker` on the same host",
            "other host": "an `endstop worker` of which only its lease is known, as on another host",
        }
        for kind, number in kinds.items():
            if number and (kind != "other host" or subprocess.run([*OTHER_HOST, "true"], check=False).returncode == 0):
                print(f"deaths: {kind} ...", file=sys.stderr, flush=True)
                went_on[titles[kind]] = asyncio.run(deaths(kind, number, server, folder / kind.replace(" ", "-")))
    command = ("tests/benchmarks/fleet.py " + " ".join(sys.argv[1:])).strip()
    about = machine(commit(ROOT), command, given.pairs, busy, time.monotonic() - began)
    text = "\n\n".join((about, shown(loads, went_on, given), compared(alone, one), without))
    print(text)
    write_page(given.page, text, "fleet")


if __name__ == "__main__":
    main()
