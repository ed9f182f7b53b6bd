"""Protocols for durable engines: durable steps, and a queue of runs.

A durable step is work whose result outlives the process: it is stored before it is used, and never computed twice. Two
kinds of work are durable steps: the model's response, and the execution of a tool call. Everything else is computed
again from their results, because `decide` is a pure function. The queue holds runs until a worker process claims them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal, Protocol, runtime_checkable

from .decision import Image, Message, WrongUse
from .decision.wrong_attributes import explained_attributes
from .decision.wrong_calls import ExplainedStruct


class StepKey(ExplainedStruct, frozen=True):
    """Identifier of a durable step. Written as `run/step/call`, which is globally unique."""

    session: str
    run: str
    step: int
    """Number of the step in its run, from 1."""
    call: str = ""
    """Id of the tool call; empty for the model's response."""

    def __str__(self) -> str:
        return f"{self.run}/{self.step}/{self.call}"


@explained_attributes
class RunLost(Exception):
    """Raised when another process owns this run. This process must stop working on it and write no more events."""


class ProviderAway(RunLost):
    """Raised when the provider was away for as long as a run waits. The run has no end: its session can be resumed."""


class Ownership(Protocol):
    """Claim of this process to one run.

    The store alone decides whether it is valid;
    `docs/decisions/0017-the-store-says-who-owns-a-run-and-each-claim-has-a-token.md` says why. Each claim has a
    fencing token, a number that grows with each claim of the session. The store refuses what is written for a claim
    that is not the latest one, even if the same process made both.
    """

    async def check(self) -> None:
        """Return once it is certain that this process owns the run. Raises RunLost if it no longer does.

        Await it before every side effect, as late as possible. It waits while ownership is uncertain.
        """
        ...


class ResumeRefused(WrongUse):
    """Raised when a run would differ from its record and `strict_resume` forbids that. Nothing was written."""


@explained_attributes
class ResultNotStored(Exception):
    """Raised when the durable engine cannot store the result of work that was done, for example for its size."""


class Steps(Protocol):
    """Durable steps of one run, in the process that owns the run."""

    async def step(self, key: StepKey, work: Callable[[], Awaitable[Any]]) -> Any:
        """Return the stored result of this step; if there is none, the result of `work`, stored before it is returned.

        A result is what JSON can hold: None, bool, int, float, str, lists, and dicts with str keys. It stays stored at
        least until the run's next result is. `work` runs at most once in this process. If it raises or is cancelled,
        nothing is stored and the exception propagates. Several steps may run at the same time.

        Raises RunLost, before `work` starts or after it ended, if the engine has given the run to another execution,
        for which alone it keeps results; ResultNotStored. The run's `Ownership` says who owns it.
        """
        ...


class JobAnswer(ExplainedStruct, frozen=True, kw_only=True):
    """Answer to an open question, as a job holds it."""

    call_id: str
    """Id of the call that asked the question."""
    text: str = ""
    """The answer in words, or the reason for a denial."""
    approved: bool | None = None
    """Whether the call is approved (True) or denied (False); None: an answer in words."""
    arguments: dict[str, Any] | None = None
    """With `approved`: the arguments that the call gets instead of the model's."""
    images: tuple[Image, ...] = ()
    """Images of an answer in words; the text has their marks."""


class Job(ExplainedStruct, frozen=True, kw_only=True):
    """A run to start or to resume. Everything else it needs is in the store."""

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
    """With the first run of a session: the messages that it begins with."""
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
    owner: str = ""
    """The owner of the session: queued runs begin by turns of their owners, in an engine that can do that."""


Work = Callable[[Job, Steps], Awaitable[None]]
"""Function that executes a job and returns once the end of the run is in the store. Raises RunLost."""


class GivenRun(ExplainedStruct, frozen=True):
    """A run that the queue gave to a process."""

    run_id: str
    at: int
    """When, in milliseconds since 1970 by the clock of the engine."""
    ended: bool
    """Whether the engine has stored the end of its work."""


@runtime_checkable
class Reachable(Protocol):
    """A queue that can be asked whether its engine answers."""

    async def ping(self) -> None:
        """Return once the engine has answered. Raises ConnectionError if it cannot be reached."""
        ...


DROPPED_AT_ONCE = 100
"""The most runs that endstop passes to one call of `Queue.drop`."""


class Queue(Protocol):
    """Queue of runs in a durable engine. Several processes may use it at the same time."""

    async def open(self) -> None:
        """Connect, and create the tables or queues that the engine needs.

        Raises WrongUse for settings that can never work, ConnectionError if the engine cannot be reached.
        """
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...

    async def submit(self, job: Job) -> None:
        """Queue a run, and return once a crash can no longer lose it.

        A run that is already queued or being executed is left unchanged; one that has ended is queued again. Raises
        ConnectionError if the engine cannot be reached.
        """
        ...

    def working(self, process: str, work: Work, *, at_once: int) -> AbstractAsyncContextManager[None]:
        """Claim jobs while the context is open, executing up to `at_once` of them at a time in this event loop.

        process: a name for this process that was never used before.
        After the context is left, no more jobs are claimed, and unfinished ones are not awaited: `recover` puts them
        back into the queue, as for a process that died.
        """
        ...

    async def recover(self, run_id: str) -> None:
        """Hand a run whose process died to another process. Does nothing if the run is not being executed."""
        ...

    async def lost(self, run_ids: Sequence[str], seconds: float) -> list[str]:
        """Return those of these runs that no process will execute unless they are recovered and submitted again.

        Such a run is unknown to the engine, has ended there, or was given to a process `seconds` ago or longer. The
        store says that nobody executes these runs: a process that was given one just now is about to begin.
        """
        ...

    async def given_to_others(self, processes: Sequence[str], after: GivenRun | None = None) -> list[GivenRun]:
        """Return a page of runs that were given to a process that is not one of these; empty: there are no more.

        A page has at most a hundred runs, in the order of `at` and then of ids. Runs that have ended are among them
        until they are dropped; runs that wait are not. after: the last run of the page before; None: the first page.
        An engine that itself gives the runs of a dead process to another one, and deletes what has ended, returns none.
        """
        ...

    async def drop(self, *run_ids: str) -> None:
        """Delete runs and their stored results. A process that executes one of them gets RunLost."""
        ...
