"""The durable step: a piece of work that happens once, whatever becomes of the process that does it.

The engine asks for two kinds of them: the model's response of a step, and the run of a tool's call. Everything else is
decided anew from what they gave, because `decide` is a pure function.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

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


class LostRun(Exception):
    """Another process has this run now. Whoever gets this does nothing more for it, and writes nothing more of it."""


class NotKept(Exception):
    """The work was done, but the engine cannot keep its result: it is too large, for example. The text says why."""


class Steps(Protocol):
    """The steps of one run, in the process that has the run now."""

    async def step(self, key: StepKey, work: Callable[[], Awaitable[Any]]) -> Any:
        """The result of this step: the kept one, or else that of `work`, which is kept before it is given.

        A result is whatever JSON holds: None, bool, int, float, str, lists and dicts with str as keys. It is kept at
        least until the run's next result is.
        `work` happens at most once in this process, and not at all if a result is kept. If it raises, or is
        cancelled, nothing is kept and the exception goes through as it is. Several may be under way at once.

        Raises LostRun, before `work` begins or after it has ended, if another process has the run now; and NotKept.
        """
        ...
