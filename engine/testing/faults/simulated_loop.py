"""An event loop that counts its turns, and whose time moves on by itself.

A turn is one pass over what is ready to run. Time stands still during a turn; where nothing is ready, it jumps to the
next timer, so that an hour of waiting takes no time, and the same program makes the same turns each time.

What is outside of the loop takes real time: threads, sockets and processes. While there are any, the loop gives them up
to `OUTSIDE_SECONDS` before it moves time on.
"""

from __future__ import annotations

import asyncio
import selectors
import threading
from collections.abc import Awaitable, Callable
from typing import Any

from ...decision import WrongUse
from ...tools.user_functions import raised_by_code
from ..fakes import settle

OUTSIDE_SECONDS = 0.25
"""Real seconds that threads, sockets and processes get before simulated time moves on."""
OUTSIDE_AT_MOST = 30.0
"""Real seconds that they get where no timer is set at all."""
MOST_TURNS = 200_000
"""A program that makes more turns does not end."""
MOST_SECONDS = 7 * 24 * 3600.0
"""Simulated seconds; a program that takes longer does not end."""
LEFT_SECONDS = 15.0
"""Simulated seconds that tasks get to end by themselves after the program; a run waits up to 10 for what it left."""
CLOSING_TURNS = 10
"""Turns of the loop before it closes: a transport that was closed lets go of its socket one turn later."""
THREAD_SECONDS = 5.0
"""Real seconds that threads get to end by themselves after the loop."""
_OURS = "endstop event loop"
"""The thread that watches for blocked loops; it ends by itself once no tool has run for a while."""


class _Turns(selectors.DefaultSelector):
    """Asked once in each turn which sockets are ready."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: Callable[[float | None], list[Any]] | None = None

    def poll(self, seconds: float | None) -> list[Any]:
        """The sockets that are ready within these real seconds."""
        return super().select(seconds)

    def select(self, timeout: float | None = None) -> list[Any]:
        """One turn."""
        return self.poll(timeout) if self.asked is None else self.asked(timeout)


class SimulatedLoop(asyncio.SelectorEventLoop):
    """The loop of one program.

    at, fault: after so many turns (1 or more), `fault` is called once, between two turns.
    """

    def __init__(self, at: int | None = None, fault: Callable[[], None] | None = None) -> None:
        self._now = 0.0
        self.turns = 0
        """Turns so far."""
        self.stuck = ""
        """Why the loop has ended a program that does not end; empty if it has not."""
        self.ended_by: BaseException | None = None
        """The SystemExit or KeyboardInterrupt of a task that would have ended the process."""
        self._at, self._fault = at, fault
        self._interrupted = False
        self._selecting = _Turns()
        self._threads = set(threading.enumerate())
        super().__init__(self._selecting)
        self._selecting.asked = self._turn

    def time(self) -> float:
        """Simulated seconds since the loop was made."""
        return self._now

    def run(self, program: Awaitable[Any]) -> bool:
        """Run until it is done, or `interrupt` is called. Returns whether it is done; see `stuck` if it is not."""
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

    def interrupt(self) -> None:
        """Let `run` return, whether or not its program is done."""
        self._interrupted = True
        self.stop()

    def left(self) -> list[asyncio.Task[Any]]:
        """The tasks that have not ended, after they had the time to end by themselves."""
        self._after_the_program()
        if asyncio.all_tasks(self):
            self.run(asyncio.sleep(LEFT_SECONDS))
        return [task for task in asyncio.all_tasks(self) if not task.done()]

    def shut_down(self) -> None:
        """Cancel all tasks and wait for them, as the end of `asyncio.run` does."""
        self._after_the_program()
        tasks = asyncio.all_tasks(self)
        for task in tasks:
            task.cancel()
        if tasks:
            self.run(asyncio.wait(tasks))

    def end(self) -> list[threading.Thread]:
        """Close the loop. Returns the threads that have begun since it was made and do not end."""
        self._after_the_program()
        self.run(self.shutdown_asyncgens())
        self.run(settle(CLOSING_TURNS))
        executor = getattr(self, "_default_executor", None)
        if executor is not None:
            executor.shutdown(wait=False, cancel_futures=True)
        self.close()
        threads = self._begun()
        for thread in threads:
            thread.join(THREAD_SECONDS)
        return [thread for thread in threads if thread.is_alive()]

    def _after_the_program(self) -> None:
        self.stuck, self.turns, self._at, self._interrupted = "", 0, None, False

    def _begun(self) -> list[threading.Thread]:
        """Threads that are not of the test runner."""
        begun = set(threading.enumerate()) - self._threads
        return [thread for thread in begun if thread.name != _OURS]

    def _stop(self, future: asyncio.Future[Any]) -> None:
        self.stop()

    def _turn(self, seconds: float | None) -> list[Any]:
        """One turn: act on the fault, and wait this long for what is outside, in simulated time."""
        self.turns += 1
        if self.turns > MOST_TURNS:
            return self._end_stuck(f"it goes on after {MOST_TURNS:,} turns of the event loop")
        if self.turns == self._at and self._fault is not None:
            self._at = None
            self._fault()
            return self._selecting.poll(0)
        ready = self._selecting.poll(0)
        if ready or (seconds is not None and seconds <= 0):
            return ready
        if len(self._selecting.get_map()) > 1 or self._begun():
            ready = self._selecting.poll(OUTSIDE_AT_MOST if seconds is None else min(seconds, OUTSIDE_SECONDS))
            if ready:
                return ready
        if seconds is None:
            return self._end_stuck("it waits, and nothing is left that could wake it up")
        self._now += seconds
        if self._now > MOST_SECONDS:
            return self._end_stuck(f"it goes on after {MOST_SECONDS / 86400:.0f} simulated days")
        return []

    def _end_stuck(self, why: str) -> list[Any]:
        self.stuck = why
        self.stop()
        return []


def check_no_loop(name: str) -> None:
    """Raise WrongUse inside a running event loop: a check makes loops of its own."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise WrongUse(
        f"{name} makes event loops of its own, and cannot be called inside one: call it in a plain `def`, "
        f"or write `await asyncio.to_thread({name}, ...)`"
    )
