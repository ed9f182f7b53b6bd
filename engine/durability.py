"""What endstop needs of a durable engine, as protocols: durable steps, and a queue of runs.

A durable step is work whose result outlives the process: it is stored before it is used, and never computed twice. Two
kinds of work are durable steps: the model's response, and the execution of a tool call. Everything else is computed
again from their results, because `decide` is a pure function. The queue holds runs until a worker process claims them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal, Protocol

from msgspec import Struct

from .decision import Image, Message, WrongUse


class StepKey(Struct, frozen=True):
    """Identifies a durable step. Written as `run/step/call`, which is globally unique."""

    session: str
    run: str
    step: int
    """Number of the step in its run, from 1."""
    call: str = ""
    """Id of the tool call; empty for the model's response."""

    def __str__(self) -> str:
        return f"{self.run}/{self.step}/{self.call}"


class RunLost(Exception):
    """Another process owns this run now. This process must stop working on it and write no more of its events."""


class ProviderAway(RunLost):
    """The provider was away for as long as a run waits for it. The run has no end: its session can be resumed."""


class Ownership(Protocol):
    """The claim of this process to one run.

    The store alone decides whether it is valid;
    `docs/decisions/0017-the-store-says-who-owns-a-run-and-each-claim-has-a-token.md` says why. Each claim has a
    fencing token, a number that grows with each claim of the session. The store refuses what is written for a claim
    that is not the latest one, also if the same process has made both.
    """

    async def check(self) -> None:
        """Return once this process certainly owns the run. Raises RunLost if it no longer does.

        To be awaited before every side effect, as late as possible. Waits while nobody can tell.
        """
        ...


class ResumeRefused(WrongUse):
    """The run would go on differently from its record, and `strict_resume` forbids that. Nothing was written."""


class ResultNotStored(Exception):
    """The work was done, but the durable engine cannot store its result, because it is too large, for example."""


class Steps(Protocol):
    """The durable steps of one run, in the process that owns the run."""

    async def step(self, key: StepKey, work: Callable[[], Awaitable[Any]]) -> Any:
        """The stored result of this step; if there is none, the result of `work`, stored before it is returned.

        A result is what JSON can hold: None, bool, int, float, str, lists, and dicts with str keys. It stays stored at
        least until the run's next result is. `work` runs at most once in this process. If it raises or is cancelled,
        nothing is stored and the exception propagates. Several steps may run at the same time.

        Raises RunLost, before `work` starts or after it ended, if the engine has given the run to another execution,
        for which alone it keeps results; ResultNotStored. Who owns the run says its `Ownership`.
        """
        ...


class JobAnswer(Struct, frozen=True, kw_only=True):
    """The answer to an open question, as a job holds it."""

    call_id: str
    """Id of the call that asked the question."""
    text: str = ""
    """The answer in words, or the reason of a denial."""
    approved: bool | None = None
    """Whether it approves the call or denies it; None: an answer in words."""
    arguments: dict[str, Any] | None = None
    """With `approved`: the arguments that the call gets instead of the model's."""
    images: tuple[Image, ...] = ()
    """Images of an answer in words; the text has their marks."""


class Job(Struct, frozen=True, kw_only=True):
    """A run to start or to resume. Everything else that it needs is in the store."""

    run_id: str
    session_id: str
    agent: str
    opening: Literal["prompt", "answer", "resume"]
    """What the run begins with. A run whose process died resumes where it stopped, whatever this says."""
    text: str = ""
    """The prompt."""
    images: tuple[Image, ...] = ()
    """Images of the prompt."""
    history: tuple[Message, ...] = ()
    """With the first run of a session: the messages with which it begins."""
    answers: tuple[JobAnswer, ...] = ()
    """With `answer`: answers to open questions."""
    call_id: str = ""
    """With `answer`, in jobs of an older version: id of the call whose question `text` answers."""
    approved: bool | None = None
    """With `call_id`: as in `JobAnswer`."""
    arguments: dict[str, Any] | None = None
    """With `call_id`: as in `JobAnswer`."""
    heard: tuple[str, ...] = ()
    """Ids of the stored messages that make up the prompt."""


Work = Callable[[Job, Steps], Awaitable[None]]
"""Executes a job and returns once the end of the run is in the store. Raises RunLost."""


class Queue(Protocol):
    """A queue of runs in a durable engine. Several processes may use it at the same time."""

    async def open(self) -> None:
        """Connect, and create the tables or queues that the engine needs.

        Raises WrongUse for settings that can never work, ConnectionError if the engine cannot be reached.
        """
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...

    async def submit(self, job: Job) -> None:
        """Queue a run; returns once a crash can no longer lose it.

        A run that is queued or being executed already stays as it is; one that has ended is queued again. Raises
        ConnectionError if the engine cannot be reached.
        """
        ...

    def working(self, process: str, work: Work, *, at_once: int) -> AbstractAsyncContextManager[None]:
        """While the context is open: claim jobs, and execute up to `at_once` of them at a time in this event loop.

        process: a name of this process that was never used before.
        After it is left, no more jobs are claimed, and unfinished ones are not awaited: `recover` puts them back into
        the queue, as for a process that died.
        """
        ...

    async def recover(self, run_id: str) -> None:
        """Hand a run whose process died to another process. Does nothing for a run that is not being executed."""
        ...

    async def drop(self, run_id: str) -> None:
        """Delete a run and its stored results; a process that executes it gets RunLost."""
        ...
