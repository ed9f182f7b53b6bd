"""A simulation of a fleet: sessions that wait, workers that take them, and the one database that all of them write to.

What is simulated: each worker looks for sessions every `poll` seconds, takes as many as it has places for, and runs
their steps. A step waits for its model, then for its turn in the worker (Python runs one thread at a time), for a core
of the worker's machine, and for a core and the disk of the database. What is not simulated: memory, the network between
machines, autovacuum, and a database whose work becomes dearer with the size of its tables.

All times of service are given (`ServiceTimes`); nothing in here is fitted to the times that it predicts.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from typing import Any

import simpy

Steps = Generator[simpy.Event, Any, None]
"""A process of the simulation."""


@dataclass(frozen=True, kw_only=True)
class ServiceTimes:
    """What a session and a step of it take, in seconds of CPU unless it says otherwise."""

    worker_session: float
    """To take a session, begin it and end it, in the worker."""
    worker_step: float
    """A step without the chunks of its response, in the worker."""
    worker_chunk: float
    """A chunk of a response, in the worker."""
    server_session: float
    """To accept a session, in the server."""
    database_session: float
    """All statements of a session that do not belong to a step, in the database."""
    database_step: float
    """The statements of a step, in the database."""
    others_step: float
    """What others take for a step on the same cores, where all share one machine: the model's stand-in, the server."""
    commit: float
    """Seconds, not CPU, that a worker waits for a commit beyond the CPU of it: disk and way."""
    poll: float
    """Seconds, not CPU, between two looks of a worker for sessions."""
    poll_worker: float
    """Such a look that finds nothing, in the worker."""
    poll_database: float
    """Such a look that finds nothing, in the database."""


@dataclass(frozen=True, kw_only=True)
class Work:
    """The sessions: what each of them does."""

    steps: int
    chunks: int
    """Chunks of a response."""
    model: float
    """Seconds that a model takes for a response."""


@dataclass(frozen=True, kw_only=True)
class Machines:
    """What the sessions run on."""

    workers: int
    places: int
    """Sessions that a worker runs at once."""
    cores: int
    """Of the machine, or machines, of the workers."""
    database_cores: int | None
    """Of the database's machine; None: it shares the cores of the workers."""


@dataclass
class Result:
    """What came of a simulation. Times are in seconds of the simulated clock."""

    ended: int = 0
    last_end: float = 0.0
    waited: list[float] = field(default_factory=list)
    """For each session that began: how long it had waited."""
    worker_busy: float = 0.0
    """CPU seconds of all workers."""
    database_busy: float = 0.0
    """CPU seconds of the database."""

    def waited_at_most(self, share: float) -> float:
        """Return the seconds that this share of the sessions, 0 to 1, waited at most."""
        ordered = sorted(self.waited)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


