"""Watchdog that logs a warning when a user's function blocks the event loop, and names the function.

An async function that computes or waits without yielding stops everything: deadlines and cancellations cannot reach it,
because both need the loop. Only another thread can notice.

One daemon thread per process watches all loops in which user functions run, and ends when there have been none for a
while. It cannot detect C code that never releases the GIL.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Mapping
from time import monotonic, sleep
from typing import Any

from ..providers._logging import log_warning

BLOCKED_SECONDS = 1.0
"""Seconds for which a loop may be blocked before the warning."""
TICK_SECONDS = 0.25
"""Seconds between checks of the loops."""
IDLE_TICKS = 8
"""Number of ticks without a task to watch after which the thread ends."""

_running: dict[asyncio.Task[Any], Mapping[str, object]] = {}
"""Watched tasks, each with the fields of its warning."""
_lock = threading.Lock()
_watching = False


class _Heartbeat:
    """A callback scheduled on a loop to check that the loop still runs."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.asked = monotonic()
        self.answered = self.named = False
        loop.call_soon_threadsafe(self.answer)

    def answer(self) -> None:
        """Note that the loop is not blocked. The loop calls this."""
        self.answered = True


def watch(task: asyncio.Task[Any], about: Mapping[str, object]) -> None:
    """Log a warning with `about` as its fields if this task blocks its loop for longer than `BLOCKED_SECONDS`."""
    global _watching
    _running[task] = about
    task.add_done_callback(_forget)
    with _lock:
        if not _watching:
            _watching = True
            threading.Thread(target=_watch_loops, name="endstop event loop", daemon=True).start()


def _forget(task: asyncio.Task[Any]) -> None:
    _running.pop(task, None)


def _reset_after_fork() -> None:
    global _watching
    _watching = False
    _running.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)  # a forked child has no other threads


def _watch_loops() -> None:
    global _watching
    beats: dict[asyncio.AbstractEventLoop, _Heartbeat] = {}
    idle = 0
    while True:
        sleep(TICK_SECONDS)
        loops = {task.get_loop() for task in list(_running)}
        beats = {loop: beat for loop, beat in beats.items() if loop in loops}
        idle = 0 if loops else idle + 1
        if idle > IDLE_TICKS:
            with _lock:
                if not _running:
                    _watching = False
                    return
        for loop in loops:
            try:
                _check_loop(loop, beats)
            except RuntimeError:  # the loop is closed, so its tasks no longer run
                for task in [task for task in list(_running) if task.get_loop() is loop]:
                    _forget(task)


def _check_loop(loop: asyncio.AbstractEventLoop, beats: dict[asyncio.AbstractEventLoop, _Heartbeat]) -> None:
    beat = beats.get(loop)
    if beat is None or beat.answered:
        beats[loop] = _Heartbeat(loop)
        return
    seconds = monotonic() - beat.asked
    if beat.named or seconds < BLOCKED_SECONDS:
        return
    task = asyncio.current_task(loop)
    about = None if task is None else _running.get(task)
    if task is not None and about is not None:
        beat.named = True
        log_warning(f"{task.get_name()} blocks the event loop: nothing else runs", seconds=round(seconds, 1), **about)
