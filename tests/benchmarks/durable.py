"""What a durable step costs, in milliseconds: the work alone, and with each durable engine.

    python tests/benchmarks/durable.py [--steps 50] [--rounds 5] [--size 2000] [--at-once 4] [--folder .]

A round asks every engine in turn for so many steps, whose work gives a text of `--size` letters at once, one after
another and then `--at-once` together. Given are the median of all steps, the slowest tenth, and the median of the
rounds' time per step when several are asked for at once. `taken` is the time from `submit` to the beginning of the
work. SQLite lies in `--folder`; PostgreSQL is a server of our own that waits for the disk, as one in earnest does.
An engine is a line in ENGINES. The table goes into docs/explanation/performance.md.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from endstop.durable import Job, Queue, StepKey, Steps
from endstop.durable.dbos import Dbos
from endstop.durable.temporal import Temporal
from table import commit, machine, write_page  # type: ignore[import-not-found]

from tests.postgres import Missing, Server
from tests.temporal import Missing as NoTemporal
from tests.temporal import Server as TemporalServer

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs" / "explanation" / "performance.md"


@dataclass
class Times:
    """The times of one engine, in seconds."""

    single: list[float] = field(default_factory=list)
    together: list[float] = field(default_factory=list)
    taken: list[float] = field(default_factory=list)


class Bare:
    """No engine: the work is asked for as it is."""

    async def step(self, key: StepKey, work: Callable[[], Awaitable[Any]]) -> Any:
        """Its result."""
        return await work()


async def ask(steps: Steps, run: str, args: argparse.Namespace, times: Times) -> None:
    """The steps of a run."""

    async def work() -> str:
        return "x" * args.size

    for number in range(args.steps):
        began = time.perf_counter()
        await steps.step(StepKey("session", run, number), work)
        times.single.append(time.perf_counter() - began)
    began = time.perf_counter()
    for number in range(0, args.steps, args.at_once):
        keys = [StepKey("session", run, args.steps + number, f"call-{call}") for call in range(args.at_once)]
        await asyncio.gather(*(steps.step(key, work) for key in keys))
    times.together.append((time.perf_counter() - began) / args.steps)


async def one_round(queue: Queue | None, number: int, args: argparse.Namespace, times: Times) -> None:
    """A run on this engine, in this process."""
    run = f"run-{os.getpid()}-{number}"
    if queue is None:
        await ask(Bare(), run, args, times)
        return
    ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    submitted = 0.0

    async def work(job: Job, steps: Steps) -> None:
        times.taken.append(time.perf_counter() - submitted)
        try:
            await ask(steps, run, args, times)
        except Exception as error:
            ended.set_exception(error)
            raise
        ended.set_result(None)

    await queue.open()
    async with queue.working(f"process-{run}", work, at_once=1):
        await asyncio.sleep(1.5)  # DBOS starts looking for jobs a little later
        submitted = time.perf_counter()
        await queue.submit(Job(run_id=run, session_id="session", agent="agent", opening="prompt"))
        await ended
    await queue.close()


def on_sqlite(stack: ExitStack, folder: Path) -> Queue:
    """DBOS in a file."""
    return Dbos(folder / "dbos.sqlite")


def on_postgresql(stack: ExitStack, folder: Path) -> Queue:
    """DBOS on a server that waits for its disk."""
    server = stack.enter_context(Server(durable=True))
    return Dbos(server.url(server.new_database()))


def on_temporal(stack: ExitStack, folder: Path) -> Queue:
    """Temporal's development server, which keeps what it has in SQLite."""
    server = stack.enter_context(TemporalServer(namespaces=1))
    return Temporal(server.address, namespace=server.namespace())


ENGINES: dict[str, Callable[[ExitStack, Path], Queue | None]] = {
    "bare work": lambda stack, folder: None,
    "DBOS, SQLite": on_sqlite,
    "DBOS, PostgreSQL": on_postgresql,
    "Temporal, development server on SQLite": on_temporal,
}


async def measure(args: argparse.Namespace) -> dict[str, Times]:
    """All engines, round after round."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="durable-", dir=args.folder)))
        engines: dict[str, Queue | None] = {}
        for name, make in ENGINES.items():
            try:
                engines[name] = make(stack, folder)
            except (Missing, NoTemporal) as missing:
                print(f"without {name}: {missing}", file=sys.stderr)
        times = {name: Times() for name in engines}
        for number in range(args.rounds):
            for name, queue in engines.items():
                await one_round(queue, number, args, times[name])
        return times


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=50, help="in a run, and as many again several at once")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--size", type=int, default=2000, help="letters of a result")
    parser.add_argument("--at-once", type=int, default=4)
    parser.add_argument("--folder", default=".")
    parser.add_argument("--page", type=Path, default=PAGE, help="where the table is written to")
    args = parser.parse_args()
    load, began = os.getloadavg()[0], time.monotonic()
    times = asyncio.run(measure(args))
    command = ("tests/benchmarks/durable.py " + " ".join(sys.argv[1:])).strip()
    lines = [
        machine(commit(ROOT), command, args.rounds, load, time.monotonic() - began),
        "",
        f"{args.steps} steps of a run one after another, then as many with {args.at_once} at once; a result has "
        f"{args.size:,} letters.",
        "",
        "| | ms a step, median | slowest tenth | ms a step, several at once | ms until a run is taken |",
        "|---|--:|--:|--:|--:|",
        *(_row(name, of) for name, of in times.items()),
    ]
    print("\n".join(lines))
    write_page(args.page, "\n".join(lines), "durable")


def _row(name: str, of: Times) -> str:
    slow = statistics.quantiles(of.single, n=10)[-1]
    taken = f"{1000 * statistics.median(of.taken):.0f}" if of.taken else ""
    together = 1000 * statistics.median(of.together)
    return f"| {name} | {1000 * statistics.median(of.single):.3f} | {1000 * slow:.3f} | {together:.3f} | {taken} |"


if __name__ == "__main__":
    main()
