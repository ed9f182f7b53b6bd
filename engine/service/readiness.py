"""Readiness: whether what a process depends on answers, such as its store and its queue."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Generic, TypeVar

ANSWER_SECONDS = 1.0
"""Seconds in which a part has to answer."""
T = TypeVar("T")


class BoundedQuestion(Generic[T]):
    """A question to something that may hang: one at a time, whose answer all who ask meanwhile get.

    ask: returns the answer. name: of its task. seconds: for which an answer is waited for; None: `ANSWER_SECONDS`. The threads and connections
    of a database that hangs are few, so a question that got no answer in time is not asked again beside the first.
    """

    def __init__(self, ask: Callable[[], Awaitable[T]], name: str, *, seconds: float | None = None) -> None:
        self._ask, self._name, self._seconds = ask, name, seconds
        self._asked: asyncio.Task[T] | None = None

    async def answer(self) -> asyncio.Task[T]:
        """Return the task of the question: done with the answer or an error, or not done if there is none in time."""
        asked = self._asked
        if asked is None or asked.done():
            asked = self._asked = asyncio.create_task(self._await(), name=self._name)
            asked.add_done_callback(_succeeded)  # its error is looked at, even if nobody asks again
        await asyncio.wait((asked,), timeout=ANSWER_SECONDS if self._seconds is None else self._seconds)
        return asked

    def close(self) -> None:
        """Wait for no answer any more."""
        if self._asked is not None:
            self._asked.cancel()

    async def _await(self) -> T:
        return await self._ask()


class Readiness:
    """The parts that a process depends on, each with a question that returns if it answers, and raises if it fails.

    seconds: in which a part has to answer; None: `ANSWER_SECONDS`.
    """

    def __init__(self, parts: Mapping[str, Callable[[], Awaitable[object]]], *, seconds: float | None = None) -> None:
        self._questions = {
            name: BoundedQuestion(ask, f"endstop question {name}", seconds=seconds) for name, ask in parts.items()
        }

    async def silent_parts(self) -> list[str]:
        """Return the names of the parts that do not answer in time or fail; empty if all work."""
        tasks = await asyncio.gather(*(question.answer() for question in self._questions.values()))
        return [name for name, task in zip(self._questions, tasks, strict=True) if not _succeeded(task)]

    def close(self) -> None:
        """Ask nothing any more, and wait for no answer."""
        for question in self._questions.values():
            question.close()


def _succeeded(task: asyncio.Task[Any]) -> bool:
    return task.done() and not task.cancelled() and task.exception() is None
