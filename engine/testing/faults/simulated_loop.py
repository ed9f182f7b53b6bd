"""Event loop that counts its turns, and whose time advances by itself.

A turn is one pass over everything that is ready to run. Time stands still during a turn; if nothing is ready, it jumps
to the next timer, so that an hour of waiting takes no time, and the same program makes the same turns each time.

Everything outside the loop takes real time: threads, sockets and processes. While there are any, the loop gives them
up to `OUTSIDE_SECONDS` before it advances time. It does not wait for an idle thread of an executor or of anyio, and
for a connection with both ends in the loop only until the kernel has delivered the sent data.
"""

from __future__ import annotations

import asyncio
import selectors
import socket
import sys
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

from ...decision import WrongUse
from ...tools.user_functions import raised_by_code
from ..fakes import settle

if sys.platform == "linux":
    from fcntl import ioctl

OUTSIDE_SECONDS = 0.25
"""Real seconds that threads, sockets and processes get before simulated time advances."""
WORKING_SECONDS = 5.0
"""Real seconds that a function in a thread pool gets: on a busy machine, a short one can take long."""
KERNEL_SECONDS = 0.01
"""Real seconds that connections with both ends in the loop get: the kernel delivers sent data at once."""
OUTSIDE_AT_MOST = 30.0
"""Real seconds that threads, sockets and processes get if the program waits for nothing else."""
MOST_TURNS = 200_000
"""Maximum number of turns; a program that makes more is assumed not to end."""
MOST_SECONDS = 7 * 24 * 3600.0
"""Maximum simulated seconds; a program that takes longer is assumed not to end."""
LEFT_SECONDS = 15.0
"""Simulated seconds that tasks get to end by themselves after the program; a run waits up to 10 for tasks that it
left."""
CLOSING_TURNS = 10
"""Number of turns before the loop closes: a closed transport releases its socket one turn later."""
THREAD_SECONDS = 5.0
"""Real seconds that threads get to end by themselves after the loop."""
_SIOCOUTQNSD = 0x894B
"""Linux's ioctl for the number of bytes that a socket has not sent yet (linux/sockios.h)."""
_OURS = "endstop event loop"
"""Name of the thread that watches for blocked loops; it ends by itself once no tool has run for a while."""
_EXECUTOR = "asyncio_"
"""Beginning of the names of asyncio's executor threads, which wait for work until the loop closes."""


