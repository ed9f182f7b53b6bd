"""The queue: runs that wait for a process, and the processes that take them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Literal, Protocol

from msgspec import Struct

from .durability import Steps


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
"""Does a job, and returns once the store has the run's end. Raises LostRun if somebody else has the run."""


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
        """Forget a run, its results included; one that is in work loses it (LostRun)."""
        ...
