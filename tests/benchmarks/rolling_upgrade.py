"""Processes of an older version restarted as this one, one after another, under load: what that loses and repeats.

    python tests/benchmarks/rolling_upgrade.py --old REF [--order NAME ...] [--sessions 12]

The older version is what git has at REF, in a temporary folder, with the installed dependencies. PostgreSQL, a scripted
provider, two servers and two workers with DBOS's queue run as processes on loopback. Sessions of three owners are
started all the time; every eighth asks its user, and every other one is read over HTTP from its begin to its end. The
processes are restarted in one of several orders (`ORDERS`), a number of sessions after one another. At the end each
session is held against what model and tools noted outside of endstop. The exit code is 1 if a session has a fault.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

import aiohttp

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from tests.fleet.checked import check_record, check_results, unknown
from tests.fleet.fleet import PATIENCE, Fleet, Member, Model, fleet
from tests.fleet.freezing import Wakings
from tests.fleet.reading import Reader
from tests.fleet.script import Script
from tests.ports import held_port
from tests.postgres import Server

ROOT = Path(__file__).resolve().parent.parent.parent
OLD, NEW = "old", "new"
OWNERS = ("alice", "bob", "carol")
LEASE = 5.0
GRACE = 1.0
"""Seconds that a worker lets its runs end: most are handed over."""
EVERY = 0.25
"""Seconds between two sessions of the load."""
AT_ONCE = 40
"""Sessions that wait or run, at most."""
_VARIES = re.compile(r"\b\w*\d\w*\b|'[^']*'")
"""What tells two lines of one kind apart."""


def tree_of(ref: str, folder: Path) -> Path:
    """Make the older version importable as `endstop`: a folder for PYTHONPATH."""
    packed = subprocess.run(
        ["git", "archive", ref, "engine", "decision", "providers"], cwd=ROOT, capture_output=True, check=True
    )
    with tarfile.open(fileobj=BytesIO(packed.stdout)) as archive:
        archive.extractall(folder, filter="data")
    (folder / "engine").rename(folder / "endstop")
    for package in ("decision", "providers"):
        (folder / package).rename(folder / "endstop" / package)
    return folder


@dataclass
class Follower(Reader):
    """A reader that goes on at another server when its own is away, as a client behind a load balancer does."""

    upgrade: Upgrade | None = None
    owner: str = ""

    async def _connection(self) -> None:
        assert self.upgrade is not None
        self.connections += 1
        headers = {"last-event-id": self.ids[-1]} if self.ids else {}
        headers |= self.upgrade.head(self.owner)
        url = f"{self.upgrade.urls[self.connections % 2]}/runs/{self.run_id}/events"
        try:
            async with self.fleet.http.get(url, headers=headers) as response:
                if response.status == 503:
                    await asyncio.sleep(0.2)
                    return
                assert response.status == 200, await response.text()
                unread = b""
                async for data in response.content.iter_any():
                    *frames, unread = (unread + data).split(b"\n\n")
                    for frame in frames:
                        self._take(frame.decode())
        except aiohttp.ClientError:
            await asyncio.sleep(0.2)


@dataclass
class Session:
    """A session of the load."""

    script: Script
    owner: str
    id: str
    reading: asyncio.Task[Reader] | None = None
    answered: str = ""
    """The phase in which its question was answered."""


@dataclass
class Upgrade:
    """The fleet, its load, and what is done to it."""

    folder: Path
    database: Server
    tree: Path
    between: int
    """Sessions that are started between two things that are done."""
    stack: AsyncExitStack
    sessions: dict[str, Session] = field(default_factory=dict)
    refused: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    """By what was being done and what a server answered: when, in seconds."""
    unanswered: list[str] = field(default_factory=list)
    """Scripts of requests that were cut off: nobody knows whether they were accepted."""
    wakings: Wakings = field(default_factory=Wakings)
    told: list[str] = field(default_factory=list)
    """What was seen, in words."""
    said: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Warnings and errors in the logs, by version."""
    now: str = "all old"
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    turns: Iterator[int] = field(default_factory=itertools.count)
    """Of the servers, as a load balancer gives them."""

    async def open(self) -> None:
        """Start everything, in the older version."""
        name = self.database.new_database()
        self.name = name
        self.ports = [self.stack.enter_context(held_port()) for _ in range(2)]
        self.urls = [f"http://127.0.0.1:{port}" for port in self.ports]
        self.model = await self.stack.enter_async_context(Model(self.folder))
        self.ships: Fleet = await self.stack.enter_async_context(
            fleet(self.folder / "fleet", self.database.url(name), self.model)
        )
        self.secrets = {owner: f"{owner}-{'0123456789' * 3}" for owner in OWNERS}
        self.tokens = self.folder / "tokens"
        self.tokens.write_text("".join(f"{owner}:{secret}\n" for owner, secret in self.secrets.items()))
        self.tokens.chmod(0o600)
        self.servers = [await self.start_server(place, OLD) for place in range(2)]
        self.workers = [await self.start_worker(place, OLD) for place in range(2)]

    # ---- processes

    async def begin(self, name: str, version: str, words: list[str]) -> Member:
        """Start a process of a version."""
        before = ("env", f"PYTHONPATH={self.tree}") if version == OLD else ()
        return await self.ships.begin(f"{name}-{version}", words, before=before)

    async def start_server(self, place: int, version: str) -> Member:
        """Start a server, at the port of its place."""
        words = ["serve", "--port", str(self.ports[place]), "--store", self.ships.store, "--workers", "0"]
        words += ["--rate", "0", "--lease", f"{LEASE:g}", "--tokens", str(self.tokens), "--quiet"]
        member = await self.begin(f"s{place + 1}", version, [*words, *self.ships.agent("serve")])
        await _line(member, "http://")
        return member

    async def start_worker(self, place: int, version: str) -> Member:
        """Start a worker."""
        member = await self.begin(f"w{place + 1}", version, self._worker(f"w{place + 1}-{version}"))
        await _line(member, "endstop worker takes")
        return member

    def _worker(self, name: str) -> list[str]:
        words = ["worker", "--store", self.ships.store, "--lease", f"{LEASE:g}", "--grace", f"{GRACE:g}"]
        return [*words, "--max-running", "12", *self.ships.agent(name)]

    # ---- what is done

    async def worker(self, place: int) -> None:
        """Restart a worker as the newer version."""
        code = await self.workers[place].stop()
        self.workers[place] = await self.start_worker(place, NEW)
        self.told.append(f"{self.now}: SIGTERM, exit code {code}")

    async def server(self, place: int) -> None:
        """Restart a server as the newer version."""
        code = await self.servers[place].stop()
        self.servers[place] = await self.start_server(place, NEW)
        self.told.append(f"{self.now}: SIGTERM, exit code {code}")

    async def kill(self, place: int) -> None:
        """Kill a worker of the newer version, so that the other one goes on with its runs, and replace it."""
        await self.workers[place].kill()
        await asyncio.sleep(LEASE)
        self.workers[place] = await self.start_worker(place, NEW)

    async def old_starts(self) -> None:
        """Start a worker of the older version, as a supervisor does that has not got the newer one yet."""
        member = await self.begin("late", OLD, self._worker("late"))
        try:
            async with asyncio.timeout(30):
                code: int | None = await member.process.wait()
        except TimeoutError:
            code = None
            await member.kill()
        self.told.append(f"{self.now}: exit code {code}: {member.said.strip()[-600:]}")

    async def freeze(self, place: int) -> None:
        """Let a worker sleep until it is woken up."""
        self.workers[place].send(signal.SIGSTOP)
        await asyncio.sleep(1.2 * LEASE)

    async def wake(self, place: int) -> None:
        """Wake a worker up, and kill the other one, so that it gets what that one ran."""
        self.wakings.times.append((self.workers[place], time.monotonic_ns()))
        self.workers[place].send(signal.SIGCONT)
        await asyncio.sleep(2)
        await self.kill(1 - place)

    async def back(self) -> None:
        """Stop all, and start a worker of the older version: a rollback."""
        await asyncio.gather(*(member.stop() for member in (*self.workers, *self.servers)))
        await self.old_starts()
        self.servers = [await self.start_server(place, NEW) for place in range(2)]
        self.workers = [await self.start_worker(place, NEW) for place in range(2)]

    async def answer(self, share: int) -> None:
        """Answer every so many of the open questions."""
        waits = [session for session in self.sessions.values() if session.script.ask and not session.answered]
        for session in waits[::share]:
            path = f"/sessions/{session.id}"
            if (await self.ask(session.owner, "GET", path))[1]["status"] == "awaiting_input":
                status, told = await self.ask(session.owner, "POST", f"{path}/answers", {"text": "Yes, go on."})
                if status == 201:
                    session.answered = self.now
                else:
                    self._refuse(f"an answer: {status} {told and told.get('code')}")

    # ---- the load

    def head(self, owner: str) -> dict[str, str]:
        """The headers of an owner's request."""
        return {"Authorization": f"Bearer {self.secrets[owner]}"}

    async def ask(self, owner: str, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """A request to one server, or to the other if that one refuses; (0, None) if it was cut off."""
        first = next(self.turns)
        for attempt in range(200):
            url = self.urls[(first + attempt) % 2]
            try:
                async with self.ships.http.request(
                    method, url + path, json=body, headers=self.head(owner), timeout=aiohttp.ClientTimeout(total=60)
                ) as response:
                    if response.status != 503:
                        return response.status, await response.json(content_type=None)
                    answered = "503"
            except aiohttp.ClientConnectorError:
                answered = "no connection"
            except (aiohttp.ClientError, TimeoutError):
                self._refuse("cut off")
                return 0, None
            self._refuse(answered)
            if attempt % 2:
                self._refuse("both refused")
                await asyncio.sleep(0.1)
        raise RuntimeError(f"{method} {path}: no server answers")

    def _refuse(self, answered: str) -> None:
        self.refused.setdefault((self.now, answered), []).append(time.monotonic())

    async def start(self) -> None:
        """Start a session."""
        number = next(self.numbers)
        steps, ask = (60, 0) if number % 5 == 0 else (14, 5 if number % 8 == 0 else 0)
        script = Script(who=f"s{number}", steps=steps, ask=ask, chunks=2, pace=0.02, work=0.03)
        owner = OWNERS[number % len(OWNERS)]
        status, told = await self.ask(owner, "POST", "/sessions", {"prompt": script.prompt()})
        if status == 0:
            self.unanswered.append(script.who)
            return
        assert status == 201, (status, told)
        self.sessions[script.who] = session = Session(script, owner, told["id"])
        if number % 2:
            reader = Follower(self.ships, told["run_id"], upgrade=self, owner=owner)
            session.reading = asyncio.create_task(reader.read())

    async def go_on(self) -> None:
        """Start sessions until it is cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                if self.going() < AT_ONCE:
                    group.create_task(self.start())
                await asyncio.sleep(EVERY)

    def going(self) -> int:
        """How many sessions wait or run."""
        ((number,),) = self.rows("SELECT count(*) FROM endstop_sessions WHERE status IN ('queued', 'running')")
        return int(number)

    async def play(self, doings: list[tuple[str, Callable[[], Awaitable[None]]]]) -> None:
        """Do one thing after another under load."""
        load = asyncio.create_task(self.go_on())
        for what, do in doings:
            wanted = len(self.sessions) + self.between
            while len(self.sessions) < wanted:
                if load.done():
                    load.result()
                await asyncio.sleep(0.05)
            self.now = what
            print(f"  {what} ({len(self.sessions)} sessions, {self.pages()})", file=sys.stderr, flush=True)
            await do()
        load.cancel()
        await asyncio.gather(load, return_exceptions=True)
        self.now = "the end"

    # ---- the account

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """What the database says."""
        import psycopg

        with psycopg.connect(self.database.url(self.name)) as connection:
            return connection.execute(query.encode()).fetchall()

    def pages(self) -> str:
        """How many pages there are, and how many of them are compressed."""
        if not self.rows("SELECT 1 FROM pg_attribute WHERE attrelid = 'endstop_pages'::regclass AND attname = 'size'"):
            return "no compressed pages"
        ((there, compressed),) = self.rows("SELECT count(*), count(size) FROM endstop_pages")
        return f"{compressed} of {there} pages compressed"

    async def account(self) -> list[str]:
        """Wait until all have ended; the faults in words."""
        faults: list[str] = []
        moved, written = time.monotonic(), 0
        while True:
            await self.answer(1)
            left = self.rows("SELECT id, status, trouble FROM endstop_sessions WHERE status <> 'completed'")
            if not left:
                break
            if self.model.side_log.stat().st_size > written:
                moved, written = time.monotonic(), self.model.side_log.stat().st_size
            if time.monotonic() > moved + PATIENCE:
                faults.append(f"{len(left)} sessions have not completed: {left[:5]}")
                break
            await asyncio.sleep(0.5)
        ledgers = self.ships.side.look()
        numbers: Counter[str] = Counter()
        for who, session in self.sessions.items():
            ledger = ledgers[who]
            numbers["sessions"] += 1
            numbers["calls"] += len(ledger.calls)
            numbers["requests"] += len(ledger.requests)
            numbers["requests asked again"] += ledger.repeated_requests
            numbers["reading calls run again"] += ledger.repeated_calls
            versions = [name.partition("-")[2] for name in ledger.askers]
            pairs = set(itertools.pairwise(versions))
            numbers["sessions from old to new"] += (OLD, NEW) in pairs
            numbers["sessions from new to old"] += (NEW, OLD) in pairs
            numbers["questions answered"] += bool(session.answered)
            asked = session.script.ask and versions[:1] == [OLD]
            numbers["questions of old that new went on with"] += bool(asked) and versions[-1] == NEW
            faults += ledger.faults(session.script, self.wakings.excuse)
            try:
                numbers["calls `unknown`"] += await self._check(who, session)
            except (AssertionError, OSError, aiohttp.ClientError) as error:
                faults.append(f"{who}: {str(error)[:500]}")
            if session.reading is not None:
                numbers["readers"] += 1
                try:
                    reader = await session.reading
                except (AssertionError, TimeoutError) as error:
                    faults.append(f"{who}: its reader: {error!r}"[:500])
                    continue
                numbers["events read"] += len(reader.numbers)
                numbers["connections of readers"] += reader.connections
                expected = range(1, len(reader.numbers) + 1)
                gaps = len(set(expected) - set(reader.numbers))
                doubles = len(reader.numbers) - len(set(reader.numbers))
                if gaps or doubles or reader.numbers != list(expected):
                    faults.append(f"{who}: its reader has {gaps} gaps and {doubles} doubles: {_odd(reader.ids)}")
        self.told.append(", ".join(f"{name} {number:,}" for name, number in numbers.items()))
        self.told.append(f"requests that were cut off: {len(self.unanswered)}; {self.pages()}")
        for (doing, answered), times in self.refused.items():
            self.told.append(f"{doing}: {answered}: {len(times)} requests in {max(times) - min(times):.1f} s")
        for member in self.ships.members:
            version = member.name.rpartition("-")[2]
            for line in member.said.splitlines():
                if "level=info" not in line:
                    self.said[version, _VARIES.sub("_", line.partition("level=")[2] or line)[:400]] += 1
        return faults

    async def _check(self, who: str, session: Session) -> int:
        head = self.head(session.owner)
        url = f"{self.urls[0]}/sessions/{session.id}/record"
        async with self.ships.http.get(url, headers=head) as response:
            assert response.status == 200, response.status
            path = self.folder / f"{who}.jsonl"
            path.write_bytes(await response.read())
        run = await check_record(path, session.script)
        check_results(run, session.script)
        path.unlink()
        return len(unknown(run))


def _odd(ids: list[str]) -> str:
    numbers = [int(id.partition(".")[0]) for id in ids]
    places = [place for place, (a, b) in enumerate(itertools.pairwise(numbers)) if b != a + 1]
    return "; ".join(f"{ids[place]} then {ids[place + 1]}" for place in places[:4])


async def _line(member: Member, words: str) -> None:
    assert member.process.stdout is not None
    async with asyncio.timeout(PATIENCE):
        line = (await member.process.stdout.readline()).decode()
    assert words in line, f"{line!r}: {member.said}"


def doings(order: str, it: Upgrade) -> list[tuple[str, Callable[[], Awaitable[None]]]]:
    """What is done in an order."""

    def workers(*places: int) -> list[tuple[str, Callable[[], Awaitable[None]]]]:
        return [(f"worker {place + 1} restarted as new", lambda place=place: it.worker(place)) for place in places]

    def servers(*places: int) -> list[tuple[str, Callable[[], Awaitable[None]]]]:
        return [(f"server {place + 1} restarted as new", lambda place=place: it.server(place)) for place in places]

    answer = ("a third of the questions answered", lambda: it.answer(3))
    kill = ("new worker 1 killed", lambda: it.kill(0))
    late = ("an old worker started", it.old_starts)
    end = [("all new", lambda: it.answer(2)), ("all stopped, an old worker started", it.back), answer]
    match order:
        case "workers first":
            first = [*workers(0), late, answer, kill, answer, *workers(1), answer]
            return [*first, *servers(0), answer, *servers(1), *end]
        case "servers first":
            return [*servers(0), late, answer, *workers(0), answer, kill, *servers(1), answer, *workers(1), *end]
        case "a worker that slept":
            sleeps = [("old worker 2 sleeps", lambda: it.freeze(1))]
            wakes = [("old worker 2 wakes up, new worker 1 killed", lambda: it.wake(1)), answer]
            return [*sleeps, *workers(0), *servers(0, 1), answer, *wakes, *workers(1), *end]
    raise ValueError(order)


ORDERS = ("workers first", "servers first", "a worker that slept")


async def main(ref: str, orders: list[str], between: int) -> int:
    """Play the orders; the exit code."""
    asked = subprocess.run(
        ["git", "log", "-1", "--format=%h of %cs", ref, "--"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if asked.returncode:
        print(f"--old {ref}: {asked.stderr.strip()}: name a commit", file=sys.stderr)
        return 2
    commit = asked.stdout.strip()
    faults: list[str] = []
    folder = Path(tempfile.mkdtemp(prefix="endstop-upgrade-"))
    try:
        tree = tree_of(ref, folder / "old")
        with Server(connections=120) as database:
            for number, order in enumerate(orders):
                print(f"{order}, from {commit}", flush=True)
                place = folder / str(number)
                place.mkdir()
                async with AsyncExitStack() as stack:
                    os.environ["ENDSTOP_SIDE_LOG"] = str(place / "side.log")
                    it = Upgrade(place, database, tree, between, stack)
                    await it.open()
                    await it.play(doings(order, it))
                    found = await it.account()
                    faults += found
                    print(*it.told, sep="\n")
                    print(f"faults: {len(found)}", *found[:20], sep="\n  ")
                    for (version, line), times in sorted(it.said.items()):
                        print(f"  {version} {times:5} x {line}")
                    sys.stdout.flush()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if faults else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--old", required=True, help="the older version: a commit")
    parser.add_argument("--order", nargs="*", default=list(ORDERS), choices=ORDERS, help="the orders of restarts")
    parser.add_argument("--sessions", type=int, default=12, help="sessions between two restarts")
    given = parser.parse_args()
    raise SystemExit(asyncio.run(main(given.old, given.order, given.sessions)))
