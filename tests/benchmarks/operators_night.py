"""An operator's night: incidents on a fleet that works, seen by Prometheus with our alerts, and ended by the runbook.

    python tests/benchmarks/operators_night.py [--only NAME ...] [--write]

PostgreSQL, a scripted provider, `endstop serve`, two workers, a proxy and Prometheus (Debian: prometheus) run as
processes on loopback; the database and the provider stand behind relays that break, hold or delay. Sessions of two
owners are started all the time, and two agents work behind the proxy. One incident after the other is begun, is looked
for in the alerts and the logs, and is ended as docs/guides/operations.md says. At the end each session is held against
what model and tools noted outside of endstop: nothing may be lost, and nothing done twice. Disks are file systems in
memory, so this needs root. The exit code is 1 if an incident was seen later than 30 s, or if a session has a fault.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import yaml

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from endstop import Engine
from endstop.providers import OpenAICompatible, Retry
from table import commit, processor, write_page

from tests.fleet.checked import check_record, check_results, unknown
from tests.fleet.fleet import Fleet, Member, Model, fleet
from tests.fleet.script import Script
from tests.ports import held_port
from tests.postgres import Server, unprivileged
from tests.relay import Relay
from tests.scripts import load

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs" / "explanation" / "operators_night.md"
ALERTS = ROOT / "docs" / "operations" / "alerts.yml"
SEEN_WITHIN = 30.0
"""Seconds after which an incident must have been seen."""
PATIENCE = 120.0
"""Seconds after which nobody waits for a sign any more, or for an end."""
SCRAPE = 5
"""Seconds between two scrapes, and between two evaluations of the alerts."""
EVERY = 1.5
"""Seconds between two sessions of the load."""
AT_ONCE = 8
"""Sessions that a worker runs at once."""
FLOOD = 260
OWNERS = ("bob", "carol")
FLOODING, OTHER = "alice", "dave"
"""Who floods, and who starts a session now and then."""


@dataclass
class Seen:
    """What was seen of an incident; seconds since its begin, and `over` and `quiet` since its end."""

    name: str
    did: str
    alert: str = ""
    fired: dict[str, float] = field(default_factory=dict)
    """Every alert that began to fire until the end."""
    line: str = ""
    line_seconds: float | None = None
    lasted: float = 0.0
    ended_by: str = ""
    over: float | None = None
    """Until a session that began after the end has completed."""
    quiet: float | None = None
    """Until the alert was quiet; None: it was not within `PATIENCE`."""
    note: str = ""

    @property
    def alert_seconds(self) -> float | None:
        """Seconds to the alert."""
        return self.fired.get(self.alert)

    @property
    def first(self) -> float:
        """Seconds to the first sign."""
        return min((s for s in (self.alert_seconds, self.line_seconds) if s is not None), default=float("inf"))


@dataclass
class Incident:
    """What is done, what must be seen, and what ends it."""

    name: str
    did: str
    begin: Callable[[], Awaitable[object]]
    end: Callable[[], Awaitable[object]]
    ended_by: str
    alert: str = ""
    line: str = ""
    lasts: float = 0.0
    """Seconds that it lasts at least."""
    lingers: bool = False
    """Whether its alert goes on for minutes after the end, as it counts what happened in the last five."""


# ---- what is watched


class Prometheus:
    """A Prometheus server with our alerts."""

    def __init__(self, folder: Path, port: int, targets: dict[str, str], token: str) -> None:
        """targets: addresses by job; that of the proxy has its own path."""
        self.url = f"http://127.0.0.1:{port}"
        own = [address for name, address in targets.items() if name != "proxy"]
        config = {
            "global": {
                "scrape_interval": f"{SCRAPE}s",
                "scrape_timeout": f"{SCRAPE - 1}s",
                "evaluation_interval": f"{SCRAPE}s",
            },
            "rule_files": [str(ALERTS)],
            "scrape_configs": [
                {"job_name": "endstop", "authorization": {"credentials": token}, "static_configs": [{"targets": own}]},
                {
                    "job_name": "endstop-proxy",
                    "metrics_path": "/endstop/metrics",
                    "static_configs": [{"targets": [targets["proxy"]]}],
                },
            ],
        }
        (folder / "prometheus.yml").write_text(yaml.safe_dump(config), encoding="utf-8")
        command = ["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/series"]
        self._command = [*command, f"--web.listen-address=127.0.0.1:{port}", "--log.level=error"]
        self._log = folder / "prometheus.log"

    async def __aenter__(self) -> Prometheus:
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._process.terminate()
        self._process.wait(20)

    async def firing(self, http: aiohttp.ClientSession) -> set[str]:
        """The names of the alerts that fire."""
        try:
            async with http.get(f"{self.url}/api/v1/alerts") as response:
                told = await response.json()
        except (aiohttp.ClientError, ValueError):
            return set()
        return {one["labels"]["alertname"] for one in told["data"]["alerts"] if one["state"] == "firing"}


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """A file system in memory, of so many bytes."""
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def fill(disk: Path) -> None:
    """Leave no byte free."""
    with (disk / "ballast").open("wb", buffering=0) as ballast:
        for size in (1 << 20, 1 << 12, 1):
            try:
                while ballast.write(bytes(size)) == size:
                    pass
            except OSError:
                continue


# ---- the load


@dataclass
class Load:
    """The sessions that are started all the time, and what is known of them."""

    ships: Fleet
    tokens: dict[str, str]
    scripts: dict[str, Script] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)
    """Of the sessions that were accepted, by what their scripts call them."""
    owners: dict[str, str] = field(default_factory=dict)
    refused: Counter[str] = field(default_factory=Counter)
    cancelled: set[str] = field(default_factory=set)
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    async def ask(self, owner: str, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """A request of an owner; its status and what it answers. Raises OSError without an answer."""
        head = {"Authorization": f"Bearer {self.tokens[owner]}"}
        try:
            async with self.ships.http.request(
                method, self.ships.url + path, json=body, headers=head, timeout=aiohttp.ClientTimeout(total=20)
            ) as response:
                return response.status, await response.json(content_type=None)
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise OSError(f"{type(error).__name__}: {error}") from error

    async def start(self, owner: str, **how: Any) -> str | None:
        """Start a session; what its script calls it, or None if it was refused."""
        who = f"{owner}-{next(self.numbers)}"
        script = Script(who=who, **{"steps": 6, "chunks": 2, "pace": 0.03, "work": 0.05} | how)
        self.scripts[who] = script
        self.owners[who] = owner
        try:
            status, told = await self.ask(owner, "POST", "/sessions", {"prompt": script.prompt()})
        except OSError:
            status, told = 0, None
        if status != 201:
            self.refused[str(status or "no answer")] += 1
            return None
        self.ids[who] = told["id"]
        return who

    async def go_on(self) -> None:
        """Start sessions and list them, until it is cancelled."""
        async with asyncio.TaskGroup() as group:
            for owner in itertools.cycle(OWNERS):
                group.create_task(self.start(owner))
                group.create_task(self._list(owner))
                await asyncio.sleep(EVERY)

    async def _list(self, owner: str) -> None:
        with suppress(OSError):
            await self.ask(owner, "GET", "/sessions?limit=20")

    async def completed(self, who: str) -> bool:
        """Whether a session of the load has completed."""
        try:
            status, told = await self.ask(self.owners[who], "GET", f"/sessions/{self.ids[who]}")
        except OSError:
            return False
        return status == 200 and told["status"] == "completed"

    async def works(self) -> None:
        """Return when a session that was started now, by anybody, has completed."""
        while True:
            who = await self.start(OTHER)
            for _ in range(120):
                if who is None:
                    break
                if await self.completed(who):
                    return
                await asyncio.sleep(0.25)
            await asyncio.sleep(0.25)


class Agents:
    """Two agents behind the proxy, one run after the other."""

    def __init__(self, url: str, tools: Path) -> None:
        module = load(tools)
        provider = Retry(OpenAICompatible("scripted", url, api_key="key of an agent"), provider_wait=300.0)
        self._engine = Engine(provider, tools=[module.look, module.note])
        self.scripts: dict[str, Script] = {}
        self.ended: Counter[str] = Counter()
        self._numbers = itertools.count(1)

    async def go_on(self) -> None:
        """Work until it is cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(2):
                group.create_task(self._work())

    async def _work(self) -> None:
        while True:
            who = f"proxied-{next(self._numbers)}"
            self.scripts[who] = script = Script(who=who, steps=6, chunks=2, pace=0.03, work=0.05)
            outcome = await self._engine.run(script.prompt())
            self.ended[outcome.status] += 1
            if outcome.status != "completed":
                print(f"{who}: {outcome.status}: {outcome.detail}", file=sys.stderr)
            await asyncio.sleep(0.5)


