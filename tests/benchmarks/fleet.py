"""What a fleet costs: sessions a second with 1, 2 and 4 workers, and how long after a death its sessions go on.

    python tests/benchmarks/fleet.py [--sessions 150] [--deaths 5] [--pairs 3]
    python tests/benchmarks/fleet.py --slow 50 [--sessions 150]

The loads without a queue, with one worker and with two, and those of a plain loop on the same DBOS
(`plain_durable.py`), are measured `--pairs` times in turns: given are the medians, and the ratio of each pair.
`bare_dbos.py` says what DBOS costs without sessions. Database, model, server and workers are processes of
their own on loopback. All share the machine, so on one with two cores more workers do not make it faster: what the
table shows is what a session costs, and whom. The figures go to docs/explanation/performance.md.

With `--slow MS` only the traffic with the database is counted, of sessions that last seconds because the model sends a
chunk every MS milliseconds. That table goes to docs/explanation/scale.md.
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
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import aiohttp
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
SCALE_PAGE = PAGE.with_name("scale.md")
LEASE = 15.0
"""Seconds: what users have, unless they say otherwise."""
CONNECTIONS = 200
COUNTS = {"shared_preload_libraries": "pg_stat_statements"}
"""Settings of a PostgreSQL server that counts statements."""
LOOKING = "unfinished"
"""The name in each query by which this program looks whether sessions have ended: it is not counted."""
UNDER_WAY = 4
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
    queries: float
    """Statements of a session in PostgreSQL, BEGIN and COMMIT included."""
    transactions: float
    """Those of a session that were begun with BEGIN: a query alone is none."""
    bytes: float
    """By which a session makes the database larger, DBOS's tables and all indexes included."""

    @property
    def together(self) -> float:
        """CPU seconds of a session in server, workers and PostgreSQL."""
        return self.cpu["server"] + self.cpu["workers"] + self.cpu["PostgreSQL"]


@dataclass(frozen=True)
class Pace:
    """How quickly the model answers, and how sessions come in."""

    title: str
    delay: float = 0
    """Milliseconds between two chunks; 0: a response is sent at once."""
    apart: float = 0
    """Seconds between two sessions; 0: all come at once."""


AT_ONCE = Pace("at once, all sessions at once")


class Provider:
    """The mock provider, as a fleet wants its model."""

    def __init__(self, url: str, folder: Path) -> None:
        self.side_log = folder / "side.log"
        self._url = url

    def api_base(self, name: str, host: str | None = None) -> str:
        """The options that server and workers share."""
        return f"{self._url}/v1"


# ---- sessions a second


Sessions = Callable[[int], Awaitable[None]]
"""Runs so many sessions, from the first request until the end of the last one is stored."""


async def load(
    workers: int | None,
    given: argparse.Namespace,
    provider: str,
    server: Server,
    folder: Path,
    temporal: Temporal | None = None,
    pace: Pace = AT_ONCE,
) -> Load:
    """All sessions, with so many workers; None: in the server itself, without a queue.

    temporal: the queue; None: DBOS, in the database of the store.
    """
    store = counting_database(server)
    scenario = Scenario(session="fleet", steps=given.steps, chunks=given.chunks, delay=pace.delay)
    made: Any = Provider(provider, folder)
    queue = None if temporal is None else f"temporal://{temporal.address}/{temporal.namespace()}"
    async with fleet(folder, store, made, queue=queue, tools=HERE / "serving_tools.py") as ships:
        await ships.serve("--max-running", 5000, workers=None if workers is None else 0, lease=LEASE)
        company = await asyncio.gather(*(ships.worker(lease=LEASE) for _ in range(workers or 0)))
        assert ships.server is not None

        async def start() -> None:
            await ships.ask("POST", "/sessions", {"prompt": scenario.prompt}, status=201)

        unfinished = "endstop_sessions WHERE status IN ('queued', 'running')"
        return await measured(
            partial(all_ended, start, unfinished, store, pace.apart),
            "endstop_sessions WHERE status = 'completed'",
            given.sessions,
            store,
            {"server": [ships.server.pid], "workers": [worker.pid for worker in company]},
            {"PostgreSQL": server.pid} | ({} if temporal is None else {"Temporal": temporal.pid}),
        )


