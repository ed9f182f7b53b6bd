"""The process of a worker: it takes sessions from the queue until it is told to stop."""

from __future__ import annotations

import argparse
import asyncio
import sys
from contextlib import suppress
from multiprocessing import parent_process

from ...decision import WrongUse
from ..service.service import Service
from ..store.place import masked
from ..store.store import StoreError
from .channels import Channels
from .chosen import engine_of
from .interrupts import EXIT_CODE, Interrupts
from .queues import queue_of
from .standing import log_to_stderr


class Worker:
    """The process of `endstop worker`; also that of a worker which `endstop serve` has started."""

    begun = True

    def __init__(self, given: argparse.Namespace) -> None:
        if given.max_running < 1:
            raise WrongUse(f"--max-running is {given.max_running}: use 1 or more")
        if not (given.model or given.api_base or given.provider):
            raise WrongUse("a worker needs a model: name it with --model")
        self._given = given
        self._queue = queue_of(given)
        self._exit_code = 0
        self._stopping = asyncio.Event()
        self._service = Service(
            engine_of(given),
            store=given.store,
            grace=given.grace,
            max_running=given.max_running,
            queue=self._queue,
            lease=given.lease,
            kind="worker",
        )

    async def work(self) -> int:
        """Work until a signal; gives the exit code. Raises WrongUse."""
        log_to_stderr()
        channels = Channels()
        try:
            await self._service.__aenter__()
        except (StoreError, ConnectionError) as error:
            raise WrongUse(f"--store or --queue cannot be used: {error}") from None
        try:
            with Interrupts(self) as interrupts:
                interrupts.attach(self)
                self._watch_parent()
                if parent_process() is None:
                    channels.answer(f"endstop worker takes sessions from {masked(self._given.store)}\n")
                await self._stopping.wait()
        finally:
            await self._service.__aexit__(None, None, None)
        return self._exit_code

    def cancel(self, cause: str = "shutdown") -> None:
        """Begin to stop."""
        self._exit_code = EXIT_CODE if cause == "interrupt" else 0
        self._service.begin_stopping()
        self._stopping.set()

    def stopping(self) -> None:
        """Say that it is about to stop."""
        running = self._service.running
        if running:
            print(f"endstop: stopping; sessions that are running: {running}", file=sys.stderr, flush=True)

    def abandon(self) -> None:
        """There is no screen to leave."""

    def _watch_parent(self) -> None:
        """Stop when the server that has started this worker is gone."""
        parent = parent_process()
        if parent is not None:
            loop, pipe = asyncio.get_running_loop(), parent.sentinel

            def gone() -> None:
                with suppress(ValueError):
                    loop.remove_reader(pipe)
                self.cancel()

            loop.add_reader(pipe, gone)
