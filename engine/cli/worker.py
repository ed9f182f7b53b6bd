"""The process of a worker: it takes sessions from the queue until it is told to stop."""

from __future__ import annotations

import argparse
import asyncio
from contextlib import suppress
from multiprocessing import parent_process
from typing import Any

from ..decision import WrongUse
from ..process.daemon import Standing, logging_to_stderr, new_loop
from ..process.shutdown import Interrupts, run_to_end
from ..process.streams import Channels
from ..service.service import Service
from ..store.base import StoreError
from ..store.url import masked
from .agent import engine_of
from .factory import queue_of
from .options import add_agent, add_lease, add_queue, add_redaction, parser_of


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


# `endstop worker`: a process that takes sessions from the queue and runs them.

MAX_RUNNING = 100
GRACE_SECONDS = 10.0
_HELP = "take sessions from the queue and run them"
_EPILOG = """\
exit codes:
  0    stopped by SIGTERM; sessions that were still running after --grace go on in another worker
  2    wrong use: no PostgreSQL, a queue that is not there, a schema of a newer endstop
  130  stopped by Ctrl-C; a second one leaves at once

Give all workers the same model, tools and policy. `endstop serve --workers 0` on the same --store takes the requests
and shows the sessions.
"""


def add_to(commands: Any) -> None:
    """Add the command to the parser's subcommands."""
    parser = parser_of(commands, "worker", _HELP, command, _EPILOG)
    worker = parser.add_argument_group("worker")
    worker.add_argument("--store", metavar="S", help="the postgresql:// URL of the database that all share")
    worker.add_argument(
        "--max-running",
        type=int,
        default=MAX_RUNNING,
        metavar="N",
        help=f"sessions that this worker runs at once (default {MAX_RUNNING})",
    )
    add_queue(worker)
    add_lease(worker)
    worker.add_argument(
        "--grace",
        type=float,
        default=GRACE_SECONDS,
        metavar="S",
        help=f"seconds that running sessions get to end at a stop before others go on with them "
        f"(default {GRACE_SECONDS:g})",
    )
    add_agent(parser)
    add_redaction(parser.add_argument_group("what is kept"), "the store")


def command(given: argparse.Namespace) -> int:
    """Work until a signal; gives the exit code. Raises WrongUse."""
    return run_to_end(Worker(given).work(), new_loop())