async def plain_load(
    workers: int, kept: str, given: argparse.Namespace, provider: str, server: Server, pace: Pace = AT_ONCE
) -> Load:
    """All sessions in the loop of `plain_durable.py`. kept: `messages`, or `events` for these and all events."""
    store = counting_database(server)
    scenario = Scenario(session="fleet", steps=given.steps, chunks=given.chunks, delay=pace.delay)
    script = "plain_durable.py"
    with ExitStack() as stack:
        company = [stack.enter_context(Process(script, "work", store, f"{provider}/v1", kept)) for _ in range(workers)]
        for worker in company:
            assert worker.line().strip() == "ready"
        accepting = stack.enter_context(Process(script, "serve", store))
        address = f"http://127.0.0.1:{accepting.line().strip()}/sessions"
        async with aiohttp.ClientSession() as http:

            async def start() -> None:
                async with http.post(address, json={"prompt": scenario.prompt}) as response:
                    assert response.status == 201

            return await measured(
                partial(
                    all_ended, start, "dbos.workflow_status WHERE status IN ('ENQUEUED', 'PENDING')", store, pace.apart
                ),
                "dbos.workflow_status WHERE status = 'SUCCESS'",
                given.sessions,
                store,
                {"server": [accepting.popen.pid], "workers": [worker.popen.pid for worker in company]},
                {"PostgreSQL": server.pid},
            )


def counting_database(server: Server) -> str:
    """The URL of a new database whose statements are counted."""
    name = server.new_database()
    server.execute("CREATE EXTENSION pg_stat_statements", name)
    return server.url(name)


async def measured(
    sessions: Sessions,
    completed: str,
    number: int,
    store: str,
    groups: dict[str, list[int]],
    trees: dict[str, int],
) -> Load:
    """What sessions cost, after one more of them: what is imported and connected when first used is no session's.

    completed: the rows of those that did what they should, after `FROM`. groups: processes, by name. trees: servers
    whose children count as well.
    """

    def used() -> dict[str, float]:
        alone = {name: cpu(pids) for name, pids in groups.items()}
        return alone | {name: tree_cpu(pid) for name, pid in trees.items()}

    await sessions(1)
    with psycopg.connect(store, autocommit=True) as connection:
        before, counted = used(), count(connection)
        began = time.monotonic()
        await sessions(number)
        seconds = time.monotonic() - began
        after, now = used(), count(connection)
        row = connection.execute(f"SELECT count(*) FROM {completed}").fetchone()
        assert row is not None
    return Load(
        seconds=seconds,
        cpu={name: (after[name] - before[name]) / number for name in before},
        memory=memory((groups["workers"] or groups["server"])[0]),
        connections=int(now["connections"]),
        completed=row[0] - 1,
        **{name: (now[name] - counted[name]) / number for name in ("queries", "transactions", "bytes")},
    )


def count(connection: psycopg.Connection) -> dict[str, float]:
    """Statements and transactions so far but for those of this program, bytes, and connections of others."""
    row = connection.execute(
        "SELECT (SELECT sum(calls) FROM pg_stat_statements s WHERE s.dbid = d.oid AND query NOT LIKE '%pg_stat%'"
        f" AND query NOT LIKE '%{LOOKING}%'),"
        " (SELECT coalesce(sum(calls), 0) FROM pg_stat_statements s WHERE s.dbid = d.oid AND query ILIKE 'begin%'),"
        " pg_database_size(d.oid),"
        " (SELECT count(*) - 1 FROM pg_stat_activity a WHERE a.datid = d.oid)"
        " FROM pg_database d WHERE datname = current_database()"
    ).fetchone()
    assert row is not None
    return dict(zip(("queries", "transactions", "bytes", "connections"), map(float, row), strict=True))


