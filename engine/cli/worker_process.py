"""The process of a worker: it takes sessions from the queue until it is told to stop."""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from multiprocessing import parent_process
from multiprocessing.process import BaseProcess
from urllib.parse import urlsplit

from ..decision import WrongUse
from ..durable import Queue
from ..process.daemon import Standing, logging_to_stderr, new_loop
from ..process.shutdown import Interrupts, leave_hanging_threads, run_to_end
from ..process.streams import Channels
from ..service.service import Service
from ..store.base import StoreError
from ..store.url import file_at, masked
from .agent import engine_of
from .concealment import conceal
from .exit_codes import exit_code_of

_FORMS = "dbos, dbos:URL of a PostgreSQL database, or temporal://HOST:PORT/NAMESPACE"
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
"""Seconds before a worker that died is started again; each is twice the one before, while it lives no longer."""
LEAVING_SECONDS = 10.0
"""How long workers may take to leave after their grace."""


def run_worker(given: argparse.Namespace) -> int:
    """Work until a signal; gives the exit code. Raises WrongUse."""
    return run_to_end(Worker(given).work(), new_loop())


class Worker:
    """The process of `endstop worker`; also that of a worker which `endstop serve` has started."""

    def __init__(self, given: argparse.Namespace) -> None:
        if given.max_running < 1:
            raise WrongUse(f"--max-running is {given.max_running}: use 1 or more")
        if not (given.model or given.api_base or given.provider):
            raise WrongUse("a worker needs a model: name it with --model")
        self._store = given.store
        self._service = Service(
            queue=queue_of(given),  # before the engine: it takes longer, and this may be refused
            engine=engine_of(given),
            store=given.store,
            grace=given.grace,
            max_running=given.max_running,
            lease=given.lease,
            kind="worker",
        )

    async def work(self) -> int:
        """Work until a signal; gives the exit code. Raises WrongUse."""
        with logging_to_stderr():
            return await self._work()

    async def _work(self) -> int:
        channels, standing = Channels(), Standing(self._service)
        try:
            await self._service.__aenter__()
        except (StoreError, ConnectionError) as error:
            raise WrongUse(f"--store or --queue cannot be used: {error}") from None
        try:
            with Interrupts(standing) as interrupts:
                interrupts.attach(standing)
                if parent_process() is None:
                    channels.answer(f"endstop worker takes sessions from {masked(self._store)}\n")
                else:
                    _stop_with_parent(standing)
                await standing.told.wait()
        finally:
            await self._service.__aexit__(None, None, None)
        return standing.exit_code


def _stop_with_parent(standing: Standing) -> None:
    """Stop when the server that has started this worker is gone."""
    parent, loop = parent_process(), asyncio.get_running_loop()
    assert parent is not None
    pipe = parent.sentinel

    def gone() -> None:
        with suppress(ValueError):
            loop.remove_reader(pipe)
        standing.cancel()

    loop.add_reader(pipe, gone)


def queue_of(given: argparse.Namespace) -> Queue:
    """The queue that was named, not open yet. Raises WrongUse."""
    most = given.max_running_everywhere
    if most is not None and most < 1:
        raise WrongUse(f"--max-running-everywhere is {most}: use 1 or more")
    name, _, place = given.queue.partition(":")
    match name:
        case "dbos":
            from ..durable.dbos import Dbos

            return Dbos(place or _shared_store(given), running_in_all=most)
        case "temporal":
            if most is not None:
                raise WrongUse(
                    "--max-running-everywhere: Temporal has no such limit; give each worker its --max-running"
                )
            return _temporal(given.queue, given.lease)
        case _:
            raise WrongUse(f"--queue is {masked(given.queue)!r}: give {_FORMS}")


def _temporal(url: str, lease: float) -> Queue:
    from ..durable.temporal import Temporal

    parts = urlsplit(url)
    try:
        host, port = parts.hostname, parts.port or 7233
    except ValueError:
        host, port = None, 0
    if not host:
        raise WrongUse(f"--queue is {url!r}: give temporal://HOST:PORT/NAMESPACE")
    return Temporal(f"{host}:{port}", namespace=parts.path.strip("/") or "default", lease=min(max(lease, 1.0), 3600.0))


def _shared_store(given: argparse.Namespace) -> str:
    """The store, which several processes can have open."""
    store: str | None = given.store
    if store is None or file_at(store) is not None:
        raise WrongUse(
            "workers share a PostgreSQL database: give --store postgresql://USER:PASSWORD@HOST/DATABASE"
            + (f" (--store {store} is a file)" if store else "")
        )
    return store


@asynccontextmanager
async def workers(given: argparse.Namespace, count: int, died: Callable[[], None]) -> AsyncIterator[None]:
    """Keep so many workers going, with these options; `died` is told when one is dead."""
    tasks = [asyncio.create_task(_keep_going(given, died)) for _ in range(count)]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _keep_going(given: argparse.Namespace, died: Callable[[], None]) -> None:
    pause = FIRST_PAUSE
    loop = asyncio.get_running_loop()
    while True:
        began = loop.time()
        process = multiprocessing.get_context("spawn").Process(target=_work, args=(given,), name="endstop worker")
        process.start()
        try:
            await _ended(process)
        finally:
            await _made_to_leave(process, given.grace + LEAVING_SECONDS)
        print(f"endstop: worker {process.pid} is dead (exit code {process.exitcode})", file=sys.stderr, flush=True)
        died()
        pause = FIRST_PAUSE if loop.time() - began > LONGEST_PAUSE else min(2 * pause, LONGEST_PAUSE)
        await asyncio.sleep(pause)


async def _ended(process: BaseProcess) -> None:
    """Wait until it is dead, without a thread for it."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_reader(process.sentinel, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(process.sentinel)


async def _made_to_leave(process: BaseProcess, seconds: float) -> None:
    if process.is_alive():
        process.terminate()
        try:
            await asyncio.wait_for(_ended(process), seconds)
        except TimeoutError:
            process.kill()
    process.join()


def _work(given: argparse.Namespace) -> None:
    """A worker's process."""
    conceal()
    given.command = run_worker
    code = exit_code_of(given)
    leave_hanging_threads(code)
    sys.exit(code)
