"""An event loop for one command, and leaving the process though a tool's thread still hangs."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import threading
from collections.abc import Collection, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from time import monotonic
from types import FrameType, TracebackType
from typing import Any, Protocol

from .streams import flush_std_streams

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


def exit_despite_hanging_threads(code: int, others: Collection[threading.Thread] = ()) -> None:
    """End the process here if a thread would keep it alive; all that matters must be written by now.

    `others` are threads that were there before the command: they are their owner's, and no reason to leave.
    """
    flush_std_streams()
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


# Ctrl-C and SIGTERM: the first ends the run cleanly, the second leaves at once.
#
# A handler of Python's own, not the event loop's: it runs between two instructions of the main thread, so it is heard
# also while the loop is busy. And a wakeup descriptor, so that it is heard while the loop sleeps: a signal that comes
# just before `select` does not interrupt it.

INTERRUPT_EXIT_CODE = 130
_CAUSES = {signal.SIGINT: "interrupt", signal.SIGTERM: "shutdown"}


class Cancellable(Protocol):
    """A run, or what else can be ended."""

    @property
    def begun(self) -> bool:
        """Whether there is something to end."""
        ...

    def cancel(self, cause: str = ...) -> None:
        """End it."""
        ...


class ShutdownView(Protocol):
    """What a view does about a signal."""

    def show_stopping(self) -> None:
        """The user has asked to stop."""
        ...

    def restore_terminal(self) -> None:
        """Leave the terminal usable at once."""
        ...


class ShutdownSignals:
    """Hears the signals while it is entered, in the event loop; `attach` tells it which run they end."""

    def __init__(self, view: ShutdownView) -> None:
        self._view = view
        self._run: Cancellable | None = None
        self._heard = 0
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> ShutdownSignals:
        self._loop = asyncio.get_running_loop()
        if threading.current_thread() is threading.main_thread():
            self._wake, self._woken = socket.socketpair()
            for end in (self._wake, self._woken):
                end.setblocking(False)
            self._loop.add_reader(self._woken, self._woken.recv, 64)
            self._before_wake = signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)
            for number in _CAUSES:
                if signal.getsignal(number) is not signal.SIG_IGN:  # who started us wants it ignored, as `nohup` does
                    self._before[number] = signal.signal(number, self._hear)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if threading.current_thread() is threading.main_thread():
            for number, before in self._before.items():
                signal.signal(number, before)
            signal.set_wakeup_fd(self._before_wake)
            self._loop.remove_reader(self._woken)
            self._wake.close()
            self._woken.close()

    def attach(self, run: Cancellable) -> None:
        """From now on a signal ends this run."""
        self._run = run

    def _hear(self, number: int, frame: FrameType | None) -> None:
        self._heard += 1
        if self._heard > 1:
            self._view.restore_terminal()
            os._exit(INTERRUPT_EXIT_CODE)
        if self._run is None or not self._run.begun:
            raise KeyboardInterrupt  # nothing has begun: there is nothing to tidy up
        self._view.show_stopping()
        self._loop.call_soon_threadsafe(self._run.cancel, _CAUSES[signal.Signals(number)])