# ---- the night


class Night:
    """The fleet, what stands around it, and what is done to it."""

    def __init__(self, folder: Path, database: Server, stack: AsyncExitStack) -> None:
        self._folder = folder
        self._database = database
        self._stack = stack
        self.seen: list[Seen] = []
        self.started = time.monotonic()

    async def open(self) -> None:
        """Start everything."""
        stack = self._stack
        self._records = stack.enter_context(small_disk(self._folder / "records", "8m"))
        self._tables = stack.enter_context(small_disk(self._folder / "tables", "64m"))
        if unprivileged():
            shutil.chown(self._tables, unprivileged()[1].removeprefix("--reuid="))
        ports = [stack.enter_context(held_port()) for _ in range(5)]
        self._port, *self._health, self._proxy_port, prometheus_port = ports
        name = self._database.new_database()
        self._name = name
        self.store_relay = await stack.enter_async_context(Relay(self._database.url(name)))
        self.model = await stack.enter_async_context(Model(self._folder))
        self.model_relay = await stack.enter_async_context(Relay(f"http://127.0.0.1:{self.model.port}"))
        self.model.port = self.model_relay.port
        os.environ["ENDSTOP_SIDE_LOG"] = str(self.model.side_log)
        self.ships = await stack.enter_async_context(fleet(self._folder / "fleet", self.store_relay.url, self.model))
        tokens = {owner: f"{owner}-{'0123456789' * 3}" for owner in (*OWNERS, FLOODING, OTHER, "prometheus")}
        self._tokens = self._folder / "tokens"
        self._tokens.write_text("".join(f"{owner}:{token}\n" for owner, token in tokens.items()))
        self._tokens.chmod(0o600)
        self.load = Load(self.ships, tokens)
        await self.start_server()
        self._database.execute(f"CREATE TABLESPACE small LOCATION '{self._tables}'", name)
        self._database.execute("ALTER TABLE endstop_pages SET TABLESPACE small", name)
        self.workers = [await self.start_worker(place) for place in range(2)]
        await self.start_proxy()
        targets = {"server": self._port, "w1": self._health[0], "w2": self._health[1], "proxy": self._proxy_port}
        addresses = {name: f"127.0.0.1:{port}" for name, port in targets.items()}
        self.prometheus = await stack.enter_async_context(
            Prometheus(self._folder, prometheus_port, addresses, tokens["prometheus"])
        )
        self.agents = Agents(f"http://127.0.0.1:{self._proxy_port}", self.ships.tools)

    async def start_server(self) -> None:
        """Start the server, at the port that it always has."""
        words = ["serve", "--port", str(self._port), "--store", self.ships.store, "--workers", "0", "--rate", "0"]
        words += ["--tokens", str(self._tokens), "--quiet", "--log-format", "json", *self.ships.agent("serve")]
        self.server = await self.ships.begin("serve", words)
        await _line(self.server, "http://")
        self.ships.url = f"http://127.0.0.1:{self._port}"

    async def start_worker(self, place: int) -> Member:
        """Start a worker that says at the port of this place whether it can work."""
        words = ["worker", "--store", self.ships.store, "--health-port", str(self._health[place])]
        words += ["--max-running", str(AT_ONCE), "--log-format", "json", *self.ships.agent(f"w{place + 1}")]
        member = await self.ships.begin(f"w{place + 1}", words)
        await _line(member, "endstop worker takes")
        return member

    async def start_proxy(self) -> None:
        """Start the proxy, whose records are on a small disk."""
        upstream = self.model.api_base("proxy")
        words = ["proxy", "--upstream", upstream, "--port", str(self._proxy_port), "--log-format", "json"]
        self.proxy = await self.ships.begin("proxy", [*words, "--record", str(self._records / "runs")])
        await _line(self.proxy, "http://")

    # ---- incidents

    def incidents(self) -> list[Incident]:
        """All of them, in their order."""
        return [
            Incident(
                "provider down", "connections to the provider are refused for 80 s", self.model_relay.refuse,
                self.model_relay.accept, "nothing: runs wait and go on", "EndstopProviderDown",
                "requests wait for a provider", 80.0,
            ),
            Incident(
                "database down", "PostgreSQL is ended by SIGQUIT for 30 s", self._kill_database, self._start_database,
                "the database is started", "EndstopDatabaseDown", "the store is unreachable", 30.0,
            ),
            Incident(
                "database hangs", "no byte passes for 30 s, connections stay open", self._hold, self._release,
                "nothing: processes join again", "EndstopDatabaseDown", "the store is unreachable", 30.0,
            ),
            Incident(
                "database slow", "each answer of the database is 0.5 s late", self._delay, self._hasten,
                "the network is mended", "EndstopDatabaseSlow", "", 30.0,
            ),
            Incident(
                "disk full, of the proxy", "no byte is free where it keeps records, for 60 s",
                lambda: asyncio.to_thread(fill, self._records), lambda: self._free(self._records), "files are deleted",
                "EndstopRecordsFail", "runs are not recorded", 60.0, lingers=True,
            ),
            Incident(
                "disk full, of the database", "no byte is free for events, for 60 s",
                lambda: asyncio.to_thread(fill, self._tables), lambda: self._free(self._tables), "files are deleted",
                "EndstopWritesFail", "a run waits for the store", 60.0,
            ),
            Incident(
                "one owner floods", f"{FLOOD} sessions at once", self._flood, self._cancel_flood,
                "those that wait are cancelled with a token of the owner", "EndstopOwnerFloods",
            ),
            Incident(
                "a worker hangs", "SIGSTOP to a worker", self._freeze, lambda: self._replace(0),
                "SIGKILL, and a new one", "EndstopProcessDown", "evicted a dead process",
            ),
            Incident(
                "a worker dies", "SIGKILL to a worker", self._kill_worker, lambda: self._replace(1),
                "a new one is started", "EndstopProcessDown", "evicted a dead process",
            ),
            Incident(
                "the server dies", "SIGKILL to the server", lambda: self.server.kill(), self.start_server,
                "it is started again", "EndstopProcessDown",
            ),
            Incident(
                "rolling restart", "SIGTERM to a worker, to the other, to the server, each started again",
                self._restart_all, _nothing, "nothing is wrong",
            ),
            Incident(
                "connections break", "each connection to provider and database is broken three times", self._break_off,
                _nothing, "nothing: they are made again",
            ),
        ]  # fmt: skip

    async def play(self, incident: Incident) -> None:
        """Begin an incident, look for its signs, end it, and wait until all is well."""
        told = Seen(incident.name, incident.did, incident.alert, line=incident.line, ended_by=incident.ended_by)
        self.seen.append(told)
        deadline = time.monotonic() + PATIENCE
        while incident.alert in (before := await self.prometheus.firing(self.ships.http)):
            if time.monotonic() > deadline:
                raise RuntimeError(f"{incident.alert} fires before {incident.name} begins")
            await asyncio.sleep(0.5)
        said = {member: len(member.said) for member in self.ships.members}
        began = time.monotonic()
        await incident.begin()
        while (passed := time.monotonic() - began) < PATIENCE:
            if incident.line and told.line_seconds is None and self._says(incident.line, said):
                told.line_seconds = passed
            for alert in await self.prometheus.firing(self.ships.http) - before:
                told.fired.setdefault(alert, time.monotonic() - began)
            unseen = (incident.line and told.line_seconds is None, incident.alert and told.alert_seconds is None)
            if passed >= incident.lasts and not any(unseen):
                break
            await asyncio.sleep(0.25)
        told.lasted = time.monotonic() - began
        await incident.end()
        ended = time.monotonic()
        try:
            async with asyncio.timeout(PATIENCE):
                await self.load.works()
                told.over = time.monotonic() - ended
                while not incident.lingers and incident.alert in await self.prometheus.firing(self.ships.http):
                    await asyncio.sleep(0.5)
                told.quiet = None if incident.lingers or not incident.alert else time.monotonic() - ended
        except TimeoutError:
            pass
        print(told, file=sys.stderr, flush=True)

    def _says(self, line: str, before: dict[Member, int]) -> bool:
        return any(line in member.said[before.get(member, 0) :] for member in self.ships.members)

    async def _kill_database(self) -> None:
        await asyncio.to_thread(self._database.kill)

    async def _start_database(self) -> None:
        await asyncio.to_thread(self._database.start)

    async def _hold(self) -> None:
        self.store_relay.hold()

    async def _release(self) -> None:
        self.store_relay.release()

    async def _delay(self) -> None:
        self.store_relay.delay = 0.25

    async def _hasten(self) -> None:
        self.store_relay.delay = 0.0

    async def _free(self, disk: Path) -> None:
        (disk / "ballast").unlink()

    async def _flood(self) -> None:
        await asyncio.gather(*(self.load.start(FLOODING, steps=12, work=0.5) for _ in range(FLOOD)))
        self._flooded = time.monotonic()

    async def _cancel_flood(self) -> None:
        """What the runbook's lines for a shell do."""
        waited = await self._waits()
        told = self.seen[-1]
        began = f"began after {waited:.1f} s" if waited < PATIENCE else f"did not begin within {PATIENCE:g} s"
        told.note = f"a session of another owner {began}"
        names = {id: who for who, id in self.load.ids.items()}
        while True:
            _, page = await self.load.ask(FLOODING, "GET", "/sessions?status=queued&limit=100")
            if not page["sessions"]:
                break
            ids = [session["id"] for session in page["sessions"]]
            self.load.cancelled |= {names[id] for id in ids}
            await asyncio.gather(*(self.load.ask(FLOODING, "POST", f"/sessions/{id}/cancel") for id in ids))

    async def _waits(self) -> float:
        """Seconds from a request for a session until its first request to the model."""
        asked = time.monotonic()
        who = await self.load.start(OTHER)
        while who and not self.ships.side.of(who).requests and time.monotonic() < asked + PATIENCE:
            await asyncio.sleep(0.05)
        return time.monotonic() - asked

    async def _freeze(self) -> None:
        self.workers[0].send(signal.SIGSTOP)

    async def _kill_worker(self) -> None:
        await self.workers[1].kill()

    async def _replace(self, place: int) -> None:
        await self.workers[place].kill()
        self.workers[place] = await self.start_worker(place)

    async def _restart_all(self) -> None:
        codes = []
        for place in range(2):
            codes.append(await self.workers[place].stop())
            self.workers[place] = await self.start_worker(place)
        codes.append(await self.server.stop())
        await self.start_server()
        self.seen[-1].note = f"exit codes {codes}"

    async def _break_off(self) -> None:
        for _ in range(3):
            await asyncio.gather(self.model_relay.break_off(), self.store_relay.break_off())
            await asyncio.sleep(2.0)

    # ---- the account

    async def account(self) -> tuple[dict[str, int], list[str]]:
        """Wait until all have ended; the numbers of the night, and its faults in words."""
        faults: list[str] = []
        deadline = time.monotonic() + PATIENCE
        while left := self._statuses() - Counter(completed=1 << 30, cancelled=1 << 30):
            if time.monotonic() > deadline:
                faults.append(f"sessions that have not ended: {dict(left)}")
                break
            await asyncio.sleep(0.5)
        ended = Counter(self._statuses())
        numbers = {"accepted": len(self.load.ids), "completed": ended["completed"], "cancelled": ended["cancelled"]}
        numbers["not accepted"] = sum(self.load.refused.values())
        numbers["calls"] = numbers["requests"] = numbers["asked again"] = numbers["unknown"] = 0
        ledgers = self.ships.side.look()
        for who, script in (self.load.scripts | self.agents.scripts).items():
            ledger = ledgers[who]
            numbers["calls"] += len(ledger.calls)
            numbers["requests"] += len(ledger.requests)
            numbers["asked again"] += ledger.repeated_requests
            whole = who in self.load.ids and who not in self.load.cancelled
            faults += [fault for fault in ledger.faults(script) if whole or "never asked for" not in fault]
            if whole:
                try:
                    numbers["unknown"] += await self._check(who, script)
                except (AssertionError, OSError) as error:
                    faults.append(f"{who}: {error}")
        numbers["runs behind the proxy"] = self.agents.ended["completed"]
        for status, number in self.agents.ended.items():
            faults += [f"runs behind the proxy: {number} {status}"] if status != "completed" else []
        return numbers, faults

    async def _check(self, who: str, script: Script) -> int:
        """Hold a session's record against its script; how many of its calls are `unknown`."""
        head = {"Authorization": f"Bearer {self.load.tokens[self.load.owners[who]]}"}
        url = f"{self.ships.url}/sessions/{self.load.ids[who]}/record"
        async with self.ships.http.get(url, headers=head) as response:
            assert response.status == 200, response.status
            path = self._folder / "checked.jsonl"
            path.write_bytes(await response.read())
        run = await check_record(path, script)
        check_results(run, script)
        return len(unknown(run))

    def _statuses(self) -> Counter[str]:
        import psycopg

        with psycopg.connect(self._database.url(self._name)) as connection:
            rows = connection.execute("SELECT status, count(*) FROM endstop_sessions GROUP BY status").fetchall()
        return Counter({status: int(number) for status, number in rows})