async def all_ended(
    start: Callable[[], Awaitable[None]], unfinished: str, store: str, apart: float, number: int
) -> None:
    """Start so many sessions, and wait until there is no row of an unfinished one.

    apart: seconds between two starts.
    """
    turn = asyncio.Semaphore(20)

    async def one(place: int) -> None:
        await asyncio.sleep(place * apart)
        async with turn:
            await start()

    await asyncio.gather(*map(one, range(number)))
    with psycopg.connect(store, autocommit=True) as connection:
        deadline = time.monotonic() + 300
        while connection.execute(f"SELECT 1 AS {LOOKING} FROM {unfinished} LIMIT 1").fetchone():
            if time.monotonic() > deadline:
                raise TimeoutError("sessions do not end")
            await asyncio.sleep(0.05)


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
            scripts = [Script(who=f"{kind}-{death}-{place}", steps=30, pace=0.02) for place in range(UNDER_WAY)]
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
    """The load whose sessions cost the median, in server, workers and PostgreSQL together."""
    return sorted(loads, key=lambda load: load.together)[len(loads) // 2]


def of_session(load: Load) -> float:
    """CPU seconds of a session in the process that runs it: a worker, or the server where there is none."""
    return load.cpu["workers"] or load.cpu["server"]


def compared(loads: dict[str, list[Load]]) -> str:
    """How much a session takes in each pair: in a worker and in the server alone; beside the plain loop."""

    def ratio(one: str, other: str, of: Callable[[Load], float]) -> str:
        ratios = sorted(of(a) / of(b) for a, b in zip(loads[one], loads[other], strict=True))
        return f"{median(ratios):.2f} times ({ratios[0]:.2f} to {ratios[-1]:.2f})"

    alone = ratio("1 worker", "no queue", of_session)
    one, two = (ratio(name, f"plain loop, {name}", lambda load: load.together) for name in ("1 worker", "2 workers"))
    return (
        f"In {len(loads['no queue'])} pairs, in turns: a session in a worker takes {alone} the CPU of one without a "
        "queue, beside what the server does for it. Server, worker and PostgreSQL together take, with one worker, "
        f"{one} the CPU of the plain loop, and with two {two}."
    )


def shown(loads: dict[str, Load], given: argparse.Namespace) -> str:
    """What sessions cost, as a table."""

    def row(title: str, of: Callable[[Load], str]) -> str:
        return f"| {title} | " + " | ".join(map(of, loads.values())) + " |"

    lines = [
        f"{given.sessions} sessions at once, each of {given.steps} steps with {given.chunks} chunks of text, over a "
        "model that answers at once; PostgreSQL waits for the disk. Database, model, server and workers share the "
        "machine, so these are costs, and not what more machines would give. The plain loop (`plain_durable.py`) keeps "
        "its messages as results of DBOS's steps, and all events in a table; it has no limits, retries or readers.",
        "",
        "| | " + " | ".join(loads) + " |",
        "|---|" + "--:|" * len(loads),
        row("sessions that completed", lambda load: f"{load.completed}"),
        row("sessions a second", lambda load: f"{given.sessions / load.seconds:.1f}"),
        row("CPU of a session: workers", lambda load: f"{1000 * load.cpu['workers']:.0f} ms"),
        row("CPU of a session: server", lambda load: f"{1000 * load.cpu['server']:.0f} ms"),
        row("CPU of a session: PostgreSQL", lambda load: f"{1000 * load.cpu['PostgreSQL']:.0f} ms"),
        row("CPU of a session: these three together", lambda load: f"{1000 * load.together:.0f} ms"),
        row(
            "CPU of a session: Temporal's server",
            lambda load: f"{1000 * load.cpu['Temporal']:.0f} ms" if "Temporal" in load.cpu else "",
        ),
        row("queries of a session", lambda load: f"{load.queries:.0f}"),
        row("bytes of a session in the database", lambda load: f"{load.bytes / 1000:.1f} kB"),
        row("memory of a worker (or of the server)", lambda load: f"{load.memory:.0f} MB"),
        row("connections with the database", lambda load: f"{load.connections}"),
    ]
    return "\n".join(lines)


def traffic_table(loads: dict[Pace, tuple[Load, Load]]) -> str:
    """What sessions send to the database at each pace: those of one worker, and those of the plain loop."""
    lines = [
        "| the model, and the sessions | seconds | queries of a session | plain loop | transactions of a session "
        "| plain loop | bytes of a session | plain loop |",
        "|---|" + "--:|" * 7,
    ]
    for pace, (ours, plain) in loads.items():
        figures = (
            f"{ours.seconds:.0f}",
            f"{ours.queries:.0f}",
            f"{plain.queries:.0f}",
            f"{ours.transactions:.0f}",
            f"{plain.transactions:.0f}",
            f"{ours.bytes / 1000:.1f} kB",
            f"{plain.bytes / 1000:.1f} kB",
        )
        lines.append(f"| {pace.title} | {' | '.join(figures)} |")
    return "\n".join(lines)


def deaths_table(went_on: dict[str, list[float]]) -> str:
    """How long after a death sessions went on, by kinds of workers."""
    lines = [
        f"| A worker is killed (lease {LEASE:g} s) | its sessions go on after: median | longest |",
        "|---|--:|--:|",
    ]
    lines += [f"| {kind} | {median(times):.1f} s | {max(times):.1f} s |" for kind, times in went_on.items()]
    return "\n".join(lines)


def traffic(given: argparse.Namespace) -> str:
    """What sessions send to the database over a slow model, beside a quick one, as a table."""
    slow = f"a chunk every {given.slow:g} ms"
    paces = (
        AT_ONCE,
        Pace(f"{slow}, all sessions at once", given.slow),
        Pace(f"{slow}, five sessions a second", given.slow, 0.2),
        Pace(f"{slow}, a session a second", given.slow, 1.0),
    )
    loads = {}
    with ExitStack() as stack:
        server = stack.enter_context(Server(durable=True, connections=CONNECTIONS, settings=COUNTS))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        provider = f"http://127.0.0.1:{stack.enter_context(Process('mock_provider.py')).line().strip()}"
        for number, pace in enumerate(paces):
            print(f"{pace.title} ...", file=sys.stderr, flush=True)
            ours = asyncio.run(load(1, given, provider, server, folder / f"load-{number}", pace=pace))
            loads[pace] = ours, asyncio.run(plain_load(1, "events", given, provider, server, pace))
    return traffic_table(loads)


def main() -> None:
    """Measure, print, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=150)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--chunks", type=int, default=10)
    parser.add_argument("--pairs", type=int, default=3, help="how often loads are measured in turns")
    parser.add_argument("--deaths", type=int, default=5, help="of each kind, a third of it on another host; 0: none")
    parser.add_argument("--slow", type=float, metavar="MS", help="count only the traffic with the database")
    parser.add_argument("--page", type=Path, help="where the tables are written to")
    given = parser.parse_args()
    busy, began = os.getloadavg()[0], time.monotonic()
    command = ("tests/benchmarks/fleet.py " + " ".join(sys.argv[1:])).strip()
    if given.slow is not None:
        table = traffic(given)
        about = machine(commit(ROOT), command, 1, busy, time.monotonic() - began)
        print(table)
        write_page(given.page or SCALE_PAGE, f"{about}\n\n{table}", "traffic")
        return
    went_on: dict[str, list[float]] = {}
    with ExitStack() as stack:
        server = stack.enter_context(Server(durable=True, connections=CONNECTIONS, settings=COUNTS))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        provider = f"http://127.0.0.1:{stack.enter_context(Process('mock_provider.py')).line().strip()}"

        def loaded(name: str, workers: int | None, temporal: Temporal | None = None) -> Load:
            print(f"{name} ...", file=sys.stderr, flush=True)
            place = folder / f"load-{len(list(folder.iterdir()))}"
            return asyncio.run(load(workers, given, provider, server, place, temporal))

        def plain(name: str, workers: int, kept: str) -> Load:
            print(f"{name} ...", file=sys.stderr, flush=True)
            return asyncio.run(plain_load(workers, kept, given, provider, server))

        pairs: dict[str, list[Load]] = {}
        for _ in range(given.pairs):
            pairs.setdefault("no queue", []).append(loaded("no queue", None))
            for workers in (1, 2):
                name = "1 worker" if workers == 1 else "2 workers"
                pairs.setdefault(name, []).append(loaded(name, workers))
                pairs.setdefault(f"plain loop, {name}", []).append(plain(f"plain loop, {name}", workers, "events"))
        loads = {name: middle(several) for name, several in pairs.items()}
        messages = "plain loop, 1 worker, messages only"
        loads[messages] = plain(messages, 1, "messages")
        loads["4 workers"] = loaded("4 workers", 4)
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
    about = machine(commit(ROOT), command, given.pairs, busy, time.monotonic() - began)
    texts = {"fleet": "\n\n".join((about, shown(loads, given), compared(pairs), without))}
    if went_on:
        texts["deaths"] = f"{about}\n\n{deaths_table(went_on)}"
    for name, text in texts.items():
        print(text)
        write_page(given.page or PAGE, text, name)


if __name__ == "__main__":
    main()