class FleetSimulation:
    """One queue with its workers and its database. It is deterministic for a seed."""

    def __init__(self, times: ServiceTimes, work: Work, machines: Machines, *, seed: int = 1) -> None:
        self.result = Result()
        self._times = times
        self._work = work
        self._random = random.Random(seed)
        self._clock = simpy.Environment()
        self._cores = simpy.Resource(self._clock, machines.cores)
        self._shares = machines.database_cores is None
        self._database = (
            self._cores if machines.database_cores is None else simpy.Resource(self._clock, machines.database_cores)
        )
        self._queue: deque[float] = deque()
        """When each waiting session was submitted."""
        for _ in range(machines.workers):
            self._clock.process(self._worker(machines.places))

    def drain(self, sessions: int) -> Result:
        """Simulate sessions that all wait at the beginning, until the last has ended."""
        self._queue.extend([0.0] * sessions)
        while self.result.ended < sessions:
            self._clock.step()
        return self.result

    def arrive(self, a_second: float, seconds: float, *, warm_up: float) -> Result:
        """Simulate sessions that arrive at random, so many a second. What happens within `warm_up` is not counted."""
        self._clock.process(self._arrivals(a_second))
        self._clock.run(warm_up)
        self.result = Result()
        self._clock.run(warm_up + seconds)
        return self.result

    # ---- processes

    def _arrivals(self, a_second: float) -> Steps:
        while True:
            yield self._clock.timeout(self._random.expovariate(a_second))
            self._queue.append(self._clock.now)

    def _worker(self, places: int) -> Steps:
        """Take sessions as long as there are places: what it looks at is one query for all that it takes."""
        interpreter = simpy.Resource(self._clock, 1)
        running: set[simpy.Process] = set()
        yield self._clock.timeout(self._random.uniform(0, self._times.poll))
        while True:
            yield from self._in_worker(interpreter, self._times.poll_worker)
            yield from self._in_database(self._times.poll_database)
            running = {one for one in running if one.is_alive}
            for _ in range(min(places - len(running), len(self._queue))):
                self.result.waited.append(self._clock.now - self._queue.popleft())
                running.add(self._clock.process(self._session(interpreter)))
            yield self._clock.timeout(self._times.poll)

    def _session(self, interpreter: simpy.Resource) -> Steps:
        times, work = self._times, self._work
        half = times.worker_session / 2
        yield from self._in_worker(interpreter, half)
        yield from self._in_database(times.database_session / 2)
        for _ in range(work.steps):
            yield self._clock.timeout(work.model)
            if self._shares:
                yield from self._on_core(times.others_step)
            yield from self._in_worker(interpreter, times.worker_step + work.chunks * times.worker_chunk)
            yield from self._in_database(times.database_step)
        yield from self._in_worker(interpreter, half)
        yield from self._in_database(times.database_session / 2)
        self.result.ended += 1
        self.result.last_end = self._clock.now

    def _in_worker(self, interpreter: simpy.Resource, seconds: float) -> Steps:
        with interpreter.request() as turn:
            yield turn
            yield from self._on_core(seconds)
        self.result.worker_busy += seconds

    def _on_core(self, seconds: float) -> Steps:
        with self._cores.request() as core:
            yield core
            yield self._clock.timeout(seconds)

    def _in_database(self, seconds: float) -> Steps:
        with self._database.request() as core:
            yield core
            yield self._clock.timeout(seconds)
        yield self._clock.timeout(self._times.commit)
        self.result.database_busy += seconds


# ---- what a number of sessions needs


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How many workers and databases a number of sessions needs, by simulation of one database with its workers."""

    databases: int
    workers: int
    """In all."""
    a_second: float
    """Sessions a second that one database gets."""
    database_load: float
    """Share of the database's cores in use, 0 to 1."""
    worker_load: float
    """Share of a worker's interpreter in use, 0 to 1."""
    waited: float
    """Seconds that 99 of 100 sessions waited at most."""


def plan(
    times: ServiceTimes,
    work: Work,
    a_second: float,
    *,
    places: int,
    database_cores: int,
    most_load: float,
    longest_wait: float,
    seconds: float,
) -> Plan:
    """Return the fewest workers with which 99 of 100 sessions wait no longer than `longest_wait` seconds.

    a_second: sessions a second. most_load: the share of its cores that a database may use, 0 to 1: what is above it
    goes to another database. seconds: how long is simulated.
    """
    of_session = times.database_session + work.steps * times.database_step
    databases = max(1, -(-a_second * of_session // (database_cores * most_load)))
    each = a_second / databases
    busy = times.worker_session + work.steps * (times.worker_step + work.chunks * times.worker_chunk)
    lasts = work.steps * work.model + busy
    least = max(1, int(each * lasts / places), int(each * busy))
    for workers in _from(least):
        machines = Machines(workers=workers, places=places, cores=workers, database_cores=database_cores)
        result = FleetSimulation(times, work, machines).arrive(each, seconds, warm_up=1.2 * lasts)
        if result.waited and result.waited_at_most(0.99) <= longest_wait and _keeps_up(result, each * seconds):
            break
    return Plan(
        databases=int(databases),
        workers=int(databases) * workers,
        a_second=each,
        database_load=result.database_busy / (seconds * database_cores),
        worker_load=result.worker_busy / (seconds * workers),
        waited=result.waited_at_most(0.99),
    )


def _from(workers: int) -> Iterator[int]:
    """Yield numbers of workers, each a twentieth larger than the one before."""
    while True:
        yield workers
        workers = max(workers + 1, workers * 21 // 20)


def _keeps_up(result: Result, arrived: float) -> bool:
    """Whether as many sessions began as came, but for chance."""
    return len(result.waited) >= arrived - 4 * arrived**0.5 - 1