async def _nothing() -> None:
    pass


async def _line(member: Member, words: str) -> None:
    """Wait until a process says these words on stdout."""
    assert member.process.stdout is not None
    async with asyncio.timeout(PATIENCE):
        line = (await member.process.stdout.readline()).decode()
    assert words in line, f"{line!r}: {member.said}"


@asynccontextmanager
async def _going(*works: Awaitable[None]) -> AsyncIterator[None]:
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        yield
        for task in tasks:
            if task.done():
                task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


# ---- the table


def table(seen: list[Seen], numbers: dict[str, int], faults: list[str]) -> str:
    """What was seen, as Markdown."""
    lines = [
        "| incident | what was done | alert | after | line in a log | after | ended by | sessions work after "
        "| alert quiet after | other alerts that began |",
        "| --- | --- | --- | --: | --- | --: | --- | --: | --: | --- |",
    ]
    for one in seen:
        name = f"{one.name} ({one.note})" if one.note else one.name
        alert, line = (f"`{text}`" if text else "" for text in (one.alert, one.line))
        cells = [name, one.did, alert, _s(one.alert_seconds, alert), line, _s(one.line_seconds, line)]
        cells += [one.ended_by, _s(one.over, "all"), _s(one.quiet, "") or ("minutes" if alert else "")]
        others = (f"`{name}` ({s:.0f} s)" for name, s in one.fired.items() if name != one.alert)
        cells.append(", ".join(others))
        lines.append(f"| {' | '.join(cells)} |")
    counts = ", ".join(f"{name} {number:,}" for name, number in numbers.items())
    lines += ["", f"Sessions and calls: {counts}.", f"Lost, or done twice: {'; '.join(faults) or 'nothing'}."]
    return "\n".join(lines)


