"""Readiness: whether what a process depends on answers, such as its store and its queue."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

ANSWER_SECONDS = 1.0
"""Seconds in which a part has to answer."""


class Readiness:
    """The parts that a process depends on, each with a question that returns if it answers, and raises if it fails.

    seconds: in which a part has to answer. A part gets one question at a time, however often `silent_parts` is called:
    the threads and connections of a database that hangs are few.
    """

    def __init__(
        self, parts: Mapping[str, Callable[[], Awaitable[object]]], *, seconds: float = ANSWER_SECONDS
    ) -> None:
        self._parts = parts
        self._seconds = seconds
        self._asked: dict[str, asyncio.Task[None]] = {}

    async def silent_parts(self) -> list[str]:
        """Return the names of the parts that do not answer in time or fail; empty if all work."""
        tasks = {name: self._ask(name) for name in self._parts}
        await asyncio.wait(tasks.values(), timeout=self._seconds)
        return [name for name, task in tasks.items() if not _succeeded(task)]

    def _ask(self, name: str) -> asyncio.Task[None]:
        task = self._asked.get(name)
        if task is None or task.done():
            task = self._asked[name] = asyncio.create_task(_await(self._parts[name]), name=f"endstop question {name}")
            task.add_done_callback(_succeeded)  # its error is looked at, even if nobody asks again
        return task

    def close(self) -> None:
        """Ask nothing any more, and wait for no answer."""
        for task in self._asked.values():
            task.cancel()


async def _await(question: Callable[[], Awaitable[object]]) -> None:
    await question()


def _succeeded(task: asyncio.Task[None]) -> bool:
    return task.done() and not task.cancelled() and task.exception() is None