class _Turns(selectors.DefaultSelector):
    """Selector that is asked once in each turn which sockets are ready."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: Callable[[float | None], list[Any]] | None = None

    def poll(self, seconds: float | None) -> list[Any]:
        """Return the sockets that are ready within these real seconds."""
        return super().select(seconds)

    def select(self, timeout: float | None = None) -> list[Any]:
        """Make one turn, and return the sockets that are ready."""
        return self.poll(timeout) if self.asked is None else self.asked(timeout)


class SimulatedLoop(asyncio.SelectorEventLoop):
    """Event loop of one program.

    at, fault: after this many turns (1 or more), `fault` is called once, between two turns. each_turn: called in each
    turn.
    """

    def __init__(
        self,
        at: int | None = None,
        fault: Callable[[], None] | None = None,
        each_turn: Callable[[], Any] = lambda: None,
    ) -> None:
        self._now = 0.0
        self.turns = 0
        """Turns so far."""
        self.stuck = ""
        """Why the loop has ended a program that does not end; empty if it has not."""
        self.ended_by: BaseException | None = None
        """SystemExit or KeyboardInterrupt of a task that would have ended the process."""
        self._at, self._fault, self._each_turn = at, fault, each_turn
        self._interrupted = False
        self._selecting = _Turns()
        self._threads = set(threading.enumerate())
        self._in_executor: set[asyncio.Future[Any]] = set()
        super().__init__(self._selecting)
        (self._wakes_us,) = self._selecting.get_map()
        self._selecting.asked = self._turn

    def time(self) -> float:
        """Return the simulated seconds since the loop was created."""
        return self._now

    def run(self, program: Awaitable[Any]) -> bool:
        """Run until the program is done or `interrupt` is called. Return whether it is done; if not, see `stuck`."""
        future = asyncio.ensure_future(program, loop=self)
        future.add_done_callback(self._stop)
        while not (future.done() or self.stuck or self._interrupted):
            try:
                self.run_forever()
            except (SystemExit, KeyboardInterrupt) as error:
                if not raised_by_code(error):
                    raise
                self.ended_by = self.ended_by or error
        return future.done()

    def run_in_executor(  # type: ignore[override]  # typeshed has its own generics
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """Run a function like any loop does, and remember it, so that the loop knows what to wait for."""
        future: asyncio.Future[Any] = super().run_in_executor(executor, func, *args)
        self._in_executor.add(future)
        future.add_done_callback(self._in_executor.discard)
        return future

    def interrupt(self) -> None:
        """Let `run` return, whether or not its program is done."""
        self._interrupted = True
        self.stop()

    def left(self) -> list[asyncio.Task[Any]]:
        """Return the unfinished tasks, after they had time to end by themselves."""
        self._after_the_program()
        if tasks := asyncio.all_tasks(self):
            self.run(asyncio.wait(tasks, timeout=LEFT_SECONDS))
        return [task for task in asyncio.all_tasks(self) if not task.done()]

    def shut_down(self) -> None:
        """Cancel all tasks and wait for them, as the end of `asyncio.run` does."""
        self._after_the_program()
        tasks = asyncio.all_tasks(self)
        for task in tasks:
            task.cancel()
        if tasks:
            self.run(asyncio.wait(tasks))

    def end(self) -> list[str]:
        """Close the loop. Return the connections that are still open, and the threads that do not end."""
        self._after_the_program()
        self.run(self.shutdown_asyncgens())
        self.run(settle(CLOSING_TURNS))
        left = self._abort_connections()
        self.run(settle(CLOSING_TURNS))
        executor = getattr(self, "_default_executor", None)
        if executor is not None:
            executor.shutdown(wait=False, cancel_futures=True)
        self.close()
        threads = [thread for thread in self._begun() if not self._is_of_older_pool(thread)]
        for thread in threads:
            thread.join(THREAD_SECONDS)
        return left + [f"thread {thread.name!r}" for thread in threads if thread.is_alive()]

    def _abort_connections(self) -> list[str]:
        """Abort open connections. Return them: those watched by the loop, and its other transports."""
        watched: set[Any] = {fd for fd in self._selecting.get_map() if fd != self._wakes_us}
        transports: Mapping[int, Any] = dict(getattr(self, "_transports", {}))
        paused = {fd for fd, transport in transports.items() if not transport.is_closing()}
        left = [_described(fd) for fd in sorted(watched | paused)]
        for fd in paused:
            transports[fd].abort()
        return left

    def _after_the_program(self) -> None:
        self.stuck, self.turns, self._at, self._interrupted = "", 0, None, False

    def _begun(self) -> list[threading.Thread]:
        """Return the threads that do not belong to the test runner."""
        begun = set(threading.enumerate()) - self._threads
        return [thread for thread in begun if thread.name != _OURS]

    def _is_of_older_pool(self, thread: threading.Thread) -> bool:
        """Return whether this is another thread of a pool that had some before the loop: such a pool is the process's.

        `concurrent.futures` names the threads of a pool PREFIX_0, PREFIX_1 and so on. Two pools may have the same
        prefix, so a number that existed before belongs to another pool.
        """
        before = {one.name for one in self._threads}
        prefix, _, number = thread.name.rpartition("_")
        return (
            number.isdigit()
            and thread.name not in before
            and f"{prefix}_0" in before
            and not thread.name.startswith(_EXECUTOR)
        )

    def _patience(self) -> float:
        """Return the real seconds to wait for input from outside the loop: from a socket, or from a working thread."""
        working = [thread for thread in self._begun() if _works(thread)]
        if any(not future.done() for future in self._in_executor) or any(hasattr(one, "queue") for one in working):
            return WORKING_SECONDS
        if working:
            return OUTSIDE_SECONDS
        sockets = [fd for fd in self._selecting.get_map() if fd != self._wakes_us]
        if not sockets:
            return 0.0
        return KERNEL_SECONDS if _within(sockets) else OUTSIDE_SECONDS

    def _stop(self, future: asyncio.Future[Any]) -> None:
        self.stop()

    def _turn(self, seconds: float | None) -> list[Any]:
        """Make one turn: trigger the fault, and wait this long in simulated time for input from outside."""
        self.turns += 1
        self._each_turn()
        if self.turns > MOST_TURNS:
            return self._end_stuck(f"it is still running after {MOST_TURNS:,} turns of the event loop")
        if self.turns == self._at and self._fault is not None:
            self._at = None
            self._fault()
            return self._selecting.poll(0)
        if seconds is not None and seconds <= 0:
            return self._selecting.poll(0)
        patience = self._patience()  # first, so that a thread that ends in between is waited for or noticed
        ready = self._selecting.poll(0)
        if ready:
            return ready
        if patience:
            ready = self._selecting.poll(OUTSIDE_AT_MOST if seconds is None else min(seconds, patience))
            if ready:
                return ready
        if seconds is None:
            return self._end_stuck("it waits, and nothing is left that could wake it up")
        self._now += seconds
        if self._now > MOST_SECONDS:
            return self._end_stuck(f"it is still running after {MOST_SECONDS / 86400:.0f} simulated days")
        return []

    def _end_stuck(self, why: str) -> list[Any]:
        self.stuck = why
        self.stop()
        return []


def _described(fd: int) -> str:
    """Return a description of a socket, for people."""
    try:
        end = socket.socket(fileno=fd)
    except OSError:
        return f"file descriptor {fd}"
    try:
        here = end.getsockname()
        with suppress(OSError):
            return f"connection from {here} to {end.getpeername()}"
        return f"socket at {here}"
    finally:
        end.detach()


def _works(thread: threading.Thread) -> bool:
    """Return whether a thread may have work. anyio's threads count unfinished work in their queue."""
    work = getattr(thread, "queue", None)
    return not thread.name.startswith(_EXECUTOR) and bool(getattr(work, "unfinished_tasks", True))


def _within(sockets: Iterable[Any]) -> bool:
    """Return whether all these sockets only listen, or are connected among each other and have sent all their data.

    The kernel may hold written data for 40 ms, until the other end has confirmed the data before it (Nagle).
    """
    if sys.platform != "linux":
        return False
    ours, theirs = set[Any](), set[Any]()
    for fd in sockets:
        try:
            end = socket.socket(fileno=fd)
        except OSError:  # a pipe of a process
            return False
        try:
            if not end.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                ours.add(end.getsockname())
                theirs.add(end.getpeername())
                if any(ioctl(fd, _SIOCOUTQNSD, bytes(4))):
                    return False
        except OSError:  # not connected yet
            return False
        finally:
            end.detach()
    return theirs <= ours


def check_no_loop(name: str) -> None:
    """Raise WrongUse inside a running event loop, because a check creates its own loops."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise WrongUse(
        f"{name} creates its own event loops, and cannot be called inside one: call it in a plain `def`, "
        f"or write `await asyncio.to_thread({name}, ...)`"
    )
