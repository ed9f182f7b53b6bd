"""How many batches of events a store takes, and how long one waits until it is safe.

    python tests/benchmarks/stores.py [--sessions 200] [--seconds 5] [--bytes 2000] [--rate 1000] [--readers 20]
                                       [--enrolled]

Each of so many sessions hands in batch after batch and waits for each: as fast as it goes, and at a steady rate.
`busy` is the same with an event loop that computes for half of the time, as that of a server does, and `lag` is how
late that loop is. `--enrolled` is as one of several processes: with a lease, and telling the others of each change.
Each in a process of its own. SQLite lies in the current folder's file system (`--folder`).
PostgreSQL is a server of our own that waits for the disk as one in earnest does, or a database at `--url`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from endstop.decision import Policy
from endstop.decision.events import RunStarted
from endstop.store.base import EventBatch, NewSession, Store
from endstop.store.leases import this_process
from endstop.store.url import store_at

from tests.postgres import Missing, Server

AT = "2026-11-21T05:21:14.280+00:00"
LINE = b'{"type":"TEXT_MESSAGE_CONTENT","seq":1000,"t":123456,"attempt":"1.1","delta":"%s"}\n'
BUSY = 0.5


class Load:
    """Sessions that hand in batches, and readers that ask for them."""

    def __init__(self, store: Store, size: int, seconds: float) -> None:
        self.store = store
        self.size = size
        self.seconds = seconds
        self.taken: list[float] = []
        self.read: list[float] = []
        self.lags: list[float] = []
        self.steps = random.Random(1)

    async def begin(self, number: int) -> None:
        """A session with a run."""
        await self.store.add(NewSession(id=f"session_{number}", owner="o", agent="main", title="t", created_at=AT))
        started = RunStarted(run_id=f"run_{number}", session_id=f"session_{number}", prompt="p", policy=Policy())
        await self.store.commit(self.batch(number, 1, started))

    def batch(self, number: int, seq: int, started: RunStarted | None = None) -> EventBatch:
        """Text, and in one of ten the end of a step."""
        lines = (LINE % (b"x" * 100)) * max(1, self.size // 180)
        if self.steps.random() < 0.1:
            lines += b'{"type":"STEP_FINISHED","seq":1000,"t":123456}\n'
        return EventBatch(
            session_id=f"session_{number}",
            run_id=f"run_{number}",
            first_seq=seq,
            last_seq=seq,
            lines=lines,
            at=AT,
            started=started,
        )

    async def hand_in(self, number: int, pause: float) -> None:
        """One batch after another; `pause`: seconds from one to the next."""
        seq = 1
        due = time.perf_counter() + random.random() * pause
        while time.perf_counter() < self.until:
            if pause:
                await asyncio.sleep(max(0.0, due - time.perf_counter()))
                due += pause
            seq += 1
            began = time.perf_counter()
            await self.store.commit(self.batch(number, seq))
            self.taken.append(time.perf_counter() - began)

    async def reading(self, sessions: int) -> None:
        """Ask for pages, one run after another."""
        while time.perf_counter() < self.until:
            began = time.perf_counter()
            await self.store.pages(f"run_{random.randrange(sessions)}", limit=16)
            self.read.append(time.perf_counter() - began)
            await asyncio.sleep(0.1)

    async def compute(self) -> None:
        """Keep the event loop busy for a share of the time."""
        while time.perf_counter() < self.until:
            began = time.perf_counter()
            while time.perf_counter() - began < 0.002 * BUSY:
                pass
            await asyncio.sleep(0.002 * (1 - BUSY))
            self.lags.append(time.perf_counter() - began - 0.002)

    async def run(self, sessions: int, readers: int, rate: float, busy: bool) -> None:
        """All of it, until the time is over."""
        await asyncio.gather(*(self.begin(number) for number in range(sessions)))
        self.until = time.perf_counter() + self.seconds
        pause = sessions / rate if rate else 0.0
        work = [self.hand_in(number, pause) for number in range(sessions)]
        work += [self.reading(sessions) for _ in range(readers)]
        await asyncio.gather(*work, *([self.compute()] if busy else []))


def of_all(values: Sequence[float], share: float) -> float:
    """So many milliseconds are enough for this share of them."""
    return sorted(values)[int(share * (len(values) - 1))] * 1e3 if values else 0.0


async def measured(place: str, given: argparse.Namespace, rate: float, busy: bool) -> dict[str, float]:
    """In this process."""
    store = store_at(place)
    await store.open()
    if given.enrolled:
        await store.join(this_process("benchmark"))
        store.listen(lambda ids: None)
    load = Load(store, given.bytes, given.seconds)
    cpu = time.process_time()
    await load.run(given.sessions, given.readers, rate, busy)
    cpu = time.process_time() - cpu
    await store.close()
    return {
        "batches": len(load.taken) / given.seconds,
        "p50": of_all(load.taken, 0.5),
        "p99": of_all(load.taken, 0.99),
        "read": of_all(load.read, 0.99),
        "lag": of_all(load.lags, 0.99),
        "cpu": cpu / given.seconds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--bytes", type=int, default=2000, help="of each batch")
    parser.add_argument("--rate", type=float, default=1000.0, help="batches a second, where the rate is steady")
    parser.add_argument("--readers", type=int, default=20, help="each asks ten times a second")
    parser.add_argument("--enrolled", action="store_true", help="as one of several processes")
    parser.add_argument("--folder", default=".", help="where SQLite's file lies meanwhile")
    parser.add_argument("--url", help="an empty database of PostgreSQL")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        place, rate, busy = given.one
        print(json.dumps(asyncio.run(measured(place, given, float(rate), busy == "busy"))))
        return
    with ExitStack() as stack:
        server = None
        try:
            server = None if given.url else stack.enter_context(Server(durable=True))
        except Missing as missing:
            print(missing)
        print(f"{'':30}{'batches/s':>10}{'p50 ms':>9}{'p99 ms':>9}{'read p99':>10}{'lag p99':>9}{'CPU':>7}")
        for name in ["SQLite", *(["PostgreSQL"] if server or given.url else [])]:
            for rate in (0.0, given.rate):
                for busy in ("", "busy"):
                    place = stack.enter_context(tempfile.TemporaryDirectory(dir=given.folder)) + "/store.sqlite"
                    if name == "PostgreSQL":
                        place = given.url or server.url(server.new_database())
                    again = [sys.executable, __file__, *sys.argv[1:], "--one", place, str(rate), busy]
                    found = json.loads(subprocess.run(again, check=True, stdout=subprocess.PIPE).stdout)
                    title = f"{name}, {f'{rate:,.0f} a second' if rate else 'all it takes'}{', busy' if busy else ''}"
                    print(
                        f"{title:30}{found['batches']:10,.0f}{found['p50']:9.1f}{found['p99']:9.1f}"
                        f"{found['read']:10.1f}{found['lag']:9.1f}{found['cpu']:7.0%}",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
