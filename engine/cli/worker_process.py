"""Worker processes: the code that runs in one, and how `endstop serve --workers N` keeps N of them alive.

Imported only when a worker or a server starts: it imports SQLAlchemy.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from multiprocessing import parent_process
from multiprocessing.process import BaseProcess
from urllib.parse import urlsplit

from ..decision import WrongUse
from ..durable import Queue
from ..http.operator_port import operator_port
from ..process.daemon import DaemonProcess, log_to_stderr, new_event_loop
from ..process.listening import listen_at, resolve_address, url_of
from ..process.shutdown import ShutdownSignals, exit_despite_hanging_threads, run_to_end
from ..process.streams import StdStreams
from ..providers._logging import log_warning
from ..records.known_secrets import KnownSecrets, environment_secrets
from ..service.service import Service
from ..store.base import StoreError
from ..store.url import file_at, mask_url
from .agent import build_engine
from .exit_codes import run_command
from .hardening import harden_process
from .until_options import client_until

_FORMS = "dbos, dbos:URL of a PostgreSQL database, or temporal://HOST:PORT/NAMESPACE"
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
"""Seconds before a dead worker is restarted. The pause doubles each time that it lived no longer than
`LONGEST_PAUSE`."""
LEAVING_SECONDS = 10.0
"""Seconds that a worker may take to exit after its grace period, before it is killed."""


def run_worker(args: argparse.Namespace) -> int:
    """Run sessions from the queue until a signal, and return the exit code. Raises WrongUse."""
    return run_to_end(WorkerDaemon(args).work(), new_event_loop())


class WorkerDaemon:
    """A worker process, started by a user or by `endstop serve --workers`."""

    def __init__(self, args: argparse.Namespace) -> None:
        if args.max_running < 1:
            raise WrongUse(f"--max-running is {args.max_running}: use 1 or more")
        if not (args.model or args.api_base or args.provider):
            raise WrongUse("a worker needs a model: give one with --model")
        self._store, self._grace = args.store, args.grace
        self._log_format = args.log_format
        self._health_host, self._health_port = args.health_host, args.health_port
        self._service = Service(
            queue=build_queue(args),  # first: the engine takes longer to build, and this may be refused
            engine=build_engine(args),
            store=args.store,
            grace=args.grace,
            max_running=args.max_running,
            lease=args.lease,
            kind="worker",
            allow_until=client_until(args),
        )

    async def work(self) -> int:
        """Run sessions from the queue until a signal, and return the exit code. Raises WrongUse."""
        daemon = DaemonProcess(self._service)
        secrets = KnownSecrets(environment_secrets(os.environ))
        with self._listen() as listening, log_to_stderr(secrets, self._log_format):
            work = self._work(daemon, listening)
            return await daemon.run(work, grace=self._grace, silent_parts=self._service.silent_parts)

    @contextmanager
    def _listen(self) -> Iterator[socket.socket | None]:
        """Listen at the operator's port while entered; None without one."""
        if self._health_port is None:
            yield None
            return
        place = resolve_address(self._health_host, self._health_port, "--health-")
        with listen_at(place, self._health_host, self._health_port, "--health-") as listening:
            yield listening

    async def _work(self, daemon: DaemonProcess, listening: socket.socket | None) -> None:
        async with operator_port(
            listening,
            health=self._health,
            unready_parts=self._unready_parts,
            metrics=self._service.metrics.current_text,
        ):
            await self._serve_queue(daemon, listening)

    def _health(self) -> dict[str, object]:
        return {"status": "stopping" if self._service.stopping else "ok", "running": self._service.running}

    async def _unready_parts(self) -> list[str]:
        if self._service.stopping or not self._service.is_open:
            return ["stopping" if self._service.stopping else "starting"]
        return await self._service.unready_parts()

    async def _serve_queue(self, daemon: DaemonProcess, listening: socket.socket | None) -> None:
        std_streams = StdStreams()
        try:
            await self._service.__aenter__()
        except (StoreError, ConnectionError) as error:
            raise WrongUse(f"--store or --queue cannot be used: {error}") from None
        try:
            with ShutdownSignals(daemon) as interrupts:
                interrupts.attach(daemon)
                if parent_process() is None:
                    port = "" if listening is None else f"; health at {url_of(listening)}"
                    std_streams.write_answer(f"endstop worker takes sessions from {mask_url(self._store)}{port}\n")
                else:
                    _stop_with_parent(daemon)
                await daemon.stop_requested.wait()
        finally:
            await self._service.__aexit__(None, None, None)


