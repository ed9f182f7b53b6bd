"""The workers that `endstop serve --workers N` starts, and starts again when one of them dies."""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from multiprocessing.process import BaseProcess

from ..process.shutdown import leave_hanging_threads
from .concealment import conceal
from .exit_codes import exit_code_of
from .worker import command

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
"""Seconds before a worker that died is started again; each is twice the one before, while it lives no longer."""
LEAVING_SECONDS = 10.0
"""How long workers may take to leave after their grace."""


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
    given.command = command
    code = exit_code_of(given)
    leave_hanging_threads(code)
    sys.exit(code)
