"""What a session of a fleet costs, and what a million of them a day would need.

    python tests/benchmarks/scale.py [--sessions 100] [--points 1x500 2x500 4x2000] [--page docs/explanation/scale.md]

1. Service times are measured: one worker runs sessions of few and of many steps, with few and with many chunks; what a
   session, a step and a chunk take of the CPU are the differences. Queries, bytes and connections are counted.
2. Points are measured: WORKERSxSESSIONS, so many sessions wait before so many workers begin. The simulation of the same
   is made from the service times alone, and the two are compared.
3. The simulation is asked for 1, 10 and 100 million sessions a day, with machines and a price that are assumed.

Database, model, server and workers are processes of their own on loopback and share this machine, in the points and in
their simulation. The tables go to docs/explanation/scale.md.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any
from urllib.request import Request, urlopen

import psycopg

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from fleet import CONNECTIONS, HERE, ROOT, Provider, cpu, memory, tree_cpu
from fleet_simulation import FleetSimulation, Machines, Plan, ServiceTimes, Work, plan
from run import Process
from table import commit, machine, write_page
from task import Scenario

from tests.fleet.fleet import Fleet, Member, fleet
from tests.postgres import Server

PAGE = ROOT / "docs" / "explanation" / "scale.md"
LEASE = 300.0
"""Seconds: a worker that waits, stopped, until all sessions are submitted keeps its lease."""
PLACES = 20
"""Sessions that a worker runs at once in the points."""
DELAY = 50.0
"""Milliseconds between two chunks."""
POLL = 0.2
"""Seconds between two looks of a worker for sessions (`Dbos.poll_seconds`)."""
IDLE = 10.0
"""Seconds for which the fleet without sessions is measured."""
PATIENCE = 900.0
A_DAY = (1_000_000, 10_000_000, 100_000_000)

ASSUMED = Work(steps=20, chunks=200, model=5.0)
"""The session of the questions: its length is assumed, what each step takes is measured."""
ASSUMED_PLACES = 100
ASSUMED_DATABASE_CORES = 16
ASSUMED_MOST_LOAD = 0.6
ASSUMED_WAIT = 5.0
"""Seconds that 99 of 100 sessions may wait."""
ASSUMED_PRICE = 0.04
"""Dollars for a core and an hour."""
SIMULATED = 60.0
"""Seconds of each question's simulation."""


@dataclass(kw_only=True)
class Cost:
    """What a session cost, in a run of so many. CPU in seconds."""

    worker: float
    server: float
    database: float
    model: float
    """The mock provider's CPU."""
    queries: float
    transactions: float
    bytes: float
    """Of all tables and indexes in the database."""
    connections: int
    megabytes: float
    """Memory of the worker at the end."""


# ---- one fleet


class Measured:
    """A fleet whose parts are measured: CPU, queries, bytes."""

    def __init__(self, ships: Fleet, server: Server, provider: Process, database: str, company: list[Member]) -> None:
        assert ships.server is not None
        self.ships = ships
        self.company = company
        self.store = server.url(database)
        self._pids = {"worker": [one.pid for one in company], "server": [ships.server.pid]}
        self._model = provider.popen.pid
        self._server = server
        self._database = database

    def cpu(self) -> dict[str, float]:
        """CPU seconds so far, by part."""
        found = {name: cpu(pids) for name, pids in self._pids.items()}
        return found | {"model": tree_cpu(self._model), "database": tree_cpu(self._server.pid)}

    def counted(self) -> dict[str, float]:
        """Queries, transactions and bytes so far."""
        with psycopg.connect(self.store, autocommit=True) as connection:
            connection.execute("SELECT pg_stat_force_next_flush()")
            row = connection.execute(
                "SELECT (SELECT sum(calls) FROM pg_stat_statements s WHERE s.dbid = d.oid),"
                " pg_stat_get_db_xact_commit(d.oid), pg_database_size(d.oid),"
                " (SELECT count(*) - 1 FROM pg_stat_activity a WHERE a.datid = d.oid)"
                " FROM pg_database d WHERE datname = %s",
                (self._database,),
            ).fetchone()
        assert row is not None
        return dict(zip(("queries", "transactions", "bytes", "connections"), map(float, row), strict=True))

    async def submit(self, scenario: Scenario, number: int) -> None:
        """Put so many sessions into the queue."""
        turn = asyncio.Semaphore(20)

        async def one() -> None:
            async with turn:
                await self.ships.ask("POST", "/sessions", {"prompt": scenario.prompt}, status=201)

        await asyncio.gather(*(one() for _ in range(number)))

    async def ended(self) -> None:
        """Wait until no session is queued or running."""
        unfinished = "SELECT 1 FROM endstop_sessions WHERE status IN ('queued', 'running') LIMIT 1"
        deadline = time.monotonic() + PATIENCE
        async with await psycopg.AsyncConnection.connect(self.store, autocommit=True) as connection:
            while await (await connection.execute(unfinished)).fetchone():
                if time.monotonic() > deadline:
                    raise TimeoutError(f"sessions do not end: {self.ships.trouble()}")
                await asyncio.sleep(0.1)

    def stop(self, number: signal.Signals) -> None:
        """Send the workers a signal."""
        for one in self.company:
            one.send(number)


