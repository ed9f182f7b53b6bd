"""An event loop in a thread, for the check of an agent that runs without one."""

from __future__ import annotations

import asyncio
import atexit
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")
ENDING_SECONDS = 8.0
"""Seconds that a check which is cancelled at the end may take to end its processes."""


class CheckThread:
    """A thread with an event loop. Its tasks go on while nobody waits, until `close` or the end of the process."""

    def __init__(self) -> None:
        self._began = threading.Event()
        self._thread = threading.Thread(target=asyncio.run, args=(self._serve(),), name="endstop check", daemon=True)
        self._thread.start()
        self._began.wait()
        atexit.register(self.close)

    def wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        """Run this in the thread, and return its result."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def close(self) -> None:
        """End the thread. A check that is still running is cancelled, and ends its processes."""
        atexit.unregister(self.close)
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._ended.set)
            self._thread.join(ENDING_SECONDS)

    async def _serve(self) -> None:
        self._loop, self._ended = asyncio.get_running_loop(), asyncio.Event()
        self._began.set()
        await self._ended.wait()