def _stop_with_parent(daemon: DaemonProcess) -> None:
    """Stop when the server that started this worker has exited."""
    parent, loop = parent_process(), asyncio.get_running_loop()
    assert parent is not None
    pipe = parent.sentinel

    def gone() -> None:
        with suppress(ValueError):
            loop.remove_reader(pipe)
        daemon.cancel()

    loop.add_reader(pipe, gone)


def build_queue(args: argparse.Namespace) -> Queue:
    """Return the queue for `--queue`, not yet open. Raises WrongUse."""
    limits = {"--max-running-everywhere": args.max_running_everywhere, "--max-running-each": args.max_running_each}
    for option, most in limits.items():
        if most is not None and most < 1:
            raise WrongUse(f"{option} is {most}: use 1 or more")
    name, _, place = args.queue.partition(":")
    match name:
        case "dbos":
            from ..durable.dbos import Dbos

            everywhere, each = limits.values()
            return Dbos(place or _shared_store(args), running_in_all=everywhere, running_each=each)
        case "temporal":
            for option, most in limits.items():
                if most is not None:
                    raise WrongUse(f"{option} does not work with Temporal: limit each worker with --max-running")
            return _temporal(args.queue, args.lease)
        case _:
            raise WrongUse(f"--queue is {mask_url(args.queue)!r}: give {_FORMS}")


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


def _shared_store(args: argparse.Namespace) -> str:
    """Return the store if several processes can share it. Raises WrongUse."""
    store: str | None = args.store
    if store is None or file_at(store) is not None:
        raise WrongUse(
            "workers share a PostgreSQL database: give --store postgresql://USER:PASSWORD@HOST/DATABASE"
            + (f" (--store {store} is a file)" if store else "")
        )
    return store


@asynccontextmanager
async def keep_workers_alive(args: argparse.Namespace, count: int, died: Callable[[], None]) -> AsyncIterator[None]:
    """Keep `count` workers alive, with these options. `died` is called when one has died."""
    tasks = [asyncio.create_task(_keep_worker_alive(args, died), name="endstop worker process") for _ in range(count)]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _keep_worker_alive(args: argparse.Namespace, died: Callable[[], None]) -> None:
    pause = FIRST_PAUSE
    loop = asyncio.get_running_loop()
    while True:
        began = loop.time()
        process = multiprocessing.get_context("spawn").Process(
            target=_run_in_child, args=(args,), name="endstop worker"
        )
        process.start()
        try:
            await _wait_for_exit(process)
        finally:
            await _stop_worker(process, args.grace + LEAVING_SECONDS)
        log_warning("a worker process died", pid=process.pid, exit_code=process.exitcode)
        died()
        if loop.time() - began > LONGEST_PAUSE:
            pause = FIRST_PAUSE
        await asyncio.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE)


async def _wait_for_exit(process: BaseProcess) -> None:
    """Wait until the process has exited, without occupying a thread."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_reader(process.sentinel, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(process.sentinel)


async def _stop_worker(process: BaseProcess, seconds: float) -> None:
    if process.is_alive():
        process.terminate()
        try:
            await asyncio.wait_for(_wait_for_exit(process), seconds)
        except TimeoutError:
            process.kill()
    process.join()


def _run_in_child(args: argparse.Namespace) -> None:
    """Run a worker process: its main function."""
    harden_process()
    args.command = run_worker
    args.health_host, args.health_port = "", None  # the server answers for its workers
    code = run_command(args)
    exit_despite_hanging_threads(code)
    sys.exit(code)