class Bench:
    """Fleets of some workers on one database server, over one mock provider."""

    def __init__(self, server: Server, provider: Process, folder: Path) -> None:
        self._server = server
        self._provider = provider
        self._url = f"http://127.0.0.1:{provider.line().strip()}"
        self._folder = folder

    async def cost(self, scenario: Scenario, sessions: int) -> Cost:
        """Run sessions with one worker, and return what each cost."""
        async with self._fleet(1) as one:
            before, counted = one.cpu(), one.counted()
            await one.submit(scenario, sessions)
            await one.ended()
            after, now = one.cpu(), one.counted()
            spent = {name: (after[name] - before[name]) / sessions for name in before}
            return Cost(
                **spent,
                **{name: (now[name] - counted[name]) / sessions for name in ("queries", "transactions", "bytes")},
                connections=int(now["connections"]),
                megabytes=memory(one.company[0].pid),
            )

    async def idle(self) -> dict[str, float]:
        """Return the CPU seconds that a fleet without sessions takes a second, by part."""
        async with self._fleet(1) as one:
            before = one.cpu()
            await asyncio.sleep(IDLE)
            return {name: (used - before[name]) / IDLE for name, used in one.cpu().items()}

    async def point(self, scenario: Scenario, workers: int, sessions: int) -> float:
        """Return the seconds in which so many workers end so many sessions that wait."""
        async with self._fleet(workers) as one:
            one.stop(signal.SIGSTOP)
            await one.submit(scenario, sessions)
            began = time.monotonic()
            one.stop(signal.SIGCONT)
            await one.ended()
            return time.monotonic() - began

    def commit(self) -> float:
        """Return the seconds of a small commit, as a client of the database sees it."""
        with psycopg.connect(self._server.url(self._server.new_database()), autocommit=True) as connection:
            connection.execute("CREATE TABLE one (x int)")
            times = []
            for number in range(200):
                began = time.monotonic()
                connection.execute("INSERT INTO one VALUES (%s)", (number,))
                times.append(time.monotonic() - began)
        return median(times)

    def response(self, scenario: Scenario) -> float:
        """Return the seconds of a response, as a client of the model's stand-in sees it."""
        message = {"role": "user", "content": scenario.prompt}
        body = json.dumps({"model": "scripted", "stream": True, "messages": [message], "tools": []}).encode()
        request = Request(f"{self._url}/v1/chat/completions", body, {"content-type": "application/json"})
        times = []
        for _ in range(5):
            began = time.monotonic()
            with urlopen(request) as answer:
                answer.read()
            times.append(time.monotonic() - began)
        return median(times)

    def _fleet(self, workers: int) -> _Started:
        place = self._folder / f"fleet-{len(list(self._folder.iterdir()))}"
        return _Started(self._server, self._provider, self._url, place, workers)