def _s(seconds: float | None, wanted: str) -> str:
    return f"{seconds:.1f} s" if seconds is not None else "**not seen**" if wanted else ""


async def main(only: list[str], write: bool) -> int:
    """Play the night; the exit code."""
    if shutil.which("prometheus") is None or os.geteuid() != 0:
        print("this needs Prometheus (apt-get install prometheus) and root, for small disks", file=sys.stderr)
        return 2
    at = datetime.now(UTC)
    began, before = time.monotonic(), os.getloadavg()[0]
    # In the folder of the tests' server, which another user can enter.
    folder = Path(tempfile.mkdtemp(prefix="endstop-night-", dir="/tmp"))
    folder.chmod(0o755)
    try:
        with Server(durable=True, connections=120) as database:
            async with AsyncExitStack() as stack:
                night = Night(folder, database, stack)
                await night.open()
                async with _going(night.load.go_on(), night.agents.go_on()):
                    await night.load.works()
                    await asyncio.sleep(2 * SCRAPE)
                    for incident in night.incidents():
                        if not only or incident.name in only:
                            await night.play(incident)
                            await asyncio.sleep(SCRAPE)
                numbers, faults = await night.account()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    text = table(night.seen, numbers, faults)
    late = [one.name for one in night.seen if one.alert and not one.first <= SEEN_WITHIN]
    head = (
        f"Played {at:%Y-%m-%d %H:%M} UTC at commit {commit(ROOT)} in {time.monotonic() - began:.0f} s by `make night`. "
        f"{processor()}, {os.cpu_count()} cores, load {before:.1f} before the start. A session each {EVERY:g} s, two "
        f"agents behind the proxy, a scrape and an evaluation each {SCRAPE} s, leases of 15 s."
    )
    print(head, text, sep="\n\n")
    if write:
        write_page(PAGE, f"{head}\n\n{text}")
    if late:
        print(f"seen later than {SEEN_WITHIN:g} s: {', '.join(late)}", file=sys.stderr)
    return 1 if late or faults else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=[], help="names of incidents")
    parser.add_argument("--write", action="store_true", help=f"write the table to {PAGE.name}")
    given = parser.parse_args()
    raise SystemExit(asyncio.run(main(given.only, given.write)))
