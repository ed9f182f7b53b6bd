"""Naming who blocks the event loop.

An async function that computes or waits without giving way stops everything: no deadline and no cancellation can reach
it, because both need the loop. Nothing can be done about it from inside, but a thread can see it and say who it is.

One thread for the process looks at all loops in which functions that are not ours are running, and ends when none has
been for a while. It sees only code that holds neither the loop nor the interpreter's lock for ever: C code that does
the latter is not named.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Mapping
from time import monotonic, sleep
from typing import Any

from .._logging import log_warning

BLOCKED_SECONDS = 1.0
"""How long a loop may stand still before who holds it is named."""
TICK_SECONDS = 0.25
IDLE_TICKS = 8
"""After so many looks at which nothing ran the thread ends."""

_running: dict[asyncio.Task[Any], Mapping[str, object]] = {}
"""The tasks that run such functions, with what is to be said of them."""
_lock = threading.Lock()
_watching = False


class _Heartbeat:
    """A sign of life that was asked of a loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.asked = monotonic()
        self.answered = self.named = False
        loop.call_soon_threadsafe(self.answer)

    def answer(self) -> None:
        """The loop turns."""
        self.answered = True


def watch(task: asyncio.Task[Any], about: Mapping[str, object]) -> None:
    """Name this task, with `about`, in a warning should it hold its loop for longer than `BLOCKED_SECONDS`."""
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
    os.register_at_fork(after_in_child=_reset_after_fork)  # threads are not there in the child


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
            except RuntimeError:  # it is closed: what ran there runs no more
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
