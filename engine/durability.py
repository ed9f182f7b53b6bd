"""The durable step: a piece of work that happens once, whatever becomes of the process that does it.

The engine asks for two kinds of them: the model's response of a step, and the run of a tool's call. Everything else is
decided anew from what they gave, because `decide` is a pure function.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal, Protocol

from msgspec import Struct


class StepKey(Struct, frozen=True):
    """Which step it is. Written as `run/step/call`, which no other step in the world is called."""

    session: str
    run: str
    step: int
    """From 1 in its run."""
    call: str = ""
    """The id of the tool's call; empty for the model's response."""

    def __str__(self) -> str:
        return f"{self.run}/{self.step}/{self.call}"


class RunLost(Exception):
    """Another process has this run now. Whoever gets this does nothing more for it, and writes nothing more of it."""


class ResultNotStored(Exception):
    """The work was done, but the engine cannot keep its result: it is too large, for example. The text says why."""


class Steps(Protocol):
    """The steps of one run, in the process that has the run now."""

    async def step(self, key: StepKey, work: Callable[[], Awaitable[Any]]) -> Any:
        """The result of this step: the kept one, or else that of `work`, which is kept before it is given.

        A result is whatever JSON holds: None, bool, int, float, str, lists and dicts with str as keys. It is kept at
        least until the run's next result is.
        `work` happens at most once in this process, and not at all if a result is kept. If it raises, or is
        cancelled, nothing is kept and the exception goes through as it is. Several may be under way at once.

        Raises RunLost, before `work` begins or after it has ended, if another process has the run now; and
        ResultNotStored.
        """
        ...


# The queue: runs that wait for a process, and the processes that take them.


class Job(Struct, frozen=True, kw_only=True):
    """A run that is to be made, or to go on. All that is needed besides stands in the store."""

    run_id: str
    session_id: str
    agent: str
    opening: Literal["prompt", "answer", "resume"]
    """What the run begins with. A run whose process died goes on in any case where it stood."""
    text: str = ""
    """The prompt, or the answer."""
    call_id: str = ""
    """With `answer`: whose question it answers."""
    heard: tuple[str, ...] = ()
    """Ids of messages that the prompt is made of."""


Work = Callable[[Job, Steps], Awaitable[None]]
"""Does a job, and returns once the store has the run's end. Raises RunLost if somebody else has the run."""


class Queue(Protocol):
    """A queue of runs, kept by a durable engine. Several processes may have it open at once."""

    async def open(self) -> None:
        """Connect, and make what the engine needs.

        Raises WrongUse for what can never work, ConnectionError if the engine is away.
        """
        ...

    async def close(self) -> None:
        """Let go of all connections."""
        ...

    async def submit(self, job: Job) -> None:
        """Put a run into the queue; returns once a crash cannot lose it.

        A run that is in the queue or in work already stays as it is; one whose work has ended gets in anew. Raises
        ConnectionError if the engine is away.
        """
        ...

    def working(self, process: str, work: Work, *, at_once: int) -> AbstractAsyncContextManager[None]:
        """While it is open: take jobs and do them in this event loop, `at_once` at the most.

        process: what this process is called; no other one was ever called so.
        Once it is being left nothing more is taken; leaving it waits for no work: what is unfinished is put back by
        `recover`, as that of a process that died.
        """
        ...

    async def recover(self, run_id: str) -> None:
        """Give a run whose process is dead to another one. For a run that is not in work it changes nothing."""
        ...

    async def drop(self, run_id: str) -> None:
        """Forget a run, its results included; one that is in work loses it (RunLost)."""
        ...
