"""An event loop for one command, and leaving the process though a tool's thread still hangs."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Collection, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from time import monotonic
from typing import Any

from .streams import flush

TIDY_SECONDS = 2.0
"""How long tasks that were left behind may take to end."""
THREAD_SECONDS = 0.2
"""How long threads that are done may take to end."""


def run_to_end(work: Coroutine[Any, Any, int], loop: asyncio.AbstractEventLoop | None = None) -> int:
    """Run the command's work. Like `asyncio.run`, but it never waits for a thread that hangs."""
    loop = loop or asyncio.new_event_loop()
    executor = ThreadPoolExecutor(thread_name_prefix="endstop")
    loop.set_default_executor(executor)
    try:
        asyncio.set_event_loop(loop)
        return loop.run_until_complete(work)
    finally:
        try:
            loop.run_until_complete(_tidy())
            loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            executor.shutdown(wait=False, cancel_futures=True)
            asyncio.set_event_loop(None)
            loop.close()


def leave_hanging_threads(code: int, others: Collection[threading.Thread] = ()) -> None:
    """End the process here if a thread would keep it alive; all that matters must be written by now.

    `others` are threads that were there before the command: they are their owner's, and no reason to leave.
    """
    flush()
    deadline = monotonic() + THREAD_SECONDS
    for thread in threading.enumerate():
        if thread not in others and thread is not threading.current_thread() and not thread.daemon:
            with suppress(KeyboardInterrupt):
                thread.join(max(0.0, deadline - monotonic()))
            if thread.is_alive():
                os._exit(code)


async def _tidy() -> None:
    left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in left:
        task.cancel()
    if left:
        await asyncio.wait(left, timeout=TIDY_SECONDS)