class _Started:
    """A fleet that has run one session in each worker, so that what is imported at first use is no session's."""

    def __init__(self, server: Server, provider: Process, url: str, folder: Path, workers: int) -> None:
        self._server, self._provider, self._url, self._folder, self._workers = server, provider, url, folder, workers

    async def __aenter__(self) -> Measured:
        database = self._server.new_database()
        self._server.execute("CREATE EXTENSION pg_stat_statements", database)
        folder: Any = self._folder
        model: Any = Provider(self._url, folder)
        self._made = fleet(folder, self._server.url(database), model, tools=HERE / "serving_tools.py")
        ships = await self._made.__aenter__()
        try:
            await ships.serve("--max-running", 5000, workers=0, lease=LEASE)
            company = [await ships.worker("--max-running", PLACES, lease=LEASE) for _ in range(self._workers)]
            measured = Measured(ships, self._server, self._provider, database, company)
            warm = Scenario(session="warm", steps=3, chunks=10, delay=DELAY)
            await measured.submit(warm, 2 * PLACES * self._workers)
            await measured.ended()
            return measured
        except BaseException:
            await self._made.__aexit__(None, None, None)
            raise

    async def __aexit__(self, *exc: object) -> None:
        await self._made.__aexit__(None, None, None)


# ---- service times


FEW, MANY = Scenario(session="few", steps=2, delay=DELAY), Scenario(session="many", steps=8, delay=DELAY)
CHUNKS = Scenario(session="chunks", steps=2, chunks=60, delay=DELAY / 5)


def service_times(costs: dict[str, Cost], idle: dict[str, float], commit_seconds: float) -> ServiceTimes:
    """Return the service times from what sessions of few steps, of many steps, and of many chunks cost."""
    few, many, chunks = costs["few"], costs["many"], costs["chunks"]
    steps = MANY.steps - FEW.steps
    worker_chunk = max(0.0, (chunks.worker - few.worker) / FEW.steps / (CHUNKS.chunks - FEW.chunks))
    step = (many.worker - few.worker) / steps
    database_step = (many.database - few.database) / steps
    model_step = (many.model + many.server - few.model - few.server) / steps
    return ServiceTimes(
        worker_session=few.worker - FEW.steps * step,
        worker_step=step - FEW.chunks * worker_chunk,
        worker_chunk=worker_chunk,
        server_session=few.server,
        database_session=few.database - FEW.steps * database_step,
        database_step=database_step,
        others_step=model_step,
        commit=commit_seconds,
        poll=POLL,
        poll_worker=idle["worker"] * POLL,
        poll_database=idle["database"] * POLL,
    )


# ---- tables


def costs_table(costs: dict[str, Cost], times: ServiceTimes) -> str:
    """Return what sessions cost, and what follows for a session, a step and a chunk."""
    scenarios = {"few": FEW, "many": MANY, "chunks": CHUNKS}
    lines = ["| a session of | " + " | ".join(f"{one.steps} steps, {one.chunks} chunks" for one in scenarios.values())]
    lines[0] += " |"
    lines.append("|---|" + "--:|" * len(scenarios))
    for title, name, scale, unit in (
        ("CPU: worker", "worker", 1000, " ms"),
        ("CPU: server, which accepts it", "server", 1000, " ms"),
        ("CPU: PostgreSQL", "database", 1000, " ms"),
        ("queries", "queries", 1, ""),
        ("transactions", "transactions", 1, ""),
        ("bytes in the database, with indexes", "bytes", 1 / 1000, " kB"),
        ("connections, 1 server and 1 worker", "connections", 1, ""),
        ("memory of the worker", "megabytes", 1, " MB"),
    ):
        values = " | ".join(f"{scale * asdict(costs[key])[name]:.0f}{unit}" for key in scenarios)
        lines.append(f"| {title} | {values} |")
    lines += [
        "",
        "| from these | worker | PostgreSQL |",
        "|---|--:|--:|",
        f"| a session, without its steps | {_ms(times.worker_session)} | {_ms(times.database_session)} |",
        f"| a step, without its chunks | {_ms(times.worker_step)} | {_ms(times.database_step)} |",
        f"| a chunk | {1e6 * times.worker_chunk:.0f} µs | |",
        f"| a look for sessions, {1 / times.poll:.0f} times a second | {_ms(times.poll_worker)} "
        f"| {_ms(times.poll_database)} |",
    ]
    return "\n".join(lines)


def points_table(points: list[tuple[int, int, float, float]]) -> str:
    """Return the points: workers, sessions, measured and simulated seconds."""
    lines = ["| workers | sessions that wait | measured | simulated | difference |", "|--:|--:|--:|--:|--:|"]
    for workers, sessions, measured, simulated in points:
        difference = f"{100 * (simulated / measured - 1):+.0f} %"
        lines.append(f"| {workers} | {sessions:,} | {measured:.1f} s | {simulated:.1f} s | {difference} |")
    return "\n".join(lines)


