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

    ask: returns the answer. name: of its task. The threads and connections of a database that hangs are few, so a
    question that got no answer in time is not asked again beside the first.
    """

    def __init__(self, ask: Callable[[], Awaitable[T]], name: str) -> None:
        self._ask, self._name = ask, name
        self._asked: asyncio.Task[T] | None = None

    def task(self) -> asyncio.Task[T]:
        """Ask, unless it is being asked, and return the task that ends with the answer or an error."""
        if self._asked is None or self._asked.done():
            self._asked = asyncio.create_task(self._await(), name=self._name)
            self._asked.add_done_callback(_succeeded)  # its error is looked at, even if nobody asks again
        return self._asked

    async def answer(self) -> asyncio.Task[T]:
        """Return the task after `ANSWER_SECONDS` at most: not done if there is no answer in time."""
        asked = self.task()
        await asyncio.wait((asked,), timeout=ANSWER_SECONDS)
        return asked

    def close(self) -> None:
        """Wait for no answer any more."""
        if self._asked is not None:
            self._asked.cancel()

    async def _await(self) -> T:
        return await self._ask()


class Readiness:
    """The parts that a process depends on, each with a question that returns if it answers, and raises if it fails.

    seconds: in which a part has to answer.
    """

    def __init__(
        self, parts: Mapping[str, Callable[[], Awaitable[object]]], *, seconds: float = ANSWER_SECONDS
    ) -> None:
        self._questions = {name: BoundedQuestion(ask, f"endstop question {name}") for name, ask in parts.items()}
        self._seconds = seconds

    async def silent_parts(self) -> list[str]:
        """Return the names of the parts that do not answer in time or fail; empty if all work."""
        tasks = {name: question.task() for name, question in self._questions.items()}
        await asyncio.wait(tasks.values(), timeout=self._seconds)
        return [name for name, task in tasks.items() if not _succeeded(task)]

    def close(self) -> None:
        """Ask nothing any more, and wait for no answer."""
        for question in self._questions.values():
            question.close()


def _succeeded(task: asyncio.Task[Any]) -> bool:
    return task.done() and not task.cancelled() and task.exception() is None
