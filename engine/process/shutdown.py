"""The end of a command: run its event loop, stop at Ctrl-C and SIGTERM, and exit even if a tool's thread hangs.

The first signal cancels the run, which then ends cleanly; the second ends the process at once. The handler is Python's
and not the event loop's, because it then runs between two bytecode instructions of the main thread, also while the loop
is busy. A wakeup descriptor wakes the loop while it sleeps: a signal just before `select` does not interrupt it.
"""

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

CANCEL_SECONDS = 2.0
"""Seconds that tasks which are still running at the end get to end after they are cancelled."""
THREAD_SECONDS = 0.2
"""Seconds to wait for threads to end before the process exits without them."""
INTERRUPT_EXIT_CODE = 130
"""The exit code of a process that was ended by Ctrl-C: 128 + SIGINT, as shells have it."""
_CAUSES = {signal.SIGINT: "interrupt", signal.SIGTERM: "shutdown"}


def run_to_end(work: Coroutine[Any, Any, int], loop: asyncio.AbstractEventLoop | None = None) -> int:
    """Run a command and return its exit code. Like `asyncio.run`, but never waits for a thread that hangs."""
    loop = loop or asyncio.new_event_loop()
    executor = ThreadPoolExecutor(thread_name_prefix="endstop")
    loop.set_default_executor(executor)
    try:
        asyncio.set_event_loop(loop)
        return loop.run_until_complete(work)
    finally:
        try:
            _cancel_tasks(loop)
            loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            executor.shutdown(wait=False, cancel_futures=True)
            asyncio.set_event_loop(None)
            loop.close()


def exit_despite_hanging_threads(code: int, others: Collection[threading.Thread] = ()) -> None:
    """Exit immediately if a thread would keep the process alive; otherwise return. All files must be written before.

    others: threads that existed before the command and belong to the caller; they are not waited for.
    """
    flush_std_streams()
    deadline = monotonic() + THREAD_SECONDS
    for thread in threading.enumerate():
        if thread not in others and thread is not threading.current_thread() and not thread.daemon:
            with suppress(KeyboardInterrupt):
                thread.join(max(0.0, deadline - monotonic()))
            if thread.is_alive():
                os._exit(code)


def _cancel_tasks(loop: asyncio.AbstractEventLoop) -> None:
    """Cancel all tasks and let them end, for `CANCEL_SECONDS` at most. Raises KeyboardInterrupt if one ends with it.

    A task hit by Ctrl-C passes its KeyboardInterrupt on to the tasks that wait for it, and each time that stops the
    loop. It is run again until all have ended: otherwise some would leave the terminal as they had set it.
    """
    left = asyncio.all_tasks(loop)
    interrupt: KeyboardInterrupt | None = None
    for task in left:
        task.cancel()
    while left:
        try:
            loop.run_until_complete(asyncio.wait(left, timeout=CANCEL_SECONDS))
            break
        except KeyboardInterrupt as error:
            interrupt = error
            left = {task for task in left if not task.done()}
    if interrupt is not None:
        raise interrupt


# ---- signals


class Cancellable(Protocol):
    """A run, or a process that serves runs."""

    @property
    def begun(self) -> bool:
        """Whether there is something to cancel."""
        ...

    def cancel(self, cause: str = ...) -> None:
        """Cancel it. `cause`: `interrupt` for Ctrl-C, `shutdown` for SIGTERM."""
        ...


class ShutdownView(Protocol):
    """What `ShutdownSignals` needs from the view that shows the run."""

    def show_stopping(self) -> None:
        """Show that the run is being stopped."""
        ...

    def restore_terminal(self) -> None:
        """Make the terminal usable again; the process ends directly afterwards."""
        ...


class ShutdownSignals:
    """Handler of SIGINT and SIGTERM inside its `with` block, which must run in the event loop's thread.

    The first signal cancels what was attached; if nothing was, it raises KeyboardInterrupt. The second one exits.
    """

    def __init__(self, view: ShutdownView) -> None:
        self._view = view
        self._run: Cancellable | None = None
        self._received = 0
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> ShutdownSignals:
        self._loop = asyncio.get_running_loop()
        if threading.current_thread() is threading.main_thread():
            self._wake, self._woken = socket.socketpair()
            for end in (self._wake, self._woken):
                end.setblocking(False)
            self._loop.add_reader(self._woken, self._wake_up)
            self._before_wake = signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)
            for number in _CAUSES:
                if signal.getsignal(number) is not signal.SIG_IGN:  # ignored by our parent, as `nohup` does
                    self._before[number] = signal.signal(number, self._handle)
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

    def _wake_up(self) -> None:
        """Run when a signal has come. Python handles the signal here: an idle uvloop runs no other bytecode."""
        self._woken.recv(64)

    def attach(self, run: Cancellable) -> None:
        """Cancel this run at the first signal from now on."""
        self._run = run

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self._received += 1
        if self._received > 1:
            self._view.restore_terminal()
            os._exit(INTERRUPT_EXIT_CODE)
        if self._run is None or not self._run.begun:
            raise KeyboardInterrupt  # nothing has begun, so there is nothing to clean up
        self._view.show_stopping()
        self._loop.call_soon_threadsafe(self._run.cancel, _CAUSES[signal.Signals(number)])