def plans_table(plans: dict[int, Plan], times: ServiceTimes) -> str:
    """Return what each number of sessions a day needs."""
    lines = [
        "| sessions a day | a second | databases | their cores in use | workers | their interpreters in use "
        "| 99 of 100 wait at most | cores in all | dollars a day | a million sessions |",
        "|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for a_day, found in plans.items():
        servers = a_day / 86400 * times.server_session
        cores = found.workers + found.databases * ASSUMED_DATABASE_CORES + max(1.0, servers / 0.6)
        dollars = cores * 24 * ASSUMED_PRICE
        lines.append(
            f"| {a_day / 1e6:.0f} million | {a_day / 86400:,.0f} | {found.databases} | {found.database_load:.0%} "
            f"| {found.workers:,} | {found.worker_load:.0%} | {found.waited:.1f} s | {cores:,.0f} "
            f"| {dollars:,.0f} | {1e6 * dollars / a_day:,.2f} |"
        )
    return "\n".join(lines)


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:.2f} ms"


def simulated_point(times: ServiceTimes, response: float, workers: int, sessions: int, cores: int) -> float:
    """Return the seconds of a point by the simulation: all share the cores of this machine.

    response: seconds of a response of the model's stand-in.
    """
    work = Work(steps=POINT.steps, chunks=POINT.chunks, model=response)
    machines = Machines(workers=workers, places=PLACES, cores=cores, database_cores=None)
    return FleetSimulation(times, work, machines).drain(sessions).last_end


POINT = Scenario(session="point", steps=5, delay=DELAY)


def main() -> None:
    """Measure, compare, ask, print, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=100, help="of each measurement of service times")
    parser.add_argument("--points", nargs="*", default=["1x500", "2x500", "4x2000"], metavar="WORKERSxSESSIONS")
    parser.add_argument("--page", type=Path, default=PAGE, help="where the tables are written to")
    given = parser.parse_args()
    busy, began = os.getloadavg()[0], time.monotonic()
    settings = {"shared_preload_libraries": "pg_stat_statements"}
    with ExitStack() as stack:
        server = stack.enter_context(Server(durable=True, connections=CONNECTIONS, settings=settings))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        provider = stack.enter_context(Process("mock_provider.py"))
        bench = Bench(server, provider, folder)
        costs = {}
        for name, scenario in {"few": FEW, "many": MANY, "chunks": CHUNKS}.items():
            print(f"a session of {scenario.steps} steps ...", file=sys.stderr, flush=True)
            costs[name] = asyncio.run(bench.cost(scenario, given.sessions))
        times = service_times(costs, asyncio.run(bench.idle()), bench.commit())
        response = bench.response(POINT)
        print(times, f"a response: {response:.3f} s", file=sys.stderr, flush=True)
        points = []
        for point in given.points:
            workers, sessions = map(int, point.split("x"))
            print(f"{workers} workers, {sessions} sessions ...", file=sys.stderr, flush=True)
            simulated = simulated_point(times, response, workers, sessions, os.cpu_count() or 1)
            measured = asyncio.run(bench.point(POINT, workers, sessions))
            print(f"measured {measured:.1f} s, simulated {simulated:.1f} s", file=sys.stderr, flush=True)
            points.append((workers, sessions, measured, simulated))
    plans = {}
    for a_day in A_DAY:
        print(f"{a_day:,} sessions a day ...", file=sys.stderr, flush=True)
        plans[a_day] = plan(
            times,
            ASSUMED,
            a_day / 86400,
            places=ASSUMED_PLACES,
            database_cores=ASSUMED_DATABASE_CORES,
            most_load=ASSUMED_MOST_LOAD,
            longest_wait=ASSUMED_WAIT,
            seconds=SIMULATED,
        )
    command = ("tests/benchmarks/scale.py " + " ".join(sys.argv[1:])).strip()
    about = machine(commit(ROOT), command, 1, busy, time.monotonic() - began)
    for name, text in (
        ("costs", f"{about}\n\n{costs_table(costs, times)}"),
        ("points", points_table(points)),
        ("plans", plans_table(plans, times)),
    ):
        print(text, "\n")
        write_page(given.page, text, name)


if __name__ == "__main__":
    main()
